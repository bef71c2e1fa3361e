/* Requests of the HTTP server: from a parsed head to the handler's fiber and its end. */
#include "net/conn.h"

#include <arpa/inet.h>

enum { ID_BYTES_MAX = 512, ID_CHARS_MAX = 128, JSON_ON_LOOP = 64 * 1024 };

const char *http_method_name(enum http_method m)
{
    static const char *const names[] = {"GET",   "POST",    "PUT",  "DELETE",
                                        "PATCH", "OPTIONS", "HEAD", "OTHER"};
    return (unsigned)m < array_len(names) ? names[m] : "OTHER";
}

struct str http_header_get(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (str_ieqz(r->headers[i].name, name))
            return r->headers[i].value;
    return STR_NONE;
}

struct str http_param(const struct http_request *r, size_t index)
{
    return index < r->param_count ? r->params[index] : STR_NONE;
}

struct str http_query(const struct http_request *r, const char *key)
{
    return query_get(r->arena, r->query, key);
}

/* The client's id if http-api.md §1.3 takes it, else none. */
static struct str client_id(const struct head *h)
{
    for (size_t i = 0; i < h->header_count; i++) {
        if (!str_ieqz(h->headers[i].name, "x-request-id"))
            continue;
        struct str id = str_trim(h->headers[i].value);
        bool ok =
            id.n > 0 && id.n <= ID_BYTES_MAX && utf8_valid(id) && utf8_count(id) <= ID_CHARS_MAX;
        for (size_t k = 0; ok && k < id.n; k++)
            ok = (unsigned char)id.p[k] >= 0x20;
        return ok ? id : STR_NONE;
    }
    return STR_NONE;
}

/* inet_ntop goes through printf, which is dear for something done in each request. */
static void v4_text(const unsigned char *addr, char *out)
{
    for (int i = 0; i < 4; i++) {
        unsigned v = addr[i];
        if (i)
            *out++ = '.';
        if (v >= 100)
            *out++ = (char)('0' + v / 100);
        if (v >= 10)
            *out++ = (char)('0' + v / 10 % 10);
        *out++ = (char)('0' + v % 10);
    }
    *out = 0;
}

static void peer_text(const struct http_conn *c, char out[46])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    out[0] = 0;
    if (c->family == 4)
        v4_text(c->addr, out);
    else if (c->family == 6 && memcmp(c->addr, mapped, sizeof(mapped)) == 0)
        v4_text(c->addr + 12, out);
    else if (c->family == 6)
        inet_ntop(AF_INET6, c->addr, out, 46);
}

/* Decoded path, or STR_NONE for one that must not reach a handler. */
static struct str clean_path(struct http_run *run, struct str raw)
{
    struct str path = str_chr(raw, '%') < 0 ? raw : url_decode(run->r.arena, raw, false);
    if (!path.p || path.n == 0 || !utf8_valid(path))
        return STR_NONE;
    for (size_t i = 0; i < path.n; i++)
        if ((unsigned char)path.p[i] < 0x20 || path.p[i] == 0x7f)
            return STR_NONE;
    return path;
}

/* An escaped U+0000 becomes an escaped U+FFFD: no C string is cut at it, so nothing is found by what stands before it. */
static struct str without_nul(struct arena *a, struct str raw)
{
    static const char shown[] = "%EF%BF%BD";
    size_t n = 0, at = 0;
    if (str_chr(raw, '%') < 0 || str_find(raw, S("%00")) < 0)
        return raw;
    char *out = arena_alloc(a, raw.n * 3);
    while (out && at < raw.n) {
        if (str_starts(str_sub(raw, at, raw.n), S("%00"))) {
            memcpy(out + n, shown, sizeof(shown) - 1);
            n += sizeof(shown) - 1;
            at += 3;
        } else {
            out[n++] = raw.p[at++];
        }
    }
    return out ? str_n(out, n) : STR_NONE;
}

/* Fills method, path and route; leaves r.path empty when the target is bad. */
static void run_target(struct http_run *run)
{
    struct http_request *r = &run->r;
    struct http_server *s = run->server;
    if (!head_target(r->target, &r->raw_path, &r->query))
        return;
    r->raw_path = without_nul(r->arena, r->raw_path);
    struct str path = clean_path(run, r->raw_path);
    if (!path.p || !router_match(s->router, r))
        return;
    run->preflight = r->method == HTTP_M_OPTIONS && !r->route && s->opts.cors;
    if (str_eqz(r->raw_path, "*") && !run->preflight)
        return;
    r->path = path;
}

/* Under the address sanitizer nothing is kept, so that it sees uses after the end of a request. */
#if defined(__SANITIZE_ADDRESS__)
enum { RECYCLE = 0 };
#elif defined(__has_feature)
enum { RECYCLE = !__has_feature(address_sanitizer) };
#else
enum { RECYCLE = 1 };
#endif

/* A block for a request of `size` bytes in all, with an arena; the rest of the struct is zero. */
static struct http_run *run_block(struct http_server *s, size_t size)
{
    struct http_run *run;
    struct arena *arena = NULL;
    bool recyclable = RECYCLE && size <= RUN_SPARE_SIZE;
    if (recyclable && s->spare_n > 0) {
        run = s->spare[--s->spare_n];
        arena = run->r.arena;
        *run = (struct http_run){0};
    } else {
        run = mem_alloc(recyclable ? RUN_SPARE_SIZE : size);
    }
    if (!run)
        return NULL;
    run->recyclable = recyclable;
    run->r.arena = arena ? arena : arena_new(s->opts.arena_max);
    if (!run->r.arena) {
        mem_free(run);
        return NULL;
    }
    return run;
}

void run_drop_body(struct http_run *run)
{
    run->server->bodies -= run->body.cap;
    buf_free(&run->body);
}

void run_free(struct http_run *run)
{
    struct http_server *s = run->server;
    run_drop_body(run);
    buf_free(&run->extra);
    /* An arena that nobody used is as good as new. */
    bool fresh = arena_used(run->r.arena) == 0 && !arena_failed(run->r.arena);
    if (!fresh || !run->recyclable || s->spare_n == RUN_SPARES)
        arena_free(steal(run->r.arena));
    if (run->recyclable && s->spare_n < RUN_SPARES)
        s->spare[s->spare_n++] = run;
    else
        mem_free(run);
}

void run_free_spares(struct http_server *s)
{
    while (s->spare_n > 0) {
        struct http_run *run = s->spare[--s->spare_n];
        arena_free(run->r.arena);
        mem_free(run);
    }
}

struct http_run *run_new(struct http_conn *c, const char *p, size_t n)
{
    struct http_server *s = c->server;
    const struct head *h = &s->head;
    struct str id = client_id(h);
    size_t id_n = id.p ? id.n : 36, headers_n = h->header_count * sizeof(struct http_header);
    struct http_run *run = run_block(s, sizeof(*run) + headers_n + n + id_n + 1);
    if (!run)
        return NULL;
    struct http_header *headers = (struct http_header *)(run + 1);
    char *text = (char *)headers + headers_n, *id_text = text + n;
    memcpy(text, p, n);
    for (size_t i = 0; i < h->header_count; i++) {
        headers[i].name = str_n(text + (h->headers[i].name.p - p), h->headers[i].name.n);
        size_t vn = h->headers[i].value.n;
        headers[i].value = str_n(vn ? text + (h->headers[i].value.p - p) : "", vn);
    }
    if (id.p)
        memcpy(id_text, id.p, id_n);
    else
        server_uuid(s, id_text);
    id_text[id_n] = 0;
    peer_text(c, run->peer);
    run->conn = c;
    run->server = s;
    run->keep = h->keep_alive;
    run->http10 = h->http10;
    run->head_only = h->method == HTTP_M_HEAD;
    run->chunked = h->chunked;
    run->left = h->content_length;
    struct http_request *r = &run->r; /* zero but for the arena */
    r->method = h->method;
    r->target = str_n(text + (h->target.p - p), h->target.n);
    r->headers = headers;
    r->header_count = h->header_count;
    r->request_id = id_text;
    r->peer = run->peer;
    r->start_us = s->now_us = time_mono_us();
    r->conn = c;
    run_target(run);
    size_t max = r->route ? r->route->body_max : 0;
    run->body.max = max && max < s->opts.body_max ? max : s->opts.body_max;
    return run;
}

struct parse_job {
    struct str text;
    bool words;
    json_t *json;
    struct error *err;
};

static json_t *parse_text(struct str text, bool words, struct error *err)
{
    return words ? json_parse_words(text, err) : json_parse(text, err);
}

static void parse_work(void *arg)
{
    struct parse_job *job = arg;
    job->json = parse_text(job->text, job->words, job->err);
}

json_t *net_json_parse(struct str text, bool words, struct error *err)
{
    if (text.n <= JSON_ON_LOOP)
        return parse_text(text, words, err);
    struct parse_job job = {.text = text, .words = words, .err = err};
    if (!task_work(parse_work, &job, err)) {
        json_decref(job.json);
        return NULL;
    }
    return job.json;
}

static json_t *parse_body(struct http_request *r, struct error *err)
{
    return arena_json(r->arena, net_json_parse(r->body, r->route->words, err));
}

static bool is_json_type(struct str type)
{
    ptrdiff_t semicolon = str_chr(type, ';');
    struct str t = str_trim(semicolon < 0 ? type : str_sub(type, 0, (size_t)semicolon));
    if (str_ieqz(t, "application/json"))
        return true;
    return str_istarts(t, S("application/")) && t.n > 5 &&
           str_ieqz(str_sub(t, t.n - 5, 5), "+json");
}

/* Parses and validates a JSON body. False: err says what is wrong with it. */
static bool check_body(struct http_request *r, struct error *err)
{
    const struct http_route *route = r->route;
    bool lenient = route->body == HTTP_BODY_JSON_LENIENT;
    if (route->body != HTTP_BODY_JSON && !lenient)
        return true;
    *err = (struct error){0};
    if (!lenient && !is_json_type(http_header_get(r, "content-type")))
        return err_set(err, ERR_INVALID, "Content-Type must be application/json");
    if (r->body.n > 0)
        r->json = parse_body(r, err);
    else
        err_set(err, ERR_INVALID, "a JSON body is needed");
    if (!r->json) {
        if (err->code == ERR_NONE)
            err_set(err, ERR_NOMEM, "out of memory");
        return lenient && err->code == ERR_INVALID;
    }
    return !route->fields || route->fields_late ||
           http_fields_check(route->fields, r->json, false, err);
}

static void answer_preflight(struct http_request *r)
{
    struct str wanted = http_header_get(r, "access-control-request-headers");
    http_answer_header(r, "Access-Control-Allow-Methods",
                       S("GET, POST, PUT, DELETE, PATCH, OPTIONS, HEAD"));
    http_answer_header(r, "Access-Control-Allow-Headers",
                       wanted.n > 0 && wanted.n < 1024 ? wanted : S("*"));
    http_answer_header(r, "Access-Control-Max-Age", S("600"));
    http_answer_header(r, "Allow", S("GET, POST, PUT, DELETE, PATCH, OPTIONS, HEAD"));
    http_answer(r, 200, NULL, STR_NONE);
}

/* RFC 9110 §15.5.6: a 405 says what the path can be asked. */
static void tell_allowed(struct http_request *r)
{
    auto_buf b = BUF(128);
    unsigned get = 1u << HTTP_M_GET, known = r->allowed | 1u << HTTP_M_OPTIONS;
    if (known & get)
        known |= 1u << HTTP_M_HEAD;
    for (unsigned m = HTTP_M_GET; m < HTTP_M_OTHER; m++)
        if (known & 1u << m)
            buf_fmt(&b, "%s%s", b.n ? ", " : "", http_method_name((enum http_method)m));
    http_answer_header(r, "Allow", buf_view(&b));
}

static void answer_plain(struct http_request *r, int status)
{
    http_answer(r, status, "application/json",
                str_fmt(r->arena, "{\"code\":%d,\"msg\":\"%s\"}", status, http_reason(status)));
}

static void answer_internal(struct http_request *r)
{
    /* The id may hold any printable text, so it is written by the JSON library. */
    auto_json j = json_object();
    json_set(j, "code", json_string("internal_error"));
    json_set(j, "msg", json_string("Internal server error"));
    json_set(j, "request_id", json_string(r->request_id));
    struct str text = json_text(r->arena, j);
    http_answer(r, 500, "application/json",
                text.p ? text
                       : S("{\"code\":\"internal_error\",\"msg\":\"Internal server error\"}"));
}

/* A function of its own, so that the error does not lie on the stack of a fiber that keeps a socket
 * for hours. */
static __attribute__((noinline)) bool body_fits(struct http_request *r,
                                                const struct http_server_opts *o)
{
    struct error err;
    if (check_body(r, &err))
        return true;
    if (o->reject)
        o->reject(r, &err, o->arg);
    else
        answer_plain(r, err_http(&err));
    return false;
}

static void run_handle(struct http_run *run)
{
    struct http_request *r = &run->r;
    const struct http_server_opts *o = &run->server->opts;
    if (run->too_large) {
        if (o->too_large)
            o->too_large(r, o->arg);
        else
            answer_plain(r, 413);
        return;
    }
    if (run->preflight) {
        answer_preflight(r);
        return;
    }
    if (!r->route) {
        if (r->path_known)
            tell_allowed(r);
        if (o->fallback)
            o->fallback(r, o->arg);
        else
            answer_plain(r, r->path_known ? 405 : 404);
        return;
    }
    if (o->gate && !o->gate(r, o->arg))
        return;
    if (body_fits(r, o))
        r->route->handler(r);
}

static void run_main(void *arg)
{
    struct http_run *run = arg;
    struct http_server *s = run->server;
    run_handle(run);
    if (!run->answered)
        answer_internal(&run->r);
    else if (run->streaming && !run->ended)
        conn_kill(run->conn);
    if (s->opts.after)
        s->opts.after(&run->r, run->r.status, run->bytes, s->opts.arg);
    s->running--;
    conn_run_ended(run->conn);
}

bool run_start(struct http_run *run)
{
    struct error err;
    struct http_server *s = run->server;
    run->r.body = buf_view(&run->body);
    if (!task_spawn(s->group, "http", run_main, run, &err)) {
        log_warn("net", "request refused: %s", err.msg);
        return false;
    }
    s->running++;
    s->requests++;
    return true;
}
