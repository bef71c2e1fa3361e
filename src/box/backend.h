/* Private to box/: what a sandbox backend is (box.md §7). One file and one line in backends.c for
 * each: jail, docker, podman, nsjail, e2b, host.
 *
 * All functions are called from fibers of the runtime's loop thread and block only the calling
 * fiber: what takes long goes to a child process, a descriptor that is waited for, or task_work.
 * Strings and arrays of specs are borrowed and live until the call returns. Errors carry the name
 * they have on the wire in err->tag ("BoxValidationError", …); without one it is "BoxError".
 * A cancelled fiber gets ERR_CANCELED, after what it started has been ended.
 *
 * The runtime sees to it that
 *  - specs are valid: ids, paths, limits, and mounts that were opened and checked (spec.h);
 *  - for one session at most one exec or spawn is under way at a time, and stop_session comes last;
 *    managed processes run beside it, and calls for different sessions overlap freely;
 *  - values of the environment are handed over as they are: they may be secrets and must never be
 *    part of an argv, a log line or an error. */
#ifndef PARLEY_BOX_BACKEND_H
#define PARLEY_BOX_BACKEND_H

#include "base/base.h"
#include "task/task.h"

enum {
    BOX_ID_MAX = 192,          /* bytes of a physical session id, [A-Za-z0-9_.-] */
    BOX_PATH_MAX = 4095,       /* bytes of a path on either side */
    BOX_CAPTURE_MAX = 1048576, /* bytes kept of each output stream of an exec */
    BOX_TAIL_MAX = 64 * 1024,  /* bytes kept of its end when it was clipped */
    BOX_INSTANCE_SIZE = 13     /* 12 hex digits and a NUL: one runtime process */
};

/* ---- what is enforced ------------------------------------------------------------------------
 * Each is true only when the kernel was seen to enforce it on this machine, by this backend, for
 * sessions that are started from now on (box.md §7.6, §8.4). */
enum box_check {
    BOX_CHECK_CGROUP_V2,           /* memory, pids and cpu of a session by cgroup v2 */
    BOX_CHECK_NAMESPACE_ISOLATION, /* a command ran inside and is in namespaces of its own */
    BOX_CHECK_MOUNT_ISOLATION,   /* sees the mounted directory, and of the host only what it may */
    BOX_CHECK_NETWORK_ISOLATION, /* no way out with network off */
    BOX_CHECK_HARD_WORKSPACE_QUOTA,       /* bytes of the workspace end with ENOSPC or EDQUOT */
    BOX_CHECK_HARD_READ_ONLY_MOUNT_QUOTA, /* nothing can be written by way of a read-only mount */
    BOX_CHECK_BOUNDED_EPHEMERAL_STORAGE,  /* bytes of /tmp, home and the root file system */
    BOX_CHECK_INODE_QUOTA,                /* number of files of all of them */
    BOX_CHECK_REQUIRED_COUNT, /* those above are the checks of readiness; below: details */
    BOX_CHECK_MEMORY_LIMIT = BOX_CHECK_REQUIRED_COUNT, /* by whatever means; never by RLIMIT_AS */
    BOX_CHECK_PIDS_LIMIT,
    BOX_CHECK_CPU_LIMIT,
    BOX_CHECK_UID_MAPPING, /* root inside is nobody outside */
    BOX_CHECK_NO_NEW_PRIVILEGES,
    BOX_CHECK_CAPABILITIES_EMPTY,
    BOX_CHECK_SECCOMP,
    BOX_CHECK_LANDLOCK,
    BOX_CHECK_READ_ONLY_ROOT,
    BOX_CHECK_COUNT
};
/* The name on the wire: "cgroup_v2" … */
const char *box_check_name(enum box_check c);

struct box_probe {
    bool available; /* sessions can be started now */
    bool enforced[BOX_CHECK_COUNT];
    char reason[256]; /* for people: why it is not available, or what falls short; "" */
};

/* ---- specs ----------------------------------------------------------------------------------- */
enum box_mode { BOX_MOUNT_NONE, BOX_MOUNT_RO, BOX_MOUNT_RW };

/* A directory of the host. `fd` is an O_PATH descriptor of exactly the directory that was checked;
 * it stays the runtime's and is open until the call returns. Bind what it refers to
 * (/proc/self/fd/N, open_tree with AT_EMPTY_PATH), never the path again. */
struct box_mount {
    int fd;
    const char *host_path;  /* its canonical path, without links; for backends that need a name */
    const char *mount_path; /* absolute, normalised, no trailing slash */
    enum box_mode mode;     /* RO or RW */
};

struct box_session_spec {
    const char *id;    /* physical session id: name of directories, cgroups, labels */
    const char *image; /* as asked for, not empty; BOX_DEFAULT_IMAGE where nothing was asked */
    bool network;      /* a way out was asked for */
    bool persistent;
    bool read_only_rootfs;
    const char *mount_path; /* where the workspace is; normalised */
    /* The directory that is mounted there. NULL: none; the session then has an empty workspace of
     * its own at mount_path, writable, which goes with it. */
    const struct box_mount *primary;
    const struct box_mount *extra; /* below mount_path, none equal to or inside of another */
    size_t extra_count;
    double cpus;                /* > 0 */
    int64_t memory_mb;          /* >= 32; no swap beside it */
    int64_t pids_limit;         /* >= 1 */
    int64_t workspace_quota_mb; /* 0: the backend's own bound */
    const char *label;          /* workspace namespace "ws-…", for labels and metadata */
};
#define BOX_DEFAULT_IMAGE "rockchin/langbot-sandbox:latest"

/* Output of one stream. All is read, at most head.max bytes are kept of the beginning; when more
 * came, `tail` holds the last bytes (at most BOX_TAIL_MAX of those behind the head). */
struct box_capture {
    struct buf head, tail;
    uint64_t discarded; /* bytes behind the head; 0: head is everything */
};

struct box_exec_spec {
    const char *cmd;        /* for /bin/sh -c; not empty; at most 1 MiB; holds no NUL */
    const char *workdir;    /* absolute, normalised; made if missing (inside) */
    const char *const *env; /* "NAME=value", NULL-terminated; added to the backend's own */
    int64_t timeout_ms;     /* > 0 */
    size_t capture_max;     /* bytes kept of each stream */
};
struct box_exec_result {
    bool timed_out; /* all that it had started has been killed; output is what came until then */
    int exit_code;  /* 128 + n when ended by signal n; not meant when timed_out */
    struct box_capture out, err;
};
void box_exec_result_free(struct box_exec_result *r);

struct box_process_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH inside */
    const char *const *env;  /* "NAME=value", NULL-terminated; may hold secrets */
    const char *cwd;         /* absolute, normalised; made if missing (inside) */
    int64_t memory_mb;       /* 0: the session's */
};

/* A managed process. The descriptors are non-blocking, close-on-exec and the runtime's from the
 * return of spawn on: it closes them and sets them to -1. */
struct box_process {
    int in, out, err;
    void *impl; /* the backend's */
};

/* ---- the interface --------------------------------------------------------------------------- */
struct box_backend_env {
    const char *instance; /* 12 hex digits of this runtime process */
    /* Directory for all that this backend keeps while the process lives, 0700, made and later
     * removed by the runtime: <root>/<instance>/<backend>. Directories of other instances lie
     * beside <instance>; box_instance_alive tells whether their owner still runs. */
    const char *state_dir;
    const char *state_root;
    struct task_group *group; /* for fibers that live as long as the backend */
};
/* True while the runtime process with that instance id runs (it holds a lock). Orphans of living
 * instances are somebody else's and are left alone. */
bool box_instance_alive(const struct box_backend_env *env, const char *instance);

struct box_backend {
    const char *name; /* "jail": value of box.backend, backend_name on the wire */

    /* An instance. Cheap, starts nothing. NULL on failure. `env` lives as long as the instance. */
    void *(*open)(const struct box_backend_env *env, struct error *err);
    /* All its sessions have been stopped. */
    void (*close)(void *self);
    /* Section box.<name> of the configuration (an object; borrowed). May be NULL: takes none. */
    bool (*configure)(void *self, const json_t *section, struct error *err);

    /* What holds on this machine now, seen by doing it. With `workspace` (an existing writable
     * directory; NULL: none) mounts are tried there, below a name that starts with
     * ".box-readiness-", which is removed again. Never fails: `out` says what is. At most about 5 s. */
    void (*probe)(void *self, const char *workspace, struct box_probe *out);

    /* A session, with nothing left behind on failure (cancelled, timed out, refused). The handle
     * stays valid until stop_session. */
    void *(*start_session)(void *self, const struct box_session_spec *spec, struct error *err);
    /* Names the sandbox for operators: backend_session_id. Lives as long as the session. */
    const char *(*session_name)(void *session);
    /* False: it is gone, or cannot be asked. May be NULL: always alive. */
    bool (*alive)(void *session);
    /* Ends all processes of the session and releases what it had; the workspace of a primary mount
     * stays. Not ended by cancelling; errors are logged. */
    void (*stop_session)(void *session);

    /* Runs a command to its end, reading both streams at the same time and on past the cap.
     * Standard input is empty. What it leaves in the background stays, but holds up the answer
     * for BOX_LINGER_MS at most once the command itself has ended. True also when it failed or timed out;
     * false when it could not be run. `out` is zeroed by the caller, who frees it in any case. */
    bool (*exec)(void *session, const struct box_exec_spec *spec, struct box_exec_result *out,
                 struct error *err);

    /* A managed process with pipes. NULL: not supported. False: nothing was started. */
    bool (*spawn)(void *session, const struct box_process_spec *spec, struct box_process *out,
                  struct error *err);
    /* Waits for its end; *exit_code as above. May be called again afterwards. */
    bool (*process_wait)(struct box_process *p, int *exit_code, struct error *err);
    /* To the process and all it started, wherever they are (the group inside, not a client
     * outside). SIGKILL ends them for certain. */
    void (*process_signal)(struct box_process *p, int sig);
    /* Kills what is left of it, waits, releases impl. Also when the session ended before. */
    void (*process_free)(struct box_process *p);

    /* Removes what runtimes that do not live any more left behind: processes, directories, mounts,
     * cgroups, containers. Failures are logged. May be NULL. */
    void (*clean_orphans)(void *self);
};

extern const struct box_backend box_backend_host, box_backend_jail;
/* All that are built, NULL-terminated. */
extern const struct box_backend *const box_backends[];
/* Those that an empty box.backend and "local" try, in this order. */
extern const struct box_backend *const box_backends_auto[];
extern const struct box_backend *const box_backends_local[];
const struct box_backend *box_backend_find(const char *name); /* NULL: none is called so */

/* ---- helpers for backends ---------------------------------------------------------------------- */
/* Adds what was read from a stream, of which `max` bytes are kept. False: memory. */
bool box_capture_add(struct box_capture *c, size_t max, const void *p, size_t n);
/* Reads the output of a command: both descriptors (non-blocking, the caller's; -1: none) at the
 * same time, in fibers of their own, into `result`. NULL on failure. */
struct box_drain;
struct box_drain *box_drain_start(int out, int err_fd, size_t max, struct box_exec_result *result,
                                  struct error *err);
/* Waits until both streams have ended, at most ms. False: not yet, or the fiber was cancelled. */
bool box_drain_wait(struct box_drain *d, int64_t ms);
/* Ends the reading and releases; the descriptors are free afterwards. False: memory had ended, so
 * that output is missing. */
bool box_drain_end(struct box_drain *d);
enum { BOX_LINGER_MS = 500 }; /* for output of what a command left in the background */
/* Exit code of a status as of waitpid. */
int box_exit_code(int status);

#endif
