/* wss:// through libcurl: a thread ends TLS in front of our own server. */
#include "net/raw_client.h"
#include "net/ws_private.h"

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct proxy {
    SSL_CTX *ctx;
    int fd;
    uint16_t port, target;
    pthread_t thread;
    atomic_int delay_ms; /* before each read from the client: makes it slow */
};

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

/* Self-signed, for 127.0.0.1; also written to `path` as the CA bundle. */
static X509 *make_cert(EVP_PKEY *key, const char *path)
{
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(x, san, -1);
    X509_EXTENSION_free(san);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    PEM_write_X509(f, x);
    fclose(f);
    return x;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool write_whole(int fd, const char *p, int n)
{
    while (n > 0) {
        ssize_t r = send(fd, p, (size_t)n, MSG_NOSIGNAL);
        if (r <= 0)
            return false;
        p += r;
        n -= (int)r;
    }
    return true;
}

static void pump(struct proxy *p, SSL *ssl, int out)
{
    static char text[16384];
    struct pollfd fds[2] = {{SSL_get_fd(ssl), POLLIN, 0}, {out, POLLIN, 0}};
    for (;;) {
        if (SSL_pending(ssl) == 0 && poll(fds, 2, 10000) <= 0)
            return;
        if (SSL_pending(ssl) > 0 || fds[0].revents) {
            if (p->delay_ms)
                usleep((useconds_t)p->delay_ms * 1000);
            int n = SSL_read(ssl, text, sizeof(text));
            if (n <= 0 || !write_whole(out, text, n))
                return;
        }
        if (fds[1].revents) {
            ssize_t n = recv(out, text, sizeof(text), 0);
            if (n <= 0 || SSL_write(ssl, text, (int)n) <= 0)
                return;
        }
        fds[0].revents = fds[1].revents = 0;
    }
}

static void *proxy_main(void *arg)
{
    struct proxy *p = arg;
    for (;;) {
        int in = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC);
        if (in < 0)
            return NULL;
        int small = 65536;
        setsockopt(in, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        SSL *ssl = SSL_new(p->ctx);
        SSL_set_fd(ssl, in);
        int out = SSL_accept(ssl) == 1 ? connect_to(p->target) : -1;
        if (out >= 0) {
            pump(p, ssl, out);
            close(out);
        }
        SSL_free(ssl);
        close(in);
    }
}

static void proxy_start(struct proxy *p, uint16_t target, const char *ca_path)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    EVP_PKEY *key = make_key();
    X509 *cert = make_cert(key, ca_path);
    p->target = target;
    p->ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(p->ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(p->ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(p->fd, 8), 0);
    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&a, &n), 0);
    p->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
}

static void proxy_stop(struct proxy *p)
{
    shutdown(p->fd, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->fd);
    SSL_CTX_free(p->ctx);
}

static void h_echo(struct http_request *r)
{
    struct error err;
    struct ws_msg m;
    struct ws *w = ws_accept(r, NULL, &err);
    assert_non_null(w);
    while (ws_recv(w, &m, &err))
        if (!ws_send(w, m.type, m.data, &err))
            break;
    ws_close(w);
}

/* Returns the most bytes that waited for the socket. */
static size_t echo(struct ws *w, char *text, size_t n, int times)
{
    size_t queued = 0;
    struct error err;
    struct ws_msg m;
    for (int i = 0; i < times; i++) {
        text[0] = (char)('a' + i % 26);
        if (!ws_send(w, WS_BINARY, str_n(text, n), &err))
            fail_msg("%s", err.msg);
        queued = ws_queued(w) > queued ? ws_queued(w) : queued;
        if (i % 3 == 1)
            task_yield();
    }
    for (int i = 0; i < times; i++) {
        if (!ws_recv(w, &m, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(m.data.n, n);
        assert_int_equal(m.data.p[0], 'a' + i % 26);
        assert_memory_equal(m.data.p + 1, text + 1, n - 1);
    }
    return queued;
}

static int in_task(void *arg)
{
    static const struct http_route routes[] = {{HTTP_M_GET, "/ws", .handler = h_echo},
                                               {.pattern = NULL}};
    static const struct http_route *const tables[] = {routes, NULL};
    struct http_server_opts o = {.host = "127.0.0.1", .tables = tables};
    struct error err = {0};
    struct proxy proxy = {0};
    char ca[] = "/tmp/parley-test-ca-XXXXXX", url[64];
    int ca_fd = mkstemp(ca);
    assert_true(ca_fd >= 0);
    close(ca_fd);
    struct http_server *s = http_server_new(&o, &err);
    assert_non_null(s);
    proxy_start(&proxy, http_server_port(s), ca);
    snprintf(url, sizeof(url), "wss://127.0.0.1:%u/ws", proxy.port);
    /* Not trusted without the bundle. */
    assert_true(http_client_init(&(struct http_client_opts){0}, &err));
    assert_null(ws_connect(url, NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_UPSTREAM);
    http_client_end();
    assert_true(http_client_init(&(struct http_client_opts){.ca_file = ca}, &err));
    struct ws *w = ws_connect(url, NULL, 0, NULL, NULL, &err);
    if (!w)
        fail_msg("%s", err.msg);
    char *text = mem_alloc(300000);
    memset(text, 'x', 300000);
    echo(w, text, 5, 3);
    echo(w, text, 40000, 20);
    /* A slow peer: the queue grows (and moves) while a TLS record waits to be taken. */
    proxy.delay_ms = 2;
    assert_true(echo(w, text, 60000, 100) > 100000);
    assert_int_equal(ws_queued(w), 0);
    mem_free(text);
    ws_close(w);
    http_client_end();
    proxy_stop(&proxy);
    http_server_stop(s, 1000);
    unlink(ca);
    return 0;
}

static void test_wss(void **state)
{
    assert_int_equal(task_run(in_task, NULL), 0);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    curl_global_init(CURL_GLOBAL_ALL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
