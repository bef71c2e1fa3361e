/* Every table on both engines: the schema is what the column tables say, rows go in and out, a
 * foreign scope sees nothing. */
#include "store/fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

static enum db_kind kind;

static void on_engine(enum db_kind k, int (*fn)(void *arg))
{
    const struct pg_server *pg = k == DB_POSTGRES ? fixture_server() : NULL;
    if (k == DB_POSTGRES && !pg) {
        skip();
    }
    kind = k;
    base_init();
    assert_int_equal(task_run(fn, (void *)(uintptr_t)pg), 0);
}

/* ---- the schema ------------------------------------------------------------------------------ */

struct found {
    const struct table *t;
    struct arena *a;
    size_t columns;
    char problem[256];
};

static const char *class_of(enum col_type type, bool sqlite)
{
    switch (type) {
    case COL_STR: return sqlite ? "VARCHAR(%d)" : "character varying";
    case COL_INT: return "int";
    case COL_FLOAT: return sqlite ? "FLOAT" : "double precision";
    case COL_BOOL: return sqlite ? "BOOLEAN" : "boolean";
    case COL_TIME: return sqlite ? "DATETIME" : "timestamp";
    case COL_BLOB: return sqlite ? "BLOB" : "bytea";
    case COL_JSON: return "json";
    case COL_TEXT: return "text";
    }
    return "";
}

static bool type_fits(const struct column *c, struct str type, bool sqlite)
{
    char want[64];
    struct str t = type;
    if (str_ieqz(type, "text") && (c->type == COL_JSON || (c->flags & COL_SEALED))) {
        return true; /* our own JSON texts; sealed texts, which outgrow the old width */
    }
    switch (c->type) {
    case COL_INT: return str_ieqz(t, "integer") || str_ieqz(t, "bigint");
    case COL_JSON:
    case COL_TEXT: return str_ieqz(t, class_of(c->type, sqlite));
    case COL_TIME: return str_istarts(t, str_c(class_of(c->type, sqlite)));
    case COL_STR:
        if (sqlite) {
            snprintf(want, sizeof(want), "VARCHAR(%d)", c->max);
            return str_eqz(t, want);
        }
        return str_eqz(t, "character varying");
    default: return str_ieqz(t, class_of(c->type, sqlite));
    }
}

static bool read_schema(struct db_tx *tx, void *arg, struct error *err)
{
    static const char sqlite[] =
        "SELECT name, type, \"notnull\", pk > 0, NULL FROM pragma_table_info(?) WHERE 1 = 1";
    static const char pg[] =
        "SELECT c.column_name::text, c.data_type::text, (c.is_nullable = 'NO')::int, (EXISTS (SELECT 1 FROM pg_index i "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) WHERE i.indisprimary AND "
        "i.indrelid = c.table_name::regclass AND a.attname = c.column_name))::int, c.character_maximum_length::int "
        "FROM information_schema.columns c WHERE c.table_schema = 'public' AND c.table_name = ?";
    struct found *f = arg;
    bool lite = db_tx_kind(tx) == DB_SQLITE;
    struct db_val name = DB_V_Z(f->t->name);
    struct db_rows rows;
    if (!db_query_text(tx, lite ? sqlite : pg, &name, 1, &rows, err)) {
        return false;
    }
    f->columns = rows.n;
    for (const struct column *c = f->t->columns; c->name; c++) {
        size_t i = 0;
        while (i < rows.n && !str_eqz(db_at(&rows, i, 0)->s, c->name)) {
            i++;
        }
        const struct db_val *length = db_at(&rows, i, 4);
        const char *bad =
            i == rows.n                                                    ? "missing"
            : !type_fits(c, db_at(&rows, i, 1)->s, lite)                   ? "of another type"
            : (db_at(&rows, i, 2)->i != 0) == ((c->flags & COL_NULL) != 0) ? "null or not"
            : (db_at(&rows, i, 3)->i != 0) != ((c->flags & COL_PK) != 0)   ? "in the key or not"
            : !lite && c->type == COL_STR && length->i != c->max && length->type != DB_NULL
                ? "of another length"
                : NULL;
        if (bad) {
            snprintf(f->problem, sizeof(f->problem), "%s.%s is %s", f->t->name, c->name, bad);
        }
    }
    return true;
}

static size_t count_columns(const struct table *t)
{
    size_t n = 0;
    while (t->columns[n].name) {
        n++;
    }
    return n;
}

static int schema_main(void *arg)
{
    struct fixture f;
    struct error e;
    size_t tables = 0;
    fixture_open(&f, kind, arg);
    for (size_t i = 0; store_tables[i]; i++, tables++) {
        struct found found = {.t = store_tables[i]};
        if (!db_read(f.st.db, (struct db_scope){.kind = DB_SCOPE_NONE}, read_schema, &found, &e)) {
            fail_msg("%s: %s", store_tables[i]->name, e.msg);
        }
        assert_string_equal(found.problem, "");
        assert_int_equal(found.columns, count_columns(store_tables[i]));
    }
    assert_int_equal(tables, 42);
    /* Running the migrations again changes nothing. */
    int applied = -1;
    assert_true(db_migrate(f.st.db, &applied, &e));
    assert_int_equal(applied, 0);
    struct db_migration_state s;
    assert_true(db_migration_state(f.st.db, &s, &e));
    assert_int_equal(s.stored, s.newest);
    assert_non_null(s.newest_name);
    auto_json version =
        store_do_get(&f.st, &table_metadata, NULL, &EQ_Z("key", "database_version"), 1, false, &e);
    assert_string_equal(json_z(version, "value"), "25");
    fixture_close(&f);
    return 0;
}

static void test_schema_sqlite(void **state)
{
    on_engine(DB_SQLITE, schema_main);
}

static void test_schema_postgres(void **state)
{
    on_engine(DB_POSTGRES, schema_main);
}

/* ---- every table: rows and isolation --------------------------------------------------------- */

static size_t key_of(const struct table *t, const json_t *row, struct store_eq *key)
{
    size_t n = 0;
    for (const struct column *c = t->columns; c->name; c++) {
        if ((c->flags & COL_PK) && !(c->flags & COL_SCOPE)) {
            const json_t *v = json_object_get(row, c->name);
            key[n++] = (struct store_eq){c->name, json_is_integer(v) ? DB_V_I(json_integer_value(v))
                                                                     : DB_V_S(json_sv(v))};
        }
    }
    return n;
}

static bool look_without_where(struct db_tx *tx, void *arg, struct error *err)
{
    struct found *f = arg;
    struct db_rows rows;
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT * FROM \"%s\"", f->t->name);
    if (!db_query_text(tx, sql, NULL, 0, &rows, err)) {
        return false;
    }
    f->columns = rows.n;
    return true;
}

static size_t rows_seen(struct fixture *f, const struct table *t, struct db_scope scope)
{
    struct found found = {.t = t};
    struct error e;
    if (!db_read(f->st.db, scope, look_without_where, &found, &e)) {
        fail_msg("%s: %s", t->name, e.msg);
    }
    return found.columns;
}

/* The answer for a foreign row is that for a missing one, word for word. */
static void must_be_missing(const struct error *foreign, const struct error *missing)
{
    assert_int_equal(foreign->code, ERR_NOT_FOUND);
    assert_int_equal(missing->code, ERR_NOT_FOUND);
    assert_string_equal(foreign->msg, missing->msg);
    assert_string_equal(foreign->tag, missing->tag);
}

static void isolate(struct fixture *f, const struct table *t)
{
    struct store_eq key[5];
    struct error foreign, missing, e;
    int64_t n = -1;
    bool made = t == &table_workspaces; /* both are there already */
    auto_json row =
        made ? store_do_get(&f->st, t, &f->a, NULL, 0, false, &e) : fixture_insert(f, t, &f->a, 1);
    size_t keys = key_of(t, row, key);
    auto_json got = store_do_get(&f->st, t, &f->a, key, keys, false, &e);
    if (!got) {
        fail_msg("%s: %s", t->name, e.msg);
    }
    if (!json_equal(got, row)) {
        fail_msg("%s: read %s, written %s", t->name, json_dumps(got, JSON_SORT_KEYS),
                 json_dumps(row, JSON_SORT_KEYS));
    }
    if (!made) {
        struct scope nobody = f->a;
        snprintf(nobody.workspace, sizeof(nobody.workspace),
                 "cccccccc-0000-4000-8000-000000000003");
        auto_json patch = json_object();
        assert_null(store_do_get(&f->st, t, &f->b, key, keys, false, &foreign));
        assert_null(store_do_get(&f->st, t, &nobody, key, keys, false, &missing));
        must_be_missing(&foreign, &missing);
        assert_false(store_do_update(&f->st, t, &f->b, key, keys, patch, true, &foreign));
        assert_false(store_do_update(&f->st, t, &nobody, key, keys, patch, true, &missing));
        must_be_missing(&foreign, &missing);
        assert_true(store_do_delete(&f->st, t, &f->b, key, keys, &n, &e));
        assert_int_equal(n, 0);
        auto_json list = store_do_list(&f->st, t, &f->b, NULL, 0, NULL, -1, 0, true, &e);
        assert_int_equal(json_array_size(list), 0);
        assert_true(store_do_count(&f->st, t, &f->b, key, keys, &n, &e));
        assert_int_equal(n, 0);
    }
    assert_true(store_do_count(&f->st, t, &f->a, key, keys, &n, &e));
    assert_int_equal(n, 1);
    assert_null(store_do_get(&f->st, t, NULL, key, keys, false, &e)); /* no scope, no rows */
    assert_int_equal(e.code, ERR_INTERNAL);
    if (kind == DB_POSTGRES) { /* the server holds the line even for a statement that forgot it */
        assert_int_equal(rows_seen(f, t, scope_db(&f->b)), made ? 1 : 0);
        assert_int_equal(rows_seen(f, t, (struct db_scope){.kind = DB_SCOPE_NONE}), 0);
        assert_true(rows_seen(f, t, scope_db(&f->a)) >= 1);
    }
}

static int isolation_main(void *arg)
{
    struct fixture f;
    struct error e;
    int64_t n = -1;
    size_t tenant = 0;
    fixture_open(&f, kind, arg);
    for (size_t i = 0; store_tables[i]; i++) {
        const struct table *t = store_tables[i];
        bool scoped = false;
        for (const struct column *c = t->columns; c->name; c++) {
            scoped = scoped || (c->flags & COL_SCOPE);
        }
        if (scoped) {
            isolate(&f, t);
            tenant++;
        }
    }
    assert_int_equal(tenant, 37);
    /* The owner deletes; what hangs on the workspace goes with it. */
    assert_true(store_do_delete(&f.st, &table_llm_models, &f.a, NULL, 0, &n, &e));
    assert_true(n > 0);
    assert_true(store_do_delete(&f.st, &table_embedding_models, &f.a, NULL, 0, &n, &e));
    assert_true(store_do_delete(&f.st, &table_rerank_models, &f.a, NULL, 0, &n, &e));
    assert_true(store_do_delete(&f.st, &table_workspaces, &f.a, NULL, 0, &n, &e));
    assert_int_equal(n, 1);
    for (size_t i = 0; store_tables[i]; i++) {
        if (store_tables[i]->columns[0].flags & COL_SCOPE ||
            store_tables[i]->columns[1].flags & COL_SCOPE) {
            assert_true(store_do_count(&f.st, store_tables[i], &f.a, NULL, 0, &n, &e));
            assert_int_equal(n, 0);
        }
    }
    fixture_close(&f);
    return 0;
}

static void test_isolation_sqlite(void **state)
{
    on_engine(DB_SQLITE, isolation_main);
}

static void test_isolation_postgres(void **state)
{
    on_engine(DB_POSTGRES, isolation_main);
}

/* ---- tables of the instance ------------------------------------------------------------------ */

static int instance_main(void *arg)
{
    struct fixture f;
    struct error e;
    fixture_open(&f, kind, arg);
    auto_json row = fixture_row(&f, &table_users, NULL, 3);
    json_set(row, "uuid", json_string("dddddddd-0000-4000-8000-000000000004"));
    auto_json stored = store_do_insert(&f.st, &table_users, NULL, row, &e);
    assert_non_null(stored);
    assert_null(json_object_get(stored, "password"));
    auto_json raw =
        store_do_get(&f.st, &table_users, NULL,
                     &EQ_Z("uuid", "dddddddd-0000-4000-8000-000000000004"), 1, true, &e);
    assert_non_null(json_z(raw, "password"));
    assert_string_equal(json_z(raw, "space_api_key"),
                        json_z(row, "space_api_key")); /* sealed and opened again */
    auto_json again = store_do_insert(&f.st, &table_users, NULL, row, &e);
    assert_null(again);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.tag, "unique");
    /* A second local workspace of one instance is refused. */
    struct scope c = f.a;
    snprintf(c.workspace, sizeof(c.workspace), "cccccccc-0000-4000-8000-000000000003");
    auto_json ws =
        json_pack("{s:s, s:s, s:s}", "instance_uuid", "instance-a", "name", "X", "slug", "x");
    assert_null(store_do_insert(&f.st, &table_workspaces, &c, ws, &e));
    assert_string_equal(e.tag, "unique");
    fixture_close(&f);
    return 0;
}

static void test_instance_tables(void **state)
{
    on_engine(DB_SQLITE, instance_main);
    on_engine(DB_POSTGRES, instance_main);
}

/* ---- checks, sealing, updates ---------------------------------------------------------------- */

struct sealed {
    const char *sql;
    char text[4096];
};

static bool read_text(struct db_tx *tx, void *arg, struct error *err)
{
    struct sealed *s = arg;
    struct db_rows rows;
    if (!db_query_text(tx, s->sql, NULL, 0, &rows, err)) {
        return false;
    }
    snprintf(s->text, sizeof(s->text), STR_FMT, STR_ARG(db_at(&rows, 0, 0)->s));
    return rows.n == 1;
}

static void refused(struct fixture *f, const char *json, const char *message)
{
    struct error e;
    auto_json row = json_parse(str_c(json), &e);
    assert_non_null(row);
    assert_null(store_do_insert(&f->st, &table_bots, &f->a, row, &e));
    assert_int_equal(e.code, ERR_INVALID);
    assert_string_equal(e.msg, message);
}

static int rows_main(void *arg)
{
    struct fixture f;
    struct error e;
    fixture_open(&f, kind, arg);
    refused(&f, "{\"nope\": 1}", "unknown field: nope");
    refused(&f, "{\"name\": 1}", "name must be a string");
    refused(&f, "{\"name\": null}", "name must not be null");
    refused(&f, "{\"enable\": 1}", "enable must be true or false");
    refused(&f, "{\"name\": \"b\", \"description\": \"\", \"adapter\": \"x\"}",
            "adapter_config is required");
    char wide[600];
    for (size_t i = 0; i < 256; i++) {
        memcpy(wide + 2 * i, "ä", 2);
    }
    auto_json bot =
        json_pack("{s:s%, s:s, s:s, s:{s:s}, s:s, s:s}", "name", wide, (size_t)510, "description",
                  "", "adapter", "telegram", "adapter_config", "token", "very-secret",
                  "workspace_uuid", f.b.workspace, "created_at", "2020-01-01T00:00:00");
    auto_json stored =
        store_do_insert(&f.st, &table_bots, &f.a, bot, &e); /* 255 characters in 510 bytes */
    assert_non_null(stored);
    assert_string_equal(json_z(stored, "workspace_uuid"), f.a.workspace); /* never from the row */
    assert_string_equal(json_z(stored, "created_at"), "2020-01-01T00:00:00");
    assert_true(uuid_is_v4(json_s(stored, "uuid")));
    assert_int_equal(json_array_size(json_object_get(stored, "pipeline_routing_rules")), 0);
    json_set(bot, "name", json_stringn(wide, 512));
    assert_null(store_do_insert(&f.st, &table_bots, &f.a, bot, &e));
    assert_string_equal(e.msg, "name must be at most 255 characters long");
    /* At rest. */
    struct sealed s = {.sql = "SELECT adapter_config FROM bots"};
    assert_true(db_read(f.st.db, scope_db(&f.a), read_text, &s, &e));
    assert_null(strstr(s.text, "very-secret"));
    assert_non_null(strstr(s.text, "sealed:v1:"));
    struct store other = f.st;
    other.key.k[0] ^= 1;
    struct store_eq key = EQ_Z("uuid", json_z(stored, "uuid"));
    assert_null(store_do_get(&other, &table_bots, &f.a, &key, 1, false, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
    /* Update. */
    uint64_t version = db_version_of(f.st.db, GROUP_BOTS);
    auto_json patch = json_pack("{s:s, s:s, s:{s:s}, s:b}", "name", "new", "uuid", "ignored",
                                "adapter_config", "token", "other", "enable", 1);
    assert_true(store_do_update(&f.st, &table_bots, &f.a, &key, 1, patch, false, &e));
    assert_true(db_version_of(f.st.db, GROUP_BOTS) > version);
    auto_json got = store_do_get(&f.st, &table_bots, &f.a, &key, 1, false, &e);
    assert_string_equal(json_z(got, "name"), "new");
    assert_string_equal(json_z(json_object_get(got, "adapter_config"), "token"), "other");
    assert_true(json_b_or(got, "enable", false));
    assert_true(strcmp(json_z(got, "updated_at"), "2020-01-01T00:00:00") > 0);
    assert_null(store_do_get(&f.st, &table_bots, &f.a, &EQ_Z("uuid", "none"), 1, false, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    auto_json empty = json_object();
    assert_true(store_do_update(&f.st, &table_bot_admins, &f.a, NULL, 0, empty, false, &e) ||
                e.code == ERR_NOT_FOUND);
    /* Foreign keys. */
    auto_json model = json_pack("{s:s, s:s}", "name", "m", "provider_uuid", "nobody");
    assert_null(store_do_insert(&f.st, &table_llm_models, &f.a, model, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.tag, "foreign_key");
    /* Null filters, order, paging. */
    for (int i = 0; i < 5; i++) {
        auto_json hook = json_pack("{s:s, s:s, s:o}", "name", "h", "url", "http://x", "description",
                                   i == 2 ? json_null() : json_string("d"));
        json_decref(store_do_insert(&f.st, &table_webhooks, &f.a, hook, &e));
    }
    struct store_eq null = {"description", DB_V_NULL};
    auto_json nulls = store_do_list(&f.st, &table_webhooks, &f.a, &null, 1, NULL, -1, 0, false, &e);
    assert_int_equal(json_array_size(nulls), 1);
    auto_json page =
        store_do_list(&f.st, &table_webhooks, &f.a, NULL, 0, "\"id\" DESC", 2, 1, false, &e);
    assert_int_equal(json_array_size(page), 2);
    assert_true(json_i_or(json_array_get(page, 0), "id", 0) >
                json_i_or(json_array_get(page, 1), "id", 0));
    fixture_close(&f);
    return 0;
}

static void test_rows_sqlite(void **state)
{
    on_engine(DB_SQLITE, rows_main);
}

static void test_rows_postgres(void **state)
{
    on_engine(DB_POSTGRES, rows_main);
}

/* ---- memory ends anywhere: an error, no leak, nothing half-written ---- */

struct starved {
    struct fixture *f;
    const json_t *row;
    long n;
};

static bool starve(struct db_tx *tx, void *arg, struct error *err)
{
    const struct starved *s = arg;
    const struct store *st = &s->f->st;
    auto_json patch = json_pack("{s:s, s:{s:s}}", "name", "x", "adapter_config", "a", "b");
    if (!patch) {
        return err_set(err, ERR_NOMEM, "test");
    }
    mem_fail_after(s->n, false);
    auto_json row = store_insert(tx, st, &table_bots, &s->f->a, s->row, err);
    struct store_eq key = EQ_Z("uuid", row ? json_z(row, "uuid") : "none");
    bool ok = row && store_update(tx, st, &table_bots, &s->f->a, &key, 1, patch, false, err);
    auto_json got = ok ? store_get(tx, st, &table_bots, &s->f->a, &key, 1, false, err) : NULL;
    auto_json list =
        got ? store_list(tx, st, &table_bots, &s->f->a, NULL, 0, NULL, -1, 0, true, err) : NULL;
    mem_fail_after(0, false);
    return list != NULL;
}

static int starved_main(void *arg)
{
    struct fixture f;
    struct error e;
    int64_t n = 0, good = 0;
    int failed = 0;
    fixture_open(&f, kind, arg);
    auto_json row = fixture_row(&f, &table_bots, &f.a, 1);
    struct starved s = {.f = &f, .row = row, .n = 1000000};
    assert_true(db_write(f.st.db, scope_db(&f.a), starve, &s, &e)); /* statements are kept */
    long before = mem_live();
    for (s.n = 1; s.n < 400; s.n++) {
        e.code = ERR_NONE;
        bool ok = db_write(f.st.db, scope_db(&f.a), starve, &s, &e);
        good += ok;
        failed += !ok;
        assert_true(ok || e.code != ERR_NONE);
        assert_true(store_do_count(&f.st, &table_bots, &f.a, NULL, 0, &n, &e));
        assert_int_equal(n, good + 1);
    }
    assert_true(failed > 50);
    assert_true(mem_live() <= before + 10); /* what two readers keep of a statement */
    fixture_close(&f);
    return 0;
}

static void test_starved_sqlite(void **state)
{
    on_engine(DB_SQLITE, starved_main);
}

static void test_starved_postgres(void **state)
{
    on_engine(DB_POSTGRES, starved_main);
}

static int stop(void **state)
{
    fixture_server_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_sqlite),      cmocka_unit_test(test_isolation_sqlite),
        cmocka_unit_test(test_rows_sqlite),        cmocka_unit_test(test_schema_postgres),
        cmocka_unit_test(test_isolation_postgres), cmocka_unit_test(test_rows_postgres),
        cmocka_unit_test(test_instance_tables),    cmocka_unit_test(test_starved_sqlite),
        cmocka_unit_test(test_starved_postgres),
    };
    return cmocka_run_group_tests(tests, NULL, stop);
}
