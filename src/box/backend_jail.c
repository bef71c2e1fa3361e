/* jail: the kernel sandbox that is built in (design.md §8). This file is the runtime's side: it orders
 * sessions from the zygote and commands from their inits; jail/ does the rest. */
#include "box/backend.h"
#include "box/jail/jail.h"
#include "box/jail/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    START_MS = 60000,          /* for the making of a session; a loaded machine may be slow */
    SPAWN_MS = 30000,          /* until a managed process runs */
    END_MS = 10000,            /* until what was killed has gone */
    ARG_MAX_BYTES = 128 << 10, /* the kernel's bound of one argument, with its NUL */
    TEXTS_MAX = JAIL_PAYLOAD_MAX,
    HOSTS_MAX = 256
};

/* ---- texts of a command ---------------------------------------------------------------------- */
static const char *const own_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home",
    "USER=box",
    "LANG=C.UTF-8",
    "PYTHONUNBUFFERED=1",
};
#define PROXY "http://127.0.0.1:3128"
static const char *const proxy_env[] = {
    "http_proxy=" PROXY,  "https_proxy=" PROXY, "HTTP_PROXY=" PROXY,
    "HTTPS_PROXY=" PROXY, "all_proxy=" PROXY,   "no_proxy=localhost,127.0.0.1,::1",
};

static bool overridden(const char *entry, const char *const *env)
{
    size_t n = strcspn(entry, "=") + 1;
    for (; *env; env++)
        if (!strncmp(*env, entry, n))
            return true;
    return false;
}

static void add_text(struct buf *b, const char *z)
{
    buf_add(b, z, strlen(z) + 1);
}

static uint32_t add_env(struct buf *b, const char *const *ours, size_t n, const char *const *env)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (!overridden(ours[i], env)) {
            add_text(b, ours[i]);
            count++;
        }
    return count;
}

static void add_texts(struct buf *b, struct jail_run *r, bool network, const char *cwd,
                      const char *const *argv, const char *const *env)
{
    add_text(b, cwd);
    for (; argv[r->args]; r->args++)
        add_text(b, argv[r->args]);
    r->env = add_env(b, own_env, array_len(own_env), env);
    if (network)
        r->env += add_env(b, proxy_env, array_len(proxy_env), env);
    for (; *env; env++, r->env++)
        add_text(b, *env);
}

/* An order for the init: streams of the command, and the descriptors that it needs besides. */
static bool order(struct jail_session *s, struct jail_run *r, const struct buf *texts, int *fds,
                  int count, struct error *err)
{
    struct str body = buf_view(texts);
    if (texts->failed || texts->n > TEXTS_MAX)
        return err_tag(err, ERR_TOO_LARGE, 0, "BoxValidationError",
                       "command, arguments and environment are longer than %d bytes", TEXTS_MAX);
    auto_fd file = -1;
    if (body.n > JAIL_INLINE_MAX / 2) {
        file = jail_memory_file(body, err);
        if (file < 0)
            return false;
        r->payload = (uint32_t)body.n;
        fds[count++] = file;
        body = STR_NONE;
    }
    return jail_link_send(s, r, sizeof *r, body, fds, count, err);
}

/* ---- exec ------------------------------------------------------------------------------------ */
struct streams {
    int out[2], err[2], in[2];
};

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_streams(struct streams *p)
{
    int *all[] = {&p->in[0], &p->in[1], &p->out[0], &p->out[1], &p->err[0], &p->err[1]};
    for (size_t i = 0; i < array_len(all); i++)
        close_one(all[i]);
}

static bool open_streams(struct streams *p, bool input, struct error *err)
{
    *p = (struct streams){{-1, -1}, {-1, -1}, {-1, -1}};
    bool ok = task_sys_pipe(p->out) == 0 && task_sys_pipe(p->err) == 0 &&
              (!input || task_sys_pipe(p->in) == 0) && fcntl(p->out[0], F_SETFL, O_NONBLOCK) == 0 &&
              fcntl(p->err[0], F_SETFL, O_NONBLOCK) == 0 &&
              (!input || fcntl(p->in[1], F_SETFL, O_NONBLOCK) == 0);
    if (!ok) {
        err_sys(err, errno, "pipes of a command");
        close_streams(p);
    }
    return ok;
}

static bool send_exec(struct jail_session *s, const struct box_exec_spec *spec, uint32_t id,
                      struct streams *p, struct error *err)
{
    const char *argv[] = {"/bin/sh", "-lc", spec->cmd, NULL};
    struct jail_run r = {.kind = JAIL_EXEC, .id = id};
    auto_buf texts = BUF(TEXTS_MAX + 1);
    auto_fd null = open("/dev/null", O_RDONLY | O_CLOEXEC), script = -1;
    int fds[JAIL_FDS_MAX] = {null, p->out[1], p->err[1]}, count = 3;
    if (null < 0)
        return err_sys(err, errno, "/dev/null");
    if (strlen(spec->cmd) + 1 > ARG_MAX_BYTES) {
        auto_buf text = BUF(TEXTS_MAX);
        buf_z(&text, "exec 3<&-\n");
        buf_z(&text, spec->cmd);
        script = text.failed ? -1 : jail_memory_file(buf_view(&text), err);
        if (script < 0)
            return text.failed ? err_set(err, ERR_NOMEM, "out of memory for a command") : false;
        argv[2] = ". /dev/fd/3";
        r.script = true;
        fds[count++] = script;
    }
    add_texts(&texts, &r, s->network, spec->workdir, argv, spec->env);
    return order(s, &r, &texts, fds, count, err);
}

/* Waits for the end of the command; false: it was ended here, because of the time or a cancellation. */
static bool await(struct jail_session *s, struct jail_call *c, int64_t ms, struct error *err)
{
    struct task_deadline d;
    bool ok = true;
    task_deadline_push(&d, ms);
    while (ok && !c->ended && !c->failed && !s->gone)
        ok = task_cond_wait(&s->news, err);
    task_deadline_pop(&d);
    return ok;
}

static bool finish(struct jail_session *s, struct jail_call *c, bool whole,
                   struct box_exec_result *out, struct error *err)
{
    static const char over[] = "The workspace is over its quota; the session has been ended.\n";
    if (c->failed)
        return err_set(err, ERR_IO, "the command cannot be started: %s", c->why);
    if (s->over_quota) { /* as if by a signal; the one who wrote is to read why */
        out->exit_code = 128 + SIGKILL;
        return box_capture_add(&out->err, BOX_CAPTURE_MAX, over, sizeof over - 1) ||
               err_set(err, ERR_NOMEM, "out of memory for the output of a command");
    }
    if (!c->ended)
        return err_set(err, ERR_IO, "the sandbox ended while the command ran");
    out->exit_code = c->code;
    return whole || err_set(err, ERR_NOMEM, "out of memory for the output of a command");
}

static bool jail_exec(void *session, const struct box_exec_spec *spec, struct box_exec_result *out,
                      struct error *err)
{
    struct jail_session *s = session;
    struct streams p;
    if (s->gone)
        return err_set(err, ERR_IO, "the sandbox has ended");
    if (!open_streams(&p, false, err))
        return false;
    struct jail_call c;
    jail_call_begin(s, &c);
    struct box_drain *drain = box_drain_start(p.out[0], p.err[0], spec->capture_max, out, err);
    bool sent = drain && send_exec(s, spec, c.id, &p, err);
    close_one(&p.out[1]);
    close_one(&p.err[1]);
    bool ended = sent && await(s, &c, spec->timeout_ms, err);
    bool canceled = sent && !ended && err->code != ERR_TIMEOUT;
    if (sent && !ended) {
        out->timed_out = !canceled;
        /* A timeout is the end of the session anyway (box.md §5.4): nothing can be left. */
        if (!canceled)
            jail_kill(s);
        else
            jail_end_call(s, &c, SIGKILL);
    }
    if (drain && sent)
        box_drain_wait(drain, BOX_LINGER_MS);
    bool whole = !drain || box_drain_end(drain);
    jail_call_end(s, &c);
    close_streams(&p);
    if (!sent || canceled)
        return false;
    return out->timed_out ? true : finish(s, &c, whole, out, err);
}

/* ---- managed processes ----------------------------------------------------------------------- */
struct jail_process {
    struct jail_session *session; /* a reference */
    struct jail_call call;
};

static bool send_spawn(struct jail_session *s, const struct box_process_spec *spec, uint32_t id,
                       struct streams *p, struct error *err)
{
    struct jail_run r = {.kind = JAIL_EXEC,
                         .id = id,
                         .managed = true,
                         .data_bytes = spec->memory_mb > 0 ? spec->memory_mb << 20 : 0};
    auto_buf texts = BUF(TEXTS_MAX + 1);
    int fds[JAIL_FDS_MAX] = {p->in[0], p->out[1], p->err[1]};
    add_texts(&texts, &r, s->network, spec->cwd, spec->argv, spec->env);
    return order(s, &r, &texts, fds, 3, err);
}

static bool started(struct jail_session *s, struct jail_call *c, struct error *err)
{
    struct task_deadline d;
    bool ok = true;
    task_deadline_push(&d, SPAWN_MS);
    while (ok && !c->started && !c->failed && !c->ended && !s->gone)
        ok = task_cond_wait(&s->news, err);
    task_deadline_pop(&d);
    if (!ok) {
        jail_end_call(s, c, SIGKILL);
        return false;
    }
    if (!c->failed && (c->started || c->ended))
        return true;
    return err_set(err, ERR_IO, "the process cannot be started: %s",
                   c->failed ? c->why : "the sandbox has ended");
}

static void process_free(struct box_process *bp)
{
    struct jail_process *p = bp->impl;
    if (!p)
        return;
    jail_end_call(p->session, &p->call, 0);
    jail_call_end(p->session, &p->call);
    jail_session_drop(p->session);
    mem_free(p);
    bp->impl = NULL;
}

static bool jail_spawn(void *session, const struct box_process_spec *spec, struct box_process *out,
                       struct error *err)
{
    struct jail_session *s = session;
    struct streams pipes;
    if (s->gone)
        return err_set(err, ERR_IO, "the sandbox has ended");
    struct jail_process *p = new (struct jail_process);
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory for a process");
    if (!open_streams(&pipes, true, err)) {
        mem_free(p);
        return false;
    }
    p->session = s;
    s->refs++;
    jail_call_begin(s, &p->call);
    bool ok = send_spawn(s, spec, p->call.id, &pipes, err) && started(s, &p->call, err);
    *out = (struct box_process){-1, -1, -1, p};
    if (ok) {
        out->in = steal_fd(&pipes.in[1]);
        out->out = steal_fd(&pipes.out[0]);
        out->err = steal_fd(&pipes.err[0]);
    } else {
        process_free(out);
    }
    close_streams(&pipes);
    return ok;
}

static bool process_wait(struct box_process *bp, int *exit_code, struct error *err)
{
    struct jail_process *p = bp->impl;
    while (!p->call.ended && !p->session->gone)
        if (!task_cond_wait(&p->session->news, err))
            return false;
    *exit_code = p->call.ended ? p->call.code : 128 + SIGKILL;
    return true;
}

static void process_signal(struct box_process *bp, int sig)
{
    struct jail_process *p = bp->impl;
    jail_send_signal(p->session, p->call.id, sig);
}

/* ---- sessions -------------------------------------------------------------------------------- */
/* Places that a workspace must not hide. */
static bool hides_system(const char *path)
{
    static const char *const kept[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
                                       "etc", "dev", "proc", "sys", "run",   "var"};
    size_t n = strcspn(path + 1, "/");
    for (size_t i = 0; i < array_len(kept); i++)
        if (strlen(kept[i]) == n && !strncmp(path + 1, kept[i], n))
            return strcmp(path, "/var/workspace") != 0;
    return n == 0;
}

/* The directory of an image: "" for the host's system. Names that are not served use it as well, as
 * the image is no matter of isolation (box.md §7.4). */
static void find_image(const struct jail_self *self, const char *image, char *out, size_t max)
{
    struct stat st;
    *out = '\0';
    if (!*self->image_root || *image == '.' || strchr(image, '/'))
        return;
    if (snprintf(out, max, "%s/%s", self->image_root, image) >= (int)max || stat(out, &st) < 0 ||
        !S_ISDIR(st.st_mode))
        *out = '\0';
}

static int add_mount(struct buf *texts, int *fds, int n, const struct box_mount *m)
{
    add_text(texts, m->mode == BOX_MOUNT_RW ? "w" : "r");
    add_text(texts, m->mount_path);
    add_text(texts, m->host_path);
    fds[n] = m->fd;
    return n + 1;
}

static int64_t at_least(int64_t v, int64_t least)
{
    return v > least ? v : least;
}

static void set_limits(const struct jail_self *self, const struct box_session_spec *spec,
                       struct jail_start *s)
{
    int64_t quota = spec->workspace_quota_mb;
    s->memory = spec->memory_mb << 20;
    s->pids = spec->pids_limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)spec->pids_limit;
    s->cpu_percent = spec->cpus > 1e6 ? 100000000 : (uint32_t)(spec->cpus * 100 + 0.5);
    /* The store is memory of the session; half of it leaves room for what runs. */
    int64_t store = self->store_mb > 0 ? self->store_mb : at_least(spec->memory_mb / 2, 16);
    s->store_bytes = store << 20;
    s->store_inodes =
        self->store_files > 0 ? self->store_files : at_least(s->store_bytes / 4096, 4096);
    if (quota > 0 && !spec->primary)
        s->workspace_bytes = quota << 20;
    if (quota > 0 && spec->primary && spec->primary->mode == BOX_MOUNT_RW)
        s->file_bytes = quota << 20;
}

static void *jail_start_session(void *backend, const struct box_session_spec *spec,
                                struct error *err)
{
    struct jail_self *self = backend;
    char image[BOX_PATH_MAX + 1], id[BOX_ID_MAX + 32];
    int fds[JAIL_FDS_MAX], count = 0;
    auto_buf texts = BUF(JAIL_INLINE_MAX);
    if (hides_system(spec->mount_path)) {
        err_tag(err, ERR_INVALID, 0, "BoxValidationError",
                "mount_path %s would hide a directory of the system", spec->mount_path);
        return NULL;
    }
    struct jail_start s = {.kind = JAIL_START,
                           .network = spec->network,
                           .read_only_root = spec->read_only_rootfs,
                           .primary = spec->primary != NULL,
                           .mounts = (uint32_t)(spec->extra_count + (spec->primary ? 1 : 0))};
    if (s.mounts > JAIL_MOUNTS_MAX) {
        err_tag(err, ERR_INVALID, 0, "BoxValidationError", "extra_mounts: at most %d",
                JAIL_MOUNTS_MAX - 1);
        return NULL;
    }
    set_limits(self, spec, &s);
    find_image(self, spec->image, image, sizeof image);
    snprintf(id, sizeof id, "%llu-%s", (unsigned long long)++self->counter, spec->id);
    add_text(&texts, id);
    add_text(&texts, spec->mount_path);
    add_text(&texts, image);
    if (spec->primary)
        count = add_mount(&texts, fds, count, spec->primary);
    for (size_t i = 0; i < spec->extra_count; i++)
        count = add_mount(&texts, fds, count, &spec->extra[i]);
    if (texts.failed) {
        err_tag(err, ERR_TOO_LARGE, 0, "BoxValidationError", "too many or too long mounts");
        return NULL;
    }
    struct jail_session *made = jail_session_start(self, &s, id, buf_view(&texts), fds, count, err);
    if (made && s.file_bytes > 0 && !jail_quota_watch(made, spec->primary->fd, s.file_bytes, err)) {
        jail_session_stop(made);
        return NULL;
    }
    return made;
}

static const char *jail_name(void *session)
{
    struct jail_session *s = session;
    return s->id;
}

static bool jail_alive(void *session)
{
    struct jail_session *s = session;
    return !s->gone;
}

static void jail_stop(void *session)
{
    jail_session_stop(session);
}

/* ---- the backend ----------------------------------------------------------------------------- */
static void *jail_open(const struct box_backend_env *env, struct error *err)
{
    struct jail_self *self = new (struct jail_self);
    if (!self) {
        err_set(err, ERR_NOMEM, "out of memory for a backend");
        return NULL;
    }
    self->env = env;
    self->sock = self->ids = -1;
    return self;
}

static void drop_hosts(struct jail_self *self)
{
    for (size_t i = 0; i < self->host_count; i++)
        mem_free(self->hosts[i]);
    mem_free(self->hosts);
    self->hosts = NULL;
    self->host_count = 0;
}

static void jail_close(void *backend)
{
    struct jail_self *self = backend;
    jail_zygote_end(self);
    drop_hosts(self);
    if (self->ids >= 0)
        close(self->ids);
    mem_free(self);
}

/* Names that sessions with network may reach: exact, or "*.example.org". */
static bool take_hosts(struct jail_self *self, const json_t *list, struct error *err)
{
    size_t n = json_array_size(list);
    if (list && (!json_is_array(list) || n > HOSTS_MAX))
        return err_set(err, ERR_INVALID, "box.jail.hosts must be a list of at most %d names",
                       HOSTS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(json_array_get(list, i)) || !json_sv(json_array_get(list, i)).n)
            return err_set(err, ERR_INVALID, "box.jail.hosts must hold names");
    drop_hosts(self);
    self->hosts = n ? mem_alloc(n * sizeof *self->hosts) : NULL;
    for (size_t i = 0; i < n && self->hosts; i++) {
        struct str name = json_sv(json_array_get(list, i));
        self->hosts[i] = mem_strndup(name.p, name.n);
        self->host_count += self->hosts[i] != NULL;
        if (!self->hosts[i])
            break;
    }
    return self->host_count == n || err_set(err, ERR_NOMEM, "out of memory for a configuration");
}

static bool jail_configure(void *backend, const json_t *section, struct error *err)
{
    struct jail_self *self = backend;
    const char *root = json_z_or(section, "image_root", "");
    int64_t store = json_i_or(section, "store_mb", 0);
    int64_t files = json_i_or(section, "store_files", 0);
    if (*root && *root != '/')
        return err_set(err, ERR_INVALID, "box.jail.image_root must be an absolute path");
    if (strlen(root) > BOX_PATH_MAX - 256)
        return err_set(err, ERR_INVALID, "box.jail.image_root is too long");
    if (store < 0 || store > 1 << 20)
        return err_set(err, ERR_INVALID, "box.jail.store_mb must be 0 to %d", 1 << 20);
    if (files < 0 || files > 1 << 26)
        return err_set(err, ERR_INVALID, "box.jail.store_files must be 0 to %d", 1 << 26);
    if (!take_hosts(self, json_object_get(section, "hosts"), err))
        return false;
    snprintf(self->image_root, sizeof self->image_root, "%s", root);
    self->store_mb = store;
    self->store_files = files;
    return true;
}

static void sweep(void *arg)
{
    jail_cgroups_sweep();
}

static void jail_clean(void *backend)
{
    struct error err;
    if (!task_work(sweep, NULL, &err) && err.code != ERR_CANCELED)
        log_warn("box", "jail: orphans could not be looked for: %s", err.msg);
}

static void jail_probe(void *backend, const char *workspace, struct box_probe *out)
{
    jail_probe_session(backend, workspace, out);
}

const struct box_backend box_backend_jail = {
    .name = "jail",
    .open = jail_open,
    .close = jail_close,
    .configure = jail_configure,
    .probe = jail_probe,
    .start_session = jail_start_session,
    .session_name = jail_name,
    .alive = jail_alive,
    .stop_session = jail_stop,
    .exec = jail_exec,
    .spawn = jail_spawn,
    .process_wait = process_wait,
    .process_signal = process_signal,
    .process_free = process_free,
    .clean_orphans = jail_clean,
};
