/* email: the one form in which addresses are compared (tenancy.md §2 users). */
#include "crypto/crypto.h"

#include <utf8proc.h>

#define CHARS_MAX 320
/* A full case fold makes at most three code points of one. */
#define FOLDED_MAX (CHARS_MAX * 3)

/* White space as Unicode has it, with the separators 1C..1F that trimming in the original removes too. */
static bool is_space(utf8proc_int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static struct str trim(struct str s)
{
    utf8proc_int32_t c;
    while (s.n) {
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)s.p, (utf8proc_ssize_t)s.n, &c);
        if (k <= 0 || !is_space(c)) {
            break;
        }
        s = str_sub(s, (size_t)k, s.n);
    }
    while (s.n) {
        size_t at = s.n - 1;
        while (at && ((unsigned char)s.p[at] & 0xc0) == 0x80) {
            at--;
        }
        if (utf8proc_iterate((const utf8proc_uint8_t *)s.p + at, (utf8proc_ssize_t)(s.n - at),
                             &c) <= 0 ||
            !is_space(c)) {
            break;
        }
        s.n = at;
    }
    return s;
}

bool email_normalize(struct arena *a, struct str email, struct str *out, struct error *err)
{
    utf8proc_int32_t folded[FOLDED_MAX + 1];
    if (!utf8_valid(email)) {
        return err_set(err, ERR_INVALID, "Email is not valid UTF-8");
    }
    struct str s = trim(email);
    if (str_chr(s, '@') < 0) {
        return err_set(err, ERR_INVALID, "Email must contain @");
    }
    if (utf8_count(s) > CHARS_MAX) {
        return err_set(err, ERR_INVALID, "Email must have at most %d characters", CHARS_MAX);
    }
    utf8proc_ssize_t n = utf8proc_decompose((const utf8proc_uint8_t *)s.p, (utf8proc_ssize_t)s.n,
                                            folded, FOLDED_MAX, UTF8PROC_CASEFOLD);
    if (n < 0 || n > CHARS_MAX) {
        return err_set(err, ERR_INVALID, "Email must have at most %d characters", CHARS_MAX);
    }
    char *text = arena_alloc(a, (size_t)n * 4 + 1);
    if (!text) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    size_t at = 0;
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        at += (size_t)utf8proc_encode_char(folded[i], (utf8proc_uint8_t *)text + at);
    }
    text[at] = '\0';
    *out = str_n(text, at);
    return true;
}
