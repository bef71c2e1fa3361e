#include "unit/task/run.h"

#include <dirent.h>

int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    CHECK(d);
    int n = 0;
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

static int call(void *arg)
{
    void (*fn)(void);
    memcpy(&fn, arg, sizeof(fn));
    fn();
    CHECK(task_count() == 1);
    return 42;
}

static void nothing(void) {}

void run_in_fiber(void (*fn)(void))
{
    static bool warm;
    if (!warm) { /* libuv opens a pipe for the life of the process */
        void (*none)(void) = nothing;
        warm = true;
        task_run(call, &none);
    }
    long live = mem_live();
    int fds = open_fds();
    assert_int_equal(task_run(call, &fn), 42);
    assert_int_equal(mem_live(), live);
    assert_int_equal(open_fds(), fds);
}

void start(struct task_group *g, const char *name, void (*fn)(void *arg), void *arg)
{
    struct error err;
    MUST(task_spawn(g, name, fn, arg, &err));
}

struct task_group *group(const char *name)
{
    struct task_group *g = task_group_new(NULL, name);
    CHECK(g);
    return g;
}

void settle(void)
{
    for (int i = 0; i < 20; i++) {
        task_yield();
    }
}

void sleep_ms(int64_t ms)
{
    struct error err;
    MUST(task_sleep_ms(ms, &err));
}
