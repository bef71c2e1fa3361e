/* exec: one command in a session, and the text of what it wrote (box.md §5.4, §5.5). */
#include "box/runtime.h"

#include <stdio.h>

enum { TEXT_MAX = 32 << 20 };

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
}

static struct str strip(struct str s)
{
    while (s.n && is_blank((unsigned char)s.p[0]))
        s = str_sub(s, 1, s.n - 1);
    while (s.n && is_blank((unsigned char)s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Bytes as the wire has them: UTF-8 with replacement, stripped, with a note if it was clipped. */
static struct str text_of(struct arena *a, const struct box_capture *c)
{
    struct str text = strip(utf8_clean(a, buf_view(&c->head)));
    if (c->discarded == 0)
        return text;
    return str_fmt(a, STR_FMT "\n... [raw output clipped at %d bytes, %llu bytes discarded]",
                   STR_ARG(text), BOX_CAPTURE_MAX, (unsigned long long)c->discarded);
}

/* Members beyond the contract: the end of what was clipped; the exact bytes, when they were asked for. */
static bool add_more(struct arena *a, json_t *out, const char *stream, const struct box_capture *c,
                     bool exact)
{
    bool ok = true;
    if (c->discarded > 0) {
        struct str tail = buf_view(&c->tail);
        if (tail.n > BOX_TAIL_MAX)
            tail = str_sub(tail, tail.n - BOX_TAIL_MAX, BOX_TAIL_MAX);
        ok = json_set(out, z_fmt(a, "%s_tail", stream), json_strn(utf8_clean(a, tail)));
    }
    if (ok && exact) {
        struct str coded = base64_encode(a, buf_view(&c->head));
        ok = json_set(out, z_fmt(a, "%s_base64", stream), json_strn(coded.p ? coded : S("")));
    }
    return ok;
}

static json_t *result_of(const struct session *s, const struct spec *spec,
                         const struct box_exec_result *r, int64_t duration_ms, struct error *err)
{
    auto_arena a = arena_new(TEXT_MAX);
    struct str out = a ? text_of(a, &r->out) : STR_NONE;
    struct str errors = a ? text_of(a, &r->err) : STR_NONE;
    if (a && r->timed_out && errors.n == 0)
        errors = str_fmt(a, "Command timed out after %lld seconds.", (long long)spec->timeout_sec);
    json_t *data =
        a && !arena_failed(a)
            ? json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:I}", "session_id", s->logical, "backend_name",
                        s->engine->b->name, "status", r->timed_out ? "timed_out" : "completed",
                        "exit_code", r->timed_out ? json_null() : json_integer(r->exit_code),
                        "stdout", json_strn(out), "stderr", json_strn(errors), "duration_ms",
                        (json_int_t)duration_ms)
            : NULL;
    if (!data || !add_more(a, data, "stdout", &r->out, spec->exact) ||
        !add_more(a, data, "stderr", &r->err, spec->exact)) {
        json_decref(data);
        err_set(err, ERR_NOMEM, "out of memory for the output of a command");
        return NULL;
    }
    return data;
}

/* The session's turn is held. */
static bool run(struct session *s, const struct spec *spec, struct box_exec_result *r,
                struct error *err)
{
    struct box_exec_spec b = {.cmd = spec->cmd,
                              .workdir = spec->workdir,
                              .env = spec->env,
                              .timeout_ms = spec->timeout_sec * 1000,
                              .capture_max = BOX_CAPTURE_MAX};
    if (s->engine->b->exec(s->handle, &b, r, err))
        return true;
    if (!err->tag)
        err->tag = "BoxError";
    return false;
}

static json_t *exec_in(struct act *act, struct session *s, const struct spec *spec,
                       struct error *err)
{
    struct runtime *rt = act->rt;
    struct box_exec_result r = {0};
    json_t *data = NULL;
    if (!box_session_begin(act, s, err))
        return NULL;
    int64_t from = time_mono_us();
    s->active++;
    bool ok = run(s, spec, &r, err);
    s->active--;
    box_session_touch(rt, s);
    box_session_end(act, s);
    int64_t took = (time_mono_us() - from) / 1000;
    if (ok && r.timed_out) {
        box_session_close(rt, s);
        ok = box_session_wait_closed(s, err);
    }
    if (ok)
        data = result_of(s, spec, &r, took, err);
    box_exec_result_free(&r);
    return data;
}

json_t *box_session_exec(struct act *act, const struct spec *spec, struct error *err)
{
    struct session *s = box_session_acquire(act, spec, err);
    if (!s)
        return NULL;
    json_t *data = exec_in(act, s, spec, err);
    box_session_release(act->rt, s);
    return data;
}
