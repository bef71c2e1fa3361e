/* libcurl's multi interface on the loop: one timer, one poll handle for each connection, pooled
 * easy handles. curl does its work in callbacks of the loop, never on a fiber's small stack, but
 * for adding and removing a transfer. */
#include "net/client_private.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

enum {
    POOL_MAX = 128,
    KEEP_IDLE_DEFAULT = 256,
    KEEP_IDLE_STEP = 256,
    KEEP_AGE_S = 50, /* below the usual 60 s after which load balancers drop idle connections */
    SEND_BUFFER = 16 * 1024,
};

/* A socket that libuv watches. `mask` is what is registered, `want` what curl asks for: an idle
 * kept connection stays registered, so that its next request costs no system call. It is stopped
 * when an event comes that nobody wants. */
struct sock {
    uv_poll_t poll;
    curl_socket_t fd;
    int mask, want;
    bool ours; /* opened by client_socket; else a socket of curl's resolver */
};

static struct {
    CURLM *multi;
    struct task_timer timer;
    struct sock **socks; /* by descriptor */
    size_t sock_cap, closing;
    struct task *ender;     /* waits in http_client_end until `closing` is 0 */
    struct list pool, left; /* `left`: nobody waits for them (client_leave) */
    size_t pooled, running, keep_idle, keep_set;
    char *proxy_http, *proxy_https, *no_proxy, *ca_file;
    bool refuse_private;
} client;

/* ---- sockets --------------------------------------------------------------------------------- */

static void finish(struct http_stream *x, CURLcode code)
{
    curl_multi_remove_handle(client.multi, x->easy);
    x->added = false;
    x->done = true;
    x->code = code;
    client.running--;
    if (x->left)
        client_give_back(x);
    else if (x->waiter)
        task_wake(x->waiter);
}

static void drain(void)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(client.multi, &left))) {
        if (m->msg != CURLMSG_DONE)
            continue;
        char *x = NULL;
        CURLcode code = m->data.result; /* `m` is gone once the handle is removed */
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
        finish((struct http_stream *)(void *)x, code);
    }
}

static void act(curl_socket_t fd, int what)
{
    int running;
    curl_multi_socket_action(client.multi, fd, what, &running);
    drain();
}

static void on_timer(void *arg)
{
    act(CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_timer(CURLM *multi, long ms, void *arg)
{
    if (ms < 0)
        task_timer_stop(&client.timer);
    else
        task_timer_start(&client.timer, ms, on_timer, NULL);
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sock *s = container_of(poll, struct sock, poll);
    int what = 0;
    if (s->want == 0) {
        uv_poll_stop(&s->poll);
        s->mask = 0;
        return;
    }
    if (status < 0) {
        /* A reset, say. libuv has stopped the watch; curl is to find the error by itself when it
         * reads, because only then does it see that a kept connection had died and tries again. */
        s->mask = uv_poll_start(&s->poll, s->want, on_poll) == 0 ? s->want : 0;
        events = s->want;
    }
    if (events & UV_READABLE)
        what |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        what |= CURL_CSELECT_OUT;
    act(s->fd, what);
}

static void on_poll_closed(uv_handle_t *handle)
{
    mem_free(container_of((uv_poll_t *)(void *)handle, struct sock, poll));
    if (--client.closing == 0 && client.ender)
        task_wake(client.ender);
}

static struct sock *sock_of(curl_socket_t fd)
{
    return fd >= 0 && (size_t)fd < client.sock_cap ? client.socks[fd] : NULL;
}

static struct sock *sock_add(curl_socket_t fd, bool ours)
{
    if ((size_t)fd >= client.sock_cap) {
        size_t cap = client.sock_cap ? client.sock_cap : 64;
        while (cap <= (size_t)fd)
            cap *= 2;
        struct sock **socks = mem_realloc(client.socks, cap * sizeof(struct sock *));
        if (!socks)
            return NULL;
        memset(socks + client.sock_cap, 0, (cap - client.sock_cap) * sizeof(struct sock *));
        client.socks = socks;
        client.sock_cap = cap;
    }
    struct sock *s = new (struct sock);
    if (!s)
        return NULL;
    if (uv_poll_init(task_loop(), &s->poll, fd) < 0) {
        mem_free(s);
        return NULL;
    }
    s->fd = fd;
    s->ours = ours;
    client.socks[fd] = s;
    return s;
}

static void sock_drop(struct sock *s)
{
    client.socks[s->fd] = NULL;
    client.closing++;
    uv_close((uv_handle_t *)&s->poll, on_poll_closed);
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct sock *s = sock_of(fd);
    if (what == CURL_POLL_REMOVE || what == CURL_POLL_NONE) {
        if (s && !s->ours)
            sock_drop(s);
        else if (s)
            s->want = 0;
        return 0;
    }
    /* Failing here would end every transfer; without the watch this one alone runs into its time
     * limit. */
    if (!s && !(s = sock_add(fd, false)))
        return 0;
    s->want = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    if (s->want != s->mask && uv_poll_start(&s->poll, s->want, on_poll) == 0)
        s->mask = s->want;
    return 0;
}

curl_socket_t client_socket(const struct curl_sockaddr *address)
{
    int fd = socket(address->family, address->socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    if (!sock_add(fd, true)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd;
}

static int on_close_socket(void *arg, curl_socket_t fd)
{
    struct sock *s = sock_of(fd);
    if (s)
        sock_drop(s);
    return close(fd);
}

/* ---- policy, at the moments when the address is known ---------------------------------------- */

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_stream *x = arg;
    if ((x->flags & HTTP_CALL_NO_PRIVATE) && !x->via_proxy && policy_refuses(&address->addr)) {
        const void *raw =
            address->family == AF_INET6
                ? (const void *)&((struct sockaddr_in6 *)(void *)&address->addr)->sin6_addr
                : (const void *)&((struct sockaddr_in *)(void *)&address->addr)->sin_addr;
        char text[sizeof(x->denied)];
        uv_inet_ntop(address->family, raw, text, sizeof(text));
        memcpy(x->denied, text, sizeof(text));
        return CURL_SOCKET_BAD;
    }
    return client_socket(address);
}

/* Just before the request goes out, on kept connections too: those may have been opened by a
 * call without the policy. */
static int on_request(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct http_stream *x = arg;
    if (x->flags & HTTP_CALL_NO_PRIVATE) {
        bool refuse;
        struct url url;
        struct error err;
        char *now = NULL;
        if (x->via_proxy) {
            curl_easy_getinfo(x->easy, CURLINFO_EFFECTIVE_URL, &now);
            refuse = !url_parse(str_c(now), &url, &err) || policy_refuses_host(url.host);
        } else {
            refuse = policy_refuses_text(remote);
        }
        if (refuse) {
            struct str from = str_c(x->via_proxy ? "address" : remote);
            size_t n = from.n < sizeof(x->denied) ? from.n : sizeof(x->denied) - 1;
            memcpy(x->denied, from.p, n);
            x->denied[n] = '\0';
            return CURL_PREREQFUNC_ABORT;
        }
    }
    x->started = true;
    return CURL_PREREQFUNC_OK;
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* What never changes from call to call is set once; client_call.c sets the rest each time. */
static void set_constants(struct http_stream *x)
{
    CURL *e = x->easy;
    curl_easy_setopt(e, CURLOPT_PRIVATE, x);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->curl_error);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, call_on_head);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, call_on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT,
                     1L); /* do not join a resolver thread on abort: that blocks the loop */
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND_BUFFER);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)KEEP_AGE_S);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROXY, ""); /* client_proxy decides */
    curl_easy_setopt(e, CURLOPT_USERAGENT, "parley/" PARLEY_VERSION);
    if (client.ca_file)
        curl_easy_setopt(e, CURLOPT_CAINFO, client.ca_file);
}

struct http_stream *client_take(struct error *err)
{
    if (!client.multi) {
        err_set(err, ERR_INTERNAL, "the HTTP client is not started");
        return NULL;
    }
    struct list *node = list_pop(&client.pool);
    if (node) {
        client.pooled--;
        return container_of(node, struct http_stream, node);
    }
    struct http_stream *x = new (struct http_stream);
    if (x && !(x->easy = curl_easy_init())) {
        mem_free(x);
        x = NULL;
    }
    if (!x) {
        err_set(err, ERR_NOMEM, "no memory for an HTTP request");
        return NULL;
    }
    x->head = BUF(XFER_HEAD_MAX + 1024);
    set_constants(x);
    return x;
}

static void destroy(struct http_stream *x)
{
    curl_easy_cleanup(x->easy);
    curl_slist_free_all(x->headers);
    buf_free(&x->head);
    buf_free(&x->rx);
    buf_free(&x->cur);
    mem_free(x);
}

void client_give_back(struct http_stream *x)
{
    client_abort(x);
    task_timer_stop(&x->limit);
    list_del(&x->node);
    if (client.pooled >= POOL_MAX) {
        destroy(x);
        return;
    }
    /* The caller's memory must not be reachable from the pool. */
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, NULL);
    curl_slist_free_all(x->headers);
    buf_free(&x->rx);
    buf_free(&x->cur);
    struct buf head = x->head;
    if (head.cap > 4096)
        buf_free(&head);
    buf_clear(&head);
    *x = (struct http_stream){.easy = x->easy, .head = head};
    list_push_front(&client.pool, &x->node);
    client.pooled++;
}

static void on_left_too_long(void *arg)
{
    client_give_back(arg);
}

void client_leave(struct http_stream *x, int64_t ms)
{
    x->left = true;
    list_push(&client.left, &x->node);
    task_timer_start(&x->limit, ms, on_left_too_long, x);
}

bool client_start(struct http_stream *x, struct error *err)
{
    /* curl counts connections in use as well, and closes an idle one when there are more than
     * this. */
    size_t keep = client.keep_idle + (client.running / KEEP_IDLE_STEP + 1) * KEEP_IDLE_STEP;
    if (keep != client.keep_set) {
        curl_multi_setopt(client.multi, CURLMOPT_MAXCONNECTS, (long)keep);
        client.keep_set = keep;
    }
    CURLMcode code = curl_multi_add_handle(client.multi, x->easy);
    if (code != CURLM_OK)
        return err_set(err, ERR_INTERNAL, "HTTP request to %s: %s", x->origin,
                       curl_multi_strerror(code));
    x->added = true;
    client.running++;
    return true;
}

void client_abort(struct http_stream *x)
{
    if (!x->added)
        return;
    curl_multi_remove_handle(client.multi, x->easy);
    x->added = false;
    client.running--;
}

const char *client_ca_file(void)
{
    return client.ca_file;
}

unsigned client_flags(unsigned flags)
{
    return client.refuse_private && (flags & HTTP_CALL_TENANT) ? flags | HTTP_CALL_NO_PRIVATE
                                                               : flags;
}

const char *client_proxy(const struct url *url, unsigned flags)
{
    const char *proxy = str_ieqz(url->scheme, "https") ? client.proxy_https : client.proxy_http;
    if (!proxy || (flags & HTTP_CALL_NO_PROXY) || policy_is_loopback(url->host))
        return "";
    return policy_no_proxy(client.no_proxy, url->host) ? "" : proxy;
}

/* ---- start and end --------------------------------------------------------------------------- */

/* The setting, else the first environment variable that is set and not empty; NULL if there is
 * none. */
static bool choose(char **out, const char *setting, const char *const *names, struct error *err)
{
    const char *value = setting && setting[0] ? setting : NULL;
    for (size_t i = 0; !value && names[i]; i++) {
        value = getenv(names[i]);
        if (value && !value[0])
            value = NULL;
    }
    *out = value ? mem_strndup(value, strlen(value)) : NULL;
    return !value || *out || err_set(err, ERR_NOMEM, "no memory for the HTTP client");
}

static bool choose_all(const struct http_client_opts *opts, struct error *err)
{
    static const char *const http[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
    static const char *const https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    static const char *const none[] = {"no_proxy", "NO_PROXY", NULL};
    static const char *const ca[] = {"SSL_CERT_FILE", NULL};

    return choose(&client.proxy_http, opts->proxy_http, http, err) &&
           choose(&client.proxy_https, opts->proxy_https, https, err) &&
           choose(&client.no_proxy, NULL, none, err) &&
           choose(&client.ca_file, opts->ca_file, ca, err);
}

static bool set_allowed(const char *const *texts, struct error *err)
{
    size_t n = 0;
    while (texts && texts[n])
        n++;
    if (n == 0) {
        policy_allow(NULL, 0);
        return true;
    }
    struct policy_cidr *list = mem_alloc(n * sizeof(struct policy_cidr));
    if (!list)
        return err_set(err, ERR_NOMEM, "no memory for the HTTP client");
    for (size_t i = 0; i < n; i++) {
        if (!policy_cidr_parse(str_c(texts[i]), &list[i])) {
            mem_free(list);
            return err_set(err, ERR_INVALID,
                           "\"%s\" is no network of the form 10.0.0.0/8 or fd00::/8", texts[i]);
        }
    }
    policy_allow(list, n);
    return true;
}

static void release(void)
{
    mem_free(client.socks);
    mem_free(client.proxy_http);
    mem_free(client.proxy_https);
    mem_free(client.no_proxy);
    mem_free(client.ca_file);
    policy_allow(NULL, 0);
    memset(&client, 0, sizeof(client));
}

bool http_client_init(const struct http_client_opts *opts, struct error *err)
{
    static bool global;
    static const struct http_client_opts defaults;

    if (client.multi)
        return err_set(err, ERR_INTERNAL, "the HTTP client is already started");
    if (!global && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl cannot be started");
    global = true;
    opts = opts ? opts : &defaults;
    if (!choose_all(opts, err) || !set_allowed(opts->allow_private, err)) {
        release();
        return false;
    }
    if (!(client.multi = curl_multi_init())) {
        release();
        return err_set(err, ERR_NOMEM, "no memory for the HTTP client");
    }
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes with write(2) */
    list_init(&client.pool);
    list_init(&client.left);
    client.refuse_private = opts->refuse_private;
    client.keep_idle = opts->keep_idle ? opts->keep_idle : KEEP_IDLE_DEFAULT;
    curl_multi_setopt(client.multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(client.multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(client.multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return true;
}

void http_client_end(void)
{
    if (!client.multi)
        return;
    struct list *node;
    while (!list_empty(&client.left))
        client_give_back(container_of(client.left.next, struct http_stream, node));
    while ((node = list_pop(&client.pool)))
        destroy(container_of(node, struct http_stream, node));
    curl_multi_cleanup(client.multi);
    task_timer_stop(&client.timer);
    if (task_in_fiber()) {
        /* libuv frees a closed handle in its next round; the memory is ours. Must not be cut
         * short by a cancellation. */
        struct error err;
        task_shield(true);
        client.ender = task_self();
        while (client.closing > 0 && (task_park(&err) || err.code == ERR_CANCELED))
            continue;
        while (client.closing > 0) /* the fiber's deadline has passed */
            task_yield();
        client.ender = NULL;
        task_shield(false);
    }
    release();
}

size_t http_client_running(void)
{
    return client.running;
}
