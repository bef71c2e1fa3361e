/* Events and LLM messages. pipeline.md §2, §3; providers.md §15. */
#include "chat/chat.h"

const char *launcher_name(enum launcher l)
{
    return l == LAUNCHER_GROUP ? "group" : "person";
}

json_t *event_to_json(const struct chat_event *e)
{
    if (e->launcher == LAUNCHER_PERSON)
        return json_pack("{s:s,s:{s:s,s:s,s:s},s:O,s:f}", "type", "FriendMessage", "sender", "id",
                         e->sender_id, "nickname", e->sender_name ? e->sender_name : "", "remark",
                         "", "message_chain", e->chain, "time", e->time);
    return json_pack("{s:s,s:{s:s,s:s,s:s,s:{s:s,s:s,s:s},s:s},s:O,s:f}", "type", "GroupMessage",
                     "sender", "id", e->sender_id, "member_name",
                     e->sender_name ? e->sender_name : "", "permission", "MEMBER", "group", "id",
                     e->group_id, "name", e->group_name ? e->group_name : "", "permission",
                     "MEMBER", "special_title", "", "message_chain", e->chain, "time", e->time);
}

/* Ids of stored events may be numbers (other producers): always text inside. */
static const char *id_of(struct arena *a, const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    if (json_is_integer(v))
        return z_fmt(a, "%lld", (long long)json_integer_value(v));
    return json_is_string(v) ? str_z(a, json_sv(v)) : "";
}

bool event_of_json(struct arena *a, const json_t *j, struct chat_event *out, struct error *err)
{
    const char *type = json_z_or(j, "type", "");
    const json_t *sender = json_object_get(j, "sender"), *group = json_object_get(sender, "group");
    bool is_group = strcmp(type, "GroupMessage") == 0;
    if (!is_group && strcmp(type, "FriendMessage") != 0)
        return err_set(err, ERR_INVALID, "event type must be FriendMessage or GroupMessage");
    json_t *chain = chain_decode(json_object_get(j, "message_chain"), err);
    if (!chain)
        return false;
    if (!arena_json(a, chain)) /* the arena owns it from here on */
        return err_set(err, ERR_NOMEM, "out of memory");
    *out = (struct chat_event){
        .launcher = is_group ? LAUNCHER_GROUP : LAUNCHER_PERSON,
        .sender_id = id_of(a, sender, "id"),
        .sender_name = str_z(a, json_s(sender, is_group ? "member_name" : "nickname")),
        .group_id = is_group ? id_of(a, group, "id") : "",
        .group_name = is_group ? str_z(a, json_s(group, "name")) : "",
        .chain = chain,
        .time = json_f_or(j, "time", 0),
    };
    return true;
}

json_t *llm_message_of(const char *role, json_t *content_stolen)
{
    auto_json content = content_stolen;
    json_t *j = content ? json_object() : NULL;
    if (j && json_set(j, "role", json_string(role)) &&
        json_object_set_nocheck(j, "content", content) == 0)
        return j;
    json_decref(j);
    return NULL;
}

json_t *llm_message(const char *role, struct str content)
{
    return llm_message_of(role, json_strn(content));
}

struct str llm_content_text(struct arena *a, const json_t *message)
{
    const json_t *c = json_object_get(message, "content");
    if (json_is_string(c))
        return json_sv(c);
    auto_buf b = BUF(64 << 20);
    size_t i;
    json_t *part;
    json_array_foreach (c, i, part) {
        if (strcmp(json_z_or(part, "type", ""), "text") == 0)
            buf_str(&b, json_s(part, "text"));
    }
    struct str s = b.failed ? STR_NONE : str_dup(a, buf_view(&b));
    return s.p ? s : S("");
}

/* One content element as a component, or NULL where it has no form in a chain. */
static json_t *element_component(const json_t *e)
{
    const char *t = json_z_or(e, "type", "");
    if (strcmp(t, "text") == 0)
        return json_z(e, "text") ? comp_plain(json_s(e, "text")) : NULL;
    if (strcmp(t, "image_url") == 0) {
        const char *url = json_z(json_object_get(e, "image_url"), "url");
        return url && strncmp(url, "http", 4) == 0 ? comp_image(url, NULL) : NULL;
    }
    if (strcmp(t, "image_base64") == 0)
        return comp_image(NULL, json_z_or(e, "image_base64", ""));
    if (strcmp(t, "file_url") == 0)
        return json_pack("{s:s,s:s,s:s,s:i,s:s,s:s,s:s}", "type", "File", "id", "", "name",
                         json_z_or(e, "file_name", ""), "size", 0, "url",
                         json_z_or(e, "file_url", ""), "path", "", "base64", "");
    return NULL;
}

static bool put_prefix(json_t *chain, const char *prefix)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (strcmp(json_z_or(c, "type", ""), "Plain") != 0)
            continue;
        auto_buf b = BUF(64 << 20);
        buf_z(&b, prefix);
        buf_str(&b, json_s(c, "text"));
        return !b.failed && json_set(c, "text", json_strn(buf_view(&b)));
    }
    return json_array_insert_new(chain, 0, comp_plain(str_c(prefix))) == 0;
}

json_t *llm_content_chain(const json_t *message, const char *prefix)
{
    const json_t *c = json_object_get(message, "content");
    if (!c || json_is_null(c))
        return json_null();
    auto_json chain = json_array();
    if (json_is_string(c)) {
        if (!chain || json_array_append_new(chain, comp_plain_of((json_t *)(uintptr_t)c)) != 0)
            return NULL;
    } else {
        size_t i;
        json_t *e;
        json_array_foreach (c, i, e) {
            json_t *comp = element_component(e);
            if (comp && json_array_append_new(chain, comp) != 0)
                return NULL;
        }
    }
    if (prefix && !put_prefix(chain, prefix))
        return NULL;
    return steal(chain);
}

void query_var(struct query *q, const char *name, json_t *stolen)
{
    json_set(q->variables, name, stolen);
}

const char *query_session_name(struct query *q)
{
    if (!q->session_name)
        q->session_name =
            z_fmt(q->arena, "%s_%s", launcher_name(q->event.launcher), q->launcher_id);
    return q->session_name;
}
