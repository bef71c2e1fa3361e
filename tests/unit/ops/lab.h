/* What the tests of ops/ share: a directory of their own, a store in it, functions as the first fiber. */
#ifndef TESTS_OPS_LAB_H
#define TESTS_OPS_LAB_H

#include "ops/ops_private.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* cmocka leaves a failed test by longjmp, which must not cross stacks. */
#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                           \
        }                                                                      \
    } while (0)
#define MUST(call)                                                                  \
    do {                                                                            \
        if (!(call)) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.msg); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* Runs fn as the first fiber and checks that it leaves no memory behind. */
void in_fiber(void (*fn)(void));
#define FIBER_TEST(name)               \
    static void name##_in_fiber(void); \
    static void name(void **state)     \
    {                                  \
        in_fiber(name##_in_fiber);     \
    }                                  \
    static void name##_in_fiber(void)

struct lab {
    char dir[64];
    struct config *config;
    struct store st;
    struct fence *fence;
    struct objects *objects;
    struct task_group *group;
    struct jobs *jobs;
    struct scope scope; /* of the first account's workspace */
    struct ops_env env;
};
/* "K=V" settings of the environment, NULL-terminated; NULL: none. */
void lab_open(struct lab *l, const char *const *environ_list);
void lab_close(struct lab *l);
/* Runs SQL with effect on the store's rows, on whichever database it is. */
void lab_sql(struct lab *l, const char *sql);
int64_t lab_count(struct lab *l, const struct table *t);

void make_dir(char out[64]);
void remove_dir(const char *dir);
/* The whole file, to be freed with mem_free; NULL if there is none. */
char *file_text(const char *dir, const char *name);
void put_file(const char *dir, const char *name, const char *text);
bool file_there(const char *dir, const char *name);

#endif
