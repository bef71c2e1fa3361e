/* host: commands as plain child processes of the runtime's user, in a directory of the session.
 * It isolates nothing and limits nothing: for trusted local development, and only when the
 * configuration names it. Paths below mounted directories are replaced in commands, arguments,
 * environment and directories by those of the host. */
#include "box/backend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCAN_PASSES = 50, ENVIRON_MAX = 1 << 20, TEXT_MAX = 4 << 20 };

/* Each process that is started carries this variable and hands it down, so that what left its process
 * group is found again. */
#define MARK "PARLEY_BOX_RUN="

struct host {
    const struct box_backend_env *env;
    uint64_t sessions;
};
struct mapping {
    char *inside, *outside;
};
struct host_session {
    struct host *host;
    char *dir;
    char mark[64]; /* "<instance>/<session>/" */
    uint64_t runs;
    struct mapping maps[2 + 64]; /* longest `inside` first */
    size_t map_count;
};
struct host_process {
    struct child *child;
    char mark[96];
};

/* ---- processes by their mark ----------------------------------------------------------------- */

/* The mark in the environment of a process into `out`; false: it has none. */
static bool read_mark(const char *pid, char out[96])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    auto_buf text = BUF(ENVIRON_MAX);
    ssize_t n = fd < 0 ? 0 : 1;
    while (n > 0 && buf_reserve(&text, 4096)) {
        n = read(fd, text.p + text.n, 4096);
        text.n += n > 0 ? (size_t)n : 0;
    }
    struct str rest = buf_view(&text), entry;
    while (str_split(&rest, '\0', &entry)) {
        if (str_starts(entry, S(MARK))) {
            snprintf(out, 96, STR_FMT, STR_ARG(str_sub(entry, sizeof(MARK) - 1, 95)));
            return true;
        }
    }
    return false;
}

/* Signals all processes for which `wanted` is true; their number. */
static int signal_marked(bool (*wanted)(const char *mark, void *arg), void *arg, int sig)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    int n = 0;
    char mark[96];
    while (proc && (e = readdir(proc))) {
        int pid = atoi(e->d_name); /* allow atoi: names of /proc */
        if (pid > 1 && read_mark(e->d_name, mark) && wanted(mark, arg))
            n += kill(pid, sig) == 0;
    }
    if (proc)
        closedir(proc);
    return n;
}

static bool has_prefix(const char *mark, void *arg)
{
    return str_starts(str_c(mark), str_c(arg));
}

struct sweep {
    const char *prefix;
    int sig;
};

static void sweep(void *arg)
{
    struct sweep *s = arg;
    void *prefix = (void *)(uintptr_t)s->prefix;
    if (s->sig != SIGKILL) {
        signal_marked(has_prefix, prefix, s->sig);
        return;
    }
    /* Until a pass finds none: they may fork while we look. */
    for (int i = 0; i < SCAN_PASSES && signal_marked(has_prefix, prefix, SIGKILL) > 0; i++)
        usleep(1000 + 500 * (useconds_t)i);
}

static void signal_all(const char *prefix, int sig)
{
    struct error err;
    struct task_hold hold;
    struct sweep s = {prefix, sig};
    task_hold_begin(&hold);
    if (!task_work(sweep, &s, &err))
        log_warn("box", "host: processes could not be looked for: %s", err.msg);
    task_hold_end(&hold);
}

/* ---- paths ------------------------------------------------------------------------------------- */

static bool ends_name(char c)
{
    return !c || (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
                  !strchr("._-", c) && (unsigned char)c < 0x80);
}

/* The text with each path of a mounted directory replaced. NULL: memory. */
static const char *outside(const struct host_session *s, struct arena *a, const char *text)
{
    auto_buf out = BUF(TEXT_MAX);
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        size_t took = 0;
        for (size_t m = 0; m < s->map_count && text[i] == '/' && !took; m++) {
            size_t len = strlen(s->maps[m].inside);
            if (strncmp(text + i, s->maps[m].inside, len) == 0 && ends_name(text[i + len]) &&
                (i == 0 || (ends_name(text[i - 1]) && text[i - 1] != '/'))) {
                buf_z(&out, s->maps[m].outside);
                took = len;
            }
        }
        if (!took) {
            buf_c(&out, text[i]);
            took = 1;
        }
        i += took;
    }
    return out.failed ? NULL : str_z(a, buf_view(&out));
}

static bool make_path(const char *path)
{
    char part[BOX_PATH_MAX + 1];
    snprintf(part, sizeof(part), "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p == '/' || !*p) {
            char had = *p;
            *p = '\0';
            if (mkdir(part, 0777) != 0 && errno != EEXIST && !had)
                return false;
            *p = had;
            if (!had)
                return true;
        }
    }
}

/* ---- sessions ---------------------------------------------------------------------------------- */

static void *host_open(const struct box_backend_env *env, struct error *err)
{
    struct host *h = new (struct host);
    if (!h) {
        err_set(err, ERR_NOMEM, "out of memory for a backend");
        return NULL;
    }
    h->env = env;
    return h;
}

static void host_close(void *self)
{
    mem_free(self);
}

static void host_probe(void *self, const char *workspace, struct box_probe *out)
{
    *out = (struct box_probe){.available = true};
    snprintf(out->reason, sizeof(out->reason),
             "the host backend isolates nothing and limits nothing");
}

static bool add_mapping(struct host_session *s, const char *inside, const char *path)
{
    struct mapping m = {mem_strndup(inside, strlen(inside)), mem_strndup(path, strlen(path))};
    size_t at = s->map_count;
    if (!m.inside || !m.outside) {
        mem_free(m.inside);
        mem_free(m.outside);
        return false;
    }
    while (at > 0 && strlen(s->maps[at - 1].inside) < strlen(inside)) {
        s->maps[at] = s->maps[at - 1];
        at--;
    }
    s->maps[at] = m;
    s->map_count++;
    return true;
}

static bool make_session_dirs(struct host_session *s, const struct box_session_spec *spec,
                              struct error *err)
{
    static const char *const parts[] = {"", "/home", "/tmp", "/workspace"};
    char path[BOX_PATH_MAX + 1];
    for (size_t i = 0; i < array_len(parts); i++) {
        snprintf(path, sizeof(path), "%s%s", s->dir, parts[i]);
        if (mkdir(path, 0700) != 0)
            return err_sys(err, errno, "cannot make the directory of a session");
    }
    bool ok = add_mapping(s, spec->mount_path, spec->primary ? spec->primary->host_path : path);
    for (size_t i = 0; ok && i < spec->extra_count; i++)
        ok = add_mapping(s, spec->extra[i].mount_path, spec->extra[i].host_path);
    return ok || err_set(err, ERR_NOMEM, "out of memory for a session");
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    remove(path);
    return 0;
}

static void remove_tree(void *arg)
{
    nftw(arg, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void release(struct host_session *s)
{
    struct error err;
    struct task_hold hold;
    task_hold_begin(&hold);
    if (s->dir && !task_work(remove_tree, s->dir, &err))
        log_warn("box", "host: the directory of a session stays: %s", err.msg);
    task_hold_end(&hold);
    for (size_t i = 0; i < s->map_count; i++) {
        mem_free(s->maps[i].inside);
        mem_free(s->maps[i].outside);
    }
    mem_free(s->dir);
    mem_free(s);
}

static void *host_start(void *self, const struct box_session_spec *spec, struct error *err)
{
    struct host *h = self;
    char dir[BOX_PATH_MAX + 1];
    struct host_session *s = new (struct host_session);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory for a session");
        return NULL;
    }
    s->host = h;
    h->sessions++;
    snprintf(dir, sizeof(dir), "%s/%llu", h->env->state_dir, (unsigned long long)h->sessions);
    snprintf(s->mark, sizeof(s->mark), "%s/%llu/", h->env->instance,
             (unsigned long long)h->sessions);
    s->dir = mem_strndup(dir, strlen(dir));
    if (!s->dir ? !err_set(err, ERR_NOMEM, "out of memory for a session")
                : !make_session_dirs(s, spec, err)) {
        release(s);
        return NULL;
    }
    return s;
}

static const char *host_name(void *session)
{
    struct host_session *s = session;
    return s->dir;
}

static void host_stop(void *session)
{
    struct host_session *s = session;
    if (s->runs > 0)
        signal_all(s->mark, SIGKILL);
    release(s);
}

/* ---- commands ---------------------------------------------------------------------------------- */

/* The environment of a command: ours for the directories, the caller's, the mark. */
static const char *const *environment(struct host_session *s, struct arena *a,
                                      const char *const *env, const char *mark)
{
    size_t n = 0, at = 0;
    while (env[n])
        n++;
    const char **out = arena_alloc(a, (n + 8) * sizeof(*out));
    if (!out)
        return NULL;
    out[at++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    out[at++] = "LANG=C.UTF-8";
    out[at++] = "PYTHONUNBUFFERED=1";
    out[at++] = z_fmt(a, "HOME=%s/home", s->dir);
    out[at++] = z_fmt(a, "TMPDIR=%s/tmp", s->dir);
    for (size_t i = 0; i < n; i++)
        out[at++] = outside(s, a, env[i]);
    out[at++] = z_fmt(a, MARK "%s", mark);
    for (size_t i = 0; i < at; i++)
        if (!out[i])
            return NULL;
    return arena_failed(a) ? NULL : out;
}

/* Starts a program in a directory that is made if it is missing. */
static struct child *start_child(struct host_session *s, struct arena *a, const char *const *argv,
                                 const char *const *env, const char *cwd, const char *mark,
                                 bool with_input, struct error *err)
{
    const char *dir = a ? outside(s, a, cwd) : NULL;
    struct child_spec c = {.argv = argv,
                           .envp = dir ? environment(s, a, env, mark) : NULL,
                           .cwd = dir,
                           .pipe_in = with_input,
                           .pipe_out = true,
                           .pipe_err = true};
    if (!c.envp) {
        err_set(err, ERR_NOMEM, "out of memory for a command");
        return NULL;
    }
    if (!make_path(dir)) {
        err_sys(err, errno, "cannot make the directory of a command");
        return NULL;
    }
    return child_start(&c, err);
}

/* Waits for the command; false: it was ended here, because of the time or a cancellation. */
static bool await(struct child *c, int64_t timeout_ms, int *status, struct error *err)
{
    struct task_deadline d;
    task_deadline_push(&d, timeout_ms);
    bool ok = child_wait(c, status, err);
    task_deadline_pop(&d);
    return ok;
}

static bool host_exec(void *session, const struct box_exec_spec *spec, struct box_exec_result *out,
                      struct error *err)
{
    struct host_session *s = session;
    auto_arena a = arena_new(16 << 20);
    char mark[96];
    snprintf(mark, sizeof(mark), "%s%llu", s->mark, (unsigned long long)++s->runs);
    const char *argv[] = {"/bin/sh", "-c", a ? outside(s, a, spec->cmd) : NULL, NULL};
    if (!argv[2])
        return err_set(err, ERR_NOMEM, "out of memory for a command");
    struct child *c = start_child(s, a, argv, spec->env, spec->workdir, mark, false, err);
    if (!c)
        return false;
    struct box_drain *drain =
        box_drain_start(child_fd(c, 1), child_fd(c, 2), spec->capture_max, out, err);
    int status = 0;
    bool ended = drain && await(c, spec->timeout_ms, &status, err);
    if (drain && !ended) {
        out->timed_out = err->code == ERR_TIMEOUT;
        child_signal(c, SIGKILL);
        signal_all(mark, SIGKILL);
    }
    bool whole = drain && (box_drain_wait(drain, BOX_LINGER_MS), box_drain_end(drain));
    child_stop(c, 0);
    if (drain && !whole)
        return err_set(err, ERR_NOMEM, "out of memory for the output of a command");
    out->exit_code = box_exit_code(status);
    return ended || out->timed_out;
}

/* ---- managed processes --------------------------------------------------------------------------- */

static int own_fd(struct child *c, int which)
{
    int fd = fcntl(child_fd(c, which), F_DUPFD_CLOEXEC, 3);
    child_close(c, which);
    return fd;
}

static const char *const *outside_argv(struct host_session *s, struct arena *a,
                                       const char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    const char **out = a ? arena_alloc(a, (n + 1) * sizeof(*out)) : NULL;
    for (size_t i = 0; out && i < n; i++)
        if (!(out[i] = outside(s, a, argv[i])))
            return NULL;
    return out;
}

static bool host_spawn(void *session, const struct box_process_spec *spec, struct box_process *out,
                       struct error *err)
{
    struct host_session *s = session;
    auto_arena a = arena_new(16 << 20);
    struct host_process *p = new (struct host_process);
    const char *const *argv = outside_argv(s, a, spec->argv);
    if (!p || !argv) {
        mem_free(p);
        return err_set(err, ERR_NOMEM, "out of memory for a process");
    }
    snprintf(p->mark, sizeof(p->mark), "%s%llu", s->mark, (unsigned long long)++s->runs);
    p->child = start_child(s, a, argv, spec->env, spec->cwd, p->mark, true, err);
    if (!p->child) {
        mem_free(p);
        return false;
    }
    *out = (struct box_process){own_fd(p->child, 0), own_fd(p->child, 1), own_fd(p->child, 2), p};
    return true;
}

static bool host_wait(struct box_process *bp, int *exit_code, struct error *err)
{
    struct host_process *p = bp->impl;
    int status;
    if (!child_wait(p->child, &status, err))
        return false;
    *exit_code = box_exit_code(status);
    return true;
}

static void host_signal(struct box_process *bp, int sig)
{
    struct host_process *p = bp->impl;
    child_signal(p->child, sig);
    signal_all(p->mark, sig);
}

static void host_process_free(struct box_process *bp)
{
    struct host_process *p = bp->impl;
    child_stop(p->child, 0);
    mem_free(p);
}

/* ---- orphans ------------------------------------------------------------------------------------- */

static bool is_orphan(const char *mark, void *arg)
{
    char instance[BOX_INSTANCE_SIZE];
    snprintf(instance, sizeof(instance), "%.12s", mark);
    return strlen(instance) == 12 && !strchr(instance, '/') && !box_instance_alive(arg, instance);
}

static void sweep_orphans(void *arg)
{
    struct host *h = arg;
    for (int i = 0; i < SCAN_PASSES; i++) {
        if (signal_marked(is_orphan, (void *)(uintptr_t)h->env, SIGKILL) == 0)
            return;
        usleep(2000);
    }
}

static void host_clean(void *self)
{
    struct error err;
    if (!task_work(sweep_orphans, self, &err) && err.code != ERR_CANCELED)
        log_warn("box", "host: orphans could not be looked for: %s", err.msg);
}

const struct box_backend box_backend_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .probe = host_probe,
    .start_session = host_start,
    .session_name = host_name,
    .stop_session = host_stop,
    .exec = host_exec,
    .spawn = host_spawn,
    .process_wait = host_wait,
    .process_signal = host_signal,
    .process_free = host_process_free,
    .clean_orphans = host_clean,
};
