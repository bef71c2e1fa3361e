/* The server under test, its routes and what they saw, for the tests of the HTTP server. */
#ifndef PARLEY_TEST_HTTP_FIXTURE_H
#define PARLEY_TEST_HTTP_FIXTURE_H

#include "net/raw_client.h"

enum { FLOOD = 24 << 20, BIG = 3 << 20 };

extern struct http_server *server;
extern uint16_t port;
extern size_t after_count, after_bytes;
extern int after_status, gone_seen;
extern char after_id[600];
extern bool stream_failed;
extern struct task_cond gate_open; /* what /wait waits for */
extern size_t flood_written;
extern char big_static[BIG];
extern const struct http_route routes[];
extern const size_t route_count; /* with the end mark */
extern const struct http_route *const tables[];

struct test {
    void (*fn)(void);
    struct http_server_opts opts;
};
/* Runs a test body on a loop of its own; no memory and no descriptor may be left of it. */
void serve(struct test t);
#define SERVE(fn, ...)                           \
    static void test_##fn(void **state)          \
    {                                            \
        serve((struct test){fn, {__VA_ARGS__}}); \
    }
/* Reads one answer; body NULL: any. */
void expect(struct raw *c, int status, const char *body);
/* One request on a connection of its own. */
void once(const char *request, int status, const char *body);
/* Opens what stays open for good, so that serve() does not count it. */
void warm_up(void);
#define H "Host: x\r\n"

#endif
