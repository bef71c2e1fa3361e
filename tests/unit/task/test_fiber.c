/* Fibers, groups, parking, deadlines, the loop's fairness. */
#include "unit/task/run.h"

#include <errno.h>
#include <fenv.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int give_back(void *arg)
{
    return *(int *)arg;
}

static void test_run_returns_value_and_can_run_again(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(task_run(give_back, &i), i);
        assert_null(task_loop());
    }
    assert_false(task_in_fiber());
}

static void count_up(void *arg)
{
    ++*(int *)arg;
}

FIBER_TEST(test_spawn_runs_soon_not_now)
{
    struct error err;
    int n = 0;
    struct task_group *g = group("g");
    CHECK(task_in_fiber() && task_loop());
    start(g, "count", count_up, &n);
    CHECK(n == 0 && task_group_count(g) == 1 && task_count() == 2);
    MUST(task_group_wait(g, &err));
    CHECK(n == 1 && task_group_count(g) == 0);
    MUST(task_group_wait(g, &err)); /* at once */
    task_group_free(g);
    task_group_free(NULL);
}

static int late_value;
static void later(void *arg)
{
    sleep_ms(30);
    late_value = 1;
}

static int leave_early(void *arg)
{
    start(task_own_group(), "later", later, NULL);
    return 0;
}

static void test_run_waits_for_the_first_group(void **state)
{
    late_value = 0;
    task_run(leave_early, NULL);
    assert_int_equal(late_value, 1);
}

static void wait_for_ever(void *arg)
{
    struct error err;
    MUST_FAIL(task_park(&err), ERR_CANCELED);
    if (arg) {
        ++*(int *)arg;
    }
}

FIBER_TEST(test_limits)
{
    struct error err;
    struct task_group *g = group("g");
    task_limit(5);
    for (int i = 0; i < 4; i++) {
        start(g, "w", wait_for_ever, NULL);
    }
    MUST_FAIL(task_spawn(g, "w", wait_for_ever, NULL, &err), ERR_CAPACITY);
    task_limit(20000);
    task_sys_fail_after(TASK_SYS_MMAP, 1, true, ENOMEM);
    MUST_FAIL(task_spawn(g, "w", wait_for_ever, NULL, &err), ERR_NOMEM);
    task_sys_fail_after(TASK_SYS_MMAP, 0, false, 0);
    mem_fail_after(1, false);
    CHECK(!task_group_new(NULL, "none"));
    mem_fail_after(0, false);
    CHECK(task_group_count(g) == 4);
    task_group_free(g);
}

/* ---- ten thousand ---------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
enum { RING = 500, ROUNDS = 20 }; /* a fiber costs that tool dozens of mappings */
#else
enum { RING = 10000, ROUNDS = 20 };
#endif
static struct task *ring[RING];
static int ring_turns;

static void ring_member(void *arg)
{
    struct error err;
    size_t i = (size_t)(struct task **)arg - (size_t)ring;
    i /= sizeof(ring[0]);
    ring[i] = task_self();
    for (int round = 0; round < ROUNDS; round++) {
        MUST(task_park(&err));
        ring_turns++;
        if (ring[(i + 1) % RING]) {
            task_wake(ring[(i + 1) % RING]);
        }
    }
    ring[i] = NULL;
}

FIBER_TEST(test_ten_thousand_fibers_pass_a_token)
{
    struct error err;
    struct task_group *g = group("ring");
    ring_turns = 0;
    for (int i = 0; i < RING; i++) {
        start(g, "member", ring_member, &ring[i]);
    }
    while (!ring[RING - 1]) {
        task_yield();
    }
    task_wake(ring[0]);
    MUST(task_group_wait(g, &err));
    CHECK(ring_turns == RING * ROUNDS);
    struct task_stats stats;
    task_stats_get(&stats);
    CHECK(stats.fibers_peak == RING + 1 && stats.fibers == 1 && stats.stacks_pooled <= 256);
    task_group_free(g);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

FIBER_TEST(test_cancel_reaches_groups_below)
{
    struct error err;
    int ended = 0;
    struct task_group *top = group("top");
    struct task_group *mid = task_group_new(top, "mid"), *side = task_group_new(top, "side");
    struct task_group *low = task_group_new(mid, "low"), *other = group("other");
    start(top, "w", wait_for_ever, &ended);
    start(mid, "w", wait_for_ever, &ended);
    start(side, "w", wait_for_ever, &ended);
    start(low, "w", wait_for_ever, &ended);
    start(other, "w", wait_for_ever, &ended);
    settle();
    CHECK(task_group_count(top) == 4 && task_group_count(mid) == 2);
    task_group_cancel(mid);
    task_group_cancel(mid);
    settle();
    CHECK(ended == 2 && task_group_count(top) == 2);
    MUST_FAIL(task_spawn(low, "w", wait_for_ever, NULL, &err), ERR_CANCELED);
    struct task_group *late = task_group_new(low, "late"); /* born cancelled */
    MUST_FAIL(task_spawn(late, "w", wait_for_ever, NULL, &err), ERR_CANCELED);
    task_group_free(top); /* those below live on under its parent, empty */
    CHECK(ended == 4);
    task_group_free(low);
    task_group_free(late);
    task_group_free(side);
    task_group_free(mid);
    task_group_free(other);
    CHECK(ended == 5);
}

static void check_every_wait(void *arg)
{
    struct error err;
    struct task_mutex m = {0};
    struct task_sem sem;
    struct task_cond c = {0};
    void *item;
    task_sem_init(&sem, 1);
    task_group_cancel(task_own_group());
    CHECK(task_canceled());
    MUST_FAIL(task_park(&err), ERR_CANCELED);
    MUST_FAIL(task_sleep_ms(1, &err), ERR_CANCELED);
    MUST_FAIL(task_sleep_ms(0, &err), ERR_CANCELED);
    MUST_FAIL(task_lock(&m, &err), ERR_CANCELED); /* even what would not have to wait */
    MUST_FAIL(task_sem_take(&sem, &err), ERR_CANCELED);
    MUST_FAIL(task_cond_wait(&c, &err), ERR_CANCELED);
    MUST_FAIL(task_chan_recv(arg, &item, &err), ERR_CANCELED);
    MUST_FAIL(task_chan_send(arg, item, &err), ERR_CANCELED);
    MUST_FAIL(task_fd_wait(0, TASK_READ, &err), ERR_CANCELED);
    MUST_FAIL(task_work(count_up, NULL, &err), ERR_CANCELED);
    MUST_FAIL(task_signal_wait(1u << 10, &err), ERR_CANCELED);
    task_yield();
    task_shield(true);
    CHECK(!task_canceled());
    MUST(task_lock(&m, &err));
    MUST(task_sleep_ms(2, &err));
    task_unlock(&m);
    task_shield(false);
    MUST_FAIL(task_sleep_ms(1, &err), ERR_CANCELED);
}

FIBER_TEST(test_each_wait_refuses_once_cancelled)
{
    struct error err;
    struct task_group *g = group("g");
    struct task_chan *c = task_chan_new(1);
    CHECK(task_chan_try_send(c, c));
    start(g, "check", check_every_wait, c);
    MUST(task_group_wait(g, &err));
    task_group_free(g);
    task_chan_free(c);
}

static void shielded_park(void *arg)
{
    struct error err;
    task_shield(true);
    MUST(task_park(&err));
    struct task_deadline d;
    task_deadline_push(&d, 5);
    MUST_FAIL(task_park(&err), ERR_TIMEOUT); /* deadlines count under the shield */
    task_deadline_pop(&d);
    *(bool *)arg = true;
    task_shield(false);
    MUST_FAIL(task_park(&err), ERR_CANCELED);
}

static struct task *self_of_last;
static void shielded_park_known(void *arg)
{
    self_of_last = task_self();
    shielded_park(arg);
}

FIBER_TEST(test_shield)
{
    bool done = false;
    struct task_group *g = group("g");
    start(g, "shielded", shielded_park_known, &done);
    settle();
    task_group_cancel(g);
    settle();
    CHECK(task_group_count(g) == 1 && !done);
    task_wake(self_of_last);
    task_group_free(g);
    CHECK(done);
}

/* ---- park and wake --------------------------------------------------------------------------- */

static void parker(void *arg)
{
    struct error err;
    struct task_mutex *m = arg;
    self_of_last = task_self();
    MUST(task_lock(m, &err)); /* woken by task_wake meanwhile: must not end this wait ... */
    task_unlock(m);
    MUST(task_park(&err)); /* ... and is remembered here */
    struct task_deadline d;
    task_deadline_push(&d, 10);
    MUST_FAIL(task_park(&err), ERR_TIMEOUT); /* once */
    task_deadline_pop(&d);
}

FIBER_TEST(test_wake_is_remembered_once)
{
    struct error err;
    struct task_mutex m = {0};
    struct task_group *g = group("g");
    MUST(task_lock(&m, &err));
    start(g, "parker", parker, &m);
    settle();
    task_wake(self_of_last);
    task_wake(self_of_last);
    settle();
    CHECK(task_group_count(g) == 1);
    task_unlock(&m);
    MUST(task_group_wait(g, &err));
    task_group_free(g);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

FIBER_TEST(test_deadlines_nest)
{
    struct error err;
    struct task_deadline outer, inner;
    int64_t began = time_mono_us();
    task_deadline_push(&outer, 20);
    task_deadline_push(&inner, 10000);
    MUST_FAIL(task_sleep_ms(5000, &err), ERR_TIMEOUT); /* the outer one is earlier */
    CHECK(time_mono_us() - began >= 20000 && time_mono_us() - began < 4000000);
    task_deadline_pop(&inner);
    MUST_FAIL(task_sleep_ms(1, &err), ERR_TIMEOUT);
    task_deadline_pop(&outer);
    MUST(task_sleep_ms(1, &err));

    task_deadline_push(&outer, 10000);
    task_deadline_push(&inner, 5);
    MUST_FAIL(task_park(&err), ERR_TIMEOUT);
    task_deadline_pop(&inner);
    MUST(task_sleep_ms(1, &err)); /* the outer one has time left */
    task_deadline_push(&inner, 0);
    MUST_FAIL(task_sleep_ms(0, &err), ERR_TIMEOUT);
    task_deadline_pop(&inner);
    task_deadline_push(&inner, INT64_MAX);
    MUST(task_sleep_ms(1, &err));
    task_deadline_pop(&inner);
    task_deadline_pop(&outer);
}

FIBER_TEST(test_deadline_follows_a_shifted_clock)
{
    struct error err;
    struct task_deadline d;
    task_deadline_push(&d, 3600 * 1000);
    time_shift_us(0, 7200 * 1000000LL);
    MUST_FAIL(task_park(&err), ERR_TIMEOUT);
    task_deadline_pop(&d);
    time_shift_us(0, -7200 * 1000000LL);
}

FIBER_TEST(test_hold_ignores_both)
{
    struct error err;
    struct task_deadline d;
    struct task_hold hold;
    task_deadline_push(&d, 0);
    task_hold_begin(&hold);
    MUST(task_sleep_ms(5, &err));
    task_hold_end(&hold);
    MUST_FAIL(task_sleep_ms(5, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
}

static void wait_short(void *arg)
{
    struct error err;
    struct task_deadline d;
    task_deadline_push(&d, 10);
    MUST_FAIL(task_group_wait(arg, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
}

static void wait_cancelled(void *arg)
{
    struct error err;
    MUST_FAIL(task_group_wait(arg, &err), ERR_CANCELED);
}

static void sleep_cancelled(void *arg)
{
    struct error err;
    int64_t began = time_mono_us();
    MUST_FAIL(task_sleep_ms(60000, &err), ERR_CANCELED);
    CHECK(time_mono_us() - began < 30000000);
}

FIBER_TEST(test_group_wait_with_deadline_and_cancel)
{
    struct error err;
    struct task_group *g = group("g"), *h = group("h");
    start(g, "w", wait_for_ever, NULL);
    start(h, "short", wait_short, g);
    MUST(task_group_wait(h, &err));
    start(h, "cancelled", wait_cancelled, g);
    start(h, "sleeper", sleep_cancelled, NULL);
    settle();
    task_group_free(h);
    CHECK(task_group_count(g) == 1);
    task_group_free(g);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void spin(void *arg)
{
    while (!task_canceled()) {
        task_yield();
    }
}

static void pipe_writer(void *arg)
{
    struct error err;
    for (int i = 0; i < 50; i++) {
        MUST(task_write_all(*(int *)arg, "x", 1, &err));
        task_yield();
    }
}

FIBER_TEST(test_spinning_fibers_do_not_starve_descriptors_and_timers)
{
    struct error err;
    struct task_group *g = group("spin");
    int fds[2];
    CHECK(task_sys_pipe(fds) == 0);
    for (int i = 0; i < 10; i++) {
        start(g, "spin", spin, NULL);
    }
    start(g, "writer", pipe_writer, &fds[1]);
    for (int i = 0; i < 50; i++) {
        char c;
        MUST(task_fd_wait(fds[0], TASK_READ, &err));
        CHECK(task_read(fds[0], &c, 1, &err) == 1);
    }
    sleep_ms(20);
    task_group_free(g);
    close(fds[0]);
    close(fds[1]);
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

FIBER_TEST(test_an_idle_loop_sleeps)
{
    struct task_group *g = group("g");
    for (int i = 0; i < 100; i++) {
        start(g, "w", wait_for_ever, NULL);
    }
    settle();
    double before = cpu_ms();
    sleep_ms(400);
    CHECK(cpu_ms() - before < 100);
    task_group_free(g);
}

static void round_up(void *arg)
{
    fesetround(FE_UPWARD);
    for (int i = 0; i < 100; i++) {
        task_yield();
        CHECK(fegetround() == FE_UPWARD);
    }
}

FIBER_TEST(test_rounding_mode_is_a_fibers_own)
{
    struct error err;
    struct task_group *g = group("g");
    start(g, "up", round_up, NULL);
    for (int i = 0; i < 100; i++) {
        task_yield();
        CHECK(fegetround() == FE_TONEAREST);
    }
    MUST(task_group_wait(g, &err));
    task_group_free(g);
}

static void __attribute__((noinline)) use_stack(int depth)
{
    volatile char block[4000];
    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = (char)depth;
    }
    if (depth > 0) {
        use_stack(depth - 1);
    }
    CHECK(block[17] == (char)depth);
}

#if defined(PARLEY_UCONTEXT)
enum { TRIMS = 0 }; /* that switch does not tell where a stack ends */
#else
enum { TRIMS = 1 };
#endif

static bool in_memory(void *page)
{
    unsigned char is = 0;
    CHECK(mincore(page, 1, &is) == 0);
    return is & 1;
}

/* Writes the stack down to 40 KiB below `mine`; a page of that which is not in use any more. */
static void *deep_page(const char *mine)
{
    use_stack(9);
    uintptr_t below = (uintptr_t)mine - 30000;
    void *page = (void *)(below - below % (uintptr_t)sysconf(_SC_PAGESIZE));
    CHECK(!TRIMS || in_memory(page));
    return page;
}

static void deep_then_wait(void *arg)
{
    void **page = arg;
    char mine[256];
    memset(mine, 0x5a, sizeof(mine));
    *page = deep_page(mine);
    wait_for_ever(NULL);
    for (size_t i = 0; i < sizeof(mine); i++) {
        CHECK(mine[i] == 0x5a);
    }
    use_stack(9);
}

FIBER_TEST(test_long_parked_fibers_give_back_their_stacks)
{
    enum { N = 500 };
    static void *pages[N];
    struct task_group *g = group("g");
    for (int i = 0; i < N; i++) {
        start(g, "deep", deep_then_wait, &pages[i]);
    }
    settle();
    for (int i = 0, tries = 0; TRIMS && i < N;) {
        if (pages[i] && !in_memory(pages[i])) {
            i++;
        } else {
            CHECK(++tries < 100);
            sleep_ms(100);
        }
    }
    task_group_free(g);
}

static void deep_then_trim(void *arg)
{
    char mine[256];
    memset(mine, 0x5a, sizeof(mine));
    void *page = deep_page(mine);
    task_trim();
    CHECK(!TRIMS || !in_memory(page));
    for (size_t i = 0; i < sizeof(mine); i++) {
        CHECK(mine[i] == 0x5a);
    }
    wait_for_ever(NULL);
    use_stack(9);
}

FIBER_TEST(test_trim)
{
    enum { N = 500 };
    struct task_group *g = group("g");
    for (int i = 0; i < N; i++) {
        start(g, "deep", deep_then_trim, NULL);
    }
    settle();
    task_group_free(g);
}

static void __attribute__((noinline)) recurse(void *arg)
{
    volatile char block[1000];
    block[0] = *(volatile char *)arg;
    if (block[0] == 0) { /* always */
        recurse((void *)(uintptr_t)block);
    }
    block[1] = block[0];
}

static int overflow(void *arg)
{
    struct error err;
    char zero = 0;
    struct task_group *g = group("g");
    start(g, "too deep", recurse, &zero);
    MUST(task_group_wait(g, &err));
    return 0;
}

/* The guard stops an overflow, and the last words say whose it was. */
static void test_stack_overflow_is_named(void **state)
{
    int fds[2];
    char text[200] = "";
    assert_int_equal(task_sys_pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(fds[1], 2);
        signal(SIGSEGV, SIG_DFL); /* cmocka has a handler of its own */
        task_run(overflow, NULL);
        _exit(0);
    }
    close(fds[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_string_equal(text, "stack overflow in task \"too deep\"\n");
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_returns_value_and_can_run_again),
        cmocka_unit_test(test_spawn_runs_soon_not_now),
        cmocka_unit_test(test_run_waits_for_the_first_group),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_ten_thousand_fibers_pass_a_token),
        cmocka_unit_test(test_cancel_reaches_groups_below),
        cmocka_unit_test(test_each_wait_refuses_once_cancelled),
        cmocka_unit_test(test_shield),
        cmocka_unit_test(test_wake_is_remembered_once),
        cmocka_unit_test(test_deadlines_nest),
        cmocka_unit_test(test_deadline_follows_a_shifted_clock),
        cmocka_unit_test(test_hold_ignores_both),
        cmocka_unit_test(test_group_wait_with_deadline_and_cancel),
        cmocka_unit_test(test_spinning_fibers_do_not_starve_descriptors_and_timers),
        cmocka_unit_test(test_an_idle_loop_sleeps),
        cmocka_unit_test(test_rounding_mode_is_a_fibers_own),
        cmocka_unit_test(test_stack_overflow_is_named),
        cmocka_unit_test(test_long_parked_fibers_give_back_their_stacks),
        cmocka_unit_test(test_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
