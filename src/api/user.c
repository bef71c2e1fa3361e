/* Accounts and login. http-api.md §3. */
#include "api/api_private.h"
#include "api/routes.h"

enum { RESET_DELAY_MS = 3000, RESET_WINDOW_US = 900 * 1000000, RESET_SLOTS = 5 };

static void init_get(struct http_request *r)
{
    struct error err = {0};
    bool any = false;
    if (!account_any(api_of(r)->store, &any, &err)) {
        api_error(r, &err);
        return;
    }
    api_ok(r, json_pack("{s:b}", "initialized", (int)any));
}

static void init_post(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str user = json_s(r->json, "user"), password = json_s(r->json, "password"), normal;
    bool any = false;
    char phc[256];
    if (!account_any(a->store, &any, &err)) {
        api_error(r, &err);
        return;
    }
    if (any) {
        api_soft(r, 1, "System already initialized");
        return;
    }
    if (!api_fields(r))
        return;
    if (!email_normalize(r->arena, user, &normal, &err)) {
        api_fail(r, 400, NULL, "user: %s", err.msg);
        return;
    }
    struct scope scope;
    if (!api_hash(a, password, phc, &err)) {
        api_error(r, &err);
        return;
    }
    auto_json account = account_create_first(a->store, user, phc, &scope, &err);
    if (!account || !fence_set(a->fence, scope.workspace, scope.generation, true, &err)) {
        api_error(r, &err);
        return;
    }
    log_info("account", "the first account was created; it owns workspace %s", scope.workspace);
    api_ok(r, NULL);
}

static void refuse_login(struct http_request *r, struct str key, const char *text)
{
    struct api *a = api_of(r);
    if (key.n)
        api_tried(a, key, true);
    metric_add(a->p->logins, "failed", 1);
    api_soft(r, 1, text);
}

static void auth_post(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str user = json_s(r->json, "user"), password = json_s(r->json, "password"),
               normal = STR_NONE;
    bool right = false;
    /* No address holds a NUL; behind it a longer text would pass for a shorter one. */
    if (str_chr(user, '\0') >= 0 || !email_normalize(r->arena, user, &normal, &err)) {
        refuse_login(r, STR_NONE, "用户不存在");
        return;
    }
    /* Counted for the address as it is compared: another spelling gives no further tries. */
    struct str key = str_fmt(r->arena, "login|%s|" STR_FMT, r->peer, STR_ARG(normal));
    if (!api_may_try(a, key)) {
        api_fail(r, 429, NULL, "Too many attempts, try again later");
        return;
    }
    auto_json account = account_find(a->store, NULL, str_z(r->arena, normal), &err);
    if (!account && err.code != ERR_NOT_FOUND) {
        api_error(r, &err);
        return;
    }
    if (!account) {
        refuse_login(r, key, "用户不存在");
        return;
    }
    const char *phc = json_z_or(account, "password", "");
    if (strcmp(json_z_or(account, "status", ""), "active") != 0) {
        refuse_login(r, key, "Account is disabled");
        return;
    }
    if (!*phc) {
        refuse_login(r, key, "该账户没有本地密码，请使用 Space 登录");
        return;
    }
    if (!api_verify(a, phc, password, &right, &err)) {
        api_error(r, &err);
        return;
    }
    if (!right) {
        refuse_login(r, key, "Invalid username or password");
        return;
    }
    struct str token = auth_token(a, r->arena, account, &err);
    if (!token.p) {
        api_error(r, &err);
        return;
    }
    api_tried(a, key, false);
    metric_add(a->p->logins, "ok", 1);
    api_ok(r, json_pack("{s:o}", "token", json_strn(token)));
}

/* The caller's account row, raw. NULL: answered. */
static json_t *own_account(struct http_request *r)
{
    struct error err = {0};
    json_t *row = account_find(api_of(r)->store, api_principal(r)->account, NULL, &err);
    if (!row)
        api_error(r, &err);
    return row;
}

static void check_token(struct http_request *r)
{
    struct error err = {0};
    auto_json account = own_account(r);
    if (!account)
        return;
    struct str token = auth_token(api_of(r), r->arena, account, &err);
    if (token.p)
        api_ok(r, json_pack("{s:o}", "token", json_strn(token)));
    else
        api_error(r, &err);
}

/* A slot of the window is taken at entry, whatever becomes of the attempt. */
static bool reset_slot(struct api *a)
{
    int64_t now = time_mono_us();
    if (a->p->reset_window_us == 0 || now - a->p->reset_window_us >= RESET_WINDOW_US) {
        a->p->reset_window_us = now;
        a->p->reset_used = 0;
    }
    return a->p->reset_used++ < RESET_SLOTS;
}

/* The change itself and what follows from it: earlier tokens end, open chats of the account are closed. */
static bool set_password(struct http_request *r, const json_t *account, struct str password,
                         struct str *token)
{
    struct api *a = api_of(r);
    struct error err = {0};
    char phc[256];
    int64_t revision = 0;
    const char *uuid = json_z_or(account, "uuid", "");
    if (!api_hash(a, password, phc, &err) ||
        !account_set_password(a->store, uuid, phc, &revision, &err)) {
        api_error(r, &err);
        return false;
    }
    webchat_close_account(platform_webchat(a->platform), uuid);
    auto_json now = json_copy((json_t *)(uintptr_t)account);
    json_set(now, "projection_revision", json_integer(revision));
    *token = auth_token(a, r->arena, now, &err);
    return true;
}

static void reset_password(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    if (!reset_slot(a)) {
        api_fail(r, 429, NULL, "Too many attempts, try again later");
        return;
    }
    if (!task_sleep_ms(RESET_DELAY_MS, &err)) {
        api_error(r, &err);
        return;
    }
    auto_json body = json_parse(r->body, &err);
    if (!json_is_object(body)) {
        /* A key with a lone surrogate is no JSON text either: it is as wrong as any other. */
        bool surrogate =
            str_find(r->body, S("\\u")) >= 0 && str_find(r->body, S("recovery_key")) >= 0;
        api_fail(r, surrogate ? 403 : 400, NULL,
                 surrogate ? "Invalid recovery key" : "invalid JSON body");
        return;
    }
    bool any = false;
    err = (struct error){0};
    if (!account_any(a->store, &any, &err)) {
        api_error(r, &err);
        return;
    }
    if (!any) {
        api_fail(r, 400, NULL, "System not initialized");
        return;
    }
    struct str normal = STR_NONE, user = json_s(body, "user"),
               password = json_s(body, "new_password"), token;
    auto_json account = user.p && email_normalize(r->arena, user, &normal, &err)
                            ? account_find(a->store, NULL, str_z(r->arena, normal), &err)
                            : NULL;
    if (!account) {
        api_fail(r, 400, NULL, "User not found");
        return;
    }
    struct str key = json_s(body, "recovery_key");
    if (key.n == 0 || !const_time_eq(key, str_c(config_str(a->config, "system.recovery_key")))) {
        api_fail(r, 403, NULL, "Invalid recovery key");
        return;
    }
    if (password.n == 0) {
        api_fail(r, 400, NULL, "New password is required");
        return;
    }
    if (set_password(r, account, password, &token)) {
        log_info("account", "a password was reset with the recovery key");
        api_ok(r, json_pack("{s:O}", "user", json_object_get(account, "user")));
    }
}

/* change-password (`change`: the account has a password, which has to be given) and set-password. */
static void new_password(struct http_request *r, bool change)
{
    struct api *a = api_of(r);
    struct error err = {0};
    if (!config_bool(a->config, "system.allow_modify_login_info")) {
        api_fail(r, 403, NULL, "Modifying login info is disabled");
        return;
    }
    if (!api_fields(r))
        return;
    struct str fresh = json_s(r->json, "new_password"),
               current = json_s(r->json, "current_password"), token;
    if (fresh.n == 0) {
        api_fail(r, 400, NULL, "New password is required");
        return;
    }
    auto_json account = own_account(r);
    if (!account)
        return;
    const char *phc = json_z_or(account, "password", "");
    bool right = !*phc && !change;
    if (*phc && current.n == 0 && !change) {
        api_fail(r, 400, NULL, "Current password is required");
        return;
    }
    if (*phc && !api_verify(a, phc, current, &right, &err)) {
        api_error(r, &err);
        return;
    }
    if (!right) {
        api_fail(r, 400, NULL, "Current password is incorrect");
        return;
    }
    if (set_password(r, account, fresh, &token))
        api_ok(r, json_pack("{s:O,s:o}", "user", json_object_get(account, "user"), "token",
                            json_strn(token)));
}

static void change_password(struct http_request *r)
{
    new_password(r, true);
}

static void set_password_route(struct http_request *r)
{
    new_password(r, false);
}

static void info(struct http_request *r)
{
    auto_json account = own_account(r);
    if (!account)
        return;
    api_ok(r, json_pack("{s:O,s:O,s:O,s:b}", "account_uuid", json_object_get(account, "uuid"),
                        "user", json_object_get(account, "user"), "account_type",
                        json_object_get(account, "account_type"), "has_password",
                        *json_z_or(account, "password", "") != 0));
}

static void account_info(struct http_request *r)
{
    struct error err = {0};
    json_t *flags = account_flags(api_of(r)->store, &err);
    if (flags)
        api_ok(r, flags);
    else
        api_error(r, &err);
}

static void space_credits(struct http_request *r)
{
    /* No Space account can be bound yet. */
    api_ok(r, json_pack("{s:n,s:b,s:b}", "credits", "owner_space_bound", 0, "is_workspace_owner",
                        api_principal(r)->role == ROLE_OWNER));
}

static const struct http_field f_login[] = {
    {.name = "user", .type = HTTP_STR, .required = true, .max = 320, .help = "e-mail address"},
    {.name = "password", .type = HTTP_STR, .required = true, .max = 1024},
    {.name = NULL},
};
static const struct http_field f_init[] = {
    {.name = "user", .type = HTTP_STR, .required = true, .max = 320, .help = "e-mail address"},
    {.name = "password", .type = HTTP_STR, .required = true, .min = 1, .max = 1024},
    {.name = NULL},
};
static const struct http_field f_change[] = {
    {.name = "current_password", .type = HTTP_STR, .required = true, .max = 1024},
    {.name = "new_password", .type = HTTP_STR, .required = true, .max = 1024},
    {.name = NULL},
};
static const struct http_field f_set[] = {
    {.name = "current_password", .type = HTTP_STR, .nullable = true, .max = 1024},
    {.name = "new_password", .type = HTTP_STR, .nullable = true, .max = 1024},
    {.name = NULL},
};

#define U "/api/v1/user"
const struct http_route routes_user[] = {
    {.method = HTTP_M_GET,
     .pattern = U "/init",
     .permission = PERM_NONE,
     .handler = init_get,
     .summary = "Whether an account exists"},
    {.method = HTTP_M_POST,
     .pattern = U "/init",
     .permission = PERM_NONE,
     .handler = init_post,
     .body = HTTP_BODY_JSON,
     .fields = f_init,
     .body_max = API_OPEN_BODY_MAX,
     .fields_late = true,
     .summary = "Creates the first account"},
    {.method = HTTP_M_POST,
     .pattern = U "/auth",
     .permission = PERM_NONE,
     .handler = auth_post,
     .body = HTTP_BODY_JSON,
     .fields = f_login,
     .body_max = API_OPEN_BODY_MAX,
     .words = true,
     .summary = "Signs in"},
    {.method = HTTP_M_GET,
     .pattern = U "/check-token",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = check_token,
     .summary = "A fresh token for a good one"},
    {.method = HTTP_M_POST,
     .pattern = U "/reset-password",
     .permission = PERM_NONE,
     .handler = reset_password,
     .body = HTTP_BODY_RAW,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Sets a password with the recovery key"},
    {.method = HTTP_M_POST,
     .pattern = U "/change-password",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = change_password,
     .body = HTTP_BODY_JSON,
     .fields = f_change,
     .fields_late = true,
     .summary = "Changes the caller's password"},
    {.method = HTTP_M_POST,
     .pattern = U "/set-password",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = set_password_route,
     .body = HTTP_BODY_JSON,
     .fields = f_set,
     .fields_late = true,
     .summary = "Sets the caller's password"},
    {.method = HTTP_M_GET,
     .pattern = U "/info",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = info,
     .summary = "The caller's account"},
    {.method = HTTP_M_GET,
     .pattern = U "/account-info",
     .permission = PERM_NONE,
     .handler = account_info,
     .summary = "What ways of signing in there are"},
    {.method = HTTP_M_GET,
     .pattern = U "/space-credits",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = space_credits,
     .summary = "Credits of the owner's Space account"},
    {.pattern = NULL},
};
