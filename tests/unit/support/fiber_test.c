#include "support/fiber_test.h"

#include <dirent.h>

static int open_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int in_fiber(void *arg)
{
    void (**fn)(void) = arg;
    (*fn)();
    return 0;
}

static int nothing(void *arg)
{
    return 0;
}

void fiber_test(void (*fn)(void))
{
    static bool warm;
    if (!warm) /* what the library of the loop keeps from its first use on */
        CHECK(task_run(nothing, NULL) == 0);
    warm = true;
    long blocks = mem_live();
    int fds = open_fds();
    CHECK(task_run(in_fiber, &fn) == 0);
    CHECK(mem_live() == blocks);
    CHECK(open_fds() == fds);
}

void fiber_until(const bool *flag)
{
    struct error err;
    for (int i = 0; i < 10000 && !*flag; i++)
        CHECK(task_sleep_ms(1, &err));
    CHECK(*flag);
}
