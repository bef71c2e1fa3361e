/* Private to box/: what comes in, read and checked (box.md §3). All texts live in the request's
 * arena. Errors are "BoxValidationError" and name the field. */
#ifndef PARLEY_BOX_SPEC_H
#define PARLEY_BOX_SPEC_H

#include "box/backend.h"

enum {
    SPEC_ID_MAX = 1024,        /* bytes of a logical session id */
    SPEC_PROCESS_ID_MAX = 128, /* characters of a process id */
    SPEC_CMD_MAX = 1 << 20,
    SPEC_ENV_MAX = 1024, /* variables */
    SPEC_ARGS_MAX = 1024,
    SPEC_MOUNTS_MAX = 64
};
#define SPEC_MOUNT_PATH "/workspace"

/* Sets a BoxValidationError; returns false. */
bool spec_refuse(struct error *err, const char *fmt, ...) printf_like(2, 3);

/* Coercions of the contract (§3.0); false: the value is not of the kind. */
bool lax_int(const json_t *j, int64_t *out);
bool lax_float(const json_t *j, double *out);
bool lax_bool(const json_t *j, bool *out);

struct spec_mount {
    const char *host_path, *mount_path;
    enum box_mode mode;
};
struct spec {
    struct str session_id; /* logical, trimmed */
    const char *cmd;       /* trimmed; "" where none is needed */
    const char *workdir, *mount_path;
    const char *image;
    const char *host_path; /* NULL: none */
    enum box_mode host_path_mode;
    struct spec_mount *extra; /* of mode ro or rw */
    size_t extra_count;
    const char *const *env; /* NULL-terminated */
    int64_t timeout_sec, memory_mb, pids_limit, workspace_quota_mb;
    double cpus;
    bool network, persistent, read_only_rootfs;
    bool exact; /* extension: exact output as base64 beside the text */
};
bool spec_read(struct arena *a, const json_t *data, struct spec *out,
               struct error *err) warn_unused;

struct process_spec {
    const char *process_id;
    const char *const *argv; /* command and args, NULL-terminated */
    const char *const *env;
    const char *cwd;
    int64_t memory_mb;
    json_t *args, *env_keys; /* for the info; in the arena */
};
bool process_spec_read(struct arena *a, const json_t *spec, struct process_spec *out,
                       struct error *err) warn_unused;
/* A process id as it comes in: default when absent. NULL: error. */
const char *process_id_read(struct arena *a, const json_t *value, struct error *err);

/* A logical session id: trimmed, not blank, bounded, without control characters. */
bool box_session_id_read(const json_t *value, const char *class_name, struct str *out,
                         struct error *err) warn_unused;
/* Lexically: single slashes, no "." and "..", no slash at the end but for "/". */
const char *path_normal(struct arena *a, struct str path);
/* `path` is `root` or lies below it, by components. */
bool path_within(const char *path, const char *root);
bool path_has_dots(struct str path); /* a ".." component */

const char *mode_name(enum box_mode mode);

#endif
