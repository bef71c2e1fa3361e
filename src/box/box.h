/* box: the sandbox. This header is the folder's face: file operations below a directory, which core and runtime share, and
 * what the core's tools ask of the Box service. box.md §9, §10. */
#ifndef PARLEY_BOX_H
#define PARLEY_BOX_H

#include "base/base.h"
#include "chat/chat.h"
#include "tenant/tenant.h"

/* ---- file operations (box.md §10.4 to §10.9) --------------------------------------------------
 * The same code answers where the core sees the workspace and where only the runtime does. Every
 * path component is opened relative to `root` and no link is ever followed, so nothing outside of
 * it can be reached, whatever changes meanwhile. */
enum box_file_tool {
    BOX_FILE_READ,
    BOX_FILE_WRITE,
    BOX_FILE_EDIT,
    BOX_FILE_GLOB,
    BOX_FILE_GREP,
    BOX_FILE_TOOLS
};
enum {
    BOX_FILE_OUTPUT_MAX = 51200,      /* bytes of a result's text */
    BOX_FILE_EDIT_MAX = 1048576,      /* bytes of a file before and after an edit */
    BOX_FILE_WRITE_MAX = 10485760,    /* bytes of one write, decoded */
    BOX_FILE_GLOB_MATCHES = 100,      /* newest kept */
    BOX_FILE_GREP_MATCHES = 200,      /* first kept */
    BOX_FILE_GREP_FILES = 5000,       /* read by one search */
    BOX_FILE_GREP_BUDGET_US = 250000, /* matching of one search */
    BOX_FILE_SCAN_MAX = 100000,       /* entries looked at by one walk */
    BOX_FILE_DEPTH_MAX = 64,  /* directories below the start of a walk: one descriptor each */
    BOX_FILE_LIST_MAX = 10000 /* entries of a directory that is read */
};
/* The tool's name: "read" … */
const char *box_file_tool_name(enum box_file_tool t);
/* Runs one operation; blocks, so for workers. `root` is the directory that is /workspace inside
 * (O_PATH or readable; borrowed). `args` are the model's. The result object {ok, …}, new reference:
 * failures that the model is to see as a result have ok false and `error`. NULL: an error that is
 * raised (a path outside of /workspace, a link in the way, not a regular file, memory). */
json_t *box_file_run(int root, enum box_file_tool tool, const json_t *args, struct error *err);
/* The arguments in short, for logs and the audit: path or pattern and lengths, never contents. */
struct str box_file_summary(struct arena *a, enum box_file_tool tool, const json_t *args);

/* Where a path argument leads: "a/b" below /workspace, "" for itself or where there is no argument; NULL: outside, or no path. */
const char *box_file_place(struct arena *a, const json_t *path);

/* ---- what tools ask of the Box service (box.md §9.3) -------------------------------------------
 * Functions are called from fibers and may wait. `query` is the run that asks: scope, bot,
 * pipeline configuration (session-id template, policy), variables, launcher. */
struct box_service {
    void *self;

    /* The sandbox can be used by this workspace now: enabled, connected, backend ready, capability
     * and admission given. Asks again where what is known is old, so that a recovery is seen
     * without a restart. `why` (may be NULL) gets a sentence for people when it is not. */
    bool (*available)(void *self, const struct scope *scope, char why[256]);

    /* Runs a command in the session of this query. `payload` holds what the model may influence and
     * nothing else, as it said it: {cmd, workdir, timeout_sec?, env?}; types, limits and profile are
     * the service's. `mounts`: read-only mounts [{host_path, mount_path, mode:"ro"}] or NULL. The
     * result object of box.md §9.3, new reference. NULL: an error (BoxValidationError …), which the
     * service has recorded among its recent ones where §9.8 says so. Cancelling the fiber ends the
     * command. */
    json_t *(*exec)(void *self, struct query *query, const json_t *payload, const json_t *mounts,
                    struct error *err);

    /* The host directory that is /workspace for this query's workspace, made if missing: a new
     * O_PATH descriptor, the caller's. -1 with ERR_NOT_FOUND: it is not on this host (`file` is asked
     * then); other codes: raised. */
    int (*workspace)(void *self, const struct query *query, struct error *err);

    /* The same operation done by the runtime where the core does not see the workspace: as
     * box_file_run. NULL: the runtime cannot. */
    json_t *(*file)(void *self, struct query *query, enum box_file_tool tool, const json_t *args,
                    struct error *err);

    /* Before `bytes` more are written to the workspace: within its quota? False with the error that
     * the model is told. NULL: no quota. */
    bool (*may_write)(void *self, const struct query *query, int64_t bytes, struct error *err);

    /* Key of inbox and outbox of this query ("/workspace/outbox/<key>/"), or NULL: none are used.
     * Lives as long as the query. */
    const char *(*outbox_key)(void *self, struct query *query);
};

/* ---- the runtime process, `parley box` (box.md §0 to §8) ---------------------------------------- */
struct box_options {
    bool stdio;       /* control over standard input and output; else over WebSocket */
    const char *host; /* address to listen on; NULL: loopback in stdio mode and without a token,
                         else all */
    uint16_t port;    /* 0: any */
    bool debug, json_logs;
};
/* Runs until a signal or, in stdio mode, the end of its input; the exit status. Reads
 * LANGBOT_BOX_CONFIG, LANGBOT_BOX_CONTROL_TOKEN, LANGBOT_BOX_TRUSTED_INSTANCE_UUID,
 * LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS, PARLEY_BOX_STATE. The log goes to standard error
 * only. */
int box_run(const struct box_options *o);

#endif
