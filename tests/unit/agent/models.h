/* Models by script: they stand in for the layer model/. */
#ifndef TESTS_AGENT_MODELS_H
#define TESTS_AGENT_MODELS_H

#include "agent/agent.h"

struct model {
    const char *uuid;
    const char *pieces[16]; /* of a stream; NULL ends it */
    int fail_at;            /* fails instead of piece n (from 0); -1: never */
    enum err_code code;
    const char *answer; /* in one piece; NULL: fails */
    /* The whole message of call n (from 1) as JSON, new reference; NULL: pieces or answer as above; json_null(): fails. */
    json_t *(*script)(struct model *m, int n);
    bool calls; /* has the ability func_call */
    int refs, opened, invoked;
    char level[32];
    bool remove_think;
    json_t *messages, *tools; /* of the last request */
};
extern struct model fast, slow, third;
void models_reset(void);

#endif
