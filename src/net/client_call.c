/* One HTTP call: options from the caller, the answer as it comes in, errors in words. */
#include "net/client_private.h"

#include <stdio.h>

enum {
    BODY_DEFAULT = 10 * 1024 * 1024,
    CONNECT_DEFAULT_MS = 10000,
    IDLE_DEFAULT_MS = 120000, /* a caller that gave no limit at all */
    DIRECT_MAX =
        1024 * 1024, /* a declared size up to this is believed before the bytes have come */
    KEEP_CAPACITY = 4 * 1024,
    LEFT_MAX = 64 * 1024,
    LEFT_MS = 1000,
    EXPECT_FROM = 64 * 1024, /* curl adds "Expect: 100-continue" to large bodies only */
};

/* ---- the request ----------------------------------------------------------------------------- */

static bool token_char(unsigned char c)
{
    return c > 0x20 && c < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c);
}

static bool header_valid(const struct http_header *h)
{
    if (h->name.n == 0)
        return false;
    for (size_t i = 0; i < h->name.n; i++) {
        if (!token_char((unsigned char)h->name.p[i]))
            return false;
    }
    for (size_t i = 0; i < h->value.n; i++) {
        unsigned char c = (unsigned char)h->value.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool add_line(struct http_stream *x, const char *line)
{
    struct curl_slist *more = curl_slist_append(x->headers, line);
    if (more)
        x->headers = more;
    return more != NULL;
}

static bool set_headers(struct http_stream *x, const struct http_call *call, bool with_body,
                        struct error *err)
{
    bool typed = false, ok = true;
    for (size_t i = 0; i < call->header_count; i++) {
        const struct http_header *h = &call->headers[i];
        if (!header_valid(h))
            return err_set(err, ERR_INVALID,
                           "HTTP request to %s: header \"" STR_FMT "\" is not valid", x->origin,
                           (int)(h->name.n < 64 ? h->name.n : 64), h->name.p ? h->name.p : "");
        typed |= str_ieqz(h->name, "content-type");
        buf_clear(&x->head);
        buf_str(&x->head, h->name);
        /* curl's own notation: "Name;" sends a header without a value, "Name:" would suppress
         * it. */
        buf_z(&x->head, h->value.n > 0 ? ": " : ";");
        buf_str(&x->head, h->value);
        const char *line = buf_cstr(&x->head);
        ok = ok && !x->head.failed && add_line(x, line);
    }
    if (with_body && !typed)
        ok = ok && add_line(x, "Content-Type:");
    if (call->body.n >= EXPECT_FROM)
        ok = ok && add_line(x, "Expect:");
    buf_clear(&x->head);
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
    return ok || err_set(err, ERR_NOMEM, "no memory for an HTTP request");
}

static void set_method(struct http_stream *x, const struct http_call *call)
{
    const char *method = call->method ? call->method : "GET";
    bool post = strcmp(method, "POST") == 0, get = strcmp(method, "GET") == 0;
    x->bodyless = strcmp(method, "HEAD") == 0;
    if (x->bodyless) {
        curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, NULL);
        curl_easy_setopt(x->easy, CURLOPT_NOBODY, 1L);
        return;
    }
    bool body =
        post || call->body.n > 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
    if (body) {
        curl_easy_setopt(x->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, call->body.p ? call->body.p : "");
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
    } else {
        curl_easy_setopt(x->easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, (body ? post : get) ? NULL : method);
}

static bool set_target(struct http_stream *x, const struct http_call *call, struct error *err)
{
    struct url url;
    if (!url_parse(str_c(call->url), &url, err))
        return false;
    bool tls = str_ieqz(url.scheme, "https");
    if (!tls && !str_ieqz(url.scheme, "http"))
        return err_set(err, ERR_INVALID, "URL: the scheme must be http or https");
    bool v6 = str_chr(url.host, ':') >= 0;
    snprintf(x->origin, sizeof(x->origin), "%s://%s" STR_FMT "%s:%u", tls ? "https" : "http",
             v6 ? "[" : "", (int)(url.host.n < 90 ? url.host.n : 90), url.host.p, v6 ? "]" : "",
             url.port ? url.port
             : tls    ? 443u
                      : 80u);
    const char *proxy = client_proxy(&url, x->flags);
    x->via_proxy = proxy[0] != '\0';
    curl_easy_setopt(x->easy, CURLOPT_PROXY, proxy);
    if ((x->flags & HTTP_CALL_NO_PRIVATE) && policy_refuses_host(url.host))
        return err_set(err, ERR_INVALID, "%s is a private address, which is not allowed here",
                       x->origin);
    curl_easy_setopt(x->easy, CURLOPT_FOLLOWLOCATION, x->flags & HTTP_CALL_FOLLOW ? 1L : 0L);
    return curl_easy_setopt(x->easy, CURLOPT_URL, call->url) == CURLE_OK ||
           err_set(err, ERR_INVALID, "URL: not valid or too long");
}

/* A transfer on its way, or NULL. */
static struct http_stream *begin(const struct http_call *call, struct arena *fetch_into,
                                 struct error *err)
{
    struct http_stream *x = client_take(err);
    if (!x)
        return NULL;
    x->flags = client_flags(call->flags);
    x->request_n = call->body.n;
    x->connect_ms = call->connect_ms > 0 ? call->connect_ms : CONNECT_DEFAULT_MS;
    x->total_ms = call->total_ms;
    x->idle_ms = call->idle_ms;
    if (x->total_ms <= 0 && x->idle_ms <= 0)
        x->idle_ms = IDLE_DEFAULT_MS;
    x->last_us = time_mono_us();
    x->total_at_us = x->total_ms > 0 ? x->last_us + (int64_t)x->total_ms * 1000 : INT64_MAX;
    x->fetch = fetch_into != NULL;
    x->arena = fetch_into;
    /* A stream is bounded by its buffer; the reader counts, unless a limit is asked for. */
    x->body_max = call->body_max ? call->body_max : x->fetch ? BODY_DEFAULT : SIZE_MAX;
    x->rx = BUF(x->fetch ? x->body_max : XFER_BUFFERED_MAX + CURL_MAX_WRITE_SIZE);
    x->cur = x->rx;
    curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)x->connect_ms);
    curl_easy_setopt(x->easy, CURLOPT_BUFFERSIZE,
                     (long)(call->flags & HTTP_CALL_SMALL ? XFER_READ_SMALL : XFER_READ));
    set_method(x, call);
    if (!set_target(x, call, err) || !set_headers(x, call, call->body.n > 0, err) ||
        !client_start(x, err)) {
        client_give_back(x);
        return NULL;
    }
    return x;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The next header of a head buffer from *pos on; folded and malformed lines are passed over. */
static bool next_header(struct str head, size_t *pos, struct http_header *out)
{
    while (*pos < head.n) {
        const char *line = head.p + *pos;
        size_t n = strlen(line); /* each line ends with NUL, the last one too */
        const char *colon = memchr(line, ':', n);
        *pos += n + 1;
        if (!colon || colon == line || line[0] == ' ' || line[0] == '\t')
            continue;
        out->name = str_n(line, (size_t)(colon - line));
        out->value = str_trim(str_n(colon + 1, n - out->name.n - 1));
        return true;
    }
    return false;
}

static struct str head_find(const struct http_stream *x, const char *name)
{
    struct http_header h;
    for (size_t pos = 0; next_header(buf_view(&x->head), &pos, &h);) {
        if (str_ieqz(h.name, name))
            return h.value;
    }
    return STR_NONE;
}

static void head_complete(struct http_stream *x)
{
    bool redirect = (x->flags & HTTP_CALL_FOLLOW) && x->status >= 300 && x->status < 400 &&
                    head_find(x, "Location").p;
    if (x->status < 200 || redirect)
        return;
    x->head_done = true;
    int64_t length;
    if (!x->bodyless && str_to_i64(head_find(x, "Content-Length"), &length) && length >= 0) {
        if ((uint64_t)length > x->body_max)
            x->too_large = true;
        else if (x->fetch && length > 0 && length <= DIRECT_MAX &&
                 (x->direct = arena_alloc(x->arena, (size_t)length + 1)))
            x->direct_cap = (size_t)length;
    }
    if (!x->fetch && x->waiter)
        task_wake(x->waiter);
}

size_t call_on_head(char *p, size_t size, size_t n, void *arg)
{
    struct http_stream *x = arg;
    struct str line = str_n(p, n);

    x->last_us = time_mono_us();
    if (x->head_done) /* trailers */
        return n;
    while (line.n > 0 && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
        line.n--;
    if (line.n == 0) {
        head_complete(x);
        return x->too_large ? 0 : n;
    }
    if (str_starts(line, S("HTTP/"))) {
        ptrdiff_t space = str_chr(line, ' ');
        int64_t status;
        buf_clear(&x->head);
        x->head_count = 0;
        x->status =
            space > 0 && str_to_i64(str_sub(line, (size_t)space + 1, 3), &status) ? (int)status : 0;
        return n;
    }
    if (x->head.n + line.n > XFER_HEAD_MAX || memchr(line.p, '\0', line.n)) {
        x->head_too_large = true;
        return 0;
    }
    buf_str(&x->head, line);
    x->head_count++;
    if (buf_c(&x->head, '\0'))
        return n;
    x->no_memory = true;
    return 0;
}

size_t call_on_body(char *p, size_t size, size_t n, void *arg)
{
    struct http_stream *x = arg;

    x->last_us = time_mono_us();
    if (x->left) { /* nobody reads: only the end matters */
        x->body_n += n;
        return x->body_n <= LEFT_MAX ? n : 0;
    }
    if (!x->fetch && x->rx.n > 0 && x->rx.n + n > XFER_BUFFERED_MAX) {
        x->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (n > x->body_max - x->body_n) {
        x->too_large = true;
        return 0;
    }
    x->body_n += n;
    if (x->direct && n <= x->direct_cap - x->direct_n) {
        memcpy(x->direct + x->direct_n, p, n);
        x->direct_n += n;
        return n;
    }
    if (!buf_add(&x->rx, p, n)) {
        x->no_memory = true;
        return 0;
    }
    if (!x->fetch && x->waiter)
        task_wake(x->waiter);
    return n;
}

/* ---- errors and waiting ---------------------------------------------------------------------- */

/* "connect" tells the caller that the request may be sent again: nobody can have acted on it. */
static const char *tag_of(const struct http_stream *x)
{
    return x->started ? NULL : "connect";
}

static bool fail(const struct http_stream *x, struct error *err)
{
    if (x->denied[0])
        return err_set(err, ERR_INVALID,
                       "%s leads to the private address %s, which is not allowed here", x->origin,
                       x->denied);
    if (x->head_too_large)
        return err_set(err, ERR_TOO_LARGE,
                       "%s: the headers of the answer are larger than %d bytes or not valid",
                       x->origin, XFER_HEAD_MAX);
    if (x->too_large)
        return err_set(err, ERR_TOO_LARGE, "%s: the answer is larger than %zu bytes", x->origin,
                       x->body_max);
    if (x->no_memory || x->code == CURLE_OUT_OF_MEMORY)
        return err_set(err, ERR_NOMEM, "%s: no memory for the answer", x->origin);
    const char *text = x->curl_error[0] ? x->curl_error : curl_easy_strerror(x->code);
    if (x->code == CURLE_OPERATION_TIMEDOUT)
        return err_tag(err, ERR_TIMEOUT, 0, tag_of(x), "%s: no connection within %d ms", x->origin,
                       x->connect_ms);
    if (!x->started && (x->code == CURLE_URL_MALFORMAT || x->code == CURLE_UNSUPPORTED_PROTOCOL))
        return err_set(err, ERR_INVALID, "%s: %s", x->origin, text);
    return err_tag(err, ERR_UPSTREAM, 0, tag_of(x), "%s: %s", x->origin, text);
}

enum wait_for { WAIT_HEAD, WAIT_DATA, WAIT_DONE };

static bool arrived(const struct http_stream *x, enum wait_for what)
{
    return x->done || (what == WAIT_HEAD && x->head_done) || (what == WAIT_DATA && x->rx.n > 0);
}

/* After a park that timed out: was it one of our own limits (err is filled), the fiber's
 * deadline (so is err), or did bytes come meanwhile so that the idle limit moved (true: park
 * again)? */
static bool timed_out(const struct http_stream *x, int64_t idle_at, const struct task_deadline *d,
                      struct error *err)
{
    int64_t now = time_mono_us();
    if (now >= x->total_at_us)
        return err_tag(err, ERR_TIMEOUT, 0, tag_of(x), "%s: not finished within %d ms", x->origin,
                       x->total_ms);
    if (now >= idle_at)
        return err_tag(err, ERR_TIMEOUT, 0, tag_of(x), "%s: nothing came for %d ms", x->origin,
                       x->idle_ms);
    for (const struct task_deadline *o = d->outer; o; o = o->outer) {
        if (o->at_us <= now)
            return err_tag(err, ERR_TIMEOUT, 0, tag_of(x), "%s: no answer in time", x->origin);
    }
    return true;
}

static bool wait_until(struct http_stream *x, enum wait_for what, struct error *err)
{
    int64_t since = time_mono_us(); /* time that a slow reader took is not the peer's */
    while (!arrived(x, what)) {
        int64_t now = time_mono_us(), last = x->last_us > since ? x->last_us : since;
        int64_t idle_at = x->idle_ms > 0 ? last + (int64_t)x->idle_ms * 1000 : INT64_MAX;
        int64_t at = idle_at < x->total_at_us ? idle_at : x->total_at_us;
        struct task_deadline d;
        task_deadline_push(&d, at > now ? (at - now + 999) / 1000 : 0);
        x->waiter = task_self();
        bool ok = task_park(err);
        x->waiter = NULL;
        task_deadline_pop(&d);
        if (ok || arrived(x, what))
            continue;
        if (err->code != ERR_TIMEOUT)
            return false;
        last = x->last_us > since ? x->last_us : since;
        idle_at = x->idle_ms > 0 ? last + (int64_t)x->idle_ms * 1000 : INT64_MAX;
        if (!timed_out(x, idle_at, &d, err))
            return false;
    }
    return true;
}

/* ---- whole answers --------------------------------------------------------------------------- */

static bool take_result(struct http_stream *x, struct arena *a, struct http_result *out,
                        struct error *err)
{
    *out = (struct http_result){.status = x->status};
    struct str head = str_dup(a, x->head.n > 0 ? buf_view(&x->head) : S(""));
    out->headers = arena_alloc(a, x->head_count * sizeof(struct http_header));
    if (!head.p || !out->headers)
        return err_set(err, ERR_NOMEM, "%s: no memory for the answer", x->origin);
    for (size_t pos = 0; out->header_count < x->head_count &&
                         next_header(head, &pos, &out->headers[out->header_count]);)
        out->header_count++;
    if (x->direct && x->rx.n == 0)
        out->body = str_n(x->direct, x->direct_n);
    else
        out->body = str_dup(a, x->rx.n > 0 ? buf_view(&x->rx) : S(""));
    return out->body.p ||
           err_set(err, ERR_TOO_LARGE, "%s: the answer is too large for its use", x->origin);
}

bool http_fetch(struct arena *a, const struct http_call *call, struct http_result *out,
                struct error *err)
{
    *out = (struct http_result){0};
    struct http_stream *x = begin(call, a, err);
    if (!x)
        return false;
    bool ok = wait_until(x, WAIT_DONE, err);
    if (ok)
        ok = x->code == CURLE_OK ? take_result(x, a, out, err) : fail(x, err);
    client_give_back(x);
    return ok;
}

struct str http_result_header(const struct http_result *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++) {
        if (str_ieqz(r->headers[i].name, name))
            return r->headers[i].value;
    }
    return STR_NONE;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct http_stream *http_open(const struct http_call *call, struct error *err)
{
    struct http_stream *x = begin(call, NULL, err);
    if (!x)
        return NULL;
    /* An answer whose body fails at once has come all the same: the reader hears of it. */
    if (!wait_until(x, WAIT_HEAD, err) || (!x->head_done && !fail(x, err)) ||
        (x->too_large && !fail(x, err))) {
        client_give_back(x);
        return NULL;
    }
    return x;
}

int http_stream_status(const struct http_stream *s)
{
    return s->status;
}

struct str http_stream_header(const struct http_stream *s, const char *name)
{
    return head_find(s, name);
}

/* The transfer goes on; what curl held back comes at once, through call_on_body. */
static void unpause(struct http_stream *x)
{
    x->paused = false;
    CURLcode code = curl_easy_pause(x->easy, CURLPAUSE_CONT);
    if (code != CURLE_OK && !x->done) { /* curl reports it here and nowhere else */
        client_abort(x);
        x->done = true;
        x->code = code;
    }
}

bool http_stream_read(struct http_stream *s, struct str *chunk, struct error *err)
{
    *chunk = S("");
    if (s->cur.cap > KEEP_CAPACITY)
        buf_free(&s->cur);
    buf_clear(&s->cur);
    if (!wait_until(s, WAIT_DATA, err))
        return false;
    if (s->rx.n > 0) {
        struct buf full = s->rx;
        s->rx = s->cur;
        s->cur = full;
        *chunk = buf_view(&s->cur);
        if (s->paused)
            unpause(s);
        return true;
    }
    return s->code == CURLE_OK || fail(s, err);
}

void http_stream_close(struct http_stream *s)
{
    if (s)
        client_give_back(s);
}

bool http_stream_sent(const struct http_stream *s)
{
    curl_off_t sent = 0;
    if (!s->head_done || s->flags & HTTP_CALL_FOLLOW)
        return s->done;
    if (s->added)
        curl_easy_getinfo(s->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return !s->added || (size_t)sent >= s->request_n;
}

void http_stream_finish(struct http_stream *s)
{
    if (!s)
        return;
    buf_clear(&s->rx);
    s->body_n = 0;
    /* Not where curl would still read the caller's memory, or where much is on its way. */
    if (s->added && !s->paused && http_stream_sent(s))
        client_leave(s, LEFT_MS);
    else
        client_give_back(s);
}
