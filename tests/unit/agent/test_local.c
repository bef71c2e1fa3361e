/* The local agent with models that answer by script: candidates, fallback, streams, limits. providers.md §18. */
#include "agent/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a run ------------------------------------------------------------------------------------------------------------ */

struct seen {
    char text[64][256];
    bool chunk[64], final[64];
    int64_t sequence[64];
    size_t n, calls, failed_calls, bytes;
    char called[8][16];
    size_t stop_at; /* emit fails at this output (from 1) */
};

static bool emit(void *arg, const struct agent_output *o, struct error *err)
{
    struct seen *s = arg;
    struct str text = json_s(o->message, "content");
    s->bytes += text.n;
    if (s->n < array_len(s->text)) {
        snprintf(s->text[s->n], sizeof s->text[0], STR_FMT, (int)(text.n < 200 ? text.n : 200),
                 text.p);
        s->chunk[s->n] = o->is_chunk;
        s->final[s->n] = o->is_final;
        s->sequence[s->n] = o->sequence;
    }
    s->n++;
    return s->n != s->stop_at || err_set(err, ERR_CLOSED, "downstream");
}

static void on_call(void *arg, const struct model *m, int64_t ms, const struct llm_usage *u,
                    const struct error *err)
{
    struct seen *s = arg;
    snprintf(s->called[s->calls % 8], sizeof s->called[0], "%s", model_name(m));
    s->calls++;
    s->failed_calls += err != NULL;
    assert_true(!err == !!u);
}

struct setup {
    const char *config, *fallbacks;
    bool stream;
    int64_t max_chars, max_chunks;
};

static bool go(const struct setup *c, struct seen *s, struct error *err)
{
    struct error bad = {0};
    auto_arena a = arena_new(1 << 20);
    auto_json config = json_parse(str_c(c->config), &bad);
    auto_json vars = c->fallbacks ? json_pack("{s:o}", "_fallback_model_uuids",
                                              json_parse(str_c(c->fallbacks), &bad))
                                  : json_object();
    auto_json prompt = json_pack("[{s:s,s:s}]", "role", "system", "content", "be brief");
    auto_json history = json_pack("[{s:s,s:s}]", "role", "user", "content", "before");
    auto_json user =
        json_pack("{s:s,s:[{s:s,s:s}]}", "role", "user", "content", "type", "text", "text", "now");
    struct query q = {.arena = a,
                      .config = config,
                      .variables = vars,
                      .prompt = prompt,
                      .messages = history,
                      .user_message = user};
    struct agent_run r = {.query = &q,
                          .stream = c->stream,
                          .emit = emit,
                          .on_call = on_call,
                          .arg = s,
                          .max_chars = c->max_chars ? c->max_chars : 1000,
                          .max_chunks = c->max_chunks ? c->max_chunks : 1000};
    *err = (struct error){0};
    long live = mem_live();
    bool ok = runner_find("local-agent")->run(&r, err);
    json_t *kept = fast.messages;
    (void)kept;
    assert_int_equal(fast.refs + slow.refs + third.refs, 0);
    assert_true(mem_live() - live < 200); /* only what the models noted */
    return ok;
}

#define ONE \
    "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"fast\",\"reasoning\":{\"fast\":\"high\"}}}}}"
#define THINK \
    "{\"ai\":{\"local-agent\":{\"model\":\"fast\"}},\"output\":{\"misc\":{\"remove-think\":true}}}"

static int reset(void **state)
{
    models_reset();
    fast =
        (struct model){.uuid = "fast", .pieces = {"Hel", "lo"}, .fail_at = -1, .answer = "Hello"};
    slow =
        (struct model){.uuid = "slow", .pieces = {"Slow", "ly"}, .fail_at = -1, .answer = "Slowly"};
    third = (struct model){.uuid = "third", .pieces = {"3"}, .fail_at = -1, .answer = "3"};
    return 0;
}

static void whole_answer(void **state)
{
    struct seen s = {0};
    struct error err;
    assert_true(go(&(struct setup){.config = ONE}, &s, &err));
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "Hello");
    assert_true(!s.chunk[0] && s.final[0]);
    assert_int_equal(s.calls, 1);
    assert_string_equal(fast.level, "high");
    assert_false(fast.remove_think);
    assert_int_equal(json_array_size(fast.messages), 3);
    assert_string_equal(json_z(json_array_get(fast.messages, 0), "role"), "system");
    assert_string_equal(json_z(json_array_get(fast.messages, 1), "content"), "before");
    assert_true(json_is_array(json_object_get(json_array_get(fast.messages, 2), "content")));
}

static void think_setting(void **state)
{
    struct seen s = {0};
    struct error err;
    assert_true(go(&(struct setup){.config = THINK}, &s,
                   &err)); /* a plain uuid is an old form of the setting */
    assert_true(fast.remove_think);
    assert_string_equal(fast.level, "provider_default");
    assert_true(go(&(struct setup){.config = THINK, .stream = true}, &s, &err));
    assert_true(fast.remove_think);
}

static void streamed(void **state)
{
    struct seen s = {0};
    struct error err;
    assert_true(go(&(struct setup){.config = ONE, .stream = true}, &s, &err));
    assert_int_equal(s.n, 3);
    assert_string_equal(s.text[0], "Hel");
    assert_string_equal(s.text[1], "Hello");
    assert_string_equal(s.text[2], "Hello");
    for (size_t i = 0; i < 3; i++) {
        assert_true(s.chunk[i]);
        assert_int_equal(s.sequence[i], i + 1);
        assert_int_equal(s.final[i], i == 2);
    }
    assert_string_equal(fast.level, "high");
    assert_int_equal(fast.invoked, 0);
}

static void empty_stream(void **state)
{
    struct seen s = {0};
    struct error err;
    fast.pieces[0] = NULL;
    assert_true(
        go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = true}, &s, &err));
    assert_int_equal(s.n, 1);
    assert_true(s.final[0]);
    assert_string_equal(s.text[0], "");
    assert_int_equal(slow.opened, 0);
}

static void fallback(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s = {0};
        struct error err;
        fast.answer = NULL;
        fast.fail_at = 0;
        assert_true(go(&(struct setup){.config = ONE,
                                       .fallbacks = "[\"gone\",\"slow\",\"third\"]",
                                       .stream = stream},
                       &s, &err));
        assert_string_equal(s.text[s.n - 1], "Slowly");
        assert_int_equal(s.calls, 2);
        assert_int_equal(s.failed_calls, 1);
        assert_string_equal(s.called[1], "slow");
        assert_string_equal(slow.level, "provider_default");
        assert_int_equal(third.opened + third.invoked, 0);
    }
}

static void all_fail(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s = {0};
        struct error err;
        fast.answer = slow.answer = NULL;
        fast.fail_at = slow.fail_at = 0;
        assert_false(go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = stream},
                        &s, &err));
        assert_string_equal(err.msg, "slow is down"); /* the last error counts */
        assert_int_equal(s.n, 0);
        assert_int_equal(s.failed_calls, 2);
    }
}

/* Once words have come there is no way back to another model. */
static void broken_stream(void **state)
{
    struct seen s = {0};
    struct error err;
    fast.fail_at = 2;
    assert_false(
        go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = true}, &s, &err));
    assert_string_equal(err.msg, "fast broke off");
    assert_int_equal(s.n, 1);
    assert_int_equal(slow.opened, 0);
    /* before the first word there is */
    reset(NULL);
    s = (struct seen){0};
    fast.fail_at = 1;
    assert_true(
        go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = true}, &s, &err));
    assert_string_equal(s.text[s.n - 1], "Slowly");
}

static void canceled(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s = {0};
        struct error err;
        fast.answer = NULL;
        fast.fail_at = 0;
        fast.code = ERR_CANCELED;
        assert_false(go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = stream},
                        &s, &err));
        assert_int_equal(err.code, ERR_CANCELED);
        assert_int_equal(slow.invoked + slow.opened, 0);
    }
}

static void no_model(void **state)
{
    struct seen s = {0};
    struct error err;
    assert_false(go(&(struct setup){.config = "{}"}, &s, &err));
    assert_string_equal(err.msg, "No LLM model configured for local-agent runner");
    assert_false(go(
        &(struct setup){.config = "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"gone\"}}}}"},
        &s, &err));
    assert_true(go(
        &(struct setup){.config = "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"gone\"}}}}",
                        .fallbacks = "[\"slow\"]"},
        &s, &err));
    assert_string_equal(s.text[s.n - 1], "Slowly");
}

static void size_limits(void **state)
{
    struct error err;
    for (int stream = 0; stream < 2; stream++) {
        struct seen s = {0};
        assert_false(
            go(&(struct setup){.config = ONE, .stream = stream, .max_chars = 4}, &s, &err));
        assert_int_equal(err.code, ERR_TOO_LARGE);
        assert_non_null(strstr(err.msg, "Provider response exceeds the configured limit"));
        assert_true(go(&(struct setup){.config = ONE, .stream = stream, .max_chars = 5}, &s, &err));
    }
    struct seen s = {0};
    assert_false(go(&(struct setup){.config = ONE, .stream = true, .max_chunks = 1}, &s, &err));
    assert_non_null(strstr(err.msg, "Provider stream exceeds the configured event limit"));
    assert_true(
        go(&(struct setup){.config = ONE, .stream = true, .max_chars = INT64_MAX / 2}, &s, &err));
}

static void downstream(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        struct seen s = {.stop_at = 1};
        struct error err;
        assert_false(go(&(struct setup){.config = ONE, .fallbacks = "[\"slow\"]", .stream = stream},
                        &s, &err));
        assert_int_equal(err.code, ERR_CLOSED);
        assert_int_equal(s.n, 1);
        assert_int_equal(slow.invoked + slow.opened, 0);
    }
}

/* Snapshots of a long answer keep their distance, but none is held until another delta comes. */
static int say_much(void *arg)
{
    enum { LONG = 40000 };
    struct seen *s = arg;
    struct error err;
    char *text = mem_alloc(LONG + 1);
    memset(text, 'x', LONG);
    memcpy(fast.pieces, (const char *[]){text, "a", "b", NULL}, 4 * sizeof(char *));
    int64_t began = time_mono_us();
    bool ok = go(&(struct setup){.config = ONE, .stream = true, .max_chars = 2 * LONG}, s, &err);
    int64_t took = time_mono_us() - began;
    mem_free(text);
    return ok && s->n == 4 && s->bytes == 4 * LONG + 1 + 2 + 2 && took >= 100000 ? 0 : 1;
}

static void long_answer(void **state)
{
    struct seen s = {0};
    assert_int_equal(task_run(say_much, &s), 0);
}

static void names(void **state)
{
    assert_null(runner_find("no-such-runner"));
    assert_string_equal(runner_find("local-agent")->name, "local-agent");
}

static void without_memory(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        bool ok = false;
        for (long n = 1; !ok && n < 300; n++) {
            struct seen s = {0};
            struct error err = {0}, bad = {0};
            auto_arena a = arena_new(1 << 20);
            auto_json config = json_parse(S(ONE), &bad);
            auto_json vars = json_object();
            auto_json list = json_array();
            auto_json user = llm_message("user", S("now"));
            struct query q = {.arena = a,
                              .config = config,
                              .variables = vars,
                              .prompt = list,
                              .messages = list,
                              .user_message = user};
            struct agent_run r = {.query = &q,
                                  .stream = stream,
                                  .emit = emit,
                                  .arg = &s,
                                  .max_chars = 100,
                                  .max_chunks = 100};
            reset(NULL);
            slow.uuid = NULL;
            fast.answer = NULL; /* the model's own allocations are not the subject: */
            fast.fail_at = 0;   /* up to its call */
            long live = mem_live();
            mem_fail_after(n, false);
            ok = runner_find("local-agent")->run(&r, &err);
            mem_fail_after(0, false);
            assert_false(ok);
            assert_true(err.code == ERR_NOMEM || err.code == ERR_UPSTREAM);
            ok = err.code == ERR_UPSTREAM;
            json_decref(fast.messages);
            fast.messages = NULL;
            assert_int_equal(mem_live(), live);
        }
        assert_true(ok);
    }
}

static int finish(void **state)
{
    return reset(state);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
#define T(f) cmocka_unit_test_setup_teardown(f, reset, finish)
    const struct CMUnitTest tests[] = {
        T(whole_answer), T(think_setting), T(streamed), T(empty_stream),   T(fallback),
        T(all_fail),     T(broken_stream), T(canceled), T(no_model),       T(size_limits),
        T(downstream),   T(long_answer),   T(names),    T(without_memory),
    };
    return cmocka_run_group_tests_name("agent/local", tests, NULL, NULL);
}
