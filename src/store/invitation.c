/* Invitations. tenancy.md §6, http-api.md §4. */
#include "store/store.h"

enum { LIFETIME_US_DAYS = 7 };

struct job {
    const struct store *st;
    const struct principal *actor;
    struct scope scope;
    struct str email, role;
    const char *hash, *uuid, *phc;
    json_t *out;
    int64_t removed;
    char workspace[UUID_SIZE];
};

static bool refuse(struct error *err, const char *tag, const char *text)
{
    return err_tag(err, ERR_INVALID, 400, tag, "%s", text);
}

static json_t *iso(int64_t us)
{
    char text[TIME_ISO_SIZE];
    return json_string(time_iso(us, text));
}

/* {uuid,workspace_uuid,normalized_email,role,status,expires_at,created_at} */
static json_t *shown(const json_t *row)
{
    static const char *const names[] = {"uuid",   "workspace_uuid", "normalized_email", "role",
                                        "status", "expires_at",     "created_at"};
    json_t *out = json_object();
    for (size_t i = 0; i < array_len(names); i++)
        json_object_set(out, names[i], json_object_get(row, names[i]));
    return out;
}

static bool set_status(struct db_tx *tx, const struct job *j, const char *uuid, const char *status,
                       const char *time_column, struct error *err)
{
    struct store_eq key = EQ_Z("uuid", uuid);
    auto_json patch = json_pack("{s:s}", "status", status);
    if (time_column)
        json_set(patch, time_column, iso(time_wall_us()));
    return store_update(tx, j->st, &table_invitations, &j->scope, &key, 1, patch, true, err);
}

static bool overdue(const json_t *row)
{
    int64_t us = 0;
    return time_parse(json_s(row, "expires_at"), &us) && us <= time_wall_us();
}

/* ---- create, list, revoke ------------------------------------------------------------------------------------------------- */

static bool is_member(struct db_tx *tx, const struct job *j, struct str normal, bool *yes,
                      struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT 1 FROM workspace_memberships m JOIN users u ON u.uuid = m.account_uuid WHERE m.workspace_uuid = ? "
            "AND m.status = 'active' AND u.normalized_email = ?"};
    struct db_val v[] = {DB_V_Z(j->scope.workspace), DB_V_S(normal)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 2, &r, err))
        return false;
    *yes = r.n > 0;
    return true;
}

static bool revoke_pending(struct db_tx *tx, const struct job *j, struct str normal,
                           struct error *err)
{
    struct store_eq key[] = {EQ_S("normalized_email", normal), EQ_Z("status", "pending")};
    auto_json patch =
        json_pack("{s:s,s:o}", "status", "revoked", "revoked_at", iso(time_wall_us()));
    if (store_update(tx, j->st, &table_invitations, &j->scope, key, 2, patch, true, err) ||
        err->code == ERR_NOT_FOUND) {
        *err = (struct error){0};
        return true;
    }
    return false;
}

static bool do_create(struct db_tx *tx, void *arg, struct error *err)
{
    struct job *j = arg;
    enum role role;
    struct str normal;
    bool member = false;
    if (!role_of(j->role, &role) || role == ROLE_OWNER)
        return refuse(err, "invitation_role_invalid",
                      "role must be one of admin, developer, operator, viewer");
    if (!email_normalize(db_tx_arena(tx), j->email, &normal, err))
        return refuse(err, "invitation_invalid",
                      "email must be an e-mail address of at most 320 characters");
    if (!is_member(tx, j, normal, &member, err))
        return false;
    if (member)
        return refuse(err, "already_a_member", "This e-mail address belongs to a member already");
    if (!revoke_pending(tx, j, normal, err))
        return false;
    auto_json row = json_pack("{s:o,s:s,s:s,s:o,s:s}", "normalized_email", json_strn(normal),
                              "role", role_name(role), "token_hash", j->hash, "expires_at",
                              iso(time_wall_us() + LIFETIME_US_DAYS * 86400LL * 1000000),
                              "created_by_account_uuid", j->actor->account);
    auto_json made = store_insert(tx, j->st, &table_invitations, &j->scope, row, err);
    if (!made)
        return false;
    j->out = shown(made);
    return true;
}

json_t *invitation_create(const struct store *st, const struct principal *actor, struct str email,
                          struct str role, const char *hash, struct error *err)
{
    struct job j = {.st = st,
                    .actor = actor,
                    .scope = actor->scope,
                    .email = email,
                    .role = role,
                    .hash = hash};
    return store_result(db_write(st->db, scope_db(&j.scope), do_create, &j, err), &j.out);
}

static bool do_pending(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql flip = {
        .text =
            "UPDATE workspace_invitations SET status = 'expired', updated_at = ? WHERE workspace_uuid = ? AND status = 'pending' AND expires_at <= ?"};
    struct job *j = arg;
    char now[TIME_ISO_SIZE];
    time_sql(time_wall_us(), now);
    struct db_val v[] = {DB_V_Z(now), DB_V_Z(j->scope.workspace), DB_V_Z(now)};
    struct store_eq pending = EQ_Z("status", "pending");
    if (!db_exec(tx, &flip, v, 3, NULL, err))
        return false;
    auto_json rows =
        store_list(tx, j->st, &table_invitations, &j->scope, &pending, 1, NULL, -1, 0, false, err);
    if (!rows)
        return false;
    j->out = json_array();
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        json_array_append_new(j->out, shown(row));
    return true;
}

json_t *invitations_pending(const struct store *st, const struct scope *scope, struct error *err)
{
    struct job j = {.st = st, .scope = *scope};
    return store_result(db_write(st->db, scope_db(scope), do_pending, &j, err), &j.out);
}

static bool do_revoke(struct db_tx *tx, void *arg, struct error *err)
{
    struct job *j = arg;
    struct store_eq key = EQ_Z("uuid", j->uuid);
    auto_json row = store_get(tx, j->st, &table_invitations, &j->scope, &key, 1, true, err);
    if (!row)
        return err->code == ERR_NOT_FOUND
                   ? refuse(err, "invitation_invalid", "The invitation is not valid")
                   : false;
    const char *status = json_z_or(row, "status", "");
    if (strcmp(status, "accepted") == 0)
        return refuse(err, "invitation_used", "The invitation was accepted already");
    if (strcmp(status, "expired") == 0)
        return refuse(err, "invitation_expired", "The invitation has expired");
    if (strcmp(status, "revoked") != 0) {
        if (!set_status(tx, j, j->uuid, "revoked", "revoked_at", err))
            return false;
        json_set(row, "status", json_string("revoked"));
    }
    j->out = shown(row);
    return true;
}

json_t *invitation_revoke(const struct store *st, const struct principal *actor, const char *uuid,
                          struct error *err)
{
    struct job j = {.st = st, .actor = actor, .scope = actor->scope, .uuid = uuid};
    return store_result(db_write(st->db, scope_db(&j.scope), do_revoke, &j, err), &j.out);
}

/* ---- by token ------------------------------------------------------------------------------------------------------------------ */

static bool do_workspace_of(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text = "SELECT workspace_uuid FROM workspace_invitations WHERE token_hash = ?"};
    struct job *j = arg;
    struct db_val v[] = {DB_V_Z(j->hash)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 1, &r, err))
        return false;
    if (r.n == 0)
        return refuse(err, "invitation_invalid", "The invitation is not valid");
    snprintf(j->workspace, sizeof j->workspace, STR_FMT, STR_ARG(db_at(&r, 0, 0)->s));
    return true;
}

/* The workspace comes from the invitation, never from the caller. */
static bool find_scope(const struct store *st, struct job *j, struct error *err)
{
    struct db_scope find = {DB_SCOPE_INVITATION, j->hash};
    if (!db_read(st->db, find, do_workspace_of, j, err))
        return false;
    snprintf(j->scope.instance, sizeof j->scope.instance, "%s", st->instance);
    snprintf(j->scope.workspace, sizeof j->scope.workspace, "%s", j->workspace);
    j->scope.generation = 1;
    return true;
}

/* The row of a token that may still be used; flips an overdue one (the caller commits that by returning true with *expired). */
static json_t *usable(struct db_tx *tx, struct job *j, bool *expired, struct error *err)
{
    struct store_eq key = EQ_Z("token_hash", j->hash), ws = EQ_Z("uuid", j->scope.workspace);
    auto_json row = store_get(tx, j->st, &table_invitations, &j->scope, &key, 1, true, err);
    auto_json workspace =
        row ? store_get(tx, j->st, &table_workspaces, &j->scope, &ws, 1, true, err) : NULL;
    if (!workspace || strcmp(json_z_or(workspace, "status", ""), "active") != 0) {
        refuse(err, "invitation_invalid", "The invitation is not valid");
        return NULL;
    }
    const char *status = json_z_or(row, "status", "");
    if (strcmp(status, "revoked") == 0) {
        refuse(err, "invitation_revoked", "The invitation was revoked");
        return NULL;
    }
    if (strcmp(status, "accepted") == 0) {
        refuse(err, "invitation_used", "The invitation was accepted already");
        return NULL;
    }
    if (strcmp(status, "expired") == 0 || overdue(row)) {
        *expired = true;
        if (strcmp(status, "expired") != 0 &&
            !set_status(tx, j, json_z_or(row, "uuid", ""), "expired", NULL, err))
            return NULL;
        return NULL;
    }
    return steal(row);
}

static json_t *workspace_shown(struct db_tx *tx, struct job *j, struct error *err)
{
    static const char *const names[] = {"uuid", "instance_uuid", "name",  "slug",
                                        "type", "status",        "source"};
    struct store_eq key = EQ_Z("uuid", j->scope.workspace);
    auto_json row = store_get(tx, j->st, &table_workspaces, &j->scope, &key, 1, true, err);
    if (!row)
        return NULL;
    json_t *out = json_object();
    for (size_t i = 0; i < array_len(names); i++)
        json_object_set(out, names[i], json_object_get(row, names[i]));
    return out;
}

static bool do_inspect(struct db_tx *tx, void *arg, struct error *err)
{
    struct job *j = arg;
    bool expired = false;
    auto_json row = usable(tx, j, &expired, err);
    if (expired && err->code == ERR_NONE)
        return true; /* the flip is kept; the caller tells */
    json_t *workspace = row ? workspace_shown(tx, j, err) : NULL;
    if (!workspace)
        return false;
    j->out = json_pack("{s:o,s:o}", "invitation", shown(row), "workspace", workspace);
    return true;
}

static json_t *finish(bool ok, struct job *j, struct error *err)
{
    if (ok && !j->out)
        refuse(err, "invitation_expired", "The invitation has expired");
    return store_result(ok, &j->out);
}

json_t *invitation_inspect(const struct store *st, const char *hash, struct error *err)
{
    struct job j = {.st = st, .hash = hash};
    if (!find_scope(st, &j, err))
        return NULL;
    return finish(db_write(st->db, scope_db(&j.scope), do_inspect, &j, err), &j, err);
}

static bool add_member(struct db_tx *tx, struct job *j, const json_t *invitation,
                       const char *account, struct error *err)
{
    auto_json row =
        json_pack("{s:s,s:O,s:s,s:s,s:O,s:o}", "account_uuid", account, "role",
                  json_object_get(invitation, "role"), "status", "active", "source", "local",
                  "invited_by_account_uuid", json_object_get(invitation, "created_by_account_uuid"),
                  "joined_at", iso(time_wall_us()));
    auto_json made = store_insert(tx, j->st, &table_memberships, &j->scope, row, err);
    return made &&
           set_status(tx, j, json_z_or(invitation, "uuid", ""), "accepted", "accepted_at", err);
}

/* On SQLite the one writer is the lock. */
static bool lock_invitation(struct db_tx *tx, const struct job *j, struct error *err)
{
    static struct db_sql lock = {
        .text =
            "SELECT uuid FROM workspace_invitations WHERE workspace_uuid = ? AND token_hash = ?",
        .pg =
            "SELECT uuid FROM workspace_invitations WHERE workspace_uuid = ? AND token_hash = ? FOR UPDATE"};
    struct db_val v[] = {DB_V_Z(j->scope.workspace), DB_V_Z(j->hash)};
    struct db_rows r;
    return db_query(tx, &lock, v, 2, &r, err);
}

static bool do_register(struct db_tx *tx, void *arg, struct error *err)
{
    struct job *j = arg;
    bool expired = false;
    struct str normal;
    if (!lock_invitation(tx, j, err))
        return false;
    auto_json row = usable(tx, j, &expired, err);
    if (expired && err->code == ERR_NONE)
        return true;
    if (!row)
        return false;
    if (!email_normalize(db_tx_arena(tx), j->email, &normal, err) ||
        !str_eq(normal, json_s(row, "normalized_email")))
        return refuse(err, "invitation_email_mismatch",
                      "The invitation is for another e-mail address");
    struct store_eq by_email = EQ_S("normalized_email", normal);
    int64_t n = 0;
    if (!store_count(tx, &table_users, NULL, &by_email, 1, &n, err))
        return false;
    if (n > 0)
        return err_tag(err, ERR_CONFLICT, 409, "account_exists_login_required",
                       "An account with this e-mail address exists; sign in");
    auto_json user = json_pack("{s:o,s:o,s:s}", "user", json_strn(str_trim(j->email)),
                               "normalized_email", json_strn(normal), "password", j->phc);
    auto_json account = store_insert(tx, j->st, &table_users, NULL, user, err);
    if (!account || !add_member(tx, j, row, json_z_or(account, "uuid", ""), err))
        return false;
    j->out = json_pack("{s:s}", "workspace_uuid", j->scope.workspace);
    return true;
}

json_t *invitation_register(const struct store *st, const char *hash, struct str email,
                            const char *phc, struct error *err)
{
    struct job j = {.st = st, .hash = hash, .email = email, .phc = phc};
    if (!find_scope(st, &j, err))
        return NULL;
    return finish(db_write(st->db, scope_db(&j.scope), do_register, &j, err), &j, err);
}

static bool do_expire(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "DELETE FROM workspace_invitations WHERE workspace_uuid = ? AND status IN ('pending', 'expired') AND expires_at <= ?"};
    struct job *j = arg;
    char now[TIME_ISO_SIZE];
    struct db_val v[] = {DB_V_Z(j->scope.workspace), DB_V_Z(time_sql(time_wall_us(), now))};
    return db_exec(tx, &sql, v, 2, &j->removed, err);
}

bool invitations_expire(const struct store *st, const struct scope *scope, int64_t *removed,
                        struct error *err)
{
    struct job j = {.st = st, .scope = *scope};
    if (!db_write(st->db, scope_db(scope), do_expire, &j, err))
        return false;
    *removed = j.removed;
    return true;
}
