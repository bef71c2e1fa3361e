/* The chat widget for web pages. http-api.md §12.3; everything here is public and keyed by the bot's uuid. */
#include "api/api_private.h"
#include "api/routes.h"

#include <math.h>

enum { TOKEN_LIFE_S = 86400, VERIFY_MS = 10000 };

/* The page bot of a uuid if visitors may use it. */
static struct bot *page_bot(struct api *a, const char *uuid)
{
    struct bot *b = platform_public_bot(a->platform, uuid);
    struct error err = {0};
    bool good = b && strcmp(bot_adapter(b)->name, "web_page_bot") == 0 && bot_enabled(b) &&
                *bot_default_pipeline(b) && fence_check(a->fence, bot_scope(b), &err);
    return good ? b : NULL;
}

/* Bot of the path; NULL: answered. */
static struct bot *bot_of(struct http_request *r)
{
    if (!uuid_is_canonical(http_param(r, 0))) {
        api_fail(r, 400, NULL, "Invalid bot_uuid format");
        return NULL;
    }
    struct bot *b = page_bot(api_of(r), api_param(r, 0));
    if (!b)
        api_fail(r, 404, NULL, "Bot not found or not available");
    return b;
}

static const char *secret_of(const struct bot *b)
{
    return json_z_or(bot_config(b), "turnstile_secret_key", "");
}

/* ---- session tokens ------------------------------------------------------------------------------------------------------------------ */

static struct str token_make(struct arena *a, const char *secret)
{
    struct str when = str_fmt(a, "%.6f", (double)time_wall_us() / 1e6);
    char hex[65];
    if (!*secret)
        return str_fmt(a, STR_FMT ".dummy", STR_ARG(when));
    hmac_sha256_hex(str_c(secret), when, hex);
    return str_fmt(a, STR_FMT ".%s", STR_ARG(when), hex);
}

static bool token_good(const char *secret, struct str token)
{
    if (!*secret)
        return true;
    ptrdiff_t dot = -1;
    for (size_t i = token.n; dot < 0 && i > 0; i--)
        if (token.p[i - 1] == '.')
            dot = (ptrdiff_t)i - 1;
    if (dot <= 0)
        return false;
    struct str when = str_sub(token, 0, (size_t)dot),
               mac = str_sub(token, (size_t)dot + 1, token.n);
    char hex[65];
    double at;
    hmac_sha256_hex(str_c(secret), when, hex);
    double now = (double)time_wall_us() / 1e6;
    return const_time_eq(mac, str_c(hex)) && str_to_f64(when, &at) && isfinite(at) &&
           now - at <= TOKEN_LIFE_S && at - now <= 60;
}

static bool allowed(struct http_request *r, const struct bot *b)
{
    struct str given = http_header_get(r, "Authorization");
    struct str token =
        str_istarts(given, S("Bearer ")) ? str_trim(str_sub(given, 7, given.n)) : STR_NONE;
    if (token_good(secret_of(b), token))
        return true;
    api_fail(r, 403, NULL, "Unauthorized or session expired");
    return false;
}

/* ---- script and logo --------------------------------------------------------------------------------------------------------------------- */

/* Into a double-quoted JavaScript string; also safe should somebody inline the script into a page. */
static void put_js(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '\\' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '&' ||
            c == '$' || c < 0x20) {
            buf_fmt(b, "\\u%04x", c);
        } else if (c == 0xE2 && i + 2 < s.n && (unsigned char)s.p[i + 1] == 0x80 &&
                   ((unsigned char)s.p[i + 2] & 0xFE) == 0xA8) {
            buf_fmt(b, "\\u202%c", (unsigned char)s.p[i + 2] == 0xA8 ? '8' : '9');
            i += 2;
        } else {
            buf_c(b, (char)c);
        }
    }
}

static bool base_ok(struct str s)
{
    struct str rest = str_starts(s, S("https://"))  ? str_sub(s, 8, s.n)
                      : str_starts(s, S("http://")) ? str_sub(s, 7, s.n)
                                                    : STR_NONE;
    for (size_t i = 0; i < rest.n; i++) {
        char c = rest.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && !strchr("._:/-", c))
            return false;
    }
    return rest.n > 0;
}

static struct str base_url(struct http_request *r)
{
    struct str prefix = str_c(config_str(api_of(r)->config, "api.webhook_prefix"));
    while (str_ends(prefix, S("/")))
        prefix.n--;
    if (base_ok(prefix))
        return prefix;
    struct str host = str_fmt(r->arena, "http://" STR_FMT, STR_ARG(http_header_get(r, "Host")));
    return base_ok(host) ? host : S("");
}

static void widget(struct http_request *r)
{
    if (!uuid_is_canonical(http_param(r, 0))) {
        api_fail(r, 400, NULL, "Invalid bot_uuid format");
        return;
    }
    struct bot *b = page_bot(api_of(r), api_param(r, 0));
    const struct base_asset *f = base_asset_find("widget/widget.js");
    static const char js[] = "application/javascript; charset=utf-8";
    if (!b || !f) {
        http_answer(r, 404, js, S("// Bot not found or not available"));
        return;
    }
    const json_t *c = bot_config(b);
    const struct {
        struct str name, value;
    } marks[] = {
        {S("__LANGBOT_TURNSTILE_SITE_KEY__"), json_s(c, "turnstile_site_key")},
        {S("__LANGBOT_BOT_UUID__"), str_c(bot_uuid(b))},
        {S("__LANGBOT_BASE_URL__"), base_url(r)},
        {S("__LANGBOT_LOCALE__"), str_c(json_z_or(c, "language", "en_US"))},
        {S("__LANGBOT_BUBBLE_ICON__"), str_c(json_z_or(c, "bubble_icon", "logo"))},
    };
    struct str rest = str_n((const char *)f->data, f->size);
    auto_buf out = BUF(4 << 20);
    while (rest.n) {
        ptrdiff_t at = str_find(rest, S("__LANGBOT_"));
        size_t hit = array_len(marks);
        buf_str(&out, at < 0 ? rest : str_sub(rest, 0, (size_t)at));
        if (at < 0)
            break;
        rest = str_sub(rest, (size_t)at, rest.n);
        for (size_t i = 0; i < array_len(marks); i++)
            if (str_starts(rest, marks[i].name))
                hit = i;
        if (hit == array_len(marks)) {
            buf_str(&out, S("__LANGBOT_"));
            rest = str_sub(rest, sizeof "__LANGBOT_" - 1, rest.n);
        } else {
            put_js(&out, marks[hit].value);
            rest = str_sub(rest, marks[hit].name.n, rest.n);
        }
    }
    http_answer_header(r, "Cache-Control", S("public, max-age=300"));
    http_answer(r, 200, js, buf_view(&out));
}

static void logo(struct http_request *r)
{
    const struct base_asset *f = base_asset_find("widget/logo.webp");
    if (!f) {
        http_answer(r, 404, "text/plain", S(""));
        return;
    }
    http_answer_header(r, "Cache-Control", S("public, max-age=86400"));
    http_answer_static(r, 200, "image/webp", f->data, f->size);
}

/* ---- Turnstile ---------------------------------------------------------------------------------------------------------------------------- */

static bool ask_turnstile(struct http_request *r, const char *secret, struct str token, bool *good,
                          struct error *err)
{
    struct str body =
        str_fmt(r->arena, "secret=" STR_FMT "&response=" STR_FMT,
                STR_ARG(url_encode(r->arena, str_c(secret))), STR_ARG(url_encode(r->arena, token)));
    struct http_header form = {S("Content-Type"), S("application/x-www-form-urlencoded")};
    struct http_call call = {.method = "POST",
                             .url = "https://challenges.cloudflare.com/turnstile/v0/siteverify",
                             .headers = &form,
                             .header_count = 1,
                             .body = body,
                             .total_ms = VERIFY_MS,
                             .body_max = 64 << 10};
    struct http_result res;
    if (!http_fetch(r->arena, &call, &res, err))
        return false;
    auto_json answer = json_parse(res.body, err);
    *good = json_is_true(json_object_get(answer, "success"));
    return answer != NULL;
}

static void verify(struct http_request *r)
{
    struct error err = {0};
    struct bot *b = bot_of(r);
    if (!b)
        return;
    struct str token = json_s(r->json, "token");
    if (token.n == 0) {
        api_fail(r, 400, NULL, "Token is required");
        return;
    }
    const char *secret = str_z(r->arena, str_c(secret_of(b)));
    bool good = true;
    struct str key = str_fmt(r->arena, "turnstile|%s|%s", bot_uuid(b), r->peer);
    if (!api_may_try(api_of(r), key)) {
        api_fail(r, 429, NULL, "Too many attempts, try again later");
        return;
    }
    if (*secret && !ask_turnstile(r, secret, token, &good, &err)) {
        log_warn("embed", "Turnstile could not be asked: %s", err.msg);
        api_fail(r, 500, NULL, "Turnstile could not be asked");
        return;
    }
    if (*secret)
        api_tried(api_of(r), key, !good);
    if (!good) {
        api_fail(r, 403, NULL, "Turnstile verification failed");
        return;
    }
    api_ok(r, json_pack("{s:o}", "token", json_strn(token_make(r->arena, secret))));
}

/* ---- history, reset, feedback ---------------------------------------------------------------------------------------------------------------- */

/* Bot, right, session type and session id, in this order; false: answered. */
static struct bot *visit(struct http_request *r, struct webchat_room *room)
{
    struct bot *b = bot_of(r);
    struct str session = http_query(r, "session_id");
    if (!b || !allowed(r, b))
        return NULL;
    *room = (struct webchat_room){.scope = *bot_scope(b),
                                  .pipeline = str_z(r->arena, str_c(bot_default_pipeline(b)))};
    if (!chat_type(http_param(r, 1), &room->type)) {
        api_fail(r, 400, NULL, "session_type must be person or group");
        return NULL;
    }
    if (!uuid_is_v4(session)) {
        api_fail(r, 400, NULL, "Valid session_id is required");
        return NULL;
    }
    room->session_id = str_z(r->arena, session);
    return b;
}

static void messages(struct http_request *r)
{
    struct error err = {0};
    struct webchat_room room;
    if (!visit(r, &room))
        return;
    json_t *list = webchat_messages(platform_webchat(api_of(r)->platform), &room, &err);
    if (list)
        api_ok(r, json_pack("{s:o}", "messages", list));
    else
        api_error(r, &err);
}

static void reset(struct http_request *r)
{
    struct error err = {0};
    struct webchat_room room;
    struct bot *b = visit(r, &room);
    if (!b)
        return;
    bool group = room.type == LAUNCHER_GROUP, removed = false;
    const char *launcher =
        z_fmt(r->arena, "websocket%s_%s:%s", group ? "group" : "", room.pipeline, room.session_id);
    if (webchat_reset(platform_webchat(api_of(r)->platform), &room, &err) &&
        bot_reset_session(b, room.type, launcher, &removed, &err))
        api_ok(r, json_pack("{s:s}", "message", "Session reset successfully"));
    else
        api_error(r, &err);
}

static void feedback(struct http_request *r)
{
    struct bot *b = bot_of(r);
    if (!b || !allowed(r, b))
        return;
    const json_t *id = json_object_get(r->json, "message_id"),
                 *type = json_object_get(r->json, "feedback_type");
    int64_t kind = json_is_integer(type) ? json_integer_value(type) : 0;
    if (!id || json_is_null(id) || (json_is_string(id) && json_string_length(id) == 0) ||
        !(json_is_string(id) || json_is_integer(id))) {
        api_fail(r, 400, NULL, "message_id is required");
        return;
    }
    if (json_string_length(id) > 255) {
        api_fail(r, 400, NULL, "message_id must be at most 255 characters");
        return;
    }
    if (kind < 1 || kind > 3) {
        api_fail(r, 400, NULL, "feedback_type must be 1, 2 or 3");
        return;
    }
    unsigned char raw[6];
    char hex[13];
    crypto_random(raw, sizeof raw);
    hex_encode(raw, sizeof raw, hex);
    const char *feedback_id = z_fmt(r->arena, "embed_%s", hex);
    const char *message = json_is_integer(id)
                              ? z_fmt(r->arena, "%lld", (long long)json_integer_value(id))
                              : json_string_value(id);
    struct str session = http_query(r, "session_id");
    auto_json ev = json_pack("{s:s,s:I,s:s,s:s*,s:s}", "feedback_id", feedback_id, "feedback_type",
                             (json_int_t)kind, "message_id", message, "session_id",
                             session.n ? str_z(r->arena, session) : NULL, "stream_id", message);
    bot_feedback(b, ev);
    api_ok(r, json_pack("{s:s}", "feedback_id", feedback_id));
}

/* ---- the WebSocket ------------------------------------------------------------------------------------------------------------------------------ */

struct visitor {
    struct api *api;
    char bot[UUID_SIZE];
    char pipeline[64];
};

/* The bot may have been changed or switched off since the last message. */
static bool revalidate(void *arg, struct webchat_conn_opts *self, struct error *err)
{
    struct visitor *v = arg;
    struct bot *b = page_bot(v->api, v->bot);
    bool same = b && strcmp(bot_default_pipeline(b), v->pipeline) == 0 &&
                scope_eq(bot_scope(b), &self->room.scope);
    if (same)
        self->bot = b;
    return same || err_set(err, ERR_UNAVAILABLE, "Bot is unavailable");
}

/* What an open chat keeps; see chat.c. */
struct held {
    struct visitor visitor;
    struct webchat_conn_opts opts;
};

static bool refuse(struct ws *ws, const char *text)
{
    chat_refuse(ws, text);
    return false;
}

static bool __attribute__((noinline)) enter(struct http_request *r, struct ws *ws, struct held *h)
{
    struct visitor *v = &h->visitor;
    struct webchat_conn_opts *o = &h->opts;
    struct str kind = http_query(r, "session_type"), session = http_query(r, "session_id");
    *o = (struct webchat_conn_opts){.revalidate = revalidate, .arg = v};
    v->api = api_of(r);
    if (!uuid_is_canonical(http_param(r, 0)))
        return refuse(ws, "Invalid bot_uuid format");
    snprintf(v->bot, sizeof v->bot, "%s", api_param(r, 0));
    struct bot *b = page_bot(v->api, v->bot);
    if (!b)
        return refuse(ws, "Bot not found or not available");
    if (!chat_type(kind.p ? kind : S("person"), &o->room.type))
        return refuse(ws, "session_type must be person or group");
    if (!uuid_is_v4(session))
        return refuse(ws, "Valid session_id is required");
    snprintf(v->pipeline, sizeof v->pipeline, "%s", bot_default_pipeline(b));
    auto_json first = chat_first_frame(ws);
    b = page_bot(v->api, v->bot);
    if (!first || !b || !token_good(secret_of(b), json_s(first, "token")))
        return refuse(ws, "Unauthorized");
    o->bot = b;
    o->bot_uuid = v->bot;
    o->room = (struct webchat_room){.scope = *bot_scope(b),
                                    .pipeline = v->pipeline,
                                    .session_id = str_z(r->arena, session),
                                    .type = o->room.type};
    return true;
}

static void connect_chat(struct http_request *r)
{
    struct ws *ws = chat_accept(r);
    struct held *h = ws ? new (struct held) : NULL;
    if (h && enter(r, ws, h))
        webchat_run(platform_webchat(h->visitor.api->platform), ws, &h->opts);
    mem_free(h);
    if (ws)
        ws_close(ws);
}

static const struct http_field f_verify[] = {{.name = "token", .type = HTTP_ANY}, {.name = NULL}};
static const struct http_field f_feedback[] = {{.name = "message_id", .type = HTTP_ANY},
                                               {.name = "feedback_type", .type = HTTP_ANY},
                                               {.name = NULL}};

#define P    "/api/v1/embed"
#define OPEN .auth = AUTH_NONE, .permission = PERM_NONE
const struct http_route routes_embed[] = {
    {.method = HTTP_M_GET,
     .pattern = P "/logo",
     OPEN,
     .handler = logo,
     .summary = "Logo of the widget"},
    {.method = HTTP_M_GET,
     .pattern = P "/{bot}/widget.js",
     OPEN,
     .handler = widget,
     .summary = "Script of the widget"},
    {.method = HTTP_M_POST,
     .pattern = P "/{bot}/turnstile/verify",
     OPEN,
     .handler = verify,
     .body = HTTP_BODY_JSON_LENIENT,
     .fields = f_verify,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Exchanges a Turnstile token for a session token"},
    {.method = HTTP_M_GET,
     .pattern = P "/{bot}/messages/{type}",
     OPEN,
     .handler = messages,
     .query = "session_id",
     .summary = "History of a visitor"},
    {.method = HTTP_M_POST,
     .pattern = P "/{bot}/reset/{type}",
     OPEN,
     .handler = reset,
     .query = "session_id",
     .summary = "Forgets a visitor's chat"},
    {.method = HTTP_M_POST,
     .pattern = P "/{bot}/feedback",
     OPEN,
     .handler = feedback,
     .body = HTTP_BODY_JSON_LENIENT,
     .fields = f_feedback,
     .body_max = API_OPEN_BODY_MAX,
     .summary = "Like, dislike, or take it back"},
    {.method = HTTP_M_GET,
     .pattern = P "/{bot}/ws/connect",
     OPEN,
     .handler = connect_chat,
     .query = "session_type,session_id",
     .summary = "WebSocket: chat of a visitor"},
    {.pattern = NULL},
};
