/* The body of a chat request and the reading of a whole answer, OpenAI form (§6, 6.1, 6.2). */
#include "model/model_private.h"

#include <stdio.h>

const char *openai_name(const struct model *m)
{
    const char *family = m->provider->family;
    size_t n = family ? strlen(family) : 0;
    bool prefixed =
        n > 0 && strncmp(m->name, family, n) == 0 && m->name[n] == '/' && m->name[n + 1];
    return prefixed ? m->name + n + 1 : m->name;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A part of a content list in wire form: new reference, or NULL for one that is left out. */
static json_t *part_to_wire(const json_t *part)
{
    struct str type = json_s(part, "type");
    if (str_eqz(type, "text")) {
        const json_t *text = json_object_get(part, "text"); /* may hold U+0000 */
        return json_is_string(text) ? json_pack("{s:s, s:O}", "type", "text", "text", text) : NULL;
    }
    const char *url = NULL;
    if (str_eqz(type, "image_base64")) {
        url = json_z(part, "image_base64");
    } else if (str_eqz(type, "image_url")) {
        const json_t *image = json_object_get(part, "image_url");
        url = json_is_string(image) ? json_string_value(image) : json_z(image, "url");
        if (url && *url && json_is_object(image)) /* "detail" and the like go along */
            return json_pack("{s:s, s:O}", "type", "image_url", "image_url", image);
    } else {
        return NULL; /* files: no field of this protocol takes them */
    }
    return url && *url ? json_pack("{s:s, s:{s:s}}", "type", "image_url", "image_url", "url", url)
                       : NULL;
}

static json_t *content_to_wire(const json_t *content)
{
    if (!json_is_array(content))
        return json_incref((json_t *)(uintptr_t)content);
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(content); i++) {
        json_t *part = part_to_wire(json_array_get(content, i));
        if (part && json_array_append_new(out, part) != 0)
            break;
    }
    if (json_array_size(out) > 0)
        return out;
    json_decref(out);
    return json_string(""); /* an empty list is refused everywhere */
}

static json_t *without_thoughts(const json_t *content)
{
    auto_buf text = BUF(SIZE_MAX);
    struct str raw = json_sv(content);
    return think_strip(raw, &text) ? json_strn(text.n > 0 ? buf_view(&text) : S("")) : NULL;
}

/* Takes the reasoning out of an assistant message's provider fields; the family's field goes to
 * the top. */
static bool place_reasoning(json_t *wire, const char *replay, bool wanted)
{
    static const char *const fields[] = {"reasoning_content", "thinking_blocks"};
    const json_t *given = json_object_get(wire, "provider_specific_fields");
    if (!json_is_object(given))
        return true;
    auto_json rest = json_copy((json_t *)(uintptr_t)given);
    bool any = false, ok = rest != NULL;
    for (size_t i = 0; ok && i < array_len(fields); i++) {
        json_t *value = json_object_get(rest, fields[i]);
        if (!value || json_is_null(value))
            continue;
        any = true;
        if (wanted && replay && strcmp(replay, fields[i]) == 0)
            ok = json_object_set(wire, fields[i], value) == 0;
        json_object_del(rest, fields[i]);
    }
    json_t *content = json_object_get(wire, "content");
    if (ok && any && json_is_string(content))
        ok = json_set(wire, "content", without_thoughts(content));
    if (ok && json_object_size(rest) == 0)
        json_object_del(wire, "provider_specific_fields");
    else if (ok)
        ok = json_object_set(wire, "provider_specific_fields", rest) == 0;
    return ok;
}

static bool is_empty_answer(const json_t *wire)
{
    const json_t *content = json_object_get(wire, "content");
    return str_eqz(json_s(wire, "role"), "assistant") &&
           json_array_size(json_object_get(wire, "tool_calls")) == 0 &&
           (!content || json_sv(content).n == 0) && !json_is_array(content);
}

struct history {
    const char *family, *replay;
    bool wanted; /* the level lets thoughts go back */
};

/* A message of the common kind already has the form of the wire: role and content alone, words only. */
static bool is_plain(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    if (json_object_size(message) != 2 || !json_is_string(json_object_get(message, "role")))
        return false;
    if (json_is_string(content))
        return true;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        if (json_object_size(part) != 2 || !str_eqz(json_s(part, "type"), "text") ||
            !json_is_string(json_object_get(part, "text")))
            return false;
    }
    return json_array_size(content) > 0;
}

static json_t *message_to_wire(const json_t *message, const struct history *h)
{
    if (is_plain(message))
        return json_incref((json_t *)(uintptr_t)message);
    static const char *const fields[] = {"role",
                                         "name",
                                         "tool_calls",
                                         "tool_call_id",
                                         "resp_message_id",
                                         "provider_specific_fields"};
    json_t *wire = json_object();
    bool ok = wire != NULL;
    for (size_t i = 0; ok && i < array_len(fields); i++) {
        json_t *value = json_object_get(message, fields[i]);
        if (value && !json_is_null(value))
            ok = json_object_set(wire, fields[i], value) == 0;
        if (i == 0) {
            const json_t *content = json_object_get(message, "content");
            if (content && !json_is_null(content))
                ok = ok && json_set(wire, "content", content_to_wire(content));
        }
    }
    if (ok && h->family && str_eqz(json_s(wire, "role"), "assistant"))
        ok = place_reasoning(wire, h->replay, h->wanted);
    if (ok)
        return wire;
    json_decref(wire);
    return NULL;
}

static json_t *messages_to_wire(const json_t *messages, const struct history *h)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(messages); i++) {
        json_t *wire = message_to_wire(json_array_get(messages, i), h);
        if (!wire) {
            json_decref(out);
            return NULL;
        }
        /* A turn that ended with thoughts alone says nothing, and many servers refuse it. */
        if (is_empty_answer(wire))
            json_decref(wire);
        else
            json_array_append_new(out, wire);
    }
    return out;
}

static json_t *tools_to_wire(const json_t *tools)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        json_t *function = json_object();
        static const char *const keys[] = {"name", "description", "parameters"};
        for (size_t k = 0; k < array_len(keys); k++) {
            json_t *value = json_object_get(tool, keys[k]);
            if (value && !json_is_null(value))
                json_object_set(function, keys[k], value);
        }
        json_array_append_new(out,
                              json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return out;
}

/* ---- the body -------------------------------------------------------------------------------- */

bool openai_extra(json_t *body, const json_t *extra, const json_t **headers, struct error *err)
{
    const char *key;
    json_t *value;
    if (extra && !json_is_null(extra) && !json_is_object(extra))
        return err_set(err, ERR_INVALID, "extra_args must be an object");
    json_object_foreach ((json_t *)(uintptr_t)extra, key, value) {
        if (strcmp(key, "extra_headers") == 0) {
            if (json_is_object(value))
                *headers = value;
        } else if (strcmp(key, "extra_body") == 0) {
            if (json_is_null(value))
                continue;
            if (!json_is_object(value))
                return err_set(err, ERR_INVALID, "extra_body must be an object");
            json_object_update(body, value);
        } else if (json_object_set(body, key, value) != 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return true;
}

static bool add_reasoning(json_t *body, const struct model *m, const struct llm_request *req,
                          const char *level, struct error *err)
{
    const json_t *none = NULL;
    auto_json args = reasoning_args(m, level, m->extra_args, req->extra_args, err);
    return args && openai_extra(body, args, &none, err);
}

bool openai_body(const struct model *m, const struct llm_request *req, bool stream, struct buf *out,
                 const json_t **extra_headers, struct error *err)
{
    const char *level = req->reasoning_level ? req->reasoning_level : m->level;
    struct history h = {.family = reasoning_family(m->provider->requester, m->name)};
    h.replay = reasoning_replay(h.family);
    h.wanted = strcmp(level, "disabled") != 0;

    auto_json body = json_object();
    *extra_headers = NULL;
    json_set(body, "model", json_string(openai_name(m)));
    if (!json_set(body, "messages", messages_to_wire(req->messages, &h)))
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!openai_extra(body, m->extra_args, extra_headers, err) ||
        !openai_extra(body, req->extra_args, extra_headers, err) ||
        !add_reasoning(body, m, req, level, err))
        return false;
    if (json_array_size(req->tools) > 0) {
        json_set(body, "tools", tools_to_wire(req->tools));
        if (!json_object_get(body, "tool_choice"))
            json_set(body, "tool_choice", json_string("auto"));
    }
    /* Behind the extra arguments: how the answer is read follows from them. */
    json_object_del(body, "stream");
    json_object_del(body, "stream_options");
    if (stream) {
        json_set(body, "stream", json_true());
        json_set(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    }
    return json_put(out, body) || err_set(err, ERR_TOO_LARGE, "the request is too large");
}

/* ---- a whole answer -------------------------------------------------------------------------- */

static int64_t count_of(const json_t *usage, const char *key)
{
    int64_t n = json_i_or(usage, key, 0);
    return n > 0 ? n : 0;
}

void openai_usage(const json_t *usage, struct llm_usage *out)
{
    if (!json_is_object(usage))
        return;
    json_decref(out->raw);
    *out = (struct llm_usage){.known = true, .raw = json_object()};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)usage, key, value) {
        if (!json_is_null(value))
            json_object_set(out->raw, key, value);
    }
    out->input = count_of(usage, "prompt_tokens");
    out->output = count_of(usage, "completion_tokens");
    out->total = count_of(usage, "total_tokens");
    if (out->total == 0)
        out->total = out->input + out->output;
    json_set(out->raw, "prompt_tokens", json_integer(out->input));
    json_set(out->raw, "completion_tokens", json_integer(out->output));
    json_set(out->raw, "total_tokens", json_integer(out->total));
}

/* Text of a content that some servers send as a list of parts; thoughts among them go to
 * `thoughts`. */
static void content_text(const json_t *content, struct buf *text, struct buf *thoughts)
{
    if (json_is_string(content))
        buf_str(text, json_sv(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        struct str type = json_s(part, "type");
        if (str_eqz(type, "text"))
            buf_str(text, json_s(part, "text"));
        else if (str_eqz(type, "thinking"))
            content_text(json_object_get(part, "thinking"), thoughts, thoughts);
    }
}

static void block_text(const json_t *blocks, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(blocks); i++)
        buf_str(out, json_s(json_array_get(blocks, i), "thinking"));
}

static json_t *fields_of(const json_t *message, const struct buf *thoughts)
{
    const json_t *given = json_object_get(message, "provider_specific_fields");
    json_t *out = json_is_object(given) ? json_copy((json_t *)(uintptr_t)given) : json_object();
    json_t *blocks = json_object_get(message, "thinking_blocks");
    if (thoughts->n > 0)
        json_set(out, "reasoning_content", json_strn(buf_view(thoughts)));
    if (json_array_size(blocks) > 0)
        json_object_set(out, "thinking_blocks", blocks);
    return out;
}

static json_t *calls_of(const json_t *message)
{
    const json_t *given = json_object_get(message, "tool_calls");
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *call = json_copy(json_array_get(given, i));
        const json_t *function = json_object_get(call, "function");
        if (!json_is_object(function) || json_s(function, "name").n == 0) {
            json_decref(call);
            continue;
        }
        char id[32];
        snprintf(id, sizeof(id), "call_%zu", i);
        if (json_s(call, "id").n == 0)
            json_set(call, "id", json_string(id));
        if (json_s(call, "type").n == 0)
            json_set(call, "type", json_string("function"));
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments)) { /* some servers send the object itself */
            json_t *copy = json_copy((json_t *)(uintptr_t)function);
            char *text = arguments && !json_is_null(arguments)
                             ? json_dump_z(arguments, JSON_COMPACT | JSON_ENCODE_ANY)
                             : NULL;
            json_set(copy, "arguments", json_string(text ? text : ""));
            mem_free(text);
            json_set(call, "function", copy);
        }
        json_array_append_new(out, call);
    }
    return out;
}

bool openai_answer(const json_t *body, bool remove_think, struct llm_answer *out, struct error *err)
{
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    const json_t *message = json_object_get(choice, "message");
    if (!json_is_object(message))
        return err_set(err, ERR_PROTOCOL, "the answer has no choices");
    auto_buf text = BUF(SIZE_MAX), thoughts = BUF(SIZE_MAX), shown = BUF(SIZE_MAX);
    content_text(json_object_get(message, "content"), &text, &thoughts);
    struct str reasoning = json_s(message, "reasoning_content");
    if (reasoning.n == 0)
        reasoning = json_s(message, "reasoning");
    if (reasoning.n > 0) {
        buf_clear(&thoughts);
        buf_str(&thoughts, reasoning);
    }
    struct str visible = text.n > 0 ? buf_view(&text) : S("");
    auto_buf display = BUF(SIZE_MAX);
    buf_str(&display, thoughts.n > 0 ? buf_view(&thoughts) : S(""));
    if (thoughts.n == 0)
        block_text(json_object_get(message, "thinking_blocks"), &display);
    bool ok = true;
    if (remove_think) {
        ok = think_strip(visible, &shown);
        visible = shown.n > 0 ? buf_view(&shown) : S("");
    } else if (display.n > 0) {
        ok = buf_z(&shown, "<think>\n") && buf_str(&shown, buf_view(&display)) &&
             buf_z(&shown, "\n</think>\n") && buf_str(&shown, visible);
        visible = str_trim(buf_view(&shown));
    }
    json_t *m = ok ? json_object() : NULL;
    json_set(m, "role", json_string(json_z_or(message, "role", "assistant")));
    ok = json_set(m, "content", json_strn(visible));
    json_t *calls = calls_of(message), *fields = fields_of(message, &thoughts);
    if (json_array_size(calls) > 0)
        json_object_set(m, "tool_calls", calls);
    if (json_object_size(fields) > 0)
        json_object_set(m, "provider_specific_fields", fields);
    json_decref(calls);
    json_decref(fields);
    if (!ok) {
        json_decref(m);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = (struct llm_answer){.message = m};
    openai_usage(json_object_get(body, "usage"), &out->usage);
    return true;
}
