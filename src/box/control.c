/* control: the actions, and who may call them (box.md §2.7, §4). */
#include "box/box.h"
#include "box/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What an action is called with. */
struct call {
    struct rpc_request *r;
    struct connection *c;
    struct runtime *rt;
    struct act act; /* of a tenant action */
    struct arena *a;
};
typedef json_t *(*action_fn)(struct call *c, struct error *err);

/* ---- host actions -------------------------------------------------------------------------------- */

static json_t *do_ping(struct call *c, struct error *err)
{
    return json_object();
}

static json_t *do_init(struct call *c, struct error *err)
{
    if (!runtime_configure(c->rt, c->r->data, err))
        return NULL;
    return json_pack("{s:b}", "initialized", 1);
}

static json_t *do_health(struct call *c, struct error *err)
{
    if (!c->rt->conf->policy.required)
        return engine_info(c->rt);
    bool ready;
    auto_json state = engine_readiness(c->rt, &ready);
    if (ready)
        return steal(state);
    err_tag(err, ERR_UNAVAILABLE, 0, "BoxReadinessError", "managed sandbox isolation is not ready");
    return NULL;
}

static json_t *do_backend_info(struct call *c, struct error *err)
{
    if (!c->rt->conf->policy.required)
        return engine_info(c->rt);
    bool ready;
    json_t *state = engine_readiness(c->rt, &ready);
    json_t *info = engine_info(c->rt);
    json_set(info, "available", json_boolean(ready));
    json_set(info, "readiness", state);
    return info;
}

static json_t *do_shutdown(struct call *c, struct error *err)
{
    return runtime_shutdown(c->rt, err) ? json_object() : NULL;
}

static json_t *do_upsert(struct call *c, struct error *err)
{
    json_t *reply = NULL;
    if (admission_upsert(c->rt, c->r->data, &reply, err))
        return reply;
    json_decref(reply);
    return NULL;
}

static json_t *do_revoke(struct call *c, struct error *err)
{
    json_t *reply = NULL;
    if (admission_revoke(c->rt, c->r->data, &reply, err))
        return reply;
    json_decref(reply);
    return NULL;
}

/* ---- shared workspace challenge (§8.5) ------------------------------------------------------------ */

enum { MARKER_MAX = 1024 };
#define MARKER ".langbot-box-volume-probe-"

struct challenge {
    const char *dir, *name;
    char sha256[65];
    size_t size;
    bool ok;
};

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void read_marker(void *arg)
{
    struct challenge *c = arg;
    struct stat before, after;
    char data[MARKER_MAX + 1];
    auto_fd dir = open(c->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_fd fd =
        dir < 0 ? -1
                : openat(dir, c->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &before) != 0 || !S_ISREG(before.st_mode) || before.st_size < 1 ||
        before.st_size > MARKER_MAX)
        return;
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n < sizeof(data)) {
        got = read(fd, data + n, sizeof(data) - n);
        n += got > 0 ? (size_t)got : 0;
    }
    c->ok = got == 0 && n == (size_t)before.st_size && fstat(fd, &after) == 0 &&
            same_file(&before, &after);
    c->size = n;
    sha256_hex(str_n(data, n), c->sha256);
}

static bool marker_ok(struct str name)
{
    if (!str_starts(name, S(MARKER)) || name.n != sizeof(MARKER) - 1 + 32)
        return false;
    for (size_t i = sizeof(MARKER) - 1; i < name.n; i++)
        if (!name.p[i] || !strchr("0123456789abcdef", name.p[i]))
            return false;
    return true;
}

static json_t *do_verify(struct call *c, struct error *err)
{
    struct str name = json_s(c->r->data, "marker_name");
    struct conf *conf = conf_ref(c->rt->conf);
    struct challenge ch = {.dir = conf->workspace, .name = str_z(c->a, name)};
    bool asked = marker_ok(name) && ch.dir && task_work(read_marker, &ch, err);
    conf_unref(conf);
    if (asked && ch.ok)
        return json_pack("{s:s,s:s,s:I}", "marker_name", ch.name, "sha256", ch.sha256, "size",
                         (json_int_t)ch.size);
    err_tag(err, ERR_UNAVAILABLE, 0, "BoxReadinessError",
            "the shared workspace marker could not be verified");
    return NULL;
}

/* ---- sessions ------------------------------------------------------------------------------------ */

static bool read_spec(struct call *c, struct spec *s, struct error *err)
{
    return spec_read(c->a, c->r->data, s, err) &&
           (!c->rt->conf->policy.required || admission_normalise(c->rt, c->a, &c->act, s, err));
}

static json_t *do_exec(struct call *c, struct error *err)
{
    struct spec s;
    if (!read_spec(c, &s, err))
        return NULL;
    if (!*s.cmd) {
        spec_refuse(err, "cmd must not be empty");
        return NULL;
    }
    return box_session_exec(&c->act, &s, err);
}

static json_t *do_create(struct call *c, struct error *err)
{
    struct spec s;
    if (!read_spec(c, &s, err))
        return NULL;
    struct session *made = box_session_acquire(&c->act, &s, err);
    if (!made)
        return NULL;
    json_t *info = box_session_info(made);
    box_session_release(c->rt, made);
    return info;
}

/* The session_id of a request, logical. */
static bool read_id(struct call *c, struct str *out, struct error *err)
{
    const json_t *value = rpc_need(c->r, "session_id", err);
    if (!value || !box_session_id_read(value, "ValueError", out, err))
        return false;
    if (c->rt->conf->policy.required && !str_eqz(*out, "global"))
        return err_tag(err, ERR_DENIED, 0, "BoxAdmissionError",
                       "Managed sandbox session_id is runtime-owned");
    return true;
}

static struct session *find(struct call *c, struct str *id, struct error *err)
{
    if (!read_id(c, id, err))
        return NULL;
    struct session *s =
        box_session_find(c->rt, physical_id(c->a, c->act.place->ns, c->act.generation, *id));
    if (!s)
        box_session_missing(err, *id);
    return s;
}

static json_t *do_get(struct call *c, struct error *err)
{
    struct str id;
    struct session *s = find(c, &id, err);
    if (!s)
        return NULL;
    json_t *out = box_session_info(s), *all = json_object();
    struct str key;
    void *value;
    box_process_prune(c->rt);
    for (size_t pos = 0; map_next(&s->processes, &pos, &key, &value);) {
        struct process *p = value;
        json_set(all, p->id, box_process_info(p));
    }
    json_t *first = json_object_get(all, "default");
    if (first)
        json_set(out, "managed_process", json_incref(first));
    if (json_object_size(all) > 0)
        json_set(out, "managed_processes", all);
    else
        json_decref(all);
    return out;
}

static json_t *do_list(struct call *c, struct error *err)
{
    json_t *list = json_array();
    list_each(node, &c->act.place->sessions)
    {
        const struct session *s = container_of(node, struct session, in_place);
        if (s->generation == c->act.generation)
            json_array_append_new(list, box_session_info(s));
    }
    return json_pack("{s:o}", "sessions", list);
}

static json_t *do_delete(struct call *c, struct error *err)
{
    struct str id;
    if (!read_id(c, &id, err) || !box_session_delete(&c->act, id, err))
        return NULL;
    return json_pack("{s:O}", "deleted", json_object_get(c->r->data, "session_id"));
}

static json_t *do_status(struct call *c, struct error *err)
{
    return runtime_status(c->rt, c->act.place, c->act.generation);
}

/* ---- files (an extension: §13.3 #17) ------------------------------------------------------------- */

struct file_work {
    int root;
    enum box_file_tool tool;
    const json_t *args;
    json_t *result;
    struct error *err;
};

static void run_file_work(void *arg)
{
    struct file_work *w = arg;
    w->result = box_file_run(w->root, w->tool, w->args, w->err);
}

/* {host_path, tool, args}: a file operation of the core's tools in a directory that only the runtime
 * sees; what may be mounted may be worked in. */
static json_t *do_file(struct call *c, struct error *err)
{
    auto_mem char *where = mem_alloc(BOX_PATH_MAX + 1);
    const char *path = json_z_or(c->r->data, "host_path", "");
    struct str name = json_s(c->r->data, "tool");
    struct file_work w = {.args = json_object_get(c->r->data, "args"), .err = err};
    while (w.tool < BOX_FILE_TOOLS && !str_eqz(name, box_file_tool_name(w.tool)))
        w.tool++;
    if (w.tool == BOX_FILE_TOOLS || !json_is_object(w.args) || strlen(path) > BOX_PATH_MAX) {
        spec_refuse(err, "host_path, tool and args must say what is to be done");
        return NULL;
    }
    if (c->rt->conf->policy.required && !(path = admission_directory(c->rt, c->a, &c->act, err)))
        return NULL;
    if (!where)
        return NULL;
    struct conf *conf = conf_ref(c->rt->conf);
    w.root = mount_open(conf, path, true, "host_path", where, err);
    conf_unref(conf);
    if (w.root < 0)
        return NULL;
    if (!task_work(run_file_work, &w, err))
        w.result = NULL;
    close(w.root);
    return w.result;
}

/* ---- managed processes ----------------------------------------------------------------------------- */

static json_t *do_start_process(struct call *c, struct error *err)
{
    struct process_spec spec;
    struct str id;
    const json_t *given = rpc_need(c->r, "session_id", err) ? rpc_need(c->r, "spec", err) : NULL;
    if (!given || !process_spec_read(c->a, given, &spec, err))
        return NULL;
    if (c->rt->conf->policy.required) {
        err_tag(err, ERR_DENIED, 0, "BoxAdmissionError", "managed processes are not admitted");
        return NULL;
    }
    struct session *s = find(c, &id, err);
    return s ? box_process_start(&c->act, s, &spec, err) : NULL;
}

static struct process *find_process(struct call *c, struct session **s, struct error *err)
{
    struct str logical;
    *s = find(c, &logical, err);
    if (!*s)
        return NULL;
    const char *id = process_id_read(c->a, json_object_get(c->r->data, "process_id"), err);
    if (!id)
        return NULL;
    struct process *p = box_process_find(c->rt, *s, id);
    if (!p)
        box_process_missing(err, id, (*s)->logical);
    return p;
}

static json_t *do_get_process(struct call *c, struct error *err)
{
    struct session *s;
    const struct process *p = find_process(c, &s, err);
    return p ? box_process_info(p) : NULL;
}

static json_t *do_stop_process(struct call *c, struct error *err)
{
    struct session *s;
    struct process *p = find_process(c, &s, err);
    if (!p)
        return NULL;
    const char *id = z_fmt(c->a, "%s", p->id);
    s->refs++;
    json_t *out = NULL;
    if (box_session_begin(&c->act, s, err)) {
        /* Another one may have ended it while we waited. */
        p = box_process_find(c->rt, s, id);
        if (p) {
            box_process_stop(p);
            box_session_touch(c->rt, s);
            out = json_pack("{s:s}", "stopped", id);
        } else {
            box_process_missing(err, id, s->logical);
        }
        box_session_end(&c->act, s);
    }
    box_session_unref(c->rt, s);
    return out;
}

/* ---- the table ------------------------------------------------------------------------------------- */

enum kind { HOST, TENANT, SANDBOX /* a tenant's that needs a configuration and a grant */ };

static const struct action {
    const char *name;
    enum kind kind;
    action_fn fn; /* NULL: the file transfer, which answers by itself */
} actions[] = {
    {"__ping", HOST, do_ping},
    {"__file_chunk", HOST, NULL},
    {"box_init", HOST, do_init},
    {"box_health", HOST, do_health},
    {"box_get_backend_info", HOST, do_backend_info},
    {"box_shutdown", HOST, do_shutdown},
    {"box_verify_shared_workspace", HOST, do_verify},
    {"box_upsert_sandbox_admission_grant", HOST, do_upsert},
    {"box_revoke_sandbox_admission_grant", HOST, do_revoke},
    {"box_status", TENANT, do_status},
    {"box_exec", SANDBOX, do_exec},
    {"box_create_session", SANDBOX, do_create},
    {"box_get_session", SANDBOX, do_get},
    {"box_get_sessions", SANDBOX, do_list},
    {"box_delete_session", SANDBOX, do_delete},
    {"box_start_managed_process", SANDBOX, do_start_process},
    {"box_get_managed_process", SANDBOX, do_get_process},
    {"box_stop_managed_process", SANDBOX, do_stop_process},
    {"box_file", SANDBOX, do_file},
};

static bool denied(struct error *err, const char *text)
{
    return err_tag(err, ERR_DENIED, 0, "PermissionError", "%s", text);
}

static bool own_context(const struct call *c, struct error *err)
{
    return str_eqz(json_s(c->r->context, "instance_uuid"), c->c->instance) ||
           denied(err, "Box action context belongs to another instance");
}

/* Whose request it is. */
static bool identify(struct call *c, struct error *err)
{
    if (!c->r->context)
        return denied(err, "Box tenant action requires a trusted Workspace context");
    if (!own_context(c, err))
        return false;
    c->act.rt = c->rt;
    c->act.request = c->r;
    c->act.generation = json_i_or(c->r->context, "placement_generation", 1);
    return true;
}

/* What must hold before a sandbox action looks at its data. */
static bool admitted(struct call *c, const struct action *action, struct error *err)
{
    if (action->kind != SANDBOX)
        return true;
    if (!c->rt->conf->configured)
        return err_tag(err, ERR_UNAVAILABLE, 0, "BoxRuntimeUnavailableError",
                       "Box runtime is not configured yet: box_init must come first");
    if (!c->rt->conf->policy.required)
        return true;
    return engine_require_ready(c->rt, err) &&
           admission_check(c->rt, c->act.place, c->act.generation, err);
}

static json_t *run_tenant(struct call *c, const struct action *action, struct error *err)
{
    json_t *out = NULL;
    if (!identify(c, err))
        return NULL;
    /* Enforced: a call without a grant moves no fence, and a workspace without one needs none. */
    bool strict = c->rt->conf->policy.required;
    const char *workspace = json_z(c->r->context, "workspace_uuid");
    c->act.place = place_of(c->rt, workspace, !strict || action->kind != SANDBOX, err);
    if (strict ? !admitted(c, action, err) : !c->act.place)
        return NULL;
    if (!c->act.place)
        return NULL;
    if (place_enter(&c->act, err) && (strict || admitted(c, action, err)))
        out = action->fn(c, err);
    if (out && !place_current(&c->act, err)) {
        json_decref(out);
        out = NULL;
    }
    place_leave(&c->act);
    return out;
}

static json_t *run_host(struct call *c, const struct action *action, struct error *err)
{
    if (c->r->context && !own_context(c, err))
        return NULL;
    return action->fn(c, err);
}

static void take_chunk(struct call *c)
{
    struct error err = {0};
    if (c->r->context && !own_context(c, &err)) {
        rpc_fail(c->r, &err);
    } else if (!c->c->files) {
        rpc_fail_text(c->r, "ValueError", S("File transfer is not available"));
    } else {
        rpc_files_limit(c->c->files, (size_t)c->rt->conf->limits.max_rpc_file_bytes);
        rpc_files_chunk(c->c->files, c->r);
    }
}

void control_serve(struct rpc_request *r, void *connection)
{
    struct connection *conn = connection;
    struct call c = {.r = r, .c = conn, .rt = conn->rt, .a = r->arena};
    struct error err = {0};
    const struct action *action = actions;
    const struct action *end = actions + array_len(actions);
    while (action < end && strcmp(action->name, r->action) != 0)
        action++;
    if (action == end) {
        rpc_fail_unknown(r);
        return;
    }
    if (!action->fn) {
        take_chunk(&c);
        return;
    }
    json_t *out = action->kind == HOST ? run_host(&c, action, &err) : run_tenant(&c, action, &err);
    if (out || err.code == ERR_NONE)
        rpc_reply(r, out);
    else
        rpc_fail(r, &err);
}

bool control_run(struct runtime *rt, struct rpc_transport *stolen, const char *instance,
                 const char *name, struct rpc **out, struct error *err)
{
    struct connection c = {.rt = rt, .instance = instance};
    struct rpc_opts o = {.transport = stolen, .serve = control_serve, .arg = &c, .name = name};
    c.files = rpc_files_new("data/temp/lbp", (size_t)rt->conf->limits.max_rpc_file_bytes);
    struct rpc *rpc = rpc_new(&o, err);
    if (!rpc) {
        rpc_files_free(c.files);
        return false;
    }
    *out = rpc;
    rpc_run(rpc, err);
    *out = NULL;
    rpc_free(rpc);
    rpc_files_free(c.files);
    return err->code == ERR_CLOSED || err->code == ERR_CANCELED;
}
