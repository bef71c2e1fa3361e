/* Metrics: what is counted, how it is written, what is bounded. */
#include "ops/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static int setup(void **state)
{
    base_init();
    return 0;
}

static int teardown(void **state)
{
    mem_fail_after(0, false);
    metrics_end();
    return 0;
}

static const char *text(void)
{
    static char copy[1 << 20];
    auto_buf b = BUF(sizeof(copy) - 1);
    assert_true(metrics_text(&b));
    snprintf(copy, sizeof(copy), "%s", buf_cstr(&b));
    return copy;
}

static void has(const char *line)
{
    if (!strstr(text(), line)) {
        fail_msg("no %s in\n%s", line, text());
    }
}

static void test_nothing(void **state)
{
    assert_string_equal(text(), "");
}

static void test_counter_and_gauge(void **state)
{
    struct metric *c = metric_new(METRIC_COUNTER, "things_total", "Things\nwith \\ in them", NULL);
    struct metric *g = metric_new(METRIC_GAUGE, "open", "Open \"doors\"", "kind");
    assert_string_equal(
        text(), "# HELP things_total Things\\nwith \\\\ in them\n# TYPE things_total counter\n"
                "things_total 0\n# HELP open Open \"doors\"\n# TYPE open gauge\n");
    metric_add(c, NULL, 1);
    metric_add(c, "ignored without a label", 2.5);
    metric_add(c, NULL, -1);
    metric_set(c, NULL, 100);
    metric_observe(c, NULL, 100);
    metric_add(c, NULL, NAN);
    metric_add(c, NULL, INFINITY);
    has("\nthings_total 3.5\n");
    metric_set(g, "a", 5);
    metric_add(g, "a", -7);
    metric_set(g, "q\"\\\n", 1e300);
    metric_set(g, NULL, 0.1);
    has("\nopen{kind=\"a\"} -2\n");
    has("\nopen{kind=\"q\\\"\\\\\\n\"} 1e+300\n");
    has("\nopen{kind=\"\"} 0.1\n");
    metric_add(c, NULL, 9007199254740993.0);
    has("\nthings_total 9007199254740996\n");
}

static void test_histogram(void **state)
{
    struct metric *h = metric_new(METRIC_HISTOGRAM, "wait_seconds", "Waiting", "who");
    metric_observe(h, "x", 0.001);
    metric_observe(h, "x", 0.003);
    metric_observe(h, "x", 500);
    metric_observe(h, "x", -1);
    metric_add(h, "x", 1);
    has("wait_seconds_bucket{who=\"x\",le=\"0.001\"} 2\n");
    has("wait_seconds_bucket{who=\"x\",le=\"0.0025\"} 2\n");
    has("wait_seconds_bucket{who=\"x\",le=\"0.005\"} 3\n");
    has("wait_seconds_bucket{who=\"x\",le=\"120\"} 3\n");
    has("wait_seconds_bucket{who=\"x\",le=\"+Inf\"} 4\n");
    has("wait_seconds_sum{who=\"x\"} 500.004\n");
    has("wait_seconds_count{who=\"x\"} 4\n");
    struct metric *plain = metric_new(METRIC_HISTOGRAM, "plain_seconds", "", NULL);
    metric_observe(plain, NULL, 1);
    has("plain_seconds_bucket{le=\"0.5\"} 0\nplain_seconds_bucket{le=\"1\"} 1\n");
    has("plain_seconds_sum 1\nplain_seconds_count 1\n");
}

static void test_registration(void **state)
{
    struct metric *a = metric_new(METRIC_COUNTER, "a", "x", "l");
    assert_ptr_equal(metric_new(METRIC_COUNTER, "a", "other words", "l"), a);
    assert_null(metric_new(METRIC_GAUGE, "a", "x", "l"));
    assert_null(metric_new(METRIC_COUNTER, "a", "x", "k"));
    assert_null(metric_new(METRIC_COUNTER, "a", "x", NULL));
    assert_null(metric_new(METRIC_COUNTER, "", "x", NULL));
    assert_null(metric_new(METRIC_COUNTER, "1a", "x", NULL));
    assert_null(metric_new(METRIC_COUNTER, "a-b", "x", NULL));
    assert_null(metric_new(METRIC_COUNTER, "b", "x", "l l"));
    metric_add(NULL, "x", 1);
    char name[32];
    size_t n = 1;
    do {
        snprintf(name, sizeof(name), "m%zu", n++);
    } while (metric_new(METRIC_GAUGE, name, "", NULL) && n < 100000);
    assert_int_equal(n, 513);
}

static void test_label_bounds(void **state)
{
    struct metric *m = metric_new(METRIC_COUNTER, "m_total", "", "l");
    char value[400];
    for (int i = 0; i < 1500; i++) {
        snprintf(value, sizeof(value), "v%d", i);
        metric_add(m, value, 1);
    }
    has("m_total{l=\"v0\"} 1\n");
    has("m_total{l=\"v999\"} 1\n");
    has("m_total{l=\"other\"} 500\n");
    assert_null(strstr(text(), "v1000"));
    metric_add(m, "v5", 1);
    has("m_total{l=\"v5\"} 2\n");

    struct metric *cut = metric_new(METRIC_COUNTER, "cut_total", "", "l");
    for (size_t i = 0; i < 100; i++) {
        memcpy(value + 3 * i, "語", 3);
    }
    value[300] = '\0';
    metric_add(cut, value, 1);
    value[126] = '\0';
    metric_add(cut, value, 1);
    metric_add(cut, "\xff", 1);
    has("語\"} 2\n");
    has("cut_total{l=\"invalid\"} 1\n");
}

static void *count(void *m)
{
    for (int i = 0; i < 5000; i++) {
        metric_add(m, i % 2 ? "a" : "b", 1);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct metric *m = metric_new(METRIC_COUNTER, "m_total", "", "l");
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, m), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    has("m_total{l=\"a\"} 10000\n");
    has("m_total{l=\"b\"} 10000\n");
}

static void test_failing_allocations(void **state)
{
    long before = mem_live();
    bool all = false;
    for (long nth = 1; !all; nth++) {
        mem_fail_after(nth, true);
        struct metric *m = metric_new(METRIC_COUNTER, "m_total", "help", "l");
        metric_add(m, "a", 1);
        struct metric *h = metric_new(METRIC_HISTOGRAM, "h", "help", NULL);
        metric_observe(h, NULL, 1);
        mem_fail_after(0, false);
        all = m && h && strstr(text(), "m_total{l=\"a\"} 1\n");
        metrics_end();
        assert_int_equal(mem_live(), before);
        assert_true(nth < 100);
    }
    metric_new(METRIC_COUNTER, "m_total", "help", NULL);
    auto_buf small = BUF(10);
    assert_false(metrics_text(&small));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_nothing),
        T(test_counter_and_gauge),
        T(test_histogram),
        T(test_registration),
        T(test_label_bounds),
        T(test_threads),
        T(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
