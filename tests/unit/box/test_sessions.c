/* Sessions and commands (box.md §14 D; S3, S7, §13.3 #1, #2, #10). */
#include "box/rig.h"

#include <sys/stat.h>
#include <unistd.h>

static struct rig l;

FIBER_TEST(test_create_reuse_recreate)
{
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("s", ""));
    rig_ok(&l, "box_exec", spec("s", "echo"));
    CHECK(fake.started == 1 && rig_sessions(&l) == 1);
    fake.dead = true; /* it has disappeared: made again */
    rig_ok(&l, "box_create_session", spec("s", ""));
    CHECK(fake.started == 2 && fake.stopped == 1);
    fake.dead = false;
    json_t *got = rig_call(&l, "box_exec", spec("s", "hello"), &err);
    MUST(got);
    CHECK(strcmp(json_z(got, "stdout"), "hello") == 0 && json_i_or(got, "exit_code", -1) == 0);
    CHECK(strcmp(json_z(got, "session_id"), "s") == 0);
    json_decref(got);
    rig_fails(&l, "box_exec", spec("s", "  "), "BoxValidationError: cmd must not be empty");
    rig_close(&l);
}

FIBER_TEST(test_conflicts)
{
    static const char *const changes[] = {
        "{\"network\":\"on\"}",       "{\"image\":\"x\"}",     "{\"host_path_mode\":\"ro\"}",
        "{\"mount_path\":\"/data\"}", "{\"persistent\":true}", "{\"cpus\":0.5}",
        "{\"memory_mb\":256}",        "{\"pids_limit\":12}",   "{\"read_only_rootfs\":false}",
        "{\"workspace_quota_mb\":3}"};
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("s", ""));
    for (size_t i = 0; i < array_len(changes); i++) {
        auto_json change = json_parse(str_c(changes[i]), &err);
        json_t *data = spec("s", "");
        json_object_update(data, change);
        char text[100];
        snprintf(text, sizeof(text),
                 "BoxSessionConflictError: Box session s already exists with %s=",
                 json_object_iter_key(json_object_iter(change)));
        rig_fails(&l, "box_create_session", data, text);
    }
    CHECK(fake.started == 1);
    rig_close(&l);
}

FIBER_TEST(test_start_failure_is_told)
{
    rig_open(&l, "fake", NULL);
    fake.refuse_start = true; /* §13.3 #4: never reported as started */
    rig_fails(&l, "box_exec", spec("s", "x"), "BoxError: fake backend error: no such image");
    CHECK(rig_sessions(&l) == 0 && l.rt.creating == 0);
    fake.refuse_start = false;
    rig_ok(&l, "box_exec", spec("s", "x"));
    rig_close(&l);
}

/* S7: different ids start side by side, and nothing waits for one that is slow. */
FIBER_TEST(test_s7_slow_start_holds_up_nobody)
{
    struct later slow[8];
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("other", ""));
    fake.start_ms = 300;
    for (int i = 0; i < 8; i++) {
        char id[8];
        snprintf(id, sizeof(id), "s%d", i);
        rig_later(&l, &slow[i], "box_create_session", spec(id, ""));
    }
    for (int i = 0; i < 100; i++)
        rig_ok(&l, "box_exec", spec("other", "x"));
    CHECK(!slow[0].done && fake.starting == 8);
    for (int i = 0; i < 8; i++)
        json_decref(rig_wait(&slow[i]));
    CHECK(fake.most_at_once == 8);
    CHECK(task_sleep_ms(1, &err));
    rig_close(&l);
}

FIBER_TEST(test_rush_on_one_id)
{
    struct later x[10];
    rig_open(&l, "fake", NULL);
    fake.start_ms = 20;
    for (int i = 0; i < 10; i++)
        rig_later(&l, &x[i], "box_create_session", spec("same", ""));
    for (int i = 0; i < 10; i++) {
        json_t *got = rig_wait(&x[i]);
        CHECK(got);
        json_decref(got);
    }
    CHECK(fake.started == 1);
    rig_close(&l);
}

FIBER_TEST(test_timeout_drops_the_session)
{
    struct error err;
    rig_open(&l, "fake", NULL);
    json_t *got = rig_call(
        &l, "box_exec",
        json_pack("{s:s,s:s,s:i}", "session_id", "s", "cmd", "hang", "timeout_sec", 7), &err);
    MUST(got);
    CHECK(strcmp(json_z(got, "status"), "timed_out") == 0);
    CHECK(json_is_null(json_object_get(got, "exit_code")));
    CHECK(strcmp(json_z(got, "stderr"), "Command timed out after 7 seconds.") == 0);
    json_decref(got);
    CHECK(fake.live == 0 && rig_sessions(&l) == 0);
    rig_close(&l);
}

FIBER_TEST(test_delete)
{
    struct later making, gone, running;
    rig_open(&l, "fake", NULL);
    rig_fails(&l, "box_delete_session", spec("never", ""), "BoxSessionNotFoundError");
    fake.start_ms = 30; /* it waits for one that is being made */
    rig_later(&l, &making, "box_create_session", spec("s", ""));
    while (!fake.starting)
        task_yield();
    rig_later(&l, &gone, "box_delete_session", spec("s", ""));
    json_decref(rig_wait(&making));
    json_t *got = rig_wait(&gone);
    CHECK(got && strcmp(json_z(got, "deleted"), "s") == 0 && fake.live == 0);
    json_decref(got);
    fake.start_ms = 0;

    fake.hold_exec = true; /* a command that runs is ended and answered */
    rig_later(&l, &running, "box_exec", spec("s", "x"));
    while (!fake.execs)
        task_yield();
    rig_ok(&l, "box_delete_session", spec("s", ""));
    CHECK(!rig_wait(&running) && strstr(running.err.msg, "BoxSessionNotFoundError"));
    CHECK(fake.canceled == 1 && fake.live == 0);
    rig_close(&l);
}

FIBER_TEST(test_one_command_at_a_time)
{
    struct later a, b;
    struct error err;
    rig_open(&l, "fake", NULL);
    fake.hold_exec = true;
    rig_later(&l, &a, "box_exec", spec("s", "a"));
    rig_later(&l, &b, "box_exec", spec("s", "b"));
    CHECK(task_sleep_ms(20, &err) && fake.execs == 1);
    fake.hold_exec = false;
    json_decref(rig_wait(&a));
    json_decref(rig_wait(&b));
    CHECK(fake.execs == 2);
    rig_close(&l);
}

/* S3: a bound on sessions, and a reaper that comes by itself. */
FIBER_TEST(test_s3_capacity_and_reaper)
{
    size_t refused = 0;
    struct error err;
    rig_open(&l, "fake", NULL);
    for (int i = 0; i < 1000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%d", i);
        json_t *got = rig_call(&l, "box_create_session", spec(id, ""), &err);
        refused +=
            !got &&
            strcmp(err.msg, "BoxCapacityExceededError: Box session capacity reached (64)") == 0;
        json_decref(got);
    }
    CHECK(refused == 936 && fake.live == 64);
    rig_pass(TTL_SEC - 5);
    CHECK(fake.live == 64);
    rig_pass(10);
    CHECK(fake.live == 0 && rig_sessions(&l) == 0);
    rig_close(&l);
}

FIBER_TEST(test_closing_counts_towards_capacity)
{
    struct later gone;
    rig_open(&l, "fake", json_pack("{s:{s:i}}", "limits", "max_sessions", 1));
    rig_ok(&l, "box_create_session", spec("a", ""));
    fake.stop_ms = 40;
    rig_later(&l, &gone, "box_delete_session", spec("a", ""));
    while (!l.rt.closing)
        task_yield();
    rig_fails(&l, "box_create_session", spec("b", ""), "capacity reached (1)");
    json_decref(rig_wait(&gone));
    rig_ok(&l, "box_create_session", spec("b", ""));
    rig_close(&l);
}

FIBER_TEST(test_what_the_reaper_leaves)
{
    struct later busy;
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", json_pack("{s:s,s:b}", "session_id", "kept", "persistent", 1));
    rig_ok(&l, "box_create_session", spec("idle", ""));
    fake.hold_exec = true;
    rig_later(&l, &busy, "box_exec", spec("busy", "x"));
    while (!fake.execs)
        task_yield();
    rig_pass(10 * TTL_SEC);
    CHECK(fake.live == 2 && list_empty(&l.rt.ended));
    /* Persistent ones are in no list that it walks. */
    CHECK(!list_empty(&l.rt.idle) && l.rt.idle.next->next == &l.rt.idle);
    fake.hold_exec = false;
    json_decref(rig_wait(&busy)); /* its caller has given up meanwhile: time went by */
    struct session *s = container_of(l.rt.idle.next, struct session, in_idle);
    while (s->active + s->leases > 0)
        CHECK(task_sleep_ms(1, &err));
    rig_pass(TTL_SEC - 1);
    CHECK(fake.live == 2); /* the end of a command is a use */
    rig_pass(5);
    CHECK(task_sleep_ms(5, &err) && fake.live == 1);
    rig_close(&l);
}

FIBER_TEST(test_slow_cleanup_blocks_only_its_id)
{
    struct later gone;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("a", ""));
    fake.stop_ms = 100;
    rig_later(&l, &gone, "box_delete_session", spec("a", ""));
    while (!l.rt.closing)
        task_yield();
    rig_ok(&l, "box_exec", spec("b", "x"));
    CHECK(!gone.done);
    rig_ok(&l, "box_exec", spec("a", "x")); /* waits, and is a new one */
    CHECK(gone.done && fake.started == 3);
    json_decref(rig_wait(&gone));
    rig_close(&l);
}

FIBER_TEST(test_extra_mounts_make_it_anew)
{
    char place[128];
    rig_open(&l, "fake", NULL);
    snprintf(place, sizeof(place), "%s/mounts/x", l.root);
    CHECK(mkdir(place, 0700) == 0);
    rig_ok(&l, "box_create_session", spec("s", ""));
    for (int i = 0; i < 2; i++)
        rig_ok(&l, "box_exec",
               json_pack("{s:s,s:s,s:[{s:s,s:s,s:s}]}", "session_id", "s", "cmd", "x",
                         "extra_mounts", "host_path", place, "mount_path", "/workspace/x", "mode",
                         "ro"));
    CHECK(fake.started == 2 && fake.last_extra == 1);
    rig_ok(&l, "box_exec",
           json_pack("{s:s,s:s,s:[{s:s,s:s,s:s}]}", "session_id", "t", "cmd", "x", "extra_mounts",
                     "host_path", place, "mount_path", "/workspace/x", "mode", "none"));
    CHECK(fake.last_extra == 0);
    rig_close(&l);
}

/* §13.3 #10: ids that differ in odd characters only are two sessions. */
FIBER_TEST(test_lossy_ids_never_meet)
{
    static const char *const ids[] = {
        "a b", "a-b",  "a/b",          "a:b", "a\xe7\xbb\x84",      "a\xe7\xbe\xa4", "-a", "a-",
        "a",   "a--b", "\xe7\xbb\x84", "..",  "a-h0123456789abcdef"};
    auto_arena a = arena_new(1 << 20);
    for (size_t i = 0; i < array_len(ids); i++) {
        const char *one = physical_id(a, "ws-x", 1, str_c(ids[i]));
        CHECK(strlen(one) <= BOX_ID_MAX && physical_is_of(str_c(one), "ws-x", 1));
        CHECK(!physical_is_of(str_c(one), "ws-x", 11));
        for (const char *p = one; *p; p++)
            CHECK((unsigned char)*p < 0x80 && *p != '/' && *p != ' ');
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(one, physical_id(a, "ws-x", 1, str_c(ids[j]))) != 0);
    }
    CHECK(strcmp(physical_id(a, "ws-x", 3, S("group_42")), "ws-x-g3-group_42") == 0);
    /* The hashed form of one given as it is. */
    const char *hashed = physical_id(a, "ws-x", 1, S("a b"));
    CHECK(strcmp(physical_id(a, "ws-x", 1, str_c(hashed + strlen("ws-x-g1-"))), hashed) != 0);
}

FIBER_TEST(test_shutdown)
{
    struct later making;
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", json_pack("{s:s,s:b}", "session_id", "kept", "persistent", 1));
    fake.start_ms = 20;
    rig_later(&l, &making, "box_create_session", spec("s", ""));
    while (!fake.starting)
        task_yield();
    json_decref(rig_host(&l, "box_shutdown", json_object(), &err));
    CHECK(fake.live == 0);
    json_t *got = rig_wait(&making);
    CHECK(got || strstr(making.err.msg, "BoxRuntimeUnavailableError"));
    json_decref(got);
    rig_ok(&l, "box_exec", spec("kept", "x"));
    rig_close(&l);
}

FIBER_TEST(test_status)
{
    struct error err;
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("a", ""));
    l.workspace = "other";
    rig_ok(&l, "box_create_session", spec("b", ""));
    rig_ok(&l, "box_create_session", spec("c", ""));
    json_t *got = rig_call(&l, "box_status", json_object(), &err);
    MUST(got);
    CHECK(json_i_or(got, "active_sessions", 0) == 2 && json_i_or(got, "session_ttl_sec", 0) == 300);
    CHECK(json_b_or(json_object_get(got, "backend"), "available", false));
    json_decref(got);
    auto_json resources = runtime_resources(&l.rt);
    CHECK(json_i_or(resources, "sessions", 0) == 3);
    rig_close(&l);
}

/* What is kept of output: its beginning, and its end when it was clipped. */
static void test_capture(void **state)
{
    static const size_t steps[] = {1, 7, 4096, BOX_TAIL_MAX - 1, BOX_TAIL_MAX, 3 * BOX_TAIL_MAX};
    enum { HEAD = 1000, ALL = 5 * BOX_TAIL_MAX };
    char *text = mem_alloc(ALL);
    for (size_t i = 0; i < ALL; i++)
        text[i] = (char)('a' + i % 23);
    for (size_t s = 0; s < array_len(steps); s++) {
        struct box_exec_result r = {0};
        for (size_t at = 0; at < ALL; at += steps[s])
            assert_true(box_capture_add(&r.out, HEAD, text + at,
                                        ALL - at < steps[s] ? ALL - at : steps[s]));
        assert_true(r.out.head.n == HEAD && memcmp(r.out.head.p, text, HEAD) == 0);
        assert_int_equal(r.out.discarded, ALL - HEAD);
        assert_true(r.out.tail.n >= BOX_TAIL_MAX && r.out.tail.n <= 2 * BOX_TAIL_MAX);
        assert_memory_equal(r.out.tail.p + r.out.tail.n - BOX_TAIL_MAX, text + ALL - BOX_TAIL_MAX,
                            BOX_TAIL_MAX);
        box_exec_result_free(&r);
    }
    mem_free(text);
}

/* §13.3 #13: exact bytes, where they are asked for. */
FIBER_TEST(test_exact_output)
{
    struct error err;
    rig_open(&l, "host", NULL);
    json_t *got = rig_call(
        &l, "box_exec",
        json_pack("{s:s,s:s,s:b}", "session_id", "s", "cmd", "printf '  a\\n\\377\\n'", "exact", 1),
        &err);
    MUST(got);
    CHECK(strcmp(json_z(got, "stdout"), "a\n\xef\xbf\xbd") == 0);
    CHECK(strcmp(json_z(got, "stdout_base64"), "ICBhCv8K") == 0);
    json_decref(got);
    got = rig_call(&l, "box_exec",
                   spec("s", "head -c 1200000 /dev/zero | tr '\\0' x; echo; echo the end"), &err);
    MUST(got);
    CHECK(strstr(json_z(got, "stdout"), "... [raw output clipped at 1048576 bytes, "));
    CHECK(str_ends(json_s(got, "stdout_tail"), S("x\nthe end\n")));
    CHECK(!json_object_get(got, "stdout_base64") && !json_object_get(got, "stderr_tail"));
    json_decref(got);
    rig_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_create_reuse_recreate),
                                       cmocka_unit_test(test_conflicts),
                                       cmocka_unit_test(test_start_failure_is_told),
                                       cmocka_unit_test(test_s7_slow_start_holds_up_nobody),
                                       cmocka_unit_test(test_rush_on_one_id),
                                       cmocka_unit_test(test_timeout_drops_the_session),
                                       cmocka_unit_test(test_delete),
                                       cmocka_unit_test(test_one_command_at_a_time),
                                       cmocka_unit_test(test_s3_capacity_and_reaper),
                                       cmocka_unit_test(test_closing_counts_towards_capacity),
                                       cmocka_unit_test(test_what_the_reaper_leaves),
                                       cmocka_unit_test(test_slow_cleanup_blocks_only_its_id),
                                       cmocka_unit_test(test_extra_mounts_make_it_anew),
                                       cmocka_unit_test(test_lossy_ids_never_meet),
                                       cmocka_unit_test(test_shutdown),
                                       cmocka_unit_test(test_status),
                                       cmocka_unit_test(test_capture),
                                       cmocka_unit_test(test_exact_output)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
