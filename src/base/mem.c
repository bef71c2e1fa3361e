/* mem: the one allocator. A thin layer over malloc that counts live blocks and can be told to
 * fail. */
#include "base/base_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long live;
static _Thread_local long fail_in;
static _Thread_local bool fail_repeat;
static _Thread_local unsigned long failures;

void mem_fail_after(long nth, bool repeat)
{
    fail_in = nth;
    fail_repeat = repeat;
}

bool mem_must_fail(void)
{
    if (fail_in == 0) {
        return false;
    }
    if (fail_in > 1) {
        fail_in--;
        return false;
    }
    if (!fail_repeat) {
        fail_in = 0;
    }
    failures++;
    return true;
}

void mem_count(long delta)
{
    atomic_fetch_add_explicit(&live, delta, memory_order_relaxed);
}

long mem_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}

unsigned long mem_failures(void)
{
    return failures;
}

static void *counted(void *p)
{
    if (p) {
        mem_count(1);
    } else {
        failures++;
    }
    return p;
}

void *mem_alloc(size_t size)
{
    return counted(mem_must_fail() ? NULL : calloc(1, size ? size : 1));
}

void *mem_raw(size_t size)
{
    return counted(mem_must_fail() ? NULL : malloc(size ? size : 1));
}

void *mem_realloc(void *p, size_t size)
{
    if (!p) {
        return mem_raw(size);
    }
    void *moved = mem_must_fail() ? NULL : realloc(p, size ? size : 1);
    failures += !moved;
    return moved;
}

void mem_free(void *p)
{
    if (p) {
        mem_count(-1);
        free(p);
    }
}

char *mem_strndup(const char *p, size_t n)
{
    if (n == SIZE_MAX) {
        return NULL;
    }
    char *copy = mem_raw(n + 1);
    if (copy) {
        if (n) {
            memcpy(copy, p, n);
        }
        copy[n] = '\0';
    }
    return copy;
}

/* ---- jansson ---- */

static _Thread_local struct {
    char *p;
    size_t n, used;
} reserve;

void mem_reserve(char *p, size_t n)
{
    reserve.p = p;
    reserve.n = n;
    reserve.used = 0;
}

/* JSON values are made and dropped by the hundred for each message, in few sizes: each thread keeps some freed blocks of each size.
 * A block begins with its class; what one thread frees the next of that size on it takes. Not under sanitizers: they want to see
 * each free. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JSON_POOLED false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define JSON_POOLED false
#endif
#endif
#ifndef JSON_POOLED
#define JSON_POOLED true
#endif

enum { JSON_UNIT = 16, JSON_CLASSES = 16, JSON_KEEP = 128 };

struct json_block {
    size_t class; /* payload in units of JSON_UNIT; JSON_CLASSES and more: not kept */
    struct json_block *next;
};
_Static_assert(sizeof(struct json_block) == JSON_UNIT, "the payload must stay aligned");

static _Thread_local struct {
    struct json_block *first;
    int n;
} kept[JSON_CLASSES];
static _Thread_local bool kept_known; /* this thread gives its blocks back when it ends */
static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void kept_drop(void *unused)
{
    (void)unused;
    for (int c = 0; c < JSON_CLASSES; c++) {
        while (kept[c].first) {
            struct json_block *b = kept[c].first;
            kept[c].first = b->next;
            free(b);
        }
        kept[c].n = 0;
    }
}

static void kept_start(void)
{
    (void)pthread_key_create(&kept_key, kept_drop);
}

static void *json_take(size_t size)
{
    size_t class = (size + JSON_UNIT - 1) / JSON_UNIT;
    if (mem_must_fail() || size > PTRDIFF_MAX) {
        failures++;
        return NULL;
    }
    struct json_block *b = class < JSON_CLASSES ? kept[class].first : NULL;
    if (b) {
        kept[class].first = b->next;
        kept[class].n--;
    } else {
        b = malloc(sizeof *b + (class ? class : 1) * JSON_UNIT);
    }
    if (!counted(b)) {
        return NULL;
    }
    b->class = class;
    return b + 1;
}

static void json_give(void *p)
{
    struct json_block *b = (struct json_block *)p - 1;
    mem_count(-1);
    size_t class = b->class;
    if (!JSON_POOLED || class >= JSON_CLASSES || kept[class].n >= JSON_KEEP) {
        free(b);
        return;
    }
    if (!kept_known) {
        kept_known = true;
        (void)pthread_once(&kept_once, kept_start);
        (void)pthread_setspecific(kept_key, kept);
    }
    b->next = kept[class].first;
    kept[class].first = b;
    kept[class].n++;
}

static void *json_alloc(size_t size)
{
    void *p = json_take(size);
    bool buffer = size > 16 && (size & (size - 1)) == 0; /* how jansson's token buffer grows */
    if (!p && buffer && reserve.p && size <= reserve.n - reserve.used) {
        p = reserve.p + reserve.used;
        reserve.used += size;
    }
    return p;
}

static void json_free(void *p)
{
    uintptr_t at = (uintptr_t)p, low = (uintptr_t)reserve.p;
    if (p && (!reserve.p || at < low || at >= low + reserve.n)) {
        json_give(p);
    }
}

void base_init(void)
{
    json_set_alloc_funcs(json_alloc, json_free);
    /* jansson seeds its hash lazily otherwise, which two threads could do at once. */
    json_object_seed(0);
}

void base_auto_mem(void *pp)
{
    void *p;
    memcpy(&p, pp, sizeof(p));
    mem_free(p);
}

void base_auto_json(json_t **pp)
{
    json_decref(*pp);
}

void base_auto_fd(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}
