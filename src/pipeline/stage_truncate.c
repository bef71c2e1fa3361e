/* ConversationMessageTruncator: the last rounds of the history. pipeline.md §7.5. */
#include "pipeline/engine.h"

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    (void)out;
    json_t *m = r->query->messages;
    int64_t rounds = conf_int(r->pipe->config, "ai.local-agent.max-round", 10), seen = 0;
    size_t keep = json_array_size(m);
    while (keep > 0 && seen < rounds) {
        keep--;
        if (strcmp(json_z_or(json_array_get(m, keep), "role", ""), "user") == 0)
            seen++;
    }
    if (keep == 0)
        return true;
    json_t *cut = json_array();
    for (size_t i = keep; i < json_array_size(m); i++)
        json_array_append(cut, json_array_get(m, i));
    r->query->messages = arena_json(r->query->arena, cut);
    return r->query->messages || err_set(err, ERR_NOMEM, "out of memory");
}

const struct stage stage_truncate = {.name = "ConversationMessageTruncator", .process = process};
