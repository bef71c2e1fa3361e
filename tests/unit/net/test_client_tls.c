/* TLS of the HTTP client: whom it trusts, and that connections are kept. */
#include "net/client_run.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

static SSL_CTX *server;
static char ca_path[64];

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

/* A certificate for 127.0.0.1 that is its own authority, as a PEM file and in a server's context. */
static int set_up(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"peer", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, "IP:127.0.0.1");
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);

    snprintf(ca_path, sizeof(ca_path), "/tmp/parley-ca-XXXXXX");
    int fd = mkstemp(ca_path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_true(PEM_write_X509(f, cert) == 1);
    fclose(f);

    server = SSL_CTX_new(TLS_server_method());
    assert_true(SSL_CTX_use_certificate(server, cert) == 1);
    assert_true(SSL_CTX_use_PrivateKey(server, key) == 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    return 0;
}

static int tear_down(void **state)
{
    SSL_CTX_free(server);
    unlink(ca_path);
    return 0;
}

static void serve_tls(struct fake_peer *p, int conn, int index)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    char request[4096];
    SSL *ssl = SSL_new(server);
    SSL_set_fd(ssl, conn);
    if (SSL_accept(ssl) == 1) {
        while (SSL_read(ssl, request, sizeof(request)) > 0) {
            atomic_fetch_add(&p->requests, 1);
            if (SSL_write(ssl, answer, sizeof(answer) - 1) <= 0)
                break;
        }
    }
    SSL_free(ssl);
}

static bool get_tls(struct run *r, const char *host, struct http_result *res, struct error *err)
{
    char url[64];
    snprintf(url, sizeof(url), "https://%s:%u/", host, r->peer.port);
    struct http_call call = {.method = "GET", .url = url, .total_ms = 5000};
    *err = (struct error){0};
    return http_fetch(r->arena, &call, res, err);
}

static void body_trusted(struct run *r)
{
    struct http_result res;
    struct error err;
    for (int i = 0; i < 3; i++) {
        check_ok(r, get_tls(r, "127.0.0.1", &res, &err), err);
        check(r, str_eqz(res.body, "secret"));
    }
    check(r, atomic_load(&r->peer.accepted) == 1 && atomic_load(&r->peer.requests) == 3);
    /* The name is checked, not only the signature. */
    check(r, !get_tls(r, "localhost", &res, &err) && err.code == ERR_UPSTREAM);
    check(r, err.tag && strcmp(err.tag, "connect") == 0);
    check(r, atomic_load(&r->peer.requests) == 3);
    http_client_end(); /* closes the connections, so that the peer's threads end */
    check_ok(r, http_client_init(NULL, &err), err);
}

static void test_by_setting(void **state)
{
    const struct http_client_opts opts = {.ca_file = ca_path};
    client_run_with(serve_tls, body_trusted, &opts);
}

static void test_by_environment(void **state)
{
    setenv("SSL_CERT_FILE", ca_path, 1);
    client_run(serve_tls, body_trusted);
    unsetenv("SSL_CERT_FILE");
}

static void body_unknown(struct run *r)
{
    struct http_result res;
    struct error err;
    check(r, !get_tls(r, "127.0.0.1", &res, &err) && err.code == ERR_UPSTREAM);
    check(r, err.tag && strcmp(err.tag, "connect") == 0 && strstr(err.msg, "certificate"));
    check(r, atomic_load(&r->peer.requests) == 0);
}

static void test_unknown_authority(void **state)
{
    client_run(serve_tls, body_unknown);
}

int main(void)
{
    base_init();
    unset_proxies();
    unsetenv("SSL_CERT_FILE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_setting),
        cmocka_unit_test(test_by_environment),
        cmocka_unit_test(test_unknown_authority),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
