/* HTTP bot: configuration and the three endpoints /bots/<uuid>, …/sync and …/reset. http-api.md §13.2, platforms.md §2.19.
 * A request is judged in this order: size, signature, JSON object, fields, idempotency, message chain. */
#include "platform/http_bot.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIGNATURE_WINDOW_S = 300, REFUSED_LOG_US = 10000000, SYNC_FACTOR = 4 };

/* ---- configuration ----------------------------------------------------------------------------------------------------------- */

static void state_stop(void *p, int64_t grace_ms)
{
    hb_out_drain(p, grace_ms);
}

static void state_end(void *p)
{
    struct hb_state *st = p;
    st->gone = true;
    task_cond_notify_all(&st->stop);
    task_cond_notify_all(&st->room);
    if (st->group && task_in_fiber()) {
        task_group_cancel(st->group);
        struct error err = {0};
        task_shield(true);
        if (!task_group_wait(st->group, &err))
            log_warn("bot", "callbacks did not end: %s", err.msg);
        task_shield(false);
    }
    if (st->bot->removed)
        hb_out_give_up(st);
    hb_state_unref(st);
}

struct hb_state *hb_state_of(struct bot *b, struct error *err)
{
    if (b->keep.p)
        return b->keep.p;
    struct hb_state *st = new (struct hb_state);
    if (!st || !(st->group = task_group_new(b->platform->group, "callbacks"))) {
        mem_free(st);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    st->bot = b;
    st->refs = 1;
    list_init(&st->key_order);
    b->keep = (struct bot_keep){.p = st, .stop = state_stop, .end = state_end};
    return st;
}

void hb_state_unref(struct hb_state *st)
{
    if (--st->refs > 0)
        return;
    hb_out_free(st);
    hb_keys_free(st);
    map_free(&st->syncs);
    task_group_free(st->group);
    mem_free(st);
}

static bool check_url(struct http_bot *h, struct error *err)
{
    struct url u;
    struct error why = {0};
    if (!*h->url)
        return !h->bot->enabled ||
               err_set(err, ERR_INVALID, "adapter_config.callback_url is required");
    if (!url_parse(str_c(h->url), &u, &why) ||
        (!str_eqz(u.scheme, "http") && !str_eqz(u.scheme, "https")))
        return err_set(err, ERR_INVALID,
                       "adapter_config.callback_url must be an http or https address");
    if (u.port)
        snprintf(h->origin, sizeof h->origin, STR_FMT "://" STR_FMT ":%u", STR_ARG(u.scheme),
                 STR_ARG(u.host), u.port);
    else
        snprintf(h->origin, sizeof h->origin, STR_FMT "://" STR_FMT, STR_ARG(u.scheme),
                 STR_ARG(u.host));
    return true;
}

static bool read_config(struct http_bot *h, const json_t *c, struct error *err)
{
    h->inbound = json_z_or(c, "inbound_secret", "");
    h->outbound = json_z_or(c, "outbound_secret", "");
    h->url = json_z_or(c, "callback_url", "");
    h->group_by_default = strcmp(json_z_or(c, "default_session_type", "person"), "group") == 0;
    h->signed_only = json_b_or(c, "signature_required", true);
    int64_t timeout = json_i_or(c, "callback_timeout", 15),
            retries = json_i_or(c, "callback_max_retries", 3);
    if (!*h->inbound && h->signed_only)
        return err_set(err, ERR_INVALID, "adapter_config.inbound_secret is required");
    if (!*h->outbound)
        h->outbound = h->inbound;
    if (timeout < 1 || timeout > 3600)
        return err_set(err, ERR_INVALID,
                       "adapter_config.callback_timeout must be 1 to 3600 seconds");
    if (retries < 0 || retries > 100)
        return err_set(err, ERR_INVALID, "adapter_config.callback_max_retries must be 0 to 100");
    h->timeout_s = (int)timeout;
    h->retries = (int)retries;
    return check_url(h, err);
}

static void *open_bot(const struct adapter_env *env, struct error *err)
{
    struct http_bot *h = new (struct http_bot);
    if (!h) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    h->bot = env->bot;
    if (read_config(h, env->config, err) &&
        (env->bot->checking || (h->state = hb_state_of(env->bot, err))))
        return h;
    mem_free(h);
    return NULL;
}

static void close_bot(void *instance)
{
    mem_free(instance);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------- */

static void answer_json(struct http_request *r, int status, json_t *body_stolen)
{
    auto_json body = body_stolen;
    auto_buf text = BUF(64u << 20);
    if (json_put(&text, body))
        http_answer(r, status, "application/json", buf_view(&text));
    else
        http_answer(r, 500, "application/json",
                    S("{\"code\":50001,\"msg\":\"internal error\",\"data\":null}"));
}

static void refuse(struct http_request *r, int status, int code, const char *msg)
{
    answer_json(r, status,
                json_pack("{s:i,s:o,s:n}", "code", code, "msg", json_strn(str_c(msg)), "data"));
}

/* An error of the layers below as one of the documented answers. */
static void refuse_error(struct http_bot *h, struct http_request *r, const struct error *err)
{
    switch (err->code) {
    case ERR_INVALID: refuse(r, 400, 40001, err->msg); return;
    case ERR_CONFLICT: refuse(r, 409, 40901, err->msg); return;
    case ERR_CAPACITY:
        if (err->tag && strcmp(err->tag, "blocking_work_capacity_exceeded") == 0) {
            answer_json(r, 429, json_pack("{s:s,s:s}", "code", err->tag, "msg", err->msg));
            return;
        }
        __attribute__((fallthrough));
    case ERR_UNAVAILABLE:
    case ERR_CANCELED:
        http_answer_header(r, "Retry-After", S("1"));
        refuse(r, 503, 50301, err->code == ERR_CANCELED ? "the service is stopping" : err->msg);
        return;
    default:
        log_error("bot", "bot=%s request=%s failed: %s", h->bot->uuid, r->request_id, err->msg);
        refuse(r, 500, 50001, "internal error");
    }
}

/* ---- signature ------------------------------------------------------------------------------------------------------------------ */

static bool is_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

/* The reason why a request is refused, or NULL. The time is judged first: an old request tells nothing about its signature. */
static const char *signature_fault(const struct http_bot *h, const struct http_request *r)
{
    struct str ts = http_header_get(r, "X-LB-Timestamp"),
               given = http_header_get(r, "X-LB-Signature");
    int64_t at;
    if (!ts.n || !given.n)
        return "missing_headers";
    if (!str_to_i64(ts, &at))
        return is_digits(ts.p[0] == '-' ? str_sub(ts, 1, ts.n) : ts)
                   ? "expired"
                   : "bad_timestamp"; /* beyond 64 bits */
    int64_t now = time_wall_us() / 1000000;
    if (at < now - SIGNATURE_WINDOW_S || at > now + SIGNATURE_WINDOW_S)
        return "expired";
    unsigned char mac[32];
    char head[40], wanted[7 + 65] = "sha256=";
    int n = snprintf(head, sizeof head, STR_FMT ".", STR_ARG(ts));
    if (n < 0 || (size_t)n >= sizeof head)
        return "bad_timestamp";
    hmac_sha256_2(str_c(h->inbound), str_n(head, (size_t)n), r->body, mac);
    hex_encode(mac, sizeof mac, wanted + 7);
    return const_time_eq(given, str_n(wanted, 71)) ? NULL : "signature_mismatch";
}

/* In the event log so that its owner finds out, but not for each knock of a stranger. */
static void note_refused(struct http_bot *h, const char *reason)
{
    int64_t now = time_mono_us();
    if (h->state->refused_us && now - h->state->refused_us < REFUSED_LOG_US)
        return;
    h->state->refused_us = now;
    bot_log(h->bot, LOG_WARN, NULL, NULL, "A request was refused: invalid signature: %s", reason);
}

/* ---- the request's fields --------------------------------------------------------------------------------------------------------- */

struct message {
    const char *session_id, *sender_id, *sender_name, *group_name;
    bool group;
    const json_t *chain; /* as sent */
};

/* A text or an integer as a text without NUL; "" when absent. False: another type. */
static bool id_text(struct arena *a, const json_t *v, const char **out)
{
    *out = "";
    if (!v || json_is_null(v))
        return true;
    if (json_is_integer(v))
        *out = z_fmt(a, "%lld", (long long)json_integer_value(v));
    else if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
        *out = json_string_value(v);
    else
        return false;
    return true;
}

static bool read_session(const struct http_bot *h, const json_t *body, struct arena *a,
                         struct message *m, struct error *err)
{
    if (!id_text(a, json_object_get(body, "session_id"), &m->session_id))
        return err_set(err, ERR_INVALID, "session_id must be a text");
    if (!*m->session_id)
        return err_set(err, ERR_INVALID, "session_id is required");
    if (strlen(m->session_id) > HB_SESSION_ID_MAX)
        return err_set(err, ERR_INVALID, "session_id may have at most %d bytes", HB_SESSION_ID_MAX);
    const json_t *type = json_object_get(body, "session_type");
    m->group = h->group_by_default;
    if (!type || json_is_null(type))
        return true;
    m->group = str_eqz(json_sv(type), "group");
    return m->group || str_eqz(json_sv(type), "person") ||
           err_set(err, ERR_INVALID, "session_type must be person or group");
}

static bool read_fields(const struct http_bot *h, const json_t *body, struct arena *a,
                        struct message *m, struct error *err)
{
    if (!read_session(h, body, a, m, err))
        return false;
    const json_t *sender = json_object_get(body, "sender");
    m->chain = json_object_get(body, "message");
    if (!m->chain || json_is_null(m->chain))
        return err_set(err, ERR_INVALID, "message is required");
    if (!json_is_array(m->chain) || json_array_size(m->chain) == 0)
        return err_set(err, ERR_INVALID, "message must be a list of at least one segment");
    if (sender && !json_is_null(sender) && !json_is_object(sender))
        return err_set(err, ERR_INVALID, "sender must be an object");
    if (!id_text(a, json_object_get(sender, "id"), &m->sender_id))
        return err_set(err, ERR_INVALID, "sender.id must be a text");
    if (!id_text(a, json_object_get(sender, "name"), &m->sender_name))
        return err_set(err, ERR_INVALID, "sender.name must be a text");
    if (!id_text(a, json_object_get(sender, "group_name"), &m->group_name))
        return err_set(err, ERR_INVALID, "sender.group_name must be a text");
    if (strlen(m->sender_id) > HB_SESSION_ID_MAX)
        return err_set(err, ERR_INVALID, "sender.id may have at most %d bytes", HB_SESSION_ID_MAX);
    return true;
}

/* The chain with our Source in front; one that a client sent would stand for an id that it made up. New reference. */
static json_t *read_chain(const struct message *m, const char *id, struct error *err)
{
    json_t *chain = chain_decode(m->chain, err);
    if (!chain)
        return NULL;
    for (size_t i = json_array_size(chain); i-- > 0;)
        if (strcmp(json_z_or(json_array_get(chain, i), "type", ""), "Source") == 0)
            json_array_remove(chain, i);
    if (json_array_insert_new(chain, 0, comp_source(id, time_wall_us() / 1000000)) == 0)
        return chain;
    json_decref(chain);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

/* ---- messages ---------------------------------------------------------------------------------------------------------------------- */

/* One message on its way in. */
struct intake {
    struct http_bot *h;
    struct http_request *r;
    struct message m;
    char id[40];          /* "in_<32 hex>" */
    char key[65];         /* digest of the idempotency key, "" for none */
    struct hb_sync *sync; /* NULL: answered by callback */
};

static bool take_key(struct intake *in, struct error *err)
{
    struct str key = http_header_get(in->r, "X-LB-Idempotency-Key");
    if (!key.n)
        return true;
    sha256_hex(key, in->key);
    if (hb_key_take(in->h->state, in->key, err))
        return true;
    in->key[0] = '\0'; /* another message's */
    return false;
}

static bool hand_in(struct intake *in, struct accepted *out, struct error *err)
{
    const struct message *m = &in->m;
    auto_json chain = read_chain(m, in->id, err);
    if (!chain)
        return false;
    struct chat_event event = {
        .launcher = m->group ? LAUNCHER_GROUP : LAUNCHER_PERSON,
        .sender_id = m->group && *m->sender_id ? m->sender_id : m->session_id,
        .sender_name = m->sender_name,
        .group_id = m->group ? m->session_id : "",
        .group_name = !m->group        ? ""
                      : *m->group_name ? m->group_name
                                       : m->session_id,
        .chain = chain,
        .time = (double)time_wall_us() / 1e6,
    };
    struct accept_opts opts = {
        .message_id = in->id,
        .dedupe_key = in->key[0] ? in->key : NULL,
        /* A caller who waits on the line hears of a crash himself. With a key he may ask again, so then it must be known. */
        .ephemeral = in->sync && !in->key[0],
    };
    if (!bot_accept(in->h->bot, &event, &opts, out, err))
        return false;
    return !out->duplicate || err_set(err, ERR_CONFLICT, "duplicate idempotency key");
}

/* From the idempotency key to the ledger. A refused message gives its key back. */
static bool take_in(struct intake *in, struct accepted *out, struct error *err)
{
    char uuid[UUID_SIZE], *at = in->id + 3;
    uuid4_ordered(uuid);
    memcpy(in->id, "in_", 3);
    for (const char *c = uuid; *c; c++)
        if (*c != '-')
            *at++ = *c;
    *at = '\0';
    if (!take_key(in, err))
        return false;
    if (in->sync)
        memcpy(in->sync->id, in->id, sizeof in->id);
    if (hand_in(in, out, err))
        return true;
    if (in->key[0] && !out->duplicate)
        hb_key_give_back(in->h->state, in->key);
    return false;
}

/* The answer of the hot path, without a tree of JSON values. */
static void answer_accepted(const struct intake *in)
{
    auto_json session = json_string(in->m.session_id);
    auto_buf text = BUF(64 << 10);
    buf_z(&text, "{\"code\":0,\"msg\":\"accepted\",\"data\":{\"session_id\":");
    json_put(&text, session);
    buf_z(&text, ",\"accepted_message_id\":\"");
    buf_z(&text, in->id);
    if (buf_z(&text, "\",\"aggregating\":true}}"))
        http_answer(in->r, 202, "application/json", buf_view(&text));
    else
        refuse(in->r, 500, 50001, "internal error");
}

static void do_message(struct intake *in)
{
    struct accepted got = {0};
    struct error err = {0};
    if (take_in(in, &got, &err))
        answer_accepted(in);
    else
        refuse_error(in->h, in->r, &err);
}

static void do_sync(struct intake *in)
{
    struct hb_state *st = in->h->state;
    struct hb_sync s = {.parts = json_array()};
    struct accepted got = {0};
    struct error err = {0};
    int64_t wait_ms = (int64_t)in->h->timeout_s * SYNC_FACTOR * 1000;
    char *key = hb_session_key(in->m.group, in->m.session_id);
    in->sync = &s;
    if (key && map_get(&st->syncs, str_c(key))) {
        refuse(in->r, 409, 40901, "another sync request of this session is waiting for its answer");
    } else if (!key || !s.parts || !map_put(&st->syncs, str_c(key), &s)) {
        refuse(in->r, 500, 50001, "internal error");
    } else {
        st->refs++;
        bool ok = take_in(in, &got, &err);
        if (ok && !got.discarded)
            ok = hb_sync_wait(st, &s, in->r, wait_ms, &err);
        map_del(&st->syncs, str_c(key));
        hb_state_unref(st);
        if (ok)
            answer_json(in->r, 200,
                        json_pack("{s:i,s:s,s:{s:s,s:s,s:o}}", "code", 0, "msg", "ok", "data",
                                  "session_id", in->m.session_id, "reply_to", in->id, "message",
                                  hb_sync_message(&s)));
        else
            refuse_error(in->h, in->r, &err);
    }
    json_decref(s.parts);
    mem_free(key);
}

static void do_reset(struct http_bot *h, struct http_request *r, const json_t *body)
{
    struct message m = {0};
    struct error err = {0};
    bool removed = false;
    const struct platform_host *host = &h->bot->platform->opts.host;
    if (!read_session(h, body, r->arena, &m, &err) ||
        !host->reset_session(host->arg, h->bot, m.group ? LAUNCHER_GROUP : LAUNCHER_PERSON,
                             m.session_id, &removed, &err)) {
        refuse_error(h, r, &err);
        return;
    }
    answer_json(r, 200,
                json_pack("{s:i,s:s,s:{s:s,s:b}}", "code", 0, "msg", "ok", "data", "session_id",
                          m.session_id, "removed", (int)removed));
}

static void webhook_request(void *instance, struct http_request *r, struct str sub_path)
{
    struct http_bot *h = instance;
    bool sync = str_eqz(sub_path, "sync"), reset = str_eqz(sub_path, "reset");
    struct error err = {0};
    if (r->body.n > HB_BODY_MAX) {
        refuse(r, 413, 41301, "the body is larger than 1 MiB");
        return;
    }
    const char *fault = h->signed_only ? signature_fault(h, r) : NULL;
    if (fault) {
        char msg[80];
        snprintf(msg, sizeof msg, "invalid signature: %s", fault);
        note_refused(h, fault);
        refuse(r, 401, 40101, msg);
        return;
    }
    if (sub_path.n && !sync && !reset) {
        refuse(r, 400, 40001, "unknown path");
        return;
    }
    auto_json body = json_parse_words(r->body, &err);
    if (!json_is_object(body)) {
        refuse(r, err.code == ERR_NOMEM ? 500 : 400, err.code == ERR_NOMEM ? 50001 : 40001,
               err.code == ERR_INVALID ? err.msg : "the body must be a JSON object");
        return;
    }
    struct intake in = {.h = h, .r = r};
    if (reset)
        do_reset(h, r, body);
    else if (!read_fields(h, body, r->arena, &in.m, &err))
        refuse_error(h, r, &err);
    else if (sync)
        do_sync(&in);
    else
        do_message(&in);
}

/* ---- answers going out ---------------------------------------------------------------------------------------------------------------- */

char *hb_session_key(bool group, const char *session_id)
{
    size_t n = strlen(session_id);
    char *key = mem_alloc(n + 2);
    if (key) {
        key[0] = group ? 'g' : 'p';
        memcpy(key + 1, session_id, n + 1);
    }
    return key;
}

static char *key_of_reply(const struct reply *r)
{
    return hb_session_key(r->event->launcher == LAUNCHER_GROUP, r->launcher_id);
}

static enum reply_result reply(void *instance, const struct reply *r, struct error *err)
{
    struct hb_state *st = ((struct http_bot *)instance)->state;
    char *key = key_of_reply(r);
    enum reply_result res = REPLY_FAILED;
    if (!key) {
        err_set(err, ERR_NOMEM, "out of memory");
    } else if (hb_sync_reply(st, key, r)) {
        hb_out_forget(st, key, r);
        res = REPLY_SENT;
    } else {
        st->refs++;
        res = hb_out_reply(st, key, r, err);
        hb_state_unref(st);
    }
    mem_free(key);
    return res;
}

static json_t *delivery_payload(void *instance, const struct reply *r)
{
    char *key = key_of_reply(r);
    struct http_bot *h = instance;
    json_t *payload = key ? hb_out_payload(h ? h->state : NULL, key, r) : NULL;
    mem_free(key);
    return payload;
}

static enum reply_result redeliver(void *instance, const json_t *row, struct error *err)
{
    return hb_out_redeliver(((struct http_bot *)instance)->state, row, err);
}

static bool send_message(void *instance, const char *target_type, const char *target_id,
                         json_t *chain, struct error *err)
{
    return hb_out_send(((struct http_bot *)instance)->state, strcmp(target_type, "group") == 0,
                       target_id, chain, err);
}

const struct adapter adapter_http_bot = {
    .name = "http_bot",
    .class_name = "HttpBotAdapter",
    .streaming = true,
    .webhook = true,
    .account_id = "http_bot",
    .open = open_bot,
    .close = close_bot,
    .reply = reply,
    .send = send_message,
    .redeliver = redeliver,
    .webhook_request = webhook_request,
    .delivery_payload = delivery_payload,
};
