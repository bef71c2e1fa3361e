/* A bare HTTP client for tests of the server: bytes out, answers in, from a fiber of the same loop.
 * Failures fail the test. */
#ifndef PARLEY_TEST_RAW_CLIENT_H
#define PARLEY_TEST_RAW_CLIENT_H

#include "net/net.h"

struct raw {
    int fd;
    struct buf in; /* received, not yet used */
};
struct raw_answer {
    int status;
    struct str head, body; /* views into memory of `keep` */
    bool cut;              /* the connection ended before the answer was whole */
    struct arena *keep;
};
struct raw raw_open(uint16_t port);
void raw_close(struct raw *c);
void raw_send(struct raw *c, struct str s);
#define raw_put(c, lit) raw_send((c), S(lit))
/* Waits up to 5 s for one answer; body by length, chunks or close. no_body: to a HEAD request. */
struct raw_answer raw_answer(struct raw *c, bool no_body);
void raw_answer_free(struct raw_answer *a);
struct str raw_header(const struct raw_answer *a, const char *name);
/* Reads at least n bytes into c->in. False: the peer closed. */
bool raw_fill(struct raw *c, size_t n);
bool raw_at_end(struct raw *c); /* waits for the close; false: more bytes or 5 s passed */
/* Open descriptors of this process. */
size_t raw_fd_count(void);

#endif
