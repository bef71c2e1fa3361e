/* random: random bytes and texts, UUIDs, hexadecimal. */
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/random.h>

static const char hex_digits[] = "0123456789abcdef";

void crypto_random(void *p, size_t n)
{
    unsigned char *at = p;
    while (n) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            /* A key or a token without randomness is worse than no process. */
            log_error("crypto", "the kernel gives no random bytes errno=%d", errno);
            abort();
        }
        at += got;
        n -= (size_t)got;
    }
}

void random_text(const char *alphabet, size_t n, char *out)
{
    size_t letters = strlen(alphabet);
    unsigned char pool[64];
    size_t left = 0;
    /* Bytes of the incomplete last run of the alphabet are thrown away: they would favour its beginning. */
    size_t usable = letters ? 256 - 256 % letters : 0;
    for (size_t i = 0; i < n && usable;) {
        if (!left) {
            crypto_random(pool, sizeof(pool));
            left = sizeof(pool);
        }
        unsigned char c = pool[--left];
        if (c < usable) {
            out[i++] = alphabet[c % letters];
        }
    }
    out[usable ? n : 0] = '\0';
}

void hex_encode(const void *p, size_t n, char *out)
{
    const unsigned char *at = p;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex_digits[at[i] >> 4];
        out[2 * i + 1] = hex_digits[at[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(struct str hex, unsigned char *out)
{
    if (hex.n % 2) {
        return false;
    }
    for (size_t i = 0; i < hex.n / 2; i++) {
        int high = hex_value(hex.p[2 * i]), low = hex_value(hex.p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static void uuid_text(const unsigned char b[16], char out[UUID_SIZE])
{
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            out[at++] = '-';
        }
        out[at++] = hex_digits[b[i] >> 4];
        out[at++] = hex_digits[b[i] & 15];
    }
    out[at] = '\0';
}

static void uuid_stamp(unsigned char b[16], int version)
{
    b[6] = (unsigned char)((b[6] & 0x0f) | version << 4);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
}

void uuid4(char out[UUID_SIZE])
{
    unsigned char b[16];
    crypto_random(b, sizeof(b));
    uuid_stamp(b, 4);
    uuid_text(b, out);
}

void uuid4_ordered(char out[UUID_SIZE])
{
    unsigned char b[16];
    int64_t us = time_wall_us();
    uint64_t ms = (uint64_t)us / 1000, part = (uint64_t)us % 1000 * 4096 / 1000;
    for (int i = 0; i < 6; i++) {
        b[i] = (unsigned char)(ms >> (40 - 8 * i));
    }
    b[6] = (unsigned char)(part >> 8);
    b[7] = (unsigned char)part;
    crypto_random(b + 8, sizeof(b) - 8);
    uuid_stamp(b, 4);
    uuid_text(b, out);
}

/* Cuts `prefix` off the front of *s if it is there. */
static void skip(struct str *s, struct str prefix)
{
    if (str_istarts(*s, prefix)) {
        *s = str_sub(*s, prefix.n, s->n);
    }
}

/* The 32 digits of a UUID in whatever dress. */
static bool uuid_bytes(struct str s, unsigned char b[16])
{
    char digits[32];
    size_t n = 0;
    skip(&s, S("urn:"));
    skip(&s, S("uuid:"));
    while (s.n && s.p[0] == '{') {
        s = str_sub(s, 1, s.n);
    }
    while (s.n && s.p[s.n - 1] == '}') {
        s.n--;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '-') {
            continue;
        }
        if (n == sizeof(digits)) {
            return false;
        }
        digits[n++] = s.p[i];
    }
    return n == sizeof(digits) && hex_decode(str_n(digits, n), b);
}

bool uuid_parse(struct str s, char out[UUID_SIZE])
{
    unsigned char b[16];
    if (!uuid_bytes(s, b)) {
        return false;
    }
    uuid_text(b, out);
    return true;
}

bool uuid_is_canonical(struct str s)
{
    if (s.n != UUID_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

bool uuid_is_v4(struct str s)
{
    return uuid_is_canonical(s) && s.p[14] == '4' && strchr("89ab", s.p[19]) != NULL;
}

bool uuid5(const char *namespace_uuid, struct str name, char out[UUID_SIZE])
{
    unsigned char space[16], digest[EVP_MAX_MD_SIZE];
    if (!uuid_bytes(str_c(namespace_uuid), space)) {
        return false;
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) == 1 &&
              EVP_DigestUpdate(ctx, space, sizeof(space)) == 1 &&
              EVP_DigestUpdate(ctx, name.p, name.n) == 1 &&
              EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
    EVP_MD_CTX_free(ctx);
    if (!ok) {
        return false;
    }
    uuid_stamp(digest, 5);
    uuid_text(digest, out);
    return true;
}
