/* Private to box/jail and backend_jail.c: the kernel sandbox.
 *
 *   parley box ── backend_jail.c ──► zygote ──► init of a session ──► commands
 *
 * The zygote is a single-threaded fork of the runtime. For each session it clones a process into a
 * pid namespace of its own and goes on at once; that process builds the rest (cgroups, namespaces,
 * tree of files), gives up everything it can, and stays as pid 1: it starts commands on order of the
 * runtime and reaps. Zygote, inits and runtime talk over SOCK_SEQPACKET pairs, one for each session,
 * so that the end of either side is an end of file for the other.
 *
 * Nothing in zygote and init allocates from the heap: the fork may have happened beside threads, and
 * every page they touch counts for each session. */
#ifndef PARLEY_BOX_JAIL_H
#define PARLEY_BOX_JAIL_H

#include "base/base.h"

#include <stdnoreturn.h>
#include <sys/types.h>

struct sock_fprog;

enum {
    JAIL_MOUNTS_MAX = 64,       /* directories of the host in one session */
    JAIL_FDS_MAX = 72,          /* descriptors with one message: the mounts and some */
    JAIL_INLINE_MAX = 48 << 10, /* bytes of a message; more goes by way of a memory file */
    JAIL_PAYLOAD_MAX = 4 << 20, /* bytes of such a file */
    JAIL_TEXT_MAX = 400,        /* bytes of a sentence about a failure */
    JAIL_WORDS_MAX = 4096,      /* arguments or variables of a command */
    JAIL_LOCAL_ID = 1000,       /* the user inside */
    JAIL_SLOT_BASE =
        0x7f000000, /* first host id for users of sessions; one for each live session */
    JAIL_SLOTS = 8192,
    JAIL_PROXY_PORT = 3128, /* where the way out listens inside */
    BOX_DIR_MAX = 4096,
    JAIL_RUNNING_MAX = 2048 /* commands of a session at one time */
};

/* ---- messages -------------------------------------------------------------------------------- */
enum jail_kind {
    JAIL_START = 1, /* runtime → zygote: struct jail_start */
    JAIL_PID,       /* zygote → runtime on the session's socket, with a pidfd */
    JAIL_READY,     /* init → runtime; with a listening socket where network was asked for */
    JAIL_FAILED,    /* zygote or init → runtime: text; `id` of the command or 0 for the session */
    JAIL_EXEC,      /* runtime → init: struct jail_run with standard streams */
    JAIL_STARTED,   /* guardian → runtime: the managed process of `id` runs */
    JAIL_EXITED,    /* init → runtime: `status` is its exit code, 128 + n for signal n */
    JAIL_GONE,      /* init → runtime: the guardian of `id` and all below it have ended */
    JAIL_SIGNAL, /* runtime → init: `status` is the signal for the command of `id` and all below
                       it; 0: end what is left of it */
    JAIL_HELLO   /* zygote → runtime when it is ready: struct jail_hello */
};
struct jail_msg { /* followed by text in FAILED */
    uint32_t kind, id;
    int32_t status;
};

/* What the zygote found out about the machine. */
struct jail_hello {
    uint32_t kind;
    bool privileged; /* may mount for others; otherwise everything goes through a user namespace */
    bool memory, pids, cpu; /* cgroup controllers that can be used */
    bool cgroup_v2;
    bool ids;      /* a user of its own for each session */
    bool seccomp;  /* the filter was made */
    int landlock;  /* ABI; 0: none */
    char why[256]; /* what is missing */
};

/* A session. Behind it: NUL-terminated texts in this order: id, mount_path, image directory ("":
 * the host's system), then for each mount its mode ("r" or "w"), mount_path and host_path. The
 * descriptors of the message: the session's socket, then one for each mount. */
struct jail_start {
    uint32_t kind;
    uint32_t uid; /* host id of the session's user, where ids can be chosen */
    int64_t memory;
    int64_t store_bytes, store_inodes; /* of everything writable that is not of the host */
    int64_t workspace_bytes;           /* > 0: the workspace without a host directory has its own */
    int64_t file_bytes;                /* > 0: longest file (RLIMIT_FSIZE) */
    uint32_t pids, cpu_percent;
    bool network, read_only_root, primary; /* primary: the first mount is the workspace */
    uint32_t mounts;
};

/* A command. Behind it: cwd, then `args` and `env` texts. */
struct jail_run {
    uint32_t kind, id;
    uint32_t args, env;
    int64_t data_bytes; /* > 0: RLIMIT_DATA of each of its processes */
    bool managed;       /* is given a guardian, so that a signal finds all it started */
    bool probe;         /* not a program but jail_probe_inside; one argument: a path of the host */
    bool script;        /* a fourth descriptor holds what /bin/sh is to run (too long for argv) */
    uint32_t payload;   /* > 0: bytes of the texts, which are in a file (the last descriptor) */
};

/* Sends a message of up to three parts with descriptors; false with errno. */
bool jail_send(int sock, const void *head, size_t head_n, const void *body, size_t body_n,
               const int *fds, int count);
/* Receives one; *count is the room in `fds` and then the number that came (close-on-exec). Bytes,
 * 0 at the end, -1 with errno. Never waits when `flags` has MSG_DONTWAIT. */
ssize_t jail_recv(int sock, void *p, size_t max, int *fds, int *count, int flags);

/* ---- cgroup.c: limits ------------------------------------------------------------------------ */
enum jail_controller { JAIL_MEMORY, JAIL_PIDS, JAIL_CPU, JAIL_CONTROLLERS };
struct jail_cgroups {
    bool v2, usable[JAIL_CONTROLLERS];
    char base[JAIL_CONTROLLERS][512]; /* this runtime's directory in each; v2: all the same */
    char why[200];                    /* why some are not usable */
};
/* Makes the runtime's own directories and sees what can be written. */
void jail_cgroups_find(struct jail_cgroups *g, const char *instance);
/* Makes the session's, sets the limits and puts the calling process in. */
bool jail_cgroups_join(const struct jail_cgroups *g, const char *id, const struct jail_start *s,
                       char *why);
/* Leaves a session a hundredth of a processor. */
void jail_cgroups_squeeze(const struct jail_cgroups *g, const char *id);
/* Times that a session was held back for its share of the processor; -1: not known. */
int64_t jail_cgroups_throttled(const struct jail_cgroups *g, const char *id);
/* Removes the session's. False: something is still inside (try again). */
bool jail_cgroups_remove(const struct jail_cgroups *g, const char *id);
void jail_cgroups_leave(const struct jail_cgroups *g); /* the runtime's own directories */
/* Kills what is in, and removes, directories of runtimes that do not live any more. */
void jail_cgroups_sweep(void);

/* ---- tree.c: what the session sees ----------------------------------------------------------- */
struct jail_mount {
    bool rw;
    const char *target, *host;
    int fd;    /* O_PATH, of the runtime */
    int tree;  /* detached clone, -1: none */
    int idmap; /* user namespace for the mapping of owners, -1: none */
};
struct jail_tree {
    const struct jail_start *start;
    const char *id, *workspace, *image;
    struct jail_mount mounts[JAIL_MOUNTS_MAX];
    bool privileged;
    uid_t uid; /* of the session's user, as files must be owned now */
    gid_t gid;
    int netns;       /* a network namespace to take, -1: a new one */
    uint32_t serial; /* of the session, for jail_lend */
    int root;        /* of the new tree */
    int proc;        /* a /proc of the session that may be written, until the end of the set-up */
    char *why;
};
/* Clones the mounts while the process is still in the host's mount namespace. */
bool jail_tree_clone(struct jail_tree *t);
/* In a mount namespace of its own: builds the tree and makes it the root. */
bool jail_tree_enter(struct jail_tree *t);
/* The part of a tree with host directories (mounts.c). */
bool jail_mounts_attach(struct jail_tree *t);
/* Before the root is made read-only. */
bool jail_mounts_prepare(struct jail_tree *t);
/* Where the new tree lies before it becomes the root: any directory of the host that is not needed any
 * more. */
#define JAIL_TREE_AT "/proc"
/* Makes the directory `path` (absolute, normalised) below root, never through a link, as the
 * session's user. O_PATH descriptor or -1. */
int jail_make_dir(const struct jail_tree *t, const char *path);
/* Sets *why to "what: strerror(errno)"; false. */
bool jail_why(char *why, const char *what);

/* ---- drop.c: giving up ----------------------------------------------------------------------- */
/* Becomes the session's user inside a user namespace of its own. `proc`: a writable /proc. */
bool jail_become(bool privileged, uid_t uid, int proc, char *why);
/* Writes the single mapping of a process in a new user namespace by its own hand. */
bool jail_map_self(int proc, uid_t outside, gid_t outside_gid, char *why);
bool jail_limits(const struct jail_start *s, char *why);
/* Capabilities, no_new_privs, Landlock, the filter. Nothing can be taken back. */
bool jail_restrict(const struct jail_tree *t, const struct sock_fprog *filter, int landlock,
                   char *why);
int jail_landlock_abi(void);

/* ---- filter.c: system calls ------------------------------------------------------------------ */
enum { JAIL_FILTER_VERSION = 1, JAIL_FILTER_MAX = 4096 /* instructions */ };
struct sock_filter;
/* Writes the program for this machine's architecture; the number of its instructions, 0 on
 * failure. Allocates: not for the zygote itself. */
size_t jail_filter_make(struct sock_filter *out, size_t max);
/* Calls in the list; `allowed` false: those that are refused by name. For the documentation. */
const char *jail_filter_name(bool allowed, size_t i);

/* ---- zygote.c, init.c ------------------------------------------------------------------------ */
/* Forks the zygote. Its socket (ours to close: it then ends with all sessions) or -1. `groups` gets what
 * was found. */
int jail_zygote_start(const char *instance, struct jail_cgroups *groups, pid_t *pid,
                      struct error *err);
struct jail_zygote {
    int sock;
    int pool[2]; /* inits write their network namespaces to [1] */
    struct jail_hello hello;
    struct jail_cgroups groups;
    uid_t outer_uid;
    gid_t outer_gid;
};
/* Network namespaces are dear to make and to remove (the kernel does it one after the other), and a
 * session can change nothing in one that is not its own. So those of ended sessions are used again;
 * those with a way out are not. */
struct jail_loan {
    uint32_t serial; /* of the session; its namespace comes with the message */
};
/* The life of a session's first process. `parts`: start message; never returns. */
noreturn void jail_init(const struct jail_zygote *z, struct jail_tree *t, int sock);
/* The filter made by the zygote. */
const struct sock_fprog *jail_filter(void);
/* A command, between the request and execve (command.c). */
struct jail_command {
    const struct jail_run *run;
    const char *cwd;
    char **argv, **env;
    int fds[4]; /* streams and script; -1: none */
    int failed; /* errno of what went wrong before execve */
};
/* RLIMIT_DATA of each command, 0: none. Where there is no control group for memory each process at
 * least is bounded; nothing is claimed for it. */
extern int64_t jail_command_data;
/* Starts it; -1 with `failed`. */
pid_t jail_command_start(struct jail_command *c);
/* Starts it below a guardian, which says itself by `sock` whether it started and how it ended. */
pid_t jail_guard_start(struct jail_command *c, int sock);
int jail_exit_code(int status); /* of waitpid */
/* What a probe expects of its session. */
struct jail_probe_limits {
    int64_t memory, store_bytes, store_inodes;
    uint32_t pids;
};
/* Prints "name=1" or "name=0" for each thing tried; the working directory is the mount. */
void jail_probe_inside(const struct jail_probe_limits *l, const char *host_path);
extern const struct jail_probe_limits jail_probe_limits;
/* Starts it as a command. */
pid_t jail_probe_start(struct jail_command *c);
/* The numbers among the names in a directory; how many there are. */
size_t jail_read_numbers(int dir, pid_t *out, size_t max);
/* Sends a signal to all that descends from `pid` (inside), and to it as well if `self`; repeats for
 * SIGKILL until nobody is left. */
void jail_signal_tree(pid_t pid, int sig, bool self);
/* When a process was started, in the kernel's ticks; 0: there is none. With the id it names a process for good. */
unsigned long long jail_start_time(pid_t pid);
/* In the init: kills a command without a guardian, its descendants, and children of the init that are
 * younger than it but for those that are `kept`. */
void jail_kill_command(pid_t pid, bool (*kept)(pid_t pid));

#endif
