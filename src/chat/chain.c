/* Message chains: decoding with the defaults of pipeline.md §1.1, text forms, builders. */
#include "chat/chat.h"

enum { COMPONENTS_MAX = 1000, NESTING_MAX = 8 };

enum field_kind {
    F_STR,
    F_STR_NULL,
    F_INT,
    F_INT_NULL,
    F_ID,
    F_ID_NULL,
    F_CHAIN,
    F_CHAIN_NULL,
    F_OBJ,
    F_NODES
};
struct field {
    const char *name;
    enum field_kind kind;
    const char *def; /* text default; NULL: required (F_*_NULL: null) */
};
struct component {
    const char *type;
    const struct field *fields;
};

#define MEDIA                                          \
    {"url", F_STR_NULL, ""}, {"path", F_STR_NULL, ""}, \
    {                                                  \
        "base64", F_STR_NULL, ""                       \
    }
static const struct field f_plain[] = {{"text", F_STR, NULL}, {0}};
static const struct field f_quote[] = {
    {"id", F_ID_NULL, NULL},        {"group_id", F_ID_NULL, NULL}, {"sender_id", F_ID_NULL, NULL},
    {"target_id", F_ID_NULL, NULL}, {"origin", F_CHAIN, NULL},     {0}};
static const struct field f_at[] = {{"target", F_ID, NULL}, {"display", F_STR_NULL, ""}, {0}};
static const struct field f_none[] = {{0}};
static const struct field f_image[] = {{"image_id", F_STR_NULL, ""}, MEDIA, {0}};
static const struct field f_voice[] = {
    {"voice_id", F_STR_NULL, ""}, MEDIA, {"length", F_INT_NULL, "0"}, {0}};
static const struct field f_file[] = {{"id", F_STR, ""},
                                      {"name", F_STR, ""},
                                      {"size", F_INT, "0"},
                                      {"url", F_STR, ""},
                                      {"path", F_STR_NULL, ""},
                                      {"base64", F_STR_NULL, ""},
                                      {0}};
static const struct field f_forward[] = {
    {"display", F_OBJ, NULL}, {"node_list", F_NODES, NULL}, {0}};
static const struct field f_unknown[] = {{"text", F_STR, ""}, {0}};
static const struct field f_face[] = {
    {"face_type", F_STR, "face"}, {"face_id", F_INT, "0"}, {"face_name", F_STR, ""}, {0}};
static const struct field f_mini[] = {{"mini_app_id", F_STR, NULL},
                                      {"user_name", F_STR, NULL},
                                      {"display_name", F_STR_NULL, ""},
                                      {"page_path", F_STR_NULL, ""},
                                      {"title", F_STR_NULL, ""},
                                      {"image_url", F_STR_NULL, ""},
                                      {0}};
static const struct field f_fwd_mini[] = {
    {"xml_data", F_STR, NULL}, {"image_url", F_STR_NULL, NULL}, {0}};
static const struct field f_emoji[] = {
    {"emoji_md5", F_STR, NULL}, {"emoji_size", F_INT, NULL}, {0}};
static const struct field f_link[] = {{"link_title", F_STR, ""},
                                      {"link_desc", F_STR, ""},
                                      {"link_url", F_STR, ""},
                                      {"link_thumb_url", F_STR, ""},
                                      {0}};
static const struct field f_xml[] = {{"xml_data", F_STR, NULL}, {0}};
static const struct field f_app[] = {{"app_msg", F_STR, NULL}, {0}};
static const struct field f_wxfile[] = {{"file_id", F_STR, ""},     {"file_name", F_STR, ""},
                                        {"file_size", F_INT, "0"},  {"file_path", F_STR, ""},
                                        {"file_base64", F_STR, ""}, {0}};

static const struct component components[] = {
    {"Plain", f_plain},
    {"At", f_at},
    {"AtAll", f_none},
    {"Image", f_image},
    {"Voice", f_voice},
    {"File", f_file},
    {"Quote", f_quote},
    {"Forward", f_forward},
    {"Unknown", f_unknown},
    {"Face", f_face},
    {"WeChatMiniPrograms", f_mini},
    {"WeChatForwardMiniPrograms", f_fwd_mini},
    {"WeChatEmoji", f_emoji},
    {"WeChatLink", f_link},
    {"WeChatForwardLink", f_xml},
    {"WeChatForwardImage", f_xml},
    {"WeChatForwardFile", f_xml},
    {"WeChatAppMsg", f_app},
    {"WeChatForwardQuote", f_app},
    {"WeChatFile", f_wxfile},
};

static const struct component *component_of(const char *type)
{
    for (size_t i = 0; i < array_len(components); i++)
        if (strcmp(components[i].type, type) == 0)
            return &components[i];
    return NULL;
}

static json_t *decode_chain(const json_t *array, int depth, struct error *err);

static json_t *unknown_of(const char *fmt, const char *what)
{
    char text[600];
    snprintf(text, sizeof text, fmt, what);
    json_t *j = json_object();
    if (!j || !json_set(j, "type", json_string("Unknown")) ||
        !json_set(j, "text", json_strn(str_c(text)))) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static bool kind_fits(enum field_kind k, const json_t *v)
{
    switch (k) {
    case F_STR: return json_is_string(v);
    case F_STR_NULL: return json_is_string(v) || json_is_null(v);
    case F_INT: return json_is_integer(v);
    case F_INT_NULL: return json_is_integer(v) || json_is_null(v);
    case F_ID: return json_is_string(v) || json_is_integer(v);
    case F_ID_NULL: return json_is_string(v) || json_is_integer(v) || json_is_null(v);
    case F_CHAIN: return json_is_array(v);
    case F_CHAIN_NULL: return json_is_array(v) || json_is_null(v);
    case F_OBJ: return json_is_object(v);
    case F_NODES: return json_is_array(v);
    }
    return false;
}

static const char *kind_name(enum field_kind k)
{
    switch (k) {
    case F_STR:
    case F_STR_NULL: return "a string";
    case F_INT:
    case F_INT_NULL: return "an integer";
    case F_ID:
    case F_ID_NULL: return "a string or an integer";
    case F_OBJ: return "an object";
    default: return "an array";
    }
}

static json_t *field_default(const struct field *f)
{
    if (!f->def)
        return json_null();
    if (f->kind == F_INT || f->kind == F_INT_NULL)
        return json_integer(0);
    return json_string(f->def);
}

static json_t *forward_display(const json_t *given)
{
    json_t *d = json_pack("{s:s,s:s,s:s,s:[],s:s}", "title", "Chat history of the group", "brief",
                          "[Chat history]", "source", "Chat history", "preview", "summary",
                          "View x forwarded messages");
    if (d && json_is_object(given))
        json_object_update_existing(d, (json_t *)(uintptr_t)given);
    return d;
}

static json_t *forward_nodes(const json_t *given, int depth, struct error *err)
{
    json_t *out = json_array();
    size_t i;
    json_t *node;
    json_array_foreach (given, i, node) {
        auto_json n = json_pack("{s:s,s:s,s:[],s:i}", "sender_id", "", "sender_name", "",
                                "message_chain", "message_id", 0);
        if (!n || !json_is_object(node)) {
            err_set(err, ERR_INVALID, "node_list[%zu] must be an object", i);
            json_decref(out);
            return NULL;
        }
        json_object_update_existing(n, node);
        const json_t *chain = json_object_get(node, "message_chain");
        if (json_is_array(chain)) {
            json_t *inner = decode_chain(chain, depth + 1, err);
            if (!inner || !json_set(n, "message_chain", inner)) {
                json_decref(out);
                return NULL;
            }
        }
        json_array_append(out, n);
    }
    return out;
}

/* One field of a known component into `out`. */
static bool decode_field(const struct field *f, const char *type, const json_t *from, json_t *out,
                         size_t index, int depth, struct error *err)
{
    const json_t *v = json_object_get(from, f->name);
    if (f->kind == F_OBJ && (!v || json_is_object(v)))
        return json_set(out, f->name, forward_display(v)) ||
               err_set(err, ERR_NOMEM, "out of memory");
    if (!v) {
        bool optional = f->def || f->kind == F_STR_NULL || f->kind == F_INT_NULL ||
                        f->kind == F_ID_NULL || f->kind == F_NODES;
        if (!optional)
            return err_set(err, ERR_INVALID, "message[%zu].%s is required for %s", index, f->name,
                           type);
        json_t *def = f->kind == F_NODES ? json_array() : field_default(f);
        return json_set(out, f->name, def) || err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!kind_fits(f->kind, v))
        return err_set(err, ERR_INVALID, "message[%zu].%s of %s must be %s", index, f->name, type,
                       kind_name(f->kind));
    json_t *value;
    if (f->kind == F_CHAIN)
        value = decode_chain(v, depth + 1, err);
    else if (f->kind == F_NODES)
        value = forward_nodes(v, depth, err);
    else
        value = json_incref((json_t *)(uintptr_t)v);
    if (!value)
        return false;
    return json_set(out, f->name, value) || err_set(err, ERR_NOMEM, "out of memory");
}

static json_t *decode_source(const json_t *from, size_t index, struct error *err)
{
    const json_t *id = json_object_get(from, "id");
    const json_t *t = json_object_get(from, "timestamp");
    if (!t)
        t = json_object_get(from, "time");
    if (!json_is_string(id) && !json_is_integer(id)) {
        err_set(err, ERR_INVALID, "message[%zu].id of Source must be a string or an integer",
                index);
        return NULL;
    }
    if (t && !json_is_number(t)) {
        err_set(err, ERR_INVALID, "message[%zu].timestamp of Source must be a number", index);
        return NULL;
    }
    double when = t ? json_number_value(t) : 0;
    if (!(when > -1e12 && when < 1e12))
        when = 0;
    return json_pack("{s:s,s:O,s:I}", "type", "Source", "id", id, "timestamp", (json_int_t)when);
}

static json_t *decode_one(const json_t *c, size_t index, int depth, struct error *err)
{
    const char *type = json_z(c, "type");
    if (!json_is_object(c) || !type) {
        char *repr = json_dump_z(c, JSON_ENCODE_ANY | JSON_COMPACT);
        json_t *u = unknown_of("Invalid component data: %.500s", repr ? repr : "?");
        mem_free(repr);
        return u;
    }
    if (strcmp(type, "Source") == 0)
        return decode_source(c, index, err);
    /* A WeChatFile writes itself as "File" with fields of its own (spec Q2): told by those fields. */
    bool wx_file = strcmp(type, "File") == 0 &&
                   (json_object_get(c, "file_id") || json_object_get(c, "file_name"));
    const struct component *known = component_of(wx_file ? "WeChatFile" : type);
    if (!known)
        return unknown_of("Unknown component type: %.200s", type);
    auto_json out = json_object();
    if (!out ||
        !json_set(out, "type",
                  json_string(strcmp(known->type, "WeChatFile") == 0 ? "File" : known->type)))
        return NULL;
    for (const struct field *f = known->fields; f->name; f++)
        if (!decode_field(f, known->type, c, out, index, depth, err))
            return NULL;
    return steal(out);
}

static json_t *decode_chain(const json_t *array, int depth, struct error *err)
{
    if (!json_is_array(array)) {
        err_set(err, ERR_INVALID, "a message chain must be an array of components");
        return NULL;
    }
    if (depth > NESTING_MAX || json_array_size(array) > COMPONENTS_MAX) {
        err_set(err, ERR_INVALID,
                "a message chain may hold at most %d components and %d levels of nesting",
                COMPONENTS_MAX, NESTING_MAX);
        return NULL;
    }
    auto_json out = json_array();
    if (!out) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    size_t i;
    json_t *c;
    json_array_foreach (array, i, c) {
        *err = (struct error){0};
        json_t *d = decode_one(c, i, depth, err);
        if (!d || json_array_append_new(out, d) != 0) {
            if (err->code == ERR_NONE)
                err_set(err, ERR_NOMEM, "out of memory");
            return NULL;
        }
    }
    return steal(out);
}

json_t *chain_decode(const json_t *array, struct error *err)
{
    return decode_chain(array, 0, err);
}

/* ---- text forms --------------------------------------------------------------------------------------------------- */

static void id_text(struct buf *b, const json_t *v)
{
    if (json_is_string(v))
        buf_str(b, json_sv(v));
    else if (json_is_integer(v))
        buf_fmt(b, "%lld", (long long)json_integer_value(v));
}

static void face_text(struct buf *b, const json_t *c)
{
    static const char *const rps[] = {"", "布", "剪刀", "石头"};
    const char *kind = json_z_or(c, "face_type", "face");
    int64_t id = json_i_or(c, "face_id", 0);
    struct str name = json_s(c, "face_name");
    buf_z(b, "[表情]");
    if (strcmp(kind, "dice") == 0)
        buf_fmt(b, "%lld点的" STR_FMT, (long long)id, STR_ARG(name));
    else if (strcmp(kind, "rps") == 0)
        buf_fmt(b, STR_FMT "(%s)", STR_ARG(name), id >= 1 && id <= 3 ? rps[id] : "");
    else
        buf_str(b, name);
}

static void component_text(struct buf *b, const json_t *c)
{
    const char *t = json_z_or(c, "type", "");
    if (strcmp(t, "Plain") == 0) {
        buf_str(b, json_s(c, "text"));
    } else if (strcmp(t, "At") == 0) {
        struct str d = json_s(c, "display");
        buf_c(b, '@');
        if (d.n)
            buf_str(b, d);
        else
            id_text(b, json_object_get(c, "target"));
    } else if (strcmp(t, "AtAll") == 0) {
        buf_z(b, "@All");
    } else if (strcmp(t, "Image") == 0 || strcmp(t, "Voice") == 0) {
        buf_fmt(b, "[%s]", t);
    } else if (strcmp(t, "File") == 0) {
        if (json_object_get(c, "file_name"))
            buf_fmt(b, "[文件]" STR_FMT, STR_ARG(json_s(c, "file_name")));
        else
            buf_fmt(b, "[File]" STR_FMT, STR_ARG(json_s(c, "name")));
    } else if (strcmp(t, "Forward") == 0) {
        buf_z(b, "[Chat history]");
    } else if (strcmp(t, "Unknown") == 0) {
        buf_fmt(b, "Unknown Message: " STR_FMT, STR_ARG(json_s(c, "text")));
    } else if (strcmp(t, "Face") == 0) {
        face_text(b, c);
    } else if (json_object_get(c, "xml_data")) {
        buf_str(b, json_s(c, "xml_data"));
    } else if (json_object_get(c, "app_msg")) {
        buf_str(b, json_s(c, "app_msg"));
    } else if (strcmp(t, "Source") != 0) {
        buf_fmt(b, "[%s]", t);
    }
}

static struct str buf_into(struct arena *a, struct buf *b)
{
    struct str s = b->failed ? STR_NONE : str_dup(a, buf_view(b));
    return s.p ? s : S("");
}

struct str chain_text(struct arena *a, const json_t *chain)
{
    /* The common chain is one Plain: no copy. */
    size_t n = json_array_size(chain), texts = 0;
    struct str only = S("");
    auto_buf b = BUF(64 << 20);
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        const char *t = json_z_or(c, "type", "");
        if (strcmp(t, "Source") == 0)
            continue;
        if (++texts == 1 && strcmp(t, "Plain") == 0 && i + 1 == n)
            only = json_s(c, "text");
        else
            component_text(&b, c);
    }
    return only.n ? only : buf_into(a, &b);
}

struct str chain_plain_text(struct arena *a, const json_t *chain)
{
    auto_buf b = BUF(64 << 20);
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (strcmp(json_z_or(c, "type", ""), "Plain") == 0)
            buf_str(&b, json_s(c, "text"));
    }
    return buf_into(a, &b);
}

const json_t *chain_find(const json_t *chain, const char *type)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (strcmp(json_z_or(c, "type", ""), type) == 0)
            return c;
    }
    return NULL;
}

bool chain_has(const json_t *chain, const char *type)
{
    return chain_find(chain, type) != NULL;
}

bool chain_only(const json_t *chain, const char *const *types)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        const char *t = json_z_or(c, "type", "");
        const char *const *k = types;
        while (*k && strcmp(*k, t) != 0)
            k++;
        if (!*k)
            return false;
    }
    return true;
}

struct str chain_export_text(struct arena *a, const json_t *chain)
{
    auto_buf b = BUF(16 << 20);
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        const char *t = json_z_or(c, "type", "");
        if (strcmp(t, "At") == 0) {
            component_text(&b, c);
        } else if (strcmp(t, "File") == 0) {
            buf_fmt(&b, "[File: " STR_FMT "]", STR_ARG(json_s(c, "name")));
        } else if (strcmp(t, "Voice") == 0) {
            int64_t s = json_i_or(c, "length", 0);
            if (s > 0)
                buf_fmt(&b, "[Voice %llds]", (long long)s);
            else
                buf_z(&b, "[Voice]");
        } else if (strcmp(t, "Quote") == 0) {
            struct str inner = chain_export_text(a, json_object_get(c, "origin"));
            buf_fmt(&b, "> " STR_FMT, STR_ARG(inner));
        } else if (strcmp(t, "Plain") == 0 || strcmp(t, "AtAll") == 0) {
            component_text(&b, c);
        } else if (strcmp(t, "Source") != 0) {
            buf_fmt(&b, "[%s]", t);
        }
    }
    return buf_into(a, &b);
}

/* ---- builders ------------------------------------------------------------------------------------------------------ */

json_t *comp_plain_of(json_t *text)
{
    json_t *j = json_object();
    if (j && json_object_set_new_nocheck(j, "type", json_stringn_nocheck("Plain", 5)) == 0 &&
        json_object_set_nocheck(j, "text", text) == 0)
        return j;
    json_decref(j);
    return NULL;
}

json_t *comp_plain(struct str text)
{
    auto_json j = json_strn(text);
    return j ? comp_plain_of(j) : NULL;
}

json_t *chain_of_text(struct str text)
{
    json_t *a = json_array();
    if (!a || json_array_append_new(a, comp_plain(text)) != 0) {
        json_decref(a);
        return NULL;
    }
    return a;
}

json_t *comp_at(const char *target, const char *display)
{
    return json_pack("{s:s,s:s,s:s}", "type", "At", "target", target, "display",
                     display ? display : "");
}

json_t *comp_source(const char *id, int64_t unix_seconds)
{
    return json_pack("{s:s,s:s,s:I}", "type", "Source", "id", id, "timestamp",
                     (json_int_t)unix_seconds);
}

json_t *comp_image(const char *url, const char *base64)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s}", "type", "Image", "image_id", "", "url",
                     url ? url : "", "path", "", "base64", base64 ? base64 : "");
}

bool data_uri_split(struct str uri, struct str *mime, struct str *base64)
{
    if (!str_starts(uri, S("data:")))
        return false;
    ptrdiff_t at = str_find(uri, S(";base64,"));
    if (at < 0)
        return false;
    *mime = str_sub(uri, 5, (size_t)at - 5);
    ptrdiff_t semi = str_chr(*mime, ';');
    if (semi >= 0)
        *mime = str_sub(*mime, 0, (size_t)semi);
    *base64 = str_sub(uri, (size_t)at + 8, uri.n);
    return true;
}

void chain_strip_base64(json_t *chain)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (json_s(c, "base64").n)
            json_set(c, "base64", json_string(""));
        if (json_s(c, "file_base64").n)
            json_set(c, "file_base64", json_string(""));
        json_t *origin = json_object_get(c, "origin"), *node;
        if (json_is_array(origin))
            chain_strip_base64(origin);
        size_t k;
        json_array_foreach (json_object_get(c, "node_list"), k, node)
            chain_strip_base64(json_object_get(node, "message_chain"));
    }
}

static bool has_payload(const json_t *chain)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (json_s(c, "base64").n || json_s(c, "file_base64").n ||
            has_payload(json_object_get(c, "origin")))
            return true;
        size_t k;
        json_t *node;
        json_array_foreach (json_object_get(c, "node_list"), k, node) {
            if (has_payload(json_object_get(node, "message_chain")))
                return true;
        }
    }
    return false;
}

json_t *chain_bare(const json_t *chain)
{
    if (!has_payload(chain))
        return json_incref((json_t *)(uintptr_t)chain);
    json_t *out = json_deep_copy(chain);
    chain_strip_base64(out);
    return out;
}
