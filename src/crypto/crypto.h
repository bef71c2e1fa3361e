/* crypto: thin covers over OpenSSL, libargon2 and libjwt. CPU-heavy calls say so: run them with task_work. */
#ifndef PARLEY_CRYPTO_H
#define PARLEY_CRYPTO_H

#include "base/base.h"

void crypto_random(void *p, size_t n); /* aborts if the kernel has none */
#define UUID_SIZE 37
void uuid4(char out[UUID_SIZE]);
/* In the form of version 4, but its first 60 bits are the time (a quarter of a microsecond): rows that are made one after the other
 * stand side by side in an index, so that a commit writes a few pages and not one for each row. 62 random bits; never a secret. */
void uuid4_ordered(char out[UUID_SIZE]);
/* RFC 4122 version 5 in a namespace given as text; false if the namespace is no UUID. */
bool uuid5(const char *namespace_uuid, struct str name, char out[UUID_SIZE]) warn_unused;
/* Accepts upper/lower case with or without dashes/braces like a lenient parser; canonical lower-case out. */
bool uuid_parse(struct str s, char out[UUID_SIZE]) warn_unused;
bool uuid_is_canonical(struct str s); /* lower-case 8-4-4-4-12 hex */
bool uuid_is_v4(struct str s);        /* canonical and version 4, variant 8..b */

void sha256(struct str data, unsigned char out[32]);
void sha256_hex(struct str data, char out[65]);
void hmac_sha256(struct str key, struct str data, unsigned char out[32]);
void hmac_sha256_2(struct str key, struct str a, struct str b,
                   unsigned char out[32]); /* of a followed by b, no copy */
void hmac_sha256_hex(struct str key, struct str data, char out[65]);
bool const_time_eq(struct str a, struct str b);
void hex_encode(const void *p, size_t n, char *out); /* 2n + 1 bytes */
bool hex_decode(struct str hex, unsigned char *out); /* n/2 bytes */

struct str base64_encode(struct arena *a, struct str data);
struct str base64url_encode(struct arena *a, struct str data); /* without padding */
/* Accepts both alphabets, white space and missing padding; false on anything else or over `max` decoded bytes. */
bool base64_decode(struct arena *a, struct str text, size_t max, struct str *out,
                   struct error *err) warn_unused;
/* Alphabet characters, unbiased. out: n + 1 bytes. */
void random_text(const char *alphabet, size_t n, char *out);

/* Argon2id, PHC string, argon2-cffi's defaults (t=3, m=64 MiB, p=4, 32-byte hash, 16-byte salt). ~100 ms of CPU: worker only. */
bool password_hash(struct str password, char out[256], struct error *err) warn_unused;
/* Any argon2i/argon2id PHC string; false for a wrong password, an empty or a malformed hash. Worker only. */
bool password_verify(const char *phc, struct str password);

/* HS256 only. Claims in, token out (arena). The secret is the key's raw bytes. */
struct str jwt_sign(struct arena *a, const json_t *claims, const char *typ_or_null,
                    struct str secret, struct error *err);
/* Checks structure, algorithm list {HS256}, signature, `exp` (required, seconds; now = time_wall_us). New reference to the claims;
 * ERR_UNAUTHORIZED otherwise. iss/aud are the caller's to check. Header `typ` goes to *typ if not NULL (arena). */
json_t *jwt_verify(struct arena *a, struct str token, struct str secret, const char **typ,
                   struct error *err);
json_t *jwt_peek(struct arena *a, struct str token, struct error *err); /* unverified payload */
bool ed25519_verify(const unsigned char key[32], struct str message, struct str signature);

/* Sealing of secrets at rest: AES-256-GCM, random nonce, "sealed:v1:" + base64. `context` binds the place (table.column.row). */
struct seal_key {
    unsigned char k[32];
};
bool seal(struct arena *a, const struct seal_key *key, struct str context, struct str plain,
          struct str *out, struct error *err) warn_unused;
/* A text without the prefix is returned unchanged (data from before sealing). ERR_INTERNAL when the key or context differs. */
bool unseal(struct arena *a, const struct seal_key *key, struct str context, struct str text,
            struct str *out, struct error *err) warn_unused;

/* Unicode casefold + trim of an e-mail (tenancy.md §2 users): must contain '@', 1..320 code points. */
bool email_normalize(struct arena *a, struct str email, struct str *out,
                     struct error *err) warn_unused;

#endif
