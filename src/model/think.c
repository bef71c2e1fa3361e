/* Thoughts in the text of an answer: <think>…</think> and an older pair of marks. A model whose
 * prompt template has opened the block already sends only the close tag (an orphan): the text
 * before it is a thought too, which can be known only when the tag comes. Text is held back for
 * that, but not for ever: after some bytes it flows. */
#include "model/model_private.h"

static const struct {
    struct str open, close;
} pairs[] = {
    {{"<think>", 7}, {"</think>", 8}},
    {{"CRETIRE_REASONING_BEGINk", 24}, {"CRETIRE_REASONING_ENDk", 22}},
};
enum { TAG_MAX = 24, SPACE_MAX = 4096, HELD_MAX = 16 * 1024 * 1024 };

void think_init(struct think *t, size_t hold)
{
    *t = (struct think){.held = BUF(HELD_MAX), .space = BUF(SPACE_MAX), .hold = hold};
}

void think_free(struct think *t)
{
    buf_free(&t->held);
    buf_free(&t->space);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool give(struct think *t, struct str text, struct buf *out)
{
    if (!t->started) {
        while (text.n > 0 && is_space(text.p[0]))
            text = str_sub(text, 1, text.n);
    }
    size_t solid = text.n;
    while (solid > 0 && is_space(text.p[solid - 1]))
        solid--;
    if (solid > 0) {
        t->started = true;
        t->given += t->space.n + solid;
        if (!buf_str(out, buf_view(&t->space)) || !buf_add(out, text.p, solid))
            return false;
        buf_clear(&t->space);
    }
    /* White space without end is text after all. */
    if (t->space.n + (text.n - solid) > SPACE_MAX) {
        t->given += t->space.n;
        if (!buf_str(out, buf_view(&t->space)))
            return false;
        buf_clear(&t->space);
    }
    return buf_str(&t->space, str_sub(text, solid, SPACE_MAX));
}

/* The first tag in `text` from `from` on; its offset or -1. */
static ptrdiff_t find_tag(struct str text, size_t from, bool closes, int *pair, bool *open)
{
    ptrdiff_t best = -1;
    struct str rest = str_sub(text, from, text.n);
    for (int i = 0; i < (int)array_len(pairs); i++) {
        for (int close = 0; close <= (closes ? 1 : 0); close++) {
            ptrdiff_t at = str_find(rest, close ? pairs[i].close : pairs[i].open);
            if (at >= 0 && (best < 0 || at < best)) {
                best = at;
                *pair = i;
                *open = !close;
            }
        }
    }
    return best < 0 ? -1 : best + (ptrdiff_t)from;
}

static size_t partial_of(struct str text, struct str tag)
{
    size_t n = tag.n - 1 < text.n ? tag.n - 1 : text.n;
    while (n > 0 && memcmp(text.p + text.n - n, tag.p, n) != 0)
        n--;
    return n;
}

/* Bytes at the end that may be the start of a tag. */
static size_t partial(struct str text, bool closes)
{
    size_t most = 0;
    for (size_t i = 0; i < array_len(pairs); i++) {
        size_t open = partial_of(text, pairs[i].open);
        size_t close = closes ? partial_of(text, pairs[i].close) : 0;
        most = open > most ? open : most;
        most = close > most ? close : most;
    }
    return most;
}

/* One step on the text outside of a block. Returns the bytes used; sets *stop when more input is
 * needed. */
static size_t outside(struct think *t, struct str text, bool final, struct buf *out, bool *stop,
                      bool *ok)
{
    bool closes = !t->decided || t->loose, open = false;
    int pair = 0;
    size_t from = t->scanned > TAG_MAX ? t->scanned - TAG_MAX : 0;
    ptrdiff_t at = find_tag(text, from < text.n ? from : 0, closes, &pair, &open);
    t->scanned = 0;
    if (at >= 0 && open) {
        *ok = give(t, str_n(text.p, (size_t)at), out);
        t->inside = t->decided = true;
        t->loose = false;
        t->pair = pair;
        return (size_t)at + pairs[pair].open.n;
    }
    if (at >= 0) {
        t->orphan = true;
        if (t->loose) { /* too late: the thought has been shown */
            *ok = give(t, str_n(text.p, (size_t)at), out);
            buf_clear(&t->space);
            t->late = true;
            t->late_at = t->given;
        }
        t->decided = true;
        t->loose = false;
        return (size_t)at + pairs[pair].close.n;
    }
    *stop = true;
    if (!t->decided && !final && text.n <= t->hold) {
        t->scanned = text.n;
        return 0;
    }
    if (!t->decided)
        t->decided = t->loose = true;
    size_t keep = final ? 0 : partial(text, t->loose);
    *ok = give(t, str_n(text.p, text.n - keep), out);
    return text.n - keep;
}

static bool work(struct think *t, bool final, struct buf *out)
{
    bool ok = true, stop = false;
    size_t pos = 0;
    while (ok && !stop && pos < t->held.n) {
        struct str text = str_sub(buf_view(&t->held), pos, t->held.n);
        if (!t->inside) {
            pos += outside(t, text, final, out, &stop, &ok);
            continue;
        }
        struct str close = pairs[t->pair].close;
        ptrdiff_t at = str_find(text, close);
        t->inside = at < 0;
        stop = at < 0;
        pos += at < 0 ? text.n - partial_of(text, close) : (size_t)at + close.n;
    }
    buf_eat(&t->held, pos);
    return ok;
}

bool think_feed(struct think *t, struct str text, struct buf *out)
{
    return buf_str(&t->held, text) && work(t, false, out);
}

bool think_end(struct think *t, struct buf *out)
{
    bool ok = work(t, true, out); /* an unfinished block goes with the rest of `held` */
    buf_clear(&t->held);
    buf_clear(&t->space);
    return ok;
}

bool think_strip(struct str text, struct buf *out)
{
    struct think t;
    think_init(&t, SIZE_MAX);
    bool ok = think_feed(&t, text, out) && think_end(&t, out);
    think_free(&t);
    return ok;
}
