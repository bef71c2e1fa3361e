/* arena: bump allocation for one run.
 *
 * Blocks of 4 KiB double up to 64 KiB; a request larger than what a block would hold gets a
 * block of its own. Freed blocks of the two smallest sizes go to a small cache per thread,
 * because an arena per request is the rule here. */
#include "base/base_private.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    ALIGN = 16,
    BLOCK_MIN = 2048, /* an idle WebSocket keeps its request's arena */
    BLOCK_MAX = 65536,
    CACHE_CLASSES = 3,
    CACHE_BLOCKS = 32, /* per class: at most 448 KiB a thread */
};

struct block {
    struct block *next;
    size_t size; /* with this head */
};

struct defer {
    struct defer *next;
    void (*fn)(void *);
    void *arg;
};

struct arena {
    char *at, *end; /* free part of the current block */
    struct block *blocks;
    struct defer *defers;
    size_t max, used, next_size;
    bool failed;
};

_Static_assert(sizeof(struct block) % ALIGN == 0, "block heads keep the alignment");

/* ---- cache ----------------------------------------------------------------------------------- */

struct cache {
    struct block *free[CACHE_CLASSES];
    int n[CACHE_CLASSES];
    bool registered;
};

static _Thread_local struct cache cache;
static pthread_key_t cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void cache_drop(void *p)
{
    struct cache *c = p;
    for (int i = 0; i < CACHE_CLASSES; i++) {
        while (c->free[i]) {
            struct block *b = c->free[i];
            c->free[i] = b->next;
            mem_lib_free(b);
        }
        c->n[i] = 0;
    }
    c->registered = false;
}

static void cache_make_key(void)
{
    if (pthread_key_create(&cache_key, cache_drop) != 0) {
        abort(); /* only at the very start, when the process has no keys left: nothing could run */
    }
}

static int cache_class(size_t size)
{
    return size == BLOCK_MIN               ? 0
           : size == 2 * (size_t)BLOCK_MIN ? 1
           : size == 4 * (size_t)BLOCK_MIN ? 2
                                           : -1;
}

static struct block *block_get(size_t size)
{
    int k = cache_class(size);
    if (k >= 0 && cache.free[k]) {
        if (mem_must_fail()) {
            return NULL;
        }
        struct block *b = cache.free[k];
        cache.free[k] = b->next;
        cache.n[k]--;
        mem_count(1);
        return b;
    }
    struct block *b = mem_raw(size);
    if (b) {
        b->size = size;
    }
    return b;
}

static void block_put(struct block *b)
{
    int k = cache_class(b->size);
    /* Under the address sanitizer a cached block would hide uses after the arena's end. */
    if (BASE_ASAN || k < 0 || cache.n[k] >= CACHE_BLOCKS) {
        mem_free(b);
        return;
    }
    if (!cache.registered) {
        pthread_once(&cache_once, cache_make_key);
        if (pthread_setspecific(cache_key, &cache) != 0) {
            mem_free(b);
            return;
        }
        cache.registered = true;
    }
    b->next = cache.free[k];
    cache.free[k] = b;
    cache.n[k]++;
    mem_count(-1);
}

/* ---- arena ----------------------------------------------------------------------------------- */

struct arena *arena_new(size_t max)
{
    assert(max >= 1024);
    struct arena *a = new (struct arena);
    if (a) {
        a->max = max;
        a->next_size = BLOCK_MIN;
    }
    return a;
}

void arena_free(struct arena *a)
{
    if (!a) {
        return;
    }
    while (a->defers) { /* a deferred function may defer again */
        struct defer *d = a->defers;
        a->defers = d->next;
        d->fn(d->arg);
    }
    while (a->blocks) {
        struct block *b = a->blocks;
        a->blocks = b->next;
        block_put(b);
    }
    mem_free(a);
}

/* A block of its own for n bytes, put behind the current block, whose rest stays in use. */
static char *grow_own(struct arena *a, size_t n)
{
    struct block *own = n > SIZE_MAX - sizeof(*own) ? NULL : mem_raw(n + sizeof(*own));
    if (!own) {
        return NULL;
    }
    struct block **link = a->blocks ? &a->blocks->next : &a->blocks;
    own->size = n + sizeof(*own);
    own->next = *link;
    *link = own;
    return (char *)(own + 1);
}

/* Room for n bytes (a multiple of ALIGN) in a new block; NULL when memory ends. */
static char *grow(struct arena *a, size_t n)
{
    if (n > BLOCK_MAX / 4) {
        return grow_own(a, n);
    }
    while (a->next_size < n + sizeof(struct block)) {
        a->next_size *= 2;
    }
    struct block *b = block_get(a->next_size);
    if (!b) {
        return NULL;
    }
    b->next = a->blocks;
    a->blocks = b;
    char *p = (char *)(b + 1);
    a->at = p + n;
    a->end = (char *)b + b->size;
    if (a->next_size < BLOCK_MAX) {
        a->next_size *= 2;
    }
    return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t want = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (want < n || want > a->max - a->used) {
        a->failed = true;
        return NULL;
    }
    char *p;
    if (want <= (size_t)(a->end - a->at)) {
        p = a->at;
        a->at += want;
    } else {
        p = grow(a, want);
        if (!p) {
            a->failed = true;
            return NULL;
        }
    }
    a->used += want;
    return memset(p, 0, want);
}

bool arena_failed(const struct arena *a)
{
    return a->failed;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

bool arena_defer(struct arena *a, void (*fn)(void *), void *arg)
{
    struct defer *d = arena_alloc(a, sizeof(*d));
    if (!d) {
        return false;
    }
    *d = (struct defer){.next = a->defers, .fn = fn, .arg = arg};
    a->defers = d;
    return true;
}

static void drop_json(void *p)
{
    json_decref(p);
}

json_t *arena_json(struct arena *a, json_t *j)
{
    if (j && !arena_defer(a, drop_json, j)) {
        json_decref(j);
        return NULL;
    }
    return j;
}

void base_auto_arena(struct arena **pp)
{
    arena_free(*pp);
}
