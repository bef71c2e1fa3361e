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
    size_t held = s->line.n + s->data.n + s->event.n;
    return held <= s->max && n <= s->max - held;
}

static bool field(struct sse *s, struct str line, struct error *err)
{
    ptrdiff_t colon = str_chr(line, ':');
    struct str name = colon < 0 ? line : str_n(line.p, (size_t)colon);
    struct str value = colon < 0 ? S("") : str_sub(line, (size_t)colon + 1, line.n);
    if (value.n > 0 && value.p[0] == ' ')
        value = str_sub(value, 1, value.n);
    bool ok = true;
    if (str_eq(name, S("data"))) {
        if (s->has_data)
            ok = buf_c(&s->data, '\n');
        ok = ok && buf_str(&s->data, value);
        s->has_data = true;
    } else if (str_eq(name, S("event"))) {
        buf_clear(&s->event);
        ok = buf_str(&s->event, value);
    }
    /* A comment has an empty name; id and retry are for clients that connect again by
     * themselves. */
    return ok ||
           err_set(err, ERR_TOO_LARGE, "a server-sent event is larger than %zu bytes", s->max);
}

/* Hands out the event if there is one. *more becomes fn's answer. */
static void dispatch(struct sse *s, sse_fn *fn, void *arg, bool *more)
{
    if (s->has_data)
        *more = fn(arg, buf_view(&s->event), buf_view(&s->data));
    s->has_data = false;
    buf_clear(&s->data);
    buf_clear(&s->event);
}

static bool line_end(struct sse *s, struct str line, sse_fn *fn, void *arg, bool *more,
                     struct error *err)
{
    if (!s->bom_done) {
        s->bom_done = true;
        if (str_starts(line, S("\xef\xbb\xbf")))
            line = str_sub(line, 3, line.n);
    }
    if (line.n > 0)
        return field(s, line, err);
    dispatch(s, fn, arg, more);
    return true;
}

bool sse_feed(struct sse *s, struct str *in, sse_fn *fn, void *arg, struct error *err)
{
    bool more = true;
    while (more && in->n > 0) {
        if (s->cr) {
            s->cr = false;
            if (in->p[0] == '\n') {
                *in = str_sub(*in, 1, in->n);
                continue;
            }
        }
        size_t n = 0;
        while (n < in->n && in->p[n] != '\n' && in->p[n] != '\r')
            n++;
        struct str part = str_n(in->p, n);
        if (!fits(s, n))
            return too_large(s, err);
        if (n == in->n) {
            *in = str_sub(*in, n, 0);
            return buf_str(&s->line, part) || too_large(s, err);
        }
        s->cr = in->p[n] == '\r';
        *in = str_sub(*in, n + 1, in->n);
        if (s->line.n > 0) {
            if (!buf_str(&s->line, part))
                return too_large(s, err);
            part = buf_view(&s->line);
        }
        bool ok = line_end(s, part, fn, arg, &more, err);
        buf_clear(&s->line);
        if (!ok)
            return false;
    }
    return true;
}

bool sse_end(struct sse *s, sse_fn *fn, void *arg, struct error *err)
{
    bool more = true;
    if (s->line.n > 0) {
        bool ok = line_end(s, buf_view(&s->line), fn, arg, &more, err);
        buf_clear(&s->line);
        if (!ok)
            return false;
    }
    dispatch(s, fn, arg, &more);
    return true;
}
