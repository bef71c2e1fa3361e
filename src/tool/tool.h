/* tool: what an agent may call. Sources of tools (native now; MCP, plugins and skills later) behind one interface, the
 * catalogue of a run, and the dispatch of calls with the pipeline's policy enforced at each. tools-mcp-skills.md part A,
 * box.md §10 and §13 (S2, S8). To add a source: one file with a `struct tool_source`, one line in sources.c. */
#ifndef PARLEY_TOOL_H
#define PARLEY_TOOL_H

#include "base/base.h"
#include "box/box.h"
#include "chat/chat.h"
#include "config/config.h"
#include "store/store.h"
#include "tenant/tenant.h"

enum {
    TOOL_NAME_MAX = 64,            /* bytes of a name that a model is given */
    TOOL_CATALOGUE_MAX = 1024,     /* tools of one catalogue; more are left out with a warning */
    TOOL_RESULT_MAX = 16 << 20,    /* bytes of one result as the model gets it */
    TOOL_ARGUMENTS_MAX = 16 << 20, /* bytes of one call's arguments */
    TOOL_ROUNDS_MAX = 128          /* rounds of calls in one run */
};

struct tools;     /* the sources of this process */
struct catalogue; /* the tools of one run or one list */
struct tool_source;

/* ---- tools and sources ------------------------------------------------------------------------- */
/* One tool. Texts and JSON live in the catalogue's arena or longer. */
struct tool {
    const struct tool_source *source;
    const char *name;                     /* the source's own */
    const char *call_name;                /* what models call it: unique in the catalogue */
    const char *description, *human_desc; /* for the model; for people */
    json_t *parameters;                   /* JSON Schema object, passed on as it is */
    const char *owner_name;               /* "LangBot", server or plugin */
    const char *owner_id;                 /* or NULL */
    bool unlisted;                        /* models are offered it, lists for people leave it out */
    void *own;                            /* the source's */
};

/* For whom a catalogue is made. */
struct tool_ask {
    struct scope scope;
    struct query *query; /* NULL: for people, nobody calls */
    /* What the pipeline binds: plugins ["author/name"], MCP servers [uuid], skills [name]; NULL: all. */
    const json_t *plugins, *mcp_servers, *skills;
    bool skill_tools, mcp_resources;
};
/* From extensions_preferences of a pipeline (A3); NULL: nothing is restricted. Members are borrowed. */
void tool_ask_bind(struct tool_ask *ask, const json_t *preferences);

/* One call, as a source gets it. */
struct tool_call {
    const struct tool *tool;
    struct query *query;
    const json_t *arguments; /* object */
};

struct tool_source {
    const char *name;  /* in records: "native", "plugin", "mcp", "skill" */
    const char *shown; /* in lists: "builtin", … */
    int rank;          /* of two owners of a name the lower is called by it (A2); 0 to 15 */
    int detail;        /* of two owners of a name the lower is shown where one is asked for */
    bool audited;      /* its calls leave a durable record, allowed or not */
    /* The source's own state (tools_own), made and ended with the process. May be NULL. */
    void *(*open)(struct tools *t, struct error *err);
    void (*close)(void *own);
    /* Adds its tools by catalogue_add. May wait. A failure leaves them out and is logged. */
    bool (*list)(void *own, struct catalogue *c, const struct tool_ask *ask, struct error *err);
    /* Runs a call. The result as JSON, new reference: a list of content elements is handed to the
     * model as their text, anything else as JSON. NULL: failed; the model is told "err: <msg>". */
    json_t *(*call)(void *own, const struct tool_call *call, struct error *err);
    /* A name that is always this source's, also while the tool cannot be used: nobody else is given
     * it. May be NULL. */
    bool (*reserves)(struct str name);
    /* The answer to a call of a reserved name that cannot be used now. NULL: not found. */
    json_t *(*missing)(void *own, const struct tool_ask *ask, struct str name);
};
extern const struct tool_source *const tool_sources[]; /* NULL-terminated, in the order of lists */

struct tools_opts {
    const struct config *config;
    const struct store *store;     /* audit records; NULL: they are logged only */
    const struct box_service *box; /* NULL: no sandbox */
};
struct tools *tools_new(const struct tools_opts *o, struct error *err);
void tools_free(struct tools *t); /* NULL is fine */
const struct tools_opts *tools_opts(const struct tools *t);
void *tools_own(const struct tools *t, const struct tool_source *s);

/* ---- the catalogue of a run -------------------------------------------------------------------- */
/* Asks every source. Lives in `a`. Two tools of one name keep it both in lists; the first owner in
 * the order of ranks is called by it, the others by "<owner>__<name>" (S8 #16), and the clash is logged. */
struct catalogue *catalogue_new(struct tools *t, const struct tool_ask *ask, struct arena *a,
                                struct error *err);
/* For sources: a tool whose texts the arena keeps. False: full or memory. `parameters` is borrowed. */
bool catalogue_add(struct catalogue *c, const struct tool *tool);
struct arena *catalogue_arena(const struct catalogue *c);
size_t catalogue_count(const struct catalogue *c);
const struct tool *catalogue_at(const struct catalogue *c, size_t i); /* in the order of lists */
const struct tool *catalogue_find(const struct catalogue *c, struct str call_name); /* or NULL */
/* {tools:[…]} of GET /api/v1/tools, and one of GET /api/v1/tools/<name>; new references. */
json_t *catalogue_rows(const struct catalogue *c);
json_t *catalogue_row(const struct catalogue *c, struct str name); /* NULL: none is called so */

/* ---- policy (S2) -------------------------------------------------------------------------------- */
/* Read from a pipeline's configuration, ai.local-agent: `denied-tools` (names; comes first),
 * `enable-all-tools` exactly false: only `tools`. Borrowed. */
struct tool_policy {
    const json_t *denied, *allowed; /* allowed NULL: all */
    bool none;                      /* `tools` is no list: nothing is allowed */
};
struct tool_policy tool_policy_of(const json_t *pipeline_config);
/* Denied by either of its names; allowed by the name that it is called by. */
bool tool_allowed(const struct tool_policy *p, const struct tool *t);
/* [{name, description, parameters}] that the policy lets the model see; new reference. */
json_t *catalogue_offer(const struct catalogue *c, const struct tool_policy *p);

/* ---- calls --------------------------------------------------------------------------------------- */
struct tool_outcome {
    const char *source; /* for records; NULL: no source owns the name */
    json_t *result;     /* owned by the caller; NULL: it failed */
    int64_t duration_ms;
    bool refused; /* by the policy; it has been audited */
};
/* Finds the owner, asks the policy again, runs it, audits what must be. Never trusts the list that the
 * model was given. False: `err` is what the model is told, ERR_CANCELED: the run ends. */
bool tools_call(struct tools *t, const struct catalogue *c, struct query *q, struct str name,
                const json_t *arguments, struct tool_outcome *out, struct error *err) warn_unused;
/* A result as the model gets it; at most TOOL_RESULT_MAX bytes. False: too large or memory. */
bool tool_result_text(const json_t *result, struct buf *out);
/* The arguments without what nobody else is to see (values of the environment of exec); new reference. */
json_t *tool_arguments_shown(struct str name, const json_t *arguments);
/* Guidance for the model when `exec` is among its tools (box.md §9.12); "" otherwise. */
struct str tools_guidance(struct tools *t, const struct catalogue *c, const struct tool_policy *p,
                          struct query *q);

#endif
