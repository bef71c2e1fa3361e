/* mem: the one allocator. A thin layer over pool.c that counts live blocks and can be told to
 * fail. */
#include "base/base_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Blocks that a thread made less those that it freed: a count of its own costs no locked instruction at each block. */
struct tally {
    struct tally *next;
    atomic_long n;
    bool known;
};

static pthread_mutex_t tally_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tally *tallies; /* of the threads that run */
static long ended;            /* those of ended threads together */
static pthread_key_t tally_key;
static pthread_once_t tally_once = PTHREAD_ONCE_INIT;
static _Thread_local struct tally tally;
static _Thread_local long fail_in;
static _Thread_local bool fail_repeat;
static _Thread_local unsigned long failures;

void mem_fail_after(long nth, bool repeat)
{
    fail_in = nth;
    fail_repeat = repeat;
}

static bool fail_now(void)
{
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

static inline bool must_fail(void)
{
    return __builtin_expect(fail_in != 0, 0) && fail_now();
}

bool mem_must_fail(void)
{
    return must_fail();
}

static void tally_end(void *p)
{
    struct tally *t = p;
    pthread_mutex_lock(&tally_lock);
    for (struct tally **at = &tallies; *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            break;
        }
    }
    ended += atomic_load_explicit(&t->n, memory_order_relaxed);
    atomic_store_explicit(&t->n, 0, memory_order_relaxed);
    t->known = false;
    pthread_mutex_unlock(&tally_lock);
}

static void tally_make_key(void)
{
    if (pthread_key_create(&tally_key, tally_end) != 0) {
        abort(); /* only at the very start, when the process has no keys left: nothing could run */
    }
}

/* The first block of a thread, in whose name it is counted from now on. */
static void tally_begin(long delta)
{
    (void)pthread_once(&tally_once, tally_make_key);
    bool known = pthread_setspecific(tally_key, &tally) == 0;
    pthread_mutex_lock(&tally_lock);
    if (known) {
        tally.next = tallies;
        tallies = &tally;
        tally.known = true;
        atomic_store_explicit(&tally.n, delta, memory_order_relaxed);
    } else {
        ended += delta; /* nobody would take the tally off the list when the thread ends */
    }
    pthread_mutex_unlock(&tally_lock);
}

static inline void count(long delta)
{
    if (__builtin_expect(!tally.known, 0)) {
        tally_begin(delta);
        return;
    }
    long n = atomic_load_explicit(&tally.n, memory_order_relaxed) + delta;
    atomic_store_explicit(&tally.n, n, memory_order_relaxed);
}

void mem_count(long delta)
{
    count(delta);
}

long mem_live(void)
{
    pthread_mutex_lock(&tally_lock);
    long sum = ended;
    for (const struct tally *t = tallies; t; t = t->next) {
        sum += atomic_load_explicit(&t->n, memory_order_relaxed);
    }
    pthread_mutex_unlock(&tally_lock);
    return sum;
}

unsigned long mem_failures(void)
{
    return failures;
}

static void *counted(void *p)
{
    if (p) {
        count(1);
    } else {
        failures++;
    }
    return p;
}

void *mem_alloc(size_t size)
{
    return counted(must_fail() ? NULL : mem_lib_zeroed(size));
}

void *mem_raw(size_t size)
{
    return counted(must_fail() ? NULL : mem_lib_alloc(size));
}

void *mem_realloc(void *p, size_t size)
{
    if (!p) {
        return mem_raw(size);
    }
    void *moved = must_fail() ? NULL : mem_lib_realloc(p, size);
    failures += !moved;
    return moved;
}

void mem_free(void *p)
{
    if (p) {
        count(-1);
        mem_lib_free(p);
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

static void *json_take(size_t size)
{
    if (must_fail() || size > PTRDIFF_MAX) {
        failures++;
        return NULL;
    }
    return counted(mem_lib_alloc(size));
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
        mem_free(p);
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
