/* The jail backend: commands, processes, limits, mounts, ends. box.md §5.4, §6, §7, §13. */
#include "box/jail_lab.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- commands -------------------------------------------------------------------------------- */
static void commands(struct lab *lab)
{
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    assert_string_equal(lab_exec(lab, s, "echo out; echo err >&2; exit 7").out, "out");
    assert_string_equal(lab_exec(lab, s, "echo out; echo err >&2; exit 7").err, "err");
    for (int code = 0; code < 256; code += 51) {
        char cmd[32];
        snprintf(cmd, sizeof cmd, "exit %d", code);
        assert_int_equal(lab_exec(lab, s, cmd).code, code);
    }
    assert_int_equal(lab_exec(lab, s, "kill -9 $$").code, 137);
    assert_int_equal(lab_exec(lab, s, "no-such-program").code, 127);
    assert_string_equal(lab_exec(lab, s, "pwd; echo $HOME $TEST; cat | wc -c").out,
                        "/workspace\n/home 1\n0");
    assert_string_equal(lab_exec(lab, s, "echo x > f; cat f").out, "x");
    assert_string_equal(lab_exec(lab, s, "cat f; cat /etc/hostname").out, "x\nbox");
    lab->workdir = "/usr/none";
    struct said nowhere = lab_exec(lab, s, "echo not run");
    assert_int_equal(nowhere.code, 1);
    assert_string_equal(nowhere.out, "");
    lab->workdir = "/tmp/a/b";
    assert_string_equal(lab_exec(lab, s, "pwd").out, "/tmp/a/b");
    /* Longer than one argument may be. */
    char *longer = malloc(300001);
    memset(longer, ' ', 300000);
    memcpy(longer, "echo begin;", 11);
    memcpy(longer + 300000 - 9, "exit 0042", 9);
    longer[300000] = '\0';
    struct said r = lab_exec(lab, s, longer);
    assert_string_equal(r.out, "begin");
    assert_int_equal(r.code, 42);
    free(longer);
    assert_true(lab->b->alive(s));
    lab->b->stop_session(s);
}

static void background(struct lab *lab)
{
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    const char *seconds = lab_seconds();
    char cmd[128];
    snprintf(cmd, sizeof cmd, "echo done; sleep %s &", seconds);
    int64_t t0 = time_mono_us();
    assert_string_equal(lab_exec(lab, s, cmd).out, "done");
    assert_true(time_mono_us() - t0 < 10000000);
    struct error err;
    for (int i = 0; i < 500 && lab_processes(seconds) != 1; i++)
        assert_true(task_sleep_ms(10, &err));
    assert_int_equal(lab_processes(seconds), 1); /* it stays, as in any container */
    lab->b->stop_session(s);
    assert_int_equal(lab_processes(seconds), 0);
}

static void timeouts(struct lab *lab)
{
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    const char *seconds = lab_seconds();
    char cmd[200];
    snprintf(cmd, sizeof cmd, "echo part; (setsid sleep %s &) ; trap '' TERM; sleep %s", seconds,
             seconds);
    struct said r = lab_exec_ms(lab, s, cmd, 400);
    assert_true(r.timed_out);
    assert_string_equal(r.out, "part");
    assert_true(lab_gone(seconds));
    assert_false(lab->b->alive(s));
    lab->b->stop_session(s);
}

struct canceled {
    struct lab *lab;
    void *session;
    const char *cmd;
    bool done;
};
static void exec_fiber(void *arg)
{
    struct canceled *c = arg;
    const char *env[] = {NULL};
    struct error err = {0};
    struct box_exec_result r = {0};
    struct box_exec_spec spec = {c->cmd, "/workspace", env, 60000, 1000};
    assert_false(c->lab->b->exec(c->session, &spec, &r, &err));
    assert_int_equal(err.code, ERR_CANCELED);
    box_exec_result_free(&r);
    c->done = true;
}

static void cancelling(struct lab *lab)
{
    struct error err;
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    const char *seconds = lab_seconds();
    char cmd[200];
    snprintf(cmd, sizeof cmd, "setsid sleep %s & sleep %s", seconds, seconds);
    struct canceled c = {lab, s, cmd, false};
    struct task_group *g = task_group_new(NULL, "canceled");
    assert_true(task_spawn(g, "canceled", exec_fiber, &c, &err));
    for (int i = 0; i < 500 && lab_processes(seconds) < 3; i++)
        assert_true(task_sleep_ms(10, &err));
    task_group_free(g);
    assert_true(c.done);
    assert_int_equal(lab_processes(seconds), 0);
    assert_string_equal(lab_exec(lab, s, "echo still").out, "still");
    lab->b->stop_session(s);
}

/* ---- managed processes ----------------------------------------------------------------------- */
static struct box_process spawn(struct lab *lab, void *s, const char *cmd)
{
    const char *argv[] = {"sh", "-c", cmd, NULL}, *env[] = {NULL};
    struct box_process_spec spec = {argv, env, "/workspace", 0};
    struct box_process p;
    struct error err = {0};
    if (!lab->b->spawn(s, &spec, &p, &err))
        fail_msg("spawn: %s", err.msg);
    return p;
}

static int ended(struct lab *lab, struct box_process *p)
{
    int code = -1;
    struct error err;
    struct task_deadline d;
    task_deadline_push(&d, 10000);
    assert_true(lab->b->process_wait(p, &code, &err));
    task_deadline_pop(&d);
    return code;
}

static void release(struct lab *lab, struct box_process *p)
{
    close(p->in);
    close(p->out);
    close(p->err);
    lab->b->process_free(p);
}

static void processes(struct lab *lab)
{
    struct error err;
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    struct box_process p = spawn(lab, s, "read x; echo got $x; exit 5");
    char text[32] = "";
    assert_true(task_write_all(p.in, "word\n", 5, &err));
    assert_int_equal(task_read(p.out, text, sizeof text, &err), 9);
    assert_string_equal(text, "got word\n");
    assert_int_equal(ended(lab, &p), 5);
    assert_int_equal(ended(lab, &p), 5);
    release(lab, &p);

    /* A signal finds also what left the group and lost its parent. */
    const char *seconds = lab_seconds();
    char cmd[200];
    snprintf(cmd, sizeof cmd, "(setsid sleep %s &); sleep %s", seconds, seconds);
    p = spawn(lab, s, cmd);
    for (int i = 0; i < 500 && lab_processes(seconds) < 3; i++)
        assert_true(task_sleep_ms(10, &err));
    lab->b->process_signal(&p, SIGTERM);
    assert_int_equal(ended(lab, &p), 128 + SIGTERM);
    assert_true(lab_gone(seconds));
    release(lab, &p);

    /* What ignores the signal is killed, and what is left goes with it. */
    snprintf(cmd, sizeof cmd, "trap '' TERM; (setsid sleep %s &); sleep %s; sleep %s", seconds,
             seconds, seconds);
    p = spawn(lab, s, cmd);
    lab->b->process_signal(&p, SIGKILL);
    assert_int_equal(ended(lab, &p), 128 + SIGKILL);
    release(lab, &p);
    assert_int_equal(lab_processes(seconds), 0);

    const char *argv[] = {"/no/such/program", NULL}, *env[] = {NULL};
    struct box_process_spec missing = {argv, env, "/workspace", 0};
    assert_false(lab->b->spawn(s, &missing, &p, &err));
    assert_non_null(strstr(err.msg, "No such file"));

    p = spawn(lab, s, "sleep 1000");
    lab->b->stop_session(s);
    assert_int_equal(ended(lab, &p), 137);
    release(lab, &p);
}

/* ---- limits ---------------------------------------------------------------------------------- */
static void limits(struct lab *lab)
{
    struct box_session_spec spec = lab_spec(lab);
    spec.memory_mb = 64;
    spec.pids_limit = 20;
    void *s = lab_start(lab, &spec);
    struct said r = lab_exec(lab, s,
                             "head -c 300M /dev/zero > /tmp/x; wc -c < /tmp/x; rm /tmp/x;"
                             "i=0; while true > /tmp/$i; do i=$((i+1)); done 2>/dev/null; echo $i");
    long bytes = 0, files = 0;
    assert_int_equal(sscanf(r.out, "%ld %ld", &bytes, &files), 2);
    assert_in_range(bytes, 1, 32 << 20);
    assert_in_range(files, 1, 8192);
    assert_int_equal(lab_exec(lab, s, "rm -rf /tmp/*").code, 0);
    if (lab->probe.enforced[BOX_CHECK_MEMORY_LIMIT]) {
        r = lab_exec(lab, s, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}");
        assert_null(strstr(r.out, "200000000"));
        assert_string_equal(lab_exec(lab, s, "echo alive").out, "alive");
    }
    if (lab->probe.enforced[BOX_CHECK_PIDS_LIMIT]) {
        const char *seconds = lab_seconds();
        char cmd[200];
        snprintf(cmd, sizeof cmd,
                 "i=0; while [ $i -lt 100 ]; do sleep %s & i=$((i+1)); done; sleep 0.5; exit 0",
                 seconds);
        lab_exec(lab, s, cmd);
        assert_in_range(lab_processes(seconds), 1, 20);
        /* A command that finds no room is an error of its own, not the end of the session. */
        assert_true(lab->b->alive(s));
    }
    lab->b->stop_session(s);
}

/* A directory of the host without a quota of the kernel: bounded all the same, if late. */
static void quota(struct lab *lab)
{
    static const char *const fills[] = {
        "head -c 100M /dev/zero > f; echo $?; wc -c < f",
        "i=0; while head -c 1M /dev/zero > f$i; do i=$((i+1)); [ $i -gt 400 ] && exit 0; sleep 0.05; done",
        "mkdir d; i=0; while true > d/$i; do i=$((i+1)); [ $i -gt 200000 ] && exit 0; done"};
    for (size_t i = 0; i < array_len(fills); i++) {
        struct box_mount m = {lab->shared_fd, lab->shared, "/workspace", BOX_MOUNT_RW};
        struct box_session_spec spec = lab_spec(lab);
        spec.primary = &m;
        spec.workspace_quota_mb = 8;
        void *s = lab_start(lab, &spec);
        struct said r = lab_exec(lab, s, fills[i]);
        if (i == 0) {
            assert_string_equal(r.out, "1\n8388608"); /* a single file: by the kernel */
        } else {
            assert_int_equal(r.code, 137);
            assert_non_null(strstr(r.err, "over its quota"));
            assert_false(lab->b->alive(s));
        }
        lab->b->stop_session(s);
        spec.workspace_quota_mb = 0;
        s = lab_start(lab, &spec);
        assert_int_equal(lab_exec(lab, s, "rm -rf /workspace/*").code, 0);
        lab->b->stop_session(s);
    }
}

/* ---- mounts ---------------------------------------------------------------------------------- */
static void mounts(struct lab *lab)
{
    char path[200], demo[200];
    struct stat st;
    snprintf(demo, sizeof demo, "%s/extra", lab->dir);
    assert_int_equal(mkdir(demo, 0700), 0);
    int extra = open(demo, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct box_mount rw = {lab->shared_fd, lab->shared, "/data", BOX_MOUNT_RW};
    struct box_mount ro[] = {{extra, demo, "/data/.skills/demo", BOX_MOUNT_RO}};
    struct box_session_spec spec = lab_spec(lab);
    spec.mount_path = lab->workdir = "/data";
    spec.primary = &rw;
    spec.extra = ro;
    spec.extra_count = 1;
    void *s = lab_start(lab, &spec);
    struct said r = lab_exec(lab, s,
                             "cd /data && mkdir d && echo inside > d/f && stat -c %u d/f;"
                             "echo x > .skills/demo/x || echo refused;"
                             "cp /bin/true t; chmod 4755 t || echo no setuid;"
                             "ls -d /data/.skills/demo; ls /workspace");
    assert_string_equal(r.out, "1000\nrefused\nno setuid\n/data/.skills/demo");
    snprintf(path, sizeof path, "%s/d/f", lab->shared);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, getuid()); /* of the owner of the directory */
    lab->b->stop_session(s);
    /* In a read-only workspace nothing is made, and the mount is there all the same. */
    rw.mode = BOX_MOUNT_RO;
    ro[0].mount_path = "/data/.new/demo";
    s = lab_start(lab, &spec);
    r = lab_exec(lab, s,
                 "ls -d /data/.new/demo && cat /data/d/f; echo x > /data/y; echo x > /data/.new/y");
    assert_string_equal(r.out, "/data/.new/demo\ninside");
    lab->b->stop_session(s);
    snprintf(path, sizeof path, "%s/.new", lab->shared);
    assert_int_not_equal(stat(path, &st), 0);
    rw.mode = BOX_MOUNT_RW;
    /* The place of an extra mount is never made through a link. */
    snprintf(path, sizeof path, "%s/target", lab->dir);
    assert_int_equal(mkdir(path, 0777), 0);
    char link[300];
    snprintf(link, sizeof link, "%s/.evil", lab->shared);
    assert_int_equal(symlink(path, link), 0);
    ro[0].mount_path = "/data/.evil/x";
    struct error err = {0};
    assert_null(lab->b->start_session(lab->self, &spec, &err));
    snprintf(path, sizeof path, "%s/target/x", lab->dir);
    assert_int_not_equal(stat(path, &st), 0);
    close(extra);

    static const char *const bad[] = {"/", "/usr", "/etc/x", "/proc", "/dev/shm", "/lib"};
    for (size_t i = 0; i < array_len(bad); i++) {
        spec = lab_spec(lab);
        spec.mount_path = bad[i];
        assert_null(lab->b->start_session(lab->self, &spec, &err));
        assert_string_equal(err.tag, "BoxValidationError");
    }
}

/* ---- what is said to be enforced ------------------------------------------------------------- */
static void probes(struct lab *lab)
{
    static const enum box_check always[] = {BOX_CHECK_NAMESPACE_ISOLATION,
                                            BOX_CHECK_MOUNT_ISOLATION,
                                            BOX_CHECK_NETWORK_ISOLATION,
                                            BOX_CHECK_HARD_READ_ONLY_MOUNT_QUOTA,
                                            BOX_CHECK_BOUNDED_EPHEMERAL_STORAGE,
                                            BOX_CHECK_NO_NEW_PRIVILEGES,
                                            BOX_CHECK_CAPABILITIES_EMPTY,
                                            BOX_CHECK_SECCOMP,
                                            BOX_CHECK_READ_ONLY_ROOT};
    for (size_t i = 0; i < array_len(always); i++)
        if (!lab->probe.enforced[always[i]])
            fail_msg("%s is not enforced: %s", box_check_name(always[i]), lab->probe.reason);
    for (int c = 0; c < BOX_CHECK_COUNT; c++)
        if (!lab->probe.enforced[c])
            print_message("not enforced here: %s\n", box_check_name((enum box_check)c));
    /* A directory that cannot be written is no reason to claim anything. */
    struct box_probe p;
    lab->b->probe(lab->self, "/proc", &p);
    assert_false(p.available);
    assert_true(*p.reason);
}

/* ---- many, and ends -------------------------------------------------------------------------- */
enum { CROWD = 24 };
struct one {
    struct lab *lab;
    int *done;
};
static void crowd_fiber(void *arg)
{
    struct one *o = arg;
    struct box_session_spec spec = lab_spec(o->lab);
    void *s = lab_start(o->lab, &spec);
    assert_string_equal(lab_exec(o->lab, s, "echo here").out, "here");
    o->lab->b->stop_session(s);
    (*o->done)++;
}

static void crowd(struct lab *lab)
{
    struct error err;
    int done = 0;
    struct one o = {lab, &done};
    struct task_group *g = task_group_new(NULL, "crowd");
    for (int i = 0; i < CROWD; i++)
        assert_true(task_spawn(g, "crowd", crowd_fiber, &o, &err));
    assert_true(task_group_wait(g, &err));
    task_group_free(g);
    assert_int_equal(done, CROWD);
}

static const char *mark;
static int tell_fd;
static void doomed(struct lab *lab)
{
    struct error err;
    struct box_session_spec spec = lab_spec(lab);
    void *s = lab_start(lab, &spec);
    char cmd[100];
    snprintf(cmd, sizeof cmd, "setsid sleep %s & exec sleep %s", mark, mark);
    spawn(lab, s, cmd);
    while (lab_processes(mark) < 2)
        assert_true(task_sleep_ms(5, &err));
    assert_int_equal(write(tell_fd, lab->env.instance, 12), 12);
    assert_true(task_sleep_ms(60000, &err)); /* never: it is killed */
}

static void wait_a_little(struct lab *lab)
{
    assert_true(lab_gone(mark));
}

/* kill -9 of the runtime: no process and no cgroup is left. */
static void test_killed(void **state)
{
    int pipe_fds[2];
    char instance[16] = "";
    assert_int_equal(pipe(pipe_fds), 0);
    mark = strdup(lab_seconds());
    tell_fd = pipe_fds[1];
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        lab_run(doomed);
        _exit(0);
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], instance, 12) == 12) {
        assert_true(lab_processes(mark) >= 2);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        lab_run(wait_a_little);
        for (int i = 0; i < 300 && lab_cgroups(instance); i++)
            usleep(10000);
        assert_int_equal(lab_cgroups(instance), 0);
    } else {
        waitpid(pid, NULL, 0);
        skip();
    }
    close(pipe_fds[0]);
}

#define CASE(name)                     \
    static void test_##name(void **st) \
    {                                  \
        lab_run(name);                 \
    }
CASE(commands)
CASE(background)
CASE(timeouts)
CASE(cancelling)
CASE(processes)
CASE(limits)
CASE(quota)
CASE(mounts)
CASE(probes)
CASE(crowd)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),  cmocka_unit_test(test_background),
        cmocka_unit_test(test_timeouts),  cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_processes), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_quota),     cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_probes),    cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
