/* SendResponseBackStage: delay, mention, hand-over to the adapter. pipeline.md §7.10. */
#include "pipeline/engine.h"

enum { DELAY_MAX_S = 3600 };

static bool delay(struct run *r, struct error *err)
{
    double lo = r->pipe->delay_min, hi = r->pipe->delay_max;
    if (hi < lo)
        hi = lo;
    if (hi <= 0)
        return true;
    uint32_t dice;
    crypto_random(&dice, sizeof dice);
    hi = hi > DELAY_MAX_S ? DELAY_MAX_S : hi;
    lo = lo > hi ? hi : lo;
    double s = (lo > 0 ? lo : 0) + (hi - (lo > 0 ? lo : 0)) * ((double)dice / 4294967296.0);
    return task_sleep_ms((int64_t)(s * 1000), err);
}

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    (void)out;
    if (!r->out_chain)
        return true; /* a pipeline without the stage that makes it */
    if (!delay(r, err))
        return false;
    const struct query *q = r->query;
    if (r->pipe->at_sender && q->event.launcher == LAUNCHER_GROUP &&
        json_array_insert_new(r->out_chain, 0, comp_at(q->event.sender_id, q->event.sender_name)) !=
            0)
        return err_set(err, ERR_NOMEM, "out of memory");
    return turn_reply(r, r->pipe->quote_origin, err);
}

const struct stage stage_send = {.name = "SendResponseBackStage", .process = process};
