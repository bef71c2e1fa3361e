#include "box/rig.h"

#include <ftw.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake fake;
static struct rig *current;

/* ---- the fake backend ---------------------------------------------------------------------------- */

struct fake_session {
    char name[32];
};

static void *fake_open(const struct box_backend_env *env, struct error *err)
{
    return &fake;
}

static void fake_close(void *self) {}

static void fake_probe(void *self, const char *workspace, struct box_probe *out)
{
    struct error err;
    fake.probes++;
    if (fake.probe_ms)
        CHECK(task_sleep_ms(fake.probe_ms, &err));
    *out = (struct box_probe){.available = !fake.unavailable};
    for (int i = 0; i < BOX_CHECK_COUNT; i++)
        out->enforced[i] = fake.strict_ok && !fake.missing[i];
}

static bool rest(int ms, struct error *err)
{
    return ms == 0 || task_sleep_ms(ms, err);
}

static void *fake_start(void *self, const struct box_session_spec *s, struct error *err)
{
    fake.starting++;
    fake.most_at_once = fake.starting > fake.most_at_once ? fake.starting : fake.most_at_once;
    bool ok = rest(fake.start_ms, err);
    fake.starting--;
    if (ok && fake.refuse_start)
        ok = err_tag(err, ERR_UPSTREAM, 0, "BoxError", "fake backend error: no such image");
    if (!ok)
        return NULL;
    struct fake_session *x = new (struct fake_session);
    CHECK(x);
    snprintf(x->name, sizeof(x->name), "fake-%zu", ++fake.started);
    snprintf(fake.last_id, sizeof(fake.last_id), "%s", s->id);
    snprintf(fake.last_host, sizeof(fake.last_host), "%s", s->primary ? s->primary->host_path : "");
    fake.last_extra = s->extra_count;
    fake.last_network = s->network;
    fake.last_persistent = s->persistent;
    fake.live++;
    return x;
}

static const char *fake_name(void *session)
{
    struct fake_session *x = session;
    return x->name;
}

static bool fake_alive(void *session)
{
    return !fake.dead;
}

static void fake_stop(void *session)
{
    struct error err;
    CHECK(rest(fake.stop_ms, &err));
    fake.stopped++;
    fake.live--;
    mem_free(session);
}

static bool fake_exec(void *session, const struct box_exec_spec *s, struct box_exec_result *out,
                      struct error *err)
{
    fake.execs++;
    while (fake.hold_exec) {
        if (!task_sleep_ms(1, err)) {
            fake.canceled++;
            return false;
        }
    }
    if (strcmp(s->cmd, "hang") == 0) {
        out->timed_out = true;
        return true;
    }
    return box_capture_add(&out->out, s->capture_max, s->cmd, strlen(s->cmd));
}

static void fake_clean(void *self)
{
    fake.cleaned++;
}

const struct box_backend box_backend_fake = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .probe = fake_probe,
    .start_session = fake_start,
    .session_name = fake_name,
    .alive = fake_alive,
    .stop_session = fake_stop,
    .exec = fake_exec,
    .clean_orphans = fake_clean,
};

/* ---- the lab --------------------------------------------------------------------------------------- */

struct serving {
    struct rpc_transport *transport;
};
static struct serving serving;

static void serve(void *arg)
{
    struct rig *l = arg;
    struct error err;
    control_opened(&l->rt);
    control_run(&l->rt, serving.transport, l->rt.trusted, "test", &l->served, &err);
    control_closed(&l->rt);
    l->server_ended = true;
}

static void client(void *arg)
{
    struct rig *l = arg;
    struct error err;
    rpc_run(l->rpc, &err);
    l->client_ended = true;
}

static struct rpc_transport *end_of(int fd)
{
    struct error err;
    struct rpc_transport *t = rpc_stdio(fd, dup(fd), true, &err);
    CHECK(t);
    return t;
}

void rig_open_bare(struct rig *l)
{
    struct error err = {0};
    int pair[2];
    memset(&fake, 0, sizeof(fake));
    memset(l, 0, sizeof(*l));
    current = l;
    l->workspace = "workspace";
    l->generation = 1;
    snprintf(l->root, sizeof(l->root), "/tmp/parley-box-test-XXXXXX");
    CHECK(mkdtemp(l->root));
    char path[128];
    snprintf(path, sizeof(path), "%s/state", l->root);
    CHECK(mkdir(path, 0700) == 0 && setenv("PARLEY_BOX_STATE", path, 1) == 0);
    snprintf(path, sizeof(path), "%s/mounts", l->root);
    CHECK(mkdir(path, 0700) == 0);
    MUST(runtime_init(&l->rt, &err));
    l->rt.own = &box_backend_fake;
    l->rt.trusted = mem_strndup("instance", 8);
    l->rt.trusted_fixed = true;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    serving.transport = end_of(pair[1]);
    struct rpc_opts o = {.transport = end_of(pair[0]), .name = "client"};
    l->rpc = rpc_new(&o, &err);
    l->group = task_group_new(NULL, "lab");
    MUST(task_spawn(l->group, "serve", serve, l, &err));
    MUST(task_spawn(l->group, "client", client, l, &err));
}

static json_t *payload(const struct rig *l, const char *backend, json_t *more)
{
    json_t *out = json_pack("{s:s}", "backend", backend);
    char root[128], mounts[128];
    snprintf(root, sizeof(root), "%s/box", l->root);
    snprintf(mounts, sizeof(mounts), "%s/mounts", l->root);
    json_set(out, "local",
             json_pack("{s:s,s:s,s:[s,s]}", "host_root", root, "default_workspace", "default",
                       "allowed_mount_roots", root, mounts));
    if (more)
        json_object_update(out, more);
    json_decref(more);
    return out;
}

void rig_init(struct rig *l, const char *backend, json_t *more)
{
    struct error err;
    json_t *got = rig_host(l, "box_init", payload(l, backend, more), &err);
    MUST(got);
    json_decref(got);
}

void rig_open(struct rig *l, const char *backend, json_t *more)
{
    rig_open_bare(l);
    rig_init(l, backend, more);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

void rig_close(struct rig *l)
{
    struct error err;
    rpc_shut(l->rpc, 1000, S(""));
    if (l->served)
        rpc_shut(l->served, 1000, S(""));
    task_group_free(l->group);
    CHECK(l->client_ended && l->server_ended);
    MUST(runtime_shutdown(&l->rt, &err));
    runtime_end(&l->rt);
    rpc_free(l->rpc);
    CHECK(fake.live == 0);
    CHECK(nftw(l->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

/* ---- calls ------------------------------------------------------------------------------------------- */

static json_t *call_as(struct rig *l, const char *workspace, int64_t generation, const char *action,
                       json_t *data, struct error *err)
{
    *err = (struct error){0};
    auto_json context = json_pack("{s:s,s:s,s:I}", "instance_uuid", "instance", "workspace_uuid",
                                  workspace, "placement_generation", (json_int_t)generation);
    return rpc_call(l->rpc, action, data, context, 20000, err);
}

json_t *rig_call(struct rig *l, const char *action, json_t *data, struct error *err)
{
    return call_as(l, l->workspace, l->generation, action, data, err);
}

json_t *rig_host(struct rig *l, const char *action, json_t *data, struct error *err)
{
    *err = (struct error){0};
    return rpc_call(l->rpc, action, data, NULL, 20000, err);
}

static void do_later(void *arg)
{
    struct later *x = arg;
    x->got = call_as(x->rig, x->workspace, x->generation, x->action, x->data, &x->err);
    x->done = true;
}

void rig_later(struct rig *l, struct later *x, const char *action, json_t *data)
{
    struct error err;
    *x = (struct later){.rig = l,
                        .action = action,
                        .workspace = l->workspace,
                        .generation = l->generation,
                        .data = data};
    MUST(task_spawn(l->group, "later", do_later, x, &err));
}

json_t *rig_wait(struct later *x)
{
    fiber_until(&x->done);
    return x->got;
}

void rig_ok(struct rig *l, const char *action, json_t *data)
{
    struct error err;
    json_t *got = rig_call(l, action, data, &err);
    MUST(got);
    json_decref(got);
}

void rig_fails(struct rig *l, const char *action, json_t *data, const char *text)
{
    struct error err;
    json_t *got = rig_call(l, action, data, &err);
    if (got || !strstr(err.msg, text)) {
        fprintf(stderr, "%s: wanted \"%s\", got \"%s\"\n", action, text, got ? "success" : err.msg);
        abort();
    }
}

json_t *spec(const char *session, const char *cmd)
{
    return json_pack("{s:s,s:s}", "session_id", session, "cmd", cmd);
}

size_t rig_sessions(struct rig *l)
{
    struct error err;
    json_t *got = rig_call(l, "box_get_sessions", json_object(), &err);
    MUST(got);
    size_t n = json_array_size(json_object_get(got, "sessions"));
    json_decref(got);
    return n;
}

void rig_pass(int64_t seconds)
{
    struct error err;
    time_shift_us(seconds * 1000000, seconds * 1000000);
    runtime_reap(&current->rt);
    CHECK(task_sleep_ms(5, &err));
}
