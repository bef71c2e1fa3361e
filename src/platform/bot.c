/* One bot: what adapters and the layers above ask of it. platforms.md §1.2, §1.3. */
#include "platform/platform_private.h"

#include <stdio.h>

const char *bot_uuid(const struct bot *b)
{
    return b->uuid;
}

const char *bot_name(const struct bot *b)
{
    return json_z_or(b->row, "name", "");
}

const struct scope *bot_scope(const struct bot *b)
{
    return &b->scope;
}

const struct adapter *bot_adapter(const struct bot *b)
{
    return b->adapter;
}

void *bot_instance(const struct bot *b)
{
    return b->box ? b->box->instance : NULL;
}

const json_t *bot_row(const struct bot *b)
{
    return b->row;
}

const json_t *bot_config(const struct bot *b)
{
    return b->box ? b->box->config : json_object_get(b->row, "adapter_config");
}

bool bot_enabled(const struct bot *b)
{
    return b->enabled && !b->removed;
}

const char *bot_account_id(const struct bot *b)
{
    if (b->adapter->account_id)
        return b->adapter->account_id;
    const char *id = b->adapter->account && b->box ? b->adapter->account(b->box->instance) : NULL;
    return id ? id : "";
}

const char *bot_default_pipeline(const struct bot *b)
{
    return json_z_or(b->row, "use_pipeline_uuid", "");
}

const json_t *bot_rules(const struct bot *b)
{
    return json_object_get(b->row, "pipeline_routing_rules");
}

const struct store *bot_store(const struct bot *b)
{
    return b->platform->opts.store;
}

struct platform *bot_platform(const struct bot *b)
{
    return b->platform;
}

void bot_state(struct bot *b, const char *state)
{
    b->state = state;
    b->since_us = time_wall_us();
}

json_t *bot_health(const struct bot *b)
{
    char since[TIME_ISO_SIZE];
    return json_pack("{s:s,s:s,s:s?}", "state", b->state ? b->state : "stopped", "since",
                     time_iso(b->since_us, since), "last_error",
                     b->last_error[0] ? b->last_error : NULL);
}

/* ---- calls into the adapter ------------------------------------------------------------------------------------------------- */

struct bot_box *bot_enter(struct bot *b)
{
    if (b->box)
        b->box->users++;
    return b->box;
}

void box_free(struct bot_box *box)
{
    if (box->instance)
        box->adapter->close(box->instance);
    task_group_free(box->group);
    json_decref(box->config);
    mem_free(box);
}

void bot_leave(struct bot_box *box)
{
    if (--box->users == 0 && box->retired)
        box_free(box);
}

bool bot_accept(struct bot *b, struct chat_event *event, const struct accept_opts *opts,
                struct accepted *out, struct error *err)
{
    const struct platform_host *host = &b->platform->opts.host;
    *out = (struct accepted){0};
    if (b->platform->stopping)
        return err_tag(err, ERR_UNAVAILABLE, 503, "overloaded", "the service is stopping");
    if (b->removed || !b->enabled)
        return err_set(err, ERR_UNAVAILABLE, "the bot is not running");
    b->used_us = time_mono_us();
    return host->accept(host->arg, b, event, opts, out, err);
}

enum reply_result bot_reply(struct bot *b, const struct reply *r, struct error *err)
{
    struct bot_box *box = bot_enter(b);
    if (!box) {
        err_set(err, ERR_UNAVAILABLE, "the bot no longer exists");
        return REPLY_FAILED;
    }
    enum reply_result res = REPLY_FAILED;
    if (box->adapter->reply)
        res = box->adapter->reply(box->instance, r, err);
    else
        err_set(err, ERR_UNAVAILABLE, "%s cannot send", box->adapter->name);
    if (res == REPLY_FAILED && err->code != ERR_CANCELED)
        bot_log(b, LOG_ERROR, NULL, r->launcher_id, "The answer was not sent: %s", err->msg);
    bot_leave(box);
    return res;
}

bool bot_card(struct bot *b, const struct reply *r, struct error *err)
{
    struct bot_box *box = bot_enter(b);
    if (!box)
        return true; /* the reply that follows says so */
    bool ok = !box->adapter->card || box->adapter->card(box->instance, r, err);
    bot_leave(box);
    return ok;
}

void bot_activity(struct bot *b, const struct reply *r, const json_t *call)
{
    struct bot_box *box = bot_enter(b);
    if (!box)
        return;
    if (box->adapter->activity)
        box->adapter->activity(box->instance, r, call);
    bot_leave(box);
}

bool bot_streams(const struct bot *b)
{
    return b->adapter->streaming;
}

bool bot_send(struct bot *b, const char *target_type, const char *target_id, json_t *chain,
              struct error *err)
{
    struct bot_box *box = b->enabled ? bot_enter(b) : NULL;
    if (!box)
        return err_set(err, ERR_UNAVAILABLE, "the bot is not running");
    bool ok =
        box->adapter->send
            ? box->adapter->send(box->instance, target_type, target_id, chain, err)
            : err_set(err, ERR_INVALID, "%s cannot send messages on its own", box->adapter->name);
    if (!ok && err->code != ERR_CANCELED)
        bot_log(b, LOG_ERROR, NULL, NULL, "A message was not sent: %s", err->msg);
    bot_leave(box);
    return ok;
}

void bot_delivered(struct bot *b, const char *delivery_id, bool ok, int64_t attempts,
                   const char *error)
{
    struct error err = {0};
    if (!delivery_id || !*delivery_id)
        return;
    if (!ledger_delivered(b->platform->opts.store, &b->scope, delivery_id, ok ? "sent" : "failed",
                          attempts, error, &err))
        log_error("bot", "the outcome of delivery %s was not stored: %s", delivery_id, err.msg);
}

bool bot_reset_session(struct bot *b, enum launcher launcher, const char *launcher_id,
                       bool *removed, struct error *err)
{
    const struct platform_host *host = &b->platform->opts.host;
    *removed = false;
    return host->reset_session(host->arg, b, launcher, launcher_id, removed, err);
}

void bot_feedback(struct bot *b, const json_t *feedback_event)
{
    const struct platform_host *host = &b->platform->opts.host;
    host->feedback(host->arg, b, feedback_event);
}
