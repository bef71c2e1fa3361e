/* Answers of the HTTP server: heads, whole bodies, chunked streams. */
#include "net/conn.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

enum { EXTRA_MAX = 12 * 1024, COPY_BODY = 4096 };

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < array_len(table); i++)
        if (table[i].status == status)
            return table[i].text;
    return "Status";
}

struct str server_date(struct http_server *s)
{
    if (s->now_us >= s->date_until_us || s->date_n == 0) {
        static const char days[] = "SunMonTueWedThuFriSat",
                          months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        int64_t wall = time_wall_us();
        time_t t = (time_t)(wall / 1000000);
        struct tm tm;
        gmtime_r(&t, &tm);
        int n = snprintf(s->date, sizeof(s->date), "%.3s, %02d %.3s %d %02d:%02d:%02d GMT",
                         days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
                         tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
        s->date_n = n > 0 && (size_t)n < sizeof(s->date) ? (size_t)n : 0;
        s->now_us = time_mono_us();
        s->date_until_us = s->now_us + 1000000 - wall % 1000000;
    }
    return str_n(s->date, s->date_n);
}

bool server_seed(struct http_server *s)
{
    return getrandom(s->random, sizeof(s->random), 0) == (ssize_t)sizeof(s->random);
}

static uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* xoshiro256**: request ids must be unique, they are no secrets; the kernel's generator would cost
 * more than the parsing. */
static uint64_t next_random(uint64_t v[4])
{
    uint64_t result = rotate(v[1] * 5, 7) * 9, t = v[1] << 17;
    v[2] ^= v[0];
    v[3] ^= v[1];
    v[1] ^= v[2];
    v[0] ^= v[3];
    v[2] ^= t;
    v[3] = rotate(v[3], 45);
    return result;
}

/* Eight hexadecimal digits of 32 random bits, in no particular order. */
static void put_hex(char *out, uint64_t x)
{
    static const uint64_t ones = 0x0101010101010101U;
    x = (x | x << 16) & 0x0000ffff0000ffffU;
    x = (x | x << 8) & 0x00ff00ff00ff00ffU;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fU;
    uint64_t letters = ((x + ones * 6) >> 4) & ones; /* 1 for the digits above 9 */
    x += ones * '0' + letters * ('a' - '0' - 10);
    memcpy(out, &x, 8);
}

void server_uuid(struct http_server *s, char out[37])
{
    uint64_t a = next_random(s->random), b = next_random(s->random);
    char text[32];
    put_hex(text, a & 0xffffffff);
    put_hex(text + 8, a >> 32);
    put_hex(text + 16, b & 0xffffffff);
    put_hex(text + 24, b >> 32);
    text[12] = '4';                                 /* the version */
    text[16] = "89ab"[(unsigned char)text[16] & 3]; /* the variant */
    memcpy(out, text, 8);
    memcpy(out + 9, text + 8, 4);
    memcpy(out + 14, text + 12, 4);
    memcpy(out + 19, text + 16, 4);
    memcpy(out + 24, text + 20, 12);
    out[8] = out[13] = out[18] = out[23] = '-';
    out[36] = 0;
}

size_t server_refusal(struct http_server *s, int status, char *out, size_t size)
{
    char id[37], body[80];
    server_uuid(s, id);
    int m =
        snprintf(body, sizeof(body), "{\"code\":%d,\"msg\":\"%s\"}", status, http_reason(status));
    int n = snprintf(
        out, size,
        "HTTP/1.1 %d %s\r\nDate: %.*s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        "X-Request-Id: %s\r\n%sConnection: close\r\n\r\n%s",
        status, http_reason(status), STR_ARG(server_date(s)), m, id,
        s->opts.cors ? "Access-Control-Allow-Origin: *\r\n" : "", body);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Appends to a head; the bound was checked by the caller. */
static char *put(char *o, const void *p, size_t n)
{
    memcpy(o, p, n);
    return o + n;
}
#define PUT(o, lit) ((o) = put((o), (lit), sizeof(lit) - 1))

static char *put_num(char *o, uint64_t v)
{
    char text[20];
    size_t i = sizeof(text);
    do
        text[--i] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    return put(o, text + i, sizeof(text) - i);
}

size_t answer_head(struct http_run *run, int status, const char *content_type, int64_t length)
{
    struct http_server *s = run->server;
    const char *reason = http_reason(status);
    size_t type_n = content_type ? strlen(content_type) : 0, id_n = strlen(run->r.request_id);
    if (type_n + id_n + run->extra.n + 512 > sizeof(s->head_text))
        return 0;
    struct str date = server_date(s);
    char *o = s->head_text;
    PUT(o, "HTTP/1.1 ");
    o = put_num(o, (uint64_t)status);
    *o++ = ' ';
    o = put(o, reason, strlen(reason));
    PUT(o, "\r\nDate: ");
    o = put(o, date.p, date.n);
    if (type_n) {
        PUT(o, "\r\nContent-Type: ");
        o = put(o, content_type, type_n);
    }
    if (length >= 0 && status >= 200 && status != 204 && status != 304) {
        PUT(o, "\r\nContent-Length: ");
        o = put_num(o, (uint64_t)length);
    } else if (length < 0 && status >= 200 && !run->http10) {
        PUT(o, "\r\nTransfer-Encoding: chunked");
    }
    PUT(o, "\r\nX-Request-Id: ");
    o = put(o, run->r.request_id, id_n);
    if (s->opts.cors)
        PUT(o, "\r\nAccess-Control-Allow-Origin: *");
    PUT(o, "\r\n");
    if (run->extra.n)
        o = put(o, run->extra.p, run->extra.n);
    if (status == 101)
        PUT(o, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    else if (!run->keep)
        PUT(o, "Connection: close\r\n");
    else if (run->http10)
        PUT(o, "Connection: keep-alive\r\n");
    PUT(o, "\r\n");
    return (size_t)(o - s->head_text);
}

/* Common start of all answers. False: there is one already. */
static bool begin(struct http_run *run, int status)
{
    if (run->answered) {
        log_warn("net", "second answer ignored path=" STR_FMT " status=%d",
                 STR_ARG(run->r.raw_path), status);
        return false;
    }
    run->answered = true;
    run->r.status = status;
    struct http_conn *c = run->conn;
    if (run->server->stopping || c->eof || c->close_after)
        run->keep = false;
    return true;
}

static void send_parts(struct http_run *run, struct iovec *parts, size_t n, bool last_static)
{
    struct http_conn *c = run->conn;
    if (c->state != CONN_RUN)
        return;
    if (!outq_send(&c->out, c->fd, parts, n, last_static))
        conn_kill(c);
    else if (outq_size(&c->out) > 0)
        conn_sent(c, false);
}

static void answer(struct http_run *run, int status, const char *content_type, struct str body,
                   bool is_static)
{
    if (!begin(run, status))
        return;
    if (status < 200 || status == 204 || status == 304)
        body = STR_NONE;
    struct http_server *s = run->server;
    size_t n = answer_head(run, status, content_type, (int64_t)body.n);
    if (n == 0) {
        log_error("net", "answer headers too large path=" STR_FMT, STR_ARG(run->r.raw_path));
        conn_kill(run->conn);
        return;
    }
    if (run->head_only)
        body = STR_NONE;
    run->bytes = body.n;
    struct iovec parts[2] = {{s->head_text, n}, {(char *)(uintptr_t)body.p, body.n}};
    if (body.n > 0 && body.n <= COPY_BODY && n + body.n <= sizeof(s->head_text)) {
        /* One block costs less than gathering two. */
        memcpy(s->head_text + n, body.p, body.n);
        parts[0].iov_len += body.n;
        body.n = 0;
    }
    send_parts(run, parts, body.n > 0 ? 2 : 1, is_static && body.n > 0);
}

void http_answer(struct http_request *r, int status, const char *content_type, struct str body)
{
    answer(run_of(r), status, content_type, body, false);
}

void http_answer_static(struct http_request *r, int status, const char *content_type,
                        const void *body, size_t n)
{
    answer(run_of(r), status, content_type, str_n(body, n), true);
}

static bool header_name_ok(const char *name)
{
    static const char *const own[] = {"connection", "content-length", "transfer-encoding",
                                      "upgrade",    "date",           "x-request-id"};
    struct str n = str_c(name);
    if (n.n == 0 || n.n > 128)
        return false;
    for (size_t i = 0; i < n.n; i++) {
        unsigned char c = (unsigned char)n.p[i];
        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' ||
              c == '_'))
            return false;
    }
    for (size_t i = 0; i < array_len(own); i++)
        if (str_ieqz(n, own[i]))
            return false; /* the server's own */
    return true;
}

void http_answer_header(struct http_request *r, const char *name, struct str value)
{
    struct http_run *run = run_of(r);
    bool ok = !run->answered && header_name_ok(name) &&
              run->extra.n + strlen(name) + value.n + 4 <= EXTRA_MAX;
    for (size_t i = 0; ok && i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        ok = c == '\t' || (c >= 0x20 && c != 0x7f);
    }
    if (!ok) {
        log_warn("net", "answer header refused name=%s", name);
        return;
    }
    run->extra.max = EXTRA_MAX;
    buf_z(&run->extra, name);
    buf_z(&run->extra, ": ");
    buf_str(&run->extra, value);
    buf_z(&run->extra, "\r\n");
}

bool http_stream_start(struct http_request *r, int status, const char *content_type,
                       struct error *err)
{
    struct http_run *run = run_of(r);
    if (run->http10)
        run->keep = false; /* without the chunked coding only the close tells the end */
    if (!begin(run, status))
        return err_set(err, ERR_INTERNAL, "the request has its answer already");
    run->streaming = true;
    size_t n = answer_head(run, status, content_type, -1);
    struct iovec part = {run->server->head_text, n};
    if (n == 0)
        conn_kill(run->conn);
    else
        send_parts(run, &part, 1, false);
    if (http_peer_gone(r))
        return err_set(err, ERR_CLOSED, "the client is gone");
    return true;
}

/* Waits until less than `room` bytes wait for the socket. */
static bool stream_room(struct http_run *run, struct error *err)
{
    struct http_conn *c = run->conn;
    while (!http_peer_gone(&run->r) && outq_size(&c->out) >= CONN_STREAM_ROOM) {
        run->waiter = task_self();
        bool ok = task_park(err);
        run->waiter = NULL;
        if (!ok)
            return false;
    }
    if (http_peer_gone(&run->r))
        return err_set(err, ERR_CLOSED, "the client is gone");
    return true;
}

bool http_stream_write(struct http_request *r, struct str data, struct error *err)
{
    struct http_run *run = run_of(r);
    if (!run->streaming || run->ended)
        return err_set(err, ERR_INTERNAL, "no stream to write to");
    while (data.n > 0) {
        if (!stream_room(run, err))
            return false;
        struct str piece = str_sub(data, 0, CONN_STREAM_ROOM);
        data = str_sub(data, piece.n, data.n);
        run->bytes += piece.n;
        if (run->head_only)
            continue;
        char size[20];
        int n = snprintf(size, sizeof(size), "%zx\r\n", piece.n);
        struct iovec parts[3] = {{size, (size_t)n},
                                 {(char *)(uintptr_t)piece.p, piece.n},
                                 {(char *)(uintptr_t) "\r\n", 2}};
        send_parts(run, run->http10 ? parts + 1 : parts, run->http10 ? 1 : 3, false);
    }
    return stream_room(run, err);
}

void http_stream_end(struct http_request *r)
{
    struct http_run *run = run_of(r);
    if (!run->streaming || run->ended)
        return;
    run->ended = true;
    struct iovec part = {(char *)(uintptr_t) "0\r\n\r\n", 5};
    if (!run->http10 && !run->head_only)
        send_parts(run, &part, 1, true);
}

bool http_peer_gone(const struct http_request *r)
{
    const struct http_conn *c = run_of(r)->conn;
    return c->eof || c->state == CONN_DEAD;
}
