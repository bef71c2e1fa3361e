/* The whole API on a SQLite store of its own, with engine and platform, served on a free port and called by a bare client. */
#ifndef TESTS_API_LAB_H
#define TESTS_API_LAB_H

#include "api/api_private.h"

#define LAB_USER     "first@example.com"
#define LAB_PASSWORD "right"

struct lab {
    char dir[64];
    struct config *config;
    struct store store;
    struct fence *fence;
    struct objects *objects;
    struct logfiles *logs;
    struct models *models;
    struct engine *engine;
    struct platform *platform;
    struct jobs *jobs;
    struct task_group *group;
    struct ops_env ops;
    struct api api;
    struct http_server *server;
    struct scope scope;      /* of the first account's workspace */
    char account[UUID_SIZE]; /* its uuid */
    char token[2000];        /* its user token */
    json_t *answer;          /* of the last call; NULL: no JSON */
    char text[64 << 10];     /* the same, body only */
    int failures;
};

/* Runs `body` in a fiber on a lab of its own; fails the test if a check failed or memory stayed behind. `env`: settings
 * ("NAME=value", NULL-terminated) or NULL. */
void lab_run(void (*body)(struct lab *l));
void lab_run_with(void (*body)(struct lab *l), const char *const *env);
#define check(l, cond) lab_check((l), (cond), #cond, __FILE__, __LINE__)
bool lab_check(struct lab *l, bool ok, const char *what, const char *file, int line);

/* One request on a connection of its own; its status, 0: no answer. `headers`: lines that end in CRLF, or NULL for the first account's
 * token. `body` NULL: none. nth > 0: the nth allocation of the loop's thread from then on fails. */
int lab_call(struct lab *l, const char *method, const char *path, const char *headers,
             const char *body);
int lab_call_failing(struct lab *l, long nth, const char *method, const char *path,
                     const char *headers, const char *body);
#define lab_get(l, path)        lab_call((l), "GET", (path), NULL, NULL)
#define lab_post(l, path, body) lab_call((l), "POST", (path), NULL, (body))
const json_t *lab_data(const struct lab *l); /* `data` of the last answer */
const char *lab_code(const struct lab *l);   /* `code` where it is a text, else "" */
const char *lab_msg(const struct lab *l);
void lab_sql(struct lab *l, const char *sql);
/* From now on the nth allocation of a thread fails: of the database's writer, or of its only reader. lab_disarm ends that; true: one
 * has failed since. */
enum lab_thread { LAB_WRITER, LAB_READER };
void lab_arm(struct lab *l, enum lab_thread which, long nth);
bool lab_disarm(struct lab *l, enum lab_thread which);
int64_t lab_count(struct lab *l, const char *sql); /* first value of the first row */

#endif
