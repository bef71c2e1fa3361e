/* A streamed answer, OpenAI form (§6.3): events to deltas, deltas to the whole message. */
#include "model/model_private.h"

#include <stdio.h>

enum {
    EVENT_MAX = 10 * 1024 * 1024,
    TEXT_MAX = 16 * 1024 * 1024,
    CALLS_MAX = 128,
    MERGE_MAX = 8,      /* deltas handed on together, or … */
    MERGE_SHARE = 16,   /* … this part of what came before, once the answer is … */
    MERGE_LONG = 16384, /* … longer than this many bytes */
    WHOLE_FACTOR = 10,  /* a stream may last this many times the time limit of silence */
};

/* A tool call under way. Arguments come in small pieces, so they are collected here and not in
 * JSON. */
struct call_state {
    int64_t wire;             /* the index that the server gives it */
    json_t *id, *type, *name; /* strings or NULL */
    bool own_id;              /* the id is ours, as long as the server gives none */
    json_t *fields;
    struct buf arguments;
    size_t sent; /* bytes of the arguments that have gone out in fragments */
};

struct llm_stream {
    struct stream_head head;
    struct model *model;
    struct wire wire;
    struct http_stream *http;
    struct buf body; /* of the request */
    struct sse sse;
    struct quick quick;
    struct str in;   /* bytes read and not yet fed */
    struct buf out;  /* visible text of the delta under way */
    unsigned merged; /* events in it */
    struct buf text; /* all visible text */
    struct buf reasoning;
    struct think think;
    struct call_state *calls; /* as they began */
    size_t call_count;
    json_t *fragments;     /* of the delta under way */
    json_t *blocks;        /* Anthropic thinking blocks, merged; the open one's text is in … */
    struct buf block_text; /* … here */
    bool block_open;
    json_t *fields; /* other provider fields of the message */
    struct llm_usage usage;
    struct error *err; /* of the call under way: what fails in an event is told there */
    int64_t ends_us;
    char role[32];
    bool remove_think, think_open; /* a <think> has been shown and not yet closed */
    bool finish, finish_now;       /* a finish_reason has come; with the delta under way */
    bool marked_end;               /* [DONE] has come */
    bool waiting;                  /* a delta has been made by openai_open and not yet taken */
    bool done, failed, something;
};

static void out_of_memory(struct llm_stream *s)
{
    err_set(s->err, ERR_NOMEM, "out of memory");
    s->failed = true;
}

static void protocol(struct llm_stream *s, const char *text)
{
    err_set(s->err, ERR_PROTOCOL, "%s", text);
    wire_failed(&s->wire, s->err);
    s->failed = true;
}

static void too_large(struct llm_stream *s)
{
    err_set(s->err, ERR_TOO_LARGE, "more than %d bytes of text", TEXT_MAX);
    s->failed = true;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void show(struct llm_stream *s, struct str text)
{
    if (!buf_str(&s->out, text))
        too_large(s);
}

static void show_reasoning(struct llm_stream *s, struct str text)
{
    if (!s->think_open)
        show(s, S("<think>\n"));
    s->think_open = true;
    show(s, text);
}

static void close_think(struct llm_stream *s)
{
    if (s->think_open)
        show(s, S("\n</think>\n"));
    s->think_open = false;
}

static void on_reasoning(struct llm_stream *s, struct str text)
{
    if (text.n == 0)
        return;
    if (!buf_str(&s->reasoning, text))
        too_large(s);
    s->something = true;
    if (!s->remove_think)
        show_reasoning(s, text);
}

static void on_text(struct llm_stream *s, struct str text)
{
    if (text.n == 0)
        return;
    s->something = true;
    if (!s->remove_think) {
        close_think(s);
        show(s, text);
    } else if (!think_feed(&s->think, text, &s->out)) {
        too_large(s);
    }
}

static void on_content(struct llm_stream *s, const json_t *content)
{
    if (json_is_string(content))
        on_text(s, json_sv(content));
    for (size_t i = 0; i < json_array_size(content);
         i++) { /* a list of parts, as some servers send */
        const json_t *part = json_array_get(content, i);
        struct str type = json_s(part, "type");
        const json_t *thoughts = json_object_get(part, "thinking");
        if (str_eqz(type, "text"))
            on_text(s, json_s(part, "text"));
        else if (json_is_string(thoughts))
            on_reasoning(s, json_sv(thoughts));
        for (size_t k = 0; k < json_array_size(thoughts); k++)
            on_reasoning(s, json_s(json_array_get(thoughts, k), "text"));
    }
}

static void block_end(struct llm_stream *s)
{
    json_t *last = json_array_get(s->blocks, json_array_size(s->blocks) - 1);
    if (s->block_open)
        json_set(last, "thinking",
                 json_strn(s->block_text.n > 0 ? buf_view(&s->block_text) : S("")));
    s->block_open = false;
    buf_clear(&s->block_text);
}

/* Fragments of thinking blocks (§6.3.4): text goes to the open block, a signature ends it. */
static void on_blocks(struct llm_stream *s, const json_t *blocks, bool shown)
{
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *b = json_array_get(blocks, i);
        struct str text = json_s(b, "thinking"), signature = json_s(b, "signature");
        s->something = true;
        if (!s->blocks && !(s->blocks = json_array())) {
            out_of_memory(s);
            return;
        }
        if (str_eqz(json_s(b, "type"), "redacted_thinking")) {
            block_end(s);
            json_array_append_new(s->blocks, json_deep_copy(b));
            continue;
        }
        if (!s->block_open)
            json_array_append_new(s->blocks, json_pack("{s:s}", "type", "thinking"));
        s->block_open = true;
        if (!buf_str(&s->block_text, text))
            too_large(s);
        if (text.n > 0 && shown && !s->remove_think)
            show_reasoning(s, text);
        if (signature.n > 0) {
            json_t *last = json_array_get(s->blocks, json_array_size(s->blocks) - 1);
            block_end(s);
            json_set(last, "signature", json_strn(signature));
        }
    }
}

/* ---- tool calls ------------------------------------------------------------------------------ */

static struct call_state *call_new(struct llm_stream *s, int64_t wire)
{
    if (s->call_count == CALLS_MAX)
        return NULL;
    struct call_state *calls =
        mem_realloc(s->calls, (s->call_count + 1) * sizeof(struct call_state));
    if (!calls) {
        out_of_memory(s);
        return NULL;
    }
    s->calls = calls;
    s->calls[s->call_count] = (struct call_state){.wire = wire, .arguments = BUF(TEXT_MAX)};
    return &s->calls[s->call_count++];
}

/* The call that a fragment belongs to: by its id, else the latest of its index. A new id with a name begins a new call, also
 * where the server gives all calls one index; without a name it does not: there are servers that make one up for each
 * fragment. NULL: none (too many, or memory). */
static struct call_state *call_of(struct llm_stream *s, const json_t *fragment, size_t position)
{
    int64_t wire = json_i_or(fragment, "index", (int64_t)position);
    struct str id = json_s(fragment, "id");
    bool named = json_s(json_object_get(fragment, "function"), "name").n > 0;
    struct call_state *same = NULL;
    for (size_t i = 0; i < s->call_count; i++) {
        struct call_state *c = &s->calls[i];
        if (id.n > 0 && !c->own_id && str_eq(json_sv(c->id), id))
            return c;
        if (c->wire == wire)
            same = c;
    }
    if (same && (id.n == 0 || !named || !same->id || same->own_id))
        return same;
    return wire < 0 || wire >= CALLS_MAX ? NULL : call_new(s, wire);
}

static void calls_free(struct llm_stream *s)
{
    for (size_t i = 0; i < s->call_count; i++) {
        json_decref(s->calls[i].id);
        json_decref(s->calls[i].type);
        json_decref(s->calls[i].name);
        json_decref(s->calls[i].fields);
        buf_free(&s->calls[i].arguments);
    }
    mem_free(s->calls);
}

static void keep_text(json_t **slot, const json_t *value)
{
    if (json_sv(value).n == 0)
        return;
    json_decref(*slot);
    *slot = json_incref((json_t *)(uintptr_t)value);
}

static void merge_fields(struct call_state *c, const json_t *fields)
{
    if (!json_is_object(fields))
        return;
    if (!c->fields)
        c->fields = json_object();
    json_object_update(c->fields, (json_t *)(uintptr_t)fields);
}

static json_t *call_json(const struct call_state *c, struct str arguments)
{
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", c->id, "type",
                             c->type ? json_string_value(c->type) : "function", "function", "name",
                             c->name, "arguments", json_strn(arguments));
    if (call && c->fields)
        json_set(call, "provider_specific_fields", json_copy(c->fields));
    return call;
}

/* Goes out once the name is known; arguments that came before it wait. */
static void emit_fragment(struct llm_stream *s, size_t index, struct call_state *c)
{
    char id[32];
    if (!c->name)
        return;
    snprintf(id, sizeof(id), "call_%zu", index);
    if (!c->id) {
        c->id = json_string(id);
        c->own_id = true;
    }
    if (!s->fragments)
        s->fragments = json_array();
    struct str fresh = c->arguments.n > c->sent
                           ? str_n(c->arguments.p + c->sent, c->arguments.n - c->sent)
                           : S("");
    json_t *fragment = call_json(c, fresh);
    json_set(fragment, "index", json_integer((json_int_t)index));
    if (!fragment || json_array_append_new(s->fragments, fragment) != 0)
        out_of_memory(s);
    c->sent = c->arguments.n;
}

static void on_call(struct llm_stream *s, const json_t *call, size_t position)
{
    const json_t *function = json_object_get(call, "function");
    struct call_state *c = call_of(s, call, position);
    if (!c)
        return;
    s->something = true;
    if (json_s(call, "id").n > 0 && (!c->id || c->own_id)) {
        keep_text(&c->id, json_object_get(call, "id"));
        c->own_id = false;
    }
    keep_text(&c->type, json_object_get(call, "type"));
    keep_text(&c->name, json_object_get(function, "name"));
    merge_fields(c, json_object_get(call, "provider_specific_fields"));
    merge_fields(c, json_object_get(function, "provider_specific_fields"));
    const json_t *arguments = json_object_get(function, "arguments");
    bool ok = true;
    if (json_is_string(arguments))
        ok = buf_str(&c->arguments, json_sv(arguments));
    else if (arguments && !json_is_null(arguments)) /* some servers send the object itself */
        ok = json_put(&c->arguments, arguments);
    if (!ok)
        too_large(s);
    emit_fragment(s, (size_t)(c - s->calls), c);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_role(struct llm_stream *s, struct str role)
{
    if (role.n > 0 && role.n < sizeof(s->role)) {
        memcpy(s->role, role.p, role.n);
        s->role[role.n] = '\0';
    }
}

static void on_delta(struct llm_stream *s, const json_t *choice)
{
    const json_t *delta = json_object_get(choice, "delta");
    on_role(s, json_s(delta, "role"));
    struct str reasoning = json_s(delta, "reasoning_content");
    if (reasoning.n == 0)
        reasoning = json_s(delta, "reasoning");
    on_reasoning(s, reasoning);
    on_blocks(s, json_object_get(delta, "thinking_blocks"), reasoning.n == 0);
    on_content(s, json_object_get(delta, "content"));
    const json_t *calls = json_object_get(delta, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++)
        on_call(s, json_array_get(calls, i), i);
    const json_t *fields = json_object_get(delta, "provider_specific_fields");
    if (json_is_object(fields)) {
        if (!s->fields)
            s->fields = json_object();
        json_object_update(s->fields, (json_t *)(uintptr_t)fields);
    }
    if (json_s(choice, "finish_reason").n > 0) {
        s->finish = s->finish_now = true;
        close_think(s);
    }
}

/* False: it ends the stream with an error. Apart from the usual event: its frame is large. */
static bool __attribute__((noinline))
read_in_full(struct llm_stream *s, struct str event, struct str data)
{
    struct error why;
    auto_json chunk = json_parse_words(data, &why);
    if (!json_is_object(chunk)) {
        protocol(s, chunk ? "the stream holds something that is no object" : why.msg);
        return false;
    }
    const json_t *error = json_object_get(chunk, "error");
    if (json_is_object(error) || json_is_string(error) || str_eqz(event, "error")) {
        wire_refused(&s->wire, s->wire.status, data, s->err);
        s->failed = true;
        return false;
    }
    openai_usage(json_object_get(chunk, "usage"), &s->usage);
    const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    if (json_is_object(choice))
        on_delta(s, choice);
    return !s->failed;
}

/* What has come is handed on together, so that a burst costs few steps; an answer that comes at once is still seen to
 * grow. Each step costs its readers the whole text, so the steps of a long answer grow with it. */
static bool full_step(const struct llm_stream *s)
{
    return s->merged >= MERGE_MAX &&
           (s->text.n <= MERGE_LONG || s->out.n >= s->text.n / MERGE_SHARE);
}

/* An event of the stream; false when there is something to hand out, or nothing more to read. */
static bool on_event(void *arg, struct str event, struct str data)
{
    struct llm_stream *s = arg;
    struct quick_delta usual;
    data = str_trim(data);
    if (data.n == 0)
        return true;
    if (str_eq(data, S("[DONE]"))) {
        s->marked_end = true;
        return false;
    }
    if (!str_eqz(event, "error") && openai_quick(&s->quick, data, &usual)) {
        on_role(s, usual.role);
        on_text(s, usual.content);
    } else if (!read_in_full(s, event, data)) {
        return false;
    }
    if (s->out.n > 0)
        s->merged++;
    return !s->failed && !s->fragments && !s->finish_now && !full_step(s);
}

/* ---- opening --------------------------------------------------------------------------------- */

void openai_close(struct llm_stream *s)
{
    if (!s)
        return;
    if (s->marked_end)
        http_stream_finish(s->http); /* so that the connection can be used again */
    else
        http_stream_close(s->http);
    sse_free(&s->sse);
    openai_quick_free(&s->quick);
    think_free(&s->think);
    buf_free(&s->body);
    buf_free(&s->out);
    buf_free(&s->text);
    buf_free(&s->reasoning);
    buf_free(&s->block_text);
    calls_free(s);
    json_decref(s->fragments);
    json_decref(s->blocks);
    json_decref(s->fields);
    json_decref(s->usage.raw);
    arena_free(s->wire.arena);
    model_unref(s->model);
    mem_free(s);
}

/* A server that does not stream although it was asked to: its answer as the one event of a
 * stream. */
static bool whole_instead(struct llm_stream *s, struct error *err)
{
    struct str raw;
    struct http_stream *h = steal(s->http);
    struct llm_answer a = {0};
    if (!wire_body(&s->wire, h, WIRE_BODY_MAX, &raw, err))
        return wire_failed(&s->wire, err);
    auto_json body = json_parse_words(raw, err);
    if (!body) {
        err->code = ERR_PROTOCOL;
        return wire_failed(&s->wire, err);
    }
    if (json_object_get(body, "error") && !json_is_null(json_object_get(body, "error")))
        return wire_refused(&s->wire, s->wire.status, raw, err);
    if (!openai_answer(body, s->remove_think, &a, err))
        return wire_failed(&s->wire, err);
    buf_str(&s->out, json_s(a.message, "content"));
    const json_t *calls = json_object_get(a.message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++)
        on_call(s, json_array_get(calls, i), i);
    const json_t *fields = json_object_get(a.message, "provider_specific_fields");
    buf_str(&s->reasoning, json_s(fields, "reasoning_content"));
    s->fields = json_is_object(fields) ? json_copy((json_t *)(uintptr_t)fields) : NULL;
    s->usage = a.usage;
    a.usage.raw = NULL;
    llm_answer_free(&a);
    s->something = s->finish = s->finish_now = s->marked_end = s->waiting = true;
    if (s->failed)
        return false;
    return !s->out.failed || err_set(err, ERR_NOMEM, "out of memory");
}

static bool start(struct llm_stream *s, const struct llm_request *req, struct error *err)
{
    struct wire *w = &s->wire;
    w->url = wire_url(w->arena, w->provider, "chat/completions", err);
    if (!w->url || !openai_body(s->model, req, true, &s->body, &w->extra_headers, err))
        return wire_failed(w, err);
    w->body = buf_view(&s->body);
    s->http = wire_open(w, err);
    if (!s->http)
        return false;
    struct str type = http_stream_header(s->http, "Content-Type");
    return !str_istarts(type, S("application/json")) || whole_instead(s, err);
}

/* What the request was made of is not needed while the answer comes, which may take long. */
static void forget_request(struct llm_stream *s)
{
    struct arena *fresh = arena_new(WIRE_BODY_MAX);
    if (s->http && http_stream_sent(s->http)) {
        buf_free(&s->body);
        s->wire.body = S("");
    }
    if (fresh) {
        arena_free(s->wire.arena);
        s->wire.arena = fresh;
        s->wire.url = NULL;
    }
}

struct llm_stream *openai_open(struct model *m, const struct llm_request *req, struct error *err)
{
    struct llm_stream *s = new (struct llm_stream);
    struct arena *a = s ? arena_new(WIRE_BODY_MAX * 2) : NULL;
    if (!a) {
        mem_free(s);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    int timeout = req->timeout_ms > 0 ? req->timeout_ms : WIRE_TIMEOUT_MS;
    int64_t now = time_mono_us();
    model_ref(m);
    *s = (struct llm_stream){
        .head = {&requester_openai},
        .model = m,
        .remove_think = req->remove_think,
        .err = err,
        .role = "assistant",
        .body = BUF(64 * 1024 * 1024),
        .out = BUF(TEXT_MAX),
        .text = BUF(TEXT_MAX),
        .reasoning = BUF(TEXT_MAX),
        .block_text = BUF(TEXT_MAX),
        .ends_us = now + (int64_t)timeout * 1000 * WHOLE_FACTOR,
        .wire = {.provider = m->provider,
                 .method = "POST",
                 .accept = "text/event-stream",
                 .trickles = true,
                 .timeout_ms = timeout,
                 .until_us = now + (int64_t)timeout * 1000,
                 .body = S(""),
                 .arena = a},
    };
    sse_init(&s->sse, EVENT_MAX);
    openai_quick_init(&s->quick);
    think_init(&s->think, m->orphan_close ? THINK_HOLD_LONG : THINK_HOLD);
    if (!start(s, req, err)) {
        openai_close(s);
        return NULL;
    }
    forget_request(s);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The stream has ended: cleanly, or it says so itself. */
static bool end(struct llm_stream *s, struct error *err)
{
    if (!s->marked_end && !s->finish && s->something) {
        err_set(err, ERR_UPSTREAM, "the answer ended in the middle");
        return wire_failed(&s->wire, err);
    }
    close_think(s);
    if (s->remove_think && !think_end(&s->think, &s->out))
        return err_set(err, ERR_NOMEM, "out of memory");
    if (s->think.orphan)
        s->model->orphan_close = true;
    s->done = true;
    return true;
}

/* More bytes, or the end. */
static bool read_more(struct llm_stream *s, bool *ended, struct error *err)
{
    int64_t left = (s->ends_us - time_mono_us()) / 1000;
    struct task_deadline d;
    task_deadline_push(&d, left > 0 ? left : 0);
    bool ok = http_stream_read(s->http, &s->in, err);
    task_deadline_pop(&d);
    if (!ok)
        return wire_failed(&s->wire, err);
    *ended = s->in.n == 0;
    if (*ended && !sse_end(&s->sse, on_event, s, err))
        return wire_failed(&s->wire, err);
    return true;
}

bool openai_next(struct llm_stream *s, struct llm_delta *d, struct error *err)
{
    bool ended = false;
    *d = (struct llm_delta){0};
    if (s->failed)
        return err_set(err, ERR_INTERNAL, "the stream has failed");
    s->err = err;
    if (!s->waiting) {
        buf_clear(&s->out);
        json_decref(s->fragments);
        s->fragments = NULL;
        s->finish_now = false;
        s->merged = 0;
    }
    s->waiting = false;
    while (!s->failed && !s->marked_end && !ended && s->out.n == 0 && !s->fragments &&
           !s->finish_now) {
        if (s->in.n > 0) {
            if (!sse_feed(&s->sse, &s->in, on_event, s, err))
                return wire_failed(&s->wire, err);
        } else if (!read_more(s, &ended, err)) {
            return false;
        }
    }
    if (s->failed)
        return wire_failed(&s->wire, err);
    if ((s->marked_end || ended) && !s->done && !end(s, err))
        return false;
    d->text = s->out.n > 0 ? buf_view(&s->out) : S("");
    d->events = s->merged;
    d->tool_calls = s->fragments;
    d->finish = s->finish_now;
    d->done = s->done;
    if (!buf_str(&s->text, d->text)) {
        too_large(s);
        return wire_failed(&s->wire, err);
    }
    d->whole = s->text.n > 0 ? buf_view(&s->text) : S("");
    return true;
}

/* ---- the whole message ----------------------------------------------------------------------- */

static json_t *whole_calls(const struct llm_stream *s)
{
    json_t *out = json_array();
    for (size_t i = 0; i < s->call_count; i++) {
        const struct call_state *c = &s->calls[i];
        if (c->name)
            json_array_append_new(
                out, call_json(c, c->arguments.n > 0 ? buf_view(&c->arguments) : S("")));
    }
    return out;
}

bool openai_stream_answer(struct llm_stream *s, struct llm_answer *out, struct error *err)
{
    *out = (struct llm_answer){0};
    if (!s->done)
        return err_set(err, ERR_INTERNAL, "the stream has not ended");
    block_end(s);
    struct str text = s->text.n > 0 ? buf_view(&s->text) : S("");
    if (s->think.late) /* what was shown in good faith was a thought */
        text = str_trim(str_sub(text, s->think.late_at, text.n));
    json_t *m = json_pack("{s:s, s:o}", "role", s->role, "content", json_strn(text));
    auto_json calls = whole_calls(s);
    auto_json fields = s->fields ? json_copy(s->fields) : json_object();
    if (s->reasoning.n > 0)
        json_set(fields, "reasoning_content", json_strn(buf_view(&s->reasoning)));
    if (json_array_size(s->blocks) > 0)
        json_object_set(fields, "thinking_blocks", s->blocks);
    if (json_array_size(calls) > 0)
        json_object_set(m, "tool_calls", calls);
    if (json_object_size(fields) > 0)
        json_object_set(m, "provider_specific_fields", fields);
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory");
    out->message = m;
    out->usage = s->usage;
    s->usage.raw = NULL;
    return true;
}
