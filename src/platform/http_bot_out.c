/* HTTP bot: callbacks. One queue and one fiber for each session that has something to send, so that the parts of a session stay in order
 * and no session waits for another. http-api.md §13.2, platforms.md §2.19, spec/README.md ("the same callback again").
 *
 * Parts of a turn. A streamed snapshot that nobody has begun to send is replaced by the next one; once begun it is sent to its end. So an
 * endpoint that keeps up gets each snapshot and a slow one the newest. The first snapshot of a turn waits up to HB_FIRST_HOLD_MS: an
 * answer that is whole by then is one callback instead of two.
 *
 * Numbers. A part that is not kept gets its `sequence` when it is begun. The final part must be the same after a crash, so its whole
 * body is fixed when the turn is committed (hb_out_payload): a snapshot that still waits is dropped, since the final part holds it, and
 * the number is the next after what was begun and what must still go before it. The body lies in the ledger and is sent as it lies
 * there, then and after a restart; only the signature is made anew for each attempt. A turn that is run again because the process
 * died before the commit is a new turn: its numbers start at 1, as for every turn. */
#include "platform/http_bot.h"

#include <stdio.h>

enum {
    ANSWER_MAX = 1 << 20,
    CONNECT_MS = 10000,
    AGAIN_MS = 100,
    SWEEP_US = 10000000,
    TURN_IDLE_US = 600000000
};

struct hb_turn {
    struct list node; /* in its session while it is open */
    char id[40];
    int64_t begun;           /* parts handed to the network so far */
    int64_t first_us, at_us; /* its first part came; last touched */
    size_t parts, pinned;    /* in the queue; those of them that are never dropped */
    struct hb_part *waiting; /* in the queue, may still be replaced */
    struct hb_part *final;   /* fixed by hb_out_payload, not yet in the queue */
    bool open;
};
struct hb_part {
    struct list node;
    struct hb_turn *turn; /* NULL: proactive, or from the ledger */
    json_t *chain;        /* until `body` is made */
    char *reply_to;
    char response[40], delivery[40];
    struct buf body;
    bool final, stream, pinned;
};
struct hb_session {
    struct hb_state *st;
    char *key; /* type and session id */
    struct list queue, turns;
    size_t queued;
    bool working, retrying;
    struct task_cond cond;   /* the queue changed */
    struct task_timer again; /* no fiber could be had */
};

bool hb_is_final(const struct reply *r)
{
    return r->is_final && !(r->is_chunk && r->tool_calls);
}

/* ---- parts and turns -------------------------------------------------------------------------------------------------------- */

static json_t *body_json(const char *session_id, const char *reply_to, int64_t sequence, bool final,
                         bool stream, json_t *chain)
{
    char when[TIME_ISO_SIZE + 8];
    time_iso(time_wall_us(), when);
    memcpy(when + strlen(when), "+00:00", 7);
    return json_pack("{s:s,s:s,s:I,s:b,s:b,s:O,s:s}", "session_id", session_id, "reply_to",
                     reply_to, "sequence", (json_int_t)sequence, "is_final", (int) final, "stream",
                     (int)stream, "message", chain, "timestamp", when);
}

static struct hb_part *part_new(const char *reply_to, const char *delivery_id,
                                const char *response_id)
{
    struct hb_part *p = new (struct hb_part);
    if (!p || !(p->reply_to = mem_strndup(reply_to, strlen(reply_to)))) {
        mem_free(p);
        return NULL;
    }
    p->body = BUF(256u << 20);
    snprintf(p->delivery, sizeof p->delivery, "%s", delivery_id ? delivery_id : "");
    snprintf(p->response, sizeof p->response, "%s", response_id ? response_id : "");
    return p;
}

static void part_free(struct hb_part *p)
{
    if (!p)
        return;
    struct hb_turn *t = p->turn;
    if (t && --t->parts == 0 && !t->open)
        mem_free(t);
    json_decref(p->chain);
    buf_free(&p->body);
    mem_free(p->reply_to);
    mem_free(p);
}

static void turn_close(struct hb_turn *t)
{
    list_del(&t->node);
    t->open = false;
    part_free(t->final);
    t->final = NULL;
    if (t->parts == 0)
        mem_free(t);
}

/* Left behind by runs that ended without a final part. */
static void close_stale(struct hb_session *s, int64_t now)
{
    list_each(it, &s->turns)
    {
        struct hb_turn *t = container_of(it, struct hb_turn, node);
        if (t->parts == 0 && !t->final && now - t->at_us > TURN_IDLE_US)
            turn_close(t);
    }
}

static struct hb_turn *turn_find(struct hb_session *s, const char *id)
{
    list_each(it, &s->turns)
    {
        struct hb_turn *t = container_of(it, struct hb_turn, node);
        if (strcmp(t->id, id) == 0)
            return t;
    }
    return NULL;
}

static struct hb_turn *turn_get(struct hb_session *s, const char *id)
{
    int64_t now = time_mono_us();
    struct hb_turn *t = turn_find(s, id);
    if (!t) {
        close_stale(s, now);
        t = new (struct hb_turn);
        if (!t)
            return NULL;
        snprintf(t->id, sizeof t->id, "%s", id);
        t->first_us = now;
        t->open = true;
        list_push(&s->turns, &t->node);
    }
    t->at_us = now;
    return t;
}

/* ---- sessions ------------------------------------------------------------------------------------------------------------------ */

static void session_free(struct hb_session *s)
{
    task_timer_stop(&s->again);
    struct list *node;
    while ((node = list_pop(&s->queue)))
        part_free(container_of(node, struct hb_part, node));
    while (!list_empty(&s->turns))
        turn_close(container_of(s->turns.next, struct hb_turn, node));
    map_del(&s->st->sessions, str_c(s->key));
    mem_free(s->key);
    mem_free(s);
}

static void session_end(struct hb_session *s)
{
    if (!s->working && !s->retrying && list_empty(&s->queue) && list_empty(&s->turns))
        session_free(s);
}

/* Sessions that only hold turns whose run ended without a final part. */
static void sweep(struct hb_state *st)
{
    int64_t now = time_mono_us();
    if (st->sessions.n < HB_SESSIONS_MAX || now - st->swept_us < SWEEP_US)
        return;
    st->swept_us = now;
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&st->sessions, &pos, &key, &v)) {
        close_stale(v, now);
        session_end(v);
    }
}

static struct hb_session *session_get(struct hb_state *st, const char *key)
{
    struct hb_session *s = map_get(&st->sessions, str_c(key));
    if (s)
        return s;
    sweep(st);
    s = new (struct hb_session);
    if (!s)
        return NULL;
    s->st = st;
    s->key = mem_strndup(key, strlen(key));
    list_init(&s->queue);
    list_init(&s->turns);
    if (s->key && map_put(&st->sessions, str_c(key), s))
        return s;
    mem_free(s->key);
    mem_free(s);
    return NULL;
}

static void take_out(struct hb_session *s, struct hb_part *p)
{
    struct hb_turn *t = p->turn;
    list_del(&p->node);
    s->queued--;
    if (t && t->waiting == p)
        t->waiting = NULL;
    if (t && p->pinned)
        t->pinned--;
}

static void drop_waiting(struct hb_session *s, struct hb_turn *t)
{
    struct hb_part *p = t->waiting;
    if (p) {
        take_out(s, p);
        part_free(p);
    }
}

/* ---- sending --------------------------------------------------------------------------------------------------------------------- */

enum outcome { SENT, AGAIN, GIVEN_UP, LEFT };

/* One POST. `why` gets the reason of a failure. */
static enum outcome attempt(const struct http_bot *h, struct str body, char *why, size_t why_size)
{
    auto_arena a = arena_new((size_t)ANSWER_MAX * 2);
    unsigned char mac[32];
    char head[40], ts[32], signature[7 + 65] = "sha256=";
    if (!a) {
        snprintf(why, why_size, "out of memory");
        return AGAIN;
    }
    int n = snprintf(ts, sizeof ts, "%lld", (long long)(time_wall_us() / 1000000));
    int m = snprintf(head, sizeof head, "%s.", ts);
    hmac_sha256_2(str_c(h->outbound), str_n(head, (size_t)m), body, mac);
    hex_encode(mac, sizeof mac, signature + 7);
    const struct http_header headers[] = {
        {S("Content-Type"), S("application/json")},
        {S("X-LB-Timestamp"), str_n(ts, (size_t)n)},
        {S("X-LB-Signature"), str_n(signature, 71)},
    };
    int total_ms = h->timeout_s * 1000;
    struct http_call call = {
        .method = "POST",
        .url = str_z(a, str_c(h->url)), /* a reload may release the instance meanwhile */
        .headers = headers,
        .header_count = array_len(headers),
        .body = body,
        .connect_ms = total_ms < CONNECT_MS ? total_ms : CONNECT_MS,
        .total_ms = total_ms,
        .body_max = ANSWER_MAX,
        .flags = HTTP_CALL_TENANT,
    };
    struct http_result res = {0};
    struct error err = {0};
    if (!http_fetch(a, &call, &res, &err)) {
        snprintf(why, why_size, "%.*s", (int)utf8_border(err.msg, strnlen(err.msg, why_size - 1)),
                 err.msg);
        if (err.code == ERR_CANCELED)
            return LEFT;
        return err.code == ERR_INVALID || err.code == ERR_DENIED ? GIVEN_UP : AGAIN;
    }
    if (res.status >= 200 && res.status < 300)
        return SENT;
    snprintf(why, why_size, "status %d", res.status);
    return res.status >= 500 ? AGAIN : GIVEN_UP;
}

/* False when the process stops or the bot goes. */
static bool pause_before(struct hb_state *st, int64_t attempts)
{
    int64_t s = attempts > 5 ? HB_PAUSE_MAX_S : (int64_t)1 << (attempts - 1);
    struct error err = {0};
    struct task_deadline d;
    if (st->stopping || st->gone)
        return false;
    task_deadline_push(&d, s * 1000);
    bool woken = task_cond_wait(&st->stop, &err);
    task_deadline_pop(&d);
    return !woken && err.code == ERR_TIMEOUT;
}

/* All attempts of one part, with the configuration of the moment. LEFT: not decided, the ledger still has it. */
static enum outcome deliver(struct hb_state *st, const struct hb_part *p, int64_t *attempts,
                            char *why, size_t why_size)
{
    *attempts = 0;
    for (;;) {
        const struct http_bot *h = bot_instance(st->bot);
        if (!h)
            return LEFT;
        if (!*h->url) {
            snprintf(why, why_size, "no callback_url is configured");
            return GIVEN_UP;
        }
        int64_t most = h->retries;
        char origin[sizeof h->origin];
        memcpy(origin, h->origin, sizeof origin);
        ++*attempts;
        enum outcome o = attempt(h, buf_view(&p->body), why, why_size);
        if (o == AGAIN && *attempts > most)
            o = GIVEN_UP;
        if (o == GIVEN_UP)
            bot_log(st->bot, LOG_ERROR, NULL, NULL,
                    "A callback to %s was given up after %lld attempts: %s", origin,
                    (long long)*attempts, why);
        if (o != AGAIN)
            return o;
        if (!pause_before(st, *attempts))
            return LEFT;
    }
}

/* Fixes number and content of a part that is about to be sent. */
static bool begin(struct hb_session *s, struct hb_part *p)
{
    struct hb_turn *t = p->turn;
    take_out(s, p);
    if (t)
        t->begun++;
    if (p->body.n > 0)
        return true;
    auto_json body =
        body_json(s->key + 1, p->reply_to, t ? t->begun : 1, p->final, p->stream, p->chain);
    return json_put(&p->body, body);
}

/* Waits while the head of the queue is a first snapshot that may become the whole answer. False: cancelled. */
static bool hold_first(struct hb_session *s)
{
    for (;;) {
        struct hb_part *p =
            list_empty(&s->queue) ? NULL : container_of(s->queue.next, struct hb_part, node);
        struct hb_turn *t = p ? p->turn : NULL;
        if (!t || t->waiting != p || t->begun > 0 || s->st->stopping)
            return true;
        int64_t left = t->first_us / 1000 + HB_FIRST_HOLD_MS - time_mono_us() / 1000;
        if (left <= 0)
            return true;
        struct error err = {0};
        struct task_deadline d;
        task_deadline_push(&d, left);
        bool ok = task_cond_wait(&s->cond, &err);
        task_deadline_pop(&d);
        if (!ok && err.code != ERR_TIMEOUT)
            return false;
    }
}

static void work(void *arg)
{
    struct hb_session *s = arg;
    struct hb_state *st = s->st;
    char why[300];
    while (!list_empty(&s->queue)) {
        if (!hold_first(s))
            break;
        if (list_empty(&s->queue))
            continue;
        struct hb_part *p = container_of(s->queue.next, struct hb_part, node);
        int64_t attempts = 0;
        snprintf(why, sizeof why, "out of memory");
        enum outcome o = begin(s, p) ? deliver(st, p, &attempts, why, sizeof why) : GIVEN_UP;
        if (o != LEFT)
            bot_delivered(st->bot, p->delivery, o == SENT, attempts, o == SENT ? NULL : why);
        part_free(p);
        task_cond_notify_all(&st->room);
        if (o == LEFT)
            break;
    }
    s->working = false;
    st->working--;
    task_cond_notify_all(&st->idle);
    task_cond_notify_all(&st->room);
    session_end(s);
}

static void kick(struct hb_session *s);

static void kick_again(void *arg)
{
    struct hb_session *s = arg;
    s->retrying = false;
    kick(s);
}

static void kick(struct hb_session *s)
{
    struct hb_state *st = s->st;
    struct error err = {0};
    task_cond_notify_all(&s->cond);
    if (s->working || s->retrying || list_empty(&s->queue) || st->stopping || st->gone)
        return;
    if (task_spawn(st->group, "callbacks", work, s, &err)) {
        s->working = true;
        st->working++;
    } else if (err.code != ERR_CANCELED) {
        s->retrying = true; /* what was promised waits for a fiber */
        task_timer_start(&s->again, AGAIN_MS, kick_again, s);
    }
}

static void put(struct hb_session *s, struct hb_part *p)
{
    list_push(&s->queue, &p->node);
    s->queued++;
    kick(s);
}

/* ---- replies ----------------------------------------------------------------------------------------------------------------------- */

json_t *hb_out_payload(struct hb_state *st, const char *key, const struct reply *r)
{
    struct hb_session *s = st ? session_get(st, key) : NULL;
    struct hb_turn *t = s ? turn_get(s, r->turn_id) : NULL;
    if (st && !t)
        return NULL;
    if (t) {
        drop_waiting(s, t);
        part_free(t->final); /* of a commit that failed */
        t->final = NULL;
    }
    int64_t sequence = t ? t->begun + (int64_t)t->pinned + 1 : 1;
    auto_json body = body_json(key + 1, r->message_id, sequence, true, r->is_chunk, r->chain);
    json_t *payload = json_pack("{s:b,s:s,s:O}", "group", (int)(key[0] == 'g'), "session_id",
                                key + 1, "body", body);
    struct hb_part *p = payload && t ? part_new(r->message_id, r->delivery_id, NULL) : NULL;
    if (!t || !payload)
        return payload;
    if (!p || !json_put(&p->body, body)) {
        part_free(p);
        json_decref(payload);
        return NULL;
    }
    p->final = p->pinned = true;
    t->final = p;
    return payload;
}

void hb_out_forget(struct hb_state *st, const char *key, const struct reply *r)
{
    struct hb_session *s = hb_is_final(r) ? map_get(&st->sessions, str_c(key)) : NULL;
    struct hb_turn *t = s ? turn_find(s, r->turn_id) : NULL;
    if (!t)
        return;
    drop_waiting(s, t);
    turn_close(t);
    session_end(s);
}

/* Whoever brings more than an endpoint takes waits here: the answers stay with their runs, and admission refuses new messages before
 * memory ends. */
static bool wait_for_room(struct hb_state *st, const char *key, struct error *err)
{
    for (;;) {
        const struct hb_session *s = map_get(&st->sessions, str_c(key));
        if (st->gone)
            return err_set(err, ERR_UNAVAILABLE, "the bot no longer exists");
        bool full = (s && s->queued >= HB_QUEUE_MAX) ||
                    ((!s || !s->working) && st->working >= HB_SESSIONS_MAX);
        if (!full || st->stopping)
            return true;
        if (!task_cond_wait(&st->room, err))
            return false;
    }
}

/* Whether `r` goes on where the waiting snapshot of its turn stands. */
static bool continues(const struct hb_turn *t, const struct reply *r)
{
    return t->waiting && r->is_chunk &&
           strcmp(t->waiting->response, r->response_id ? r->response_id : "") == 0;
}

static bool add_part(struct hb_session *s, struct hb_turn *t, const struct reply *r, bool pinned,
                     bool final)
{
    struct hb_part *p =
        part_new(r->message_id, final ? r->delivery_id : NULL, r->is_chunk ? r->response_id : NULL);
    if (!p)
        return false;
    p->turn = t;
    p->chain = json_incref(r->chain);
    p->stream = r->is_chunk;
    p->final = final;
    p->pinned = pinned;
    t->parts++;
    if (pinned)
        t->pinned++;
    else
        t->waiting = p;
    put(s, p);
    return true;
}

static bool add_middle(struct hb_session *s, struct hb_turn *t, const struct reply *r)
{
    bool pinned = !r->is_chunk || r->is_final; /* nothing later holds it */
    struct hb_part *w = t->waiting;
    if (continues(t, r)) {
        json_decref(w->chain);
        w->chain = json_incref(r->chain);
        if (!pinned)
            return true;
    }
    if (w) { /* the last snapshot of its response */
        bool same = continues(t, r);
        w->pinned = true;
        t->pinned++;
        t->waiting = NULL;
        if (same) {
            kick(s);
            return true;
        }
    }
    return add_part(s, t, r, pinned, false);
}

static bool add_final(struct hb_session *s, struct hb_turn *t, const struct reply *r)
{
    struct hb_part *p = t->final;
    drop_waiting(s, t);
    if (!p || strcmp(p->delivery, r->delivery_id ? r->delivery_id : "") != 0) {
        if (!add_part(s, t, r, true, true))
            return false;
    } else {
        t->final = NULL;
        p->turn = t;
        t->parts++;
        t->pinned++;
        put(s, p);
    }
    turn_close(t);
    return true;
}

enum reply_result hb_out_reply(struct hb_state *st, const char *key, const struct reply *r,
                               struct error *err)
{
    bool final = hb_is_final(r), droppable = r->is_chunk && !r->is_final;
    if (!droppable && !wait_for_room(st, key, err))
        return REPLY_FAILED;
    struct hb_session *s = st->gone ? NULL : session_get(st, key);
    struct hb_turn *t = s ? turn_get(s, r->turn_id) : NULL;
    bool ok = t && (final ? add_final(s, t, r) : add_middle(s, t, r));
    if (ok)
        return REPLY_QUEUED;
    err_set(err, st->gone ? ERR_UNAVAILABLE : ERR_NOMEM,
            st->gone ? "the bot no longer exists" : "out of memory");
    return REPLY_FAILED;
}

enum reply_result hb_out_redeliver(struct hb_state *st, const json_t *row, struct error *err)
{
    const json_t *stored = json_object_get(row, "payload");
    auto_json payload = json_is_string(stored) ? json_parse_words(json_sv(stored), err)
                                               : json_incref((json_t *)(uintptr_t)stored);
    const json_t *body = json_object_get(payload, "body");
    const char *session_id = json_z(payload, "session_id");
    if (!body || !session_id) {
        err_set(err, ERR_INVALID, "the stored answer is not readable");
        return REPLY_FAILED;
    }
    char *key = hb_session_key(json_b_or(payload, "group", false), session_id);
    struct hb_session *s = key ? session_get(st, key) : NULL;
    struct hb_part *p =
        s ? part_new(json_z_or(body, "reply_to", ""), json_z_or(row, "id", ""), NULL) : NULL;
    mem_free(key);
    if (!p || !json_put(&p->body, body)) {
        part_free(p);
        err_set(err, ERR_CANCELED, "out of memory"); /* it stays in the ledger */
        return REPLY_QUEUED;
    }
    p->final = true;
    put(s, p);
    return REPLY_QUEUED;
}

bool hb_out_send(struct hb_state *st, bool group, const char *session_id, json_t *chain,
                 struct error *err)
{
    char *key = hb_session_key(group, session_id);
    st->refs++;
    bool ok = key ? wait_for_room(st, key, err) : err_set(err, ERR_NOMEM, "out of memory");
    struct hb_session *s = ok && !st->gone ? session_get(st, key) : NULL;
    struct hb_part *p = s ? part_new("", NULL, NULL) : NULL;
    if (p) {
        p->chain = json_incref(chain);
        p->final = true;
        put(s, p);
    } else if (ok) {
        ok = err_set(err, ERR_NOMEM, "out of memory");
    }
    mem_free(key);
    hb_state_unref(st);
    return ok;
}

/* ---- end --------------------------------------------------------------------------------------------------------------------------- */

void hb_out_drain(struct hb_state *st, int64_t grace_ms)
{
    struct error err = {0};
    struct task_deadline d;
    st->stopping = true;
    task_cond_notify_all(&st->stop);
    task_cond_notify_all(&st->room);
    task_deadline_push(&d, grace_ms);
    while (st->working > 0 && task_cond_wait(&st->idle, &err))
        ;
    task_deadline_pop(&d);
    task_group_cancel(st->group);
    err = (struct error){0};
    task_shield(true);
    task_deadline_push(&d, 2000);
    if (!task_group_wait(st->group, &err))
        log_warn("bot", "bot=%s callbacks did not end: %s", st->bot->uuid, err.msg);
    task_deadline_pop(&d);
    task_shield(false);
}

void hb_out_give_up(struct hb_state *st)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&st->sessions, &pos, &key, &v)) {
        struct hb_session *s = v;
        list_each(it, &s->queue)
        {
            const struct hb_part *p = container_of(it, struct hb_part, node);
            bot_delivered(st->bot, p->delivery, false, 0, "the bot was removed");
        }
    }
}

void hb_out_free(struct hb_state *st)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&st->sessions, &pos, &key, &v))
        session_free(v);
    map_free(&st->sessions);
}
