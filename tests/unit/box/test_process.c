/* Managed processes and their relay, with real processes of the host backend (box.md §14 C, D; §13.3 #2, #3, #5,
 * #7, #19; S1). */
#include "box/rig.h"

#include <sys/stat.h>
#include <unistd.h>

static struct rig l;

static json_t *process(const char *session, const char *id, const char *script)
{
    return json_pack("{s:s,s:{s:s,s:s,s:[s,s]}}", "session_id", session, "spec", "process_id", id,
                     "command", "sh", "args", "-c", script);
}

static json_t *named(const char *session, const char *id)
{
    return json_pack("{s:s,s:s}", "session_id", session, "process_id", id);
}

static json_t *info(const char *session, const char *id)
{
    struct error err;
    return rig_call(&l, "box_get_managed_process", named(session, id), &err);
}

static void wait_exit(const char *session, const char *id)
{
    struct error err;
    for (int i = 0; i < 5000; i++) {
        auto_json p = info(session, id);
        if (!p || strcmp(json_z(p, "status"), "exited") == 0)
            return;
        CHECK(task_sleep_ms(2, &err));
    }
    CHECK(!"the process ends");
}

FIBER_TEST(test_start_and_report)
{
    struct error err;
    rig_open(&l, "host", NULL);
    rig_fails(&l, "box_start_managed_process", process("s", "a", "cat"), "BoxSessionNotFoundError");
    rig_ok(&l, "box_create_session", spec("s", ""));
    json_t *data = process("s", "a", "sleep 50");
    json_set(json_object_get(data, "spec"), "env",
             json_pack("{s:s,s:s}", "B", "secret-b", "A", "secret-a"));
    json_t *p = rig_call(&l, "box_start_managed_process", data, &err);
    MUST(p);
    CHECK(strcmp(json_z(p, "status"), "running") == 0 && strcmp(json_z(p, "session_id"), "s") == 0);
    CHECK(json_is_null(json_object_get(p, "exit_code")) && !json_b_or(p, "attached", true));
    auto_arena a = arena_new(1 << 16);
    struct str text = json_text(a, p);
    CHECK(str_find(text, S("secret")) < 0 && str_find(text, S("\"env_keys\":[\"A\",\"B\"]")) > 0);
    json_decref(p);
    json_t *s = rig_call(&l, "box_get_session", spec("s", ""), &err);
    CHECK(json_object_get(json_object_get(s, "managed_processes"), "a"));
    CHECK(!json_object_get(s, "managed_process"));
    json_decref(s);
    json_t *status = rig_call(&l, "box_status", json_object(), &err); /* §13.3 #2 */
    CHECK(json_i_or(status, "managed_processes", -1) == 1);
    json_decref(status);
    rig_ok(&l, "box_stop_managed_process", named("s", "a"));
    rig_fails(&l, "box_get_managed_process", named("s", "a"), "BoxManagedProcessNotFoundError");
    CHECK(rig_sessions(&l) == 1 && l.rt.running == 0);
    rig_close(&l);
}

FIBER_TEST(test_exit_replace_and_bounds)
{
    rig_open(&l, "host",
             json_pack("{s:{s:i,s:i}}", "limits", "max_managed_processes", 2,
                       "max_completed_processes", 2));
    rig_ok(&l, "box_create_session", spec("s", ""));
    rig_ok(&l, "box_start_managed_process", process("s", "a", "echo last words >&2; exit 5"));
    wait_exit("s", "a");
    auto_json p = info("s", "a");
    CHECK(json_i_or(p, "exit_code", -1) == 5 && json_z(p, "exited_at"));
    rig_ok(&l, "box_start_managed_process",
           process("s", "a", "sleep 50")); /* an ended one is replaced */
    rig_ok(&l, "box_start_managed_process", process("s", "a", "sleep 51")); /* a running one too */
    rig_ok(&l, "box_start_managed_process", process("s", "b", "sleep 52"));
    rig_fails(&l, "box_start_managed_process", process("s", "c", "sleep 53"),
              "BoxCapacityExceededError: Box managed process capacity reached (2)");
    CHECK(l.rt.running == 2);
    rig_ok(&l, "box_stop_managed_process", named("s", "a"));
    rig_ok(&l, "box_stop_managed_process", named("s", "b"));
    for (int i = 0; i < 4; i++) {
        char id[8];
        snprintf(id, sizeof(id), "p%d", i);
        rig_ok(&l, "box_start_managed_process", process("s", id, "true"));
        wait_exit("s", id);
    }
    CHECK(l.rt.ended_n == 2 && !info("s", "p1"));
    rig_pass(301); /* and by time */
    CHECK(l.rt.ended_n == 0);
    rig_close(&l);
}

/* §13.3 #5: what a process has started ends with it, also what left its group. */
FIBER_TEST(test_stop_ends_the_children)
{
    char mark[128], path[512];
    struct stat st;
    struct error err;
    rig_open(&l, "host", NULL);
    rig_ok(&l, "box_create_session", spec("s", ""));
    snprintf(mark, sizeof(mark), "%s/mounts/alive", l.root);
    snprintf(path, sizeof(path),
             "(setsid sh -c 'while :; do touch %s; sleep 0.02; done' &); sleep 60", mark);
    rig_ok(&l, "box_start_managed_process", process("s", "a", path));
    for (int i = 0; i < 2000 && stat(mark, &st) != 0; i++)
        CHECK(task_sleep_ms(2, &err));
    rig_ok(&l, "box_stop_managed_process", named("s", "a"));
    unlink(mark);
    CHECK(task_sleep_ms(150, &err) && stat(mark, &st) != 0);
    rig_close(&l);
}

FIBER_TEST(test_delete_during_start_leaves_none)
{
    struct later up, down;
    rig_open(&l, "host", NULL);
    for (int i = 0; i < 5; i++) {
        rig_ok(&l, "box_create_session", spec("s", ""));
        rig_later(&l, &up, "box_start_managed_process", process("s", "a", "sleep 60"));
        rig_later(&l, &down, "box_delete_session", spec("s", ""));
        json_decref(rig_wait(&up));
        json_t *got = rig_wait(&down);
        CHECK(got);
        json_decref(got);
        CHECK(l.rt.running == 0 && l.rt.starting == 0 && l.rt.sessions == 0);
    }
    rig_close(&l);
}

/* §13.3 #19: one long piece keeps its end. */
static void test_preview(void **state)
{
    struct preview v = {0};
    char long_one[10001];
    memset(long_one, 'x', sizeof(long_one));
    preview_add(&v, S("one\n"));
    preview_add(&v, S("two \xc3\xa9\n  \n"));
    auto_json first = preview_text(&v);
    assert_string_equal(json_string_value(first), "one\ntwo \xc3\xa9");
    preview_add(&v, str_n(long_one, sizeof(long_one)));
    preview_add(&v, S("END"));
    auto_json second = preview_text(&v);
    struct str s = json_sv(second);
    assert_true(s.n <= PREVIEW_MAX && s.n > 1000 && str_ends(s, S("xxEND")));
    for (int i = 0; i < 2000; i++)
        preview_add(&v, S("a line of some length\n"));
    auto_json third = preview_text(&v);
    s = json_sv(third);
    assert_true(s.n <= PREVIEW_MAX && str_starts(s, S("a line of")) && str_ends(s, S("length")));
    preview_free(&v);
}

/* ---- relay ------------------------------------------------------------------------------------- */

static char url[512];
static struct http_header headers[4];

static void serve_relay(void)
{
    struct error err;
    static char generation[24];
    struct box_server_opts o = {.host = "127.0.0.1", .stdio = true};
    struct http_client_opts c = {0};
    l.rt.token = mem_strndup("ttttttttttttttttttttttttttttttttttttt", 37);
    MUST(box_server_start(&l.rt, &o, &err));
    MUST(http_client_init(&c, &err));
    snprintf(generation, sizeof(generation), "%lld", (long long)l.generation);
    headers[0] = (struct http_header){S("X-LangBot-Box-Control-Token"), str_c(l.rt.token)};
    headers[1] = (struct http_header){S("X-LangBot-Instance-Id"), S("instance")};
    headers[2] = (struct http_header){S("X-LangBot-Workspace-Id"), str_c(l.workspace)};
    headers[3] = (struct http_header){S("X-LangBot-Placement-Generation"), str_c(generation)};
}

static const char *relay_url(const char *session, const char *id)
{
    char ns[NS_SIZE];
    place_namespace("instance", l.workspace, ns);
    snprintf(url, sizeof(url), "ws://127.0.0.1:%u/v1/sessions/%s-g%lld-%s/managed-process/%s/ws",
             box_server_port(), ns, (long long)l.generation, session, id);
    return url;
}

static struct ws *attach(const char *session, const char *id)
{
    struct error err;
    struct ws_opts o = {.message_max = 16 << 20, .no_proxy = true};
    struct ws *ws = ws_connect(relay_url(session, id), headers, 4, "mcp", &o, &err);
    MUST(ws);
    return ws;
}

static void hears(struct ws *ws, const char *text)
{
    struct error err;
    struct ws_msg m;
    MUST(ws_recv(ws, &m, &err));
    if (!str_eqz(m.data, text)) {
        fprintf(stderr, "wanted \"%s\", heard \"" STR_FMT "\"\n", text, STR_ARG(m.data));
        abort();
    }
}

static void says(struct ws *ws, const char *text)
{
    struct error err;
    MUST(ws_send(ws, WS_TEXT, str_c(text), &err));
}

static void close_relay(void)
{
    box_server_stop();
    http_client_end();
    rig_close(&l);
}

/* §13.3 #3: one line is one message, whatever pieces it comes in. */
FIBER_TEST(test_relay_lines)
{
    rig_open(&l, "host", NULL);
    serve_relay();
    rig_ok(&l, "box_create_session", spec("s", ""));
    rig_ok(&l, "box_start_managed_process",
           process("s", "a",
                   "read x; printf 'a\\303'; sleep 0.05; printf '\\251b\\none\\ntwo\\n'; read y; "
                   "echo \"$y\"; printf rest"));
    struct ws *ws = attach("s", "a");
    says(ws, "go");
    hears(ws, "a\xc3\xa9"
              "b");
    hears(ws, "one");
    hears(ws, "two");
    says(ws, "{\"id\": 1}");
    hears(ws, "{\"id\": 1}");
    hears(ws, "rest");
    struct error err;
    struct ws_msg m;
    CHECK(!ws_recv(ws, &m, &err) && err.code == ERR_CLOSED);
    ws_close(ws);
    close_relay();
}

FIBER_TEST(test_relay_turns)
{
    struct error err;
    rig_open(&l, "host", NULL);
    serve_relay();
    rig_ok(&l, "box_create_session", spec("s", ""));
    rig_ok(&l, "box_start_managed_process", process("s", "a", "exec cat"));
    struct ws *first = attach("s", "a");
    says(first, "1");
    hears(first, "1");
    auto_json p = info("s", "a");
    CHECK(json_b_or(p, "attached", false));
    struct ws *second = attach("s", "a");
    says(second, "2");
    says(first, "1 again");
    hears(first, "1 again");
    ws_close(first);
    hears(second, "2");
    struct session *s = container_of(l.rt.idle.next, struct session, in_idle);
    CHECK(s->running == 1);
    rig_pass(2 * TTL_SEC); /* a running process keeps its session */
    CHECK(rig_sessions(&l) == 1);
    l.generation = 2;
    rig_ok(&l, "box_status", json_object());
    struct ws_msg m;
    CHECK(!ws_recv(second, &m, &err));
    ws_close(second);
    CHECK(l.rt.running == 0);
    close_relay();
}

static int status_of(const char *where, size_t from, struct http_header change)
{
    struct error err;
    struct http_header h[4];
    struct http_result res;
    auto_arena a = arena_new(1 << 16);
    memcpy(h, headers, sizeof(h));
    if (change.name.n)
        h[from] = change;
    char http[512];
    snprintf(http, sizeof(http), "http%s", where + 2);
    struct http_call c = {
        .method = "GET", .url = http, .headers = h, .header_count = 4, .total_ms = 5000};
    MUST(http_fetch(a, &c, &res, &err));
    CHECK(res.status != 401 || str_eqz(res.body, "Unauthorized"));
    return res.status;
}

/* S1: both routes want token, instance and (relay) placement; only the probes are open. */
FIBER_TEST(test_s1_handshake)
{
    const struct http_header same = {STR_NONE, STR_NONE};
    rig_open(&l, "host", NULL);
    serve_relay();
    rig_ok(&l, "box_create_session", spec("s", ""));
    rig_ok(&l, "box_start_managed_process", process("s", "a", "exec cat"));
    char relay[512], control[128];
    snprintf(relay, sizeof(relay), "%s", relay_url("s", "a"));
    snprintf(control, sizeof(control), "ws://127.0.0.1:%u/rpc/ws", box_server_port());
    CHECK(status_of(relay, 0, same) == 426 && status_of(control, 0, same) == 426);
    static const char *const tokens[] = {"", "wrong", "tttttttttttttttttttttttttttttttttttt",
                                         "tttttttttttttttttttttttttttttttttttttt",
                                         "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"};
    for (size_t i = 0; i < array_len(tokens); i++) {
        struct http_header h = {headers[0].name, str_c(tokens[i])};
        CHECK(status_of(relay, 0, h) == 401 && status_of(control, 0, h) == 401);
    }
    static const char *const instances[] = {"", "other", "-x", "a b", "instancex"};
    for (size_t i = 0; i < array_len(instances); i++) {
        struct http_header h = {headers[1].name, str_c(instances[i])};
        CHECK(status_of(relay, 1, h) == 401 && status_of(control, 1, h) == 401);
    }
    static const char *const generations[] = {"0", "-1", "+1", "01", "1.0", "x", "2", ""};
    for (size_t i = 0; i < array_len(generations); i++)
        CHECK(status_of(relay, 3, (struct http_header){headers[3].name, str_c(generations[i])}) ==
              401);
    CHECK(status_of(relay, 2, (struct http_header){headers[2].name, S("someone")}) == 401);
    CHECK(status_of(relay_url("none", "a"), 0, same) == 400);
    CHECK(status_of(relay_url("s", "none"), 0, same) == 400);
    snprintf(control, sizeof(control), "ws://127.0.0.1:%u/healthz", box_server_port());
    CHECK(status_of(control, 0, (struct http_header){headers[0].name, S("none")}) == 200);
    snprintf(control, sizeof(control), "ws://127.0.0.1:%u/v1/sessions", box_server_port());
    CHECK(status_of(control, 0, same) == 404);
    CHECK(l.rt.refused > 20);
    close_relay();
}

/* §13.3 #15: without a token a pin lasts no longer than it is used. */
FIBER_TEST(test_pin_without_a_token)
{
    rig_open(&l, "host", NULL);
    l.rt.trusted_fixed = false;
    control_opened(&l.rt);
    control_closed(&l.rt);
    CHECK(l.rt.trusted); /* the lab's own connection is there still */
    rig_ok(&l, "box_create_session", spec("s", ""));
    size_t had = l.rt.controls;
    l.rt.controls = 1;
    control_closed(&l.rt);
    CHECK(l.rt.trusted); /* sessions hold it */
    l.rt.controls = had;
    rig_ok(&l, "box_delete_session", spec("s", ""));
    l.rt.controls = 1;
    control_closed(&l.rt);
    CHECK(!l.rt.trusted);
    l.rt.controls = had;
    l.rt.trusted = mem_strndup("instance", 8);
    l.rt.trusted_fixed = true;
    rig_close(&l);
}

static void test_tokens(void **state)
{
    int64_t g;
    assert_true(token_ok(S("0123456789abcdef0123456789abcdef")));
    assert_false(token_ok(S("0123456789abcdef0123456789abcde")));
    assert_false(token_ok(S("0123456789abcdef 0123456789abcdef")));
    assert_false(token_ok(S("0123456789abcdef0123456789abcdef\t")));
    assert_true(instance_ok(S("a.b_c:d-9")) && !instance_ok(S("")) && !instance_ok(S("-a")) &&
                !instance_ok(S("a/b")) && !instance_ok(S("\xc3\xbc")));
    assert_true(canonical_generation(S("9007199254740993"), &g) && g == 9007199254740993);
    assert_false(canonical_generation(S("99999999999999999999"), &g));
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start_and_report),
                                       cmocka_unit_test(test_exit_replace_and_bounds),
                                       cmocka_unit_test(test_stop_ends_the_children),
                                       cmocka_unit_test(test_delete_during_start_leaves_none),
                                       cmocka_unit_test(test_preview),
                                       cmocka_unit_test(test_relay_lines),
                                       cmocka_unit_test(test_relay_turns),
                                       cmocka_unit_test(test_s1_handshake),
                                       cmocka_unit_test(test_pin_without_a_token),
                                       cmocka_unit_test(test_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
