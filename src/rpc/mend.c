/* mend: legal JSON whose values jansson does not take: escapes of half a surrogate pair, which
 * become U+FFFD, and integers of more than 64 bits, which become reals. */
#include "rpc/rpc_private.h"

enum { DIGITS_MAX = 18 };

/* The code unit of "\uXXXX" at p, or -1. */
static int unit_at(struct str text, size_t at)
{
    unsigned char raw[2];
    if (at + 6 > text.n || text.p[at] != '\\' || text.p[at + 1] != 'u' ||
        !hex_decode(str_sub(text, at + 2, 4), raw))
        return -1;
    return raw[0] << 8 | raw[1];
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* Copies one escape sequence; bytes of the text that it took. */
static size_t copy_escape(struct str text, size_t at, struct buf *out, bool *mended)
{
    int unit = unit_at(text, at);
    if (unit < 0) {
        buf_str(out, str_sub(text, at, 2));
        return 2;
    }
    if (is_high(unit) && is_low(unit_at(text, at + 6))) {
        buf_str(out, str_sub(text, at, 12));
        return 12;
    }
    if (is_high(unit) || is_low(unit)) {
        buf_z(out, "\\ufffd");
        *mended = true;
    } else {
        buf_str(out, str_sub(text, at, 6));
    }
    return 6;
}

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static size_t copy_number(struct str text, size_t at, struct buf *out, bool *mended)
{
    size_t n = 0, digits = 0;
    bool real = false;
    for (; at + n < text.n && is_number_char(text.p[at + n]); n++) {
        char c = text.p[at + n];
        digits += c >= '0' && c <= '9';
        real = real || c == '.' || c == 'e' || c == 'E';
    }
    buf_str(out, str_sub(text, at, n));
    if (!real && digits > DIGITS_MAX) {
        buf_z(out, ".0");
        *mended = true;
    }
    return n;
}

bool rpc_mend(struct str text, struct buf *out)
{
    bool in_string = false, mended = false;
    for (size_t i = 0; i < text.n && !out->failed;) {
        char c = text.p[i];
        if (in_string && c == '\\') {
            i += copy_escape(text, i, out, &mended);
        } else if (!in_string && is_number_char(c)) {
            i += copy_number(text, i, out, &mended);
        } else {
            in_string = in_string != (c == '"');
            buf_c(out, c);
            i++;
        }
    }
    return mended && !out->failed;
}
