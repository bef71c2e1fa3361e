/* digest: SHA-256 and HMAC-SHA-256.
 *
 * Both are on the way of every authenticated request. Looking an algorithm up and making a context costs more than the
 * digest of a token, so the algorithms are fetched once and each thread keeps one context of each. */
#include "crypto/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdlib.h>

struct contexts {
    EVP_MD_CTX *sha;
    EVP_MAC_CTX *mac;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static EVP_MD *sha256_md;
static EVP_MAC *hmac_mac;
static _Thread_local struct contexts mine;

/* Digests can only fail for want of memory while a context is made; no caller could go on without its answer. */
static void must(bool ok)
{
    if (!ok) {
        log_error("crypto", "OpenSSL has no working SHA-256");
        abort();
    }
}

static void release(void *arg)
{
    struct contexts *c = arg;
    EVP_MD_CTX_free(c->sha);
    EVP_MAC_CTX_free(c->mac);
    *c = (struct contexts){NULL, NULL};
}

static void fetch(void)
{
    sha256_md = EVP_MD_fetch(NULL, "SHA256", NULL);
    hmac_mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    must(sha256_md && hmac_mac && pthread_key_create(&at_thread_end, release) == 0);
}

static struct contexts *contexts(void)
{
    if (mine.mac) {
        return &mine;
    }
    pthread_once(&once, fetch);
    char name[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    mine.sha = EVP_MD_CTX_new();
    mine.mac = EVP_MAC_CTX_new(hmac_mac);
    must(mine.sha && mine.mac && EVP_MAC_CTX_set_params(mine.mac, params) == 1);
    pthread_setspecific(at_thread_end, &mine);
    return &mine;
}

void sha256(struct str data, unsigned char out[32])
{
    EVP_MD_CTX *ctx = contexts()->sha;
    must(EVP_DigestInit_ex2(ctx, sha256_md, NULL) == 1 &&
         EVP_DigestUpdate(ctx, data.p, data.n) == 1 && EVP_DigestFinal_ex(ctx, out, NULL) == 1);
}

void sha256_hex(struct str data, char out[65])
{
    unsigned char digest[32];
    sha256(data, digest);
    hex_encode(digest, sizeof(digest), out);
}

void hmac_sha256_2(struct str key, struct str a, struct str b, unsigned char out[32])
{
    EVP_MAC_CTX *ctx = contexts()->mac;
    /* NULL would mean "the key of last time". */
    const unsigned char *k = (const unsigned char *)(key.n ? key.p : "");
    must(EVP_MAC_init(ctx, k, key.n, NULL) == 1 &&
         (!a.n || EVP_MAC_update(ctx, (const unsigned char *)a.p, a.n) == 1) &&
         (!b.n || EVP_MAC_update(ctx, (const unsigned char *)b.p, b.n) == 1) &&
         EVP_MAC_final(ctx, out, NULL, 32) == 1);
}

void hmac_sha256(struct str key, struct str data, unsigned char out[32])
{
    hmac_sha256_2(key, data, STR_NONE, out);
}

void hmac_sha256_hex(struct str key, struct str data, char out[65])
{
    unsigned char digest[32];
    hmac_sha256(key, data, digest);
    hex_encode(digest, sizeof(digest), out);
}

bool const_time_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || CRYPTO_memcmp(a.p, b.p, a.n) == 0);
}

bool ed25519_verify(const unsigned char key[32], struct str message, struct str signature)
{
    if (signature.n != 64) {
        return false;
    }
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, 32);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
              EVP_DigestVerify(ctx, (const unsigned char *)signature.p, signature.n,
                               (const unsigned char *)(message.n ? message.p : ""), message.n) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return ok;
}
