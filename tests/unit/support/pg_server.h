/* A private PostgreSQL server for one test program: unix socket in a temporary folder, nothing kept. */
#ifndef TESTS_PG_SERVER_H
#define TESTS_PG_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct pg_server {
    char dir[64]; /* also the folder of the socket: the `host` of a connection */
    pid_t pid;
    const char
        *skip; /* why it could not be started because something is not installed; NULL otherwise */
};
/* Databases `app` (owned by the role app, no superuser) and `postgres`. False: see `skip`, or a failure when it is NULL. */
bool pg_server_start(struct pg_server *s);
void pg_server_stop(struct pg_server *s);
/* Runs SQL as superuser in database `db` with psql; false when it failed. */
bool pg_server_sql(const struct pg_server *s, const char *db, const char *sql);

/* Removes a folder and all in it. */
void remove_tree(const char *path);

#endif
