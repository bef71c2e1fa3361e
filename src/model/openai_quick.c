/* The usual event of a stream, a few words and nothing else, read without building JSON: reading it in full was half of the CPU of
 * a delta. What is not exactly of that shape is left to the full parser, malformed text too, so that there is one place only
 * that says what is wrong. */
#include "model/model_private.h"

enum {
    TEXT_MAX = 16 * 1024,
    FRAME_MAX = 512, /* bytes kept of an event */
    DEPTH_MAX = 4,   /* of values that are passed over */
    DIGITS_MAX = 18, /* of an integer: never out of range */
};

struct cursor {
    const char *p, *end;
    struct quick_delta *out;
    struct buf *decoded;
    struct str plain;                   /* words that hold no escapes, in the text */
    bool choices, delta, role, content; /* seen: the last one of two would count */
};

typedef bool member_fn(struct cursor *c, struct str key);

static void pass_blanks(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
        c->p++;
}

static bool take(struct cursor *c, char wanted)
{
    pass_blanks(c);
    if (c->p == c->end || *c->p != wanted)
        return false;
    c->p++;
    return true;
}

static bool word(struct cursor *c, struct str wanted)
{
    if (!str_starts(str_n(c->p, (size_t)(c->end - c->p)), wanted))
        return false;
    c->p += wanted.n;
    return true;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* As it stands in the text, behind its first quotation mark. What follows a backslash is not
 * looked at yet. */
static bool raw_string(struct cursor *c, struct str *out, bool *escaped)
{
    const char *p = c->p, *end = c->end;
    unsigned char all = 0;
    *escaped = false;
    for (; p < end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return false;
        all |= (unsigned char)*p;
        if (*p == '\\') {
            *escaped = true;
            if (++p == end)
                return false;
            all |= (unsigned char)*p;
        }
    }
    if (p == end)
        return false;
    *out = str_n(c->p, (size_t)(p - c->p));
    c->p = p + 1;
    return all < 0x80 || utf8_valid(*out);
}

static bool plain_string(struct cursor *c, struct str *out)
{
    bool escaped;
    return take(c, '"') && raw_string(c, out, &escaped) && !escaped;
}

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* Four hexadecimal digits from *at on; -1: they are none. */
static int32_t hex_unit(struct str s, size_t *at)
{
    int32_t unit = 0;
    if (s.n - *at < 4)
        return -1;
    for (size_t end = *at + 4; *at < end; ++*at) {
        int digit = hex_digit(s.p[*at]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* The character of a \u escape, *at behind the u. Zero and halves of pairs are for the full
 * parser. */
static bool put_escaped(struct buf *out, struct str s, size_t *at)
{
    int32_t c = hex_unit(s, at);
    if (c >= 0xd800 && c <= 0xdbff && s.n - *at >= 6 && s.p[*at] == '\\' && s.p[*at + 1] == 'u') {
        *at += 2;
        int32_t low = hex_unit(s, at);
        c = low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : -1;
    }
    if (c <= 0 || (c >= 0xd800 && c <= 0xdfff))
        return false;
    char text[4];
    size_t n = 0;
    if (c < 0x80) {
        text[n++] = (char)c;
    } else if (c < 0x800) {
        text[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        text[n++] = (char)(0xe0 | c >> 12);
        text[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        text[n++] = (char)(0xf0 | c >> 18);
        text[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        text[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        text[n++] = (char)(0x80 | (c & 0x3f));
    return buf_add(out, text, n);
}

static bool decode(struct buf *out, struct str s)
{
    static const char signs[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t at = 0;
    buf_clear(out);
    for (;;) {
        size_t from = at;
        while (at < s.n && s.p[at] != '\\')
            at++;
        if (!buf_add(out, s.p + from, at - from))
            return false;
        if (at == s.n)
            return true;
        char sign = s.p[at + 1]; /* raw_string saw that there is one */
        at += 2;
        const char *known = sign ? strchr(signs, sign) : NULL;
        if (known ? !buf_c(out, meant[known - signs]) : sign != 'u' || !put_escaped(out, s, &at))
            return false;
    }
}

/* ---- values that do not matter --------------------------------------------------------------- */

static bool number(struct cursor *c)
{
    if (*c->p == '-')
        c->p++;
    const char *from = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    size_t digits = (size_t)(c->p - from);
    if (digits == 0 || digits > DIGITS_MAX || (*from == '0' && digits > 1))
        return false;
    return c->p < c->end && *c->p != '.' && *c->p != 'e' && *c->p != 'E';
}

static bool skip(struct cursor *c, int depth);

static bool skip_group(struct cursor *c, char closing, int depth)
{
    struct str key;
    if (take(c, closing))
        return true;
    do {
        if (closing == '}' && (!plain_string(c, &key) || !take(c, ':')))
            return false;
        if (!skip(c, depth))
            return false;
    } while (take(c, ','));
    return take(c, closing);
}

/* Any value but real numbers and strings with escapes. */
static bool skip(struct cursor *c, int depth)
{
    struct str text;
    if (take(c, '"')) {
        bool escaped;
        return raw_string(c, &text, &escaped) && !escaped;
    }
    if (take(c, '{'))
        return depth > 0 && skip_group(c, '}', depth - 1);
    if (take(c, '['))
        return depth > 0 && skip_group(c, ']', depth - 1);
    if (c->p == c->end)
        return false;
    return word(c, S("null")) || word(c, S("true")) || word(c, S("false")) || number(c);
}

static bool null(struct cursor *c)
{
    pass_blanks(c);
    return word(c, S("null"));
}

/* ---- the shape ------------------------------------------------------------------------------- */

static bool object(struct cursor *c, member_fn *member)
{
    struct str key;
    if (!take(c, '{'))
        return false;
    if (take(c, '}'))
        return true;
    do {
        if (!plain_string(c, &key) || !take(c, ':') || !member(c, key))
            return false;
    } while (take(c, ','));
    return take(c, '}');
}

static bool once(bool *seen)
{
    bool first = !*seen;
    *seen = true;
    return first;
}

static bool in_delta(struct cursor *c, struct str key)
{
    static const char *const others[] = {"reasoning_content", "reasoning", "thinking_blocks",
                                         "tool_calls", "provider_specific_fields"};
    if (str_eq(key, S("content"))) {
        bool escaped;
        struct str raw;
        if (!once(&c->content))
            return false;
        if (!take(c, '"'))
            return null(c);
        if (!raw_string(c, &raw, &escaped) || (escaped && !decode(c->decoded, raw)))
            return false;
        c->plain = escaped ? STR_NONE : raw;
        c->out->content = escaped ? buf_view(c->decoded) : raw;
        return true;
    }
    if (str_eq(key, S("role")))
        return once(&c->role) && (null(c) || plain_string(c, &c->out->role));
    for (size_t i = 0; i < array_len(others); i++) {
        if (str_eqz(key, others[i]))
            return null(c);
    }
    return skip(c, DEPTH_MAX);
}

static bool in_choice(struct cursor *c, struct str key)
{
    if (str_eq(key, S("delta")))
        return once(&c->delta) && object(c, in_delta);
    if (str_eq(key, S("finish_reason")))
        return null(c);
    return skip(c, DEPTH_MAX);
}

static bool in_event(struct cursor *c, struct str key)
{
    if (str_eq(key, S("choices")))
        return once(&c->choices) && take(c, '[') && object(c, in_choice) && take(c, ']');
    if (str_eq(key, S("usage")) || str_eq(key, S("error")))
        return null(c);
    return skip(c, DEPTH_MAX);
}

/* ---- the event before it --------------------------------------------------------------------- */

/* The events of one stream mostly differ in their words only. */
static bool as_before(const struct quick *q, struct str text, struct str *words)
{
    size_t around = q->frame.n, before = q->before, after = around - before;
    if (around == 0 || text.n < around || memcmp(text.p, q->frame.p, before) != 0 ||
        memcmp(text.p + text.n - after, q->frame.p + before, after) != 0)
        return false;
    *words = str_n(text.p + before, text.n - around);
    unsigned char all = 0;
    for (size_t i = 0; i < words->n; i++) {
        unsigned char ch = (unsigned char)words->p[i];
        if (ch < 0x20 || ch == '"' || ch == '\\')
            return false;
        all |= ch;
    }
    return all < 0x80 || utf8_valid(*words);
}

/* What stands around words that lie in the text. No memory: the next event is read as this one. */
static void keep_frame(struct quick *q, struct str text, struct str words)
{
    size_t end = (size_t)(words.p - text.p) + words.n;
    buf_clear(&q->frame);
    q->before = end - words.n;
    if (!buf_add(&q->frame, text.p, q->before) || !buf_add(&q->frame, text.p + end, text.n - end))
        buf_clear(&q->frame);
}

void openai_quick_init(struct quick *q)
{
    *q = (struct quick){.frame = BUF(FRAME_MAX), .decoded = BUF(TEXT_MAX)};
}

void openai_quick_free(struct quick *q)
{
    buf_free(&q->frame);
    buf_free(&q->decoded);
}

bool openai_quick(struct quick *q, struct str text, struct quick_delta *out)
{
    struct cursor c = {.p = text.p, .end = text.p + text.n, .out = out, .decoded = &q->decoded};
    *out = (struct quick_delta){S(""), S("")};
    if (text.n > TEXT_MAX)
        return false;
    if (as_before(q, text, &out->content))
        return true;
    out->content = S("");
    if (!object(&c, in_event) || c.p != c.end)
        return false;
    if (c.plain.p && out->role.n == 0)
        keep_frame(q, text, c.plain);
    return true;
}
