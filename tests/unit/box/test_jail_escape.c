/* Attempts to get out of the jail (tests/escape): each must fail inside, and nothing may have changed
 * outside. With a build of the attempts for the commands inside, and some by the shell. */
#include "box/jail_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What an escape would reach. */
struct outside {
    char secret[200];
    pid_t victim;
    int listener, abstract;
    char port[8], name[32];
};

static void open_outside(struct outside *o, struct lab *lab)
{
    snprintf(o->secret, sizeof o->secret, "%s/secret", lab->dir);
    int fd = open(o->secret, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(write(fd, "host-secret", 11), 11);
    close(fd);
    assert_int_equal(chmod(lab->dir, 0755), 0);
    o->victim = fork();
    if (o->victim == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    o->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(o->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(o->listener, 5), 0);
    assert_int_equal(getsockname(o->listener, (struct sockaddr *)&at, &n), 0);
    snprintf(o->port, sizeof o->port, "%u", ntohs(at.sin_port));
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(o->name, sizeof o->name, "jail-escape-%d", (int)getpid());
    memcpy(un.sun_path + 1, o->name, strlen(o->name));
    o->abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(o->abstract, (struct sockaddr *)&un,
                          (socklen_t)(sizeof(sa_family_t) + 1 + strlen(o->name))),
                     0);
    assert_int_equal(listen(o->abstract, 5), 0);
}

static void close_outside(struct outside *o)
{
    close(o->listener);
    close(o->abstract);
    kill(o->victim, SIGKILL);
    waitpid(o->victim, NULL, 0);
}

static void unharmed(const struct outside *o, struct lab *lab, const char *attempt)
{
    char text[32] = "", host[64], path[300];
    struct stat st;
    int fd = open(o->secret, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n != 11 || memcmp(text, "host-secret", 11) != 0)
        fail_msg("%s changed a file of the host", attempt);
    if (waitpid(o->victim, NULL, WNOHANG | WUNTRACED) != 0)
        fail_msg("%s hurt a process of the host", attempt);
    gethostname(host, sizeof host);
    assert_string_not_equal(host, "escaped");
    static const char *const left[] = {"suid",  "suid2", "suid3", "suid4", "node0",
                                       "node1", "node2", "node3", "node4"};
    for (size_t i = 0; i < array_len(left); i++) {
        snprintf(path, sizeof path, "%s/%s", lab->shared, left[i]);
        if (lstat(path, &st) == 0 &&
            (st.st_mode & (S_ISUID | S_ISGID) || S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode)))
            fail_msg("%s left %s on the host", attempt, left[i]);
    }
}

static bool copy_program(struct lab *lab)
{
    char path[300];
    const char *from = getenv("ESCAPE_ATTEMPTS");
    snprintf(path, sizeof path, "%s/attempts", lab->shared);
    int in = from ? open(from, O_RDONLY | O_CLOEXEC) : -1;
    int out = in < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    static char block[65536]; /* a fiber has a small stack */
    ssize_t n = 0;
    while (out >= 0 && (n = read(in, block, sizeof block)) > 0)
        assert_int_equal(write(out, block, (size_t)n), n);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return out >= 0 && n == 0;
}

static const char *argument_of(const struct outside *o, const char *attempt)
{
    static char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)o->victim);
    return !strcmp(attempt, "kill_outside")      ? pid
           : !strcmp(attempt, "connect_host")    ? o->port
           : !strcmp(attempt, "abstract_socket") ? o->name
                                                 : o->secret;
}

/* All attempts, each as a command of its own in one session; the settings are the caller's. */
static void try_all(struct lab *lab, struct box_session_spec *spec)
{
    static char list[8192];
    struct outside o;
    open_outside(&o, lab);
    void *s = lab_start(lab, spec);
    const char *env[] = {NULL};
    struct error err = {0};
    struct box_exec_result r = {0};
    struct box_exec_spec what = {"./attempts --list", "/workspace", env, 30000, sizeof list};
    assert_true(lab->b->exec(s, &what, &r, &err));
    snprintf(list, sizeof list, STR_FMT, STR_ARG(buf_view(&r.out.head)));
    box_exec_result_free(&r);
    struct str rest = str_c(list), name;
    int n = 0;
    while (str_split(&rest, '\n', &name)) {
        char attempt[64], cmd[400];
        if (!name.n)
            continue;
        snprintf(attempt, sizeof attempt, STR_FMT, STR_ARG(name));
        snprintf(cmd, sizeof cmd, "./attempts %s '%s'", attempt, argument_of(&o, attempt));
        struct said said = lab_exec_ms(lab, s, cmd, 60000);
        /* Refused, or killed for it. */
        if (said.timed_out || strstr(said.out, "ESCAPED") || (said.code != 0 && said.code != 159))
            fail_msg("%s: %s %s (%d)", attempt, said.out, said.err, said.code);
        unharmed(&o, lab, attempt);
        n++;
    }
    print_message("%d attempts refused\n", n);
    assert_true(n >= 70);
    lab->b->stop_session(s);
    close_outside(&o);
}

static void usual(struct lab *lab)
{
    struct box_mount m = {lab->shared_fd, lab->shared, "/workspace", BOX_MOUNT_RW};
    struct box_session_spec spec = lab_spec(lab);
    spec.primary = &m;
    assert_true(copy_program(lab));
    try_all(lab, &spec);
}

/* By the shell, where the way matters more than the call; {S} is the secret's path. None may print
 * ESCAPED or the secret. */
static const char *const scripts[] = {
    "cat {S} /proc/*/root{S} /proc/self/root/../..{S}",
    "ln -s / r; cat r{S}; ln -s {S} l; cat l; ln {S} h; cat h",
    "for f in /proc/[0-9]*/fd/*; do cat $f/..{S}; done",
    "cat /etc/shadow && echo ESCAPED; ls -A /root | grep . && echo ESCAPED",
    "cat /proc/*/environ | tr '\\0' '\\n' | grep -i TOKEN && echo ESCAPED",
    "ls /sys/fs && echo ESCAPED; ls /lost+found /boot /home/*/ && echo ESCAPED",
    "(exec 9<>/dev/tcp/127.0.0.1/22) && echo ESCAPED",
    "echo x > /proc/sys/kernel/core_pattern && echo ESCAPED",
    "cp /bin/sh s; cat s > /proc/1/exe && echo ESCAPED; cat s > /bin/sh && echo ESCAPED",
    "kill -9 -1; kill -STOP 1; kill -9 1; true",
    "dd if=/dev/zero of=/dev/shm/x bs=1M count=1000 && echo ESCAPED; rm -f /dev/shm/x",
    "sleep 0 & cd /proc/$!/cwd/../../.. && cat .{S}",
    "mkdir -p d && mv d /tmp/d 2>/dev/null; ls /tmp/d/../../../../..{S} && echo ESCAPED",
    "unshare -rUm true && echo ESCAPED; nsenter -t 1 -m true && echo ESCAPED",
    "su -c id </dev/null && echo ESCAPED; sudo -n id && echo ESCAPED",
    "mount -t overlay o -olowerdir=/usr,upperdir=/tmp,workdir=/tmp /usr && echo ESCAPED",
};

static void by_shell(struct lab *lab)
{
    struct outside o;
    open_outside(&o, lab);
    struct box_mount m = {lab->shared_fd, lab->shared, "/workspace", BOX_MOUNT_RW};
    struct box_session_spec spec = lab_spec(lab);
    spec.primary = &m;
    void *s = lab_start(lab, &spec);
    for (size_t i = 0; i < array_len(scripts); i++) {
        auto_buf cmd = BUF(4096);
        for (const char *p = scripts[i]; *p; p++)
            if (!strncmp(p, "{S}", 3)) {
                buf_z(&cmd, o.secret);
                p += 2;
            } else {
                buf_c(&cmd, *p);
            }
        struct said said = lab_exec_ms(lab, s, buf_cstr(&cmd), 60000);
        if (strstr(said.out, "ESCAPED") || strstr(said.out, "host-secret"))
            fail_msg("%s: %s", scripts[i], said.out);
        unharmed(&o, lab, scripts[i]);
    }
    assert_true(lab->b->alive(s));
    lab->b->stop_session(s);
    close_outside(&o);
}

/* Bombs, under caps of the session: the machine does not notice, the session says no or ends. */
static void bombs(struct lab *lab)
{
    static const char *const cmds[] = {
        "b() { b | b & }; b; sleep 1; exit 0",
        "x=x; while true; do x=$x$x; done",
        "yes > /tmp/fill; yes > /dev/shm/fill; yes > /home/fill; echo full",
        "i=0; while mkdir /tmp/d$i; do i=$((i+1)); done; echo full",
        "yes | head -c 200000000",
        "while true; do sleep 1000 & done",
    };
    if (!lab->probe.enforced[BOX_CHECK_MEMORY_LIMIT] ||
        !lab->probe.enforced[BOX_CHECK_PIDS_LIMIT]) {
        print_message("skipped: no limits of memory and processes here\n");
        return;
    }
    struct statvfs before, after;
    assert_int_equal(statvfs(lab->dir, &before), 0);
    for (size_t i = 0; i < array_len(cmds); i++) {
        struct box_session_spec spec = lab_spec(lab);
        spec.memory_mb = 64;
        spec.pids_limit = 32;
        spec.cpus = 0.5;
        void *s = lab_start(lab, &spec);
        lab_exec_ms(lab, s, cmds[i], 20000);
        lab->b->stop_session(s);
    }
    assert_int_equal(statvfs(lab->dir, &after), 0);
    assert_true((int64_t)(before.f_bavail - after.f_bavail) * (int64_t)after.f_frsize < 1 << 30);
    assert_int_equal(lab_processes("sleep 1000"), 0);
}

static void test_usual(void **st)
{
    lab_run(usual);
}
static void test_by_shell(void **st)
{
    lab_run(by_shell);
}
static void test_bombs(void **st)
{
    lab_run(bombs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_usual),
                                       cmocka_unit_test(test_by_shell),
                                       cmocka_unit_test(test_bombs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
