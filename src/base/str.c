/* str: texts that are not NUL-terminated and not owned. */
#include "base/base_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_ignoring_case(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

struct str str_c(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

struct str str_n(const char *p, size_t n)
{
    return (struct str){p, n};
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_c(z));
}

bool str_ieqz(struct str a, const char *z)
{
    struct str b = str_c(z);
    return a.n == b.n && same_ignoring_case(a.p, b.p, a.n);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_n(s.p, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n &&
           (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

bool str_istarts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && same_ignoring_case(s.p, prefix.p, prefix.n);
}

ptrdiff_t str_find(struct str s, struct str needle)
{
    if (needle.n == 0) {
        return 0;
    }
    if (needle.n > s.n) {
        return -1;
    }
    const char *at = memmem(s.p, s.n, needle.p, needle.n);
    return at ? at - s.p : -1;
}

ptrdiff_t str_chr(struct str s, char c)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    return at ? at - s.p : -1;
}

struct str str_sub(struct str s, size_t from, size_t n)
{
    if (!s.p) {
        return STR_NONE;
    }
    if (from > s.n) {
        from = s.n;
    }
    return str_n(s.p + from, n < s.n - from ? n : s.n - from);
}

struct str str_trim(struct str s)
{
    while (s.n && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_space(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

bool str_split(struct str *rest, char sep, struct str *part)
{
    if (!rest->p) {
        *part = STR_NONE;
        return false;
    }
    ptrdiff_t at = str_chr(*rest, sep);
    if (at < 0) {
        *part = *rest;
        *rest = STR_NONE;
    } else {
        *part = str_n(rest->p, (size_t)at);
        *rest = str_n(rest->p + at + 1, rest->n - (size_t)at - 1);
    }
    return true;
}

bool str_to_i64(struct str s, int64_t *out)
{
    bool negative = s.n && s.p[0] == '-';
    if (negative || (s.n && s.p[0] == '+')) {
        s = str_sub(s, 1, s.n);
    }
    if (s.n == 0) {
        return false;
    }
    int64_t value = 0; /* kept negative: INT64_MIN has no positive twin */
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, s.p[i] - '0', &value)) {
            return false;
        }
    }
    if (!negative && value == INT64_MIN) {
        return false;
    }
    *out = negative ? value : -value;
    return true;
}

bool str_to_f64(struct str s, double *out)
{
    char z[400]; /* longer than any double written out in full */
    if (s.n == 0 || s.n >= sizeof(z)) {
        return false;
    }
    for (size_t i = 0; i < s.n;
         i++) { /* strtod alone would take hexadecimal, "inf", "nan" and leading space */
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || memchr("+-.eE", s.p[i], 5))) {
            return false;
        }
    }
    memcpy(z, s.p, s.n);
    z[s.n] = '\0';
    char *end;
    double value = strtod(z, &end);
    if (end != z + s.n || value - value != 0) { /* infinite: out of range */
        return false;
    }
    *out = value;
    return true;
}

struct str str_dup(struct arena *a, struct str s)
{
    char *p = s.n < SIZE_MAX ? arena_alloc(a, s.n + 1) : NULL;
    if (!p) {
        return STR_NONE;
    }
    if (s.n) {
        memcpy(p, s.p, s.n);
    }
    return str_n(p, s.n);
}

const char *str_z(struct arena *a, struct str s)
{
    struct str copy = str_dup(a, s);
    return copy.p ? copy.p : "";
}

/* Short texts, which most are, are written once and copied; printf counts no faster than it writes. */
static struct str printf_like(2, 0) format(struct arena *a, const char *fmt, va_list ap)
{
    char brief[512];
    size_t plain;
    if (format_plain(brief, sizeof(brief), &plain, fmt, ap)) {
        char *copy = arena_alloc(a, plain + 1);
        if (copy) {
            memcpy(copy, brief, plain);
        }
        return copy ? str_n(copy, plain) : STR_NONE;
    }
    va_list again;
    va_copy(again, ap);
    struct str s = STR_NONE;
    int n = vsnprintf(brief, sizeof(brief), fmt, ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p) {
        if ((size_t)n < sizeof(brief)) {
            memcpy(p, brief, (size_t)n + 1);
        } else {
            vsnprintf(p, (size_t)n + 1, fmt, again);
        }
        s = str_n(p, (size_t)n);
    }
    va_end(again);
    return s;
}

struct str str_fmt(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct str s = format(a, fmt, ap);
    va_end(ap);
    return s;
}

const char *z_fmt(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct str s = format(a, fmt, ap);
    va_end(ap);
    return s.p ? s.p : "";
}

struct str str_lower(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.n);
    if (!p) {
        return STR_NONE;
    }
    for (size_t i = 0; i < s.n; i++) {
        p[i] = lower(s.p[i]);
    }
    return str_n(p, s.n);
}

/* ---- hash: SipHash-1-3 under a key drawn at start, since the keys of maps come from outside */

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void seed_draw(void)
{
    if (getrandom(seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
        struct timespec now; /* no entropy yet at boot: a weak seed is better than waiting */
        clock_gettime(CLOCK_REALTIME, &now);
        seed[0] = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u;
        seed[1] = (uint64_t)(uintptr_t)&now ^ (uint64_t)now.tv_sec;
    }
}

static inline uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

uint64_t str_hash(struct str s)
{
    pthread_once(&seed_once, seed_draw);
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    uint64_t word;
    size_t i = 0;
    for (; s.n - i >= 8; i += 8) {
        memcpy(&word, s.p + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)s.n << 56;
    for (size_t k = 0; i + k < s.n; k++) {
        word |= (uint64_t)(unsigned char)s.p[i + k] << (8 * k);
    }
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
