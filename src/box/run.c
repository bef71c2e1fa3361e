/* run: `parley box`: the environment, the order of start and stop (box.md §0). */
#include "box/box.h"
#include "box/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STALL_MS = 50, SHOWN = 100, STOP_WAIT_MS = 15000 };

struct running {
    const struct box_options *options;
    struct runtime rt;
    struct task_group *control;
    struct rpc *rpc; /* over the standard streams */
    bool ended;
    struct task_cond news;
};

static char *own(struct str s)
{
    return mem_strndup(s.p, s.n);
}

/* What the environment says about who may connect. A value that is there but wrong ends the start; it is
 * never shown. */
static bool read_identity(struct running *b, struct error *err)
{
    struct str token = str_c(getenv("LANGBOT_BOX_CONTROL_TOKEN"));
    struct str instance = str_trim(str_c(getenv("LANGBOT_BOX_TRUSTED_INSTANCE_UUID")));
    if (token.n && !token_ok(token))
        return err_set(err, ERR_INVALID,
                       "LANGBOT_BOX_CONTROL_TOKEN must have at least 32 characters and no blanks");
    if (instance.n ? !instance_ok(instance) : b->options->stdio)
        return err_set(err, ERR_INVALID,
                       "LANGBOT_BOX_TRUSTED_INSTANCE_UUID must be the id of an instance");
    b->rt.token = token.n ? own(token) : NULL;
    b->rt.trusted = instance.n ? own(instance) : NULL;
    b->rt.trusted_fixed = instance.n > 0;
    /* Nothing that is started here has a use for them. */
    unsetenv("LANGBOT_BOX_CONTROL_TOKEN");
    if ((token.n && !b->rt.token) || (instance.n && !b->rt.trusted))
        return err_set(err, ERR_NOMEM, "out of memory");
    return true;
}

static bool is_yes(const char *z)
{
    struct str s = str_trim(str_c(z));
    return str_eqz(s, "1") || str_ieqz(s, "true") || str_ieqz(s, "yes") || str_ieqz(s, "on");
}

static bool read_config(struct running *b, struct error *err)
{
    struct error why = {0};
    const char *text = getenv("LANGBOT_BOX_CONFIG");
    struct str s = str_trim(str_c(text));
    b->rt.soft_storage = is_yes(getenv("LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS"));
    if (b->rt.soft_storage)
        log_warn("box", "storage checks count as passed: not for production");
    if (!s.n)
        return true;
    auto_json config = json_parse(s, &why);
    if (!json_is_object(config)) {
        log_warn("box", "LANGBOT_BOX_CONFIG is no JSON object and is ignored: %.*s",
                 (int)utf8_cut(s, SHOWN).n, s.p);
        return true;
    }
    unsetenv("LANGBOT_BOX_CONFIG");
    return runtime_configure(&b->rt, config, err);
}

/* ---- listening ----------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static bool listen_at(struct running *b, struct error *err)
{
    const struct box_options *o = b->options;
    const char *host = o->host ? o->host : o->stdio || !b->rt.token ? "127.0.0.1" : "0.0.0.0";
    struct box_server_opts s = {.host = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                                .port = o->port,
                                .stdio = o->stdio};
    if (!is_loopback(host) && !b->rt.token)
        return err_set(err, ERR_INVALID,
                       "a listener at %s needs LANGBOT_BOX_CONTROL_TOKEN: everybody could use it",
                       host);
    struct error why = {0};
    if (box_server_start(&b->rt, &s, &why)) {
        log_info("box", "runtime %s listens at %s:%u", b->rt.instance, s.host, box_server_port());
        return true;
    }
    if (o->stdio) {
        log_warn("box", "no port, so no attaching to managed processes: %s", why.msg);
        return true;
    }
    *err = why;
    return false;
}

/* ---- control over the standard streams -------------------------------------------------------------- */

static void stdio_control(void *arg)
{
    struct running *b = arg;
    struct error err = {0};
    struct rpc_transport *t = rpc_stdio(0, 1, false, &err);
    if (!t || !control_run(&b->rt, t, b->rt.trusted, "box control", &b->rpc, &err))
        log_warn("box", "the control connection ended: %s", err.msg);
    b->ended = true;
    task_cond_notify_all(&b->news);
}

static void wait_signal(void *arg)
{
    struct running *b = arg;
    struct error err;
    int sig = task_signal_wait(1u << SIGTERM | 1u << SIGINT | 1u << SIGHUP, &err);
    if (sig)
        log_info("box", "stopping: signal %d", sig);
    b->ended = b->ended || sig;
    task_cond_notify_all(&b->news);
}

static bool start(struct running *b, struct error *err)
{
    const uint32_t stops = 1u << SIGTERM | 1u << SIGINT | 1u << SIGHUP;
    b->control = task_group_new(NULL, "box control");
    if (!b->control)
        return err_set(err, ERR_NOMEM, "out of memory");
    return read_identity(b, err) && task_signal_catch(stops, err) && read_config(b, err) &&
           listen_at(b, err) &&
           task_spawn(b->rt.group, "box reaper", runtime_reaper, &b->rt, err) &&
           task_spawn(b->control, "box signals", wait_signal, b, err) &&
           (!b->options->stdio || task_spawn(b->control, "box control", stdio_control, b, err));
}

static void stop(struct running *b)
{
    struct error err = {0};
    struct task_deadline d;
    if (b->rpc)
        rpc_shut(b->rpc, 1001, S("Box runtime shutting down"));
    box_server_stop();
    task_group_free(b->control);
    task_deadline_push(&d, STOP_WAIT_MS);
    if (!runtime_shutdown(&b->rt, &err))
        log_warn("box", "sessions were not all ended in time: %s", err.msg);
    task_deadline_pop(&d);
    runtime_end(&b->rt);
}

static int run(void *arg)
{
    struct running b = {.options = arg};
    struct error err = {0}, ignored;
    int status = 1;
    if (!runtime_init(&b.rt, &err) || !start(&b, &err)) {
        log_error("box", "the runtime cannot start: %s", err.msg);
    } else {
        task_watchdog_start(STALL_MS);
        while (!b.ended && task_cond_wait(&b.news, &ignored))
            ;
        status = 0;
    }
    stop(&b);
    return status;
}

int box_run(const struct box_options *o)
{
    log_setup(o->debug ? LOG_DEBUG : LOG_INFO, o->json_logs, 2);
    return task_run(run, (void *)(uintptr_t)o);
}
