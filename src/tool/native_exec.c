/* The tool exec. box.md §10.3. */
#include "tool/tool_private.h"

enum { SHOWN_BYTES = 51200, LOGGED_CHARS = 400 };

#define SKILLS_DIR "/workspace/.skills/"

static bool is_skill_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* A command may work in the package of one activated skill; none can be activated yet, so none may be named. */
static bool no_skill(struct str text, struct error *err)
{
    ptrdiff_t at = str_find(text, S(SKILLS_DIR));
    if (at < 0)
        return true;
    struct str name = str_sub(text, (size_t)at + sizeof SKILLS_DIR - 1, 100);
    size_t n = 0;
    while (n < name.n && is_skill_char(name.p[n]))
        n++;
    return n == 0 || err_set(err, ERR_INVALID,
                             "Skill \"" STR_FMT "\" must be activated before exec can run in its "
                             "package.",
                             STR_ARG(str_sub(name, 0, n)));
}

/* What the model may influence, and nothing else. NULL with err. */
static json_t *payload_of(const json_t *args, struct error *err)
{
    const json_t *command = json_object_get(args, "command"),
                 *dir = json_object_get(args, "workdir");
    if (!json_is_string(command)) {
        err_set(err, ERR_INVALID, "command must be a string");
        return NULL;
    }
    if (dir && !json_is_null(dir) && !json_is_string(dir)) {
        err_set(err, ERR_INVALID, "workdir must be a string");
        return NULL;
    }
    struct str where = str_trim(json_sv(dir));
    if (!no_skill(json_sv(command), err) || !no_skill(where, err))
        return NULL;
    json_t *p = json_pack("{s:O,s:o}", "cmd", command, "workdir",
                          json_strn(where.n ? where : S("/workspace")));
    static const char *const more[] = {"timeout_sec", "env"};
    for (size_t i = 0; i < array_len(more); i++) {
        json_t *v = json_object_get(args, more[i]);
        if (v && !json_is_null(v))
            json_object_set(p, more[i], v);
    }
    if (!p)
        err_set(err, ERR_NOMEM, "out of memory");
    return p;
}

static void log_it(const struct query *q, const json_t *payload)
{
    struct str cmd = utf8_cut(json_s(payload, "cmd"), LOGGED_CHARS);
    auto_buf names = BUF(1024);
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(payload, "env"), name, value)
        buf_fmt(&names, "%s%s", names.n ? "," : "", name);
    log_info("tool", "tool invoked tool=exec query=%lld env=[" STR_FMT "] command=\"" STR_FMT "\"",
             (long long)q->id, STR_ARG(buf_view(&names)), STR_ARG(cmd));
}

static struct str shown(struct str s, bool *cut)
{
    if (s.n <= SHOWN_BYTES)
        return s;
    *cut = true;
    return str_n(s.p, utf8_border(s.p, SHOWN_BYTES));
}

/* Bounds both streams; their flags stay true where they were. */
static bool bound(json_t *result, const char *stream, const char *flag)
{
    bool cut = json_b_or(result, flag, false);
    struct str s = shown(json_s(result, stream), &cut);
    return json_set(result, stream, json_strn(s)) && json_set(result, flag, json_boolean(cut)) &&
           cut;
}

static json_t *finish(json_t *result_stolen)
{
    auto_json r = result_stolen;
    bool cut_out = bound(r, "stdout", "stdout_truncated"),
         cut_err = bound(r, "stderr", "stderr_truncated"), cut = false;
    struct str out = json_s(r, "stdout"), err = json_s(r, "stderr");
    auto_buf both = BUF(SHOWN_BYTES * 3);
    bool two = out.n && err.n;
    buf_z(&both, two ? "stdout:\n" : "");
    buf_str(&both, out);
    buf_z(&both, two ? "\n\nstderr:\n" : "");
    buf_str(&both, err);
    struct str preview = shown(buf_view(&both), &cut);
    bool ok = json_set(r, "preview", json_strn(preview)) &&
              json_set(r, "truncated", json_boolean(cut_out || cut_err || cut)) &&
              (!cut || json_set(r, "truncated_by", json_string("bytes")));
    return ok ? steal(r) : NULL;
}

json_t *native_exec(struct tools *t, const struct tool_call *c, struct error *err)
{
    const struct box_service *box = t->opts.box;
    auto_json payload = payload_of(c->arguments, err);
    if (!payload)
        return NULL;
    log_it(c->query, payload);
    json_t *result = box->exec(box->self, c->query, payload, NULL, err);
    json_t *shown_result = result ? finish(result) : NULL;
    if (result && !shown_result)
        err_set(err, ERR_NOMEM, "out of memory");
    return shown_result;
}
