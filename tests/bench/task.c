/* Prints what fibers cost: nanoseconds for a switch and for a spawn with its end, bytes of an idle one. */
#include "task/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { YIELDS = 2000000, SPAWNS = 1000000, BATCH = 100, IDLE = 10000, MESSAGES = 500000 };

static void yielder(void *arg)
{
    for (long i = 0; i < YIELDS / 2; i++) {
        task_yield();
    }
}

static void nothing(void *arg) {}

static void sleeper(void *arg)
{
    struct error err;
    if (task_sleep_ms(3600 * 1000, &err)) {
        abort();
    }
}

static void sender(void *arg)
{
    struct error err;
    for (long i = 0; i < MESSAGES; i++) {
        if (!task_chan_send(arg, arg, &err)) {
            abort();
        }
    }
}

static void must(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "%s\n", err->msg);
        exit(1);
    }
}

static long resident_bytes(void)
{
    long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2) {
        resident = 0;
    }
    if (f) {
        fclose(f);
    }
    return resident * sysconf(_SC_PAGESIZE);
}

static double since(int64_t began, double times)
{
    return (double)(time_mono_us() - began) * 1000 / times;
}

static int run(void *arg)
{
    struct error err = {0};
    struct task_group *g = task_group_new(NULL, "bench");
    struct task_stats stats;
    task_stats_get(&stats);
    uint64_t before = stats.switches;
    int64_t began = time_mono_us();
    must(g && task_spawn(g, "a", yielder, NULL, &err) && task_spawn(g, "b", yielder, NULL, &err) &&
             task_group_wait(g, &err),
         &err);
    task_stats_get(&stats);
    printf("fiber switch        %7.1f ns\n", since(began, (double)(stats.switches - before)));

    began = time_mono_us();
    for (long i = 0; i < SPAWNS / BATCH; i++) {
        for (int k = 0; k < BATCH; k++) {
            must(task_spawn(g, "nothing", nothing, NULL, &err), &err);
        }
        must(task_group_wait(g, &err), &err);
    }
    printf("spawn and end       %7.1f ns\n", since(began, SPAWNS));

    struct task_chan *c = task_chan_new(1);
    began = time_mono_us();
    must(c && task_spawn(g, "sender", sender, c, &err), &err);
    for (long i = 0; i < MESSAGES; i++) {
        void *item;
        must(task_chan_recv(c, &item, &err), &err);
    }
    printf("channel message     %7.1f ns\n", since(began, MESSAGES));
    must(task_group_wait(g, &err), &err);
    task_chan_free(c);

    long resident = resident_bytes();
    for (int i = 0; i < IDLE; i++) {
        must(task_spawn(g, "sleeper", sleeper, NULL, &err), &err);
    }
    must(task_sleep_ms(4000, &err), &err);
    printf("idle fiber          %7.0f bytes resident\n",
           (double)(resident_bytes() - resident) / IDLE);
    began = time_mono_us();
    task_group_free(g);
    printf("cancel and end      %7.1f ns\n", since(began, IDLE));
    return 0;
}

int main(void)
{
    base_init();
    return task_run(run, NULL);
}
