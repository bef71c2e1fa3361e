/* A runtime in the test's process, driven over its own protocol, with a backend that does what it is told. */
#ifndef PARLEY_TEST_BOX_RIG_H
#define PARLEY_TEST_BOX_RIG_H

#include "box/server.h"
#include "support/fiber_test.h"

/* What the backend called "fake" does and has done. */
struct fake {
    bool unavailable, refuse_start, dead;
    bool strict_ok; /* all checks of readiness hold */
    bool missing[BOX_CHECK_COUNT];
    int start_ms, stop_ms, probe_ms;
    bool hold_exec; /* an exec lasts until this falls, or it is cancelled */
    size_t started, stopped, live, execs, canceled, probes, cleaned, most_at_once, starting;
    char last_id[256]; /* of the last session that was started */
    size_t last_extra; /* its extra mounts */
    bool last_network, last_persistent;
    char last_host[512]; /* its primary mount, "" */
};
extern struct fake fake;
extern const struct box_backend box_backend_fake;

struct rig {
    struct runtime rt;
    struct task_group *group;
    struct rpc *rpc; /* the client's end */
    struct rpc *served;
    bool client_ended, server_ended;
    char root[64]; /* a directory of its own; <root>/box and <root>/mounts are allowed roots */
    int64_t generation;
    const char *workspace;
};
/* A configured runtime (backend "fake"); `more` (stolen, may be NULL) is merged into the payload. */
void rig_open(struct rig *l, const char *backend, json_t *more);
/* Not configured. */
void rig_open_bare(struct rig *l);
void rig_init(struct rig *l, const char *backend, json_t *more);
void rig_close(struct rig *l);

/* An action of the lab's workspace and generation; the data, or NULL with the error's text. Data is stolen. */
json_t *rig_call(struct rig *l, const char *action, json_t *data, struct error *err);
json_t *rig_host(struct rig *l, const char *action, json_t *data, struct error *err);
/* The same in the background; `done` is set and the answer kept. */
struct later {
    struct rig *rig;
    const char *action, *workspace;
    int64_t generation;
    json_t *data, *got;
    struct error err;
    bool done;
};
void rig_later(struct rig *l, struct later *x, const char *action, json_t *data);
json_t *rig_wait(struct later *x); /* the answer; NULL: x->err */

/* Calls that must end so. */
void rig_ok(struct rig *l, const char *action, json_t *data);
void rig_fails(struct rig *l, const char *action, json_t *data, const char *text);
json_t *spec(const char *session, const char *cmd);
size_t rig_sessions(struct rig *l);
void rig_pass(int64_t seconds); /* time goes by, and the reaper comes round */

#endif
