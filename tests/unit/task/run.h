/* What the tests of task/ share: a function as the first fiber, and checks that work in fibers. */
#ifndef PARLEY_TEST_TASK_RUN_H
#define PARLEY_TEST_TASK_RUN_H

#include "task/task.h"

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
/* A call that must succeed; `err` is the error it fills. */
#define MUST(call)                                                                  \
    do {                                                                            \
        if (!(call)) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.msg); \
            abort();                                                                \
        }                                                                           \
    } while (0)
#define MUST_FAIL(call, expected)                                                                \
    do {                                                                                         \
        err = (struct error){0};                                                                 \
        if ((call) || err.code != (expected)) {                                                  \
            fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, err.code, err.msg); \
            abort();                                                                             \
        }                                                                                        \
    } while (0)

/* Runs fn in task_run and checks that it leaves no memory, descriptor or fiber behind. */
void run_in_fiber(void (*fn)(void));
#define FIBER_TEST(name)               \
    static void name##_in_fiber(void); \
    static void name(void **state)     \
    {                                  \
        run_in_fiber(name##_in_fiber); \
    }                                  \
    static void name##_in_fiber(void)

int open_fds(void);
/* Spawns in g; aborts on failure. */
void start(struct task_group *g, const char *name, void (*fn)(void *arg), void *arg);
struct task_group *group(const char *name);
/* Lets the others run until they all wait. */
void settle(void);
void sleep_ms(int64_t ms);

#endif
