/* mem, arena, buf, list, map: limits, failing allocations, nothing left behind. */
#include "base/base.h"

#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>

static void test_alloc_counts_and_zeroes(void **state)
{
    long live = mem_live();
    unsigned char *p = mem_alloc(1000);
    assert_non_null(p);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(p[i], 0);
    }
    assert_int_equal(mem_live(), live + 1);
    p = mem_realloc(p, 5000);
    assert_non_null(p);
    assert_int_equal(mem_live(), live + 1);
    char *z = mem_strndup("hello world", 5);
    assert_string_equal(z, "hello");
    void *none = mem_alloc(0);
    assert_non_null(none);
    assert_int_equal(mem_live(), live + 3);
    mem_free(none);
    mem_free(z);
    mem_free(p);
    mem_free(NULL);
    assert_int_equal(mem_live(), live);
}

static void test_fail_after(void **state)
{
    mem_fail_after(2, false);
    void *a = mem_alloc(1);
    void *b = mem_alloc(1);
    void *c = mem_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    mem_fail_after(1, true);
    assert_null(mem_realloc(a, 100));
    assert_null(mem_strndup("x", 1));
    mem_fail_after(0, false);
    mem_free(a);
    mem_free(c);
}

static void *alloc_elsewhere(void *arg)
{
    void *p = mem_alloc(1);
    bool ok = p != NULL;
    mem_free(p);
    auto_arena a = arena_new(100000); /* its blocks go to this thread's cache, which ends with it */
    ok = ok && arena_alloc(a, 10);
    return ok ? arg : NULL;
}

static void test_failure_is_per_thread(void **state)
{
    pthread_t thread;
    void *result = NULL;
    mem_fail_after(1, true);
    int rc = pthread_create(&thread, NULL, alloc_elsewhere, &result);
    mem_fail_after(0, false);
    assert_int_equal(rc, 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, &result);
}

static void *free_elsewhere(void *arg)
{
    mem_free(arg);
    return mem_alloc(40);
}

/* A block may end on another thread than it began; what a thread has counted is kept when it ends. */
static void test_blocks_cross_threads(void **state)
{
    long live = mem_live();
    for (int i = 0; i < 20; i++) {
        void *mine = mem_alloc(40), *theirs = NULL;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_elsewhere, mine), 0);
        pthread_join(thread, &theirs);
        assert_non_null(theirs);
        assert_int_equal(mem_live(), live + 1);
        mem_free(theirs);
        assert_int_equal(mem_live(), live);
    }
}

/* Every size up to beyond the pooled ones, grown and shrunk, holds what it was asked to hold. */
static void test_realloc_keeps_bytes(void **state)
{
    for (size_t n = 1; n < 3000; n += 13) {
        unsigned char *p = mem_lib_alloc(n);
        assert_non_null(p);
        assert_true(mem_lib_size(p) >= n);
        memset(p, (int)(n & 255), n);
        for (size_t to = n * 3; to > 0; to = to > n ? n / 2 : 0) {
            p = mem_lib_realloc(p, to);
            assert_non_null(p);
            assert_true(mem_lib_size(p) >= to);
            for (size_t i = 0; i < to && i < n / 2; i++) {
                assert_int_equal(p[i], n & 255);
            }
        }
        mem_lib_free(p);
    }
    unsigned char *a = mem_alloc(200);
    assert_non_null(a);
    memset(a, 0xff, 200);
    mem_free(a);
    a = mem_alloc(200); /* zeroed although it was used before */
    assert_non_null(a);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(a[i], 0);
    }
    mem_free(a);
    mem_lib_free(NULL);
    assert_int_equal(mem_lib_size(NULL), 0);
}

static void test_steal_and_auto(void **state)
{
    long live = mem_live();
    char *kept;
    {
        auto_mem char *p = mem_alloc(10);
        auto_mem char *gone = mem_alloc(10);
        auto_json j = json_object();
        assert_non_null(gone);
        assert_non_null(j);
        kept = steal(p);
        assert_null(p);
    }
    assert_int_equal(mem_live(), live + 1);
    mem_free(kept);
}

static void test_arena_basics(void **state)
{
    long live = mem_live();
    struct arena *a = arena_new(1 << 20);
    size_t sum = 0;
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *p = arena_alloc(a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(p[i], 0);
        }
        memset(p, 0xaa, n);
        sum += n;
        if (sum > 400000) {
            break;
        }
    }
    assert_true(arena_used(a) >= sum);
    /* Larger than any block, and the block in use goes on being used. */
    char *before = arena_alloc(a, 16);
    char *big = arena_alloc(a, 300000);
    char *after = arena_alloc(a, 16);
    assert_non_null(big);
    memset(big, 1, 300000);
    assert_ptr_equal(after, before + 16);
    assert_false(arena_failed(a));
    arena_free(a);
    arena_free(NULL);
    assert_int_equal(mem_live(), live);
}

static void test_arena_maximum(void **state)
{
    auto_arena a = arena_new(1024);
    assert_non_null(arena_alloc(a, 1000));
    assert_null(arena_alloc(a, 32));
    assert_true(arena_failed(a));
    assert_non_null(arena_alloc(a, 16)); /* what still fits is given, the mark stays */
    assert_true(arena_failed(a));
    assert_null(arena_alloc(a, SIZE_MAX));
    assert_null(arena_alloc(a, SIZE_MAX - 8));
    assert_null(str_fmt(a, "%s", "too long for what is left").p);
    assert_string_equal(z_fmt(a, "%s", "too long for what is left"), "");
}

static int order[3], order_n;
static void note(void *arg)
{
    order[order_n++] = *(int *)arg;
}

static void test_arena_defer(void **state)
{
    int one = 1, two = 2, three = 3;
    order_n = 0;
    struct arena *a = arena_new(4096);
    assert_true(arena_defer(a, note, &one));
    assert_true(arena_defer(a, note, &two));
    assert_true(arena_defer(a, note, &three));
    arena_free(a);
    assert_int_equal(order_n, 3);
    assert_int_equal(order[0], 3);
    assert_int_equal(order[2], 1);
}

static void test_arena_json(void **state)
{
    long live = mem_live();
    {
        auto_arena a = arena_new(4096);
        assert_null(arena_json(a, NULL));
        json_t *j = arena_json(a, json_pack("{s:i}", "a", 1));
        assert_int_equal(json_i_or(j, "a", 0), 1);
        assert_int_equal(j->refcount, 1);
    }
    {
        auto_arena a = arena_new(1024);
        assert_non_null(arena_alloc(a, 1024));
        assert_null(arena_json(a, json_object())); /* and the object is gone */
    }
    assert_int_equal(mem_live(), live);
}

/* Everything that takes memory, once; false when some of it failed. */
static bool use_everything(void)
{
    bool ok = true;
    struct arena *a = arena_new(1 << 20);
    if (!a) {
        return false;
    }
    order_n = 0;
    static int mark = 7;
    bool deferred = arena_defer(a, note, &mark);
    ok = ok && deferred;
    for (int i = 0; i < 30; i++) {
        ok = str_dup(a, S("some text of a request")).p && ok;
        ok = arena_alloc(a, 1000 * (size_t)i) && ok;
    }
    ok = arena_json(a, json_strn(S("bad \xff byte"))) && ok;
    auto_buf b = BUF(100000);
    for (int i = 0; i < 100; i++) {
        buf_fmt(&b, "line %d %s\n", i, "with some words in it");
    }
    ok = ok && !b.failed;
    struct map m = {0};
    for (int i = 0; i < 40; i++) {
        ok = map_put(&m, str_fmt(a, "key %d", i), &mark) && ok;
    }
    map_free(&m);
    struct error err;
    auto_json j = json_parse(S("{\"a\":[1,2.5,\"x\",null,true,{\"b\":\"c\"}]}"), &err);
    if (!j) {
        assert_int_equal(err.code, ERR_NOMEM);
    }
    ok = j && json_text(a, j).p && ok;
    arena_free(a);
    assert_int_equal(order_n, deferred ? 1 : 0);
    return ok;
}

static void test_every_allocation_fails_once(void **state)
{
    assert_true(
        use_everything()); /* jansson and the caches have their first allocations behind them */
    long live = mem_live();
    long n = 1;
    for (;; n++) {
        mem_fail_after(n, false);
        bool ok = use_everything();
        mem_fail_after(0, false);
        assert_int_equal(mem_live(), live);
        if (ok) {
            break;
        }
        mem_fail_after(n, true);
        assert_false(use_everything());
        mem_fail_after(0, false);
        assert_int_equal(mem_live(), live);
        assert_true(n < 1000);
    }
    assert_true(n > 30);
}

static void test_buf(void **state)
{
    auto_buf b = BUF(10);
    assert_string_equal(buf_cstr(&b), "");
    assert_true(buf_z(&b, "12345"));
    assert_true(buf_fmt(&b, "%d", 67890));
    assert_int_equal(b.n, 10);
    assert_string_equal(buf_cstr(&b), "1234567890"); /* full, and the NUL still fits */
    assert_true(buf_add(&b, NULL, 0));
    assert_false(buf_c(&b, 'x'));
    assert_true(b.failed);
    assert_false(buf_add(&b, NULL, 0));
    assert_string_equal(buf_cstr(&b), "");
    assert_true(str_eqz(buf_view(&b), "1234567890"));
    buf_clear(&b);
    assert_true(buf_z(&b, "abcdef"));
    buf_eat(&b, 2);
    assert_string_equal(buf_cstr(&b), "cdef");
    buf_eat(&b, 100);
    assert_int_equal(b.n, 0);
    assert_true(buf_u64(&b, 0) && buf_c(&b, ' ') && buf_u64(&b, 90210));
    assert_string_equal(buf_cstr(&b), "0 90210");
    assert_false(buf_u64(&b, 1234));
    buf_clear(&b);
    b.max = 20;
    assert_true(buf_u64(&b, UINT64_MAX));
    assert_string_equal(buf_cstr(&b), "18446744073709551615");
    buf_free(&b);
    b.max = 10;
    assert_false(buf_fmt(&b, "%s", "longer than ten"));
    assert_true(b.failed);
    struct buf none = {0};
    assert_false(buf_c(&none, 'x'));
    struct buf wide = BUF(SIZE_MAX);
    assert_true(buf_reserve(&wide, 100));
    assert_false(buf_reserve(&wide, SIZE_MAX - 1));
    buf_free(&wide);
    struct buf big = BUF(1 << 20);
    for (int i = 0; i < 1 << 20; i++) {
        assert_true(buf_c(&big, 'x'));
    }
    assert_false(buf_c(&big, 'x'));
    assert_int_equal(big.cap, 1 << 20);
    buf_free(&big);
}

struct item {
    int value;
    struct list node;
};

static void test_list(void **state)
{
    struct list head = {0};
    struct item items[4] = {{0}, {1}, {2}, {3}};
    assert_true(list_empty(&head));
    assert_null(list_pop(&head));
    list_each(it, &head)
    {
        fail();
    }
    list_del(&items[0].node); /* never linked */
    for (int i = 1; i < 4; i++) {
        list_push(&head, &items[i].node);
    }
    list_push_front(&head, &items[0].node);
    int expect = 0;
    list_each(it, &head)
    {
        struct item *item = container_of(it, struct item, node);
        assert_int_equal(item->value, expect++);
        if (item->value % 2) {
            list_del(it);
        }
    }
    assert_int_equal(expect, 4);
    list_del(&items[1].node); /* twice */
    assert_ptr_equal(list_pop(&head), &items[0].node);
    assert_ptr_equal(list_pop(&head), &items[2].node);
    assert_true(list_empty(&head));
    struct list zero = {0};
    list_push_front(&zero, &items[0].node);
    assert_false(list_empty(&zero));
}

static void test_map(void **state)
{
    long live = mem_live();
    struct map m = {.max = 1000};
    static int values[1000];
    char key[32];
    assert_null(map_get(&m, S("x")));
    assert_null(map_del(&m, S("x")));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++) {
            snprintf(key, sizeof(key), "%d-%d", round, i);
            assert_true(map_put(&m, str_c(key), &values[i]));
        }
        assert_false(map_put(&m, S("one too many"), values));
        assert_true(map_put(&m, str_c(key), &values[0])); /* replacing is not adding */
        assert_ptr_equal(map_get(&m, str_c(key)), &values[0]);
        assert_int_equal(m.n, 1000);
        size_t pos = 0, seen = 0;
        struct str k;
        void *v;
        while (map_next(&m, &pos, &k, &v)) { /* deleting what is at hand */
            seen++;
            struct str copy = k;
            snprintf(key, sizeof(key), STR_FMT, STR_ARG(copy));
            assert_ptr_equal(map_del(&m, str_c(key)), v);
            assert_null(map_get(&m, str_c(key)));
        }
        assert_int_equal(seen, 1000);
        assert_int_equal(m.n, 0);
        assert_true(m.cap <= 4096); /* deleted entries do not make it grow for ever */
    }
    assert_true(map_put(&m, S(""), values)); /* the empty key is a key */
    assert_true(map_put(&m, str_n("a\0b", 3), values + 1));
    assert_ptr_equal(map_get(&m, S("")), values);
    assert_null(map_get(&m, S("a")));
    assert_ptr_equal(map_get(&m, str_n("a\0b", 3)), values + 1);
    map_free(&m);
    assert_int_equal(m.max, 1000);
    map_free(&m);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_counts_and_zeroes),
        cmocka_unit_test(test_fail_after),
        cmocka_unit_test(test_failure_is_per_thread),
        cmocka_unit_test(test_blocks_cross_threads),
        cmocka_unit_test(test_realloc_keeps_bytes),
        cmocka_unit_test(test_steal_and_auto),
        cmocka_unit_test(test_arena_basics),
        cmocka_unit_test(test_arena_maximum),
        cmocka_unit_test(test_arena_defer),
        cmocka_unit_test(test_arena_json),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
