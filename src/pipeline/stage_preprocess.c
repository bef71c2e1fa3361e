/* PreProcessor: session, model, history, variables and the user's message. pipeline.md §7.4, providers.md §17. */
#include "pipeline/engine.h"

#include <time.h>

static bool is_local(const struct run *r)
{
    return strcmp(conf_str(r->pipe->config, "ai.runner.runner", "local-agent"), "local-agent") == 0;
}

/* Of the store; a database that fails is waited for. */
static struct model *model_of(struct run *r, const char *uuid, struct error *err)
{
    struct db *db = r->engine->store->db;
    struct db_retry again = {0};
    struct model *m;
    while (!(m = models_get(r->engine->models, &r->query->scope, MODEL_LLM, uuid, err)))
        if (!db_again(db, &again, err))
            return NULL;
    db_worked(db, &again);
    return m;
}

static bool session_of(struct run *r, struct error *err)
{
    struct db *db = r->engine->store->db;
    struct db_retry again = {0};
    while (!(r->session = session_take(r->engine, r->query, err)))
        if (!db_again(db, &again, err))
            return false;
    db_worked(db, &again);
    return true;
}

/* Primary model and resolvable fallbacks; a missing one is only a warning. */
static bool choose_models(struct run *r, struct error *err)
{
    struct query *q = r->query;
    const json_t *conf = conf_at(r, "ai.local-agent.model");
    const char *primary =
        json_is_string(conf) ? json_string_value(conf) : json_z_or(conf, "primary", "");
    if (*primary) {
        r->model = model_of(r, primary, err);
        if (!r->model) {
            if (err->code == ERR_CANCELED)
                return false;
            log_warn("query", "pipeline %s names a model that is not there: %s", r->pipe->uuid,
                     err->msg);
        }
    }
    auto_json fallbacks = json_array();
    size_t i;
    json_t *f;
    json_array_foreach (json_object_get(conf, "fallbacks"), i, f) {
        *err = (struct error){0};
        struct model *m = json_is_string(f) ? model_of(r, json_string_value(f), err) : NULL;
        if (!m && err->code == ERR_CANCELED)
            return false;
        if (m)
            json_array_append(fallbacks, f);
        model_unref(m);
    }
    if (json_array_size(fallbacks) > 0)
        query_var(q, "_fallback_model_uuids", json_incref(fallbacks));
    return true;
}

static void set_variables(struct run *r)
{
    struct query *q = r->query;
    bool group = q->event.launcher == LAUNCHER_GROUP;
    int64_t when = q->event.time > 0 ? (int64_t)q->event.time : time_wall_us() / 1000000;
    query_var(q, "launcher_type", json_string(launcher_name(q->event.launcher)));
    query_var(q, "launcher_id", json_string(q->launcher_id));
    query_var(q, "sender_id", json_string(q->event.sender_id));
    query_var(q, "session_id", json_string(query_session_name(q)));
    json_t *id = json_object_get(r->session->conversation, "uuid");
    query_var(q, "conversation_id", id ? json_incref(id) : json_null());
    query_var(q, "msg_create_time", json_integer(when));
    query_var(q, "group_name", json_string(group ? q->event.group_name : ""));
    query_var(q, "sender_name", json_string(q->event.sender_name));
    query_var(q, "user_message_text", json_strn(chain_plain_text(q->arena, q->chain)));
}

static json_t *element(const char *type, const char *key, struct str value, const char *name)
{
    json_t *e = json_pack("{s:s}", "type", type);
    json_set(e, key, json_strn(value));
    if (name)
        json_set(e, "file_name", json_string(name));
    return e;
}

/* One component as a content element; NULL: it has none. */
static json_t *element_of(const json_t *c, bool pictures)
{
    const char *t = json_z_or(c, "type", "");
    struct str base64 = json_s(c, "base64"), url = json_s(c, "url");
    if (strcmp(t, "Plain") == 0)
        return element("text", "text", json_s(c, "text"), NULL);
    if (strcmp(t, "Image") == 0)
        return pictures && base64.n ? element("image_base64", "image_base64", base64, NULL) : NULL;
    bool voice = strcmp(t, "Voice") == 0;
    if (!voice && strcmp(t, "File") != 0)
        return NULL;
    if (base64.n)
        return element("file_base64", "file_base64", base64,
                       voice ? "voice.silk" : json_z_or(c, "name", ""));
    return url.n ? element("file_url", "file_url", url, voice ? "voice" : json_z_or(c, "name", ""))
                 : NULL;
}

static bool add_elements(json_t *content, const json_t *chain, bool pictures, bool quotes)
{
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        if (strcmp(json_z_or(c, "type", ""), "Quote") == 0) {
            if (quotes && !add_elements(content, json_object_get(c, "origin"), pictures, false))
                return false;
            continue;
        }
        json_t *e = element_of(c, pictures);
        if (e && json_array_append_new(content, e) != 0)
            return false;
    }
    return true;
}

static bool build_user_message(struct run *r, struct error *err)
{
    struct query *q = r->query;
    bool pictures = !is_local(r) || (r->model && model_can(r->model, "vision"));
    json_t *content = json_array();
    bool ok = add_elements(content, q->chain, pictures,
                           conf_bool(r->pipe->config, "trigger.misc.combine-quote-message", true));
    q->user_message =
        arena_json(q->arena, json_pack("{s:s,s:o}", "role", "user", "content", content));
    return (ok && q->user_message) || err_set(err, ERR_NOMEM, "out of memory");
}

/* Pictures of the history are of no use to a model that cannot see (§7.4.6). */
static bool has_picture(const json_t *message)
{
    size_t k;
    json_t *part;
    json_array_foreach (json_object_get(message, "content"), k, part) {
        if (strcmp(json_z_or(part, "type", ""), "image_url") == 0)
            return true;
    }
    return false;
}

static bool drop_pictures(json_t *messages)
{
    size_t i;
    json_t *m;
    json_array_foreach (messages, i, m) {
        if (!has_picture(m))
            continue;
        json_t *own = json_deep_copy(m), *content = json_object_get(own, "content");
        for (size_t k = json_array_size(content); k > 0; k--)
            if (strcmp(json_z_or(json_array_get(content, k - 1), "type", ""), "image_url") == 0)
                json_array_remove(content, k - 1);
        if (!own || json_array_set_new(messages, i, own) != 0)
            return false;
    }
    return true;
}

/* Today's date behind the system message, in this turn's copy only (spec DEFECT: the reference piles it up). */
static bool add_date(json_t *prompt, struct arena *a)
{
    time_t now = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    char day[64];
    localtime_r(&now, &tm);
    strftime(day, sizeof day, "%Y-%m-%d (%A)", &tm);
    struct str line = str_fmt(
        a,
        "\n\nCurrent date: %s. Work out relative dates such as \"tomorrow\" from it, and check facts that "
        "change with time by a search tool where one is at hand.",
        day);
    size_t i;
    json_t *m;
    json_array_foreach (prompt, i, m) {
        if (strcmp(json_z_or(m, "role", ""), "system") != 0)
            continue;
        json_t *content = json_object_get(m, "content");
        if (json_is_array(content)) {
            size_t k;
            json_t *part;
            json_array_foreach (content, k, part) {
                if (strcmp(json_z_or(part, "type", ""), "text") == 0)
                    return json_set(
                        part, "text",
                        json_strn(str_fmt(a, STR_FMT STR_FMT, STR_ARG(json_s(part, "text")),
                                          STR_ARG(line))));
            }
            return json_array_append_new(content, element("text", "text", line, NULL)) == 0;
        }
        return json_set(
            m, "content",
            json_strn(str_fmt(a, STR_FMT STR_FMT, STR_ARG(json_sv(content)), STR_ARG(line))));
    }
    return json_array_insert_new(prompt, 0, llm_message("system", str_trim(line))) == 0;
}

/* Also of configurations from before there could be several. */
static json_t *knowledge_bases(const struct run *r)
{
    const json_t *list = conf_at(r, "ai.local-agent.knowledge-bases");
    if (json_array_size(list) > 0)
        return json_deep_copy(list);
    const char *one = conf_str(r->pipe->config, "ai.local-agent.knowledge-base", "");
    return *one && strcmp(one, "__none__") != 0 ? json_pack("[s]", one) : json_array();
}

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    (void)out;
    struct query *q = r->query;
    if (is_local(r) && !choose_models(r, err))
        return false;
    *err = (struct error){0};
    if (is_local(r) && !run_tools_load(r, err))
        return false;
    if (!session_of(r, err) || !session_conversation(r->engine, r->session, q, r->pipe, err))
        return false;
    q->session = r->session;
    run_keep(&r->conversation, json_incref(r->session->conversation));
    const json_t *kept = json_at(r->session->conversation, "prompt.messages");
    q->prompt = arena_json(q->arena, json_is_array(kept) ? json_deep_copy(kept) : json_array());
    q->messages = arena_json(
        q->arena,
        session_history(r->session)); /* shared with the session: what changes is copied before */
    if (!q->prompt || !q->messages)
        return err_set(err, ERR_NOMEM, "out of memory");
    set_variables(r);
    if (is_local(r) && !(r->model && model_can(r->model, "vision")))
        if (!drop_pictures(q->messages))
            return err_set(err, ERR_NOMEM, "out of memory");
    if (!build_user_message(r, err))
        return false;
    query_var(q, "_knowledge_base_uuids", knowledge_bases(r));
    if (is_local(r) && !add_date(q->prompt, q->arena))
        return err_set(err, ERR_NOMEM, "out of memory");
    return true;
}

const struct stage stage_preprocess = {.name = "PreProcessor", .process = process};
