/* Who asks: user tokens, API keys, the global key. http-api.md §1.4–1.7, tenancy.md §4. */
#include "api/api_private.h"

enum { CACHE_MAX = 4096, KEY_STAMP_US = 1000000 };

/* A resolved credential: good while the identity tables have not changed (db_cacheable) and until it expires. */
struct cached {
    uint64_t version;
    int64_t expires_us;
    struct principal principal;
    char *email;
};

static bool bad(struct error *err, const char *why)
{
    return err_tag(err, ERR_UNAUTHORIZED, 401, "invalid_authentication", "%s", why);
}

static void cached_free(struct cached *c)
{
    mem_free(c->email);
    mem_free(c);
}

void auth_cache_free(struct api *a)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&a->p->tokens, &pos, &key, &v))
        cached_free(v);
    map_free(&a->p->tokens);
    pos = 0;
    while (map_next(&a->p->attempts, &pos, &key, &v))
        mem_free(v);
    map_free(&a->p->attempts);
}

/* STR_NONE, which is no key, when memory has ended. */
static struct str cache_key(struct arena *arena, struct str token, struct str selector)
{
    struct str key = {arena_alloc(arena, token.n + 1 + selector.n), token.n + 1 + selector.n};
    char *p = (char *)(uintptr_t)key.p;
    if (!p)
        return STR_NONE;
    memcpy(p, token.p, token.n);
    p[token.n] = '|';
    if (selector.n)
        memcpy(p + token.n + 1, selector.p, selector.n);
    return key;
}

static bool cache_get(struct api *a, struct arena *arena, struct str key, struct principal *out)
{
    struct cached *c = key.p && db_cacheable(a->store->db) ? map_get(&a->p->tokens, key) : NULL;
    if (!c || c->version != db_version_of(a->store->db, GROUP_IDENTITY) ||
        time_wall_us() >= c->expires_us)
        return false;
    *out = c->principal;
    out->email = c->email ? str_z(arena, str_c(c->email)) : NULL;
    return true;
}

static void cache_put(struct api *a, struct str key, const struct principal *p, uint64_t version,
                      int64_t expires_us)
{
    if (!key.p || !db_cacheable(a->store->db))
        return;
    if (a->p->tokens.n >= CACHE_MAX) {
        size_t pos = 0;
        struct str k;
        void *v;
        while (map_next(&a->p->tokens, &pos, &k, &v))
            cached_free(v);
        map_free(&a->p->tokens);
    }
    struct cached *old = map_get(&a->p->tokens, key);
    struct cached *c = old ? old : new (struct cached);
    if (!c)
        return;
    mem_free(c->email);
    *c = (struct cached){.version = version, .expires_us = expires_us, .principal = *p};
    c->email = p->email ? mem_strndup(p->email, strlen(p->email)) : NULL;
    c->principal.email = NULL;
    if (!old && !map_put(&a->p->tokens, key, c))
        cached_free(c);
}

/* ---- user tokens ---------------------------------------------------------------------------------------------------------- */

static struct str secret_of(const struct api *a)
{
    return str_c(config_str(a->config, "system.jwt.secret"));
}

static struct str audience(const struct api *a, struct arena *arena)
{
    return str_fmt(arena, "langbot-instance:%s", a->store->instance);
}

struct str auth_token(struct api *a, struct arena *arena, const json_t *account, struct error *err)
{
    int64_t life = config_int_in(a->config, "system.jwt.expire", 1, 1000000000);
    auto_json claims = json_pack(
        "{s:s,s:s,s:s,s:I,s:s,s:I}", "user", json_z_or(account, "user", ""), "iss", "langbot-core",
        "aud", str_z(arena, audience(a, arena)), "exp",
        (json_int_t)(time_wall_us() / 1000000 + life), "sub", json_z_or(account, "uuid", ""),
        "account_revision", (json_int_t)json_i_or(account, "projection_revision", 0));
    if (!claims) {
        err_set(err, ERR_NOMEM, "out of memory");
        return STR_NONE;
    }
    return jwt_sign(arena, claims, NULL, secret_of(a), err);
}

static bool is_support_token(struct arena *arena, struct str token, const char *typ)
{
    if (typ && strcmp(typ, "langbot-support-admin+jwt") == 0)
        return true;
    struct error ignored = {0};
    auto_json payload = jwt_peek(arena, token, &ignored);
    return strcmp(json_z_or(payload, "kind", ""), "support_admin.session") == 0;
}

/* §1.5: issuer and audience, or a token from before they existed. */
static bool claims_fit(const struct api *a, struct arena *arena, const json_t *claims)
{
    const json_t *aud = json_object_get(claims, "aud"), *iss = json_object_get(claims, "iss");
    if (!aud)
        return str_eqz(json_sv(iss), "LangBot-community");
    return str_eqz(json_sv(iss), "langbot-core") && str_eq(json_sv(aud), audience(a, arena));
}

bool auth_account(struct api *a, struct arena *arena, struct str token, struct principal *out,
                  struct error *err)
{
    const char *typ = NULL;
    /* Whoever signs with nothing must not be believed, should the secret ever be missing. */
    if (secret_of(a).n == 0)
        return bad(err, "there is no signing secret");
    auto_json claims = jwt_verify(arena, token, secret_of(a), &typ, err);
    if (!claims)
        return bad(err, "the token is invalid or has expired");
    if (is_support_token(arena, token, typ))
        return bad(err, "support sessions are not available");
    if (!claims_fit(a, arena, claims))
        return bad(err, "the token is of another issuer or audience");
    struct str email = STR_NONE;
    struct error find = {0};
    const char *sub = json_z(claims, "sub");
    bool addressed = email_normalize(arena, json_s(claims, "user"), &email, &find);
    if (!sub && !addressed)
        return bad(err, "the token names no account");
    auto_json account = account_find(a->store, sub, addressed ? str_z(arena, email) : NULL, &find);
    if (!account && find.code != ERR_NOT_FOUND) {
        *err = find;
        return false;
    }
    if (!account || strcmp(json_z_or(account, "status", ""), "active") != 0)
        return bad(err, "the account is unknown or disabled");
    int64_t revision = json_i_or(account, "projection_revision", 0);
    /* Tokens without a revision count as revision 0 (README decisions): a password change ends them too. */
    if (json_i_or(claims, "account_revision", 0) != revision)
        return bad(err, "the account has changed since the token was given");
    *out = (struct principal){.kind = PRINCIPAL_ACCOUNT, .account_revision = revision};
    snprintf(out->account, sizeof out->account, "%s", json_z_or(account, "uuid", ""));
    out->email = str_z(arena, json_s(account, "user"));
    out->expires_us = json_i_or(claims, "exp", 0) * 1000000;
    return true;
}

bool auth_user(struct api *a, struct arena *arena, struct str token, struct str selector,
               struct principal *out, struct error *err)
{
    struct str key = cache_key(arena, token, selector);
    if (cache_get(a, arena, key, out))
        return fence_check(a->fence, &out->scope, err) || bad(err, "the workspace is not active");
    uint64_t version = db_version_of(a->store->db, GROUP_IDENTITY);
    if (!auth_account(a, arena, token, out, err))
        return false;
    struct scope only;
    selector = str_trim(selector);
    if (selector.n == 0) {
        if (!fence_singleton(a->fence, &only, err))
            return err_tag(err, ERR_NOT_FOUND, 404, "resource_not_found", "Resource not found");
        selector = str_c(only.workspace);
    }
    struct principal p = *out;
    if (!identity_resolve(a->store, p.account, str_z(arena, selector), &p, err))
        return false;
    p.kind = PRINCIPAL_ACCOUNT;
    if (!fence_check(a->fence, &p.scope, err))
        return bad(err, "the workspace is not active");
    *out = p;
    cache_put(a, key, out, version, out->expires_us);
    return true;
}

/* ---- API keys ----------------------------------------------------------------------------------------------------------------- */

static bool auth_key(struct api *a, struct arena *arena, struct str key, struct principal *out,
                     struct error *err)
{
    *out = (struct principal){.kind = PRINCIPAL_API_KEY};
    const char *global = config_str(a->config, "api.global_api_key");
    if (*global && const_time_eq(str_c(global), key)) {
        out->global_key = true;
        out->permissions = PERM_ALL;
        return fence_singleton(a->fence, &out->scope, err) || bad(err, "there is no workspace yet");
    }
    if (!str_starts(key, S("lbk_")))
        return bad(err, "not an API key");
    char hash[65];
    sha256_hex(key, hash);
    /* For a second a key is good without a look at the database, unless it or anything else of the identities changes; so its use is
     * stamped at most once a second. */
    struct str name = cache_key(arena, S("key"), str_c(hash));
    if (!cache_get(a, arena, name, out)) {
        uint64_t version = db_version_of(a->store->db, GROUP_IDENTITY);
        if (!identity_api_key(a->store, hash, out, err))
            return false;
        int64_t until = time_wall_us() + KEY_STAMP_US;
        cache_put(a, name, out, version,
                  out->expires_us && out->expires_us < until ? out->expires_us : until);
    }
    return fence_check(a->fence, &out->scope, err) || bad(err, "the workspace is not active");
}

/* ---- requests -------------------------------------------------------------------------------------------------------------------- */

/* The scheme exactly so: what is written otherwise is a bare token where those are taken, nothing where they are not (§1.4). */
static struct str bearer(struct str header)
{
    return str_starts(header, S("Bearer ")) ? str_trim(str_sub(header, 7, header.n)) : STR_NONE;
}

static bool none_given(struct error *err, const char *text)
{
    return err_tag(err, ERR_UNAUTHORIZED, 401, NULL, "%s", text);
}

static bool either(struct api *a, struct http_request *r, struct str given, struct str key,
                   struct principal *p, struct error *err)
{
    if (key.n)
        return auth_key(a, r->arena, key, p, err);
    struct str raw = str_trim(given), token = bearer(given);
    if (!token.p)
        token = raw;
    if (token.n == 0)
        return none_given(err, "No valid authentication provided (user token or API key required)");
    if (auth_user(a, r->arena, token, http_header_get(r, "X-Workspace-Id"), p, err))
        return true;
    /* Denied is final; only what failed as authentication is tried as a key. */
    if (err->code != ERR_UNAUTHORIZED)
        return false;
    struct error second = {0};
    if (auth_key(a, r->arena, token, p, &second))
        return true;
    if (second.code != ERR_UNAUTHORIZED)
        *err = second;
    return false;
}

bool auth_request(struct api *a, struct http_request *r, enum auth_kind kind, struct api_ctx *ctx,
                  struct error *err)
{
    struct principal *p = &ctx->principal;
    struct str given = http_header_get(r, "Authorization"),
               key = str_trim(http_header_get(r, "X-API-Key"));
    struct str token = bearer(given);
    switch (kind) {
    case AUTH_NONE: return true;
    case AUTH_ACCOUNT:
        if (token.n == 0)
            return none_given(err, "No valid user token provided");
        return auth_account(a, r->arena, token, p, err);
    case AUTH_USER:
        if (!token.p)
            token = str_trim(given);
        if (token.n == 0)
            return none_given(err, "No valid user token provided");
        return auth_user(a, r->arena, token, http_header_get(r, "X-Workspace-Id"), p, err);
    case AUTH_KEY:
        if (key.n == 0)
            key = token;
        if (key.n == 0)
            return none_given(err, "No valid API key provided");
        return auth_key(a, r->arena, key, p, err);
    case AUTH_EITHER: return either(a, r, given, key, p, err);
    }
    return bad(err, "unknown kind of authentication");
}

/* ---- passwords and limits ----------------------------------------------------------------------------------------------------------- */

struct hash_job {
    struct str password;
    const char *phc;
    char out[256];
    bool ok;
    struct error err;
};

static void hash_work(void *arg)
{
    struct hash_job *j = arg;
    j->ok = password_hash(j->password, j->out, &j->err);
}

static void verify_work(void *arg)
{
    struct hash_job *j = arg;
    j->ok = password_verify(j->phc, j->password);
}

static bool hashing(struct api *a, void (*fn)(void *), struct hash_job *j, struct error *err)
{
    if (!task_sem_try(&a->p->hashing))
        return err_tag(err, ERR_CAPACITY, 429, "blocking_work_capacity_exceeded",
                       "Another password is being checked; try again");
    bool ok = task_work(fn, j, err);
    task_sem_give(&a->p->hashing);
    return ok;
}

bool api_hash(struct api *a, struct str password, char phc[256], struct error *err)
{
    struct hash_job j = {.password = password};
    if (!hashing(a, hash_work, &j, err))
        return false;
    if (!j.ok) {
        *err = j.err;
        return false;
    }
    memcpy(phc, j.out, sizeof j.out);
    return true;
}

bool api_verify(struct api *a, const char *phc, struct str password, bool *right, struct error *err)
{
    struct hash_job j = {.password = password, .phc = phc};
    if (!hashing(a, verify_work, &j, err))
        return false;
    *right = j.ok;
    return true;
}

/* Failures by key: after `ATTEMPTS` in a window the key waits for the window's end. */
enum { ATTEMPTS = 50, ATTEMPT_WINDOW_US = 300 * 1000000, ATTEMPT_KEYS = 10000 };
struct attempts {
    int64_t since_us;
    int failed;
};

bool api_may_try(struct api *a, struct str key)
{
    struct attempts *t = map_get(&a->p->attempts, key);
    return !t || t->failed < ATTEMPTS || time_mono_us() - t->since_us > ATTEMPT_WINDOW_US;
}

void api_tried(struct api *a, struct str key, bool failed)
{
    struct attempts *t = map_get(&a->p->attempts, key);
    if (!failed) {
        map_del(&a->p->attempts, key);
        mem_free(t);
        return;
    }
    if (!t) {
        if (a->p->attempts.n >= ATTEMPT_KEYS) {
            size_t pos = 0;
            struct str k;
            void *v;
            while (map_next(&a->p->attempts, &pos, &k, &v))
                mem_free(v);
            map_free(&a->p->attempts);
        }
        t = new (struct attempts);
        if (!t || !map_put(&a->p->attempts, key, t)) {
            mem_free(t);
            return;
        }
    }
    if (t->failed == 0 || time_mono_us() - t->since_us > ATTEMPT_WINDOW_US)
        *t = (struct attempts){.since_us = time_mono_us()};
    t->failed++;
}
