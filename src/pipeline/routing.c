/* Which pipeline takes a message. pipeline.md §4.2. */
#include "pipeline/engine.h"

static bool regex_hit(const json_t *value, struct str subject)
{
    auto_json list = json_pack("[O]", value);
    enum regex_answer answer = REGEX_NO;
    const char *why = NULL;
    struct error err = {0};
    return list && regex_on_worker(list, subject, REGEX_SEARCH, &answer, &why, &err) &&
           answer == REGEX_YES;
}

static bool compare(const char *op, struct str subject, const json_t *rule)
{
    const json_t *v = json_object_get(rule, "value");
    char number[24] = "";
    if (json_is_integer(v))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    struct str value = json_is_string(v) ? json_sv(v) : str_c(number);
    if (strcmp(op, "eq") == 0)
        return str_eq(subject, value);
    if (strcmp(op, "neq") == 0)
        return !str_eq(subject, value);
    if (strcmp(op, "contains") == 0)
        return str_find(subject, value) >= 0;
    if (strcmp(op, "not_contains") == 0)
        return str_find(subject, value) < 0;
    if (strcmp(op, "starts_with") == 0)
        return str_starts(subject, value);
    return strcmp(op, "regex") == 0 && json_is_string(v) && regex_hit(v, subject);
}

static bool rule_fits(const json_t *rule, const struct chat_event *ev, const char *launcher_id,
                      struct arena *a)
{
    const char *type = json_z_or(rule, "type", ""), *op = json_z_or(rule, "operator", "eq");
    if (strcmp(type, "message_has_element") == 0) {
        bool has = chain_has(ev->chain, json_z_or(rule, "value", ""));
        return strcmp(op, "eq") == 0 ? has : strcmp(op, "neq") == 0 && !has;
    }
    if (strcmp(type, "launcher_type") == 0)
        return compare(op, str_c(launcher_name(ev->launcher)), rule);
    if (strcmp(type, "launcher_id") == 0)
        return compare(op, str_c(launcher_id), rule);
    return strcmp(type, "message_content") == 0 && compare(op, chain_text(a, ev->chain), rule);
}

const char *route_pipeline(struct bot *b, const struct chat_event *ev, const char *launcher_id,
                           struct arena *a, bool *routed)
{
    /* A regex waits and the bot may be reloaded meanwhile: the rules are held. */
    auto_json rules = json_incref((json_t *)(uintptr_t)bot_rules(b));
    const char *otherwise = str_z(a, str_c(bot_default_pipeline(b)));
    size_t i;
    json_t *rule;
    json_array_foreach (rules, i, rule) {
        const char *target = json_z(rule, "pipeline_uuid");
        if (!target || !*target || !json_z(rule, "type"))
            continue;
        if (rule_fits(rule, ev, launcher_id, a)) {
            *routed = true;
            return str_z(a, str_c(target));
        }
    }
    *routed = false;
    return otherwise;
}
