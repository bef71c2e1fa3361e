/* password: Argon2 hashes in PHC form. */
#include "crypto/crypto.h"

#include <argon2.h>

/* What a stored hash may ask of us: rows can come from an import, and a forged one must not eat the machine. */
#define MEMORY_MAX_KIB (1u << 20)
#define PASSES_MAX     64u
#define LANES_MAX      64u

bool password_hash(struct str password, char out[256], struct error *err)
{
    unsigned char salt[16];
    crypto_random(salt, sizeof(salt));
    int rc = argon2id_hash_encoded(3, 65536, 4, password.n ? password.p : "", password.n, salt,
                                   sizeof(salt), 32, out, 256);
    if (rc != ARGON2_OK) {
        return err_set(err, rc == ARGON2_MEMORY_ALLOCATION_ERROR ? ERR_NOMEM : ERR_INTERNAL,
                       "password hash: %s", argon2_error_message(rc));
    }
    return true;
}

/* The number behind "m=", "t=" or "p=" in the parameter part; -1 if it is missing. */
static int64_t parameter(struct str parameters, char name)
{
    struct str part;
    int64_t n;
    while (str_split(&parameters, ',', &part)) {
        if (part.n > 2 && part.p[0] == name && part.p[1] == '=' &&
            str_to_i64(str_sub(part, 2, part.n), &n)) {
            return n;
        }
    }
    return -1;
}

static bool affordable(struct str phc)
{
    struct str rest = phc, part;
    while (str_split(&rest, '$', &part)) {
        if (str_starts(part, S("m="))) {
            int64_t m = parameter(part, 'm'), t = parameter(part, 't'), p = parameter(part, 'p');
            return m > 0 && m <= MEMORY_MAX_KIB && t > 0 && t <= PASSES_MAX && p > 0 &&
                   p <= LANES_MAX;
        }
    }
    return false;
}

bool password_verify(const char *phc, struct str password)
{
    struct str s = str_c(phc);
    if (s.n > 512 || !affordable(s)) {
        return false;
    }
    const char *p = password.n ? password.p : "";
    if (str_starts(s, S("$argon2id$"))) {
        return argon2id_verify(phc, p, password.n) == ARGON2_OK;
    }
    return str_starts(s, S("$argon2i$")) && argon2i_verify(phc, p, password.n) == ARGON2_OK;
}
