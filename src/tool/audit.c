/* What tools do in the sandbox, durably: who, where, what, with which decision and end. Values of the environment and contents
 * of files never get here. box.md §13.2. */
#include "tool/tool_private.h"

enum { DETAIL_CHARS = 4000, NAMES_CHARS = 1000 };

static void put_env_names(struct buf *b, const json_t *arguments)
{
    const char *name;
    json_t *value;
    bool first = true;
    size_t start = b->n;
    json_object_foreach (json_object_get(arguments, "env"), name, value) {
        if (b->n - start > NAMES_CHARS)
            break;
        buf_fmt(b, "%s%s", first ? "\nenv: " : ", ", name);
        first = false;
    }
}

/* Bounded text and the digest of the whole. */
static void describe(const struct audit *a, const json_t *arguments, json_t *row)
{
    char digest[65];
    auto_buf b = BUF(DETAIL_CHARS * 4 + NAMES_CHARS * 4);
    struct str whole = json_s(arguments, "command");
    if (json_is_string(json_object_get(arguments, "command"))) {
        buf_str(&b, utf8_cut(whole, DETAIL_CHARS));
        put_env_names(&b, arguments);
    } else {
        for (int t = 0; t < BOX_FILE_TOOLS; t++)
            if (strcmp(a->tool->name, box_file_tool_name((enum box_file_tool)t)) == 0)
                buf_str(&b, box_file_summary(a->query->arena, (enum box_file_tool)t, arguments));
        whole = buf_view(&b);
    }
    sha256_hex(whole.p ? whole : S(""), digest);
    json_set(row, "detail", json_strn(buf_view(&b)));
    json_set(row, "detail_sha256", json_string(digest));
}

static json_t *row_of(const struct audit *a, const json_t *arguments, const char *refused)
{
    struct query *q = a->query;
    char iso[TIME_ISO_SIZE], number[24];
    snprintf(number, sizeof number, "%lld", (long long)q->id);
    json_t *row = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s*,s:s*}", "id", a->id, "timestamp",
        time_iso(time_wall_us(), iso), "tool_name", a->tool->name, "tool_source",
        a->tool->source->name, "decision", refused ? "refused" : "allowed", "status",
        refused ? "refused" : "running", "bot_id", q->bot_uuid ? q->bot_uuid : "", "pipeline_id",
        q->pipeline_uuid ? q->pipeline_uuid : "", "session_id", query_session_name(q), "user_id",
        q->event.sender_id ? q->event.sender_id : "", "query_id", number, "message_id",
        q->monitor_id, "error_message", refused);
    if (row)
        describe(a, arguments, row);
    return row;
}

bool audit_begin(struct audit *a, const json_t *arguments, const char *refused, struct error *err)
{
    uuid4(a->id);
    a->started_us = time_mono_us();
    if (!a->tools->opts.store)
        return true;
    auto_json row = row_of(a, arguments, refused);
    return row ? audit_put(a->tools->opts.store, &a->query->scope, row, err)
               : err_set(err, ERR_NOMEM, "out of memory");
}

static size_t text_of(const json_t *object, const char *const *keys)
{
    size_t n = 0;
    for (; *keys; keys++)
        n += json_s(object, *keys).n;
    return n;
}

void audit_end(struct audit *a, const json_t *arguments, const json_t *result,
               const struct error *err)
{
    static const char *const in[] = {"content", "new_string", NULL}, *const out[] = {
                                                                         "stdout", "stderr",
                                                                         "content", NULL};
    if (!a->tools->opts.store)
        return;
    const json_t *code = json_object_get(result, "exit_code"),
                 *said = json_object_get(result, "error");
    const char *status = result
                             ? json_is_false(json_object_get(result, "ok")) ? "failed" : "success"
                         : err->code == ERR_CANCELED ? "canceled"
                                                     : "error";
    const char *error = result ? json_string_value(said) : err->msg;
    json_t *patch =
        json_pack("{s:s,s:I,s:I,s:o*}", "status", status, "duration",
                  (json_int_t)((time_mono_us() - a->started_us) / 1000), "bytes",
                  (json_int_t)(text_of(arguments, in) + text_of(result, out)), "error_message",
                  error && *error ? json_strn(utf8_cut(str_c(error), DETAIL_CHARS)) : NULL);
    if (json_is_integer(code))
        json_object_set(patch, "exit_code", (json_t *)(uintptr_t)code);
    if (json_z(result, "session_id"))
        json_set(patch, "box_session_id", json_string(json_z(result, "session_id")));
    audit_finish(a->tools->opts.store, &a->query->scope, a->id, patch);
}
