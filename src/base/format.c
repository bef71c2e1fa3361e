/* format: the common conversions of printf, by hand. */
#include "base/base_private.h"

struct sink {
    char *at, *end;
};

static bool add(struct sink *s, const char *p, size_t n)
{
    if (n > (size_t)(s->end - s->at)) {
        return false;
    }
    if (n) {
        memcpy(s->at, p, n);
    }
    s->at += n;
    return true;
}

static bool add_number(struct sink *s, uint64_t v, bool negative, unsigned base)
{
    char text[24];
    size_t at = sizeof(text);
    do {
        text[--at] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    if (negative) {
        text[--at] = '-';
    }
    return add(s, text + at, sizeof(text) - at);
}

static bool add_signed(struct sink *s, int64_t v)
{
    return add_number(s, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10);
}

/* The arguments that are left, in a struct of its own: a va_list that is handed on by value is undefined afterwards. */
struct args {
    va_list ap;
};

/* One conversion, *fmt behind the '%'. */
static bool convert(struct sink *s, const char **fmt, struct args *a)
{
    const char *f = *fmt;
    int longs = 0;
    while (*f == 'l' && longs < 2) {
        longs++;
        f++;
    }
    bool size = longs == 0 && *f == 'z';
    f += size;
    char c = *f++;
    *fmt = f;
    if (longs == 0 && !size) {
        const char *z;
        int width;
        switch (c) {
        case '%': return add(s, "%", 1);
        case 'd':
        case 'i': return add_signed(s, va_arg(a->ap, int));
        case 'u': return add_number(s, va_arg(a->ap, unsigned), false, 10);
        case 'x': return add_number(s, va_arg(a->ap, unsigned), false, 16);
        case 'c': return add(s, &(char){(char)va_arg(a->ap, int)}, 1);
        case 's': z = va_arg(a->ap, const char *); return z && add(s, z, strlen(z));
        case '.':
            if (f[0] != '*' || f[1] != 's') {
                return false;
            }
            *fmt = f + 2;
            width = va_arg(a->ap, int);
            z = va_arg(a->ap, const char *);
            return width >= 0 && (width == 0 || z) &&
                   add(s, z, width ? strnlen(z, (size_t)width) : 0);
        default: return false;
        }
    }
    if (c == 'd') {
        return add_signed(s, size         ? va_arg(a->ap, ssize_t)
                             : longs == 1 ? va_arg(a->ap, long)
                                          : va_arg(a->ap, long long));
    }
    return c == 'u' && add_number(s,
                                  size         ? va_arg(a->ap, size_t)
                                  : longs == 1 ? va_arg(a->ap, unsigned long)
                                               : va_arg(a->ap, unsigned long long),
                                  false, 10);
}

bool format_plain(char *out, size_t room, size_t *n, const char *fmt, va_list ap)
{
    struct sink s = {out, out + room};
    struct args a;
    va_copy(a.ap, ap);
    bool ok = true;
    while (ok && *fmt) {
        const char *to = strchr(fmt, '%');
        size_t run = to ? (size_t)(to - fmt) : strlen(fmt);
        ok = add(&s, fmt, run);
        fmt += run;
        if (ok && *fmt) {
            fmt++;
            ok = convert(&s, &fmt, &a);
        }
    }
    va_end(a.ap);
    *n = (size_t)(s.at - out);
    return ok;
}
