/* jwt: HS256 tokens, and no other.
 *
 * Not with libjwt: its 1.x decoder takes the algorithm from the token's own header and offers no list of those allowed,
 * hides the header's "typ" behind a string copy, keeps the claims in an object that has to be serialised and parsed again
 * to be read, and allocates outside the one allocator. What HS256 needs is one HMAC and two JSON texts; doing just that
 * is shorter, cannot be talked into another algorithm, and takes a few microseconds on the way of each request. */
#include "crypto/crypto.h"

#include <math.h>

#define TOKEN_MAX 16384

/* {"alg":"HS256","typ":"JWT"} in base64url: what nearly every token begins with. */
#define USUAL_HEADER "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

static bool refuse(struct error *err, const char *why)
{
    return err_set(err, ERR_UNAUTHORIZED, "invalid token: %s", why);
}

struct parts {
    struct str header, payload, signature;
    struct str signed_part; /* header.payload */
};

static bool cut(struct str token, struct parts *out, struct error *err)
{
    if (token.n > TOKEN_MAX) {
        return refuse(err, "too long");
    }
    struct str rest = token, more;
    if (!str_split(&rest, '.', &out->header) || !str_split(&rest, '.', &out->payload) ||
        !str_split(&rest, '.', &out->signature) || str_split(&rest, '.', &more)) {
        return refuse(err, "not three parts");
    }
    out->signed_part = str_n(token.p, out->header.n + 1 + out->payload.n);
    return true;
}

/* Strict: the lenient reader's white space, padding and other alphabet have no place in a token. */
static bool part_decode(struct arena *a, struct str part, struct str *out, struct error *err)
{
    for (size_t i = 0; i < part.n; i++) {
        char c = part.p[i];
        if (c == '=' || c == '+' || c == '/' || c == ' ' || (c >= '\t' && c <= '\r')) {
            return refuse(err, "not base64url");
        }
    }
    if (base64_decode(a, part, TOKEN_MAX, out, err)) {
        return true;
    }
    return err->code == ERR_NOMEM ? false : refuse(err, "not base64url");
}

static json_t *part_object(struct arena *a, struct str part, struct error *err)
{
    struct str text;
    if (!part_decode(a, part, &text, err)) {
        return NULL;
    }
    json_t *j = json_parse(text, err);
    if (!json_is_object(j)) {
        if (j || err->code != ERR_NOMEM) {
            refuse(err, "not a JSON object");
        }
        json_decref(j);
        return NULL;
    }
    return j;
}

static bool header_check(struct arena *a, struct str part, const char **typ, struct error *err)
{
    if (str_eqz(part, USUAL_HEADER)) {
        if (typ) {
            *typ = "JWT";
        }
        return true;
    }
    auto_json header = part_object(a, part, err);
    if (!header) {
        return false;
    }
    if (!str_eqz(json_s(header, "alg"), "HS256")) {
        return refuse(err, "algorithm is not HS256");
    }
    if (json_object_get(header, "crit")) {
        return refuse(err, "unknown critical extension");
    }
    if (typ) {
        const char *name = json_z(header, "typ");
        *typ = name ? str_z(a, str_c(name)) : NULL;
        if (arena_failed(a)) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return true;
}

static bool times_check(const json_t *claims, struct error *err)
{
    const json_t *exp = json_object_get(claims, "exp"), *nbf = json_object_get(claims, "nbf");
    double now = (double)time_wall_us() / 1e6;
    if (!json_is_number(exp)) {
        return refuse(err, "no exp");
    }
    if (json_number_value(exp) <= now) {
        return refuse(err, "expired");
    }
    if (nbf && (!json_is_number(nbf) || json_number_value(nbf) > now)) {
        return refuse(err, "not valid yet");
    }
    return true;
}

json_t *jwt_verify(struct arena *a, struct str token, struct str secret, const char **typ,
                   struct error *err)
{
    struct parts parts;
    struct str signature;
    unsigned char mac[32];
    if (!secret.n) {
        /* An empty secret would make everybody a signer. */
        refuse(err, "no secret");
        return NULL;
    }
    if (!cut(token, &parts, err) || !header_check(a, parts.header, typ, err) ||
        !part_decode(a, parts.signature, &signature, err)) {
        return NULL;
    }
    hmac_sha256(secret, parts.signed_part, mac);
    if (!const_time_eq(signature, str_n((const char *)mac, sizeof(mac)))) {
        refuse(err, "wrong signature");
        return NULL;
    }
    auto_json claims = part_object(a, parts.payload, err);
    if (!claims || !times_check(claims, err)) {
        return NULL;
    }
    return steal(claims);
}

json_t *jwt_peek(struct arena *a, struct str token, struct error *err)
{
    struct parts parts;
    return cut(token, &parts, err) ? part_object(a, parts.payload, err) : NULL;
}

struct str jwt_sign(struct arena *a, const json_t *claims, const char *typ, struct str secret,
                    struct error *err)
{
    struct str header = S(USUAL_HEADER), payload = json_text(a, claims);
    unsigned char mac[32];
    if (!secret.n || !json_is_object(claims)) {
        err_set(err, ERR_INTERNAL, "token: claims and a secret are needed");
        return STR_NONE;
    }
    if (typ) {
        auto_json h = json_pack("{s:s, s:s}", "alg", "HS256", "typ", typ);
        struct str text = h ? json_text(a, h) : STR_NONE;
        header = text.p ? base64url_encode(a, text) : STR_NONE;
    }
    payload = payload.p ? base64url_encode(a, payload) : STR_NONE;
    if (!header.p || !payload.p) {
        err_set(err, ERR_NOMEM, "out of memory");
        return STR_NONE;
    }
    struct str head = str_fmt(a, STR_FMT "." STR_FMT, STR_ARG(header), STR_ARG(payload));
    if (!head.p) {
        err_set(err, ERR_NOMEM, "out of memory");
        return STR_NONE;
    }
    hmac_sha256(secret, head, mac);
    struct str signature = base64url_encode(a, str_n((const char *)mac, sizeof(mac)));
    struct str token = str_fmt(a, STR_FMT "." STR_FMT, STR_ARG(head), STR_ARG(signature));
    if (!signature.p || !token.p) {
        err_set(err, ERR_NOMEM, "out of memory");
        return STR_NONE;
    }
    if (token.n > TOKEN_MAX) {
        err_set(err, ERR_INTERNAL, "token: more than %d bytes", TOKEN_MAX);
        return STR_NONE;
    }
    return token;
}
