/* agent: the runner interface and the local agent. One file per runner; one line in runners.c adds one. providers.md §18, §19. */
#ifndef PARLEY_AGENT_H
#define PARLEY_AGENT_H

#include "base/base.h"
#include "chat/chat.h"
#include "model/model.h"
#include "tool/tool.h"

/* One message or cumulative chunk of a turn. `message` is borrowed by the callee ({role, content, tool_calls?, …}). */
struct agent_output {
    json_t *message;
    bool is_chunk, is_final;
    int64_t sequence;
};
/* A tool call that begins (`ended` false) or has ended. Texts are bounded and live until the callback returns. */
struct agent_tool {
    const char *id;       /* of the call, as the model gave it */
    struct str name;      /* likewise */
    struct str arguments; /* JSON text, values of the environment masked; or what the model wrote */
    bool ended;
    const char *source;      /* NULL: no source owns the name */
    struct str result;       /* as the model gets it, cut */
    const struct error *err; /* NULL: it went well */
    int64_t duration_ms;
};
struct agent_run {
    struct query *query;
    struct models *models;
    struct tools *tools;               /* NULL: there are none */
    const struct catalogue *catalogue; /* NULL: none was made for this run */
    struct tool_ask ask;               /* for whom one would be made */
    bool stream;                       /* the adapter takes chunks */
    /* Called for each output in order; false: stop (error passed up). May wait (it sends). */
    bool (*emit)(void *arg, const struct agent_output *out, struct error *err);
    /* Called after each model call for the monitoring record; usage NULL: unknown; err NULL: it went well. May be NULL. */
    void (*on_call)(void *arg, const struct model *m, int64_t duration_ms,
                    const struct llm_usage *usage, const struct error *err);
    void (*on_tool)(void *arg, const struct agent_tool *call); /* may be NULL */
    void *arg;
    int64_t max_chars, max_chunks; /* system.response_limits */
};
struct runner {
    const char *name; /* "local-agent" */
    bool (*run)(const struct agent_run *run, struct error *err);
};
extern const struct runner *const runners[]; /* NULL-terminated */
const struct runner *runner_find(const char *name);

#endif
