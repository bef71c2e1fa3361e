/* Workspaces, members and invitations. http-api.md §4. */
#include "api/api_private.h"
#include "api/mail.h"
#include "api/routes.h"

static void reply(struct http_request *r, const char *key, json_t *value, const struct error *err)
{
    if (value)
        api_ok(r, key ? json_pack("{s:o}", key, value) : value);
    else
        api_error(r, err);
}

static void bootstrap(struct http_request *r)
{
    struct error err = {0};
    reply(r, NULL, identity_bootstrap(api_of(r)->store, api_principal(r)->account, &err), &err);
}

static void list(struct http_request *r)
{
    struct error err = {0};
    auto_json all = identity_bootstrap(api_of(r)->store, api_principal(r)->account, &err);
    if (!all) {
        api_error(r, &err);
        return;
    }
    json_t *out = json_array();
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(all, "workspaces"), i, entry)
        json_array_append(out, json_object_get(entry, "workspace"));
    api_ok(r, json_pack("{s:o}", "workspaces", out));
}

static void create(struct http_request *r)
{
    api_fail(r, 403, "edition_limit", "This edition has exactly one workspace");
}

static void current(struct http_request *r)
{
    struct error err = {0};
    reply(r, NULL, identity_current(api_of(r)->store, api_principal(r), &err), &err);
}

/* The workspace of the path is the selected one; false: answered 404. */
static bool selected(struct http_request *r)
{
    if (str_eqz(http_param(r, 0), api_scope(r)->workspace))
        return true;
    api_fail(r, 404, "resource_not_found", "Resource not found");
    return false;
}

static void get(struct http_request *r)
{
    struct error err = {0};
    if (!selected(r))
        return;
    auto_json all = identity_current(api_of(r)->store, api_principal(r), &err);
    if (all)
        api_ok(r, json_pack("{s:O}", "workspace", json_object_get(all, "workspace")));
    else
        api_error(r, &err);
}

static void members(struct http_request *r)
{
    struct error err = {0};
    if (selected(r))
        reply(r, "members", members_list(api_of(r)->store, api_scope(r), &err), &err);
}

static void member_patch(struct http_request *r)
{
    struct error err = {0};
    if (selected(r))
        reply(r, "member",
              member_set_role(api_of(r)->store, api_principal(r), api_param(r, 1),
                              json_s(api_body(r), "role"), &err),
              &err);
}

static void member_delete(struct http_request *r)
{
    struct error err = {0};
    struct api *a = api_of(r);
    if (!selected(r))
        return;
    if (!principal_has(api_principal(r), PERM_MEMBER_REMOVE)) {
        api_fail(r, 403, "permission_denied", "Member removal permission is required");
        return;
    }
    const char *account = api_param(r, 1);
    if (!member_remove(a->store, api_principal(r), account, &err)) {
        api_error(r, &err);
        return;
    }
    /* Open chats of the account end at their next message, which is judged anew. */
    api_ok(r, json_pack("{s:s}", "account_uuid", account));
}

/* ---- invitations ------------------------------------------------------------------------------------------------------------ */

static void invitations(struct http_request *r)
{
    struct error err = {0};
    if (selected(r))
        reply(r, "invitations", invitations_pending(api_of(r)->store, api_scope(r), &err), &err);
}

static const char *public_base(const struct api *a, struct arena *arena)
{
    static const char *const keys[] = {"workspace.invitations.public_web_url", "api.webui_url",
                                       "api.webhook_prefix"};
    for (size_t i = 0; i < array_len(keys); i++) {
        struct str s = str_trim(str_c(config_str(a->config, keys[i])));
        while (str_ends(s, S("/")))
            s.n--;
        if (s.n)
            return str_z(arena, s);
    }
    return z_fmt(arena, "http://127.0.0.1:%lld", (long long)config_int(a->config, "api.port"));
}

static void invite(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    unsigned char secret[32];
    char hash[65];
    if (!selected(r))
        return;
    crypto_random(secret, sizeof secret);
    struct str token =
        str_fmt(r->arena, "lbi_" STR_FMT,
                STR_ARG(base64url_encode(r->arena, str_n((char *)secret, sizeof secret))));
    sha256_hex(token, hash);
    struct str role = json_s(api_body(r), "role");
    json_t *made = invitation_create(a->store, api_principal(r), json_s(api_body(r), "email"),
                                     role.p ? role : S("viewer"), hash, &err);
    if (!made) {
        api_error(r, &err);
        return;
    }
    struct str link = str_fmt(r->arena, "%s/invitations/accept#token=" STR_FMT,
                              public_base(a, r->arena), STR_ARG(url_encode(r->arena, token)));
    auto_json workspace = identity_current(a->store, api_principal(r), &err);
    const char *status = mail_invitation(
        a->config, r->arena, json_z_or(made, "normalized_email", ""),
        json_z_or(json_object_get(workspace, "workspace"), "name", "a workspace"), link);
    const char *provider = mail_provider(a->config);
    api_ok(r, json_pack("{s:o,s:o,s:o,s:{s:s,s:o}}", "invitation", made, "token", json_strn(token),
                        "link", json_strn(link), "delivery", "status", status, "provider",
                        provider ? json_string(provider) : json_null()));
}

static void invitation_delete(struct http_request *r)
{
    struct error err = {0};
    if (selected(r))
        reply(r, "invitation",
              invitation_revoke(api_of(r)->store, api_principal(r), api_param(r, 1), &err), &err);
}

/* The token of the body as sent; false: answered, there is none. */
static bool token_given(struct http_request *r, struct str *token)
{
    *token = json_s(api_body(r), "token");
    if (token->n == 0)
        api_fail(r, 400, "invitation_invalid", "Invitation token is required");
    return token->n > 0;
}

/* SHA-256 of a well-formed token; false: answered invitation_invalid. Compared exactly, so nothing is trimmed. */
static bool token_hash(struct http_request *r, struct str token, char hash[65])
{
    if (!str_starts(token, S("lbi_")) || token.n > 512) {
        api_fail(r, 400, "invitation_invalid", "The invitation is not valid");
        return false;
    }
    sha256_hex(token, hash);
    return true;
}

static void inspect(struct http_request *r)
{
    struct error err = {0};
    struct str token;
    char hash[65];
    if (token_given(r, &token) && token_hash(r, token, hash))
        reply(r, NULL, invitation_inspect(api_of(r)->store, hash, &err), &err);
}

/* The registration's e-mail and password; false: answered. */
static bool registration(struct http_request *r, struct str *email, struct str *password)
{
    const json_t *reg = json_object_get(api_body(r), "registration");
    if (!json_is_object(reg)) {
        api_fail(r, 401, "account_exists_login_required",
                 "A registration with e-mail and password is required");
        return false;
    }
    *email = json_s(reg, "email");
    *password = json_s(reg, "password");
    if (password->p && utf8_count(*password) >= 8 && password->n <= 1024)
        return true;
    api_fail(r, 400, "invalid_password", "password must have 8 to 1024 characters");
    return false;
}

/* In this order: a token at all, no login, the registration; only then what the token is (http-api.md §4). */
static void accept(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str token, email, password;
    char hash[65], phc[256];
    if (!token_given(r, &token))
        return;
    if (http_header_get(r, "Authorization").n) {
        api_fail(r, 409, "invitation_logout_required", "Log out before accepting an invitation");
        return;
    }
    if (!registration(r, &email, &password) || !token_hash(r, token, hash))
        return;
    /* Looked at before the password is hashed, which costs a worker 100 ms. */
    auto_json seen = invitation_inspect(a->store, hash, &err);
    if (!seen || !api_hash(a, password, phc, &err)) {
        api_error(r, &err);
        return;
    }
    auto_json made = invitation_register(a->store, hash, email, phc, &err);
    if (made)
        api_ok(r, json_pack("{s:O,s:b}", "workspace_uuid", json_object_get(made, "workspace_uuid"),
                            "login_required", 1));
    else
        api_error(r, &err);
}

static const struct http_field f_role[] = {{.name = "role", .type = HTTP_STR, .max = 32},
                                           {.name = NULL}};
static const struct http_field f_invite[] = {
    {.name = "email", .type = HTTP_ANY},
    {.name = "role", .type = HTTP_STR, .max = 32, .help = "admin, developer, operator or viewer"},
    {.name = NULL}};
static const struct http_field f_accept[] = {{.name = "token", .type = HTTP_ANY},
                                             {.name = "registration", .type = HTTP_ANY},
                                             {.name = NULL}};

#define W "/api/v1/workspaces"
const struct http_route routes_workspace[] = {
    {.method = HTTP_M_GET,
     .pattern = W "/bootstrap",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = bootstrap,
     .summary = "The caller's workspaces"},
    {.method = HTTP_M_GET,
     .pattern = W,
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = list,
     .summary = "The caller's workspaces, without rights"},
    {.method = HTTP_M_POST,
     .pattern = W,
     .auth = AUTH_USER,
     .permission = PERM_WORKSPACE_VIEW,
     .handler = create,
     .summary = "Refused: one workspace only"},
    {.method = HTTP_M_GET,
     .pattern = W "/current",
     .auth = AUTH_USER,
     .permission = PERM_WORKSPACE_VIEW,
     .handler = current,
     .summary = "The selected workspace"},
    {.method = HTTP_M_GET,
     .pattern = W "/{workspace}",
     .auth = AUTH_USER,
     .permission = PERM_WORKSPACE_VIEW,
     .handler = get,
     .summary = "One workspace"},
    {.method = HTTP_M_GET,
     .pattern = W "/{workspace}/members",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_VIEW,
     .handler = members,
     .summary = "Members"},
    {.method = HTTP_M_PATCH,
     .pattern = W "/{workspace}/members/{account}",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_UPDATE_ROLE,
     .handler = member_patch,
     .body = HTTP_BODY_JSON,
     .fields = f_role,
     .summary = "Gives a member another role"},
    {.method = HTTP_M_DELETE,
     .pattern = W "/{workspace}/members/{account}",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_UPDATE_ROLE,
     .handler = member_delete,
     .summary = "Removes a member"},
    {.method = HTTP_M_GET,
     .pattern = W "/{workspace}/invitations",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_INVITE,
     .handler = invitations,
     .summary = "Pending invitations"},
    {.method = HTTP_M_POST,
     .pattern = W "/{workspace}/invitations",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_INVITE,
     .handler = invite,
     .body = HTTP_BODY_JSON,
     .fields = f_invite,
     .summary = "Invites somebody"},
    {.method = HTTP_M_DELETE,
     .pattern = W "/{workspace}/invitations/{invitation}",
     .auth = AUTH_USER,
     .permission = PERM_MEMBER_INVITE,
     .handler = invitation_delete,
     .summary = "Revokes an invitation"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/invitations/inspect",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = inspect,
     .body = HTTP_BODY_JSON,
     .fields = f_accept,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "What an invitation is for"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/invitations/accept",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = accept,
     .body = HTTP_BODY_JSON,
     .fields = f_accept,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Registers and joins"},
    {.pattern = NULL},
};
