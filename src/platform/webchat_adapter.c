/* The adapters of the web chats: `websocket` (the panel's debug chat, under the proxy bot) and `web_page_bot` (the embed widget).
 * platforms.md §2.20, §2.21. A final answer is in the history before it counts as delivered. */
#include "platform/webchat_private.h"

#include <stdio.h>

static void *open_bot(const struct adapter_env *env, struct error *err)
{
    (void)err;
    return env->bot;
}

static void close_bot(void *instance)
{
    (void)instance;
}

/* What a chain says. One Plain, the usual chain, shares its string: a stream brings the whole text again and again. */
static json_t *words_of(const json_t *chain, struct arena *a)
{
    const json_t *only = json_array_size(chain) == 1 ? json_array_get(chain, 0) : NULL;
    json_t *text = json_object_get(only, "text");
    if (json_is_string(text) && str_eqz(json_s(only, "type"), "Plain"))
        return json_incref(text);
    return json_strn(chain_text(a, chain));
}

/* Plain members only: the chain of a frame holds what the component says (`{"type":"Plain","text":…}`). */
static json_t *assistant(const json_t *chain, struct arena *a, bool final)
{
    return json_pack("{s:i,s:s,s:o,s:O,s:o,s:b,s:s}", "id", 0, "role", "assistant", "content",
                     words_of(chain, a), "message_chain", chain, "timestamp", json_now(),
                     "is_final", (int) final, "connection_id", "");
}

/* The answer as one message of the room: made at its first part, grown by the others. `m`: as it is so far, or NULL. Borrowed. */
static json_t *grow(struct webchat *w, struct room *r, json_t *m, const char *response_id,
                    const json_t *chain, struct arena *a, bool final)
{
    if (!m) {
        m = room_append(w, r, assistant(chain, a, final));
        if (m && response_id)
            json_set(m, "_response", json_string(response_id));
        return m;
    }
    bool ok = json_set(m, "content", words_of(chain, a)) &&
              json_object_set(m, "message_chain", (json_t *)(uintptr_t)chain) == 0 &&
              json_set(m, "is_final", json_boolean(final)) && json_set(m, "timestamp", json_now());
    return ok ? m : NULL;
}

/* The message of the room that is answered; put back at the end if a crash took it before it was written. NULL: it is not
 * there any more (reset, cut). Borrowed. */
static json_t *asked(struct webchat *w, struct room *r, const json_t *user)
{
    int64_t at;
    struct str stamp = json_s(user, "timestamp"), connection = json_s(user, "connection_id");
    for (size_t i = json_array_size(r->messages); i > 0; i--) {
        json_t *m = json_array_get(r->messages, i - 1);
        if (stamp.n && str_eq(json_s(m, "timestamp"), stamp) &&
            str_eq(json_s(m, "connection_id"), connection))
            return m;
    }
    if (!time_parse(stamp, &at) || at >= w->born_us)
        return NULL;
    return room_append(w, r, json_deep_copy(user));
}

/* The user's words (should a crash have taken them) and the answer. */
static bool keep(struct webchat *w, struct room *r, json_t *user, const json_t *answer,
                 struct error *err)
{
    auto_json list = json_array();
    if (user && json_i_or(user, "id", 0) < json_i_or(answer, "id", 0))
        json_array_append(list, user);
    json_array_append(list, (json_t *)(uintptr_t)answer);
    return room_write(w, r, list, err);
}

static enum reply_result put(struct webchat *w, const struct webchat_room *at,
                             const json_t *context, const char *delivery, const char *response,
                             const json_t *chain, const json_t *tools, bool final,
                             struct error *err)
{
    struct room *r = room_take(w, at, err);
    auto_arena a = arena_new(64u << 20);
    if (!r || !a) {
        if (r)
            room_release(w, r);
        return REPLY_FAILED;
    }
    enum reply_result result = REPLY_SENT;
    if (!room_find(r, "_delivery", delivery)) { /* kept before a crash: nothing is said twice */
        json_t *m = room_find(r, "_response", response);
        /* The first part sees to it that the question is there; growing may cut it off the room. */
        auto_json user =
            !m || final ? json_incref(asked(w, r, json_object_get(context, "user"))) : NULL;
        m = grow(w, r, m, response, chain, a, final);
        if (m && final && delivery)
            json_set(m, "_delivery", json_string(delivery));
        if (m && tools) /* our own copy: the run's list goes with it */
            json_set(m, "tool_calls", json_deep_copy(tools));
        if (m)
            room_broadcast(r, "response", m, !final);
        if (!m || (final && !keep(w, r, user, m, err)))
            result = REPLY_FAILED;
    }
    room_release(w, r);
    return result;
}

static enum reply_result reply(void *instance, const struct reply *rep, struct error *err)
{
    struct bot *b = instance;
    struct webchat *w = platform_webchat(bot_platform(b));
    struct webchat_room at;
    if (!w || !room_of_context(bot_scope(b), rep->context, &at)) {
        err_set(err, ERR_INVALID, "the message belongs to no web chat");
        return REPLY_FAILED;
    }
    bool final = rep->is_final && !rep->tool_calls;
    /* Who works on an agent sees what it did; the visitors of a web page do not. */
    const json_t *tools = bot_adapter(b) == &adapter_websocket ? rep->tools : NULL;
    return put(w, &at, rep->context, rep->delivery_id, rep->response_id, rep->chain, tools,
               final || !rep->is_chunk, err);
}

static void activity(void *instance, const struct reply *rep, const json_t *call)
{
    struct bot *b = instance;
    struct webchat *w = platform_webchat(bot_platform(b));
    struct webchat_room at;
    struct error err = {0};
    if (!w || !room_of_context(bot_scope(b), rep->context, &at))
        return;
    struct room *r = room_take(w, &at, &err);
    auto_json data = json_copy((json_t *)(uintptr_t)call);
    if (r && data && json_set(data, "turn_id", json_string(rep->turn_id)))
        room_broadcast(r, "tool_call", data, false);
    if (r)
        room_release(w, r);
}

static enum reply_result redeliver(void *instance, const json_t *row, struct error *err)
{
    struct bot *b = instance;
    struct webchat *w = platform_webchat(bot_platform(b));
    struct webchat_room at;
    json_t *payload = json_object_get(row, "payload");
    auto_json parsed =
        json_is_string(payload) ? json_parse_words(json_sv(payload), err) : json_incref(payload);
    const json_t *context = json_object_get(parsed, "context");
    if (!w || !room_of_context(bot_scope(b), context, &at)) {
        err_set(err, ERR_INVALID, "the message belongs to no web chat");
        return REPLY_FAILED;
    }
    return put(w, &at, context, json_z(row, "id"), json_z(parsed, "response_id"),
               json_object_get(parsed, "chain"), NULL, true, err);
}

/* A message of the bot's own accord goes into the room that the target names: websocket_<pipeline>:<session>. */
static bool send_own(void *instance, const char *type, const char *target, json_t *chain,
                     struct error *err)
{
    struct bot *b = instance;
    struct webchat *w = platform_webchat(bot_platform(b));
    struct str rest = str_c(target);
    bool group = strcmp(type, "group") == 0;
    struct str prefix = group ? S("websocketgroup_") : S("websocket_");
    char pipeline[64], session[64];
    if (str_starts(rest, prefix))
        rest = str_sub(rest, prefix.n, rest.n);
    ptrdiff_t colon = str_chr(rest, ':');
    if (!w || colon < 1 || colon > 63 || rest.n - (size_t)colon - 1 > 63 ||
        !uuid_is_v4(str_sub(rest, (size_t)colon + 1, rest.n)))
        return err_set(err, ERR_INVALID, "target_id must be %s<pipeline uuid>:<session id>",
                       group ? "websocketgroup_" : "websocket_");
    snprintf(pipeline, sizeof pipeline, STR_FMT, STR_ARG(str_sub(rest, 0, (size_t)colon)));
    snprintf(session, sizeof session, STR_FMT, STR_ARG(str_sub(rest, (size_t)colon + 1, rest.n)));
    struct webchat_room at = {.scope = *bot_scope(b),
                              .pipeline = pipeline,
                              .session_id = session,
                              .type = group ? LAUNCHER_GROUP : LAUNCHER_PERSON};
    return put(w, &at, NULL, NULL, NULL, chain, NULL, true, err) == REPLY_SENT;
}

const struct adapter adapter_websocket = {
    .name = "websocket",
    .class_name = "WebSocketAdapter",
    .streaming = true,
    .hidden = true,
    .account_id = "websocketbot",
    .open = open_bot,
    .close = close_bot,
    .reply = reply,
    .activity = activity,
    .redeliver = redeliver,
    .send = send_own,
};

const struct adapter adapter_web_page_bot = {
    .name = "web_page_bot",
    .class_name = "WebPageBotAdapter",
    .streaming = true,
    .open = open_bot,
    .close = close_bot,
    .reply = reply,
    .redeliver = redeliver,
    .send = send_own,
};
