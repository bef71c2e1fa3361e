/* One request to a provider. The first attempt always uses the first key; a key that is refused
 * (401, 429) makes room for the next one. What is worth it is repeated, at most twice and only
 * while no byte of an answer has come. Errors get the words of §6.5, and never show a key. */
#include "model/model_private.h"

#include <strings.h>

enum {
    REPEATS_MAX = 2,
    REPEAT_FIRST_MS = 200, /* doubled for the second repeat */
    RETRY_AFTER_MAX_S = 5, /* "short": a user waits for the answer */
    DETAIL_MAX = 800,
    CONNECT_MS = 10000,
    HEADERS_MAX = 24,
};

static bool is_category(const struct error *err)
{
    return str_starts(str_c(err->msg), S("模型请求失败: "));
}

/* Puts "***" where a key of the provider stands, and cuts. */
static void add_detail(struct buf *out, const struct provider *p, struct str text)
{
    if (text.n > DETAIL_MAX)
        text.n = utf8_border(text.p, DETAIL_MAX);
    while (text.n > 0) {
        size_t first = text.n, len = 0;
        for (size_t i = 0; i < p->key_count; i++) {
            struct str key = str_c(p->keys[i]);
            ptrdiff_t at = key.n >= 4 ? str_find(text, key) : -1;
            if (at >= 0 && (size_t)at < first) {
                first = (size_t)at;
                len = key.n;
            }
        }
        buf_add(out, text.p, first);
        if (len > 0)
            buf_z(out, "***");
        text = str_sub(text, first + len, text.n);
    }
}

static bool categorise(const struct wire *w, struct error *err, enum err_code code, const char *tag,
                       const char *category, struct str detail)
{
    auto_buf text = BUF(4096);
    add_detail(&text, w->provider, detail);
    if (w->plain)
        return err_tag(err, code, 0, tag, "%s", buf_cstr(&text));
    return err_tag(err, code, 0, tag, "模型请求失败: %s: %s", category, buf_cstr(&text));
}

/* ---- what a provider says -------------------------------------------------------------------- */

static bool speaks_of_window(struct arena *a, struct str text)
{
    static const char *const signs[] = {
        "context_length_exceeded",
        "maximum context length",
        "context window",
        "context length",
        "prompt is too long",
        "input is too long",
        "exceeds the maximum number of tokens",
    };
    struct str low = str_lower(a, text);
    for (size_t i = 0; i < array_len(signs); i++) {
        if (str_find(low, str_c(signs[i])) >= 0)
            return true;
    }
    return false;
}

/* The sentence of an error body; the whole text where it is no JSON that we know. */
static struct str sentence(struct arena *a, const json_t *body, struct str raw)
{
    static const char *const keys[] = {"message", "msg", "detail", "error", "error_msg"};
    const json_t *error = json_object_get(body, "error");
    if (json_is_string(error))
        return json_sv(error);
    for (int round = 0; round < 2; round++) {
        const json_t *where = round == 0 ? error : body;
        for (size_t i = 0; i < array_len(keys); i++) {
            struct str text = json_s(where, keys[i]);
            if (text.n > 0)
                return text;
        }
    }
    struct str text = json_is_object(error) ? json_text(a, error) : str_trim(raw);
    return utf8_clean(a, str_n(text.p, text.n < 2000 ? text.n : 2000));
}

static int status_of(const json_t *error)
{
    const json_t *code = json_object_get(error, "code");
    int64_t value = 0;
    if (json_is_integer(code))
        value = json_integer_value(code);
    else if (json_is_string(code))
        (void)str_to_i64(json_sv(code), &value);
    return value >= 400 && value <= 599 ? (int)value : 0;
}

bool wire_refused(const struct wire *w, int status, struct str raw, struct error *err)
{
    struct error why;
    auto_json body = raw.n > 0 ? json_parse(raw, &why) : NULL;
    const json_t *error = json_object_get(body, "error");
    struct arena *a = w->arena;
    struct str text = sentence(a, body, raw);
    if (status < 300) /* an error object in an answer that began well */
        status = status_of(error);
    if (text.n == 0)
        text = str_fmt(a, "HTTP %d", status);
    else if (!body)
        text = str_fmt(a, "HTTP %d: " STR_FMT, status, STR_ARG(text));

    struct str code = json_s(error, "code"), type = json_s(error, "type");
    bool about_input = status == 400 || status == 413 || status == 422 || status == 0;
    if (str_eqz(code, "context_length_exceeded") || str_eqz(type, "context_length_exceeded") ||
        (about_input && speaks_of_window(a, text)))
        return categorise(w, err, ERR_UPSTREAM, "context_length", "上下文长度超限", text);
    switch (status) {
    case 400:
    case 413:
    case 422: return categorise(w, err, ERR_UPSTREAM, "bad_request", "请求参数错误", text);
    case 401: return categorise(w, err, ERR_UPSTREAM, "auth", "API key 无效", text);
    case 404: return categorise(w, err, ERR_UPSTREAM, "not_found", "模型或路径无效", text);
    case 429:
        return categorise(w, err, ERR_UPSTREAM, "rate_limited", "请求过于频繁或余额不足", text);
    case 408: return categorise(w, err, ERR_TIMEOUT, "timeout", "请求超时", text);
    default: return categorise(w, err, ERR_UPSTREAM, "api", "API 错误", text);
    }
}

bool wire_failed(const struct wire *w, struct error *err)
{
    if (err->code == ERR_CANCELED || err->code == ERR_NOMEM || is_category(err))
        return false;
    struct str text = str_dup(w->arena, str_c(err->msg));
    switch (err->code) {
    case ERR_TIMEOUT: return categorise(w, err, ERR_TIMEOUT, "timeout", "请求超时", text);
    case ERR_UPSTREAM: return categorise(w, err, ERR_UPSTREAM, "connection", "连接错误", text);
    case ERR_INVALID: return categorise(w, err, ERR_INVALID, "bad_request", "请求参数错误", text);
    case ERR_TOO_LARGE:
        text = str_fmt(w->arena, "Provider response exceeds the configured limit (" STR_FMT ")",
                       STR_ARG(text));
        return categorise(w, err, ERR_TOO_LARGE, "api", "API 错误", text);
    case ERR_PROTOCOL: return categorise(w, err, ERR_UPSTREAM, "api", "API 错误", text);
    default: return categorise(w, err, err->code, "unknown", "未知错误", text);
    }
}

/* ---- one attempt ----------------------------------------------------------------------------- */

static bool has_header(const struct http_header *h, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_ieqz(h[i].name, name))
            return true;
    }
    return false;
}

static struct http_stream *attempt(struct wire *w, size_t key, struct error *err)
{
    struct http_header headers[HEADERS_MAX];
    size_t n = 0;
    const char *name;
    const json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)w->extra_headers, name, value) {
        if (n < HEADERS_MAX - 3 && json_is_string(value))
            headers[n++] = (struct http_header){str_c(name), json_sv(value)};
    }
    if (w->body.n > 0 && !has_header(headers, n, "content-type"))
        headers[n++] = (struct http_header){S("Content-Type"), S("application/json")};
    if (w->accept && !has_header(headers, n, "accept"))
        headers[n++] = (struct http_header){S("Accept"), str_c(w->accept)};
    if (w->provider->key_count > 0 && !has_header(headers, n, "authorization"))
        headers[n++] = (struct http_header){S("Authorization"),
                                            str_fmt(w->arena, "Bearer %s", w->provider->keys[key])};
    int64_t left_ms = (w->until_us - time_mono_us()) / 1000;
    if (left_ms <= 0) {
        err_set(err, ERR_TIMEOUT, "no answer within %d ms", w->timeout_ms);
        return NULL;
    }
    /* No limit for the whole: an answer may be streamed for long. Silence is limited, and the
     * wait for the headers. */
    struct http_call call = {
        .method = w->method,
        .url = w->url,
        .headers = headers,
        .header_count = n,
        .body = w->body,
        .flags = HTTP_CALL_TENANT | (w->trickles ? HTTP_CALL_SMALL : 0),
        .connect_ms = CONNECT_MS < left_ms ? CONNECT_MS : (int)left_ms,
        .idle_ms = w->timeout_ms,
    };
    struct task_deadline d;
    task_deadline_push(&d, left_ms);
    struct http_stream *s = http_open(&call, err);
    task_deadline_pop(&d);
    w->status = s ? http_stream_status(s) : 0;
    return s;
}

bool wire_body(struct wire *w, struct http_stream *s, size_t max, struct str *out,
               struct error *err)
{
    auto_buf all = BUF(max);
    struct str chunk;
    bool ok;
    *out = S("");
    while ((ok = http_stream_read(s, &chunk, err)) && chunk.n > 0) {
        if (!buf_str(&all, chunk)) {
            ok = err_set(err, ERR_TOO_LARGE, "more than %zu bytes", max);
            break;
        }
    }
    http_stream_close(s);
    if (ok && all.n > 0)
        *out = str_dup(w->arena, buf_view(&all));
    return ok && (out->p || err_set(err, ERR_NOMEM, "out of memory"));
}

/* Milliseconds to wait before the answer's status is tried again, or -1. */
static int64_t worth_repeating(int status, struct str retry_after, int repeats)
{
    int64_t wait = (int64_t)REPEAT_FIRST_MS << repeats, seconds;
    if (status != 408 && status != 429 && status < 500)
        return -1;
    if (retry_after.n > 0) {
        if (!str_to_i64(str_trim(retry_after), &seconds) || seconds < 0 ||
            seconds > RETRY_AFTER_MAX_S)
            return -1;
        wait = seconds * 1000 > wait ? seconds * 1000 : wait;
    }
    return wait;
}

struct http_stream *wire_open(struct wire *w, struct error *err)
{
    size_t key = 0;
    for (int repeats = 0;;) {
        int64_t wait;
        struct http_stream *s = attempt(w, key, err);
        if (s && w->status >= 200 && w->status < 300)
            return s;
        if (!s) {
            bool failed_connection =
                err->code == ERR_UPSTREAM || (err->tag && strcmp(err->tag, "connect") == 0);
            wait = failed_connection ? (int64_t)REPEAT_FIRST_MS << repeats : -1;
            wire_failed(w, err);
        } else {
            struct str after = http_stream_header(s, "Retry-After"), raw = S("");
            wait = worth_repeating(w->status, after, repeats);
            struct error cut = {0}; /* what can be read of an error body is enough */
            if (!wire_body(w, s, WIRE_ERROR_MAX, &raw, &cut) && cut.code == ERR_CANCELED) {
                *err = cut;
                return NULL;
            }
            wire_refused(w, w->status, raw, err);
            bool refused_key = w->status == 401 || w->status == 429;
            if (refused_key && key + 1 < w->provider->key_count && !w->one_try) {
                key++;
                continue;
            }
            key = 0;
        }
        struct error interrupted;
        if (w->one_try || wait < 0 || repeats >= REPEATS_MAX ||
            time_mono_us() + wait * 1000 >= w->until_us)
            return NULL;
        if (!task_sleep_ms(wait, &interrupted)) {
            if (interrupted.code == ERR_CANCELED)
                *err = interrupted;
            return NULL;
        }
        repeats++;
    }
}

json_t *wire_json(struct wire *w, struct error *err)
{
    struct str raw;
    struct http_stream *s = wire_open(w, err);
    if (!s)
        return NULL;
    if (!wire_body(w, s, WIRE_BODY_MAX, &raw, err)) {
        wire_failed(w, err);
        return NULL;
    }
    json_t *body = json_parse(raw, err);
    if (!json_is_object(body)) {
        if (body)
            err_set(err, ERR_PROTOCOL, "the answer is no JSON object");
        err->code = err->code == ERR_NOMEM ? ERR_NOMEM : ERR_PROTOCOL;
        wire_failed(w, err);
        json_decref(body);
        return NULL;
    }
    const json_t *refusal = json_object_get(body, "error");
    if (json_is_object(refusal) || json_is_string(refusal)) {
        wire_refused(w, w->status, raw, err);
        json_decref(body);
        return NULL;
    }
    return body;
}

const char *wire_url(struct arena *a, const struct provider *p, const char *path, struct error *err)
{
    struct str base = str_c(p->base_url);
    if (base.n == 0) {
        const json_t *manifest = requester_manifest(p->requester);
        const json_t *fields = manifest ? json_at(manifest, "spec.config") : NULL;
        for (size_t i = 0; i < json_array_size(fields); i++) {
            const json_t *f = json_array_get(fields, i);
            if (str_eqz(json_s(f, "name"), "base_url"))
                base = json_s(f, "default");
        }
    }
    while (base.n > 0 && base.p[base.n - 1] == '/')
        base.n--;
    if (base.n == 0) {
        err_set(err, ERR_INVALID, "the provider has no base_url");
        return NULL;
    }
    return z_fmt(a, STR_FMT "/%s", STR_ARG(base), path);
}
