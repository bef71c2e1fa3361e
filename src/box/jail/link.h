/* Private to backend_jail.c and jail/link.c: sessions as the runtime sees them. Fibers of the loop
 * thread only. */
#ifndef PARLEY_BOX_JAIL_LINK_H
#define PARLEY_BOX_JAIL_LINK_H

#include "box/backend.h"
#include "box/jail/jail.h"

/* The backend. */
struct jail_self {
    const struct box_backend_env *env;
    pid_t zygote; /* 0: none */
    int sock;     /* to the zygote, -1: none */
    bool greeted; /* hello is valid */
    struct jail_hello hello;
    struct jail_cgroups groups;
    struct task_mutex lock; /* one order at a time: the zygote may have to be started and greeted */
    uint8_t used[JAIL_SLOTS / 8]; /* user ids of live sessions, as offsets from JAIL_SLOT_BASE */
    int ids; /* a file with a lock on the byte of each, for other runtimes of the machine; -1: not open */
    uint64_t counter;
    char image_root[BOX_PATH_MAX + 1]; /* "": images are not served */
    int64_t store_mb, store_files;     /* 0: by the memory of the session */
    char **hosts;                      /* that the way out may reach; owned */
    size_t host_count;                 /* 0: all */
};

struct jail_session {
    struct jail_self *self;
    unsigned refs;
    int slot;
    char id[BOX_ID_MAX + 32]; /* of cgroups */
    int sock, pidfd;
    pid_t pid; /* of the init, outside */
    bool ready, gone, network, reading;
    struct task_group *group;
    struct task_cond news;
    struct list calls;
    uint32_t last_id;
    int quota_dir; /* watched for its quota, -1: none */
    int64_t quota_bytes;
    bool over_quota; /* and was ended for it */
    int listener;    /* of the way out, -1: none */
    struct egress *egress;
    char why[JAIL_TEXT_MAX];
};

/* A command that runs. */
struct jail_call {
    struct list node;
    uint32_t id;
    bool started, failed, ended, gone; /* gone: its guardian as well */
    int code;
    char why[128];
};

#define steal_fd(p)            \
    __extension__({            \
        int steal_fd_v = *(p); \
        *(p) = -1;             \
        steal_fd_v;            \
    })

/* Makes sure that there is a zygote that has said what it found. */
bool jail_zygote_ready(struct jail_self *self, struct error *err) warn_unused;
void jail_zygote_end(struct jail_self *self);
/* Orders a session from texts as struct jail_start says, and waits for it. `fds`: of the mounts. NULL:
 * nothing is left. */
struct jail_session *jail_session_start(struct jail_self *self, struct jail_start *start,
                                        const char *id, struct str texts, const int *fds, int count,
                                        struct error *err);
/* Kills all that is in the session; returns at once. */
void jail_kill(struct jail_session *s);
/* Kills, waits until nobody is left, gives the reference back. */
void jail_session_stop(struct jail_session *s);
void jail_session_drop(struct jail_session *s);

void jail_call_begin(struct jail_session *s, struct jail_call *c);
void jail_call_end(struct jail_session *s, struct jail_call *c);
/* SIGKILL to a command and all it started, or (0) the end of a managed process with its guardian; waits
 * until it is done, whatever becomes of the fiber. */
void jail_end_call(struct jail_session *s, struct jail_call *c, int sig);
void jail_send_signal(struct jail_session *s, uint32_t id, int sig);
bool jail_link_send(struct jail_session *s, const void *head, size_t n, struct str body,
                    const int *fds, int count, struct error *err) warn_unused;
/* Ends the session when there is more than `bytes` in the directory. */
bool jail_quota_watch(struct jail_session *s, int dir, int64_t bytes,
                      struct error *err) warn_unused;
/* Serves the way out at s->listener. */
bool jail_egress_start(struct jail_session *s, struct error *err) warn_unused;
/* Everything that a session has, tried in one (probe.c). */
void jail_probe_session(struct jail_self *self, const char *workspace, struct box_probe *out);
/* A file in memory with the text, at its beginning. */
int jail_memory_file(struct str text, struct error *err);

#endif
