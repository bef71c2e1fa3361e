/* Each allocation of a request fails once, on the loop's thread and on those of the database: the answer is the usual one or an error,
 * and never half a one; nothing leaks, and the same request works the next time. */
#include "api/lab.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define W     "/api/v1/workspaces"
#define TOKEN "lbi_0123456789"
#define INVITED                                                                                \
    "DELETE FROM workspace_memberships WHERE role <> 'owner';"                                 \
    "DELETE FROM users WHERE normalized_email = 'guest@example.com';"                          \
    "DELETE FROM workspace_invitations;"                                                       \
    "INSERT INTO workspace_invitations (uuid, workspace_uuid, normalized_email, role, "        \
    "token_hash, status, expires_at, created_by_account_uuid, created_at, updated_at) SELECT " \
    "'0b8a4c0e-1111-4111-8111-000000000001', uuid, 'guest@example.com', 'viewer', '%HASH%', "  \
    "'pending', '2999-01-01 00:00:00.000000', created_by_account_uuid, '2020-01-01 "           \
    "00:00:00.000000', '2020-01-01 00:00:00.000000' FROM workspaces;"

struct call {
    const char *method, *path,
        *body;       /* "{w}" of a path is the workspace, "{m}" the second member's account */
    int status;      /* with all memory there is */
    const char *sql; /* before each try; "%HASH%" is that of TOKEN */
    bool open;       /* without the first account's token */
    long most;       /* allocations tried; 0: all */
    bool same;       /* the answer is the same each time */
};

enum where { LOOP, WRITER, READER };

static void prepare(struct lab *l, const struct call *c, char path[300])
{
    struct str rest = str_c(c->path);
    char hash[65];
    size_t n = 0;
    for (; rest.n; rest = str_sub(rest, 1, rest.n)) {
        if (str_starts(rest, S("{w}"))) {
            n += (size_t)snprintf(path + n, 300 - n, "%s", l->scope.workspace);
            rest = str_sub(rest, 2, rest.n);
        } else {
            path[n++] = *rest.p;
        }
    }
    path[n] = '\0';
    if (!c->sql)
        return;
    auto_arena a = arena_new(64 << 10);
    sha256_hex(S(TOKEN), hash);
    const char *mark = strstr(c->sql, "%HASH%");
    lab_sql(l, mark ? z_fmt(a, "%.*s%s%s", (int)(mark - c->sql), c->sql, hash, mark + 6) : c->sql);
}

/* Whatever failed, a client can tell what it got. */
static bool sound(struct lab *l, const struct call *c, int status, const json_t *usual)
{
    if (status == 0)
        return l->text[0] == '\0'; /* not even a head was kept: the connection is closed */
    if (status == c->status)
        return l->answer && (!c->same || json_equal(l->answer, usual));
    /* 400, 401: what was sent could not be read. 429: no memory for a worker. */
    return l->answer && json_object_get(l->answer, "code") && json_object_get(l->answer, "msg") &&
           (status >= 500 || status == 429 || status == 401 || status == 400);
}

/* One try; true: an allocation failed meanwhile. */
static bool try_once(struct lab *l, const struct call *c, enum where where, long nth, int *status)
{
    char path[300];
    const char *headers = c->open ? "" : NULL;
    prepare(l, c, path);
    if (where == LOOP) {
        unsigned long failures = mem_failures();
        *status = lab_call_failing(l, nth, c->method, path, headers, c->body);
        return mem_failures() != failures;
    }
    enum lab_thread thread = where == WRITER ? LAB_WRITER : LAB_READER;
    lab_arm(l, thread, nth);
    *status = lab_call(l, c->method, path, headers, c->body);
    return lab_disarm(l, thread);
}

/* The number of answers that were others than the usual one. */
static size_t try_thread(struct lab *l, const struct call *c, enum where where, const json_t *usual)
{
    size_t others = 0;
    int whole = 0, status; /* tries in a row that lacked nothing */
    for (long nth = 1; whole < 3 && (!c->most || nth <= c->most); nth++) {
        whole = try_once(l, c, where, nth, &status) ? 0 : whole + 1;
        others += status != c->status;
        if (!check(l, sound(l, c, status, usual)) || !check(l, nth < 5000)) {
            print_error("  %s %s with allocation %ld of thread %d failing: %d\n", c->method,
                        c->path, nth, where, status);
            break;
        }
    }
    return others;
}

static void try_call(struct lab *l, const struct call *c)
{
    int status;
    try_once(l, c, LOOP, 0, &status);
    if (!check(l, status == c->status))
        print_error("  %s %s at first: %d\n", c->method, c->path, status);
    auto_json usual = json_incref(l->answer);
    size_t others = 0;
    for (enum where where = LOOP; where <= READER; where++)
        others += try_thread(l, c, where, usual);
    check(l, others > 0);
    try_once(l, c, LOOP, 0, &status);
    if (!check(l, status == c->status))
        print_error("  %s %s afterwards: %d\n", c->method, c->path, status);
}

static void try_all(struct lab *l, const struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        try_call(l, &calls[i]);
}

static void accounts(struct lab *l)
{
    static const struct call calls[] = {
        {"GET", "/api/v1/user/init", .status = 200, .same = true},
        {"POST", "/api/v1/user/auth", "{\"user\":\"" LAB_USER "\",\"password\":\"right\"}", 200},
        {"GET", "/api/v1/user/check-token", .status = 200},
        {"GET", "/api/v1/user/info", .status = 200, .same = true},
        {"GET", "/api/v1/user/account-info", .status = 200, .same = true},
        {"GET", "/api/v1/user/space-credits", .status = 200, .same = true},
    };
    try_all(l, calls, array_len(calls));
}

static void workspaces(struct lab *l)
{
    static const struct call calls[] = {
        {"GET", W "/bootstrap", .status = 200, .same = true},
        {"GET", W, .status = 200, .same = true},
        {"GET", W "/current", .status = 200, .same = true},
        {"GET", W "/{w}", .status = 200, .same = true},
        {"GET", W "/{w}/members", .status = 200, .same = true},
        {"POST", W "/{w}/invitations", "{\"email\":\"a@example.com\"}", 200},
        {"GET", W "/{w}/invitations", .status = 200, .same = true, .sql = INVITED},
        {"POST", "/api/v1/invitations/inspect", "{\"token\":\"" TOKEN "\"}", 200, .sql = INVITED,
         .same = true, .open = true},
        {"DELETE", W "/{w}/invitations/0b8a4c0e-1111-4111-8111-000000000001", .status = 200,
         .sql = INVITED},
        {"POST", "/api/v1/invitations/accept",
         "{\"token\":\"" TOKEN
         "\",\"registration\":{\"email\":\"guest@example.com\",\"password\":\"12345678\"}}",
         200, .sql = INVITED, .open = true, .most = 12},
    };
    try_all(l, calls, array_len(calls));
}

#define KEYS                                                                                     \
    "DELETE FROM api_keys; INSERT INTO api_keys (id, uuid, workspace_uuid, name, key_hash, "     \
    "scopes, status, created_at, updated_at) SELECT 7, '0b8a4c0e-1111-4111-8111-000000000002', " \
    "uuid, 'K', '%HASH%', '[\"*\"]', 'active', '2020-01-01 00:00:00.000000', '2020-01-01 "       \
    "00:00:00.000000' FROM workspaces;"

static void keys(struct lab *l)
{
    static const struct call calls[] = {
        {"POST", "/api/v1/apikeys",
         "{\"name\":\"K\",\"scopes\":[\"resource.view\"],\"expires_at\":\"2999-01-01T00:00:00\"}",
         200, .sql = KEYS},
        {"GET", "/api/v1/apikeys", .status = 200, .same = true, .sql = KEYS},
        {"GET", "/api/v1/apikeys/7", .status = 200, .same = true, .sql = KEYS},
        {"PUT", "/api/v1/apikeys/7", "{\"name\":\"N\",\"description\":\"D\"}", 200, .sql = KEYS},
        {"DELETE", "/api/v1/apikeys/7", .status = 200, .sql = KEYS},
    };
    try_all(l, calls, array_len(calls));
}

/* ---- what the routes above reach behind a hashed password, without it ------------------------------------------------------- */

struct unit {
    bool (*run)(struct lab *l, struct error *err);
    const char *sql;     /* before each try */
    const char *counted; /* a number that is 1 where the unit is done, else 0 */
};

static bool join(struct lab *l, struct error *err)
{
    char hash[65];
    sha256_hex(S(TOKEN), hash);
    auto_json made =
        invitation_register(&l->store, hash, S("guest@example.com"), "$argon2id$x", err);
    return made != NULL;
}

static bool first_account(struct lab *l, struct error *err)
{
    struct scope scope;
    auto_json made =
        account_create_first(&l->store, S("Guest@example.com"), "$argon2id$x", &scope, err);
    return made && str_eqz(json_s(made, "password"), "$argon2id$x");
}

static bool password(struct lab *l, struct error *err)
{
    int64_t revision = 0;
    return account_set_password(&l->store, l->account, "$argon2id$y", &revision, err) &&
           revision == 1;
}

static struct principal owner(const struct lab *l)
{
    struct principal p = {.kind = PRINCIPAL_ACCOUNT, .scope = l->scope, .role = ROLE_OWNER};
    snprintf(p.account, sizeof p.account, "%s", l->account);
    return p;
}

#define GUEST "0b8a4c0e-1111-4111-8111-0000000000aa"

static bool new_role(struct lab *l, struct error *err)
{
    struct principal p = owner(l);
    auto_json member = member_set_role(&l->store, &p, GUEST, S("admin"), err);
    return member && str_eqz(json_s(member, "role"), "admin");
}

static bool removal(struct lab *l, struct error *err)
{
    struct principal p = owner(l);
    return member_remove(&l->store, &p, GUEST, err);
}

static bool note(struct lab *l, struct error *err)
{
    return workspace_meta_set(&l->store, &l->scope, "k", "v", err);
}

#define MEMBER                                                                                    \
    INVITED                                                                                       \
    "INSERT INTO users (uuid, \"user\", normalized_email, password) VALUES ('" GUEST              \
    "', 'guest@example.com', 'guest@example.com', ''); INSERT INTO workspace_memberships (uuid, " \
    "workspace_uuid, account_uuid, role) SELECT '" GUEST "', uuid, '" GUEST                       \
    "', 'viewer' FROM workspaces;"

static void try_unit(struct lab *l, const struct unit *u)
{
    size_t failed = 0;
    int whole = 0;
    for (long nth = 1; whole < 3 && check(l, nth < 5000); nth++) {
        struct error err = {0};
        struct call c = {.path = "", .sql = u->sql};
        char path[300];
        prepare(l, &c, path);
        lab_arm(l, LAB_WRITER, nth);
        bool ok = u->run(l, &err);
        whole = lab_disarm(l, LAB_WRITER) ? 0 : whole + 1;
        failed += !ok;
        if (!check(l, ok || err.code == ERR_NOMEM) || !check(l, ok || whole == 0) ||
            !check(l, lab_count(l, u->counted) == ok)) {
            print_error("  %s: allocation %ld failing: %s\n", u->counted, nth, err.msg);
            return;
        }
    }
    check(l, failed > 0);
}

static void units(struct lab *l)
{
    static const struct unit all[] = {
        {join, INVITED,
         "SELECT COUNT(*) FROM users u JOIN workspace_memberships m ON m.account_uuid = u.uuid, "
         "workspace_invitations i WHERE i.status = 'accepted' AND m.role = 'viewer'"},
        {password, "UPDATE users SET password = '', projection_revision = 0",
         "SELECT COUNT(*) FROM users WHERE password = '$argon2id$y' AND projection_revision = 1"},
        {new_role, MEMBER, "SELECT COUNT(*) FROM workspace_memberships WHERE role = 'admin'"},
        {removal, MEMBER, "SELECT COUNT(*) FROM workspace_memberships WHERE status = 'removed'"},
        {note, "DELETE FROM workspace_metadata", "SELECT COUNT(*) FROM workspace_metadata"},
        /* The last: the lab's own account is gone then. */
        {first_account,
         "DELETE FROM workspace_memberships; DELETE FROM workspace_execution_states; DELETE FROM "
         "workspaces; DELETE FROM users",
         "SELECT COUNT(*) FROM users u, workspaces w JOIN workspace_memberships m ON "
         "m.workspace_uuid = w.uuid AND m.account_uuid = u.uuid JOIN workspace_execution_states e "
         "ON e.workspace_uuid = w.uuid"},
    };
    for (size_t i = 0; i < array_len(all); i++)
        try_unit(l, &all[i]);
}

#define CASE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        lab_run(name);                    \
    }
CASE(accounts)
CASE(workspaces)
CASE(keys)
CASE(units)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accounts),
                                       cmocka_unit_test(test_workspaces),
                                       cmocka_unit_test(test_keys), cmocka_unit_test(test_units)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
