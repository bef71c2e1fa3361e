/* Links to the login page of the account service and the states that bind its answers to them. http-api.md §3.
 * The exchange of a code for an account is not built: every callback is refused, whatever its state. */
#include "api/api_private.h"
#include "api/routes.h"

enum { STATES_MAX = 4096, STATE_LIFE_US = 600 * 1000000 };

enum purpose { PURPOSE_LOGIN, PURPOSE_BIND };

/* Kept under the SHA-256 of the state, so that memory never holds what a browser was given. */
struct oauth_state {
    enum purpose purpose;
    char account[UUID_SIZE]; /* of PURPOSE_BIND */
    int64_t expires_us;
};

void space_states_free(struct api *a)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&a->p->oauth_states, &pos, &key, &v))
        mem_free(v);
    map_free(&a->p->oauth_states);
}

/* Room for one more: what has expired goes, then what would expire first. */
static void make_room(struct map *states)
{
    size_t pos = 0;
    struct str key, first = STR_NONE;
    void *v;
    int64_t earliest = INT64_MAX, now = time_mono_us();
    if (states->n < STATES_MAX)
        return;
    while (map_next(states, &pos, &key, &v)) {
        const struct oauth_state *s = v;
        if (s->expires_us <= now) {
            mem_free(map_del(states, key));
        } else if (s->expires_us < earliest) {
            earliest = s->expires_us;
            first = key;
        }
    }
    if (states->n >= STATES_MAX)
        mem_free(map_del(states, first));
}

/* A fresh state of 256 bits; STR_NONE when memory ends. */
static struct str state_issue(struct api *a, struct arena *arena, enum purpose purpose,
                              const char *account)
{
    unsigned char secret[32];
    char hash[65];
    crypto_random(secret, sizeof secret);
    struct str state = base64url_encode(arena, str_n((char *)secret, sizeof secret));
    struct oauth_state *s = new (struct oauth_state);
    if (!s || !state.p) {
        mem_free(s);
        return STR_NONE;
    }
    s->purpose = purpose;
    s->expires_us = time_mono_us() + STATE_LIFE_US;
    snprintf(s->account, sizeof s->account, "%s", account);
    sha256_hex(state, hash);
    make_room(&a->p->oauth_states);
    if (map_put(&a->p->oauth_states, str_c(hash), s))
        return state;
    mem_free(s);
    return STR_NONE;
}

/* Takes a state out, whatever it was for: each is used once. */
static bool state_take(struct api *a, struct str state, enum purpose purpose)
{
    char hash[65];
    sha256_hex(state, hash);
    struct oauth_state *s = map_del(&a->p->oauth_states, str_c(hash));
    bool good = s && s->purpose == purpose && s->expires_us > time_mono_us();
    mem_free(s);
    return good;
}

/* Where the login page may send the browser back to: any origin, but only our page there. */
static bool comes_back_to_us(const struct url *u, struct str text, struct str query)
{
    bool web = str_ieqz(u->scheme, "http") || str_ieqz(u->scheme, "https");
    return web && !u->user.p && str_chr(text, '#') < 0 &&
           str_eqz(u->path, "/auth/space/callback") && str_eq(u->query, query);
}

static void answer_link(struct http_request *r, struct str uri, enum purpose purpose)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str state =
        state_issue(a, r->arena, purpose, purpose == PURPOSE_BIND ? api_principal(r)->account : "");
    if (!state.p) {
        err_set(&err, ERR_NOMEM, "out of memory");
        api_error(r, &err);
        return;
    }
    struct str link = str_fmt(r->arena, "%s?redirect_uri=" STR_FMT "&state=" STR_FMT,
                              config_str(a->config, "space.oauth_authorize_url"),
                              STR_ARG(url_encode(r->arena, uri)), STR_ARG(state));
    api_ok(r, json_pack("{s:o}", "authorize_url", json_strn(link)));
}

/* The redirect_uri of the query; false: answered. */
static bool redirect_uri(struct http_request *r, struct str *uri, struct url *u)
{
    struct error err = {0};
    *uri = http_query(r, "redirect_uri");
    if (uri->n == 0) {
        api_soft(r, 1, "Missing redirect_uri parameter");
        return false;
    }
    if (http_query(r, "state").p) {
        api_soft(r, 1, "Caller-supplied OAuth state is not allowed");
        return false;
    }
    if (url_parse(*uri, u, &err))
        return true;
    api_soft(r, 1, "Invalid redirect_uri parameter");
    return false;
}

static void authorize_url(struct http_request *r)
{
    struct str uri, launch = http_query(r, "launch_workspace_uuid");
    struct url u;
    if (!redirect_uri(r, &uri, &u))
        return;
    if (launch.n)
        api_soft(r, 1, "Space launch requires Cloud mode");
    else if (!comes_back_to_us(&u, uri, S("")))
        api_soft(r, 1, "Invalid LangBot Account login redirect_uri");
    else
        answer_link(r, uri, PURPOSE_LOGIN);
}

static void bind_authorize_url(struct http_request *r)
{
    struct str uri;
    struct url u;
    if (!redirect_uri(r, &uri, &u))
        return;
    if (comes_back_to_us(&u, uri, S("mode=bind")))
        answer_link(r, uri, PURPOSE_BIND);
    else
        api_soft(r, 1, "Invalid LangBot Account binding redirect_uri");
}

static void callback(struct http_request *r)
{
    struct str code = json_s(r->json, "code"), state = json_s(r->json, "state");
    if (json_object_get(r->json, "launch_assertion")) {
        api_soft(r, 1, "Space launch failed");
    } else if (code.n == 0) {
        api_soft(r, 1, "Missing authorization code");
    } else if (state.n == 0) {
        api_soft(r, 1, "Missing state parameter");
    } else {
        if (state_take(api_of(r), state, PURPOSE_LOGIN))
            log_warn("account", "a login with a LangBot account was refused: this build has none");
        api_soft(r, 1, "Space OAuth failed");
    }
}

static void bind(struct http_request *r)
{
    struct str code = json_s(r->json, "code"), state = json_s(r->json, "state");
    if (!config_bool(api_of(r)->config, "system.allow_modify_login_info"))
        api_fail(r, 403, NULL, "Modifying login info is disabled");
    else if (code.n == 0)
        api_fail(r, 400, NULL, "Missing authorization code");
    else if (state.n == 0)
        api_fail(r, 400, NULL, "Missing state parameter");
    else if (!state_take(api_of(r), state, PURPOSE_BIND))
        api_fail(r, 401, NULL, "Invalid or expired state");
    else
        api_fail(r, 400, NULL, "LangBot Account binding failed");
}

static const struct http_field f_code[] = {
    {.name = "code", .type = HTTP_ANY, .help = "what the login page gave"},
    {.name = "state", .type = HTTP_ANY},
    {.name = NULL}};

#define U "/api/v1/user"
const struct http_route routes_space[] = {
    {.method = HTTP_M_GET,
     .pattern = U "/space/authorize-url",
     .permission = PERM_NONE,
     .handler = authorize_url,
     .query = "redirect_uri,launch_workspace_uuid",
     .summary = "Address of the account service's login page"},
    {.method = HTTP_M_GET,
     .pattern = U "/space/bind-authorize-url",
     .auth = AUTH_ACCOUNT,
     .permission = PERM_NONE,
     .handler = bind_authorize_url,
     .query = "redirect_uri",
     .summary = "The same, to bind the caller's account"},
    {.method = HTTP_M_POST,
     .pattern = U "/space/callback",
     .permission = PERM_NONE,
     .handler = callback,
     .body = HTTP_BODY_JSON,
     .fields = f_code,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Signs in with what the login page gave"},
    {.method = HTTP_M_POST,
     .pattern = U "/bind-space",
     .permission = PERM_NONE,
     .handler = bind,
     .body = HTTP_BODY_JSON,
     .fields = f_code,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Binds an account with what the login page gave"},
    {.pattern = NULL},
};
