#include "store/fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct pg_server server;
static bool started;

const struct pg_server *fixture_server(void)
{
    if (!started) {
        started = true;
        if (!pg_server_start(&server) && !server.skip) {
            fail_msg("the PostgreSQL server did not start; its log is in %s", server.dir);
        }
    }
    if (server.skip) {
        print_message("skipped: %s\n", server.skip);
    }
    return server.skip ? NULL : &server;
}

void fixture_server_stop(void)
{
    if (started && !server.skip) {
        pg_server_stop(&server);
    }
}

static void open_database(struct fixture *f, enum db_kind kind, const struct pg_server *pg)
{
    static int number;
    struct error e;
    char path[128], name[32], sql[128];
    struct db_opts o = {.kind = kind};
    if (kind == DB_SQLITE) {
        snprintf(f->dir, sizeof(f->dir), "/tmp/parley-store-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(path, sizeof(path), "%s/a.db", f->dir);
        o.path = path;
    } else {
        snprintf(name, sizeof(name), "store%d", ++number);
        snprintf(sql, sizeof(sql), "CREATE DATABASE %s OWNER app", name);
        assert_true(pg_server_sql(pg, "postgres", sql));
        snprintf(sql, sizeof(sql), "ALTER SCHEMA public OWNER TO app");
        assert_true(pg_server_sql(pg, name, sql));
        o.host = pg->dir;
        o.user = "app";
        o.database = name;
        o.pool_size = 4;
    }
    f->st.db = db_open(&o, &e);
    if (!f->st.db || !db_migrate(f->st.db, NULL, &e)) {
        fail_msg("%s", e.msg);
    }
}

static void workspace(struct fixture *f, struct scope *s, const char *uuid, const char *instance)
{
    struct error e;
    *s = (struct scope){.generation = 1};
    snprintf(s->instance, sizeof(s->instance), "%s", instance);
    snprintf(s->workspace, sizeof(s->workspace), "%s", uuid);
    auto_json row =
        json_pack("{s:s, s:s, s:s}", "instance_uuid", instance, "name", "W", "slug", "w");
    auto_json stored = store_do_insert(&f->st, &table_workspaces, s, row, &e);
    if (!stored) {
        fail_msg("%s", e.msg);
    }
}

void fixture_open(struct fixture *f, enum db_kind kind, const struct pg_server *pg)
{
    struct error e;
    *f = (struct fixture){.st = {.db = NULL}};
    memset(f->st.key.k, 7, sizeof(f->st.key.k));
    open_database(f, kind, pg);
    auto_json row = json_pack("{s:s, s:s, s:s}", "user", "A@example.org", "normalized_email",
                              "a@example.org", "password", "");
    auto_json account = store_do_insert(&f->st, &table_users, NULL, row, &e);
    if (!account) {
        fail_msg("%s", e.msg);
    }
    snprintf(f->account, sizeof(f->account), "%s", json_z(account, "uuid"));
    workspace(f, &f->a, "aaaaaaaa-0000-4000-8000-000000000001", "instance-a");
    workspace(f, &f->b, "bbbbbbbb-0000-4000-8000-000000000002", "instance-b");
}

void fixture_close(struct fixture *f)
{
    db_close(f->st.db);
    if (f->dir[0]) {
        remove_tree(f->dir);
    }
}

/* What the checks of a table want instead of any text. */
static const struct {
    const struct table *t;
    const char *column, *value;
} fixed[] = {
    {&table_memberships, "role", "\"viewer\""},
    {&table_invitations, "role", "\"viewer\""},
    {&table_directory_states, "snapshot_fingerprint",
     "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\""},
    {&table_directory_inbox, "fingerprint",
     "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\""},
    {&table_plugin_settings, "artifact_digest",
     "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\""},
    {&table_support_sessions, "grant_jti_hash", NULL},
    {&table_directory_states, "cursor", "5"},
};

static const struct {
    const struct table *child;
    const char *column;
    const struct table *parent;
} parents[] = {
    {&table_bot_admins, "bot_uuid", &table_bots},
    {&table_run_records, "pipeline_uuid", &table_pipelines},
    {&table_codex_credentials, "provider_uuid", &table_providers},
    {&table_llm_models, "provider_uuid", &table_providers},
    {&table_embedding_models, "provider_uuid", &table_providers},
    {&table_rerank_models, "provider_uuid", &table_providers},
    {&table_knowledge_files, "kb_id", &table_knowledge_bases},
    {&table_knowledge_chunks, "file_id", &table_knowledge_files},
};

static json_t *value_of(const struct column *c, int n)
{
    char text[80];
    int width = c->max && c->max < 64 ? (c->max < 10 ? c->max : 10) : 64;
    switch (c->type) {
    case COL_STR:
    case COL_TEXT: snprintf(text, sizeof(text), "%0*d", width, n); return json_string(text);
    case COL_JSON: return json_pack("{s:s, s:[i]}", "k", "vä", "n", n);
    case COL_INT: return json_integer(n + 1);
    case COL_FLOAT: return json_real(n + 0.5);
    case COL_BOOL: return json_true();
    case COL_TIME: return json_string("2026-01-02T03:04:05.000006");
    case COL_BLOB: return json_string("AAEC");
    }
    return NULL;
}

json_t *fixture_row(struct fixture *f, const struct table *t, const struct scope *scope, int n)
{
    json_t *row = json_object();
    const unsigned filled = COL_SCOPE | COL_AUTO | COL_UUID | COL_NOW_INSERT | COL_NOW_UPDATE;
    for (const struct column *c = t->columns; c->name; c++) {
        if (c->def || (c->flags & filled)) {
            continue;
        }
        json_t *value = strstr(c->name, "account_uuid") ? json_string(f->account) : value_of(c, n);
        json_set(row, c->name, value);
    }
    for (size_t i = 0; i < array_len(fixed); i++) {
        if (fixed[i].t == t && fixed[i].value) {
            struct error e;
            json_set(row, fixed[i].column, json_parse(str_c(fixed[i].value), &e));
        }
    }
    for (size_t i = 0; i < array_len(parents); i++) {
        if (parents[i].child == t) {
            auto_json parent = fixture_insert(f, parents[i].parent, scope, n + 100 + 10 * (int)i);
            json_set(row, parents[i].column, json_string(json_z(parent, "uuid")));
        }
    }
    return row;
}

json_t *fixture_insert(struct fixture *f, const struct table *t, const struct scope *scope, int n)
{
    struct error e;
    auto_json row = fixture_row(f, t, scope, n);
    json_t *stored = store_do_insert(&f->st, t, scope, row, &e);
    if (!stored) {
        fail_msg("%s: %s", t->name, e.msg);
    }
    return stored;
}
