/* mem: the one allocator. A thin layer over malloc that counts live blocks and can be told to
 * fail. */
#include "base/base_private.h"

#include <errno.h>
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

static void *json_alloc(size_t size)
{
    void *p = mem_raw(size);
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
    if (!reserve.p || at < low || at >= low + reserve.n) {
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
