/* pool: freed blocks of small sizes stay with the thread that freed them.
 *
 * A message makes and drops about two thousand blocks in few sizes, in bursts that the C library's own cache of seven blocks for
 * each size does not hold. A block begins with a head of its own: to ask the C library for a block's size reads the head of the
 * next block too, which is in no cache. Not under sanitizers: they want to see each free. */
#include "base/base_private.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOLED false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define POOLED false
#endif
#endif
#ifndef POOLED
#define POOLED true
#endif

enum {
    STEP = 16,
    CLASSES = 65, /* class c holds 16 c bytes; 0: not kept */
    KEEP_BYTES = 16384,
    KEEP_LEAST = 16
};

struct head {
    size_t class;
    union {
        size_t size;       /* of a block in use: what it can hold */
        struct head *next; /* of a kept one */
    };
};
_Static_assert(sizeof(struct head) == STEP, "the payload must stay aligned");

static _Thread_local struct {
    struct head *first;
    size_t n;
} kept[CLASSES];
static _Thread_local bool known; /* this thread gives its blocks back when it ends */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void drop(void *unused)
{
    (void)unused;
    for (int c = 0; c < CLASSES; c++) {
        while (kept[c].first) {
            struct head *h = kept[c].first;
            kept[c].first = h->next;
            free(h);
        }
        kept[c].n = 0;
    }
    known = false;
}

static void make_key(void)
{
    if (pthread_key_create(&key, drop) != 0) {
        abort(); /* only at the very start, when the process has no keys left: nothing could run */
    }
}

static void *give(struct head *h, size_t class, size_t size)
{
    if (!h) {
        return NULL;
    }
    h->class = class;
    h->size = size;
    return h + 1;
}

static struct head *head_of(void *p)
{
    return (struct head *)p - 1;
}

void *mem_lib_alloc(size_t size)
{
    if (!POOLED) {
        return malloc(size ? size : 1);
    }
    if (size > PTRDIFF_MAX) { /* what follows adds to it */
        return NULL;
    }
    size_t c = size ? (size + STEP - 1) / STEP : 1;
    if (c >= CLASSES) {
        return give(malloc(sizeof(struct head) + size), 0, size);
    }
    struct head *h = kept[c].first;
    if (h) {
        kept[c].first = h->next;
        kept[c].n--;
    } else {
        h = malloc(sizeof *h + c * STEP);
    }
    return give(h, c, c * STEP);
}

void *mem_lib_zeroed(size_t size)
{
    enum { MANY = 32768 }; /* so many come zeroed from the kernel, mostly */
    if (size > MANY) {
        return !POOLED              ? calloc(1, size)
               : size > PTRDIFF_MAX ? NULL
                                    : give(calloc(1, sizeof(struct head) + size), 0, size);
    }
    void *p = mem_lib_alloc(size);
    return p ? memset(p, 0, size) : NULL;
}

void mem_lib_free(void *p)
{
    if (!p || !POOLED) {
        free(p);
        return;
    }
    struct head *h = head_of(p);
    size_t c = h->class;
    if (c == 0 || (kept[c].n >= KEEP_LEAST && kept[c].n * c * STEP >= KEEP_BYTES)) {
        free(h);
        return;
    }
    if (!known) {
        (void)pthread_once(&once, make_key);
        known = pthread_setspecific(key, kept) == 0;
    }
    h->next = kept[c].first;
    kept[c].first = h;
    kept[c].n++;
}

void *mem_lib_realloc(void *p, size_t size)
{
    if (!POOLED || !p) {
        return POOLED ? mem_lib_alloc(size) : realloc(p, size ? size : 1);
    }
    struct head *h = head_of(p);
    size_t now = h->size;
    if (h->class == 0 && size >= CLASSES * STEP) {
        return size > PTRDIFF_MAX ? NULL : give(realloc(h, sizeof *h + size), 0, size);
    }
    if (h->class && size <= now && (size > now / 2 || now <= 128)) {
        return p;
    }
    void *moved = mem_lib_alloc(size);
    if (moved) {
        memcpy(moved, p, now < size ? now : size);
        mem_lib_free(p);
    }
    return moved;
}

size_t mem_lib_size(void *p)
{
    return !p ? 0 : POOLED ? head_of(p)->size : malloc_usable_size(p);
}
