/* HTTP bot: idempotency keys and /sync calls that wait. platforms.md §2.19. */
#include "platform/http_bot.h"

enum { PEER_CHECK_MS = 500 };

/* ---- keys ---------------------------------------------------------------------------------------------------------------- */

static void key_drop(struct hb_state *st, struct hb_key *k)
{
    map_del(&st->keys, str_c(k->hex));
    list_del(&k->node);
    mem_free(k);
}

/* In memory for speed and for order (a known key is refused before the message is read); the ledger knows the keys of accepted messages
 * over a restart. */
bool hb_key_take(struct hb_state *st, const char *hex, struct error *err)
{
    int64_t now = time_mono_us();
    while (!list_empty(&st->key_order)) {
        struct hb_key *oldest = container_of(st->key_order.next, struct hb_key, node);
        if (st->keys.n < HB_KEYS_MAX && now - oldest->at_us < (int64_t)HB_KEY_TTL_MS * 1000)
            break;
        key_drop(st, oldest);
    }
    if (map_get(&st->keys, str_c(hex)))
        return err_set(err, ERR_CONFLICT, "duplicate idempotency key");
    struct hb_key *k = new (struct hb_key);
    if (!k || !map_put(&st->keys, str_c(hex), k)) {
        mem_free(k);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    memcpy(k->hex, hex, sizeof k->hex);
    k->at_us = now;
    list_push(&st->key_order, &k->node);
    return true;
}

void hb_key_give_back(struct hb_state *st, const char *hex)
{
    struct hb_key *k = map_get(&st->keys, str_c(hex));
    if (k)
        key_drop(st, k);
}

void hb_keys_free(struct hb_state *st)
{
    while (!list_empty(&st->key_order))
        key_drop(st, container_of(st->key_order.next, struct hb_key, node));
    map_free(&st->keys);
}

/* ---- waiting calls ---------------------------------------------------------------------------------------------------------- */

/* Its message may have been merged behind earlier ones: each left its Source in the chain. */
static bool answers(const struct reply *r, const char *id)
{
    if (r->message_id && strcmp(r->message_id, id) == 0)
        return true;
    size_t i;
    json_t *c;
    json_array_foreach (r->event ? r->event->chain : NULL, i, c) {
        if (strcmp(json_z_or(c, "type", ""), "Source") == 0 &&
            strcmp(json_z_or(c, "id", ""), id) == 0)
            return true;
    }
    return false;
}

bool hb_sync_reply(struct hb_state *st, const char *key, const struct reply *r)
{
    struct hb_sync *s = st->syncs.n ? map_get(&st->syncs, str_c(key)) : NULL;
    if (!s || s->done || !answers(r, s->id))
        return false;
    size_t n = json_array_size(s->parts);
    json_t *last = n ? json_array_get(s->parts, n - 1) : NULL;
    const char *response = json_z(last, "response");
    /* Snapshots are cumulative: only the last one of a response counts. */
    if (r->is_chunk && r->response_id && response && strcmp(response, r->response_id) == 0 &&
        !json_b_or(last, "whole", false))
        json_array_remove(s->parts, n - 1);
    json_t *part =
        json_pack("{s:O,s:s*,s:b}", "chain", r->chain, "response",
                  r->is_chunk ? r->response_id : NULL, "whole", (int)(!r->is_chunk || r->is_final));
    if (part)
        json_array_append_new(s->parts, part);
    if (hb_is_final(r)) {
        s->done = true;
        task_cond_notify_all(&s->cond);
    }
    return true;
}

bool hb_sync_wait(struct hb_state *st, struct hb_sync *s, struct http_request *r, int64_t ms,
                  struct error *err)
{
    int64_t end = time_mono_us() + ms * 1000;
    while (!s->done) {
        int64_t left = (end - time_mono_us()) / 1000;
        if (st->gone)
            return err_set(err, ERR_UNAVAILABLE, "the bot no longer exists");
        if (http_peer_gone(r))
            return err_set(err, ERR_UNAVAILABLE,
                           "the client closed its side before the answer came");
        if (left <= 0)
            return true;
        struct task_deadline d;
        task_deadline_push(&d, left < PEER_CHECK_MS ? left : PEER_CHECK_MS);
        bool ok = task_cond_wait(&s->cond, err);
        task_deadline_pop(&d);
        if (!ok && err->code != ERR_TIMEOUT)
            return s->done; /* the process stops: what has come is no answer */
    }
    return true;
}

json_t *hb_sync_message(const struct hb_sync *s)
{
    json_t *out = json_array();
    size_t i;
    json_t *part;
    json_array_foreach (s->parts, i, part) {
        json_array_extend(out, json_object_get(part, "chain"));
    }
    return out;
}
