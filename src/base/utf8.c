/* utf8: well-formed sequences as of Unicode table 3-7 (no surrogates, no overlong forms, nothing
 * over U+10FFFF). */
#include "base/base_private.h"

int utf8_step(const unsigned char *p, size_t n)
{
    unsigned char c = p[0];
    if (c < 0x80) {
        return 1;
    }
    if (c < 0xc2 || c > 0xf4) {
        return 0;
    }
    int len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n < 2) {
        return -1;
    }
    unsigned char least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned char most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < least || p[1] > most) {
        return 0;
    }
    for (int i = 2; i < len; i++) {
        if ((size_t)i >= n) {
            return -1;
        }
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

/* Bytes from `i` that count as one character: a sequence, or one byte that is none. */
static size_t advance(struct str s, size_t i)
{
    int step = utf8_step((const unsigned char *)s.p + i, s.n - i);
    return step > 0 ? (size_t)step : 1;
}

bool utf8_valid(struct str s)
{
    size_t i = 0;
    while (i < s.n) {
        uint64_t word;
        if (s.n - i >= 8 && (memcpy(&word, s.p + i, 8), (word & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        int step = utf8_step((const unsigned char *)s.p + i, s.n - i);
        if (step <= 0) {
            return false;
        }
        i += (size_t)step;
    }
    return true;
}

size_t utf8_count(struct str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.n; i += advance(s, i)) {
        count++;
    }
    return count;
}

struct str utf8_cut(struct str s, size_t chars)
{
    size_t i = 0;
    while (i < s.n && chars-- > 0) {
        i += advance(s, i);
    }
    return str_n(s.p, i);
}

size_t utf8_border(const char *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)p[n - back];
        if ((c & 0xc0) == 0x80) {
            continue;
        }
        return utf8_step((const unsigned char *)p + n - back, back) < 0 ? n - back : n;
    }
    return n;
}

struct str utf8_clean(struct arena *a, struct str s)
{
    if (utf8_valid(s)) {
        return s;
    }
    size_t bad = 0;
    for (size_t i = 0; i < s.n; i += advance(s, i)) {
        bad += utf8_step((const unsigned char *)s.p + i, s.n - i) <= 0;
    }
    if (bad > (SIZE_MAX - s.n) / 2) {
        return STR_NONE;
    }
    char *p = arena_alloc(a, s.n + 2 * bad);
    if (!p) {
        return STR_NONE;
    }
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        int step = utf8_step((const unsigned char *)s.p + i, s.n - i);
        if (step <= 0) {
            memcpy(p + n, "\xef\xbf\xbd", 3);
            n += 3;
            i++;
        } else {
            memcpy(p + n, s.p + i, (size_t)step);
            n += (size_t)step;
            i += (size_t)step;
        }
    }
    return str_n(p, n);
}
