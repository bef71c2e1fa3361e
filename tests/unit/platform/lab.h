/* A platform with one HTTP bot, the service that takes its callbacks and a host that plays the pipeline, all in one process. */
#ifndef TESTS_PLATFORM_LAB_H
#define TESTS_PLATFORM_LAB_H

#include "platform/platform_private.h"

#include <stdio.h>

#define LAB_BOT    "0b8a4c0e-1111-4111-8111-000000000001"
#define LAB_SECRET "inbound"

struct lab_callback {
    char path[64], timestamp[32], signature[100];
    char *body;
    json_t *json;
    int status;
    int64_t came_us, done_us;
};
struct lab {
    char dir[64], url[64];
    struct db *db;
    struct store store;
    struct fence *fence;
    struct scope scope;
    struct config *config;
    struct objects *objects;
    struct platform *platform;
    struct http_server *server;
    struct task_group *group;
    int failures;
    /* the callback service: the answers in order, the last stays */
    struct lab_answer {
        int status, delay_ms;
    } answers[16];
    size_t answer_count, answer_at;
    struct lab_callback got[256];
    size_t got_n, open_now, most_open;
    struct task_cond came;
    /* the host: what it was given and what it answers */
    size_t accepted_n;
    json_t *last_event;
    char last_id[64], last_key[80];
    bool last_ephemeral;
    enum err_code refuse; /* ERR_NONE: accept */
    bool duplicate, discard, had_session;
    int accept_ms; /* takes so long */
    char reset_id[64];
    enum launcher reset_launcher;
};

/* Runs `body` in a fiber on a lab of its own and fails the test if a check failed. */
void lab_run(void (*body)(struct lab *l));
#define check(l, cond) lab_check((l), (cond), #cond, __FILE__, __LINE__)
void lab_check(struct lab *l, bool ok, const char *what, const char *file, int line);

/* Loads (or replaces) the lab's bot; `more` is merged into its configuration (may be NULL). */
bool lab_load(struct lab *l, bool enable, json_t *more_stolen, struct error *err);
struct bot *lab_bot(struct lab *l);
/* Signed POST to /bots/<uuid><sub>; the answer's JSON is owned by the caller. secret NULL: no signature. */
int lab_post(struct lab *l, const char *sub, const char *body, const char *secret, const char *key,
             json_t **answer);
int lab_raw(struct lab *l, const char *method, const char *path, const struct http_header *headers,
            size_t n, struct str body, json_t **answer);
void lab_sign(struct str body, const char *secret, int64_t at, char ts[32], char signature[80]);

/* Plays the pipeline: one part of an answer, through delivery_payload and (when `kept`) a row of the ledger. */
struct lab_part {
    const char *session, *message, *turn, *text, *delivery, *response;
    bool group, chunk, final, tool_calls, kept;
};
enum reply_result lab_reply(struct lab *l, const struct lab_part *p);
/* Waits until n callbacks have come (5 s). */
bool lab_wait(struct lab *l, size_t n);
void lab_pause(int64_t ms);
int64_t lab_sequence(const struct lab *l, size_t i);
const char *lab_text(const struct lab *l, size_t i);
/* Deliveries of the ledger in a state. */
int64_t lab_deliveries(struct lab *l, const char *state);
/* What a crash would leave: a new platform on the same database; deliveries that are open are taken up. */
void lab_restart(struct lab *l, bool polite);

#endif
