/* Who is let in and who is not: tokens, keys, accounts and workspaces in states that the service itself does not bring about, limits,
 * and a database that fails. */
#include "api/lab.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define W    "/api/v1/workspaces"
#define USER "/api/v1/user"

static struct str signed_token(struct lab *l, struct arena *a, json_t *more_stolen, const char *typ)
{
    struct error err = {0};
    auto_json more = more_stolen;
    auto_json claims = json_pack(
        "{s:s,s:s,s:o,s:I,s:s,s:i}", "user", LAB_USER, "iss", "langbot-core", "aud",
        json_strn(str_fmt(a, "langbot-instance:%s", l->store.instance)), "exp",
        (json_int_t)(time_wall_us() / 1000000 + 1000), "sub", l->account, "account_revision", 0);
    json_object_update(claims, more);
    return jwt_sign(a, claims, typ, str_c(config_str(l->config, "system.jwt.secret")), &err);
}

/* The status of a request with a token of these claims. */
static int with_token(struct lab *l, json_t *more_stolen, const char *typ)
{
    auto_arena a = arena_new(64 << 10);
    struct str token = signed_token(l, a, more_stolen, typ);
    return lab_call(l, "GET", W "/current",
                    z_fmt(a, "Authorization: Bearer " STR_FMT "\r\n", STR_ARG(token)), NULL);
}

static void tokens(struct lab *l)
{
    check(l, with_token(l, NULL, NULL) == 200);
    check(l, with_token(l, json_pack("{s:i}", "account_revision", 1), NULL) == 401);
    check(l, with_token(l, json_pack("{s:s}", "aud", "langbot-instance:another"), NULL) == 401);
    check(l, with_token(l, json_pack("{s:s}", "iss", "LangBot-community"), NULL) == 401);
    check(l, with_token(l, json_pack("{s:s}", "kind", "support_admin.session"), NULL) == 401);
    check(l, with_token(l, NULL, "langbot-support-admin+jwt") == 401);
    check(l, strcmp(lab_code(l), "invalid_authentication") == 0);
    check(l, with_token(l, json_pack("{s:s,s:s}", "sub", "", "user", "nobody"), NULL) == 401);
    check(l, with_token(l, json_pack("{s:n,s:s}", "sub", "user", "nobody"), NULL) == 401);
    check(l, with_token(l, json_pack("{s:n}", "sub"), NULL) == 200); /* by address */
    check(l, with_token(l, json_pack("{s:I}", "exp", (json_int_t)1000), NULL) == 401);
}

/* A configuration without a secret: nothing that anybody signs is believed, with that or another one. */
static void no_secret(struct lab *l)
{
    struct error err = {0};
    auto_arena a = arena_new(64 << 10);
    struct principal p;
    struct config *empty = config_of_text(S("{}"), NULL, &err);
    struct api bare = l->api;
    bare.config = empty;
    check(l, empty && *config_str(empty, "system.jwt.secret") == '\0');
    check(l, !auth_account(&bare, a, signed_token(l, a, NULL, NULL), &p, &err));
    check(l, err.code == ERR_UNAUTHORIZED && strstr(err.msg, "secret"));
    config_free(empty);
}

/* However many tokens there are, what is remembered of them is bounded, and a forgotten one is good all the same. */
static void many_tokens(struct lab *l)
{
    size_t most = 0;
    for (int i = 0; i < 4200; i++) {
        auto_arena a = arena_new(64 << 10);
        struct error err = {0};
        struct principal p;
        struct str token = signed_token(l, a, json_pack("{s:i}", "n", i), NULL);
        if (!check(l, auth_user(&l->api, a, token, S(""), &p, &err) && p.role == ROLE_OWNER))
            return;
        most = l->api.p->tokens.n > most ? l->api.p->tokens.n : most;
    }
    check(l, most == 4096 && l->api.p->tokens.n == 4200 - 4096);
    check(l, lab_get(l, W "/current") == 200);
}

static void states(struct lab *l)
{
    check(l, lab_get(l, W "/current") == 200);
    lab_sql(l, "UPDATE users SET status = 'disabled'");
    check(l, lab_get(l, W "/current") == 401);
    check(l,
          lab_post(l, USER "/auth", "{\"user\":\"" LAB_USER "\",\"password\":\"right\"}") == 200);
    check(l, !lab_data(l) && strcmp(lab_msg(l), "Account is disabled") == 0);
    lab_sql(l, "UPDATE users SET status = 'active', password = ''");
    check(l, lab_post(l, USER "/auth", "{\"user\":\"" LAB_USER "\",\"password\":\"\"}") == 200);
    check(l, !lab_data(l) && json_integer_value(json_object_get(l->answer, "code")) == 1);
    check(l, lab_get(l, W "/current") == 200);
    lab_sql(l, "UPDATE workspace_execution_states SET write_fenced = 1");
    check(l, lab_get(l, W "/current") == 401);
    lab_sql(l, "UPDATE workspace_execution_states SET write_fenced = 0");
    lab_sql(l, "UPDATE workspace_memberships SET status = 'disabled'");
    check(l, lab_get(l, W "/current") == 404);
    lab_sql(l, "UPDATE workspace_memberships SET status = 'active'");
    check(l, lab_get(l, W "/current") == 200);
}

/* The fence closes at once, also for a token that was good a moment ago. */
static void fence(struct lab *l)
{
    struct error err = {0};
    char named[2200];
    snprintf(named, sizeof named, "Authorization: Bearer %s\r\nX-Workspace-Id: %s\r\n", l->token,
             l->scope.workspace);
    check(l, lab_get(l, W "/current") == 200);
    check(l, fence_set(l->fence, l->scope.workspace, 1, false, &err));
    check(l, lab_get(l, W "/current") == 401);
    check(l, lab_call(l, "GET", W "/current", named, NULL) == 401);
    check(l, with_token(l, json_pack("{s:i}", "n", 1), NULL) == 404); /* no only workspace */
    check(l, fence_set(l->fence, l->scope.workspace, 1, true, &err));
    check(l, lab_get(l, W "/current") == 200);
}

static void global_key(struct lab *l)
{
    struct error err = {0};
    const char *path = "/api/v1/platform/bots";
    const char *key = "X-API-Key: the-global-key\r\n", *wrong = "X-API-Key: the-global-kex\r\n";
    check(l, lab_call(l, "GET", path, key, NULL) != 401);
    check(l, lab_call(l, "GET", path, wrong, NULL) == 401);
    check(l, fence_set(l->fence, l->scope.workspace, 1, false, &err));
    check(l, lab_call(l, "GET", path, key, NULL) == 401); /* there is no workspace to act in */
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

static void key_lives(struct lab *l)
{
    char header[200];
    check(l, lab_post(l, "/api/v1/apikeys", "{\"name\":\"K\"}") == 200);
    snprintf(header, sizeof header, "X-API-Key: %s\r\n",
             json_z_or(json_object_get(lab_data(l), "key"), "key", ""));
    const char *path = "/api/v1/platform/bots";
    check(l, lab_call(l, "GET", path, header, NULL) == 200);
    /* What cannot be read grants nothing. */
    lab_sql(l, "UPDATE api_keys SET scopes = '{'");
    check(l, lab_call(l, "GET", path, header, NULL) == 401);
    lab_sql(l, "UPDATE api_keys SET scopes = '[]'");
    check(l, lab_call(l, "GET", path, header, NULL) == 403);
    lab_sql(l, "UPDATE api_keys SET scopes = '[\"*\"]', expires_at = 'zzz'");
    check(l, lab_call(l, "GET", path, header, NULL) == 401);
    lab_sql(l, "UPDATE api_keys SET expires_at = '2001-01-01 00:00:00.000000'");
    check(l, lab_call(l, "GET", path, header, NULL) == 401);
    lab_sql(l, "UPDATE api_keys SET expires_at = NULL");
    check(l, lab_call(l, "GET", path, header, NULL) == 200);
    /* The second in which a key is not looked up ends with a change. */
    lab_sql(l, "UPDATE workspaces SET status = 'archived'");
    check(l, lab_call(l, "GET", path, header, NULL) == 401);
}

/* ---- limits ---------------------------------------------------------------------------------------------------------------- */

#define WRONG "{\"user\":\"" LAB_USER "\",\"password\":\"wrong\"}"
#define RIGHT "{\"user\":\"" LAB_USER "\",\"password\":\"right\"}"

static void login_limit(struct lab *l)
{
    for (int i = 0; i < 50; i++)
        check(l, lab_post(l, USER "/auth", WRONG) == 200);
    check(l, lab_post(l, USER "/auth", RIGHT) == 429);
    /* An address is what it is compared as. */
    check(l, lab_post(l, USER "/auth",
                      "{\"user\":\" FIRST@example.com\",\"password\":\"right\"}") == 429);
    time_shift_us(0, 301 * 1000000LL);
    check(l, lab_post(l, USER "/auth", RIGHT) == 200 && lab_data(l));
    check(l, lab_post(l, USER "/auth", WRONG) == 200 && !lab_data(l));
    time_shift_us(0, 0);
}

/* Addresses that fail are remembered, but not without end. */
static void many_addresses(struct lab *l)
{
    struct api *a = &l->api;
    char key[32];
    for (int i = 0; i < 10001; i++) {
        snprintf(key, sizeof key, "login|%d", i);
        api_tried(a, str_c(key), true);
        if (!check(l, a->p->attempts.n <= 10000))
            return;
    }
    check(l, a->p->attempts.n == 1 && api_may_try(a, S("login|1")));
    api_tried(a, str_c(key), false);
    check(l, a->p->attempts.n == 0);
    mem_fail_after(1, true);
    api_tried(a, S("login|x"), true);
    mem_fail_after(0, false);
    check(l, a->p->attempts.n == 0);
}

/* A second password waits for nobody: it is refused while one is checked. */
static void one_password_at_a_time(struct lab *l)
{
    check(l, task_sem_try(&l->api.p->hashing));
    check(l, lab_post(l, USER "/auth", RIGHT) == 429);
    check(l, strcmp(lab_code(l), "blocking_work_capacity_exceeded") == 0);
    check(l, lab_post(l, USER "/change-password",
                      "{\"current_password\":\"right\",\"new_password\":\"n\"}") == 429);
    check(l, lab_post(l, USER "/set-password",
                      "{\"current_password\":\"right\",\"new_password\":\"n\"}") == 429);
    task_sem_give(&l->api.p->hashing);
    check(l, lab_post(l, USER "/auth", RIGHT) == 200 && lab_data(l));
}

static void reset(struct lab *l)
{
    char body[300];
    const char *key = config_str(l->config, "system.recovery_key");
    static const char form[] = "{\"user\":\"%s\",\"recovery_key\":\"%s\",\"new_password\":\"%s\"}";
    snprintf(body, sizeof body, form, LAB_USER, key, "");
    check(l, lab_post(l, USER "/reset-password", body) == 400);
    check(l, strcmp(lab_msg(l), "New password is required") == 0);
    snprintf(body, sizeof body, form, "other@example.com", key, "n");
    check(l, lab_post(l, USER "/reset-password", body) == 400);
    lab_sql(l, "ALTER TABLE users RENAME TO away");
    check(l, lab_post(l, USER "/reset-password", body) == 500);
    lab_sql(l, "ALTER TABLE away RENAME TO users");
    check(l, lab_post(l, USER "/auth", RIGHT) == 200 && lab_data(l));
}

/* States of the account service's login page are many, but not without end; the one that ends first makes room. */
static void login_pages(struct lab *l)
{
    const char *path = USER "/space/authorize-url?redirect_uri=http://x/auth/space/callback";
    for (int i = 0; i < 4100; i++) {
        if (!check(l, lab_call(l, "GET", path, "", NULL) == 200 && lab_data(l)) ||
            !check(l, l->api.p->oauth_states.n <= 4096))
            return;
    }
    check(l, l->api.p->oauth_states.n == 4096);
    time_shift_us(0, 601 * 1000000LL);
    check(l, lab_call(l, "GET", path, "", NULL) == 200);
    check(l, l->api.p->oauth_states.n == 1); /* all others had ended */
    time_shift_us(0, 0);
}

/* ---- members --------------------------------------------------------------------------------------------------------------- */

/* A token outlives the membership by nothing, whatever the gate had found: the transaction looks again. */
static void managing(struct lab *l)
{
    struct error err = {0};
    struct principal p = {.kind = PRINCIPAL_ACCOUNT, .scope = l->scope, .role = ROLE_OWNER};
    snprintf(p.account, sizeof p.account, "%s", l->account);
    check(l, !member_remove(&l->store, &p, l->account, &err) && err.code == ERR_INVALID);
    check(l, strcmp(err.tag, "last_owner_required") == 0);
    lab_sql(l, "UPDATE workspace_memberships SET role = 'operator'");
    check(l, !member_remove(&l->store, &p, l->account, &err) && err.code == ERR_DENIED);
    lab_sql(l, "UPDATE workspace_memberships SET status = 'removed'");
    check(l, !member_remove(&l->store, &p, l->account, &err) && err.code == ERR_DENIED);
    auto_json none = member_set_role(&l->store, &p, l->account, S("admin"), &err);
    check(l, !none && err.code == ERR_DENIED);
    lab_sql(l, "ALTER TABLE workspace_memberships RENAME TO away");
    check(l, !member_remove(&l->store, &p, l->account, &err) && err.code != ERR_DENIED);
    lab_sql(l, "ALTER TABLE away RENAME TO workspace_memberships");
    int64_t revision = 0;
    check(l, !account_set_password(&l->store, "0b8a4c0e-1111-4111-8111-00000000dead", "x",
                                   &revision, &err));
    check(l, err.code == ERR_NOT_FOUND);
    auto_json nobody = account_find(&l->store, "", NULL, &err);
    check(l, !nobody && err.code == ERR_NOT_FOUND);
}

/* An invitation into a workspace that is no more is as invalid as an unknown one. */
static void invitations(struct lab *l)
{
    char body[200], path[100];
    snprintf(path, sizeof path, W "/%s/invitations", l->scope.workspace);
    check(l, lab_post(l, path, "{\"email\":\"guest@example.com\",\"role\":\"viewer\"}") == 200);
    check(l, str_starts(str_c(json_z_or(lab_data(l), "link", "")), S("http://127.0.0.1:")));
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", json_z_or(lab_data(l), "token", ""));
    check(l, lab_call(l, "POST", "/api/v1/invitations/inspect", "", body) == 200);
    lab_sql(l, "UPDATE workspaces SET status = 'archived'");
    check(l, lab_call(l, "POST", "/api/v1/invitations/inspect", "", body) == 400);
    check(l, strcmp(lab_code(l), "invitation_invalid") == 0);
    lab_sql(l, "UPDATE workspaces SET status = 'active'; UPDATE workspace_invitations SET "
               "expires_at = '2001-01-01 00:00:00.000000'");
    char phc[] = "$argon2id$x", hash[65];
    struct error err = {0};
    struct str token = str_c(body + 10);
    sha256_hex(str_sub(token, 0, token.n - 2), hash);
    auto_json made = invitation_register(&l->store, hash, S("guest@example.com"), phc, &err);
    check(l, !made && strcmp(err.tag, "invitation_expired") == 0);
    check(l, lab_count(l, "SELECT COUNT(*) FROM workspace_invitations WHERE status = 'expired'") ==
                 1); /* and that is kept */
    check(l, lab_count(l, "SELECT COUNT(*) FROM users") == 1);
}

/* ---- a database that fails --------------------------------------------------------------------------------------------------- */

static void broken(struct lab *l, const char *table, const char *const (*calls)[3], size_t n)
{
    char sql[100], path[200];
    snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO away", table);
    lab_sql(l, sql);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, calls[i][1], l->scope.workspace);
        int status = lab_call(l, calls[i][0], path, NULL, calls[i][2]);
        if (!check(l, status == 500) || !check(l, strcmp(lab_code(l), "internal_error") == 0) ||
            !check(l, json_z(l->answer, "request_id") && !strstr(l->text, table)))
            print_error("  %s %s without %s: %d\n", calls[i][0], path, table, status);
    }
    snprintf(sql, sizeof sql, "ALTER TABLE away RENAME TO %s", table);
    lab_sql(l, sql);
    check(l, lab_get(l, W "/current") == 200);
}

static void broken_database(struct lab *l)
{
    static const char *const users[][3] = {
        {"GET", USER "/init", NULL},
        {"POST", USER "/init", "{\"user\":\"a@b.c\",\"password\":\"p\"}"},
        {"POST", USER "/auth", RIGHT},
        {"GET", USER "/account-info", NULL},
        {"GET", USER "/info", NULL},
        {"GET", USER "/check-token", NULL},
    };
    static const char *const keys[][3] = {
        {"GET", "/api/v1/apikeys", NULL},      {"POST", "/api/v1/apikeys", "{\"name\":\"K\"}"},
        {"GET", "/api/v1/apikeys/1", NULL},    {"PUT", "/api/v1/apikeys/1", "{\"name\":\"K\"}"},
        {"DELETE", "/api/v1/apikeys/1", NULL},
    };
    static const char *const invited[][3] = {
        {"GET", W "/%s/invitations", NULL},
        {"POST", W "/%s/invitations", "{\"email\":\"a@b.c\"}"},
        {"DELETE", W "/%s/invitations/x", NULL},
        {"POST", "/api/v1/invitations/inspect", "{\"token\":\"lbi_x\"}"},
    };
    static const char *const members[][3] = {
        {"GET", W "/bootstrap", NULL}, {"GET", W, NULL}, {"GET", W "/current", NULL}};
    broken(l, "users", users, array_len(users));
    broken(l, "api_keys", keys, array_len(keys));
    broken(l, "workspace_invitations", invited, array_len(invited));
    broken(l, "workspace_memberships", members, array_len(members));
}

static void only_refused(struct lab *l)
{
    static const char *const forms[][2] = {
        {USER "/change-password", "{\"current_password\":\"right\",\"new_password\":\"n\"}"},
        {USER "/set-password", "{\"current_password\":\"right\",\"new_password\":\"n\"}"},
        {USER "/bind-space", "{\"code\":\"c\",\"state\":\"s\"}"},
    };
    for (size_t i = 0; i < array_len(forms); i++)
        check(l, lab_post(l, forms[i][0], forms[i][1]) == 403);
    check(l, lab_post(l, USER "/auth", RIGHT) == 200 && lab_data(l));
}

static const char *const global_env[] = {"API__GLOBAL_API_KEY=the-global-key", NULL},
                         *const fixed_env[] = {"SYSTEM__ALLOW_MODIFY_LOGIN_INFO=false", NULL};

#define CASE_WITH(name, env)              \
    static void test_##name(void **state) \
    {                                     \
        lab_run_with(name, env);          \
    }
#define CASE(name) CASE_WITH(name, NULL)
CASE(tokens)
CASE(no_secret)
CASE(many_tokens)
CASE(states)
CASE(fence)
CASE_WITH(global_key, global_env)
CASE(key_lives)
CASE(login_limit)
CASE(many_addresses)
CASE(one_password_at_a_time)
CASE(reset)
CASE(login_pages)
CASE(managing)
CASE(invitations)
CASE(broken_database)
CASE_WITH(only_refused, fixed_env)

#define T(name) cmocka_unit_test(test_##name)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(tokens),
        T(no_secret),
        T(many_tokens),
        T(states),
        T(fence),
        T(global_key),
        T(key_lives),
        T(login_limit),
        T(many_addresses),
        T(reset),
        T(one_password_at_a_time),
        T(login_pages),
        T(managing),
        T(invitations),
        T(broken_database),
        T(only_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
