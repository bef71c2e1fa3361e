/* Tests that run in a fiber: checks that do not leave it by longjmp, and a look at what is left behind. */
#ifndef PARLEY_TEST_FIBER_H
#define PARLEY_TEST_FIBER_H

#include "task/task.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                           \
        }                                                                      \
    } while (0)
/* A call that must succeed; `err` is the error it fills. */
#define MUST(call)                                                                  \
    do {                                                                            \
        if (!(call)) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.msg); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* Runs fn in task_run; blocks and descriptors must be as before. */
void fiber_test(void (*fn)(void));
#define FIBER_TEST(name)               \
    static void name##_in_fiber(void); \
    static void name(void **state)     \
    {                                  \
        fiber_test(name##_in_fiber);   \
    }                                  \
    static void name##_in_fiber(void)

/* Lets the others run until `*flag`, at most 10 s. */
void fiber_until(const bool *flag);

#endif
