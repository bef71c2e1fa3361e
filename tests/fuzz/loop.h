/* One event loop for all inputs of a target: to set one up and tear it down for each takes many times as long as the input itself.
 * task_run holds on to its caller, so it runs on a stack of its own, and its main fiber gives way to the fuzzer between inputs. */
#ifndef PARLEY_FUZZ_LOOP_H
#define PARLEY_FUZZ_LOOP_H

#include "task/task.h"

#include <sanitizer/common_interface_defs.h>
#include <stdlib.h>
#include <ucontext.h>
#include <uv.h>

static struct {
    ucontext_t outside, first, inside;
    const void *outside_bottom, *inside_bottom;
    size_t outside_size, inside_size;
    void (*fn)(const uint8_t *data, size_t size);
    const uint8_t *data;
    size_t size;
    bool started;
    uv_idle_t idle;
    uv_check_t check;
    struct task *turning;
} fuzz_loop;

/* Blocks that only a fiber's stack points to look leaked; mem_live() tells leaks in these targets. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void fuzz_loop_on_idle(uv_idle_t *h)
{
    /* Being active, it keeps the loop from sleeping. */
}

static void fuzz_loop_on_check(uv_check_t *h)
{
    if (fuzz_loop.turning)
        task_wake(fuzz_loop.turning);
}

/* Lets the loop look at its descriptors once; task_yield may come back before it does. */
static void fuzz_loop_turn(void)
{
    struct error err;
    fuzz_loop.turning = task_self();
    if (!task_park(&err))
        abort();
    fuzz_loop.turning = NULL;
}

static int fuzz_loop_main(void *arg)
{
    uv_idle_init(task_loop(), &fuzz_loop.idle);
    uv_idle_start(&fuzz_loop.idle, fuzz_loop_on_idle);
    uv_check_init(task_loop(), &fuzz_loop.check);
    uv_check_start(&fuzz_loop.check, fuzz_loop_on_check);
    for (;;) {
        void *fake = NULL;
        fuzz_loop.fn(fuzz_loop.data, fuzz_loop.size);
        __sanitizer_start_switch_fiber(&fake, fuzz_loop.outside_bottom, fuzz_loop.outside_size);
        if (swapcontext(&fuzz_loop.inside, &fuzz_loop.outside) != 0)
            abort();
        __sanitizer_finish_switch_fiber(fake, NULL, NULL);
    }
    return 0;
}

static void fuzz_loop_first(void)
{
    __sanitizer_finish_switch_fiber(NULL, &fuzz_loop.outside_bottom, &fuzz_loop.outside_size);
    task_run(fuzz_loop_main, NULL);
    abort();
}

/* Calls fn(data, size) in a fiber of the loop; returns when it has. The same fn each time. */
static void fuzz_loop_run(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t size)
{
    static char stack[1 << 20];
    void *fake = NULL;
    ucontext_t *to = &fuzz_loop.inside;
    fuzz_loop.fn = fn;
    fuzz_loop.data = data;
    fuzz_loop.size = size;
    if (!fuzz_loop.started) {
        fuzz_loop.started = true;
        to = &fuzz_loop.first;
        if (getcontext(to) != 0)
            abort();
        to->uc_stack.ss_sp = stack;
        to->uc_stack.ss_size = sizeof(stack);
        makecontext(to, fuzz_loop_first, 0);
        fuzz_loop.inside_bottom = stack;
        fuzz_loop.inside_size = sizeof(stack);
    }
    __sanitizer_start_switch_fiber(&fake, fuzz_loop.inside_bottom, fuzz_loop.inside_size);
    if (swapcontext(&fuzz_loop.outside, to) != 0)
        abort();
    __sanitizer_finish_switch_fiber(fake, &fuzz_loop.inside_bottom, &fuzz_loop.inside_size);
}

#endif
