/* Sessions and conversations: a bounded cache in front of the database. pipeline.md §5. */
#include "pipeline/engine.h"

static bool key_of(struct buf *out, const struct scope *s, const char *bot, enum launcher l,
                   const char *launcher_id)
{
    return buf_fmt(out, "%s|%s|%s_%s", s->workspace, bot, launcher_name(l), launcher_id);
}

static void session_free(struct session *s)
{
    mem_free(s->key);
    json_decref(s->row);
    json_decref(s->conversation);
    json_decref(s->turns);
    mem_free(s);
}

static void session_drop(struct engine *e, struct session *s)
{
    map_del(&e->sessions, str_c(s->key));
    list_del(&s->lru);
    e->session_count--;
    session_free(s);
}

/* Everything is in the database, so the oldest idle ones simply leave the cache. */
static void shrink(struct engine *e)
{
    list_each(it, &e->session_lru)
    {
        if ((int64_t)e->session_count <= e->max_sessions)
            return;
        struct session *s = container_of(it, struct session, lru);
        if (s->users == 0)
            session_drop(e, s);
    }
}

static struct session *session_make(struct engine *e, const struct query *q, struct str key,
                                    struct error *err)
{
    struct session *s = new (struct session);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    s->scope = q->scope;
    s->key = mem_strndup(key.p, key.n);
    struct error load = {0};
    auto_json got = session_load(e->store, &q->scope, q->bot_uuid, launcher_name(q->event.launcher),
                                 q->launcher_id, e->max_messages, &load);
    if (!got && load.code != ERR_NOT_FOUND) {
        *err = load;
        session_free(s);
        return NULL;
    }
    if (got) {
        s->row = json_incref(json_object_get(got, "session"));
        json_t *c = json_object_get(got, "conversation");
        s->conversation = json_is_object(c) ? json_incref(c) : NULL;
        s->turns = json_incref(json_object_get(got, "turns"));
        s->appended =
            CUT_EVERY - 1; /* what was not cut before it was dropped is cut with the next turn */
    } else {
        s->row = json_pack("{s:s,s:s,s:s,s:s,s:n,s:o,s:o}", "bot_uuid", q->bot_uuid,
                           "launcher_type", launcher_name(q->event.launcher), "launcher_id",
                           q->launcher_id, "sender_id", q->event.sender_id, "conversation_id",
                           "created_at", json_now(), "updated_at", json_now());
        s->turns = json_array();
        s->fresh = true;
    }
    if (!s->key || !s->row || !s->turns) {
        err_set(err, ERR_NOMEM, "out of memory");
        session_free(s);
        return NULL;
    }
    session_trim(s->turns, e->max_messages, e->max_messages);
    return s;
}

void session_trim(json_t *list, int64_t turns, int64_t messages)
{
    size_t keep = 0, n = json_array_size(list);
    int64_t total = 0;
    while (keep < n && (int64_t)keep < turns) {
        total += (int64_t)json_array_size(json_array_get(list, n - 1 - keep));
        if (keep > 0 && total > messages)
            break;
        keep++;
    }
    for (size_t drop = n - keep; drop > 0; drop--)
        json_array_remove(list, 0);
}

struct session *session_take(struct engine *e, const struct query *q, struct error *err)
{
    auto_buf key = BUF(4096);
    if (!key_of(&key, &q->scope, q->bot_uuid, q->event.launcher, q->launcher_id)) {
        err_set(err, ERR_INVALID, "the session id is too long");
        return NULL;
    }
    struct session *s = map_get(&e->sessions, buf_view(&key));
    if (!s) {
        struct session *made = NULL;
        uint64_t forgets;
        do { /* what was read while a session was being removed may be that session */
            if (made)
                session_free(made);
            forgets = e->forgets;
            made = session_make(e, q, buf_view(&key), err);
            if (!made)
                return NULL;
        } while (forgets != e->forgets);
        s = map_get(&e->sessions,
                    buf_view(&key)); /* another run may have loaded it while we waited */
        if (s) {
            session_free(made);
        } else if (!map_put(&e->sessions, buf_view(&key), made)) {
            session_free(made);
            err_set(err, ERR_NOMEM, "out of memory");
            return NULL;
        } else {
            s = made;
            list_push(&e->session_lru, &s->lru);
            e->session_count++;
        }
    }
    s->users++;
    list_del(&s->lru);
    list_push(&e->session_lru, &s->lru);
    shrink(e);
    return s;
}

void session_release(struct engine *e, struct session *s)
{
    s->users--;
    if (s->users == 0 && s->forgotten)
        session_free(s);
    else
        shrink(e);
}

/* The pipeline's prompt as the conversation keeps it: shared, nobody changes it in place. */
static json_t *prompt_of(const struct pipe *p)
{
    json_t *messages = json_at(p->config, "ai.local-agent.prompt");
    return json_pack("{s:s,s:o}", "name", "default", "messages",
                     json_is_array(messages) ? json_incref(messages) : json_array());
}

static json_t *conversation_new(const struct query *q, const struct pipe *p, bool with_uuid)
{
    char id[UUID_SIZE], uuid[UUID_SIZE];
    uuid4(id);
    uuid4(uuid);
    json_t *c = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o}", "id", id, "bot_uuid", q->bot_uuid, "pipeline_uuid",
        p->uuid, "launcher_type", launcher_name(q->event.launcher), "launcher_id", q->launcher_id,
        "uuid", uuid, "prompt", prompt_of(p), "created_at", json_now(), "updated_at", json_now());
    if (c && !with_uuid)
        json_set(c, "uuid", json_null());
    return c;
}

bool session_conversation(struct engine *e, struct session *s, const struct query *q,
                          const struct pipe *p, struct error *err)
{
    (void)e;
    bool local = strcmp(conf_str(p->config, "ai.runner.runner", "local-agent"), "local-agent") == 0;
    json_t *c = s->conversation;
    if (c && (s->renew || strcmp(json_z_or(c, "pipeline_uuid", ""), p->uuid) != 0 ||
              strcmp(json_z_or(c, "bot_uuid", ""), q->bot_uuid) != 0)) {
        json_decref(steal(s->conversation));
        json_array_clear(s->turns);
        c = NULL;
    }
    s->renew = false;
    if (!c) {
        c = s->conversation = conversation_new(q, p, local);
        if (!c || !json_set(s->row, "conversation_id", json_string(json_z_or(c, "id", ""))))
            return err_set(err, ERR_NOMEM, "out of memory");
        s->fresh = true;
        return true;
    }
    int64_t expire = conf_int(p->config, "ai.runner.expire-time", 0), last = 0;
    if (expire > 0 && time_parse(json_s(c, "updated_at"), &last) &&
        (time_wall_us() - last) / 1000000 > expire) {
        char uuid[UUID_SIZE];
        uuid4(uuid);
        json_set(c, "uuid", local ? json_string(uuid) : json_null());
        s->fresh = true;
    }
    json_set(c, "updated_at", json_now());
    json_set(s->row, "updated_at", json_now());
    return true;
}

json_t *session_history(const struct session *s)
{
    json_t *out = json_array();
    size_t i;
    json_t *turn;
    json_array_foreach (s->turns, i, turn)
        json_array_extend(out, turn);
    return out;
}

static bool uncache(struct engine *e, struct str key)
{
    struct session *ses = map_del(&e->sessions, key);
    e->forgets++;
    if (!ses)
        return false;
    list_del(&ses->lru);
    e->session_count--;
    ses->forgotten = true; /* freed by its last user */
    if (ses->users == 0)
        session_free(ses);
    return true;
}

bool session_forget(struct engine *e, const struct scope *s, const char *bot, enum launcher l,
                    const char *launcher_id, bool *removed, struct error *err)
{
    auto_buf key = BUF(4096);
    bool keyed = key_of(&key, s, bot, l, launcher_id), cached = keyed && uncache(e, buf_view(&key));
    if (!session_remove(e->store, s, bot, launcher_name(l), launcher_id, removed, err))
        return false;
    /* A run that came meanwhile has loaded what was about to go. */
    if (keyed)
        uncache(e, buf_view(&key));
    *removed = *removed || cached;
    return true;
}

bool sessions_renew(struct engine *e, const struct scope *s, const char *bot, const char *pipeline,
                    struct error *err)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&e->sessions, &pos, &key, &v)) {
        struct session *ses = v;
        bool hit = bot ? str_eqz(json_s(ses->row, "bot_uuid"), bot)
                       : str_eqz(json_s(ses->conversation, "pipeline_uuid"), pipeline);
        if (hit && strcmp(ses->scope.workspace, s->workspace) == 0)
            ses->renew = true;
    }
    e->forgets++; /* sessions that are being loaded */
    return sessions_unbind(e->store, s, bot, pipeline, err);
}

void sessions_free(struct engine *e)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&e->sessions, &pos, &key, &v))
        session_free(v);
    map_free(&e->sessions);
    list_init(&e->session_lru);
    e->session_count = 0;
}
