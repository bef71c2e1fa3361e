/* Tests of the jail: a backend of their own, sessions and commands in one line. */
#ifndef TESTS_UNIT_BOX_JAIL_LAB_H
#define TESTS_UNIT_BOX_JAIL_LAB_H

#include "box/backend.h"

struct lab {
    struct box_backend_env env;
    const struct box_backend *b;
    void *self;
    struct box_probe probe;
    char dir[64];     /* of the test, 0700; removed at the end */
    char shared[128]; /* below it: a directory for mounts, 0755 */
    int shared_fd;
    const char *workdir; /* of commands */
};

/* Runs fn in a fiber with a backend; skips the test, and says why, where the kernel refuses. */
void lab_run(void (*fn)(struct lab *lab));
/* A session with usual limits, changed by the caller before lab_start. */
struct box_session_spec lab_spec(struct lab *lab);
void *lab_start(struct lab *lab, const struct box_session_spec *spec); /* asserts */
struct said {
    int code;
    bool timed_out;
    char out[800], err[800]; /* beginning, without a line feed at the end */
};
struct said lab_exec(struct lab *lab, void *session, const char *cmd); /* asserts that it ran */
struct said lab_exec_ms(struct lab *lab, void *session, const char *cmd, int64_t ms);
/* exec in a new session with `shared` as its workspace. */
struct said lab_once(struct lab *lab, const char *cmd);
/* Number of processes on the machine with the text in their command line. */
int lab_processes(const char *text);
/* Waits until there are none; false after 10 s. */
bool lab_gone(const char *text);
/* A number for `sleep` that no other process has. */
const char *lab_seconds(void);
/* Directories of this backend's runtime among the control groups. */
int lab_cgroups(const char *instance);

#endif
