/* Accounts, workspaces and who may act in them. tenancy.md §2–§5, http-api.md §1.5, §1.7, §3, §4. */
#include "store/store.h"

static bool missing(struct error *err)
{
    return err_tag(err, ERR_NOT_FOUND, 404, "resource_not_found", "Resource not found");
}

static struct scope scope_of(const struct store *st, const char *workspace, int64_t generation)
{
    struct scope s = {.generation = generation};
    snprintf(s.instance, sizeof s.instance, "%s", st->instance);
    snprintf(s.workspace, sizeof s.workspace, "%s", workspace);
    return s;
}

/* ---- accounts ---------------------------------------------------------------------------------------------------------- */

json_t *account_find(const struct store *st, const char *uuid, const char *email, struct error *err)
{
    struct store_eq by_uuid = EQ_Z("uuid", uuid), by_email = EQ_Z("normalized_email", email);
    *err = (struct error){0};
    json_t *row =
        uuid && *uuid ? store_do_get(st, &table_users, NULL, &by_uuid, 1, true, err) : NULL;
    if (row || !email || !*email || (err->code != ERR_NONE && err->code != ERR_NOT_FOUND)) {
        if (!row && err->code == ERR_NONE)
            missing(err);
        return row;
    }
    *err = (struct error){0};
    return store_do_get(st, &table_users, NULL, &by_email, 1, true, err);
}

bool account_any(const struct store *st, bool *any, struct error *err)
{
    int64_t n = 0;
    if (!store_do_count(st, &table_users, NULL, NULL, 0, &n, err))
        return false;
    *any = n > 0;
    return true;
}

struct first {
    const struct store *st;
    struct str email;
    const char *phc;
    struct scope scope;
    json_t *account;
};

/* On SQLite the one writer is the lock. */
static bool lock_directory(struct db_tx *tx, struct error *err)
{
    static struct db_sql lock = {
        .text = "SELECT 1",
        .pg = "SELECT 1 FROM (SELECT pg_advisory_xact_lock(5567294201)) AS held"};
    struct db_rows r;
    return db_query(tx, &lock, NULL, 0, &r, err);
}

static bool ensure_singleton(struct db_tx *tx, struct first *f, const char *account,
                             struct error *err)
{
    struct store_eq key = EQ_Z("uuid", f->scope.workspace);
    auto_json have = store_get(tx, f->st, &table_workspaces, &f->scope, &key, 1, true, err);
    if (!have && err->code != ERR_NOT_FOUND)
        return false;
    *err = (struct error){0};
    if (have)
        return true;
    auto_json ws = json_pack("{s:s,s:s,s:s,s:s,s:s}", "instance_uuid", f->st->instance, "name",
                             "Default Workspace", "slug", "default", "type", "team",
                             "created_by_account_uuid", account);
    auto_json state =
        json_pack("{s:s,s:i,s:s,s:b,s:s}", "instance_uuid", f->st->instance, "active_generation", 1,
                  "state", "active", "write_fenced", 0, "source", "local");
    auto_json a = store_insert(tx, f->st, &table_workspaces, &f->scope, ws, err);
    auto_json b =
        a ? store_insert(tx, f->st, &table_execution_states, &f->scope, state, err) : NULL;
    return b != NULL;
}

static json_t *insert_account(struct db_tx *tx, const struct store *st, struct str email,
                              const char *phc, struct error *err)
{
    struct str normal;
    if (!email_normalize(db_tx_arena(tx), email, &normal, err))
        return NULL;
    auto_json row = json_pack("{s:o,s:o,s:s}", "user", json_strn(str_trim(email)),
                              "normalized_email", json_strn(normal), "password", phc);
    json_t *made = store_insert(tx, st, &table_users, NULL, row, err);
    /* The row as stored, with the hidden columns the caller's token needs. */
    if (made) {
        struct store_eq key = EQ_Z("uuid", json_z_or(made, "uuid", ""));
        json_decref(made);
        made = store_get(tx, st, &table_users, NULL, &key, 1, true, err);
    }
    return made;
}

static bool do_first(struct db_tx *tx, void *arg, struct error *err)
{
    struct first *f = arg;
    int64_t n = 0;
    if (!lock_directory(tx, err) || !store_count(tx, &table_users, NULL, NULL, 0, &n, err))
        return false;
    if (n > 0)
        return err_tag(err, ERR_CONFLICT, 409, "registration_closed", "Registration is closed");
    f->account = insert_account(tx, f->st, f->email, f->phc, err);
    if (!f->account)
        return false;
    const char *uuid = json_z_or(f->account, "uuid", "");
    auto_json member = json_pack("{s:s,s:s,s:s,s:s,s:o}", "account_uuid", uuid, "role", "owner",
                                 "status", "active", "source", "local", "joined_at", json_now());
    if (!ensure_singleton(tx, f, uuid, err))
        return false;
    auto_json m = store_insert(tx, f->st, &table_memberships, &f->scope, member, err);
    return m != NULL;
}

json_t *account_create_first(const struct store *st, struct str email, const char *phc,
                             struct scope *scope_out, struct error *err)
{
    char uuid[UUID_SIZE];
    if (!tenant_singleton_uuid(str_c(st->instance), uuid, err))
        return NULL;
    struct first f = {.st = st, .email = email, .phc = phc, .scope = scope_of(st, uuid, 1)};
    bool ok = db_write(st->db, scope_db(&f.scope), do_first, &f, err);
    if (ok)
        *scope_out = f.scope;
    return store_result(ok, &f.account);
}

struct password {
    const char *account, *phc;
    int64_t revision;
};

static bool do_password(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "UPDATE users SET password = ?, projection_revision = projection_revision + 1, updated_at = ? WHERE uuid = "
            "? RETURNING projection_revision"};
    struct password *p = arg;
    char now[TIME_ISO_SIZE];
    struct db_val v[] = {DB_V_Z(p->phc), DB_V_Z(time_sql(time_wall_us(), now)), DB_V_Z(p->account)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 3, &r, err))
        return false;
    if (r.n == 0)
        return missing(err);
    p->revision = db_at(&r, 0, 0)->i;
    db_touch(tx, GROUP_IDENTITY);
    return true;
}

bool account_set_password(const struct store *st, const char *account, const char *phc,
                          int64_t *revision, struct error *err)
{
    struct password p = {.account = account, .phc = phc};
    struct db_scope scope = {DB_SCOPE_IDENTITY, account};
    if (!db_write(st->db, scope, do_password, &p, err))
        return false;
    *revision = p.revision;
    return true;
}

struct flags {
    bool any, password, space;
};

static bool do_flags(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'active' AND password <> '' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN "
            "status = 'active' AND space_account_uuid IS NOT NULL THEN 1 ELSE 0 END), 0) FROM users"};
    struct flags *f = arg;
    struct db_rows r;
    if (!db_query(tx, &sql, NULL, 0, &r, err))
        return false;
    *f = (struct flags){db_at(&r, 0, 0)->i > 0, db_at(&r, 0, 1)->i > 0, db_at(&r, 0, 2)->i > 0};
    return true;
}

json_t *account_flags(const struct store *st, struct error *err)
{
    struct flags f = {0};
    struct db_scope none = {DB_SCOPE_NONE, NULL};
    if (!db_read(st->db, none, do_flags, &f, err))
        return NULL;
    if (!f.any)
        return json_pack("{s:b}", "initialized", 0);
    return json_pack("{s:b,s:b,s:b,s:b}", "initialized", 1, "password_login_enabled",
                     (int)f.password, "space_login_enabled", (int)f.space,
                     "authenticated_invitation_acceptance_enabled", 0);
}

/* ---- resolution ------------------------------------------------------------------------------------------------------------ */

struct resolve {
    const struct store *st;
    const char *account, *workspace;
    struct principal *out;
};

static bool text_is(const struct db_val *v, const char *z)
{
    return v->type == DB_TEXT && str_eqz(v->s, z);
}

static bool do_resolve(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT w.status, w.instance_uuid, m.uuid, m.role, m.status, m.projection_revision, e.active_generation, e.state, "
            "e.write_fenced FROM workspaces w JOIN workspace_memberships m ON m.workspace_uuid = w.uuid LEFT JOIN "
            "workspace_execution_states e ON e.workspace_uuid = w.uuid WHERE w.uuid = ? AND m.account_uuid = ?"};
    struct resolve *q = arg;
    struct db_val v[] = {DB_V_Z(q->workspace), DB_V_Z(q->account)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 2, &r, err))
        return false;
    enum role role;
    if (r.n == 0 || !text_is(db_at(&r, 0, 0), "active") ||
        !text_is(db_at(&r, 0, 1), q->st->instance) || !text_is(db_at(&r, 0, 4), "active"))
        return missing(err);
    if (!text_is(db_at(&r, 0, 7), "active") || db_at(&r, 0, 8)->i != 0)
        return err_tag(err, ERR_UNAUTHORIZED, 401, "invalid_authentication",
                       "the workspace's execution is unavailable");
    struct principal *p = q->out;
    p->scope = scope_of(q->st, q->workspace, db_at(&r, 0, 6)->i);
    snprintf(p->membership, sizeof p->membership, STR_FMT, STR_ARG(db_at(&r, 0, 2)->s));
    p->membership_revision = db_at(&r, 0, 5)->i;
    bool known = role_of(db_at(&r, 0, 3)->s, &role);
    p->role = known ? role : ROLE_VIEWER;
    p->permissions = known ? role_permissions(role) : 0;
    return true;
}

bool identity_resolve(const struct store *st, const char *account, const char *workspace,
                      struct principal *out, struct error *err)
{
    struct resolve q = {.st = st, .account = account, .workspace = workspace, .out = out};
    struct db_scope scope = {DB_SCOPE_WORKSPACE, workspace};
    if (!workspace || strlen(workspace) != UUID_SIZE - 1)
        return missing(err);
    return db_read(st->db, scope, do_resolve, &q, err);
}

struct one_workspace {
    const struct store *st;
    struct scope scope;
    const char *account;
    json_t *out;
};

static json_t *member_json(const struct store *st, struct db_tx *tx, const struct scope *s,
                           const char *account, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT m.uuid, m.account_uuid, u.\"user\", u.normalized_email, m.role, m.status, m.joined_at, m.created_at FROM "
            "workspace_memberships m JOIN users u ON u.uuid = m.account_uuid WHERE m.workspace_uuid = ? AND m.status = 'active' AND u.status = 'active' AND (? = '' "
            "OR m.account_uuid = ?) ORDER BY m.created_at, m.uuid"};
    (void)st;
    struct db_val v[] = {DB_V_Z(s->workspace), DB_V_Z(account), DB_V_Z(account)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 3, &r, err))
        return NULL;
    json_t *all = json_array();
    for (size_t i = 0; i < r.n; i++) {
        json_t *m = json_object();
        static const char *const names[] = {"uuid",  "account_uuid", "display_name",
                                            "email", "role",         "status"};
        for (size_t c = 0; c < array_len(names); c++)
            json_set(m, names[c], json_strn(db_at(&r, i, c)->s));
        json_set(m, "workspace_uuid", json_string(s->workspace));
        for (size_t c = 6; c < 8; c++) {
            int64_t us;
            char iso[TIME_ISO_SIZE];
            const struct db_val *t = db_at(&r, i, c);
            json_set(m, c == 6 ? "joined_at" : "created_at",
                     t->type == DB_TEXT && time_parse(t->s, &us) ? json_string(time_iso(us, iso))
                                                                 : json_null());
        }
        json_array_append_new(all, m);
    }
    return all;
}

static json_t *workspace_json(struct db_tx *tx, const struct store *st, const struct scope *s,
                              struct error *err)
{
    struct store_eq key = EQ_Z("uuid", s->workspace);
    auto_json row = store_get(tx, st, &table_workspaces, s, &key, 1, true, err);
    if (!row)
        return NULL;
    json_t *out = json_object();
    static const char *const names[] = {"uuid", "instance_uuid", "name",  "slug",
                                        "type", "status",        "source"};
    for (size_t i = 0; i < array_len(names); i++)
        json_object_set(out, names[i], json_object_get(row, names[i]));
    return out;
}

static bool do_current(struct db_tx *tx, void *arg, struct error *err)
{
    struct one_workspace *o = arg;
    auto_json ws = workspace_json(tx, o->st, &o->scope, err);
    auto_json members = ws ? member_json(o->st, tx, &o->scope, o->account, err) : NULL;
    struct principal p = {0};
    struct resolve q = {
        .st = o->st, .account = o->account, .workspace = o->scope.workspace, .out = &p};
    if (!members || !do_resolve(tx, &q, err))
        return false;
    o->out = json_pack("{s:O,s:O,s:o,s:I,s:n}", "workspace", ws, "membership",
                       json_array_get(members, 0), "permissions", permset_json(p.permissions),
                       "placement_generation", (json_int_t)p.scope.generation, "plan_name");
    return o->out || missing(err);
}

json_t *identity_current(const struct store *st, const struct principal *p, struct error *err)
{
    struct one_workspace o = {.st = st, .scope = p->scope, .account = p->account};
    return store_result(db_read(st->db, scope_db(&p->scope), do_current, &o, err), &o.out);
}

struct mine {
    const char *account;
    json_t *uuids;
};

static bool do_mine(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT workspace_uuid FROM workspace_memberships WHERE account_uuid = ? AND status = 'active' ORDER BY "
            "created_at, uuid LIMIT 1000"};
    struct mine *m = arg;
    struct db_val v[] = {DB_V_Z(m->account)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 1, &r, err))
        return false;
    m->uuids = json_array();
    for (size_t i = 0; i < r.n; i++)
        json_array_append_new(m->uuids, json_strn(db_at(&r, i, 0)->s));
    return m->uuids || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *identity_bootstrap(const struct store *st, const char *account, struct error *err)
{
    struct mine m = {.account = account};
    struct db_scope scope = {DB_SCOPE_ACCOUNT, account};
    auto_json uuids = store_result(db_read(st->db, scope, do_mine, &m, err), &m.uuids);
    auto_json list = json_array();
    if (!uuids)
        return NULL;
    size_t i;
    json_t *u;
    json_array_foreach (uuids, i, u) {
        struct one_workspace o = {
            .st = st, .scope = scope_of(st, json_string_value(u), 1), .account = account};
        struct error one = {0};
        json_t *got =
            store_result(db_read(st->db, scope_db(&o.scope), do_current, &o, &one), &o.out);
        if (got) {
            json_array_append_new(list, got);
        } else if (one.code != ERR_NOT_FOUND && one.code != ERR_UNAUTHORIZED) {
            *err = one;
            return NULL;
        }
    }
    return json_pack("{s:O}", "workspaces", list);
}

/* ---- API keys ----------------------------------------------------------------------------------------------------------------- */

struct api_key {
    const struct store *st;
    const char *hash;
    char workspace[UUID_SIZE];
    struct principal *out;
};

static bool bad_key(struct error *err)
{
    return err_tag(err, ERR_UNAUTHORIZED, 401, "invalid_authentication",
                   "Invalid authentication credentials");
}

static bool do_key_find(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text = "SELECT workspace_uuid FROM api_keys WHERE key_hash = ? AND status = 'active'"};
    struct api_key *k = arg;
    struct db_val v[] = {DB_V_Z(k->hash)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 1, &r, err))
        return false;
    if (r.n == 0)
        return bad_key(err);
    snprintf(k->workspace, sizeof k->workspace, STR_FMT, STR_ARG(db_at(&r, 0, 0)->s));
    return true;
}

static bool do_key_use(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql use = {
        .text =
            "UPDATE api_keys SET last_used_at = ? WHERE workspace_uuid = ? AND key_hash = ? AND status = 'active' AND (expires_at IS NULL OR "
            "expires_at > ?) RETURNING uuid, scopes, expires_at"};
    static struct db_sql binding = {
        .text =
            "SELECT w.status, e.active_generation, e.state, e.write_fenced FROM workspaces w JOIN "
            "workspace_execution_states e ON e.workspace_uuid = w.uuid WHERE w.uuid = ?"};
    struct api_key *k = arg;
    char now[TIME_ISO_SIZE];
    time_sql(time_wall_us(), now);
    struct db_val v[] = {DB_V_Z(now), DB_V_Z(k->workspace), DB_V_Z(k->hash), DB_V_Z(now)},
                  w[] = {DB_V_Z(k->workspace)};
    struct db_rows r, b;
    if (!db_query(tx, &use, v, 4, &r, err) || !db_query(tx, &binding, w, 1, &b, err))
        return false;
    if (r.n == 0 || b.n == 0 || !text_is(db_at(&b, 0, 0), "active") ||
        !text_is(db_at(&b, 0, 2), "active") || db_at(&b, 0, 3)->i != 0)
        return bad_key(err);
    struct principal *p = k->out;
    p->kind = PRINCIPAL_API_KEY;
    p->scope = scope_of(k->st, k->workspace, db_at(&b, 0, 1)->i);
    snprintf(p->api_key, sizeof p->api_key, STR_FMT, STR_ARG(db_at(&r, 0, 0)->s));
    const struct db_val *until = db_at(&r, 0, 2);
    if (until->type == DB_TEXT && !time_parse(until->s, &p->expires_us))
        return bad_key(err);
    auto_json scopes = json_parse(db_at(&r, 0, 1)->s, err);
    if (!scopes)
        return bad_key(err);
    p->permissions = permset_of_json(scopes);
    return true;
}

bool identity_api_key(const struct store *st, const char *hash, struct principal *out,
                      struct error *err)
{
    struct api_key k = {.st = st, .hash = hash, .out = out};
    struct db_scope find = {DB_SCOPE_API_KEY, hash};
    if (!db_read(st->db, find, do_key_find, &k, err))
        return false;
    struct db_scope use = {DB_SCOPE_WORKSPACE, k.workspace};
    return db_write(st->db, use, do_key_use, &k, err);
}

/* ---- the fence, metadata --------------------------------------------------------------------------------------------------------- */

struct bindings {
    const struct store *st;
    json_t *rows;
};

static bool do_bindings(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT workspace_uuid, active_generation FROM workspace_execution_states WHERE instance_uuid = ? AND "
            "state = 'active' AND write_fenced = ? ORDER BY workspace_uuid LIMIT 5000"};
    struct bindings *b = arg;
    struct db_val v[] = {DB_V_Z(b->st->instance), DB_V_B(false)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 2, &r, err))
        return false;
    b->rows = json_array();
    for (size_t i = 0; i < r.n; i++)
        json_array_append_new(b->rows, json_pack("[o,I]", json_strn(db_at(&r, i, 0)->s),
                                                 (json_int_t)db_at(&r, i, 1)->i));
    return b->rows || err_set(err, ERR_NOMEM, "out of memory");
}

bool identity_load_fence(const struct store *st, struct fence *f, struct error *err)
{
    struct bindings b = {.st = st};
    struct db_scope scope = {DB_SCOPE_INSTANCE, st->instance};
    auto_json rows = store_result(db_read(st->db, scope, do_bindings, &b, err), &b.rows);
    if (!rows)
        return false;
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row) {
        if (!fence_set(f, json_string_value(json_array_get(row, 0)),
                       json_integer_value(json_array_get(row, 1)), true, err))
            return false;
    }
    return true;
}

json_t *workspace_meta_get(const struct store *st, const struct scope *scope, const char *name,
                           struct error *err)
{
    struct store_eq key = EQ_Z("key", name);
    auto_json row = store_do_get(st, &table_workspace_metadata, scope, &key, 1, true, err);
    if (row)
        return json_incref(json_object_get(row, "value"));
    if (err->code != ERR_NOT_FOUND)
        return NULL;
    *err = (struct error){0};
    return json_null();
}

struct meta {
    const struct scope *scope;
    const char *key, *value;
};

static bool do_meta(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql set = {
        .text =
            "INSERT INTO workspace_metadata (workspace_uuid, key, value) VALUES (?, ?, ?) ON CONFLICT (workspace_uuid, "
            "key) DO UPDATE SET value = excluded.value"};
    static struct db_sql del = {
        .text = "DELETE FROM workspace_metadata WHERE workspace_uuid = ? AND key = ?"};
    struct meta *m = arg;
    struct db_val v[] = {DB_V_Z(m->scope->workspace), DB_V_Z(m->key), db_val_z(m->value)};
    db_touch(tx, GROUP_IDENTITY);
    return db_exec(tx, m->value ? &set : &del, v, m->value ? 3 : 2, NULL, err);
}

bool workspace_meta_set(const struct store *st, const struct scope *scope, const char *key,
                        const char *value, struct error *err)
{
    struct meta m = {scope, key, value};
    return db_write(st->db, scope_db(scope), do_meta, &m, err);
}

/* ---- members ----------------------------------------------------------------------------------------------------------------------- */

struct member_job {
    const struct store *st;
    const struct principal *actor;
    struct scope scope;
    const char *account;
    struct str role;
    json_t *out;
};

static bool do_members(struct db_tx *tx, void *arg, struct error *err)
{
    struct member_job *j = arg;
    j->out = member_json(j->st, tx, &j->scope, "", err);
    return j->out != NULL;
}

json_t *members_list(const struct store *st, const struct scope *scope, struct error *err)
{
    struct member_job j = {.st = st, .scope = *scope};
    return store_result(db_read(st->db, scope_db(scope), do_members, &j, err), &j.out);
}

static bool denied(struct error *err, const char *text)
{
    return err_tag(err, ERR_DENIED, 403, "permission_denied", "%s", text);
}

/* Role of an active member; ERR_INVALID membership_not_found. */
static bool role_in(struct db_tx *tx, const struct scope *s, const char *account, enum role *role,
                    struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT m.role FROM workspace_memberships m JOIN users u ON u.uuid = m.account_uuid WHERE m.workspace_uuid = ? AND "
            "m.account_uuid = ? AND m.status = 'active' AND u.status = 'active'",
        .pg =
            "SELECT m.role FROM workspace_memberships m JOIN users u ON u.uuid = m.account_uuid WHERE m.workspace_uuid = ? AND "
            "m.account_uuid = ? AND m.status = 'active' AND u.status = 'active' FOR UPDATE OF m"};
    struct db_val v[] = {DB_V_Z(s->workspace), DB_V_Z(account)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 2, &r, err))
        return false;
    if (r.n == 0 || !role_of(db_at(&r, 0, 0)->s, role))
        return err_tag(err, ERR_INVALID, 400, "membership_not_found", "Membership not found");
    return true;
}

/* The rules of tenancy.md §3 on who may manage whom. */
static bool may_manage(struct db_tx *tx, struct member_job *j, enum role *target, struct error *err)
{
    enum role actor;
    if (!role_in(tx, &j->scope, j->actor->account, &actor, err))
        return err->tag && strcmp(err->tag, "membership_not_found") == 0
                   ? denied(err, "Only active members manage members")
                   : false;
    if (actor != ROLE_OWNER && actor != ROLE_ADMIN)
        return denied(err, "Only the owner and admins manage members");
    if (!role_in(tx, &j->scope, j->account, target, err))
        return false;
    if (*target == ROLE_OWNER && actor != ROLE_OWNER)
        return denied(err, "An admin may not manage the owner");
    return *target != ROLE_OWNER ||
           err_tag(err, ERR_INVALID, 400, "last_owner_required",
                   "The owner can neither be removed nor given another role");
}

static bool member_update(struct db_tx *tx, struct member_job *j, const char *column,
                          struct str value, struct error *err)
{
    struct store_eq key = EQ_Z("account_uuid", j->account);
    auto_json patch = json_object();
    json_set(patch, column, json_strn(value));
    return store_update(tx, j->st, &table_memberships, &j->scope, &key, 1, patch, true, err);
}

static bool do_role(struct db_tx *tx, void *arg, struct error *err)
{
    struct member_job *j = arg;
    enum role role, target;
    if (!role_of(j->role, &role))
        return denied(err, "Unknown role");
    if (role == ROLE_OWNER)
        return denied(err, "Ownership cannot be transferred");
    if (!may_manage(tx, j, &target, err) || !member_update(tx, j, "role", j->role, err))
        return false;
    auto_json all = member_json(j->st, tx, &j->scope, j->account, err);
    j->out = json_incref(json_array_get(all, 0));
    return j->out != NULL;
}

json_t *member_set_role(const struct store *st, const struct principal *actor, const char *account,
                        struct str role, struct error *err)
{
    struct member_job j = {
        .st = st, .actor = actor, .scope = actor->scope, .account = account, .role = role};
    return store_result(db_write(st->db, scope_db(&j.scope), do_role, &j, err), &j.out);
}

static bool do_member_remove(struct db_tx *tx, void *arg, struct error *err)
{
    struct member_job *j = arg;
    enum role target;
    return may_manage(tx, j, &target, err) && member_update(tx, j, "status", S("removed"), err);
}

bool member_remove(const struct store *st, const struct principal *actor, const char *account,
                   struct error *err)
{
    struct member_job j = {.st = st, .actor = actor, .scope = actor->scope, .account = account};
    return db_write(st->db, scope_db(&j.scope), do_member_remove, &j, err);
}
