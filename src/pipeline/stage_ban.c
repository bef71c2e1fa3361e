/* BanSessionCheckStage: white and black lists of sessions. pipeline.md §7.2. */
#include "pipeline/engine.h"

static bool listed(const struct query *q, const json_t *list)
{
    const char *type = launcher_name(q->event.launcher);
    size_t i;
    json_t *entry;
    json_array_foreach (list, i, entry) {
        struct str e = json_sv(entry);
        ptrdiff_t at = str_chr(e, '_');
        if (at < 0)
            continue;
        struct str kind = str_sub(e, 0, (size_t)at), id = str_sub(e, (size_t)at + 1, e.n);
        if (str_eqz(kind, type) && (str_eqz(id, "*") || str_eqz(id, q->launcher_id)))
            return true;
        if (str_eqz(kind, "*") && (str_eqz(id, q->launcher_id) || str_eqz(id, q->event.sender_id)))
            return true;
    }
    return false;
}

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    (void)err;
    const char *mode = conf_str(r->pipe->config, "trigger.access-control.mode", "blacklist");
    bool white = strcmp(mode, "whitelist") == 0;
    bool found = listed(r->query, conf_at(r, white ? "trigger.access-control.whitelist"
                                                   : "trigger.access-control.blacklist"));
    if (found != white) {
        out->verdict = STAGE_INTERRUPT;
        out->console_notice = z_fmt(r->query->arena, "session %s is refused by the %s",
                                    query_session_name(r->query), mode);
    }
    return true;
}

const struct stage stage_ban = {.name = "BanSessionCheckStage", .process = process};
