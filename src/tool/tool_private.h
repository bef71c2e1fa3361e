/* Private to tool/: the sources in use, native tools, the audit. */
#ifndef PARLEY_TOOL_PRIVATE_H
#define PARLEY_TOOL_PRIVATE_H

#include "task/task.h"
#include "tool/tool.h"

enum { TOOL_SOURCES_MAX = 16, TOOL_CLASHES_TOLD = 256 };

struct tools {
    struct tools_opts opts;
    void *own[TOOL_SOURCES_MAX]; /* by place in tool_sources */
    size_t opened;
    struct map clashes; /* those that have been logged */
};

struct catalogue {
    struct arena *arena;
    struct tools *tools;
    struct tool_ask ask;
    struct tool **items; /* in the order of lists */
    size_t n, cap;
    bool full;
};

/* ---- native tools ------------------------------------------------------------------------------ */
extern const struct tool_source tool_source_native;
/* {name, description, human_desc, parameters} of the six, in order; a new array. */
json_t *native_declarations(void);
json_t *native_exec(struct tools *t, const struct tool_call *c, struct error *err);
json_t *native_file(struct tools *t, const struct tool_call *c, enum box_file_tool tool,
                    struct error *err);

/* ---- audit (box.md §13.2): what is done in a sandbox, and what was refused ---------------------- */
struct audit {
    struct tools *tools;
    struct query *query;
    const struct tool *tool;
    char id[UUID_SIZE];
    int64_t started_us;
};
/* Durable when it returns: before the call runs, or instead of it (`refused` says why). */
bool audit_begin(struct audit *a, const json_t *arguments, const char *refused,
                 struct error *err) warn_unused;
/* How it ended; `result` NULL: `err`. Does not wait for the disk. */
void audit_end(struct audit *a, const json_t *arguments, const json_t *result,
               const struct error *err);

#endif
