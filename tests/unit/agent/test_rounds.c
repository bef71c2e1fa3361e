/* Rounds of tool calls of the local agent, with models and a source of tools by script. providers.md §18.11, §21. */
#include "agent/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a source by script ------------------------------------------------------------------------------------------------ */

static struct {
    char names[160][32];
    char arguments[160][256];
    size_t n;
} ran;

static bool list(void *own, struct catalogue *c, const struct tool_ask *ask, struct error *err)
{
    static const char *const tools[] = {"look_up", "add",   "nothing", "fails",
                                        "parts",   "stops", "exec"};
    extern const struct tool_source source;
    for (size_t i = 0; i < array_len(tools); i++) {
        struct tool t = {
            .source = &source, .name = tools[i], .description = "d", .owner_name = "script"};
        if (!catalogue_add(c, &t))
            return err_set(err, ERR_NOMEM, "out of memory");
    }
    return true;
}

static json_t *call(void *own, const struct tool_call *c, struct error *err)
{
    const char *name = c->tool->name;
    char *text = json_dump_z(c->arguments, JSON_COMPACT);
    snprintf(ran.names[ran.n], sizeof ran.names[0], "%s", name);
    snprintf(ran.arguments[ran.n], sizeof ran.arguments[0], "%s", text);
    ran.n++;
    mem_free(text);
    if (strcmp(name, "fails") == 0)
        err_set(err, ERR_INTERNAL, "the disk is full");
    else if (strcmp(name, "stops") == 0)
        err_set(err, ERR_CANCELED, "stopped");
    else if (strcmp(name, "parts") == 0)
        return json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "type", "text", "text", "first", "type",
                         "image_base64", "image_base64", "x", "type", "text", "text", "second");
    else if (strcmp(name, "add") == 0)
        return json_integer(json_i_or(c->arguments, "a", 0) + json_i_or(c->arguments, "b", 0));
    else
        return json_pack("{s:b,s:O}", "ok", 1, "got", c->arguments);
    return NULL;
}

const struct tool_source source = {.name = "mcp", .shown = "mcp", .list = list, .call = call};
const struct tool_source *const tool_sources[] = {&source, NULL};

/* ---- messages of the model ---------------------------------------------------------------------------------------------- */

/* "name:arguments|name:arguments" as the calls of one message. */
static json_t *calls(const char *text, const char *spec)
{
    json_t *list_ = json_array();
    struct str rest = str_c(spec), one;
    for (int i = 1; str_split(&rest, '|', &one); i++) {
        ptrdiff_t colon = str_chr(one, ':');
        char id[16];
        snprintf(id, sizeof id, "c%d", i);
        json_array_append_new(
            list_, json_pack("{s:s,s:s,s:{s:o,s:o}}", "id", id, "type", "function", "function",
                             "name", json_strn(str_sub(one, 0, (size_t)colon)), "arguments",
                             json_strn(str_sub(one, (size_t)colon + 1, one.n))));
    }
    return json_pack("{s:s,s:s,s:o}", "role", "assistant", "content", text, "tool_calls", list_);
}

static const char *spec; /* the calls of the first message */

static json_t *once(struct model *m, int n)
{
    return n == 1 ? calls("One moment.", spec) : NULL;
}

static json_t *for_ever(struct model *m, int n)
{
    return calls("", "add:{\"a\":1,\"b\":1}");
}

static json_t *then_fails(struct model *m, int n)
{
    return n == 1 ? calls("", spec) : json_null();
}

/* ---- a run --------------------------------------------------------------------------------------------------------------- */

struct seen {
    json_t *out; /* messages handed out */
    bool final[600], chunk[600];
    int64_t sequence[600];
    size_t n, begun, ended, failed, model_calls;
    char told[2048]; /* names, arguments, results of ended calls */
};

static bool emit(void *arg, const struct agent_output *o, struct error *err)
{
    struct seen *s = arg;
    json_array_append_new(s->out, json_deep_copy(o->message));
    s->final[s->n] = o->is_final;
    s->chunk[s->n] = o->is_chunk;
    s->sequence[s->n++] = o->sequence;
    return true;
}

static void on_call(void *arg, const struct model *m, int64_t ms, const struct llm_usage *u,
                    const struct error *err)
{
    ((struct seen *)arg)->model_calls++;
}

static void on_tool(void *arg, const struct agent_tool *t)
{
    struct seen *s = arg;
    if (!t->ended) {
        s->begun++;
        return;
    }
    s->ended++;
    s->failed += t->err != NULL;
    size_t n = strlen(s->told);
    snprintf(s->told + n, sizeof s->told - n, "%s " STR_FMT "(" STR_FMT ")=" STR_FMT " %s\n", t->id,
             STR_ARG(t->name), STR_ARG(t->arguments), STR_ARG(t->result),
             t->source ? t->source : "-");
}

#define CONFIG(more) "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"fast\"}" more "}}}"

struct setup {
    const char *config;
    bool stream, without_list, without_tools;
};

static bool go(const struct setup *c, struct seen *s, struct error *err)
{
    struct error bad = {0};
    auto_arena a = arena_new(4 << 20);
    auto_json config = json_parse(str_c(c->config ? c->config : CONFIG("")), &bad);
    auto_json vars = json_object();
    auto_json none = json_array();
    auto_json user = llm_message("user", S("go"));
    struct tools *tools = tools_new(&(struct tools_opts){0}, &bad);
    struct query q = {.arena = a,
                      .config = config,
                      .variables = vars,
                      .prompt = none,
                      .messages = none,
                      .user_message = user,
                      .pipeline_uuid = "p",
                      .launcher_id = "ann"};
    struct agent_run r = {.query = &q,
                          .tools = c->without_tools ? NULL : tools,
                          .ask = {.query = &q},
                          .stream = c->stream,
                          .emit = emit,
                          .on_call = on_call,
                          .on_tool = on_tool,
                          .arg = s,
                          .max_chars = 1000,
                          .max_chunks = 1000};
    if (!c->without_list && !c->without_tools)
        r.catalogue = catalogue_new(tools, &r.ask, a, &bad);
    *s = (struct seen){.out = json_array()};
    ran.n = 0;
    *err = (struct error){0};
    bool ok = runner_find("local-agent")->run(&r, err);
    assert_int_equal(fast.refs + slow.refs, 0);
    tools_free(tools);
    return ok;
}

static void end(struct seen *s)
{
    json_decref(s->out);
}

static int reset(void **state)
{
    models_reset();
    fast = (struct model){.uuid = "fast",
                          .pieces = {"Do", "ne"},
                          .fail_at = -1,
                          .answer = "Done",
                          .script = once,
                          .calls = true};
    slow = fast;
    slow.uuid = "slow";
    slow.script = NULL;
    return 0;
}

/* Content of message i (from the end: negative) of the last request. */
static const char *asked(int i)
{
    size_t n = json_array_size(fast.messages);
    const json_t *m = json_array_get(fast.messages, i < 0 ? n - (size_t)-i : (size_t)i);
    return json_z_or(m, "content", "(none)");
}

static void result_goes_back(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s;
        struct error err;
        reset(NULL);
        spec = "look_up:{\"key\":\"a\"}";
        assert_true(go(&(struct setup){.stream = stream}, &s, &err));
        assert_int_equal(ran.n, 1);
        assert_string_equal(ran.arguments[0], "{\"key\":\"a\"}");
        assert_string_equal(asked(-1), "{\"ok\":true,\"got\":{\"key\":\"a\"}}");
        const json_t *tool = json_array_get(fast.messages, 2),
                     *back = json_array_get(fast.messages, 1);
        assert_string_equal(json_z(tool, "role"), "tool");
        assert_string_equal(json_z(tool, "tool_call_id"), "c1");
        assert_string_equal(json_z(back, "content"), "One moment.");
        assert_int_equal(json_array_size(json_object_get(back, "tool_calls")), 1);
        assert_int_equal(json_array_size(fast.tools), 7);
        assert_int_equal(s.model_calls, 2);
        /* words, tool message, answer */
        size_t i, tools_seen = 0;
        json_t *m;
        json_array_foreach (s.out, i, m)
            tools_seen += strcmp(json_z(m, "role"), "tool") == 0;
        assert_int_equal(tools_seen, 1);
        assert_string_equal(json_z(json_array_get(s.out, s.n - 1), "content"), "Done");
        assert_true(s.final[s.n - 1]);
        for (i = 1; i < s.n; i++) {
            assert_true(s.sequence[i] >= s.sequence[i - 1]);
            assert_int_equal(s.chunk[i], stream);
        }
        assert_int_equal(s.begun, 1);
        assert_string_equal(
            s.told, "c1 look_up({\"key\":\"a\"})={\"ok\":true,\"got\":{\"key\":\"a\"}} mcp\n");
        end(&s);
    }
}

static void calls_run_in_order(void **state)
{
    struct seen s;
    struct error err;
    spec = "look_up:{\"k\":1}|add:{\"a\":2,\"b\":3}|parts:";
    assert_true(go(&(struct setup){.stream = true}, &s, &err));
    assert_int_equal(ran.n, 3);
    assert_string_equal(ran.names[0], "look_up");
    assert_string_equal(ran.names[1], "add");
    assert_string_equal(ran.names[2], "parts");
    assert_string_equal(asked(-2), "5");
    assert_string_equal(asked(-1), "first\n[Image](base64)\nsecond");
    end(&s);
}

static void failures_are_results(void **state)
{
    struct seen s;
    struct error err;
    spec = "fails:{}|nope:{}|look_up:{\"k\"|add:[1]|add:7|add:{\"a\":1} x|add:{\"a\":1,\"b\":2}";
    assert_true(go(&(struct setup){.stream = true}, &s, &err));
    assert_string_equal(asked(-7), "err: the disk is full");
    assert_string_equal(asked(-6), "err: Tool not found: nope");
    assert_int_equal(strncmp(asked(-5), "err: the arguments are not valid", 32), 0);
    assert_string_equal(asked(-4), "err: the arguments must be a JSON object");
    assert_string_equal(asked(-3), "err: the arguments must be a JSON object");
    assert_int_equal(strncmp(asked(-2), "err: ", 5), 0);
    assert_string_equal(asked(-1), "3");
    assert_int_equal(ran.n, 2);
    assert_int_equal(s.ended, 7);
    assert_int_equal(s.failed, 6);
    assert_non_null(strstr(s.told, "c2 nope({})=err: Tool not found: nope -\n"));
    assert_non_null(strstr(s.told, "c3 look_up({\"k\")=err: "));
    end(&s);
}

static void no_arguments(void **state)
{
    static const char *const none[] = {"nothing:", "nothing:{}", "nothing:  {} \n", "nothing:null"};
    for (size_t i = 0; i < array_len(none); i++) {
        struct seen s;
        struct error err;
        reset(NULL);
        spec = none[i];
        assert_true(go(&(struct setup){0}, &s, &err));
        assert_string_equal(ran.arguments[0], "{}");
        end(&s);
    }
}

static void cap_of_rounds(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s;
        struct error err;
        reset(NULL);
        fast.script = for_ever;
        assert_true(go(&(struct setup){.stream = stream}, &s, &err));
        assert_int_equal(ran.n, 128);
        assert_int_equal(s.model_calls, 129);
        const json_t *last = json_array_get(s.out, s.n - 1);
        assert_non_null(json_object_get(last, "tool_calls")); /* nothing is said behind it */
        end(&s);
    }
}

static void failing_model_fails_the_turn(void **state)
{
    struct seen s;
    struct error err;
    spec = "add:{}";
    fast.script = then_fails;
    assert_false(go(&(struct setup){.config = "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":"
                                              "\"fast\",\"fallbacks\":[\"slow\"]}}}}"},
                    &s, &err));
    assert_string_equal(err.msg, "fast is down");
    assert_int_equal(slow.invoked, 0);
    assert_int_equal(ran.n, 1);
    end(&s);
}

static void cancel_ends_the_run(void **state)
{
    struct seen s;
    struct error err;
    spec = "stops:{}|add:{}";
    assert_false(go(&(struct setup){.stream = true}, &s, &err));
    assert_int_equal(err.code, ERR_CANCELED);
    assert_int_equal(ran.n, 1);
    assert_int_equal(fast.opened, 1);
    end(&s);
}

static void only_able_models_are_offered_tools(void **state)
{
    struct seen s;
    struct error err;
    fast.script = NULL;
    fast.calls = false;
    assert_true(go(&(struct setup){0}, &s, &err));
    assert_null(fast.tools);
    end(&s);
}

static void policy(void **state)
{
    struct seen s;
    struct error err;
    spec = "add:{\"a\":1}|look_up:{}";
    assert_true(go(&(struct setup){.config = CONFIG(",\"denied-tools\":[\"add\"]")}, &s, &err));
    assert_int_equal(json_array_size(fast.tools), 6);
    assert_string_equal(asked(-2), "err: The tool add is not allowed here.");
    assert_int_equal(ran.n, 1);
    end(&s);
    reset(NULL);
    assert_true(go(&(struct setup){.config = CONFIG(",\"enable-all-tools\":false,\"tools\":"
                                                    "[\"add\",\"none\"]")},
                   &s, &err));
    assert_int_equal(json_array_size(fast.tools), 1);
    assert_string_equal(asked(-1), "err: The tool look_up is not allowed here.");
    end(&s);
    reset(NULL);
    assert_true(
        go(&(struct setup){.config = CONFIG(",\"enable-all-tools\":false,\"tools\":\"add\"")}, &s,
           &err));
    assert_int_equal(json_array_size(fast.tools), 0);
    assert_int_equal(ran.n, 0);
    end(&s);
}

static void calls_without_a_list(void **state)
{
    struct seen s;
    struct error err;
    spec = "add:{\"a\":1,\"b\":1}";
    assert_true(go(&(struct setup){.without_list = true}, &s, &err));
    assert_string_equal(asked(-1), "2");
    assert_null(fast.tools);
    end(&s);
    reset(NULL);
    assert_true(go(&(struct setup){.without_tools = true}, &s, &err));
    assert_string_equal(asked(-1), "err: Tool not found: add");
    end(&s);
}

/* Values of the environment are for the sandbox alone. */
static void environment_is_masked(void **state)
{
    struct seen s;
    struct error err;
    spec = "exec:{\"command\":\"x\",\"env\":{\"KEY\":\"secret\"}}";
    assert_true(go(&(struct setup){0}, &s, &err));
    assert_non_null(strstr(ran.arguments[0], "secret"));
    assert_non_null(strstr(s.told, "{\"command\":\"x\",\"env\":{\"KEY\":\"***\"}}"));
    end(&s);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
#define T(f) cmocka_unit_test_setup_teardown(f, reset, reset)
    const struct CMUnitTest tests[] = {
        T(result_goes_back),
        T(calls_run_in_order),
        T(failures_are_results),
        T(no_arguments),
        T(cap_of_rounds),
        T(failing_model_fails_the_turn),
        T(cancel_ends_the_run),
        T(only_able_models_are_offered_tools),
        T(policy),
        T(calls_without_a_list),
        T(environment_is_masked),
    };
    return cmocka_run_group_tests_name("agent/rounds", tests, NULL, NULL);
}
