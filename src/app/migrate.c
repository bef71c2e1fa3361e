/* `parley migrate`: brings the database to the newest schema without serving and says what it holds; with --check only the latter.
 * persistence-and-ops.md §5.5. */
#include "app/app_private.h"
#include "task/task.h"

#include <stdio.h>
#include <unistd.h>

struct migrate {
    const struct app_options *options;
    bool check_only;
};

static const char *or_none(const json_t *row, const char *key)
{
    const char *z = json_z(row, key);
    return z && *z ? z : "-";
}

/* 0: all well; 1: rows without a workspace. */
static int print_summary(const json_t *s)
{
    size_t i;
    json_t *row;
    int64_t homeless = 0;
    printf("\nWorkspaces\n");
    json_array_foreach (json_object_get(s, "workspaces"), i, row)
        printf("  %s  %s  owner %s\n", or_none(row, "uuid"), or_none(row, "name"),
               or_none(row, "owner"));
    printf("\nAccounts\n");
    json_array_foreach (json_object_get(s, "accounts"), i, row)
        printf("  %s  %s  %s\n", or_none(row, "uuid"), or_none(row, "status"),
               or_none(row, "email"));
    printf("\n%-40s %12s %18s\n", "Table", "rows", "without workspace");
    json_array_foreach (json_object_get(s, "tables"), i, row) {
        int64_t without = json_i_or(row, "without_workspace", 0);
        homeless += without;
        printf("%-40s %12lld %18lld\n", or_none(row, "name"), (long long)json_i_or(row, "rows", 0),
               (long long)without);
    }
    if (homeless)
        printf("\n%lld rows belong to no workspace and will not be seen by anybody.\n",
               (long long)homeless);
    return homeless ? 1 : 0;
}

/* A check must not make what it is asked about. */
static bool there(const struct config *c, struct error *err)
{
    auto_arena a = arena_new(16 << 10);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    const char *path = config_path(c, a, config_str(c, "database.sqlite.path"));
    if (strcmp(config_str(c, "database.use"), "sqlite") == 0 && access(path, F_OK) != 0)
        return err_set(err, ERR_NOT_FOUND, "there is no database yet: %s", path);
    return true;
}

static bool work(struct migrate *m, const struct config *c, struct store *st, int *status,
                 struct error *err)
{
    struct db_migration_state before, after;
    char singleton[UUID_SIZE];
    int applied = 0;
    if ((m->check_only && !there(c, err)) || !app_open_store(c, st, err) ||
        !db_migration_state(st->db, &before, err))
        return false;
    printf("Database         %s\nStored revision  %d\nNewest revision  %d (%s)\n",
           config_str(c, "database.use"), before.stored, before.newest, before.newest_name);
    if (m->check_only && before.stored != before.newest) {
        printf(
            "\nThe database is to be upgraded: make a backup, then run parley migrate or start the server.\n");
        *status = 3;
        return true;
    }
    if (!m->check_only) {
        if (!db_migrate(st->db, &applied, err) || !store_start(st, err) ||
            !db_migration_state(st->db, &after, err))
            return false;
        printf("Applied          %d, now at revision %d\n", applied, after.stored);
    } else if (!tenant_singleton_uuid(str_c(st->instance), singleton, err) ||
               !db_default_scope(st->db, singleton, err)) {
        return false;
    }
    auto_json summary = store_summary(st, err);
    if (!summary)
        return false;
    *status = print_summary(summary);
    return true;
}

static int in_fiber(void *arg)
{
    struct migrate *m = arg;
    struct error err = {0};
    struct store st = {0};
    struct config *c = NULL;
    int status = 1;
    char path[4096];
    snprintf(path, sizeof path, "%s/config.yaml", m->options->data_dir);
    bool ok = !m->check_only || access(path, F_OK) == 0 ||
              err_set(&err, ERR_NOT_FOUND, "%s is no data directory: it has no config.yaml",
                      m->options->data_dir);
    if (ok && (c = config_load(m->options->data_dir, NULL, &err)))
        ok = work(m, c, &st, &status, &err);
    else
        ok = false;
    fflush(stdout);
    if (!ok) {
        fprintf(stderr, "parley migrate: %s\n", err.msg);
        status = 1;
    }
    db_close(st.db);
    config_free(c);
    return status;
}

int app_migrate(const struct app_options *o, bool check_only)
{
    struct migrate m = {.options = o, .check_only = check_only};
    log_setup(o->debug ? LOG_DEBUG : LOG_WARN, o->json_logs, 2);
    return task_run(in_fiber, &m);
}
