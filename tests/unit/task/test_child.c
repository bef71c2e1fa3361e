/* Child processes and signals. */
#include "unit/task/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SH(script)               \
    (const char *const[])        \
    {                            \
        "sh", "-c", script, NULL \
    }

static void no_children(void)
{
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static bool alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* What the child writes to its output, up to n - 1 bytes. */
static void read_all(struct child *c, int which, char *out, size_t n)
{
    struct error err;
    size_t have = 0;
    for (;;) {
        ssize_t got = task_read(child_fd(c, which), out + have, n - 1 - have, &err);
        MUST(got >= 0);
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    out[have] = '\0';
}

FIBER_TEST(test_status_and_output)
{
    struct error err;
    int status;
    char text[200];
    struct child_spec spec = {
        .argv = SH("echo out; echo err >&2; cat; exit 7"), .pipe_out = true, .pipe_err = true};
    struct child *c = child_start(&spec, &err);
    MUST(c);
    CHECK(child_pid(c) > 0 && child_fd(c, 0) == -1);
    read_all(c, 1, text, sizeof(text));
    CHECK(strcmp(text, "out\n") == 0);
    read_all(c, 2, text, sizeof(text));
    CHECK(strcmp(text, "err\n") == 0);
    MUST(child_wait(c, &status, &err));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    MUST(child_wait(c, &status, &err)); /* again */
    CHECK(!child_signal(c, SIGTERM));
    child_stop(c, 1000);
    child_stop(NULL, 0);
    no_children();
}

FIBER_TEST(test_environment_directory_group_and_descriptors)
{
    struct error err;
    int status;
    char text[1000];
    int stray = open("/dev/null", O_RDONLY); /* without close-on-exec */
    struct child_spec spec = {
        .argv = SH("pwd; echo $A-$HOME; ls /proc/self/fd | tr '\\n' ' '; trap - PIPE; "
                   "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\n\\t'"),
        .envp = (const char *const[]){"A=b", "PATH=/usr/bin:/bin", NULL},
        .cwd = "/usr",
        .pipe_out = true};
    struct child *c = child_start(&spec, &err);
    MUST(c);
    CHECK(getpgid(child_pid(c)) == child_pid(c));
    read_all(c, 1, text, sizeof(text));
    MUST(child_wait(c, &status, &err));
    unsigned long long blocked = 1, ignored = 1;
    static const char before[] = "/usr\nb-\n0 1 2 3 ";
    CHECK(strncmp(text, before, sizeof(before) - 1) == 0);
    CHECK(sscanf(text + sizeof(before) - 1, "SigBlk:%llxSigIgn:%llx", &blocked, &ignored) == 2);
    /* The C library ignores its own two, 32 and 33, in what posix_spawn started, as make does. */
    CHECK(blocked == 0 && (ignored & ~(3ull << 31)) == 0);
    child_stop(c, 0);
    close(stray);

    spec =
        (struct child_spec){.argv = (const char *const[]){"/usr/bin/env", NULL}, .pipe_out = true};
    setenv("PARLEY_TEST_VARIABLE", "yes", 1);
    c = child_start(&spec, &err);
    MUST(c);
    static char env[100000];
    read_all(c, 1, env, sizeof(env));
    CHECK(strstr(env, "PARLEY_TEST_VARIABLE=yes\n") && !strstr(env, "UV_THREADPOOL_SIZE"));
    child_stop(c, 0);
    no_children();
}

FIBER_TEST(test_what_cannot_start)
{
    struct error err;
    int fds = open_fds();
    long live = mem_live();
    const char *const *commands[] = {(const char *const[]){"no-such-program-here", NULL},
                                     (const char *const[]){"/no/such/path", NULL},
                                     (const char *const[]){"/etc/passwd", NULL},
                                     (const char *const[]){"", NULL}};
    for (size_t i = 0; i < array_len(commands); i++) {
        struct child_spec spec = {
            .argv = commands[i], .pipe_in = true, .pipe_out = true, .pipe_err = true};
        MUST_FAIL(child_start(&spec, &err), ERR_IO);
        CHECK(strstr(err.msg, "cannot start"));
    }
    struct child_spec spec = {.argv = SH("true"), .cwd = "/no/such/directory", .pipe_out = true};
    MUST_FAIL(child_start(&spec, &err), ERR_IO);
    spec = (struct child_spec){.argv = SH("true"), .pipe_in = true, .pipe_out = true};
    const struct {
        enum task_sys_op op;
        int calls;
    } steps[] = {{TASK_SYS_PIPE, 2}, {TASK_SYS_OPEN, 1}, {TASK_SYS_SPAWN, 1}};
    for (size_t i = 0; i < array_len(steps); i++) {
        for (int n = 1; n <= steps[i].calls; n++) {
            task_sys_fail_after(steps[i].op, n, false, EMFILE);
            MUST_FAIL(child_start(&spec, &err), ERR_IO);
        }
    }
    for (long n = 1;; n++) {
        mem_fail_after(n, false);
        struct child *c = child_start(&spec, &err);
        mem_fail_after(0, false);
        if (c) {
            child_stop(c, 1000);
            CHECK(n > 2);
            break;
        }
        CHECK(err.code == ERR_NOMEM || err.code == ERR_IO);
    }
    CHECK(open_fds() == fds);
    CHECK(mem_live() <= live + 1); /* the table of descriptors */
    no_children();
}

FIBER_TEST(test_stop_kills_what_ignores_term)
{
    struct error err;
    char text[20];
    struct child_spec spec = {.argv = SH("trap '' TERM; echo ready; while :; do sleep 1; done"),
                              .pipe_out = true};
    struct child *c = child_start(&spec, &err);
    MUST(c);
    CHECK(task_read(child_fd(c, 1), text, sizeof(text), &err) == 6);
    pid_t pid = child_pid(c);
    int64_t began = time_mono_us();
    child_stop(c, 100);
    int64_t took = time_mono_us() - began;
    CHECK(took >= 100000 && took < 5000000);
    CHECK(!alive(pid));
    no_children();

    spec.argv = SH("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    c = child_start(&spec, &err);
    MUST(c);
    CHECK(task_read(child_fd(c, 1), text, sizeof(text), &err) == 6);
    began = time_mono_us();
    child_stop(c, 30000);
    CHECK(time_mono_us() - began < 10000000);
    no_children();
}

FIBER_TEST(test_nothing_of_the_group_is_left)
{
    struct error err;
    int status;
    char text[40];
    struct child_spec spec = {.argv = SH("sleep 300 & echo $!"), .pipe_out = true};
    struct child *c = child_start(&spec, &err);
    MUST(c);
    CHECK(task_read(child_fd(c, 1), text, sizeof(text) - 1, &err) > 0);
    pid_t left = (pid_t)strtol(text, NULL, 10);
    MUST(child_wait(c, &status, &err));
    CHECK(WIFEXITED(status));
    for (int i = 0; i < 300; i++) { /* it has another parent now, who may be slow to reap it */
        char path[64], state = 'Z';
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)left);
        FILE *f = fopen(path, "re");
        if (!f) {
            break;
        }
        CHECK(fscanf(f, "%*d %*s %c", &state) == 1);
        fclose(f);
        if (state == 'Z') {
            break;
        }
        CHECK(i < 299);
        sleep_ms(10);
    }
    child_stop(c, 0);
    no_children();
}

enum { MIB = 1 << 20 };

static void feed(void *arg)
{
    struct error err;
    char block[4096];
    for (int n = 0; n < MIB; n += (int)sizeof(block)) {
        for (size_t i = 0; i < sizeof(block); i++) {
            block[i] = (char)((n + (int)i) * 31 >> 3);
        }
        MUST(task_write_all(child_fd(arg, 0), block, sizeof(block), &err));
    }
    child_close(arg, 0);
    child_close(arg, 0);
}

FIBER_TEST(test_a_mebibyte_both_ways)
{
    struct error err;
    int status;
    struct child_spec spec = {
        .argv = (const char *const[]){"cat", NULL}, .pipe_in = true, .pipe_out = true};
    struct child *c = child_start(&spec, &err);
    struct task_group *g = group("feed");
    MUST(c);
    start(g, "feed", feed, c);
    int n = 0;
    for (;;) {
        char block[5000];
        ssize_t got = task_read(child_fd(c, 1), block, sizeof(block), &err);
        MUST(got >= 0);
        if (got == 0) {
            break;
        }
        for (ssize_t i = 0; i < got; i++, n++) {
            CHECK(block[i] == (char)(n * 31 >> 3));
        }
    }
    CHECK(n == MIB);
    MUST(child_wait(c, &status, &err));
    CHECK(status == 0);
    task_group_free(g);
    child_stop(c, 0);
    no_children();
}

static void wait_child(void *arg)
{
    struct error err;
    int status;
    MUST_FAIL(child_wait(arg, &status, &err), ERR_CANCELED);
    child_stop(arg, 50); /* works though cancelled */
}

FIBER_TEST(test_cancelled_and_late_waits)
{
    struct error err;
    int status;
    struct task_deadline d;
    struct child_spec spec = {.argv = SH("sleep 300")};
    struct child *c = child_start(&spec, &err);
    MUST(c);
    task_deadline_push(&d, 10);
    MUST_FAIL(child_wait(c, &status, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
    struct task_group *g = group("g");
    start(g, "wait", wait_child, c);
    settle();
    task_group_free(g);
    no_children();
}

FIBER_TEST(test_many_at_once)
{
    enum { N = 40 };
    struct error err;
    struct child *children[N];
    int status;
    struct child_spec spec = {.argv = SH("exit 5")};
    for (int i = 0; i < N; i++) {
        children[i] = child_start(&spec, &err);
        MUST(children[i]);
    }
    for (int i = N - 1; i >= 0; i--) {
        MUST(child_wait(children[i], &status, &err));
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
        child_stop(children[i], 0);
    }
    no_children();
}

static int forget(void *arg)
{
    struct error err;
    struct child_spec spec = {.argv = SH("sleep 300")};
    *(struct child **)arg = child_start(&spec, &err);
    MUST(*(struct child **)arg);
    return 0;
}

static void test_a_forgotten_child_is_killed_at_the_end(void **state)
{
    struct child *c = NULL;
    log_setup(LOG_INFO, false, -1); /* it says so */
    task_run(forget, &c);
    log_setup(LOG_INFO, false, 2);
    assert_false(alive(child_pid(c)));
    no_children();
    mem_free(c);
}

/* ---- signals --------------------------------------------------------------------------------- */

struct listener {
    uint32_t mask;
    int got;
};

static void listen_once(void *arg)
{
    struct error err;
    struct listener *l = arg;
    l->got = task_signal_wait(l->mask, &err);
}

FIBER_TEST(test_signals)
{
    struct error err;
    struct task_deadline d;
    struct task_group *g = group("g");
    struct listener a = {1u << SIGUSR1, -1}, b = {1u << SIGUSR1 | 1u << SIGUSR2, -1},
                    c = {1u << SIGHUP, -1};
    start(g, "a", listen_once, &a);
    start(g, "b", listen_once, &b);
    start(g, "c", listen_once, &c);
    settle();
    CHECK(raise(SIGUSR1) == 0);
    sleep_ms(5);
    CHECK(a.got == SIGUSR1 && b.got == -1); /* delivered once, to the first */
    CHECK(raise(SIGUSR2) == 0);
    sleep_ms(5);
    CHECK(b.got == SIGUSR2 && c.got == -1);
    task_group_free(g);
    CHECK(c.got == 0); /* cancelled */
    /* What comes while nobody waits is kept. */
    CHECK(raise(SIGUSR2) == 0 && raise(SIGHUP) == 0);
    CHECK(task_signal_wait(1u << SIGUSR2, &err) == SIGUSR2);
    CHECK(task_signal_wait(1u << SIGUSR2 | 1u << SIGHUP, &err) == SIGHUP);
    task_deadline_push(&d, 5);
    MUST_FAIL(task_signal_wait(1u << SIGUSR2, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
    MUST_FAIL(task_signal_wait(1u << SIGKILL, &err), ERR_IO);
}

static void *signal_sender(void *arg)
{
    for (int i = 0; i < 5; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        kill(getpid(), SIGUSR1);
    }
    return NULL;
}

FIBER_TEST(test_signals_from_elsewhere)
{
    struct error err;
    pthread_t thread;
    struct listener l = {1u << SIGUSR1, -1};
    struct task_group *g = group("g");
    start(g, "l", listen_once, &l); /* caught before the thread begins */
    settle();
    CHECK(pthread_create(&thread, NULL, signal_sender, NULL) == 0);
    MUST(task_group_wait(g, &err));
    CHECK(l.got == SIGUSR1);
    pthread_join(thread, NULL);
    task_group_free(g);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_and_output),
        cmocka_unit_test(test_environment_directory_group_and_descriptors),
        cmocka_unit_test(test_what_cannot_start),
        cmocka_unit_test(test_stop_kills_what_ignores_term),
        cmocka_unit_test(test_nothing_of_the_group_is_left),
        cmocka_unit_test(test_a_mebibyte_both_ways),
        cmocka_unit_test(test_cancelled_and_late_waits),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_a_forgotten_child_is_killed_at_the_end),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_signals_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
