/* A database that takes no writes for a while: what was accepted is answered once it works again, by the same process, once. */
#include "pipeline/lab.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

/* No file takes another byte: what SQLite sees of a full disk. */
static void disk_full(bool full)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = full ? 0 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static bool works_within(struct lab *l, int64_t ms)
{
    int64_t until = time_mono_us() + ms * 1000;
    while (db_fails(l->store.db) && time_mono_us() < until)
        lab_sleep(10);
    return !db_fails(l->store.db);
}

static bool state_is(struct lab *l, const char *table, const char *want, size_t n)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM %s WHERE state = '%s'", table, want);
    return (size_t)lab_count(l, sql) == n;
}

static void an_answer_waits(struct lab *l)
{
    struct db_stats s;
    struct error err = {0};
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "one"));
    check(l, lab_runs(l, 1));
    check(l, lab_say(l, "ann", NULL, "two")); /* behind it in its lane */
    disk_full(true);
    lab_release(l);
    lab_sleep(200);
    db_stats_get(l->store.db, &s);
    check(l, db_fails(l->store.db) && s.failing_s > 0 && s.failing_waits == 1 && s.failures == 1);
    check(l, l->n == 0 && l->runs == 1 && state_is(l, "parley_messages", "received", 2));

    /* Nothing else is begun or promised meanwhile, and readers are not held up. */
    struct accepted got;
    check(l, !lab_accept(l, &(struct lab_say){.sender = "bob", .text = "three"}, &got, &err));
    check(l, err_http(&err) == 503 && err.tag && strcmp(err.tag, "storage_failed") == 0);
    check(l, engine_flush(l->engine, &err));
    lab_sleep(1200); /* one more attempt */
    check(l, db_fails(l->store.db) && l->n == 0 && l->runs == 1);

    disk_full(false);
    check(l, lab_wait(l, 2) && works_within(l, 5000));
    lab_idle(l);
    check(l, l->n == 2 && l->runs == 2); /* the model was asked once for each */
    check_text(l, lab_text(l, 0), "echo: one");
    check_text(l, lab_text(l, 1), "echo: two");
    check(l,
          state_is(l, "parley_messages", "done", 2) && state_is(l, "parley_deliveries", "sent", 2));
    check(l,
          lab_count(l, "SELECT COUNT(*) FROM monitoring_messages WHERE status = 'pending'") == 0);
    check(l, lab_count(l, "SELECT COUNT(*) FROM monitoring_messages") == 4);
    check(l, lab_count(l, "SELECT COUNT(*) FROM parley_turns") == 2);
    db_stats_get(l->store.db, &s);
    check(l, s.failing_s == 0 && s.failing_waits == 0 && s.owed == 0 && s.failures == 1);
    lab_restart(l);
    lab_idle(l);
    check(l, l->n == 2 && l->redelivered == 0);
}

/* The state of a turn that says nothing, and what became of a delivery, are written later. */
static bool silent_and_full(struct lab *l, const struct agent_run *r, struct error *err)
{
    disk_full(true);
    return true;
}

static void a_state_is_owed(struct lab *l)
{
    struct db_stats s;
    struct error err = {0};
    l->run = silent_and_full;
    check(l, lab_say(l, "ann", NULL, "one"));
    check(l, lab_runs(l, 1));
    lab_sleep(200);
    check(l, ledger_delivered(&l->store, &l->scope, "no-such-delivery", "sent", 1, NULL, &err));
    lab_sleep(100);
    db_stats_get(l->store.db, &s);
    check(l, db_fails(l->store.db) && s.owed == 2 && s.failing_waits == 0);
    check(l, state_is(l, "parley_messages", "received", 1));
    disk_full(false);
    check(l, works_within(l, 5000));
    lab_idle(l);
    db_stats_get(l->store.db, &s);
    check(l, s.owed == 0 && state_is(l, "parley_messages", "done", 1));
}

/* A stop does not wait for a disk: the ledger keeps the message for the next start. */
static void a_stop_meanwhile(struct lab *l)
{
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "one"));
    check(l, lab_runs(l, 1));
    disk_full(true);
    lab_release(l);
    lab_sleep(100);
    check(l, db_fails(l->store.db));
    struct error err = {0};
    engine_stop(l->engine, 50);
    check(l, l->n == 0);
    disk_full(false);
    check(l, works_within(l, 5000) && db_drain(l->store.db, &err));
    lab_restart(l);
    check(l, lab_wait(l, 1));
    lab_idle(l);
    check(l, l->n == 1 && l->runs == 2 && state_is(l, "parley_messages", "done", 1));
}

static void test_an_answer_waits(void **state)
{
    lab_run(an_answer_waits);
}

static void test_a_state_is_owed(void **state)
{
    lab_run(a_state_is_owed);
}

static void test_a_stop_meanwhile(void **state)
{
    lab_run(a_stop_meanwhile);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_answer_waits),
                                       cmocka_unit_test(test_a_state_is_owed),
                                       cmocka_unit_test(test_a_stop_meanwhile)};
    return cmocka_run_group_tests_name("pipeline/trouble", tests, NULL, NULL);
}
