/* Server-sent events (HTML Living Standard, "Interpreting an event stream"), incremental. */
#include "net/net.h"

typedef bool sse_fn(void *arg, struct str event, struct str data);

void sse_init(struct sse *s, size_t max)
{
    *s = (struct sse){.line = BUF(max), .data = BUF(max + 1), .event = BUF(max), .max = max};
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
    buf_free(&s->event);
}

static bool too_large(const struct sse *s, struct error *err)
{
    return err_set(err, ERR_TOO_LARGE, "a server-sent event is larger than %zu bytes", s->max);
}

/* Room for n more bytes of the current event. The line under way counts too: a line that never
 * ends is the usual attack. */
static bool fits(const struct sse *s, size_t n)
{
    size_t held = s->line.n + s->data.n + s->event.n + s->lone.n;
    return held <= s->max && n <= s->max - held;
}

/* Data that lay in the input moves to where it stays. */
static bool keep_lone(struct sse *s)
{
    struct str lone = s->lone;
    s->lone = STR_NONE;
    return !lone.p || buf_str(&s->data, lone);
}

/* `here`: the line lies in the input, which stays until the feed returns. */
static bool add_data(struct sse *s, struct str value, bool here)
{
    bool first = !s->has_data;
    s->has_data = true;
    if (first && here) {
        s->lone = value;
        return true;
    }
    return keep_lone(s) && (first || buf_c(&s->data, '\n')) && buf_str(&s->data, value);
}

static bool field(struct sse *s, struct str line, bool here, struct error *err)
{
    ptrdiff_t colon = str_chr(line, ':');
    struct str name = colon < 0 ? line : str_n(line.p, (size_t)colon);
    struct str value = colon < 0 ? S("") : str_sub(line, (size_t)colon + 1, line.n);
    if (value.n > 0 && value.p[0] == ' ')
        value = str_sub(value, 1, value.n);
    bool ok = true;
    if (str_eq(name, S("data"))) {
        ok = add_data(s, value, here);
    } else if (str_eq(name, S("event"))) {
        buf_clear(&s->event);
        ok = buf_str(&s->event, value);
    }
    /* A comment has an empty name; id and retry are for clients that connect again by
     * themselves. */
    return ok || too_large(s, err);
}

/* Hands out the event if there is one. *more becomes fn's answer. */
static void dispatch(struct sse *s, sse_fn *fn, void *arg, bool *more)
{
    if (s->has_data)
        *more = fn(arg, buf_view(&s->event), s->lone.p ? s->lone : buf_view(&s->data));
    s->has_data = false;
    s->lone = STR_NONE;
    buf_clear(&s->data);
    buf_clear(&s->event);
}

static bool line_end(struct sse *s, struct str line, bool here, sse_fn *fn, void *arg, bool *more,
                     struct error *err)
{
    if (!s->bom_done) {
        s->bom_done = true;
        if (str_starts(line, S("\xef\xbb\xbf")))
            line = str_sub(line, 3, line.n);
    }
    if (line.n > 0)
        return field(s, line, here, err);
    dispatch(s, fn, arg, more);
    return true;
}

static const char *next_cr(const char *p, const char *end)
{
    const char *cr = p < end ? memchr(p, '\r', (size_t)(end - p)) : NULL;
    return cr ? cr : end;
}

/* Where the next line of p .. end ends; `end` itself when it does not. *cr is the next carriage
 * return, looked for once for all lines before it. */
static const char *line_stop(const char *p, const char *end, const char **cr)
{
    if (*cr < p)
        *cr = next_cr(p, end);
    const char *lf = memchr(p, '\n', (size_t)(*cr - p));
    return lf ? lf : *cr;
}

/* The whole line that `part` ends; in the input where it began there. */
static bool take_line(struct sse *s, struct str part, sse_fn *fn, void *arg, bool *more,
                      struct error *err)
{
    bool here = s->line.n == 0;
    if (!here) {
        if (!buf_str(&s->line, part))
            return too_large(s, err);
        part = buf_view(&s->line);
    }
    bool ok = line_end(s, part, here, fn, arg, more, err);
    buf_clear(&s->line);
    return ok;
}

bool sse_feed(struct sse *s, struct str *in, sse_fn *fn, void *arg, struct error *err)
{
    bool more = true, ok = true;
    const char *p = in->p, *end = in->p + in->n, *cr = next_cr(p, end);
    while (ok && more && p < end) {
        if (s->cr) {
            s->cr = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        const char *stop = line_stop(p, end, &cr);
        struct str part = str_n(p, (size_t)(stop - p));
        if (!fits(s, part.n)) {
            ok = too_large(s, err);
        } else if (stop == end) {
            p = end;
            ok = buf_str(&s->line, part) || too_large(s, err);
        } else {
            s->cr = *stop == '\r';
            p = stop + 1;
            ok = take_line(s, part, fn, arg, &more, err);
        }
    }
    *in = str_n(p, (size_t)(end - p));
    return (keep_lone(s) || too_large(s, err)) && ok;
}

bool sse_end(struct sse *s, sse_fn *fn, void *arg, struct error *err)
{
    bool more = true;
    if (s->line.n > 0 && !take_line(s, S(""), fn, arg, &more, err))
        return false;
    dispatch(s, fn, arg, &more);
    return true;
}
