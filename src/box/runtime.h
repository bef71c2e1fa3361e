/* Private to box/: the runtime's state. Everything is touched on the loop thread, between waits, so
 * there is no lock over the whole: what waits holds the lock of one session id or of one session
 * (box.md §5.1, S7). After each wait, look again at what was borrowed. */
#ifndef PARLEY_BOX_RUNTIME_H
#define PARLEY_BOX_RUNTIME_H

#include "box/backend.h"
#include "box/conf.h"
#include "rpc/rpc.h"

enum {
    TTL_SEC = 300,
    REAP_MS = 30000,
    STOP_GRACE_MS = 5000,
    BACKENDS_MAX = 8,
    PROBE_GOOD_MS = 5000, /* how long what a probe saw is believed */
    PROBE_BAD_MS = 1000,
    NS_SIZE = 28, /* "ws-" + 24 hex digits, NUL */
    ISO_SIZE = 32,
    PREVIEW_MAX = 4000 /* characters of a stderr preview */
};

/* ---- workspaces ------------------------------------------------------------------------------- */
/* A workspace that was heard of: its fence (§2.8), and what it has. Never removed, bounded by
 * max_admission_records. */
struct place {
    char ns[NS_SIZE];
    int64_t generation;   /* highest seen */
    struct list sessions; /* struct session.in_place: those that are not closing */
    struct list closing;  /* likewise: those that are */
    struct list acts;     /* struct act.in_place */
};

/* A tenant's request that is being served. Lives on its fiber's stack. */
struct act {
    struct runtime *rt;
    struct rpc_request *request; /* NULL in tests */
    struct place *place;
    int64_t generation;
    struct list in_place, in_session;
};

/* ---- sessions --------------------------------------------------------------------------------- */
/* Everything about one physical id, as long as somebody holds it or it has a session. */
struct slot {
    char *id;
    size_t refs;
    struct task_mutex op; /* who decides about the id: making and retiring wait inside */
    struct session *live, *closing;
};

struct session {
    size_t refs;
    struct slot *slot; /* held */
    struct place *place;
    int64_t generation;
    char *logical;
    struct engine *engine;
    void *handle;
    /* What was asked for (§3.4, §5.2). */
    char *image, *host_path, *mount_path, *mounts; /* mounts: signature of the extra ones */
    enum box_mode host_path_mode;
    bool network, persistent, read_only_rootfs;
    double cpus;
    int64_t memory_mb, pids_limit, workspace_quota_mb;
    int64_t created_us, used_us; /* wall clock */
    int64_t idle_us;             /* monotonic twin of used_us */

    size_t active, leases, running; /* commands, holders, running processes */
    struct task_mutex run; /* one command or start/stop at a time: waits for the backend inside */
    struct map processes;  /* id → struct process */
    struct list acts;
    bool closing, closed;
    struct task_cond closed_news;
    struct list in_place, in_idle;
};

/* ---- managed processes ------------------------------------------------------------------------ */
/* The end of what a process has said on stderr. */
struct preview {
    struct buf text;
};
struct process {
    size_t refs;
    struct runtime *rt;
    struct session *session; /* NULL once it was taken out of its session */
    char *id;
    json_t *info; /* session_id, process_id, command, args, cwd, env_keys */
    struct engine *engine;
    struct box_process box;
    int64_t started_us, exited_us, exited_mono_us;
    bool running, stopping;
    int exit_code;
    struct task_cond ended;
    struct preview preview;
    struct buf stderr_rest; /* bytes of a character that is not whole yet */
    int64_t log_window_us;
    unsigned logged, suppressed;
    struct task_group *group; /* its watcher and the reader of stderr */
    struct task_mutex attach; /* one relay at a time: the next waits for the end of the first */
    struct relay *relay;      /* the attached one */
    struct buf line;          /* bytes of stdout that are no whole line yet */
    size_t line_scanned;
    struct list in_ended;
};

/* ---- backends ---------------------------------------------------------------------------------- */
/* A backend that was opened; stays so until the end. */
struct engine {
    const struct box_backend *b;
    void *self;
    struct box_backend_env env;
    char state_dir[512];
    struct box_probe probe;
    int64_t probed_us; /* monotonic; 0: never */
    bool probed_strictly, cleaned;
    struct task_mutex probing; /* a probe waits; who comes meanwhile takes its result */
};

/* ---- admission (§8) ---------------------------------------------------------------------------- */
struct record {
    char ns[NS_SIZE];
    char *workspace; /* as the core calls it */
    bool granted;
    int64_t generation, revision, expires_us, max_sessions, max_managed_processes;
    int64_t highest_generation, highest_revision; /* ever seen in a grant or a revocation */
    int64_t revoked;                              /* revision of the tombstone; 0: none */
};
struct expiry {
    int64_t at_us;
    struct record *record;
};
struct admission {
    struct map records; /* ns → struct record */
    size_t grants;
    struct expiry *heap;
    size_t heap_n, heap_cap;
};

/* ---- the runtime ------------------------------------------------------------------------------- */
struct runtime {
    char instance[BOX_INSTANCE_SIZE];
    char state_root[256], state_dir[300];
    int lock_fd;
    struct conf *conf;
    bool soft_storage;  /* LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS */
    char *token;        /* NULL: none */
    char *trusted;      /* pinned instance; NULL: not yet */
    bool trusted_fixed; /* it came with the environment, or a token proved the peer */
    size_t controls;    /* control connections */
    uint64_t refused;   /* handshakes */

    struct engine engines[BACKENDS_MAX];
    size_t engine_n;
    struct engine *chosen;
    unsigned choices; /* times that the choice was forgotten: one under way is then void */
    const struct box_backend *own; /* one more that can be named; NULL: none (tests have one) */
    struct task_mutex choosing;    /* probes wait inside */
    struct task_mutex configuring; /* INIT makes directories inside */

    struct map places, slots;
    int64_t fence_max; /* most places: INIT may raise it, a restart lower it */
    struct list idle;  /* sessions that may expire, longest unused first */
    struct list ended; /* exited processes, first exited first */
    size_t ended_n;
    size_t sessions, creating, closing; /* live, being made, being retired */
    size_t running, starting;           /* managed processes */
    unsigned shutting;                  /* shutdowns under way: nothing new starts */
    struct task_cond settled;           /* creating or closing fell */
    struct admission admission;
    struct task_group *group; /* fibers of the runtime: cleanups, reaper */
};

/* runtime.c */
bool runtime_init(struct runtime *rt, struct error *err);
void runtime_end(struct runtime *rt); /* everything has been shut down */
bool runtime_configure(struct runtime *rt, const json_t *payload, struct error *err);
/* Drops all sessions and waits. */
bool runtime_shutdown(struct runtime *rt, struct error *err);
void runtime_reaper(void *rt); /* a fiber */
void runtime_reap(struct runtime *rt);
json_t *runtime_resources(const struct runtime *rt);
json_t *runtime_status(struct runtime *rt, const struct place *place, int64_t generation);

/* engine.c */
/* The backend that sessions are started with, probed not long ago; NULL: none is available, with
 * BoxBackendUnavailableError. */
struct engine *engine_ready(struct runtime *rt, struct error *err);
/* Probes again if what is known is old; {name, available, …}. */
json_t *engine_info(struct runtime *rt);
void engine_forget(struct runtime *rt); /* the choice; it is made anew when needed */
void engine_close_all(struct runtime *rt);
/* Readiness (§8.4): new reference; *ready. */
json_t *engine_readiness(struct runtime *rt, bool *ready);
/* Grant-enforced mode: BoxReadinessError with the checks that failed. */
bool engine_require_ready(struct runtime *rt, struct error *err);

/* place.c */
struct place *place_of(struct runtime *rt, const char *workspace, bool create, struct error *err);
void place_namespace(const char *instance, const char *workspace, char out[NS_SIZE]);
/* The request is of this generation: refuses an old one, retires what is older, waits for it. */
bool place_enter(struct act *act, struct error *err);
void place_leave(struct act *act);
/* Until no session of the workspace is being retired. */
bool place_wait_closing(struct runtime *rt, struct place *p, struct error *err);
/* ERR_CANCELED comes also when the generation was overtaken meanwhile. */
bool place_advance(struct runtime *rt, struct place *p, int64_t generation, struct error *err);
bool place_current(const struct act *act, struct error *err); /* else the stale error */
bool place_stale(struct error *err);
/* Physical id of a logical one, in the arena. */
const char *physical_id(struct arena *a, const char *ns, int64_t generation, struct str logical);
/* The physical id belongs to exactly this placement. */
bool physical_is_of(struct str id, const char *ns, int64_t generation);

/* session.c */
struct session *box_session_find(struct runtime *rt, const char *physical); /* live; borrowed */
/* Get or create (§5.1), leased: the caller ends with session_release. */
struct session *box_session_acquire(struct act *act, const struct spec *spec, struct error *err);
void box_session_release(struct runtime *rt, struct session *s); /* the lease */
void box_session_unref(struct runtime *rt, struct session *s);
json_t *box_session_info(const struct session *s);
json_t *box_session_exec(struct act *act, const struct spec *spec, struct error *err);
bool box_session_delete(struct act *act, struct str logical, struct error *err);
/* Retires it: from now on nobody finds it. Does not wait; the caller may wait with a reference. */
void box_session_close(struct runtime *rt, struct session *s);
bool box_session_wait_closed(struct session *s, struct error *err);
void box_session_touch(struct runtime *rt, struct session *s);
/* Links the act, so that it ends when the session is closed. Waits for the session's turn; false:
 * it is being deleted, or the fiber was cancelled. */
bool box_session_begin(struct act *act, struct session *s, struct error *err);
void box_session_end(struct act *act, struct session *s);
bool box_session_missing(struct error *err, struct str logical);
bool box_session_gone(struct error *err, const char *logical);

/* session_make.c */
struct session *box_session_make(struct act *act, struct slot *slot, const struct spec *spec,
                                 struct error *err);
bool box_session_compatible(const struct session *s, const struct spec *spec, struct error *err);
bool box_session_same_mounts(const struct session *s, const struct spec *spec);
/* Whether the mounts of a spec may be mounted. */
bool box_session_check_mounts(struct runtime *rt, struct arena *a, const struct spec *spec,
                              struct error *err);
void box_session_free(struct session *s);

/* process.c */
json_t *box_process_start(struct act *act, struct session *s, const struct process_spec *spec,
                          struct error *err);
json_t *box_process_info(const struct process *p);
struct process *box_process_find(struct runtime *rt, const struct session *s, const char *id);
bool box_process_missing(struct error *err, const char *id, const char *logical);
/* Ends it and takes it out of its session; the caller holds the session's turn. */
void box_process_stop(struct process *p);
void box_process_stop_all(struct runtime *rt, struct session *s);
void box_process_unref(struct process *p);
void box_process_prune(struct runtime *rt); /* exited ones over the bounds of number and time */
/* process_err.c: reads stderr to its end. */
void box_process_read_stderr(void *process);
void preview_add(struct preview *v, struct str text);
json_t *preview_text(const struct preview *v);
void preview_free(struct preview *v);

/* relay.c */
void relay_serve(struct runtime *rt, struct http_request *r);
void relay_stop_input(struct process *p); /* the process's stdin is about to be closed */
void relay_finish(struct process *p);     /* its output has ended, or is given up */

/* admission.c */
bool admission_upsert(struct runtime *rt, const json_t *data, json_t **reply, struct error *err);
bool admission_revoke(struct runtime *rt, const json_t *data, json_t **reply, struct error *err);
/* A valid grant for the placement; NULL: BoxAdmissionError. */
const struct record *admission_check(struct runtime *rt, const struct place *p, int64_t generation,
                                     struct error *err);
void admission_expire(struct runtime *rt);
void admission_end(struct runtime *rt);
/* The one directory of the act's workspace, made if missing; NULL: BoxAdmissionError. */
const char *admission_directory(struct runtime *rt, struct arena *a, const struct act *act,
                                struct error *err);
/* Forces a spec into the one that a grant allows (§8.2). */
bool admission_normalise(struct runtime *rt, struct arena *a, const struct act *act, struct spec *s,
                         struct error *err);

/* trim.c: blocks; for a worker. The argument is not used. */
void box_trim(void *unused);

/* control.c */
void control_serve(struct rpc_request *r, void *connection);

/* server.c */
struct server;

const char *iso_time(int64_t wall_us, char out[ISO_SIZE]); /* UTC, microseconds, Z */

#endif
