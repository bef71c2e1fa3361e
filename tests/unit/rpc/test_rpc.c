/* Connections over pipes: dispatch, calls, streams, files (box.md §14 A). */
#include "rpc/rpc.h"
#include "support/fiber_test.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- two ends -------------------------------------------------------------------------------- */

struct end {
    struct rpc *rpc;
    bool ended;
    struct error err;
};
static struct {
    struct end a, b; /* a calls, b serves */
    struct task_group *group;
    struct rpc_files *files;
    struct rpc_request *held; /* a request that waits to be aborted */
    bool go;
} lab;

static void run_end(void *arg)
{
    struct end *e = arg;
    rpc_run(e->rpc, &e->err);
    e->ended = true;
}

static void serve(struct rpc_request *r, void *arg)
{
    struct error err = {0};
    if (strcmp(r->action, "echo") == 0) {
        rpc_reply(r, json_incref(r->data));
    } else if (strcmp(r->action, "context") == 0) {
        rpc_reply(r, r->context ? json_incref(r->context) : json_object());
    } else if (strcmp(r->action, "fail") == 0) {
        err_tag(&err, ERR_INVALID, 0, "BoxValidationError", "cpus must be a number");
        rpc_fail(r, &err);
    } else if (strcmp(r->action, "slow") == 0) {
        lab.held = r;
        while (!lab.go && task_sleep_ms(1, &err))
            ;
        lab.held = NULL;
        rpc_reply(r, json_object());
    } else if (strcmp(r->action, "count") == 0) {
        for (int i = 0; i < json_i_or(r->data, "n", 0); i++)
            if (!rpc_emit(r, json_pack("{s:i}", "i", i), &err))
                return;
        if (json_b_or(r->data, "fail", false))
            rpc_fail_text(r, "RuntimeError", S("broken off"));
        else
            rpc_stream_end(r);
    } else if (strcmp(r->action, "need") == 0) {
        if (rpc_need(r, "thing", &err))
            rpc_reply(r, json_object());
        else
            rpc_fail(r, &err);
    } else if (strcmp(r->action, "__file_chunk") == 0) {
        rpc_files_chunk(lab.files, r);
    } else if (strcmp(r->action, "silent") != 0) {
        rpc_fail_unknown(r);
    }
}

static struct rpc *open_end(int fd, rpc_serve fn)
{
    struct error err;
    int twin = dup(fd);
    struct rpc_transport *t = rpc_stdio(fd, twin, true, &err);
    CHECK(t);
    struct rpc_opts o = {.transport = t, .serve = fn, .name = "test"};
    struct rpc *rpc = rpc_new(&o, &err);
    CHECK(rpc);
    return rpc;
}

static void lab_open(void)
{
    int pair[2];
    struct error err;
    memset(&lab, 0, sizeof(lab));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    lab.a.rpc = open_end(pair[0], NULL);
    lab.b.rpc = open_end(pair[1], serve);
    lab.group = task_group_new(NULL, "test");
    MUST(task_spawn(lab.group, "a", run_end, &lab.a, &err));
    MUST(task_spawn(lab.group, "b", run_end, &lab.b, &err));
}

static void lab_close(void)
{
    rpc_shut(lab.a.rpc, 1000, S(""));
    rpc_shut(lab.b.rpc, 1000, S(""));
    task_group_free(lab.group);
    CHECK(lab.a.ended && lab.b.ended);
    rpc_free(lab.a.rpc);
    rpc_free(lab.b.rpc);
    rpc_files_free(lab.files);
}

static json_t *ask(const char *action, json_t *data, struct error *err)
{
    *err = (struct error){0};
    return rpc_call(lab.a.rpc, action, data, NULL, 60000, err);
}

/* ---- calls ----------------------------------------------------------------------------------- */

FIBER_TEST(test_call)
{
    struct error err;
    lab_open();
    json_t *got = ask("echo", json_pack("{s:s,s:n}", "text", "gr\xc3\xbc\xc3\x9f", "nil"), &err);
    CHECK(got && json_is_null(json_object_get(got, "nil")));
    CHECK(strcmp(json_z(got, "text"), "gr\xc3\xbc\xc3\x9f") == 0);
    json_decref(got);
    CHECK(!ask("fail", json_object(), &err) && err.code == ERR_UPSTREAM);
    CHECK(strcmp(err.msg, "BoxValidationError: cpus must be a number") == 0);
    CHECK(!ask("nothing", json_object(), &err));
    CHECK(strcmp(err.msg, "ValueError: Action nothing not found") == 0);
    CHECK(!ask("need", json_object(), &err) && strcmp(err.msg, "KeyError: 'thing'") == 0);
    CHECK(!ask("silent", json_object(), &err) && strstr(err.msg, "not answered"));
    lab_close();
}

FIBER_TEST(test_large)
{
    struct error err;
    lab_open();
    size_t n = 1 << 20;
    char *text = mem_alloc(n + 1);
    memset(text, '"', n);
    json_t *got = ask("echo", json_pack("{s:s}", "x", text), &err);
    MUST(got);
    CHECK(json_string_length(json_object_get(got, "x")) == n);
    json_decref(got);
    mem_free(text);
    text = mem_alloc(RPC_MESSAGE_MAX + 2);
    memset(text, 'a', RPC_MESSAGE_MAX + 1);
    CHECK(!ask("echo", json_pack("{s:s}", "x", text), &err) && err.code == ERR_TOO_LARGE);
    mem_free(text);
    got = ask("echo", json_object(), &err);
    CHECK(got);
    json_decref(got);
    lab_close();
}

FIBER_TEST(test_timeout_and_late_answer)
{
    struct error err;
    lab_open();
    CHECK(!rpc_call(lab.a.rpc, "slow", json_object(), NULL, 30, &err) && err.code == ERR_TIMEOUT);
    CHECK(strcmp(err.msg, "Action slow call timed out") == 0);
    lab.go = true;
    json_t *got = ask("echo", json_object(), &err); /* the late answer disturbs nobody */
    CHECK(got);
    json_decref(got);
    lab_close();
}

static void call_slow(void *arg)
{
    struct end *e = arg;
    CHECK(!rpc_call(lab.a.rpc, "slow", json_object(), NULL, 5000, &e->err));
    e->ended = true;
}

FIBER_TEST(test_slow_one_blocks_no_other)
{
    struct error err;
    lab_open();
    struct end slow = {0};
    MUST(task_spawn(lab.group, "slow", call_slow, &slow, &err));
    for (int i = 0; i < 20; i++) {
        json_t *got = ask("echo", json_object(), &err);
        CHECK(got);
        json_decref(got);
    }
    CHECK(!slow.ended && lab.held);
    rpc_shut(lab.b.rpc, 1000, S("")); /* the connection is lost: the call fails at once */
    rpc_shut(lab.a.rpc, 1000, S(""));
    fiber_until(&slow.ended);
    CHECK(slow.err.code == ERR_CLOSED);
    CHECK(!ask("echo", json_object(), &err) && err.code == ERR_CLOSED);
    lab_close();
}

FIBER_TEST(test_abort_is_answered)
{
    struct error err, why;
    lab_open();
    struct end slow = {0};
    MUST(task_spawn(lab.group, "slow", call_slow, &slow, &err));
    while (!lab.held)
        CHECK(task_sleep_ms(1, &err));
    err_tag(&why, ERR_DENIED, 0, "PermissionError", "Stale Box placement generation");
    rpc_abort(lab.held, &why);
    fiber_until(&slow.ended);
    CHECK(strcmp(slow.err.msg, "PermissionError: Stale Box placement generation") == 0);
    lab_close();
}

/* ---- streams --------------------------------------------------------------------------------- */

FIBER_TEST(test_stream)
{
    struct error err = {0};
    json_t *part;
    lab_open();
    struct rpc_stream *s =
        rpc_open(lab.a.rpc, "count", json_pack("{s:i}", "n", 5), NULL, 1000, &err);
    for (int i = 0; i < 5; i++) {
        MUST(rpc_next(s, &part, &err));
        CHECK(json_i_or(part, "i", -1) == i);
        json_decref(part);
    }
    CHECK(rpc_next(s, &part, &err) && !part);
    rpc_stream_close(s);

    s = rpc_open(lab.a.rpc, "count", json_pack("{s:i,s:b}", "n", 1, "fail", 1), NULL, 1000, &err);
    MUST(rpc_next(s, &part, &err));
    json_decref(part);
    CHECK(!rpc_next(s, &part, &err) && strcmp(err.msg, "RuntimeError: broken off") == 0);
    rpc_stream_close(s);

    s = rpc_open(lab.a.rpc, "slow", json_object(), NULL, 20, &err);
    CHECK(!rpc_next(s, &part, &err) && err.code == ERR_TIMEOUT);
    rpc_stream_close(s);
    lab_close();
}

FIBER_TEST(test_stream_reader_too_slow)
{
    struct error err = {0};
    json_t *part, *got;
    lab_open();
    struct rpc_stream *s =
        rpc_open(lab.a.rpc, "count", json_pack("{s:i}", "n", RPC_QUEUE_MAX + 20), NULL, 1000, &err);
    got = ask("echo", json_object(), &err); /* others are served meanwhile */
    CHECK(got);
    json_decref(got);
    CHECK(task_sleep_ms(50, &err));
    size_t n = 0;
    while (rpc_next(s, &part, &err) && part) {
        json_decref(part);
        n++;
    }
    CHECK(n == RPC_QUEUE_MAX && err.code == ERR_CAPACITY);
    rpc_stream_close(s);
    lab_close();
}

/* ---- raw messages ------------------------------------------------------------------------------- */

/* Writes lines to a serving end and reads what it answers, until `count` answers came. */
static json_t *raw(const char *text, size_t count)
{
    struct error err = {0};
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    struct end e = {.rpc = open_end(pair[1], serve)};
    struct task_group *g = task_group_new(NULL, "raw");
    MUST(task_spawn(g, "raw", run_end, &e, &err));
    MUST(task_write_all(pair[0], text, strlen(text), &err));
    struct rpc_lines l;
    rpc_lines_init(&l);
    json_t *answers = json_array();
    while (json_array_size(answers) < count) {
        char block[4096];
        ssize_t n = task_read(pair[0], block, sizeof(block), &err);
        CHECK(n > 0);
        MUST(rpc_lines_add(&l, block, (size_t)n, &err));
        struct str s;
        while (rpc_lines_next(&l, &s, &err))
            json_array_append_new(answers, json_parse_words(s, &err));
    }
    close(pair[0]);
    fiber_until(&e.ended);
    CHECK(e.err.code == ERR_CLOSED);
    task_group_free(g);
    rpc_free(e.rpc);
    rpc_lines_free(&l);
    return answers;
}

static const json_t *only(json_t *answers)
{
    CHECK(json_array_size(answers) == 1);
    return json_array_get(answers, 0);
}

FIBER_TEST(test_malformed)
{
    static const char *const ignored[] = {"{broken}\n", "{}\n",
                                          "{\"seq_id\":1,\"code\":0,\"data\":{}}\n",
                                          "{\"code\":null}\n", "{\"seq_id\":1,\"data\":{}}\n"};
    for (size_t i = 0; i < array_len(ignored); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s{\"seq_id\":7,\"action\":\"echo\",\"data\":{}}\n",
                 ignored[i]);
        json_t *got = raw(text, 1);
        CHECK(json_i_or(only(got), "seq_id", 0) == 7);
        json_decref(got);
    }
    static const char *const refused[] = {
        "{\"seq_id\":9,\"action\":\"echo\"}\n",
        "{\"seq_id\":9,\"action\":\"echo\",\"data\":[]}\n",
        "{\"seq_id\":9,\"action\":5,\"data\":{}}\n",
        "{\"seq_id\":9,\"action\":\"echo\",\"data\":{},\"context\":5}\n",
        "{\"seq_id\":9,\"action\":\"echo\",\"data\":{},\"context\":{\"instance_uuid\":\"i\"}}\n",
        ("{\"seq_id\":9,\"action\":\"echo\",\"data\":{},\"context\":{\"instance_uuid\":\"i\","
         "\"workspace_uuid\":\"w\",\"role\":\"x\"}}\n")};
    for (size_t i = 0; i < array_len(refused); i++) {
        json_t *got = raw(refused[i], 1);
        CHECK(json_i_or(only(got), "code", 0) == 1 && json_i_or(only(got), "seq_id", 0) == 9);
        CHECK(strncmp(json_z(only(got), "message"), "ValidationError: ", 17) == 0);
        json_decref(got);
    }
    json_t *got = raw("{\"action\":\"echo\",\"data\":{}}\n", 1);
    CHECK(json_i_or(only(got), "seq_id", 0) == -1 && json_i_or(only(got), "code", 0) == 1);
    json_decref(got);
}

/* Legal JSON that the parser cannot hold is no reason for silence. */
FIBER_TEST(test_mended)
{
    json_t *got =
        raw("{\"seq_id\":5,\"action\":\"a\\ud800b\",\"data\":{\"n\":1180591620717411303424}}\n", 1);
    CHECK(strstr(json_z(only(got), "message"), "not found"));
    json_decref(got);
}

FIBER_TEST(test_context)
{
    json_t *got = raw(
        "{\"seq_id\":1,\"action\":\"context\",\"data\":{},\"context\":{\"instance_uuid\":\" i \","
        "\"workspace_uuid\":\"w\",\"installation_uuid\":null}}\n",
        1);
    const json_t *data = json_object_get(only(got), "data");
    CHECK(strcmp(json_z(data, "instance_uuid"), "i") == 0);
    CHECK(json_i_or(data, "placement_generation", 0) == 1);
    CHECK(!json_object_get(data, "installation_uuid"));
    CHECK(strcmp(json_z(only(got), "chunk_status"), "continue") == 0);
    json_decref(got);
}

/* 128 run, the next is refused at once. */
FIBER_TEST(test_busy)
{
    struct buf text = BUF(1 << 20);
    for (int i = 0; i < RPC_INFLIGHT_MAX; i++)
        buf_fmt(&text, "{\"seq_id\":%d,\"action\":\"slow\",\"data\":{}}\n", i);
    buf_z(&text, "{\"seq_id\":999,\"action\":\"echo\",\"data\":{}}\n");
    lab.go = false;
    json_t *got = raw(buf_cstr(&text), 1);
    CHECK(json_i_or(only(got), "seq_id", 0) == 999);
    CHECK(strcmp(json_z(only(got), "message"),
                 "Runtime connection is busy (max 128 concurrent actions)") == 0);
    json_decref(got);
    buf_free(&text);
}

FIBER_TEST(test_long_error_is_cut)
{
    struct buf text = BUF(1 << 20);
    buf_z(&text, "{\"seq_id\":1,\"action\":\"");
    for (int i = 0; i < 20000; i++)
        buf_c(&text, 'x');
    buf_z(&text, "\",\"data\":{}}\n");
    auto_arena a = arena_new(1 << 20);
    CHECK(a);
    json_t *got = raw(buf_cstr(&text), 1);
    struct str m = json_s(only(got), "message");
    CHECK(str_ends(m, S("... [protocol error truncated]")));
    CHECK(m.n == strlen("ValueError: ") + 4096 + strlen("... [protocol error truncated]"));
    json_decref(got);
    buf_free(&text);
}

/* ---- files ------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/parley-rpc-files-XXXXXX";

static json_t *chunk(const char *key, const char *base64, int index, int amount)
{
    return json_pack("{s:s,s:s,s:i,s:i}", "file_key", key, "chunk_base64", base64, "chunk_index",
                     index, "chunk_amount", amount);
}

static bool refused(json_t *data, const char *text)
{
    struct error err;
    json_t *got = ask("__file_chunk", data, &err);
    json_decref(got);
    return !got && strstr(err.msg, text);
}

FIBER_TEST(test_files)
{
    struct error err;
    struct stat st;
    char key[128], path[256], inner[64];
    lab_open();
    snprintf(inner, sizeof(inner), "%s/in/ner", dir);
    lab.files = rpc_files_new(inner, 100000);
    char *bytes = mem_alloc(50001);
    for (size_t i = 0; i < 50000; i++)
        bytes[i] = (char)(i * 7);
    MUST(rpc_file_send(lab.a.rpc, str_n(bytes, 50000), ".zip", NULL, key, &err));
    CHECK(str_ends(str_c(key), S(".zip")) && strlen(key) == 16 + 1 + 32 + 4);
    CHECK(stat(inner, &st) == 0 && (st.st_mode & 0777) == 0700);
    struct buf got = BUF(1 << 20);
    MUST(rpc_files_take(lab.files, str_c(key), &got, &err));
    CHECK(str_eq(buf_view(&got), str_n(bytes, 50000)));
    CHECK(!rpc_files_take(lab.files, str_c(key), &got, &err) && err.code == ERR_NOT_FOUND);
    buf_free(&got);
    MUST(rpc_file_send(lab.a.rpc, S(""), NULL, NULL, key, &err)); /* one piece also for nothing */
    snprintf(path, sizeof(path), "%s/%s", inner, key);
    CHECK(stat(path, &st) == 0 && st.st_size == 0);
    CHECK(!rpc_file_send(lab.a.rpc, S("x"), "a/b", NULL, key, &err));

    CHECK(refused(chunk("../x", "QQ==", 0, 1), "Invalid file transfer key"));
    CHECK(refused(chunk("a..b", "QQ==", 0, 1), "Invalid file transfer key"));
    CHECK(refused(chunk("", "QQ==", 0, 1), "Invalid file transfer key"));
    CHECK(refused(chunk("k", "QQ", 0, 1), "base64"));
    CHECK(refused(chunk("k", "Q Q=", 0, 1), "base64"));
    CHECK(refused(chunk("k", "QQ==", 1, 1), "index"));
    CHECK(refused(chunk("k", "QQ==", -1, 1), "index"));
    CHECK(refused(chunk("new", "QQ==", 1, 2), "first chunk"));
    rpc_files_limit(lab.files, 1);
    json_decref(ask("__file_chunk", chunk("cap", "QQ==", 0, 2), &err));
    CHECK(refused(chunk("cap", "QQ==", 1, 2), "exceeds"));
    for (int i = 0; i < RPC_FILES_MAX - 2; i++) {
        snprintf(key, sizeof(key), "many%d", i);
        json_t *ok = ask("__file_chunk", chunk(key, "QQ==", 0, 1), &err);
        CHECK(ok);
        json_decref(ok);
    }
    CHECK(refused(chunk("over", "QQ==", 0, 1), "capacity"));
    lab_close(); /* leftovers are removed */
    CHECK(stat(path, &st) != 0 && rmdir(inner) == 0);
    mem_free(bytes);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    if (!mkdtemp(dir))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_call),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_timeout_and_late_answer),
                                       cmocka_unit_test(test_slow_one_blocks_no_other),
                                       cmocka_unit_test(test_abort_is_answered),
                                       cmocka_unit_test(test_stream),
                                       cmocka_unit_test(test_stream_reader_too_slow),
                                       cmocka_unit_test(test_malformed),
                                       cmocka_unit_test(test_mended),
                                       cmocka_unit_test(test_context),
                                       cmocka_unit_test(test_busy),
                                       cmocka_unit_test(test_long_error_is_cut),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
