/* Private to box/: the runtime's configuration: limits, admission policy, paths (box.md §2.6, §3.8,
 * §3.9, §5.9). A configuration is immutable; INIT makes a new one from the old and its payload, or
 * fails and changes nothing. */
#ifndef PARLEY_BOX_CONF_H
#define PARLEY_BOX_CONF_H

#include "box/spec.h"

struct box_limits {
    int64_t max_sessions, max_managed_processes, max_completed_processes;
    int64_t completed_process_retention_sec, max_admission_records, max_rpc_file_bytes;
};
struct box_policy {
    bool required;
    const char *required_backend; /* literal */
    int64_t max_sessions, max_managed_processes, max_grant_ttl_sec, max_timeout_sec;
    int64_t memory_mb, pids_limit, workspace_quota_mb;
    double cpus, readiness_cache_sec;
    bool read_only_rootfs;
};

struct conf {
    size_t refs;     /* whoever waits while using it holds one */
    json_t *raw;     /* all payloads merged, top level only */
    bool configured; /* some payload was applied: before that nothing runs */
    struct box_limits limits;
    struct box_policy policy;
    char policy_error[512]; /* readiness fails with it; "" */
    char *backend;          /* box.backend */
    char *workspace;        /* canonical path of the default workspace; NULL: none */
    char **roots;           /* canonical allowed roots, NULL-terminated */
    char *roots_text;       /* "a, b" for errors */
};

struct conf *conf_new(void); /* the defaults; NULL: memory */
/* ERR_INVALID without a tag (ValueError) for limits, BoxValidationError for paths. Makes the default
 * workspace. */
struct conf *conf_apply(const struct conf *old, const json_t *payload, struct error *err);
struct conf *conf_ref(struct conf *c);
void conf_unref(struct conf *c); /* NULL is fine */

/* conf_policy.c: reads box.admission over `old`; a malformed one is required and has an error. */
void policy_read(const json_t *raw, const struct conf *old, struct conf *out);
void policy_default(struct box_policy *p);

/* ---- directories of the host (mounts.c) ------------------------------------------------------- */
/* A directory that may be mounted: an O_PATH descriptor, with its canonical path in `canonical`; -1:
 * BoxValidationError. `create`: missing parts are made below an allowed root. `field` is for the
 * error. Waits only when the path is not in the kernel's cache. */
int mount_open(const struct conf *c, const char *path, bool create, const char *field,
               char canonical[BOX_PATH_MAX + 1], struct error *err);
/* Targets of extra mounts: below mount_path, none equal to or inside of another. */
bool mount_targets_ok(const struct spec *s, struct error *err);
bool path_blocked(const char *canonical);

#endif
