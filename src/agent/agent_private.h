/* Private to agent/: the runners by name, the parts of the local agent. */
#ifndef PARLEY_AGENT_PRIVATE_H
#define PARLEY_AGENT_PRIVATE_H

#include "agent/agent.h"

extern const struct runner runner_local; /* local.c */

enum { CANDIDATES_MAX = 16 };

/* One turn of the local agent. */
struct turn {
    const struct agent_run *run;
    json_t *messages; /* owned: the request's, growing by calls and results */
    json_t *offer;    /* owned: tools that the policy lets a model see, or NULL */
    const struct catalogue *catalogue;
    struct model *candidates[CANDIDATES_MAX];
    const char *levels[CANDIDATES_MAX]; /* reasoning overrides, borrowed from the config */
    size_t count, chosen;               /* chosen: who answered first */
    bool remove_think;
    int64_t sequence;
    int64_t events, answers; /* of providers so far: pieces of text, ends of streams */
};
/* answer.c: one reply of a model, handed out as it comes; *message is the whole of it, a new reference. */
bool answer_first(struct turn *t, json_t **message,
                  struct error *err) warn_unused; /* or a fallback's */
bool answer_next(struct turn *t, json_t **message,
                 struct error *err) warn_unused; /* of the one chosen */
/* rounds.c: runs the calls of a message and puts them and their results behind the messages. */
bool run_calls(struct turn *t, json_t *message, struct error *err) warn_unused;

#endif
