/* Patterns of file names: *, ?, [..], [!..] within a component, matched from the right. box.md §10.8. */
#include "box/files/files.h"

enum { PARTS_MAX = 512 };

/* The character at *i as a number; bytes that are no UTF-8 stand for themselves, apart from all characters. */
static uint32_t next_char(struct str s, size_t *i)
{
    const unsigned char *p = (const unsigned char *)s.p + *i;
    size_t n = utf8_cut(str_n(s.p + *i, s.n - *i), 1).n;
    *i += n;
    if (n == 1)
        return p[0] < 0x80 ? p[0] : 0x110000u + p[0];
    uint32_t c = p[0] & (0x7Fu >> n);
    for (size_t k = 1; k < n; k++)
        c = c << 6 | (p[k] & 0x3F);
    return c;
}

/* End of the class that begins behind `[` at i: the index of its `]`; 0: it has none. */
static size_t class_end(struct str p, size_t i)
{
    if (i < p.n && p.p[i] == '!')
        i++;
    if (i < p.n && p.p[i] == ']')
        i++;
    ptrdiff_t end = str_chr(str_sub(p, i, p.n), ']');
    return end < 0 ? 0 : i + (size_t)end;
}

static bool in_class(struct str set, uint32_t c)
{
    bool negated = set.n > 0 && set.p[0] == '!', hit = false;
    for (size_t i = negated; i < set.n;) {
        uint32_t lo = next_char(set, &i), hi = lo;
        if (i + 1 < set.n && set.p[i] == '-') {
            i++;
            hi = next_char(set, &i);
        }
        hit = hit || (c >= lo && c <= hi);
    }
    return hit != negated;
}

/* One character of the pattern at *i against c; *i goes behind it. */
static bool matches_one(struct str p, size_t *i, uint32_t c)
{
    if (p.p[*i] == '?') {
        ++*i;
        return true;
    }
    size_t end = p.p[*i] == '[' ? class_end(p, *i + 1) : 0;
    if (end) {
        struct str set = str_sub(p, *i + 1, end - *i - 1);
        *i = end + 1;
        return in_class(set, c);
    }
    return next_char(p, i) == c;
}

bool files_match_name(struct str p, struct str name)
{
    size_t i = 0, k = 0, star = SIZE_MAX, from = 0;
    while (k < name.n) {
        if (i < p.n && p.p[i] == '*') {
            star = ++i;
            from = k;
            continue;
        }
        size_t at = k;
        if (i < p.n && matches_one(p, &i, next_char(name, &at))) {
            k = at;
            continue;
        }
        if (star == SIZE_MAX)
            return false;
        i = star; /* the last star takes one character more */
        next_char(name, &from);
        k = from;
    }
    while (i < p.n && p.p[i] == '*')
        i++;
    return i == p.n;
}

/* Components, without empty ones and "."; at most PARTS_MAX. */
static size_t parts_of(struct str s, struct str *out)
{
    size_t n = 0;
    struct str part;
    while (n < PARTS_MAX && str_split(&s, '/', &part))
        if (part.n > 0 && !str_eq(part, S(".")))
            out[n++] = part;
    return n;
}

bool files_match(struct str pattern, struct str path)
{
    struct str want[PARTS_MAX], have[PARTS_MAX];
    size_t wn = parts_of(pattern, want), hn = parts_of(path, have);
    /* at[j]: the part of the pattern looked at so far may end before component j. */
    bool at[PARTS_MAX + 1] = {false};
    at[hn] = true;
    for (size_t i = wn; i > 0; i--) {
        bool any = str_eq(want[i - 1], S("**")), none = any && i < wn, some = false;
        for (size_t j = 0; j <= hn; j++) {
            bool here = j < hn && at[j + 1] && (any || files_match_name(want[i - 1], have[j]));
            at[j] = here || (none && at[j]);
            some = some || at[j];
        }
        if (!some)
            return false;
    }
    return wn > 0;
}
