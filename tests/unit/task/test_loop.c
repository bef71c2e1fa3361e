/* Timers, posts from threads, workers, the watchdog, descriptors. */
#include "unit/task/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- timers ---------------------------------------------------------------------------------- */

enum { TIMERS = 2000 };
static struct task_timer timers[TIMERS];
static int64_t fired_at[TIMERS];
static int fired;

static void on_timer(void *arg)
{
    size_t i = (size_t)((struct task_timer *)arg - timers);
    CHECK(!task_in_fiber());
    CHECK(fired_at[i] == 0);
    fired_at[i] = time_mono_us();
    fired++;
}

FIBER_TEST(test_timers)
{
    int64_t began = time_mono_us();
    unsigned seed = 12345;
    fired = 0;
    memset(fired_at, 0, sizeof(fired_at));
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 1103515245u + 12345u;
        task_timer_start(&timers[i], 1 + (seed >> 16) % 60, on_timer, &timers[i]);
    }
    int64_t due[TIMERS];
    for (int i = 0; i < TIMERS; i++) {
        if (i % 3 == 0) {
            task_timer_stop(&timers[i]);
            task_timer_stop(&timers[i]);
        } else if (i % 3 == 1) {
            task_timer_start(&timers[i], 30, on_timer, &timers[i]); /* restarts */
        }
        due[i] = timers[i].at_us;
    }
    sleep_ms(80);
    CHECK(fired == TIMERS - (TIMERS + 2) / 3);
    for (int i = 0; i < TIMERS; i++) {
        CHECK((fired_at[i] == 0) == (i % 3 == 0));
        CHECK(i % 3 == 0 || (fired_at[i] >= due[i] && due[i] > began));
    }
}

static struct task_timer again;
static int again_count;
static void on_again(void *arg)
{
    if (++again_count < 5) {
        task_timer_start(&again, 0, on_again, arg);
    } else {
        task_wake(arg);
    }
}

FIBER_TEST(test_timer_restarts_itself)
{
    struct error err;
    again_count = 0;
    task_timer_start(&again, 0, on_again, task_self());
    MUST(task_park(&err));
    CHECK(again_count == 5);
}

FIBER_TEST(test_sleep_is_long_enough_and_ordered)
{
    for (int ms = 1; ms < 20; ms += 6) {
        int64_t began = time_mono_us();
        sleep_ms(ms);
        CHECK(time_mono_us() - began >= ms * 1000);
    }
}

/* ---- posts ----------------------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS = 5000 };
static struct task_post posts[POSTERS][POSTS];
static int posted[POSTERS];
static struct task *post_waiter;

static void on_post(void *arg)
{
    struct task_post *p = arg;
    size_t poster = (size_t)(p - posts[0]) / POSTS;
    CHECK(!task_in_fiber());
    CHECK(p == &posts[poster][posted[poster]]); /* in order, each once */
    posted[poster]++;
    task_wake(post_waiter);
}

static void *poster_main(void *arg)
{
    struct task_post(*mine)[POSTS] = arg;
    CHECK(!task_in_fiber());
    for (int i = 0; i < POSTS; i++) {
        task_post_from_thread(&(*mine)[i], on_post, &(*mine)[i]);
    }
    return NULL;
}

FIBER_TEST(test_posts_from_threads)
{
    struct error err;
    pthread_t threads[POSTERS];
    memset(posted, 0, sizeof(posted));
    post_waiter = task_self();
    for (int i = 0; i < POSTERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, poster_main, &posts[i]) == 0);
    }
    while (posted[0] + posted[1] + posted[2] + posted[3] < POSTERS * POSTS) {
        MUST(task_park(&err));
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- workers --------------------------------------------------------------------------------- */

static atomic_int busy, busy_peak, worked;
static atomic_bool gate;

static void work(void *arg)
{
    CHECK(!task_in_fiber());
    int n = atomic_fetch_add(&busy, 1) + 1;
    int peak = atomic_load(&busy_peak);
    while (n > peak && !atomic_compare_exchange_weak(&busy_peak, &peak, n)) {
    }
    while (!atomic_load(&gate)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    atomic_fetch_sub(&busy, 1);
    atomic_fetch_add(&worked, 1);
}

struct job {
    bool ok;
    struct error err;
};

static void job_main(void *arg)
{
    struct job *j = arg;
    j->ok = task_work(work, NULL, &j->err);
}

FIBER_TEST(test_work_is_bounded)
{
    enum { MOST = TASK_WORKERS + TASK_WORK_PENDING };
    struct error err;
    static struct job jobs[MOST];
    struct task_stats stats;
    struct task_group *g = group("jobs");
    atomic_store(&gate, false);
    atomic_store(&busy_peak, 0);
    atomic_store(&worked, 0);
    for (int i = 0; i < MOST; i++) {
        start(g, "job", job_main, &jobs[i]);
    }
    while (atomic_load(&busy) < TASK_WORKERS) {
        sleep_ms(1);
    }
    MUST_FAIL(task_work(work, NULL, &err), ERR_CAPACITY);
    CHECK(strcmp(err.tag, "blocking_work_capacity_exceeded") == 0);
    task_stats_get(&stats);
    CHECK(stats.work_running == TASK_WORKERS && stats.work_pending == TASK_WORK_PENDING &&
          stats.work_rejected == 1 && stats.work_done == 0);
    atomic_store(&gate, true);
    MUST(task_group_wait(g, &err));
    task_group_free(g);
    for (int i = 0; i < MOST; i++) {
        CHECK(jobs[i].ok);
    }
    CHECK(atomic_load(&worked) == MOST && atomic_load(&busy_peak) == TASK_WORKERS);
    task_stats_get(&stats);
    CHECK(stats.work_done == MOST && stats.work_running == 0 && stats.work_pending == 0);
    MUST(task_work(work, NULL, &err));
}

FIBER_TEST(test_cancelled_work_is_waited_for)
{
    struct error err;
    static struct job jobs[TASK_WORKERS + 3];
    struct task_group *g = group("jobs");
    atomic_store(&gate, false);
    atomic_store(&worked, 0);
    for (size_t i = 0; i < array_len(jobs); i++) {
        jobs[i] = (struct job){0};
        start(g, "job", job_main, &jobs[i]);
    }
    while (atomic_load(&busy) < TASK_WORKERS) {
        sleep_ms(1);
    }
    task_group_cancel(g);
    settle();
    sleep_ms(5);
    CHECK(task_group_count(g) == TASK_WORKERS); /* what had not begun is over */
    atomic_store(&gate, true);
    MUST(task_group_wait(g, &err));
    task_group_free(g);
    size_t done = 0;
    for (size_t i = 0; i < array_len(jobs); i++) {
        done += jobs[i].ok;
        CHECK(jobs[i].ok || jobs[i].err.code == ERR_CANCELED);
    }
    CHECK(done == TASK_WORKERS && atomic_load(&worked) == TASK_WORKERS);
}

static void slow(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    atomic_store((atomic_bool *)arg, true);
}

FIBER_TEST(test_late_work_is_a_success)
{
    struct error err;
    struct task_deadline d;
    atomic_bool done = false;
    task_deadline_push(&d, 250); /* a thread begins in time even on a busy machine */
    MUST(task_work(slow, &done, &err));
    CHECK(atomic_load(&done));
    MUST_FAIL(task_sleep_ms(1, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
}

/* ---- watchdog -------------------------------------------------------------------------------- */

static char stall_lines[4000];
static void on_log(void *arg, enum log_level level, struct str line)
{
    struct buf *b = arg;
    if (level == LOG_WARN) {
        buf_str(b, line);
        buf_c(b, '\n');
    }
}

static void glutton(void *arg)
{
    int64_t end = time_mono_us() + 600000;
    while (time_mono_us() < end) {
    }
}

FIBER_TEST(test_watchdog_names_the_fiber)
{
    struct error err;
    struct buf b = {
        .p = stall_lines, .cap = sizeof(stall_lines) - 1, .max = sizeof(stall_lines) - 1};
    struct task_stats stats;
    struct task_group *g = group("g");
    log_setup(LOG_INFO, false, -1);
    log_tap(on_log, &b);
    task_watchdog_start(250);
    sleep_ms(600); /* sleeping is no stall */
    CHECK(b.n == 0);
    start(g, "glutton", glutton, NULL);
    MUST(task_group_wait(g, &err));
    sleep_ms(150);
    log_tap(NULL, NULL);
    log_setup(LOG_INFO, false, 2);
    CHECK(str_find(buf_view(&b), S("in \"glutton\"")) > 0);
    ptrdiff_t at = str_find(buf_view(&b), S("stood still for "));
    CHECK(at > 0);
    int ms = (int)strtol(b.p + at + 16, NULL, 10);
    CHECK(ms >= 595 && ms < 6000);
    CHECK(str_chr(buf_view(&b), '\n') == (ptrdiff_t)b.n - 1); /* one line */
    task_stats_get(&stats);
    CHECK(stats.lag_max_ms >= 400 && stats.lag_p95_ms <= stats.lag_max_ms);
    task_group_free(g);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

FIBER_TEST(test_fd_errors)
{
    struct error err;
    int fds[2];
    MUST_FAIL(task_fd_wait(-1, TASK_READ, &err), ERR_IO);
    CHECK(task_sys_pipe(fds) == 0);
    close(fds[0]);
    MUST_FAIL(task_fd_wait(fds[0], TASK_READ, &err), ERR_IO);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    MUST_FAIL(task_write_all(fds[1], "x", 1, &err), ERR_CLOSED); /* and no SIGPIPE */
    close(fds[1]);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    MUST(task_fd_wait(file, TASK_READ, &err)); /* regular files are always ready */
    char c;
    task_sys_fail_after(TASK_SYS_READ, 1, false, EINTR);
    CHECK(task_read(file, &c, 1, &err) == 1);
    task_sys_fail_after(TASK_SYS_READ, 1, false, EAGAIN);
    CHECK(task_read(file, &c, 1, &err) == 1);
    task_sys_fail_after(TASK_SYS_READ, 2, false, EIO);
    CHECK(task_read(file, &c, 1, &err) == 1);
    MUST_FAIL(task_read(file, &c, 1, &err) >= 0, ERR_IO);
    CHECK(task_read(file, &c, 1, &err) == 1);
    task_sys_fail_after(TASK_SYS_WRITE, 1, true, ENOSPC);
    MUST_FAIL(task_write_all(file, "x", 1, &err), ERR_IO);
    MUST_FAIL(task_write_all(file, "x", 1, &err), ERR_IO);
    task_sys_fail_after(TASK_SYS_WRITE, 0, false, 0);
    close(file);
}

static void read_wait(void *arg)
{
    struct error err;
    MUST_FAIL(task_fd_wait(*(int *)arg, TASK_READ, &err), ERR_CANCELED);
}

FIBER_TEST(test_fd_one_waiter_a_direction)
{
    struct error err;
    int fds[2];
    struct task_deadline d;
    struct task_group *g = group("g");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    start(g, "read", read_wait, &fds[0]);
    settle();
    MUST_FAIL(task_fd_wait(fds[0], TASK_READ, &err), ERR_IO);
    MUST(task_fd_wait(fds[0], TASK_WRITE, &err)); /* the other direction at the same time */
    MUST(task_fd_wait(fds[0], TASK_WRITE, &err));
    CHECK(task_group_count(g) == 1);
    task_group_free(g);
    task_deadline_push(&d, 5);
    MUST_FAIL(task_fd_wait(fds[0], TASK_READ, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
    /* A number that comes again is a new descriptor. */
    int old = fds[0];
    close(fds[0]);
    close(fds[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(fds[0] == old);
    CHECK(write(fds[1], "x", 1) == 1);
    MUST(task_fd_wait(fds[0], TASK_READ, &err));
    close(fds[1]);
    MUST(task_fd_wait(fds[0], TASK_READ | TASK_WRITE, &err));
    close(fds[0]);
}

struct stream {
    int fd;
    size_t bytes;
};

static void send_all(void *arg)
{
    struct error err;
    struct stream *s = arg;
    static char block[10000];
    for (size_t n = 0; n < s->bytes; n += sizeof(block)) {
        MUST(task_write_all(s->fd, block, sizeof(block), &err));
    }
}

static void receive_all(void *arg)
{
    struct error err;
    struct stream *s = arg;
    char block[3000];
    for (size_t n = 0; n < s->bytes;) {
        ssize_t got = task_read(s->fd, block, sizeof(block), &err);
        MUST(got > 0);
        n += (size_t)got;
    }
}

FIBER_TEST(test_both_directions_of_many_sockets)
{
    enum { PAIRS = 40 };
    struct error err;
    struct stream streams[PAIRS][2];
    struct task_group *g = group("g");
    for (int i = 0; i < PAIRS; i++) {
        int fds[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
        for (int k = 0; k < 2; k++) {
            streams[i][k] = (struct stream){fds[k], 500000};
            start(g, "send", send_all, &streams[i][k]);
            start(g, "receive", receive_all, &streams[i][k]);
        }
    }
    MUST(task_group_wait(g, &err));
    task_group_free(g);
    for (int i = 0; i < PAIRS; i++) {
        close(streams[i][0].fd);
        close(streams[i][1].fd);
    }
}

FIBER_TEST(test_fd_memory)
{
    struct error err;
    int fds[2];
    CHECK(task_sys_pipe(fds) == 0);
    mem_fail_after(1, false);
    MUST_FAIL(task_fd_wait(fds[1], TASK_WRITE, &err), ERR_NOMEM);
    mem_fail_after(0, false);
    MUST(task_fd_wait(fds[1], TASK_WRITE, &err));
    close(fds[0]);
    close(fds[1]);
}

/* ---- system calls ---- */

static void test_system_calls_fail_when_asked(void **state)
{
    char dir[] = "/tmp/parley-sys-XXXXXX", a[64], b[64];
    assert_non_null(mkdtemp(dir));
    snprintf(a, sizeof(a), "%s/a", dir);
    snprintf(b, sizeof(b), "%s/b", dir);
    for (int op = 0; op < TASK_SYS_OPS; op++) {
        task_sys_fail_after(op, 2, op % 2,
                            EROFS); /* the second call; every other operation for good */
    }
    for (int round = 0; round < 4; round++) {
        int fds[2];
        bool once = round == 1, ever = round >= 1;
        int fd = task_sys_open(a, O_CREAT | O_RDWR, 0600);
        assert_int_equal(fd < 0, once);
        if (fd < 0) {
            fd = open(a, O_RDWR | O_CLOEXEC);
        }
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        errno = 0;
        assert_int_equal(task_sys_write(fd, "x", 1), ever ? -1 : 1);
        assert_int_equal(errno, ever ? EROFS : 0);
        assert_int_equal(task_sys_fsync(fd), ever ? -1 : 0);
        assert_int_equal(task_sys_rename(a, b), once ? -1 : 0);
        assert_int_equal(task_sys_unlink(once ? a : b), ever ? -1 : 0);
        assert_int_equal(task_sys_mkdir(dir, 0700), -1);
        assert_int_equal(errno, once ? EROFS : EEXIST);
        int rc = task_sys_pipe(fds);
        assert_int_equal(rc, once ? -1 : 0);
        if (rc == 0) {
            close(fds[0]);
            close(fds[1]);
        }
        close(fd);
    }
    for (int op = 0; op < TASK_SYS_OPS; op++) {
        task_sys_fail_after(op, 0, false, 0);
    }
    unlink(a);
    unlink(b);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_timer_restarts_itself),
        cmocka_unit_test(test_sleep_is_long_enough_and_ordered),
        cmocka_unit_test(test_posts_from_threads),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_cancelled_work_is_waited_for),
        cmocka_unit_test(test_late_work_is_a_success),
        cmocka_unit_test(test_watchdog_names_the_fiber),
        cmocka_unit_test(test_fd_errors),
        cmocka_unit_test(test_fd_one_waiter_a_direction),
        cmocka_unit_test(test_both_directions_of_many_sockets),
        cmocka_unit_test(test_fd_memory),
        cmocka_unit_test(test_system_calls_fail_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
