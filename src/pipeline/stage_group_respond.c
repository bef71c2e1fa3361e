/* GroupRespondRuleCheckStage: whether a group message is meant for the bot. pipeline.md §7.1. */
#include "pipeline/engine.h"

/* Removes up to two At components that name the bot; true if there was one. */
static bool take_at(struct run *r)
{
    const char *self = bot_account_id(r->bot);
    size_t found = 0;
    for (size_t i = 0; *self && found < 2 && i < json_array_size(r->query->chain);) {
        const json_t *c = json_array_get(r->query->chain, i),
                     *target = json_object_get(c, "target");
        bool same = false;
        if (strcmp(json_z_or(c, "type", ""), "At") == 0) {
            char number[24] = "";
            if (json_is_integer(target))
                snprintf(number, sizeof number, "%lld", (long long)json_integer_value(target));
            same =
                json_is_string(target) ? str_eqz(json_sv(target), self) : strcmp(number, self) == 0;
        }
        if (same) {
            json_array_remove(r->query->chain, i);
            found++;
        } else {
            i++;
        }
    }
    return found > 0;
}

static bool by_prefix(struct run *r, const json_t *prefixes)
{
    struct str text = chain_text(r->query->arena, r->query->chain);
    size_t i, k;
    json_t *p, *c;
    json_array_foreach (prefixes, i, p) {
        struct str prefix = json_sv(p);
        if (!prefix.p || !str_starts(text, prefix))
            continue;
        json_array_foreach (r->query->chain, k, c) {
            /* Only the first Plain carries it (spec Q: the reference cuts every one). */
            if (strcmp(json_z_or(c, "type", ""), "Plain") == 0 && json_s(c, "text").n) {
                struct str whole = json_s(c, "text");
                if (str_starts(whole, prefix))
                    json_set(c, "text", json_strn(str_sub(whole, prefix.n, whole.n)));
                return true;
            }
        }
        return true;
    }
    return false;
}

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    if (r->query->event.launcher == LAUNCHER_PERSON || r->query->routed_by_rule)
        return true;
    const json_t *rules = conf_at(r, "trigger.group-respond-rules");
    bool at = take_at(r);
    if (at && json_b_or(rules, "at", true))
        return true;
    if (by_prefix(r, json_object_get(rules, "prefix")))
        return true;
    const json_t *patterns = json_object_get(rules, "regexp");
    if (json_array_size(patterns) > 0) {
        enum regex_answer answer = REGEX_NO;
        const char *why = NULL;
        if (!regex_on_worker(patterns, chain_text(r->query->arena, r->query->chain),
                             REGEX_MATCH_START, &answer, &why, err))
            return false;
        if (answer == REGEX_YES)
            return true;
        if (answer == REGEX_REJECTED)
            out->console_notice =
                z_fmt(r->query->arena, "a respond rule's pattern was rejected: %s", why ? why : "");
    }
    double chance = json_f_or(rules, "random", 0);
    uint32_t dice;
    crypto_random(&dice, sizeof dice);
    if ((double)dice / 4294967296.0 < chance)
        return true;
    out->verdict = STAGE_INTERRUPT;
    return true;
}

const struct stage stage_group_respond = {.name = "GroupRespondRuleCheckStage", .process = process};
