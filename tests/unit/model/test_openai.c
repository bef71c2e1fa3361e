/* The OpenAI requester against a peer that answers what each case says, byte for byte. */
#include "model/model_private.h"

#include "support/fake_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

enum { REPLIES = 8 };

/* Reply n goes to request n, the last one to all after it. A text that starts with "HTTP/" goes
 * out as it is and ends the connection; anything else is the body of a 200: an event stream if
 * it starts with "data", JSON otherwise. */
static struct {
    struct fake_peer peer;
    const char *replies[REPLIES];
    char auth[REPLIES][64];
    char body[REPLIES][4096];
    void (*test)(void);
    char failed[1600];
} t;

#define check(cond)                                                                       \
    do {                                                                                  \
        if (!(cond)) {                                                                    \
            snprintf(t.failed, sizeof(t.failed), "%s:%d: %s", __FILE__, __LINE__, #cond); \
            return;                                                                       \
        }                                                                                 \
    } while (0)
#define check_text(got, want)                                                                      \
    do {                                                                                           \
        struct str got_ = (got);                                                                   \
        if (!str_eqz(got_, want)) {                                                                \
            snprintf(t.failed, sizeof(t.failed), "%s:%d: \"" STR_FMT "\" is not \"%s\"", __FILE__, \
                     __LINE__, (int)(got_.n < 600 ? got_.n : 600), got_.p ? got_.p : "", want);    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static void note_request(struct fake_peer *p, int n)
{
    if (n >= REPLIES)
        return;
    const char *auth = strcasestr(p->last, "\r\nauthorization: "),
               *body = strstr(p->last, "\r\n\r\n");
    t.auth[n][0] = '\0';
    if (auth && auth < body)
        snprintf(t.auth[n], sizeof(t.auth[n]), "%.*s", (int)strcspn(auth + 17, "\r"), auth + 17);
    snprintf(t.body[n], sizeof(t.body[n]), "%s", body ? body + 4 : "");
}

static void serve(struct fake_peer *p, int conn, int index)
{
    while (peer_read(p, conn)) {
        int n = atomic_fetch_add(&p->note, 1);
        note_request(p, n);
        const char *reply = NULL;
        for (int i = 0; i <= n && i < REPLIES && t.replies[i]; i++)
            reply = t.replies[i];
        if (!reply || strncmp(reply, "HTTP/", 5) == 0) {
            if (reply)
                peer_send(conn, reply);
            return;
        }
        char head[256];
        snprintf(head, sizeof(head),
                 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                 strncmp(reply, "data", 4) == 0 ? "text/event-stream" : "application/json",
                 strlen(reply));
        if (!peer_send(conn, head) || !peer_send(conn, reply))
            return;
    }
}

static int in_fiber(void *arg)
{
    struct error err;
    if (!http_client_init(NULL, &err))
        return 1;
    t.test();
    http_client_end();
    return 0;
}

static void run(void (*test)(void))
{
    long live = mem_live();
    memset(&t, 0, sizeof(t));
    t.test = test;
    fake_peer_start(&t.peer, serve);
    task_run(in_fiber, NULL);
    fake_peer_stop(&t.peer);
    if (t.failed[0])
        fail_msg("%s", t.failed);
    catalogue_free();
    assert_int_equal(mem_live(), live);
}

static void script(const char *a, const char *b, const char *c)
{
    memset(t.replies, 0, sizeof(t.replies));
    t.replies[0] = a;
    t.replies[1] = b;
    t.replies[2] = b ? c : NULL;
    atomic_store(&t.peer.note, 0);
}

/* A model of `requester` at the peer; `extra`: JSON of extra_args or NULL. */
static struct model *make(enum model_kind kind, const char *requester, const char *name,
                          const char *extra)
{
    struct error err;
    char url[64];
    catalogue_free();
    auto_json row = json_pack("{s:s, s:s, s:[s,s]}", "requester", requester, "base_url",
                              fake_peer_url(&t.peer, "/v1", url, sizeof(url)), "api_keys",
                              "sk-first", "sk-second");
    auto_json model =
        json_pack("{s:s, s:s, s:[s]}", "uuid", "u", "name", name, "abilities", "reasoning");
    if (extra)
        json_set(model, "extra_args", json_loads(extra, 0, NULL));
    struct provider *p = provider_of_row(row, &err);
    struct model *m = model_of_row(kind, model, p, &err);
    provider_unref(p);
    return m;
}

static struct model *make_plain(void)
{
    return make(MODEL_LLM, "openai-chat-completions", "openai/m1", NULL);
}

#define WHOLE(message)     "{\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":" message "}]}"
#define DELTA(delta)       "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"
#define STOP               "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define DONE               "data: [DONE]\n\n"
#define SAID(text)         DELTA("{\"content\":\"" text "\"}")
#define STATUS(line, body) "HTTP/1.1 " line "\r\nConnection: close\r\n\r\n" body

/* Asks and keeps what came: the joined deltas, the message, the error. */
struct result {
    struct arena *arena;
    struct str text, content;
    struct llm_answer answer;
    size_t deltas, finishes;
    bool ok;
    struct error err;
};

static void ask(struct model *m, struct llm_request req, bool stream, struct result *r)
{
    auto_json messages =
        req.messages ? NULL : json_pack("[{s:s, s:s}]", "role", "user", "content", "hi");
    auto_buf all = BUF(1 << 20);
    *r = (struct result){.arena = arena_new(1 << 20)};
    if (messages)
        req.messages = messages;
    if (!stream) {
        r->ok = llm_invoke(m, &req, &r->answer, &r->err);
    } else {
        struct llm_stream *s = llm_open(m, &req, &r->err);
        struct llm_delta d = {0};
        r->ok = s != NULL;
        while (r->ok && !d.done) {
            r->ok = llm_next(s, &d, &r->err);
            r->deltas++;
            r->finishes += d.finish;
            buf_str(&all, d.text);
        }
        r->ok = r->ok && llm_stream_answer(s, &r->answer, &r->err);
        llm_close(s);
    }
    r->content = str_dup(r->arena, json_s(r->answer.message, "content"));
    r->text = stream ? str_dup(r->arena, all.n ? buf_view(&all) : S("")) : r->content;
}

static void done(struct result *r)
{
    llm_answer_free(&r->answer);
    arena_free(r->arena);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void body_request(void)
{
    struct model *m = make(MODEL_LLM, "openai-chat-completions", "openai/m1",
                           "{\"temperature\":0.5,\"extra_body\":{\"top_k\":5},"
                           "\"extra_headers\":{\"X-Tenant\":\"blue\"}}");
    struct result r;
    for (int stream = 0; stream < 2; stream++) {
        script(stream ? SAID("pong") STOP DONE : WHOLE("{\"content\":\"pong\"}"), NULL, NULL);
        ask(m, (struct llm_request){0}, stream, &r);
        check_text(r.content, "pong");
        check_text(r.text, "pong");
        check(strcmp(t.auth[0], "Bearer sk-first") == 0);
        check(strstr(t.peer.last, "POST /v1/chat/completions ") &&
              strstr(t.peer.last, "X-Tenant: blue"));
        auto_json body = json_loads(t.body[0], 0, NULL);
        check_text(json_s(body, "model"), "m1");
        check(json_integer_value(json_object_get(body, "top_k")) == 5);
        check(json_real_value(json_object_get(body, "temperature")) == 0.5);
        check(!json_object_get(body, "extra_body") && !json_object_get(body, "extra_headers"));
        check(json_is_true(json_object_get(body, "stream")) == stream);
        check(json_is_true(json_at(body, "stream_options.include_usage")) == stream);
        check(!json_object_get(body, "tools") && !json_object_get(body, "tool_choice"));
        done(&r);
    }
    model_unref(m);
}

static void test_request(void **state)
{
    run(body_request);
}

static void body_messages(void)
{
    static const char *const history =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\"},"
        "{\"type\":\"image_base64\",\"image_base64\":\"data:x\"},"
        "{\"type\":\"image_base64\",\"image_base64\":null},{\"type\":\"file_base64\",\"file_base64\":\"f\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://i\"}}]},"
        "{\"role\":\"assistant\",\"content\":\"<think>\\nwhy\\n</think>\\nshown\",\"name\":null,"
        "\"provider_specific_fields\":{\"reasoning_content\":\"why\",\"sig\":1}},"
        "{\"role\":\"assistant\",\"content\":\"\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"file_url\",\"file_url\":\"f\"}]}]";
    auto_json messages = json_loads(history, 0, NULL);
    const char *requester[] = {"deepseek-chat-completions", "openai-chat-completions"};
    for (int i = 0; i < 3; i++) {
        struct result r;
        auto_arena a = arena_new(1 << 20);
        struct model *m = make(MODEL_LLM, requester[i % 2], "deepseek-chat", NULL);
        script(WHOLE("{\"content\":\"x\"}"), NULL, NULL);
        ask(m,
            (struct llm_request){.messages = messages,
                                 .reasoning_level = i == 2 ? "disabled" : NULL},
            false, &r);
        check(r.ok);
        auto_json body = json_loads(t.body[0], 0, NULL);
        const json_t *sent = json_object_get(body, "messages");
        check(json_array_size(sent) == 3);
        check_text(json_text(a, json_object_get(json_array_get(sent, 0), "content")),
                   "[{\"type\":\"text\",\"text\":\"see\"},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\"}},"
                   "{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://i\"}}]");
        const json_t *said = json_array_get(sent, 1);
        check_text(json_s(said, "content"), "shown");
        check_text(json_s(said, "reasoning_content"), i == 0 ? "why" : "");
        check_text(json_text(a, json_object_get(said, "provider_specific_fields")), "{\"sig\":1}");
        check(!json_object_get(said, "name"));
        check_text(json_s(json_array_get(sent, 2), "content"), "");
        done(&r);
        model_unref(m);
    }
    check(json_array_size(messages) == 4); /* as it was */
}

static void test_messages(void **state)
{
    run(body_messages);
}

static void body_tools(void)
{
    struct model *m = make_plain();
    struct result r;
    auto_json tools = json_pack("[{s:s, s:s, s:{s:s}, s:i}]", "name", "add", "description", "d",
                                "parameters", "type", "object", "handler", 1);
    script(WHOLE("{\"content\":null,\"tool_calls\":[{\"id\":\"\",\"function\":{\"name\":\"add\","
                 "\"arguments\":{\"a\":1}}},{\"id\":\"k\",\"type\":\"function\",\"function\":"
                 "{\"name\":\"b\",\"arguments\":\"{}\"}}]}"),
           NULL, NULL);
    ask(m, (struct llm_request){.tools = tools}, false, &r);
    check(r.ok);
    check_text(r.content, "");
    check_text(
        json_text(r.arena, json_object_get(r.answer.message, "tool_calls")),
        "[{\"id\":\"call_0\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"},"
        "\"type\":\"function\"},{\"id\":\"k\",\"type\":\"function\",\"function\":"
        "{\"name\":\"b\",\"arguments\":\"{}\"}}]");
    auto_json body = json_loads(t.body[0], 0, NULL);
    check_text(json_s(body, "tool_choice"), "auto");
    check_text(json_text(r.arena, json_object_get(body, "tools")),
               "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"d\","
               "\"parameters\":{\"type\":\"object\"}}}]");
    done(&r);

    script(
        DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]}") DELTA(
            "{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"add\",\"arguments\":\":\"}}]}")
            DELTA("{\"tool_calls\":[{\"index\":1,\"id\":\"k\",\"function\":{\"name\":\"b\"}},"
                  "{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}") STOP DONE,
        NULL, NULL);
    ask(m, (struct llm_request){.tools = tools}, true, &r);
    check(r.ok);
    check_text(json_text(r.arena, json_object_get(r.answer.message, "tool_calls")),
               "[{\"id\":\"call_0\",\"type\":\"function\",\"function\":{\"name\":\"add\","
               "\"arguments\":\"{\\\"a\\\":1}\"}},{\"id\":\"k\",\"type\":\"function\",\"function\":"
               "{\"name\":\"b\",\"arguments\":\"\"}}]");
    check(r.finishes == 1);
    done(&r);
    model_unref(m);
}

#define CALL(id, index, function) "{\"id\":" id ",\"index\":" index ",\"function\":{" function "}}"
#define CALLS(...)                DELTA("{\"tool_calls\":[" __VA_ARGS__ "]}")

/* How servers of different kinds tell calls apart. */
static void body_call_fragments(void)
{
    static const struct {
        const char *stream, *names, *arguments;
    } cases[] = {
        /* one index for all, each with an id of its own */
        {CALLS(CALL("\"a\"", "0", "\"name\":\"x\",\"arguments\":\"{}\""))
             CALLS(CALL("\"b\"", "0", "\"name\":\"y\",\"arguments\":\"[]\"")),
         "a:x b:y", "{} []"},
        /* a new id for each fragment of one call */
        {CALLS(CALL("\"a\"", "0", "\"name\":\"x\",\"arguments\":\"{\""))
             CALLS(CALL("\"b\"", "0", "\"arguments\":\"}\"")),
         "a:x", "{}"},
        /* no index; the id again, then none */
        {CALLS(CALL("\"a\"", "null", "\"name\":\"x\",\"arguments\":\"\""))
             CALLS(CALL("\"a\"", "null", "\"name\":\"\",\"arguments\":\"{\""))
                 CALLS(CALL("\"\"", "null", "\"arguments\":\"}\"")),
         "a:x", "{}"},
        /* no index, two ids */
        {CALLS(CALL("\"a\"", "null", "\"name\":\"x\",\"arguments\":\"{}\""))
             CALLS(CALL("\"b\"", "null", "\"name\":\"y\",\"arguments\":\"[\""))
                 CALLS(CALL("null", "null", "\"arguments\":\"]\"")),
         "a:x b:y", "{} []"},
        /* the id comes behind the name */
        {CALLS(CALL("null", "0", "\"name\":\"x\",\"arguments\":\"{\""))
             CALLS(CALL("\"a\"", "0", "\"name\":\"x\",\"arguments\":\"}\"")),
         "a:x", "{}"},
        /* interleaved, and an index that is none */
        {CALLS(CALL("\"a\"", "0", "\"name\":\"x\"") "," CALL("\"b\"", "1", "\"name\":\"y\""))
             CALLS(CALL("null", "1", "\"arguments\":\"[]\"") "," CALL(
                 "null", "0", "\"arguments\":\"{}\"")) CALLS(CALL("\"c\"", "-1", "\"name\":\"z\"")),
         "a:x b:y", "{} []"},
    };
    struct model *m = make_plain();
    for (size_t i = 0; i < array_len(cases); i++) {
        struct result r;
        char stream[4096], names[256] = "", arguments[256] = "";
        snprintf(stream, sizeof stream, "%s%s%s", cases[i].stream, STOP, DONE);
        script(stream, NULL, NULL);
        ask(m, (struct llm_request){0}, true, &r);
        check(r.ok);
        size_t k, n = 0, o = 0;
        json_t *c;
        json_array_foreach (json_object_get(r.answer.message, "tool_calls"), k, c) {
            const json_t *f = json_object_get(c, "function");
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s:%s", k ? " " : "",
                                  json_z(c, "id"), json_z(f, "name"));
            o += (size_t)snprintf(arguments + o, sizeof arguments - o, "%s%s", k ? " " : "",
                                  json_z(f, "arguments"));
        }
        check_text(str_c(names), cases[i].names);
        check_text(str_c(arguments), cases[i].arguments);
        done(&r);
    }
    model_unref(m);
}

static void test_call_fragments(void **state)
{
    run(body_call_fragments);
}

static void test_tools(void **state)
{
    run(body_tools);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void body_reasoning(void)
{
    static const struct {
        const char *stream, *shown, *hidden, *kept;
    } cases[] = {
        {DELTA("{\"role\":\"assistant\",\"reasoning_content\":\"r1\"}")
             DELTA("{\"reasoning_content\":\"r2\",\"content\":\"c1\"}") SAID("c2") STOP DONE,
         "<think>\nr1r2\n</think>\nc1c2", "c1c2", "r1r2"},
        {DELTA("{\"reasoning_content\":\"only\"}") STOP DONE, "<think>\nonly\n</think>\n", "",
         "only"},
        {DELTA("{\"reasoning\":\"alias\"}") SAID("x") STOP DONE, "<think>\nalias\n</think>\nx", "x",
         "alias"},
        {DELTA("{\"content\":\"\",\"reasoning_content\":null}")
             DELTA("{\"content\":\"x\",\"reasoning_content\":\"\"}") STOP DONE,
         "x", "x", ""},
        {SAID("<think>se") SAID("cret</th") SAID("ink>shown") STOP DONE,
         "<think>secret</think>shown", "shown", ""},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        for (int remove = 0; remove < 2; remove++) {
            struct model *m = make_plain();
            struct result r;
            script(cases[i].stream, NULL, NULL);
            ask(m, (struct llm_request){.remove_think = remove}, true, &r);
            check(r.ok);
            check_text(r.text, remove ? cases[i].hidden : cases[i].shown);
            check_text(r.content, remove ? cases[i].hidden : cases[i].shown);
            check_text(
                json_sv(json_at(r.answer.message, "provider_specific_fields.reasoning_content")),
                cases[i].kept);
            done(&r);
            model_unref(m);
        }
    }
    struct model *m = make_plain();
    struct result r;
    script(WHOLE("{\"content\":\"The answer.\",\"reasoning_content\":\"step\"}"), NULL, NULL);
    ask(m, (struct llm_request){0}, false, &r);
    check_text(r.content, "<think>\nstep\n</think>\nThe answer.");
    done(&r);
    ask(m, (struct llm_request){.remove_think = true}, false, &r);
    check_text(r.content, "The answer.");
    check_text(json_s(r.answer.message, "role"), "assistant");
    done(&r);
    model_unref(m);
}

static void test_reasoning(void **state)
{
    run(body_reasoning);
}

static void body_usage(void)
{
    struct model *m = make_plain();
    struct result r;
    script(SAID("ok") STOP
           "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6,"
           "\"details\":{\"c\":2},\"x\":null}}\n\n" DONE,
           NULL, NULL);
    ask(m, (struct llm_request){0}, true, &r);
    check(r.ok && r.answer.usage.known && r.answer.usage.input == 5 && r.answer.usage.output == 6);
    check(r.answer.usage.total == 11 && json_object_get(r.answer.usage.raw, "details"));
    check(!json_object_get(r.answer.usage.raw, "x"));
    done(&r);
    script(WHOLE("{\"content\":\"x\"}"), NULL, NULL);
    ask(m, (struct llm_request){0}, false, &r);
    check(r.ok && !r.answer.usage.known);
    done(&r);
    model_unref(m);
}

static void test_usage(void **state)
{
    run(body_usage);
}

static void body_shapes(void)
{
    static const struct {
        const char *stream, *text; /* text NULL: no success */
    } cases[] = {
        {SAID("a") "data: {\"choices\":[]}\n\n" DELTA("{\"content\":null}") SAID("b") STOP, "ab"},
        {DONE, ""},
        {WHOLE("{\"content\":\"in one piece\"}"), "in one piece"},
        {SAID("begun") "data: not json\n\n", NULL},
        {SAID("begun") "data: {\"error\":{\"message\":\"overloaded now\",\"code\":529}}\n\n" DONE,
         NULL},
        {"{\"error\":{\"message\":\"quota used up\"}}", NULL},
        {"{\"choices\":[]}", NULL},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n" SAID(
             "x"),
         NULL},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" SAID("x"), NULL},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" SAID("x") STOP, "x"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct model *m = make_plain();
        struct result r;
        script(cases[i].stream, NULL, NULL);
        ask(m, (struct llm_request){0}, true, &r);
        if (r.ok != (cases[i].text != NULL))
            snprintf(t.failed, sizeof(t.failed), "case %zu: %s", i, r.err.msg);
        else if (r.ok)
            check_text(r.content, cases[i].text);
        else
            check(strncmp(r.err.msg, "模型请求失败: ", strlen("模型请求失败: ")) == 0);
        if (i == 4)
            check(strstr(r.err.msg, "overloaded now") && strcmp(r.err.tag, "api") == 0);
        check(atomic_load(&t.peer.note) ==
              1); /* an answer that has begun is never asked for again */
        done(&r);
        model_unref(m);
    }
}

static void test_shapes(void **state)
{
    run(body_shapes);
}

/* How often the model is heard when `deltas` pieces of its answer come in one burst. */
static void ask_burst(size_t deltas, struct result *r)
{
    auto_buf burst = BUF(4 << 20);
    for (size_t i = 0; i < deltas; i++)
        buf_z(&burst, SAID("0123456789"));
    buf_z(&burst, STOP DONE);
    struct model *m = make_plain();
    script(buf_cstr(&burst), NULL, NULL);
    ask(m, (struct llm_request){0}, true, r);
    model_unref(m);
}

static void body_bursts(void)
{
    static const struct {
        size_t deltas, least, most; /* steps */
    } cases[] = {{1, 1, 3}, {8, 1, 3}, {100, 12, 16}, {1000, 125, 130}, {20000, 210, 300}};
    for (size_t i = 0; i < array_len(cases); i++) {
        struct result r;
        ask_burst(cases[i].deltas, &r);
        check(r.ok && r.text.n == 10 * cases[i].deltas);
        if (r.deltas < cases[i].least || r.deltas > cases[i].most)
            snprintf(t.failed, sizeof(t.failed), "%zu deltas in %zu steps", cases[i].deltas,
                     r.deltas);
        done(&r);
    }
}

/* An answer that comes at once is seen to grow; the steps of a long one do not cost its square. */
static void test_bursts(void **state)
{
    run(body_bursts);
}

/* ---- errors, keys, repeats ------------------------------------------------------------------- */

#define ERROR(line, message, code) \
    STATUS(line, "{\"error\":{\"message\":\"" message "\",\"type\":\"t\",\"code\":" code "}}")

static void body_errors(void)
{
    static const struct {
        const char *reply, *start, *tag;
    } cases[] = {
        {ERROR("400 Bad", "bad field", "null"), "请求参数错误: bad field", "bad_request"},
        {ERROR("400 Bad", "too much", "\"context_length_exceeded\""), "上下文长度超限: too much",
         "context_length"},
        {ERROR("400 Bad", "This model's maximum context length is 4096", "null"),
         "上下文长度超限: ", "context_length"},
        {ERROR("401 No", "wrong key sk-first or sk-second!", "null"),
         "API key 无效: wrong key *** or ***!", "auth"},
        {ERROR("404 No", "no such model", "null"), "模型或路径无效: ", "not_found"},
        {ERROR("403 No", "forbidden", "null"), "API 错误: forbidden", "api"},
        {STATUS("418 Tea", "<html>x</html>"), "API 错误: HTTP 418: <html>x</html>", "api"},
        {STATUS("418 Tea", ""), "API 错误: HTTP 418", "api"},
        {"it works!", "API 错误: invalid JSON", "api"},
        {"{\"choices\":[]}", "API 错误: the answer has no choices", "api"},
        {"{\"error\":\"broken\"}", "API 错误: broken", "api"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct model *m = make_plain();
        struct result r;
        char want[256];
        script(cases[i].reply, NULL, NULL);
        ask(m, (struct llm_request){0}, false, &r);
        snprintf(want, sizeof(want), "模型请求失败: %s", cases[i].start);
        check(!r.ok);
        check_text(str_sub(str_c(r.err.msg), 0, strlen(want)), want);
        check(strcmp(r.err.tag, cases[i].tag) == 0);
        check(atomic_load(&t.peer.note) == (i == 3 ? 2 : 1));
        done(&r);
        model_unref(m);
    }
}

static void test_errors(void **state)
{
    run(body_errors);
}

static void body_repeats(void)
{
    static const struct {
        const char *first, *second;
        int requests;
        bool ok;
    } cases[] = {
        {ERROR("500 Boom", "x", "null"), WHOLE("{\"content\":\"x\"}"), 2, true},
        {ERROR("408 Late", "x", "null"), WHOLE("{\"content\":\"x\"}"), 2, true},
        {ERROR("503 Busy", "x", "null"), NULL, 3, false},
        {"HTTP/", WHOLE("{\"content\":\"x\"}"), 2, true}, /* closed without an answer */
        {ERROR("429 Slow", "x", "null"), WHOLE("{\"content\":\"x\"}"), 2, true},
        {ERROR("429 Slow", "x", "null"), NULL, 6, false}, /* both keys, three times */
        {STATUS("429 Slow\r\nRetry-After: 60", "{}"), NULL, 2, false},
        {STATUS("503 Busy\r\nRetry-After: 60", "{}"), NULL, 1, false},
        {STATUS("503 Busy\r\nRetry-After: 1", "{}"), WHOLE("{\"content\":\"x\"}"), 2, true},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        for (int stream = 0; stream < 2; stream++) {
            struct model *m = make_plain();
            struct result r;
            script(cases[i].first, cases[i].second, NULL);
            int64_t from = time_mono_us();
            ask(m, (struct llm_request){0}, stream, &r);
            int requests = atomic_load(&t.peer.note);
            if (r.ok != cases[i].ok || requests != cases[i].requests)
                snprintf(t.failed, sizeof(t.failed), "case %zu: %d requests, %s", i, requests,
                         r.err.msg);
            check(strcmp(t.auth[0], "Bearer sk-first") == 0);
            if (i == 4 || i == 5)
                check(strcmp(t.auth[1], "Bearer sk-second") == 0);
            if (i == 5)
                check(strcmp(t.auth[2], "Bearer sk-first") == 0);
            if (i == 8)
                check(time_mono_us() - from >= 900000);
            done(&r);
            model_unref(m);
            if (t.failed[0])
                return;
        }
    }
}

static void test_repeats(void **state)
{
    run(body_repeats);
}

static void body_unreachable(void)
{
    struct error err;
    struct result r;
    auto_json row = json_pack("{s:s, s:s}", "requester", "openai-chat-completions", "base_url",
                              "http://127.0.0.1:1/v1");
    auto_json model = json_pack("{s:s}", "name", "m");
    struct provider *p = provider_of_row(row, &err);
    struct model *m = model_of_row(MODEL_LLM, model, p, &err);
    provider_unref(p);
    for (int stream = 0; stream < 2; stream++) {
        ask(m, (struct llm_request){0}, stream, &r);
        check(!r.ok && strstr(r.err.msg, "模型请求失败: 连接错误: ") == r.err.msg);
        check(strcmp(r.err.tag, "connection") == 0);
        done(&r);
    }
    model_unref(m);
    /* Silence: the peer gets the request and says nothing. */
    m = make_plain();
    script("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n", NULL,
           NULL);
    struct task_deadline d;
    task_deadline_push(&d, 10000);
    ask(m, (struct llm_request){.timeout_ms = 1}, true, &r);
    task_deadline_pop(&d);
    check(!r.ok && strstr(r.err.msg, "模型请求失败: "));
    done(&r);
    model_unref(m);
}

static void test_unreachable(void **state)
{
    run(body_unreachable);
}

/* ---- embeddings, rerank, scan ---------------------------------------------------------------- */

static void body_embed(void)
{
    struct model *m = make(MODEL_EMBEDDING, "openai-chat-completions", "e", "{\"dimensions\":3}");
    struct error err = {0};
    struct llm_usage usage;
    json_t *vectors;
    auto_json texts = json_pack("[s,s]", "a", "b");
    script(
        "{\"data\":[{\"embedding\":[1,2]},{\"embedding\":[3,4]}],\"usage\":{\"prompt_tokens\":3}}",
        NULL, NULL);
    check(embed_invoke(m, texts, NULL, &vectors, &usage, &err));
    check(json_array_size(vectors) == 2 && usage.input == 3 && usage.total == 3);
    check(strstr(t.body[0], "\"input\":[\"a\",\"b\"]") && strstr(t.body[0], "\"dimensions\":3"));
    json_decref(vectors);
    json_decref(usage.raw);
    script("{\"data\":[]}", NULL, NULL);
    check(!embed_invoke(m, texts, NULL, &vectors, &usage, &err) && !vectors);
    model_unref(m);
}

static void test_embed(void **state)
{
    run(body_embed);
}

static void body_rerank(void)
{
    struct model *m = make(MODEL_RERANK, "siliconflow-chat-completions", "openai/r",
                           "{\"rerank_path\":\"/own/rr/\"}");
    struct error err = {0};
    json_t *scores;
    auto_arena a = arena_new(1 << 16);
    auto_json docs = json_pack("[s,s,s]", "a", "b", "c");
    script("{\"results\":[{\"index\":2,\"relevance_score\":0.9},{\"index\":0,\"score\":0.1},"
           "{\"index\":1,\"relevance_score\":0.5},{\"index\":77,\"score\":5}]}",
           NULL, NULL);
    check(rerank_invoke(m, S("q"), docs, NULL, &scores, &err));
    check(json_real_value(json_array_get(scores, 0)) == 0 &&
          json_real_value(json_array_get(scores, 2)) == 1);
    check(strstr(t.peer.last, "POST /v1/own/rr ") && !strstr(t.body[0], "rerank_path"));
    check(strstr(t.body[0], "\"model\":\"openai/r\"") && strstr(t.body[0], "\"top_n\":3"));
    json_decref(scores);
    auto_json one = json_pack("[s]", "a");
    script("{\"results\":[{\"relevance_score\":0.4}]}", NULL, NULL);
    check(rerank_invoke(m, S("q"), one, NULL, &scores, &err));
    check_text(json_text(a, scores), "[0.4]");
    json_decref(scores);
    script(STATUS("400 No", "{\"error\":{\"message\":\"bad\"}}"), NULL, NULL);
    check(!rerank_invoke(m, S("q"), docs, NULL, &scores, &err));
    check_text(str_c(err.msg), "rerank 请求失败 (HTTP 400): bad");
    model_unref(m);
}

static void test_rerank(void **state)
{
    run(body_rerank);
}

static void body_scan(void)
{
    struct model *m = make(MODEL_LLM, "bailian-chat-completions", "x", NULL);
    struct error err = {0};
    auto_arena a = arena_new(1 << 16);
    script(
        "{\"data\":[{\"id\":\"zeta\"},{\"id\":\"text-embedding-3\"},{\"id\":\"\"},{\"id\":\"_x\","
        "\"context_length\":\"65536\",\"supports_vision\":true},{\"id\":\"Alpha\"},"
        "{\"id\":\"qwen3-zz\"},{\"id\":\"bge-reranker\"}]}",
        NULL, NULL);
    auto_json got = openai_scan(m->provider, "", &err);
    const json_t *list = json_object_get(got, "models");
    const char *order[] = {"_x", "Alpha", "qwen3-zz", "zeta", "bge-reranker", "text-embedding-3"};
    check(json_array_size(list) == 6);
    for (size_t i = 0; i < 6; i++)
        check_text(json_s(json_array_get(list, i), "id"), order[i]);
    const json_t *x = json_array_get(list, 0), *q = json_array_get(list, 2);
    check(json_i_or(x, "context_length", 0) == 65536);
    check_text(json_text(a, json_object_get(x, "abilities")), "[\"vision\"]");
    check(strstr(z_fmt(a, STR_FMT, STR_ARG(json_text(a, q))), "reasoning"));
    check_text(json_s(json_array_get(list, 4), "type"), "rerank");
    check(strcmp(t.auth[0], "Bearer sk-first") == 0);
    auto_json only = openai_scan(m->provider, "embedding", &err);
    check(json_array_size(json_object_get(only, "models")) == 1);

    script(STATUS("401 No", "{\"error\":\"sk-first\"}"), NULL, NULL);
    check(!openai_scan(m->provider, "", &err));
    check_text(str_c(err.msg), "Model scan failed: 401");
    script("[1,2]", NULL, NULL);
    check(!openai_scan(m->provider, "", &err));
    check(strncmp(err.msg, "Model scan error: ", 18) == 0);
    model_unref(m);
    m = make(MODEL_LLM, "qiniu-chat-completions", "x", NULL);
    script("{\"data\":[]}", NULL, NULL);
    auto_json known = openai_scan(m->provider, "", &err);
    check_text(json_s(json_array_get(json_object_get(known, "models"), 0), "id"), "deepseek-v3");
    model_unref(m);
}

static void test_scan(void **state)
{
    run(body_scan);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),   cmocka_unit_test(test_messages),
        cmocka_unit_test(test_tools),     cmocka_unit_test(test_call_fragments),
        cmocka_unit_test(test_reasoning), cmocka_unit_test(test_usage),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_errors),
        cmocka_unit_test(test_repeats),   cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_embed),     cmocka_unit_test(test_rerank),
        cmocka_unit_test(test_scan),      cmocka_unit_test(test_bursts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
