/* A store on a fresh database of either engine, with two workspaces. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "store/store.h"
#include "support/pg_server.h"

struct fixture {
    struct store st;
    struct scope a, b; /* two workspaces of different instances, made by fixture_open */
    char account[UUID_SIZE];
    char dir[64];
};
/* Inside a fiber. PostgreSQL: a database of its own on the server, owned by a role without privileges. */
void fixture_open(struct fixture *f, enum db_kind kind, const struct pg_server *pg);
void fixture_close(struct fixture *f);
/* A valid row of any table, with parents made where foreign keys want them; `n` makes it unique. New reference. */
json_t *fixture_row(struct fixture *f, const struct table *t, const struct scope *scope, int n);
/* Inserts it; the stored row. */
json_t *fixture_insert(struct fixture *f, const struct table *t, const struct scope *scope, int n);
/* Starts the server once per program; NULL (with a message) when it is not installed. */
const struct pg_server *fixture_server(void);
void fixture_server_stop(void);

#endif
