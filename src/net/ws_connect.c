/* WebSocket client: libcurl makes the connection (DNS, proxies, TLS), the handshake is ours.
 * Each socket has a multi handle of its own. While it connects, curl's descriptors sit in a private
 * epoll set, so that the fiber waits for one descriptor whatever curl is doing. */
#include "net/client_private.h"
#include "net/ws_private.h"

#include <errno.h>
#include <openssl/evp.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CONNECT_MS = 30000, ANSWER_MAX = 16 * 1024 };

struct dial {
    CURL *easy;
    CURLM *multi;
    int epoll_fd;
    long timeout_ms; /* as curl asks for; -1: none */
    char reason[CURL_ERROR_SIZE];
};

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct dial *d = arg;
    struct epoll_event ev = {.data.fd = fd};
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, fd, &ev) != 0 && errno == ENOENT)
        epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    return 0;
}

static int on_timeout(CURLM *multi, long ms, void *arg)
{
    ((struct dial *)arg)->timeout_ms = ms;
    return 0;
}

/* Waits for curl's descriptors or its time-out; false only when the caller's deadline passed or it
 * was cancelled. */
static bool dial_wait(struct dial *d, struct error *err)
{
    struct task_deadline td;
    if (d->timeout_ms == 0) {
        task_yield();
        return !task_canceled() || err_set(err, ERR_CANCELED, "cancelled");
    }
    int64_t start = time_mono_us();
    if (d->timeout_ms > 0)
        task_deadline_push(&td, d->timeout_ms);
    bool ok = task_fd_wait(d->epoll_fd, TASK_READ, err);
    if (d->timeout_ms > 0) {
        task_deadline_pop(&td);
        if (!ok && err->code == ERR_TIMEOUT &&
            time_mono_us() - start >= (int64_t)d->timeout_ms * 1000)
            ok = true;
    }
    return ok;
}

static void dial_step(struct dial *d)
{
    struct epoll_event events[8];
    int running, n = epoll_wait(d->epoll_fd, events, (int)array_len(events), 0);
    if (n <= 0) {
        d->timeout_ms = -1; /* curl sets the next one from inside the call */
        curl_multi_socket_action(d->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        return;
    }
    for (int i = 0; i < n; i++) {
        int mask = (events[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(d->multi, events[i].data.fd, mask, &running);
    }
}

/* Runs the connection phase to its end. */
static bool dial_run(struct dial *d, struct error *err)
{
    for (;;) {
        int left;
        CURLMsg *m = curl_multi_info_read(d->multi, &left);
        if (m && m->msg == CURLMSG_DONE) {
            if (m->data.result == CURLE_OK)
                return true;
            return err_tag(err, ERR_UPSTREAM, 0, "connect", "WebSocket connection failed: %s",
                           d->reason[0] ? d->reason : curl_easy_strerror(m->data.result));
        }
        if (!dial_wait(d, err))
            return false;
        dial_step(d);
    }
}

static bool dial_open(struct dial *d, const struct url *u, const char *http_url, bool no_proxy,
                      struct error *err)
{
    struct url as_http = *u;
    as_http.scheme =
        str_ieqz(u->scheme, "wss") || str_ieqz(u->scheme, "https") ? S("https") : S("http");
    d->timeout_ms = 0;
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->easy = curl_easy_init();
    d->multi = curl_multi_init();
    if (d->epoll_fd < 0 || !d->easy || !d->multi)
        return err_set(err, ERR_NOMEM, "no memory for a WebSocket");
    curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(d->multi, CURLMOPT_SOCKETDATA, d);
    curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(d->multi, CURLMOPT_TIMERDATA, d);
    CURL *e = d->easy;
    curl_easy_setopt(e, CURLOPT_URL, http_url);
    curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, d->reason);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* no h2 by ALPN */
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROXY, "");
    curl_easy_setopt(e, CURLOPT_PROXY, client_proxy(&as_http, no_proxy ? HTTP_CALL_NO_PROXY : 0));
    if (client_ca_file())
        curl_easy_setopt(e, CURLOPT_CAINFO, client_ca_file());
    CURLMcode rc = curl_multi_add_handle(d->multi, e);
    return rc == CURLM_OK || err_set(err, ERR_INTERNAL, "curl: %s", curl_multi_strerror(rc));
}

static void dial_close(struct dial *d)
{
    if (d->easy && d->multi)
        curl_multi_remove_handle(d->multi, d->easy);
    curl_easy_cleanup(d->easy);
    curl_multi_cleanup(d->multi);
    if (d->epoll_fd >= 0)
        close(d->epoll_fd);
    *d = (struct dial){.epoll_fd = -1};
}

static bool send_all(CURL *easy, int fd, struct str s, struct error *err)
{
    while (s.n > 0) {
        size_t n = 0;
        CURLcode rc = curl_easy_send(easy, s.p, s.n, &n);
        if (rc == CURLE_OK)
            s = str_sub(s, n, s.n);
        else if (rc != CURLE_AGAIN)
            return err_set(err, ERR_UPSTREAM, "WebSocket handshake: %s", curl_easy_strerror(rc));
        else if (!task_fd_wait(fd, TASK_WRITE, err))
            return false;
    }
    return true;
}

/* Reads up to the blank line; bytes behind it stay in `in` from *head_n on. */
static bool read_answer(CURL *easy, int fd, struct buf *in, size_t *head_n, struct error *err)
{
    for (;;) {
        ptrdiff_t end = str_find(buf_view(in), S("\r\n\r\n"));
        if (end >= 0) {
            *head_n = (size_t)end + 4;
            return true;
        }
        if (!buf_reserve(in, 1))
            return err_set(err, ERR_UPSTREAM, "WebSocket handshake: the answer is too long");
        size_t n = 0;
        CURLcode rc = curl_easy_recv(easy, in->p + in->n, in->cap - in->n, &n);
        if (rc == CURLE_AGAIN) {
            if (!task_fd_wait(fd, TASK_READ, err))
                return false;
        } else if (rc != CURLE_OK || n == 0) {
            return err_set(err, ERR_UPSTREAM, "WebSocket handshake: the connection was cut off");
        } else {
            in->n += n;
        }
    }
}

static bool list_holds(struct str list, const char *token)
{
    struct str part;
    while (str_split(&list, ',', &part))
        if (str_ieqz(str_trim(part), token))
            return true;
    return false;
}

/* RFC 6455 §4.1: what the server must have answered. */
static bool check_answer(struct str head, const char *accept, const char *subprotocol,
                         struct error *err)
{
    struct str line;
    bool upgrade = false, connection = false, key = false, protocol = !subprotocol;
    int64_t status = 0;
    if (!str_split(&head, '\n', &line) || !str_starts(line, S("HTTP/1.1 ")) ||
        !str_to_i64(str_sub(line, 9, 3), &status))
        return err_set(err, ERR_UPSTREAM, "WebSocket handshake: the answer is not HTTP/1.1");
    if (status != 101)
        return err_set(err, ERR_UPSTREAM, "WebSocket handshake: the server answered %d",
                       (int)status);
    while (str_split(&head, '\n', &line)) {
        ptrdiff_t colon = str_chr(line, ':');
        if (colon < 0)
            continue;
        struct str name = str_sub(line, 0, (size_t)colon),
                   value = str_trim(str_sub(line, (size_t)colon + 1, line.n));
        if (str_ieqz(name, "upgrade"))
            upgrade = str_ieqz(value, "websocket");
        else if (str_ieqz(name, "connection"))
            connection = connection || list_holds(value, "upgrade");
        else if (str_ieqz(name, "sec-websocket-accept"))
            key = str_eqz(value, accept);
        else if (str_ieqz(name, "sec-websocket-extensions"))
            return err_set(err, ERR_UPSTREAM,
                           "WebSocket handshake: an extension was not asked for");
        else if (str_ieqz(name, "sec-websocket-protocol"))
            protocol = subprotocol && str_eqz(value, subprotocol);
    }
    if (!upgrade || !connection || !key || !protocol)
        return err_set(err, ERR_UPSTREAM, "WebSocket handshake: wrong %s",
                       !key        ? "Sec-WebSocket-Accept"
                       : !protocol ? "Sec-WebSocket-Protocol"
                                   : "Upgrade or Connection");
    return true;
}

static bool clean_text(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7f)
            return false;
    return true;
}

struct handshake {
    char key[32], accept[29];
    const struct http_header *headers;
    size_t header_count;
    const char *subprotocol;
};

static bool build_request(struct buf *b, const struct url *u, struct handshake *h,
                          struct error *err)
{
    unsigned char nonce[16];
    bool v6 = str_chr(u->host, ':') >= 0;
    if (!ws_random(nonce, sizeof(nonce)) ||
        EVP_EncodeBlock((unsigned char *)h->key, nonce, sizeof(nonce)) != 24 ||
        !ws_accept_key(str_c(h->key), h->accept))
        return err_set(err, ERR_INTERNAL, "no random bytes");
    buf_z(b, "GET ");
    if (!str_starts(u->path, S("/")))
        buf_c(b, '/');
    buf_str(b, u->path);
    if (u->query.n > 0) {
        buf_c(b, '?');
        buf_str(b, u->query);
    }
    buf_fmt(b, " HTTP/1.1\r\nHost: %s" STR_FMT "%s", v6 ? "[" : "", STR_ARG(u->host),
            v6 ? "]" : "");
    if (u->port)
        buf_fmt(b, ":%u", u->port);
    buf_fmt(
        b,
        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
        h->key);
    if (h->subprotocol)
        buf_fmt(b, "Sec-WebSocket-Protocol: %s\r\n", h->subprotocol);
    for (size_t i = 0; i < h->header_count; i++) {
        if (!clean_text(h->headers[i].name) || !clean_text(h->headers[i].value))
            return err_set(err, ERR_INVALID, "a header holds control characters");
        buf_str(b, h->headers[i].name);
        buf_z(b, ": ");
        buf_str(b, h->headers[i].value);
        buf_z(b, "\r\n");
    }
    buf_z(b, "\r\n");
    return !b->failed || err_set(err, ERR_INVALID, "the headers are too long");
}

static struct ws *connect_with(struct dial *d, const struct url *u, const char *http_url,
                               struct handshake *h, const struct ws_opts *opts, struct error *err)
{
    auto_buf request = BUF(ANSWER_MAX), in = BUF(ANSWER_MAX);
    curl_socket_t fd = CURL_SOCKET_BAD;
    size_t head_n = 0;
    if (!build_request(&request, u, h, err) ||
        !dial_open(d, u, http_url, opts && opts->no_proxy, err) || !dial_run(d, err))
        return NULL;
    if (curl_easy_getinfo(d->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD) {
        err_set(err, ERR_UPSTREAM, "WebSocket connection failed: no socket");
        return NULL;
    }
    if (!send_all(d->easy, fd, buf_view(&request), err) ||
        !read_answer(d->easy, fd, &in, &head_n, err) ||
        !check_answer(str_n(in.p, head_n), h->accept, h->subprotocol, err))
        return NULL;
    /* curl must not call back into this stack frame later. */
    curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, NULL);
    curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, NULL);
    curl_easy_setopt(d->easy, CURLOPT_ERRORBUFFER, NULL);
    struct ws *w = ws_new(fd, opts, NULL, d->easy, d->multi, err);
    if (!w)
        return NULL;
    d->easy = NULL;
    d->multi = NULL;
    if (in.n > head_n)
        ws_feed(w, in.p + head_n, in.n - head_n);
    /* TLS may have decrypted more than was asked for; poll does not tell. */
    ws_pump(w);
    return w;
}

struct ws *ws_connect(const char *url, const struct http_header *headers, size_t header_count,
                      const char *subprotocol, const struct ws_opts *opts, struct error *err)
{
    struct url u;
    struct handshake h = {
        .headers = headers, .header_count = header_count, .subprotocol = subprotocol};
    struct dial d = {.epoll_fd = -1};
    struct task_deadline td;
    if (!url_parse(str_c(url), &u, err))
        return NULL;
    /* curl knows the address as http; the authority stands behind "://" in both. */
    const char *rest = strstr(url, "://");
    bool tls = str_ieqz(u.scheme, "wss") || str_ieqz(u.scheme, "https");
    auto_buf http_url = BUF(16 * 1024);
    if (!rest || !buf_fmt(&http_url, "http%s%s", tls ? "s" : "", rest)) {
        err_set(err, ERR_INVALID, "the WebSocket URL is too long");
        return NULL;
    }
    task_deadline_push(&td, CONNECT_MS);
    struct ws *w = connect_with(&d, &u, buf_cstr(&http_url), &h, opts, err);
    task_deadline_pop(&td);
    dial_close(&d);
    return w;
}
