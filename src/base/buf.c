/* buf: a growing byte buffer with a maximum. One byte more than `cap` is always there, for the
 * NUL of buf_cstr. */
#include "base/base_private.h"

#include <stdio.h>

enum { FIRST_CAP = 63, FIRST_FORMAT = 199 };

bool buf_reserve(struct buf *b, size_t extra)
{
    if (b->failed) {
        return false;
    }
    size_t max = b->max < PTRDIFF_MAX ? b->max : PTRDIFF_MAX;
    if (b->n > max || extra > max - b->n) {
        b->failed = true;
        return false;
    }
    size_t want = b->n + extra;
    if (b->p && want <= b->cap) {
        return true;
    }
    size_t cap = b->cap < FIRST_CAP ? FIRST_CAP : b->cap * 2 + 1;
    if (cap < want) {
        cap = want;
    }
    if (cap > max) {
        cap = max;
    }
    char *p = mem_realloc(b->p, cap + 1);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
    if (!buf_reserve(b, n)) {
        return false;
    }
    if (n) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    }
    return true;
}

bool buf_str(struct buf *b, struct str s)
{
    return buf_add(b, s.p, s.n);
}

bool buf_z(struct buf *b, const char *z)
{
    return buf_add(b, z, strlen(z));
}

bool buf_c(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

bool buf_fmt(struct buf *b, const char *fmt, ...)
{
    /* The first block is made for what a key or a line takes. */
    if (!buf_reserve(b, !b->p && b->max - b->n >= FIRST_FORMAT ? FIRST_FORMAT : 0)) {
        return false;
    }
    va_list ap, again;
    va_start(ap, fmt);
    size_t plain;
    if (format_plain(b->p + b->n, b->cap - b->n, &plain, fmt, ap)) {
        va_end(ap);
        b->n += plain;
        return true;
    }
    va_copy(again, ap);
    /* cap + 1 bytes are there, so a text that fits needs one pass only. */
    int n = vsnprintf(b->p + b->n, b->cap - b->n + 1, fmt, ap);
    bool ok = n >= 0;
    if (ok && (size_t)n > b->cap - b->n) {
        ok = buf_reserve(b, (size_t)n) && vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again) == n;
    }
    va_end(again);
    va_end(ap);
    if (!ok) {
        b->failed = true;
        return false;
    }
    b->n += (size_t)n;
    return true;
}

bool buf_u64(struct buf *b, uint64_t v)
{
    char text[20];
    size_t at = sizeof(text);
    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return buf_add(b, text + at, sizeof(text) - at);
}

void buf_eat(struct buf *b, size_t n)
{
    if (n >= b->n) {
        b->n = 0;
    } else if (n) {
        memmove(b->p, b->p + n, b->n - n);
        b->n -= n;
    }
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = false;
}

void buf_free(struct buf *b)
{
    mem_free(b->p);
    *b = BUF(b->max);
}

struct str buf_view(const struct buf *b)
{
    return str_n(b->p, b->n);
}

const char *buf_cstr(struct buf *b)
{
    if (!buf_reserve(b, 0)) {
        return "";
    }
    b->p[b->n] = '\0';
    return b->p;
}
