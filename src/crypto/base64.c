/* base64: both alphabets, one lenient reader for what people and peers send. */
#include "crypto/crypto.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static struct str encode(struct arena *a, struct str data, const char *alphabet, bool pad)
{
    if (data.n > SIZE_MAX / 2) {
        return STR_NONE;
    }
    char *out = arena_alloc(a, (data.n + 2) / 3 * 4 + 1);
    if (!out) {
        return STR_NONE;
    }
    const unsigned char *in = (const unsigned char *)data.p;
    size_t n = 0, i = 0;
    for (; i + 2 < data.n; i += 3) {
        uint32_t v = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];
        out[n++] = alphabet[v >> 18];
        out[n++] = alphabet[v >> 12 & 63];
        out[n++] = alphabet[v >> 6 & 63];
        out[n++] = alphabet[v & 63];
    }
    size_t rest = data.n - i;
    if (rest) {
        uint32_t v = (uint32_t)in[i] << 16 | (rest == 2 ? (uint32_t)in[i + 1] << 8 : 0);
        out[n++] = alphabet[v >> 18];
        out[n++] = alphabet[v >> 12 & 63];
        if (rest == 2) {
            out[n++] = alphabet[v >> 6 & 63];
        }
        for (size_t k = rest; pad && k < 3; k++) {
            out[n++] = '=';
        }
    }
    return str_n(out, n);
}

struct str base64_encode(struct arena *a, struct str data)
{
    return encode(a, data, standard, true);
}

struct str base64url_encode(struct arena *a, struct str data)
{
    return encode(a, data, url_safe, false);
}

static int value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool base64_decode(struct arena *a, struct str text, size_t max, struct str *out, struct error *err)
{
    size_t digits = 0, pads = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '=') {
            pads++;
        } else if (!is_space(c)) {
            if (value(c) < 0 || pads) {
                return err_set(err, ERR_INVALID, "invalid base64 at byte %zu", i);
            }
            digits++;
        }
    }
    if (digits % 4 == 1 || pads > 2 || (pads && (digits + pads) % 4)) {
        return err_set(err, ERR_INVALID, "invalid base64: incomplete");
    }
    size_t n = digits / 4 * 3 + (digits % 4 ? digits % 4 - 1 : 0);
    if (n > max) {
        return err_set(err, ERR_TOO_LARGE, "base64 data larger than %zu bytes", max);
    }
    unsigned char *p = arena_alloc(a, n + 1);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    uint32_t v = 0;
    size_t at = 0;
    int bits = 0;
    for (size_t i = 0; i < text.n; i++) {
        int d = value(text.p[i]);
        if (d < 0) {
            continue;
        }
        v = v << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            p[at++] = (unsigned char)(v >> bits);
        }
    }
    p[at] = '\0';
    *out = str_n((const char *)p, at);
    return true;
}
