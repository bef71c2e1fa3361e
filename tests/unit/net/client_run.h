/* What the tests of the HTTP client share: a peer, a client and a body that runs in a fiber. */
#ifndef PARLEY_TEST_CLIENT_RUN_H
#define PARLEY_TEST_CLIENT_RUN_H

#include "net/net.h"

#include "support/fake_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* Each test: a peer, a client and a body that runs in a fiber. cmocka leaves by longjmp, which
 * must not cross the fiber switch, so a failure inside is carried out by the result. */
struct run {
    struct fake_peer peer;
    void (*body)(struct run *r);
    struct http_client_opts opts;
    struct arena *arena;
    char url[256];
    char failed[1200];
};

#define check(r, cond)                                                                          \
    do {                                                                                        \
        if (!(cond)) {                                                                          \
            snprintf((r)->failed, sizeof((r)->failed), "%s:%d: %s", __FILE__, __LINE__, #cond); \
            return;                                                                             \
        }                                                                                       \
    } while (0)
#define check_ok(r, cond, err)                                                                     \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            snprintf((r)->failed, sizeof((r)->failed), "%s:%d: %s: %s", __FILE__, __LINE__, #cond, \
                     (err).msg);                                                                   \
            return;                                                                                \
        }                                                                                          \
    } while (0)

void client_run_with(void (*serve)(struct fake_peer *, int, int), void (*body)(struct run *r),
                     const struct http_client_opts *opts);
void client_run(void (*serve)(struct fake_peer *, int, int), void (*body)(struct run *r));
/* GET of r->url within 5 s. */
bool client_get(struct run *r, struct http_result *out, struct error *err);
/* GET of a path of r's peer; other settings from `call`. */
bool client_get_path(struct run *r, const char *path, struct http_call call,
                     struct http_result *res, struct error *err);
long resident_kib(void);
void unset_proxies(void);

/* Peers: "hello" to every request; 20 MiB with ("/sized") or without a declared length. */
void serve_hello(struct fake_peer *p, int conn, int index);
void serve_big(struct fake_peer *p, int conn, int index);

#endif
