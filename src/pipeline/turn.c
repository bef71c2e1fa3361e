/* How an answer leaves: one transaction makes reply, history and ledger state durable, then the adapter gets it. A crash before the
 * commit repeats the turn; a crash after it repeats only the delivery, with the same content. design.md §1.2, pipeline.md §7.10. */
#include "pipeline/engine.h"

enum { SAVE_EVERY_US = 60000000, KEPT_RESULT = 200000 };

struct commit {
    struct scope scope;
    const json_t *ids; /* of the messages that are answered; NULL: no ledger */
    const char *state, *error;
    bool has_delivery;
    struct delivery delivery;
    json_t *session, *conversation; /* rows to save or NULL */
    const char *conversation_id;
    int64_t keep_conversations; /* 0: no new one was made */
    const json_t *turn;         /* messages or NULL */
    bool tried; /* and failed, as far as was heard: it may have been stored all the same */
};

static bool do_commit(struct db_tx *tx, void *arg, struct error *err)
{
    struct commit *c = arg;
    bool stored = false;
    if (c->tried && c->has_delivery &&
        !ledger_has_reply(tx, &c->scope, c->delivery.id, &stored, err))
        return false;
    if (stored)
        return true;
    c->tried = true;
    if (c->ids && !ledger_state(tx, &c->scope, c->ids, c->state, c->error, err))
        return false;
    if (c->has_delivery && !ledger_reply(tx, &c->scope, &c->delivery, err))
        return false;
    if (c->session && !session_save(tx, &c->scope, c->session, c->conversation, err))
        return false;
    if (c->keep_conversations &&
        !session_prune(tx, &c->scope, c->session, c->keep_conversations, err))
        return false;
    return !c->turn || session_append_turn(tx, &c->scope, c->conversation_id, c->turn, err);
}

/* ---- what stays of a turn ------------------------------------------------------------------------------------------------- */

static bool is_role(const json_t *m, const char *role)
{
    return str_eqz(json_s(m, "role"), role);
}

/* Messages that belong together from i on: a call with its results, or one message. 0: the calls have not all been answered. */
static size_t group_at(const json_t *list, size_t i)
{
    const json_t *calls = json_object_get(json_array_get(list, i), "tool_calls");
    size_t n = json_array_size(calls);
    for (size_t k = 0; k < n; k++) {
        const json_t *m = json_array_get(list, i + 1 + k);
        struct str id = json_s(json_array_get(calls, k), "id");
        if (!m || !is_role(m, "tool") || !str_eq(json_s(m, "tool_call_id"), id))
            return 0;
    }
    return n + 1;
}

static bool has_payload(const json_t *message)
{
    size_t k;
    json_t *part;
    json_array_foreach (json_object_get(message, "content"), k, part) {
        if (json_object_get(part, "image_base64") || json_object_get(part, "file_base64"))
            return true;
    }
    return false;
}

static void drop_payloads(json_t *message)
{
    size_t k;
    json_t *part;
    json_array_foreach (json_object_get(message, "content"), k, part) {
        if (json_object_get(part, "image_base64"))
            json_set(part, "image_base64", json_null());
        if (json_object_get(part, "file_base64"))
            json_set(part, "file_base64", json_null());
    }
}

/* The message as it is kept: no payloads, results of tools only as far as a later turn can make sense of them. Itself where nothing
 * is to be cut, since nobody changes a message that was said. New reference. */
static json_t *kept_message(json_t *message)
{
    struct str text = json_s(message, "content");
    bool long_result = is_role(message, "tool") && text.n > KEPT_RESULT;
    if (!long_result && !has_payload(message))
        return json_incref(message);
    json_t *copy = json_deep_copy(message);
    drop_payloads(copy);
    if (long_result) {
        auto_buf b = BUF(KEPT_RESULT + 64);
        buf_add(&b, text.p, utf8_border(text.p, KEPT_RESULT));
        buf_z(&b, "\n[cut: the rest is not kept]");
        json_set(copy, "content", json_strn(buf_view(&b)));
    }
    return copy;
}

/* Whole groups of the responses, without empty assistant messages and calls that got no result; the latest, at most `most`
 * messages. New array. */
static json_t *kept_responses(const struct query *q, size_t most)
{
    json_t *out = json_array(), *starts = json_array();
    for (size_t i = 0; i < json_array_size(q->responses);) {
        json_t *m = json_array_get(q->responses, i);
        size_t n = group_at(q->responses, i);
        bool empty = n == 1 && is_role(m, "assistant") && !llm_content_text(q->arena, m).n;
        if (n > 0 && !empty) {
            json_array_append_new(starts, json_integer((json_int_t)json_array_size(out)));
            for (size_t k = 0; k < n; k++)
                json_array_append_new(out, kept_message(json_array_get(q->responses, i + k)));
        }
        i += n ? n : 1;
        while (n == 0 && is_role(json_array_get(q->responses, i), "tool"))
            i++; /* results of a call that is left out */
    }
    size_t from = 0, g = 0, all = json_array_size(out);
    while (all - from > most && g + 1 < json_array_size(starts))
        from = (size_t)json_integer_value(json_array_get(starts, ++g));
    for (size_t i = 0; i < from; i++)
        json_array_remove(out, 0);
    json_decref(starts);
    return out;
}

/* The user's message and what answered it (providers.md §16). New array, or NULL when nothing is worth keeping. */
static json_t *turn_messages(const struct run *r)
{
    const struct query *q = r->query;
    if (!r->history_ready || !q->user_message || json_array_size(q->responses) == 0)
        return NULL;
    int64_t most = r->engine->max_messages - 1;
    auto_json answers = kept_responses(q, most > 0 ? (size_t)most : 1);
    json_t *out = json_array();
    json_array_append_new(out, kept_message(q->user_message));
    if (json_array_size(answers) > 0 && json_array_extend(out, answers) == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* The committed turn into the cached session. */
static void remember(struct run *r, json_t *turn, int64_t keep)
{
    struct session *s = r->session;
    if (s->conversation != r->conversation || json_array_append(s->turns, turn) != 0)
        return;
    session_trim(s->turns, keep, r->engine->max_messages);
}

/* Older turns go in a transaction that has time, with those of other sessions, which lie on the same pages: and not at each turn,
 * deleting costs more than keeping a few. Whatever is left behind by a crash goes at the next cut. */
static void cut_later(struct run *r, const char *conversation_id, int64_t keep)
{
    if (++r->session->appended % CUT_EVERY == 0)
        record_put(r->engine, &r->query->scope, RECORD_CUT,
                   json_pack("{s:s,s:I}", "id", conversation_id, "keep", (json_int_t)keep));
}

static json_t *default_payload(const struct reply *rep)
{
    return json_pack("{s:O,s:s,s:s,s:s,s:s,s:O*,s:b,s:s*}", "chain", rep->chain, "launcher_type",
                     launcher_name(rep->event->launcher), "launcher_id", rep->launcher_id,
                     "message_id", rep->message_id, "turn_id", rep->turn_id, "context",
                     rep->context, "quote_origin", (int)rep->quote_origin, "response_id",
                     rep->response_id);
}

/* What was accepted waits with its answer for a database that fails; whoever is on the line does not. */
static bool store_commit(struct run *r, struct commit *c, struct error *err)
{
    struct db *db = r->engine->store->db;
    return c->ids ? db_write_again(db, scope_db(&c->scope), do_commit, c, err)
                  : db_write(db, scope_db(&c->scope), do_commit, c, err);
}

/* `rep` NULL: the turn ends without a reply. */
static bool __attribute__((noinline))
commit_turn(struct run *r, struct reply *rep, struct error *err)
{
    struct query *q = r->query;
    const struct adapter *a = bot_adapter(r->bot);
    struct commit c = {.scope = q->scope, .state = "done"};
    auto_json turn = turn_messages(r);
    auto_json payload = NULL;
    auto_json session = NULL;
    auto_json conversation = NULL;
    auto_buf text = BUF(256u << 20);
    if (!r->pending->ephemeral)
        c.ids = q->inbound_ids;
    if (rep && !r->pending->ephemeral) {
        payload = a->delivery_payload ? a->delivery_payload(bot_instance(r->bot), rep)
                                      : default_payload(rep);
        if (!payload || !json_put(&text, payload))
            return err_set(err, ERR_NOMEM, "out of memory");
        c.has_delivery = true;
        c.delivery = (struct delivery){.id = rep->delivery_id,
                                       .bot = q->bot_uuid,
                                       .message_id = q->message_id,
                                       .session_key = query_session_name(q),
                                       .number = rep->number,
                                       .is_final = true,
                                       .payload = buf_view(&text)};
    }
    const struct session *s = r->session && !r->session->forgotten ? r->session : NULL;
    int64_t keep_turns = 0;
    if (turn && s && r->conversation) {
        c.turn = turn;
        c.conversation_id = json_z_or(r->conversation, "id", "");
        keep_turns = conf_int(r->pipe->config, "ai.local-agent.max-round", 10);
        if (keep_turns < 1)
            keep_turns = 1;
    }
    /* Once in a while the rows get a fresh time; what they hold changes with a new conversation only. */
    if (s && (s->fresh || s->renew || (c.turn && time_mono_us() - s->saved_us > SAVE_EVERY_US))) {
        c.session = session = json_deep_copy(s->row);
        c.conversation = conversation = json_deep_copy(r->conversation);
        if (!session || (r->conversation && !conversation))
            return err_set(err, ERR_NOMEM, "out of memory");
        if (s->renew)
            json_set(session, "conversation_id", json_null());
        c.keep_conversations = s->fresh ? r->engine->max_conversations : 0;
    }
    if ((c.ids || c.session || c.turn) && !store_commit(r, &c, err))
        return err_wrap(err, "the answer could not be stored");
    r->committed = true;
    if (c.session) {
        r->session->fresh = false;
        r->session->saved_us = time_mono_us();
    }
    if (c.turn) {
        remember(r, turn, keep_turns);
        cut_later(r, c.conversation_id, keep_turns);
    }
    return true;
}

static bool hand_out(struct run *r, json_t *chain, bool is_chunk, bool is_final, bool quote,
                     struct error *err)
{
    struct query *q = r->query;
    struct reply rep = {
        .message_id = q->message_id,
        .turn_id = q->uuid,
        .response_id = is_chunk ? q->response_id : NULL,
        .event = &q->event,
        .launcher_id = q->launcher_id,
        .context = q->reply_context,
        .chain = chain,
        .quote_origin = quote,
        .is_chunk = is_chunk,
        .is_final = is_final,
        .tool_calls = r->tool_calls,
    };
    run_keep(&r->last_out, json_incref(chain));
    if (is_chunk && !r->first_chunk_done) {
        if (!bot_card(r->bot, &rep, err))
            return false;
        r->first_chunk_done = true;
    }
    bool ends = is_final && !(is_chunk && r->tool_calls);
    if (ends && !r->committed) {
        char id[UUID_SIZE];
        uuid4_ordered(id);
        rep.number = ++q->parts;
        rep.tools = r->tool_calls_shown;
        rep.delivery_id = r->pending->ephemeral ? NULL : str_z(q->arena, str_c(id));
        if (!commit_turn(r, &rep, err))
            return false;
        r->answered = true;
    } else if (!is_chunk) {
        rep.number = ++q->parts;
    }
    enum reply_result res = bot_reply(r->bot, &rep, err);
    if (rep.delivery_id && res == REPLY_SENT)
        turn_delivered(r->engine, &q->scope, rep.delivery_id, true, 1, NULL);
    if (res != REPLY_FAILED)
        return true;
    if (rep.delivery_id && err->code != ERR_CANCELED)
        turn_delivered(r->engine, &q->scope, rep.delivery_id, false, 1, err->msg);
    return false;
}

bool turn_reply(struct run *r, bool quote, struct error *err)
{
    bool chunk = r->streams && r->is_chunk;
    return hand_out(r, r->out_chain, chunk, chunk ? r->is_final : r->is_final && !r->tool_calls,
                    quote, err);
}

bool turn_notice(struct run *r, const json_t *notice, bool interrupt, struct error *err)
{
    struct query *q = r->query;
    auto_json chain =
        json_is_string(notice) ? chain_of_text(json_sv(notice)) : json_deep_copy(notice);
    if (!chain)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (r->pipe->at_sender && q->event.launcher == LAUNCHER_GROUP)
        json_array_insert_new(chain, 0, comp_at(q->event.sender_id, q->event.sender_name));
    bool chunk = r->streams && r->response && r->is_chunk;
    bool final = interrupt || (chunk && r->is_final);
    r->tool_calls = false;
    r->history_ready = false; /* a failed turn leaves nothing in the history */
    return hand_out(r, chain, chunk, final, r->pipe->quote_origin, err);
}

bool turn_end(struct run *r, struct error *err)
{
    bool begun = r->streams && r->is_chunk && r->first_chunk_done;
    if (r->committed || !r->tool_calls_shown)
        return true;
    r->history_ready = true; /* calls without results stay out of it */
    r->tool_calls = false;
    if (!begun)
        return commit_turn(r, NULL, err);
    auto_json chain = json_incref(r->last_out);
    return hand_out(r, chain, true, true,
                    conf_bool(r->pipe->config, "output.misc.quote-origin", false), err);
}

bool turn_cut(struct run *r, struct error *err)
{
    if (!r->streams || !r->is_chunk || !r->first_chunk_done || r->answered)
        return true;
    auto_json chain = json_incref(r->last_out);
    r->tool_calls = false;
    r->history_ready = false;
    return hand_out(r, chain, true, true, r->pipe->quote_origin, err);
}

/* ---- states without a reply ------------------------------------------------------------------------------------------- */

struct close {
    struct scope scope;
    json_t *ids;
    char state[16];
    char *error;
};

static bool do_close(struct db_tx *tx, void *arg, struct error *err)
{
    struct close *c = arg;
    return ledger_state(tx, &c->scope, c->ids, c->state, c->error, err);
}

static void close_free(void *arg)
{
    struct close *c = arg;
    json_decref(c->ids);
    mem_free(c->error);
    mem_free(c);
}

void turn_close(struct run *r, const char *state, const char *error)
{
    if (r->pending->ephemeral)
        return;
    struct close *c = new (struct close);
    if (!c)
        return;
    c->scope = r->pending->scope;
    c->ids = json_deep_copy(
        r->pending->ids); /* the run goes on or ends while a database thread reads it */
    snprintf(c->state, sizeof c->state, "%s", state);
    c->error = error ? mem_strndup(error, strlen(error)) : NULL;
    struct error err = {0};
    if (!c->ids)
        close_free(c);
    else if (!db_write_owed(r->engine->store->db, scope_db(&c->scope), do_close, c, close_free,
                            "the state of a message", &err))
        log_error("ledger", "the state of a message was not stored: %s", err.msg);
    r->committed = true;
}

void turn_delivered(struct engine *e, const struct scope *s, const char *id, bool ok,
                    int64_t attempts, const char *error)
{
    struct error err = {0};
    if (!ledger_delivered(e->store, s, id, ok ? "sent" : "failed", attempts, error, &err))
        log_error("ledger", "the state of delivery %s was not stored: %s", id, err.msg);
}
