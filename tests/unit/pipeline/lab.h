/* An engine on a SQLite store of its own; bots, adapter, models and runner by script (they stand in for the layers platform/, model/ and
 * agent/). */
#ifndef TESTS_PIPELINE_LAB_H
#define TESTS_PIPELINE_LAB_H

#include "pipeline/engine.h"

#include <stdio.h>

#define LAB_BOT   "0b8a4c0e-1111-4111-8111-000000000001"
#define LAB_PIPE  "0b8a4c0e-3333-4333-8333-000000000003"
#define LAB_OTHER "0b8a4c0e-4444-4444-8444-000000000004"

struct bot {
    struct lab *lab;
    struct scope scope;
    char uuid[64];
    json_t *row;
    bool gone;
};

/* What reached the adapter. */
struct lab_part {
    char *text;
    json_t *chain;
    bool is_chunk, is_final, tool_calls, quote;
    size_t tools; /* calls that came with it */
    char delivery[64], message[64], response[64], launcher[64], sender[64];
    int64_t number;
};

struct lab {
    char dir[64];
    struct store store;
    struct fence *fence;
    struct scope scope, scope2; /* of two workspaces */
    struct config *config;
    struct engine *engine;
    struct task_group *group;
    int failures;
    const char *yaml; /* of the configuration; "{}" */

    struct bot bots[4];
    size_t bot_n;
    struct adapter adapter; /* .streaming may be set */
    struct lab_part parts[4096];
    size_t n, cards;
    json_t *activity[64]; /* what the adapter was told of tool calls */
    size_t activity_n;
    struct task_cond came;
    enum reply_result answer; /* REPLY_SENT at first */
    size_t fail_part;         /* the part of this number (from 1) fails */
    size_t redelivered;

    /* The runner. Without `run`: "echo: <text>", in two growing chunks and a final one where it may stream. */
    bool (*run)(struct lab *l, const struct agent_run *r, struct error *err);
    size_t runs, running, most_running;
    int run_ms;
    char order[64][32];                           /* user texts in the order of the runs */
    json_t *prompt, *messages, *user, *variables; /* of the last run */
    struct task_cond ran, go;
    bool hold; /* runs wait until it is false and `go` is notified */

    bool model_vision;
    const char *models; /* names that exist, " a b " */
    char log[256];      /* last line of the bot's log */
};

/* Runs `body` in a fiber on a lab of its own; fails the test if a check failed or memory stayed behind. */
void lab_run(void (*body)(struct lab *l));
void lab_run_with(void (*body)(struct lab *l), const char *yaml);
#define check(l, cond)           lab_check((l), (cond), #cond, __FILE__, __LINE__)
#define check_text(l, got, want) lab_check_text((l), (got), (want), __FILE__, __LINE__)
bool lab_check(struct lab *l, bool ok, const char *what, const char *file, int line);
void lab_check_text(struct lab *l, const char *got, const char *want, const char *file, int line);

/* Creates or changes LAB_PIPE (or another): the default configuration with `patch` (JSON text) merged into it. */
void lab_pipe(struct lab *l, const char *uuid, const char *patch);
struct bot *lab_bot(struct lab *l, size_t i);
/* A message to the first bot. `group` NULL: from person `sender`. Chain or text. True: accepted. */
bool lab_say(struct lab *l, const char *sender, const char *group, const char *text);
bool lab_chain(struct lab *l, const char *sender, const char *group, const char *chain);
struct lab_say {
    struct bot *bot;
    const char *sender, *group, *text, *chain, *key, *pipeline, *id;
    bool no_stream, ephemeral;
};
bool lab_accept(struct lab *l, const struct lab_say *s, struct accepted *out, struct error *err);
bool lab_wait(struct lab *l, size_t parts); /* 5 s */
bool lab_runs(struct lab *l, size_t runs);  /* until so many have begun */
void lab_idle(struct lab *l);               /* until nothing waits or runs, and all is stored */
void lab_release(struct lab *l);            /* lets held runs go on */
void lab_sleep(int64_t ms);
const char *lab_text(const struct lab *l, size_t i); /* "" if there is none */
void lab_clear(struct lab *l);                       /* forgets parts and runs */
int64_t lab_count(struct lab *l, const char *sql);
const char *lab_value(struct lab *l, const char *sql, char *out, size_t size);
/* A crash: the engine is thrown away (runs cancelled), a new one takes up what the ledger holds. */
void lab_restart(struct lab *l);
/* Runs `patch` with one message and gives the only answer's text, "" if there was none. */
const char *lab_ask(struct lab *l, const char *patch, const char *group, const char *text);

#endif
