/* Pipelines as rows: list, create, change, copy, delete, extensions. http-api.md §9, pipeline.md §6. */
#include "pipeline/engine.h"

static json_t *shown(json_t *row, bool secrets)
{
    if (row && !secrets) {
        json_t *masked = redact(json_object_get(row, "config"));
        if (masked)
            json_object_set_new(row, "config", masked);
    }
    return row;
}

json_t *pipeline_list(struct engine *e, const struct scope *s, const char *sort_by, bool descending,
                      bool secrets, struct error *err)
{
    bool updated = sort_by && strcmp(sort_by, "updated_at") == 0;
    const char *order = updated ? (descending ? "updated_at DESC, uuid" : "updated_at, uuid")
                                : (descending ? "created_at DESC, uuid" : "created_at, uuid");
    json_t *rows = store_do_list(e->store, &table_pipelines, s, NULL, 0, order, -1, 0, false, err);
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        shown(row, secrets);
    return rows;
}

json_t *pipeline_get(struct engine *e, const struct scope *s, const char *uuid, bool secrets,
                     struct error *err)
{
    struct store_eq key = EQ_Z("uuid", uuid);
    return shown(store_do_get(e->store, &table_pipelines, s, &key, 1, false, err), secrets);
}

struct change {
    struct engine *engine;
    const struct scope *scope;
    const char *uuid;
    const json_t *body;
    json_t *row, *renamed; /* results */
};

static json_t *stage_names(void)
{
    json_t *names = json_array();
    for (const struct stage *const *s = stages; *s; s++)
        json_array_append_new(names, json_string((*s)->name));
    return names;
}

static bool insert(struct db_tx *tx, struct change *c, json_t *row, struct error *err)
{
    int64_t count = 0, limit = config_int(c->engine->config, "system.limitation.max_pipelines");
    if (!store_count(tx, &table_pipelines, c->scope, NULL, 0, &count, err) ||
        !quota_check("pipelines", limit, count, err))
        return false;
    if (json_is_true(json_object_get(row, "is_default"))) {
        /* One default to a workspace: the new one takes over. */
        struct store_eq was = {"is_default", DB_V_B(true)};
        auto_json off = json_pack("{s:b}", "is_default", 0);
        if (!store_update(tx, c->engine->store, &table_pipelines, c->scope, &was, 1, off, true,
                          err) &&
            err->code != ERR_NOT_FOUND)
            return false;
        *err = (struct error){0};
    }
    c->row = store_insert(tx, c->engine->store, &table_pipelines, c->scope, row, err);
    return c->row != NULL;
}

static bool do_create(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    static const char *const given[] = {"name", "description", "emoji", "extensions_preferences"};
    auto_json row = json_object();
    for (size_t i = 0; i < array_len(given); i++)
        if (json_object_get(c->body, given[i]))
            json_object_set(row, given[i], json_object_get(c->body, given[i]));
    json_set(row, "is_default", json_boolean(json_is_true(json_object_get(c->body, "is_default"))));
    json_set(row, "config", json_deep_copy(pipeline_default_config()));
    json_set(row, "stages", stage_names());
    json_set(row, "for_version", json_string(PARLEY_VERSION));
    if (!json_object_get(row, "description"))
        json_set(row, "description", json_string(""));
    return insert(tx, c, row, err);
}

static bool take_uuid(struct change *c, char uuid[UUID_SIZE])
{
    snprintf(uuid, UUID_SIZE, "%s", json_z_or(c->row, "uuid", ""));
    json_decref(c->row);
    return true;
}

bool pipeline_create(struct engine *e, const struct scope *s, const json_t *body,
                     char uuid[UUID_SIZE], struct error *err)
{
    struct change c = {.engine = e, .scope = s, .body = body};
    pipeline_default_config(); /* made on the loop thread, not on the database's */
    return db_write(e->store->db, scope_db(s), do_create, &c, err) && take_uuid(&c, uuid);
}

static bool do_copy(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = EQ_Z("uuid", c->uuid);
    auto_json row = store_get(tx, c->engine->store, &table_pipelines, c->scope, &key, 1, true, err);
    if (!row)
        return false;
    static const char *const fresh[] = {"uuid", "workspace_uuid", "created_at", "updated_at"};
    for (size_t i = 0; i < array_len(fresh); i++)
        json_object_del(row, fresh[i]);
    struct str name = str_fmt(db_tx_arena(tx), "%s (Copy)", json_z_or(row, "name", ""));
    json_set(row, "name", json_strn(utf8_cut(name, 255)));
    json_set(row, "is_default", json_false());
    return insert(tx, c, row, err);
}

bool pipeline_copy(struct engine *e, const struct scope *s, const char *uuid, char copy[UUID_SIZE],
                   struct error *err)
{
    struct change c = {.engine = e, .scope = s, .uuid = uuid};
    return db_write(e->store->db, scope_db(s), do_copy, &c, err) && take_uuid(&c, copy);
}

static bool do_update(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    const struct store *st = c->engine->store;
    struct store_eq key = EQ_Z("uuid", c->uuid);
    auto_json old = store_get(tx, st, &table_pipelines, c->scope, &key, 1, true, err);
    if (!old)
        return false;
    static const char *const fixed[] = {"uuid",       "workspace_uuid", "for_version", "stages",
                                        "is_default", "created_at",     "updated_at"};
    auto_json patch = json_copy((json_t *)(uintptr_t)c->body);
    for (size_t i = 0; i < array_len(fixed); i++)
        json_object_del(patch, fixed[i]);
    if (json_object_get(patch, "config")) {
        json_t *config =
            redact_restore(json_object_get(patch, "config"), json_object_get(old, "config"), err);
        if (!config)
            return false;
        json_object_set_new(patch, "config", config);
    }
    if (json_object_size(patch) > 0 &&
        !store_update(tx, st, &table_pipelines, c->scope, &key, 1, patch, false, err))
        return false;
    const char *name = json_z(patch, "name");
    if (!name || strcmp(name, json_z_or(old, "name", "")) == 0)
        return true;
    struct store_eq users = EQ_Z("use_pipeline_uuid", c->uuid);
    auto_json rename = json_pack("{s:s}", "use_pipeline_name", name);
    if (store_update(tx, st, &table_bots, c->scope, &users, 1, rename, false, err))
        return true;
    if (err->code != ERR_NOT_FOUND)
        return false;
    *err = (struct error){0};
    return true;
}

bool pipeline_update(struct engine *e, const struct scope *s, const char *uuid, const json_t *body,
                     struct error *err)
{
    struct change c = {.engine = e, .scope = s, .uuid = uuid, .body = body};
    if (!db_write(e->store->db, scope_db(s), do_update, &c, err))
        return false;
    pipe_forget(e, s, uuid);
    return sessions_renew(e, s, NULL, uuid, err);
}

bool pipeline_delete(struct engine *e, const struct scope *s, const char *uuid, struct error *err)
{
    struct store_eq key = EQ_Z("uuid", uuid);
    int64_t n = 0;
    if (!store_do_delete(e->store, &table_pipelines, s, &key, 1, &n, err))
        return false;
    pipe_forget(e, s, uuid);
    return n > 0 || err_tag(err, ERR_NOT_FOUND, 404, "resource_not_found", "Resource not found");
}

/* ---- extensions -------------------------------------------------------------------------------------------------------- */

static json_t *list_or_empty(const json_t *prefs, const char *key)
{
    json_t *v = json_object_get(prefs, key);
    return json_is_array(v) ? json_incref(v) : json_array();
}

json_t *pipeline_extensions_get(struct engine *e, const struct scope *s, const char *uuid,
                                struct error *err)
{
    struct store_eq key = EQ_Z("uuid", uuid);
    auto_json row = store_do_get(e->store, &table_pipelines, s, &key, 1, true, err);
    if (!row)
        return NULL;
    const json_t *p = json_object_get(row, "extensions_preferences");
    /* Nothing is available yet: plugins, MCP servers and skills come with their own parts. */
    return json_pack("{s:b,s:b,s:b,s:o,s:[],s:o,s:[],s:o,s:b,s:o,s:[]}", "enable_all_plugins",
                     (int)json_b_or(p, "enable_all_plugins", true), "enable_all_mcp_servers",
                     (int)json_b_or(p, "enable_all_mcp_servers", true), "enable_all_skills",
                     (int)json_b_or(p, "enable_all_skills", true), "bound_plugins",
                     list_or_empty(p, "plugins"), "available_plugins", "bound_mcp_servers",
                     list_or_empty(p, "mcp_servers"), "available_mcp_servers",
                     "bound_mcp_resources", list_or_empty(p, "mcp_resources"),
                     "mcp_resource_agent_read_enabled",
                     (int)json_b_or(p, "mcp_resource_agent_read_enabled", true), "bound_skills",
                     list_or_empty(p, "skills"), "available_skills");
}

static bool do_extensions(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = EQ_Z("uuid", c->uuid);
    auto_json row = store_get(tx, c->engine->store, &table_pipelines, c->scope, &key, 1, true, err);
    if (!row)
        return false;
    const json_t *old = json_object_get(row, "extensions_preferences"), *b = c->body;
    auto_json prefs = json_is_object(old) ? json_copy((json_t *)(uintptr_t)old) : json_object();
    json_set(prefs, "enable_all_plugins", json_boolean(json_b_or(b, "enable_all_plugins", true)));
    json_set(prefs, "enable_all_mcp_servers",
             json_boolean(json_b_or(b, "enable_all_mcp_servers", true)));
    json_set(prefs, "enable_all_skills", json_boolean(json_b_or(b, "enable_all_skills", true)));
    json_set(prefs, "plugins", list_or_empty(b, "bound_plugins"));
    json_set(prefs, "mcp_servers", list_or_empty(b, "bound_mcp_servers"));
    json_set(prefs, "skills", list_or_empty(b, "bound_skills"));
    if (json_is_array(json_object_get(b, "bound_mcp_resources")))
        json_object_set(prefs, "mcp_resources", json_object_get(b, "bound_mcp_resources"));
    if (json_is_boolean(json_object_get(b, "mcp_resource_agent_read_enabled")))
        json_object_set(prefs, "mcp_resource_agent_read_enabled",
                        json_object_get(b, "mcp_resource_agent_read_enabled"));
    auto_json patch = json_pack("{s:O}", "extensions_preferences", prefs);
    return store_update(tx, c->engine->store, &table_pipelines, c->scope, &key, 1, patch, false,
                        err);
}

bool pipeline_extensions_set(struct engine *e, const struct scope *s, const char *uuid,
                             const json_t *body, struct error *err)
{
    struct change c = {.engine = e, .scope = s, .uuid = uuid, .body = body};
    if (!db_write(e->store->db, scope_db(s), do_extensions, &c, err))
        return false;
    pipe_forget(e, s, uuid);
    return true;
}
