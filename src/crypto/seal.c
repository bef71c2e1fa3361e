/* seal: secrets at rest. "sealed:v1:" + base64(nonce 12 | ciphertext | tag 16), AES-256-GCM, the place as associated data,
 * so that a sealed text copied into another row or column does not open. */
#include "crypto/crypto.h"

#include <openssl/evp.h>
#include <pthread.h>

#define PREFIX    "sealed:v1:"
#define NONCE     12
#define TAG       16
#define PLAIN_MAX ((size_t)16 << 20)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_CIPHER *aes;

static void fetch(void)
{
    aes = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
}

/* One pass in either direction; `tag` is written when encrypting and checked when decrypting. */
static bool run(const struct seal_key *key, struct str context, const unsigned char *nonce,
                const void *in, size_t n, unsigned char *out, unsigned char *tag, int encrypt)
{
    pthread_once(&once, fetch);
    EVP_CIPHER_CTX *ctx = aes ? EVP_CIPHER_CTX_new() : NULL;
    unsigned char none[1];
    int got;
    bool ok = ctx && EVP_CipherInit_ex2(ctx, aes, key->k, nonce, encrypt, NULL) == 1 &&
              (!context.n || EVP_CipherUpdate(ctx, NULL, &got, (const unsigned char *)context.p,
                                              (int)context.n) == 1) &&
              (!n || EVP_CipherUpdate(ctx, out, &got, in, (int)n) == 1) &&
              (encrypt || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, tag) == 1) &&
              EVP_CipherFinal_ex(ctx, none, &got) == 1 &&
              (!encrypt || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1);
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

bool seal(struct arena *a, const struct seal_key *key, struct str context, struct str plain,
          struct str *out, struct error *err)
{
    if (plain.n > PLAIN_MAX || context.n > PLAIN_MAX) {
        return err_set(err, ERR_TOO_LARGE, "a secret larger than %zu bytes", PLAIN_MAX);
    }
    unsigned char *blob = arena_alloc(a, NONCE + plain.n + TAG);
    if (!blob) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    crypto_random(blob, NONCE);
    if (!run(key, context, blob, plain.p, plain.n, blob + NONCE, blob + NONCE + plain.n, 1)) {
        return err_set(err, ERR_INTERNAL, "a secret cannot be sealed");
    }
    struct str text = base64_encode(a, str_n((const char *)blob, NONCE + plain.n + TAG));
    struct str sealed = text.p ? str_fmt(a, PREFIX STR_FMT, STR_ARG(text)) : STR_NONE;
    if (!sealed.p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = sealed;
    return true;
}

bool unseal(struct arena *a, const struct seal_key *key, struct str context, struct str text,
            struct str *out, struct error *err)
{
    struct str blob;
    if (!str_starts(text, S(PREFIX))) {
        *out = text;
        return true;
    }
    if (!base64_decode(a, str_sub(text, sizeof(PREFIX) - 1, text.n), PLAIN_MAX + NONCE + TAG, &blob,
                       err)) {
        return err->code == ERR_NOMEM ? false
                                      : err_set(err, ERR_INTERNAL, "a sealed secret is damaged");
    }
    if (blob.n < NONCE + TAG) {
        return err_set(err, ERR_INTERNAL, "a sealed secret is damaged");
    }
    size_t n = blob.n - NONCE - TAG;
    const unsigned char *b = (const unsigned char *)blob.p;
    unsigned char *plain = arena_alloc(a, n + 1), tag[TAG];
    if (!plain) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    memcpy(tag, b + NONCE + n, TAG);
    if (!run(key, context, b, b + NONCE, n, plain, tag, 0)) {
        memset(plain, 0, n);
        return err_set(err, ERR_INTERNAL,
                       "a sealed secret does not open: the secret key is another one than that it "
                       "was sealed with, or it belongs to another place");
    }
    plain[n] = '\0';
    *out = str_n((const char *)plain, n);
    return true;
}
