/* Digests, tokens, sealing, passwords, identifiers: published vectors, refusals, failing memory. */
#include "crypto/crypto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct arena *arena;

static int setup(void **state)
{
    base_init();
    arena = arena_new((size_t)64 << 20);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    arena_free(arena);
    mem_fail_after(0, false);
    time_shift_us(0, 0);
    return 0;
}

static void test_sha256(void **state)
{
    char hex[65];
    sha256_hex(S("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex(STR_NONE, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_hmac(void **state)
{
    char hex[65], long_key[131];
    unsigned char a[32], b[32];
    memset(long_key, 0xaa, sizeof(long_key));
    hmac_sha256_hex(S("Jefe"), S("what do ya want for nothing?"), hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hmac_sha256_hex(str_n(long_key, sizeof(long_key)),
                    S("Test Using Larger Than Block-Size Key - Hash Key First"), hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    /* An empty key is a key, not the one of before. */
    hmac_sha256_hex(STR_NONE, STR_NONE, hex);
    assert_string_equal(hex, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    hmac_sha256(S("k"), S("onetwo"), a);
    hmac_sha256_2(S("k"), S("one"), S("two"), b);
    assert_memory_equal(a, b, 32);
}

static void *digest_elsewhere(void *arg)
{
    char hex[65];
    bool ok = true;
    for (int i = 0; i < 1000; i++) {
        hmac_sha256_hex(S("Jefe"), S("what do ya want for nothing?"), hex);
        ok = ok && str_starts(str_c(hex), S("5bdcc146bf60754e"));
        sha256_hex(S("abc"), hex);
        ok = ok && str_starts(str_c(hex), S("ba7816bf8f01cfea"));
    }
    *(bool *)arg = ok;
    return NULL;
}

static void test_digests_in_threads(void **state)
{
    pthread_t threads[4];
    bool ok[4] = {false};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, digest_elsewhere, &ok[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

static void test_compare(void **state)
{
    assert_true(const_time_eq(S("abc"), S("abc")));
    assert_false(const_time_eq(S("abc"), S("abd")));
    assert_false(const_time_eq(S("abc"), S("ab")));
    assert_true(const_time_eq(STR_NONE, S("")));
}

static void test_hex(void **state)
{
    unsigned char b[4];
    char hex[9];
    assert_true(hex_decode(S("00fFA5"), b));
    assert_memory_equal(b, "\x00\xff\xa5", 3);
    hex_encode(b, 3, hex);
    assert_string_equal(hex, "00ffa5");
    assert_false(hex_decode(S("0"), b));
    assert_false(hex_decode(S("0g"), b));
    assert_true(hex_decode(S(""), b));
}

/* They stand in the order in which they were made, apart from those of one instant. */
static void test_uuid_ordered(void **state)
{
    char first[UUID_SIZE], again[UUID_SIZE], later[UUID_SIZE];
    uuid4_ordered(first);
    uuid4_ordered(again);
    int64_t until = time_wall_us() + 2000;
    while (time_wall_us() < until)
        ;
    uuid4_ordered(later);
    assert_true(uuid_is_v4(str_c(first)));
    assert_true(uuid_is_v4(str_c(later)));
    assert_string_not_equal(first, again);
    assert_true(strncmp(first, again, 18) <= 0);
    assert_true(strcmp(again, later) < 0);
}

static void test_uuid(void **state)
{
    char a[UUID_SIZE], b[UUID_SIZE];
    uuid4(a);
    uuid4(b);
    assert_string_not_equal(a, b);
    assert_true(uuid_is_v4(str_c(a)));
    assert_true(uuid5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", S("python.org"), a));
    assert_string_equal(a, "886313e1-3b8a-5372-9b90-0c9aee199e5d");
    assert_true(uuid_is_canonical(str_c(a)));
    assert_false(uuid_is_v4(str_c(a)));
    assert_false(uuid5("none", S("x"), a));
    static const char *const same[] = {
        "886313E1-3B8A-5372-9B90-0C9AEE199E5D", "{886313e1-3b8a-5372-9b90-0c9aee199e5d}",
        "886313e13b8a53729b900c9aee199e5d", "urn:uuid:886313e1-3b8a-5372-9b90-0c9aee199e5d"};
    for (size_t i = 0; i < array_len(same); i++) {
        assert_true(uuid_parse(str_c(same[i]), b));
        assert_string_equal(b, "886313e1-3b8a-5372-9b90-0c9aee199e5d");
        assert_false(uuid_is_canonical(str_c(same[i])));
    }
    assert_false(uuid_parse(S(""), b));
    assert_false(uuid_parse(S("886313e13b8a53729b900c9aee199e5"), b));
    assert_false(uuid_parse(S("886313e13b8a53729b900c9aee199e5dd"), b));
    assert_false(uuid_parse(S("g86313e13b8a53729b900c9aee199e5d"), b));
}

static void test_base64(void **state)
{
    struct error err;
    struct str out;
    static const struct {
        const char *plain, *text, *url;
    } cases[] = {{"", "", ""},
                 {"f", "Zg==", "Zg"},
                 {"fo", "Zm8=", "Zm8"},
                 {"foo", "Zm9v", "Zm9v"},
                 {"\xfb\xff\xbf", "+/+/", "-_-_"}};
    for (size_t i = 0; i < array_len(cases); i++) {
        struct str plain = str_c(cases[i].plain);
        assert_true(str_eqz(base64_encode(arena, plain), cases[i].text));
        assert_true(str_eqz(base64url_encode(arena, plain), cases[i].url));
        assert_true(base64_decode(arena, str_c(cases[i].text), 10, &out, &err));
        assert_true(str_eq(out, plain));
        assert_true(base64_decode(arena, str_c(cases[i].url), 10, &out, &err));
        assert_true(str_eq(out, plain));
    }
    assert_true(base64_decode(arena, S(" Zm \r\n9v\t"), 3, &out, &err));
    assert_true(str_eqz(out, "foo"));
    assert_false(base64_decode(arena, S("Zm9v"), 2, &out, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    static const char *const bad[] = {"Z",     "Zg=a",  "Zg=",  "=",
                                      "Zm9v=", "Zg===", "Z*==", "Zm9v\x80"};
    for (size_t i = 0; i < array_len(bad); i++) {
        assert_false(base64_decode(arena, str_c(bad[i]), 10, &out, &err));
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_random_text(void **state)
{
    char text[3001];
    size_t seen[3] = {0};
    random_text("abc", 3000, text);
    assert_int_equal(strlen(text), 3000);
    for (size_t i = 0; i < 3000; i++) {
        assert_in_range(text[i], 'a', 'c');
        seen[text[i] - 'a']++;
    }
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(seen[i], 800, 1200);
    }
    random_text("", 5, text);
    assert_string_equal(text, "");
}

static void test_passwords(void **state)
{
    struct error err;
    char phc[256];
    assert_true(password_hash(S("päss word"), phc, &err));
    assert_true(str_starts(str_c(phc), S("$argon2id$v=19$m=65536,t=3,p=4$")));
    assert_true(password_verify(phc, S("päss word")));
    assert_false(password_verify(phc, S("pass word")));
    static const char id[] =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    static const char i[] =
        "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8";
    assert_true(password_verify(id, S("password")));
    assert_true(password_verify(i, S("password")));
    assert_false(password_verify(id, S("")));
    static const char *const bad[] = {
        "",
        "x",
        "$",
        "$argon2id$",
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ",
        "$argon2d$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=4000000000,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=2$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$2b$12$abcdefghijklmnopqrstuv"};
    for (size_t k = 0; k < array_len(bad); k++) {
        assert_false(password_verify(bad[k], S("password")));
    }
    assert_false(password_verify(NULL, S("password")));
}

/* ---- tokens ------------------------------------------------------------------------------------------------------- */

static const struct str secret = {"0123456789abcdef0123456789abcdef", 32};

/* A token of any header and payload text, rightly signed. */
static struct str forged(const char *header, const char *payload)
{
    unsigned char mac[32];
    struct str head =
        str_fmt(arena, STR_FMT "." STR_FMT, STR_ARG(base64url_encode(arena, str_c(header))),
                STR_ARG(base64url_encode(arena, str_c(payload))));
    hmac_sha256(secret, head, mac);
    return str_fmt(arena, STR_FMT "." STR_FMT, STR_ARG(head),
                   STR_ARG(base64url_encode(arena, str_n((const char *)mac, 32))));
}

static json_t *claims_for(int64_t seconds)
{
    return json_pack("{s:s, s:I}", "user", "ö@example.com", "exp",
                     (json_int_t)(time_wall_us() / 1000000 + seconds));
}

static void test_jwt_round_trip(void **state)
{
    struct error err;
    const char *typ = NULL;
    auto_json claims = claims_for(60);
    struct str token = jwt_sign(arena, claims, NULL, secret, &err);
    assert_true(str_starts(token, S("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.")));
    auto_json back = jwt_verify(arena, token, secret, &typ, &err);
    assert_true(json_equal(back, claims));
    assert_string_equal(typ, "JWT");
    struct str special = jwt_sign(arena, claims, "langbot-support-admin+jwt", secret, &err);
    auto_json again = jwt_verify(arena, special, secret, &typ, &err);
    assert_true(json_equal(again, claims));
    assert_string_equal(typ, "langbot-support-admin+jwt");
    auto_json peeked = jwt_peek(arena, token, &err);
    assert_true(json_equal(peeked, claims));
    assert_null(jwt_verify(arena, token, S("another"), NULL, &err));
    assert_int_equal(err.code, ERR_UNAUTHORIZED);
    assert_null(jwt_verify(arena, token, STR_NONE, NULL, &err));
    assert_null(jwt_sign(arena, claims, NULL, STR_NONE, &err).p);
    assert_null(jwt_sign(arena, NULL, NULL, secret, &err).p);
    /* Any other byte anywhere spoils it. */
    char copy[512];
    snprintf(copy, sizeof(copy), STR_FMT, STR_ARG(token));
    for (size_t i = 0; i + 1 < token.n; i++) {
        char old = copy[i];
        copy[i] = old == 'A' ? 'B' : 'A';
        assert_null(jwt_verify(arena, str_n(copy, token.n), secret, NULL, &err));
        copy[i] = old;
    }
}

/* RFC 7515 A.1: a foreign signer's layout of the header, in its own time. */
static void test_jwt_of_the_rfc(void **state)
{
    struct error err;
    struct str key;
    const char *typ;
    static const struct str token = S(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_true(base64_decode(
        arena,
        S("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"),
        64, &key, &err));
    assert_null(jwt_verify(arena, token, key, NULL, &err));
    assert_string_equal(err.msg, "invalid token: expired");
    time_shift_us((INT64_C(1300819379) * 1000000) - time_wall_us(), 0);
    auto_json claims = jwt_verify(arena, token, key, &typ, &err);
    assert_string_equal(json_z(claims, "iss"), "joe");
    assert_string_equal(typ, "JWT");
}

static void test_jwt_refused(void **state)
{
    struct error err;
    char later[64];
    snprintf(later, sizeof(later), "{\"exp\": %lld}", (long long)(time_wall_us() / 1000000 + 60));
    static const char *const headers[] = {"{\"alg\":\"none\"}",
                                          "{\"alg\":\"HS512\"}",
                                          "{\"alg\":\"hs256\"}",
                                          "{}",
                                          "[]",
                                          "x",
                                          "{\"alg\":[\"HS256\"]}",
                                          "{\"alg\":\"RS256\",\"typ\":\"JWT\"}",
                                          "{\"alg\":\"HS256\",\"crit\":[\"x\"]}"};
    for (size_t i = 0; i < array_len(headers); i++) {
        assert_null(jwt_verify(arena, forged(headers[i], later), secret, NULL, &err));
        assert_int_equal(err.code, ERR_UNAUTHORIZED);
    }
    static const char *const payloads[] = {"{}",
                                           "[]",
                                           "{\"exp\": \"x\"}",
                                           "{\"exp\": null}",
                                           "{\"exp\": 1}",
                                           "{\"exp\": -1e300}",
                                           "x",
                                           "",
                                           "{\"exp\": 99999999999, \"nbf\": 99999999999}",
                                           "{\"exp\": 99999999999, \"nbf\": \"0\"}"};
    for (size_t i = 0; i < array_len(payloads); i++) {
        assert_null(
            jwt_verify(arena, forged("{\"alg\":\"HS256\"}", payloads[i]), secret, NULL, &err));
        assert_int_equal(err.code, ERR_UNAUTHORIZED);
    }
    static const char *const tokens[] = {"",
                                         ".",
                                         "..",
                                         "...",
                                         "a.b",
                                         "a.b.c",
                                         "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30",
                                         "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.",
                                         "eyJhbGciOiJub25lIn0.e30."};
    for (size_t i = 0; i < array_len(tokens); i++) {
        assert_null(jwt_verify(arena, str_c(tokens[i]), secret, NULL, &err));
        assert_int_equal(err.code, ERR_UNAUTHORIZED);
    }
    struct str good = forged("{\"alg\":\"HS256\"}", later);
    json_t *j = jwt_verify(arena, good, secret, NULL, &err);
    assert_non_null(j);
    json_decref(j);
    assert_null(jwt_verify(arena, str_fmt(arena, STR_FMT "=", STR_ARG(good)), secret, NULL, &err));
    assert_null(jwt_verify(arena, str_fmt(arena, STR_FMT ".x", STR_ARG(good)), secret, NULL, &err));
    assert_null(jwt_verify(arena, str_fmt(arena, "%20000d", 1), secret, NULL, &err));
    const char *typ = "x";
    j = jwt_verify(arena, good, secret, &typ, &err);
    assert_null(typ);
    json_decref(j);
    assert_null(jwt_peek(arena, S("a.b"), &err));
    assert_null(jwt_peek(arena, S("a.b.c"), &err));
}

static void test_ed25519(void **state)
{
    unsigned char key[32], sig[64];
    assert_true(
        hex_decode(S("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"), key));
    assert_true(hex_decode(
        S("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
          "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        sig));
    struct str signature = str_n((const char *)sig, 64);
    assert_true(ed25519_verify(key, STR_NONE, signature));
    assert_false(ed25519_verify(key, S("x"), signature));
    assert_false(ed25519_verify(key, STR_NONE, str_sub(signature, 0, 63)));
    sig[0] ^= 1;
    assert_false(ed25519_verify(key, STR_NONE, signature));
}

/* ---- sealing ------------------------------------------------------------------------------------------------------ */

static void test_seal(void **state)
{
    struct error err;
    struct seal_key key = {{1}}, other = {{2}};
    struct str sealed, again, plain;
    assert_true(seal(arena, &key, S("t.c.1"), S("secret"), &sealed, &err));
    assert_true(seal(arena, &key, S("t.c.1"), S("secret"), &again, &err));
    assert_true(str_starts(sealed, S("sealed:v1:")));
    assert_false(str_eq(sealed, again));
    assert_true(str_find(sealed, S("secret")) < 0);
    assert_true(unseal(arena, &key, S("t.c.1"), sealed, &plain, &err));
    assert_true(str_eqz(plain, "secret"));
    assert_false(unseal(arena, &key, S("t.c.2"), sealed, &plain, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_false(unseal(arena, &other, S("t.c.1"), sealed, &plain, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_null(strstr(err.msg, "secret\""));
    assert_true(unseal(arena, &key, S("t.c.1"), S("from before"), &plain, &err));
    assert_true(str_eqz(plain, "from before"));
    assert_true(seal(arena, &key, STR_NONE, STR_NONE, &sealed, &err));
    assert_true(unseal(arena, &key, STR_NONE, sealed, &plain, &err));
    assert_int_equal(plain.n, 0);
    static const char *const bad[] = {"sealed:v1:", "sealed:v1:AAAA", "sealed:v1:*", "sealed:v1:Z"};
    for (size_t i = 0; i < array_len(bad); i++) {
        assert_false(unseal(arena, &key, STR_NONE, str_c(bad[i]), &plain, &err));
        assert_int_equal(err.code, ERR_INTERNAL);
    }
}

/* ---- e-mail ------------------------------------------------------------------------------------------------------- */

static void test_email(void **state)
{
    struct error err;
    struct str out;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {" Owner@Example.COM\n", "owner@example.com"},
        {"STRASSE@ß.de", "strasse@ss.de"},
        {"ŞÖ@X", "şö@x"},
        {"\xe2\x80\x83"
         "Σς@x\xc2\xa0",
         "σσ@x"},
        {"ŉ@x", "ʼn@x"},
        {"İ@x", "i\xcc\x87@x"},
        {"ﬃ@x", "ffi@x"},
        {"@", "@"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        assert_true(email_normalize(arena, str_c(cases[i].in), &out, &err));
        if (!str_eqz(out, cases[i].out)) {
            fail_msg("%s gives " STR_FMT, cases[i].in, STR_ARG(out));
        }
    }
    char text[1300];
    memset(text, 'A', sizeof(text));
    text[0] = '@';
    assert_true(email_normalize(arena, str_n(text, 320), &out, &err));
    assert_int_equal(out.n, 320);
    assert_false(email_normalize(arena, str_n(text, 321), &out, &err));
    assert_int_equal(err.code, ERR_INVALID);
    /* 320 before, more after the fold. */
    for (size_t i = 0; i < 319; i++) {
        memcpy(text + 1 + i * 2, "ß", 2);
    }
    assert_false(email_normalize(arena, str_n(text, 639), &out, &err));
    static const char *const bad[] = {"", " ", "nobody", "\xff@x"};
    for (size_t i = 0; i < array_len(bad); i++) {
        assert_false(email_normalize(arena, str_c(bad[i]), &out, &err));
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void use_all(size_t max, struct error *err, bool *ok)
{
    struct seal_key key = {{1}};
    auto_arena a = arena_new(max);
    struct str sealed, plain, mail;
    const char *typ;
    *ok = false;
    auto_json claims = claims_for(60);
    if (!a || !claims) {
        err_set(err, ERR_NOMEM, "out of memory");
        return;
    }
    struct str token = jwt_sign(a, claims, "special", secret, err);
    if (!token.p) {
        return;
    }
    auto_json back = jwt_verify(a, token, secret, &typ, err);
    *ok = back && seal(a, &key, S("c"), S("plain"), &sealed, err) &&
          unseal(a, &key, S("c"), sealed, &plain, err) && email_normalize(a, S("A@b"), &mail, err);
}

static void test_failing_allocations(void **state)
{
    bool ok = false;
    for (long nth = 1; !ok; nth++) {
        struct error err = {.code = ERR_NONE};
        long before = mem_live();
        mem_fail_after(nth, true);
        use_all(1 << 20, &err, &ok);
        mem_fail_after(0, false);
        assert_int_equal(mem_live(), before);
        assert_int_equal(err.code, ok ? ERR_NONE : ERR_NOMEM);
        assert_true(nth < 1000);
    }
    /* Arenas that are full instead of memory that ends. */
    ok = false;
    for (size_t max = 1024; !ok; max += 16) {
        struct error err = {.code = ERR_NONE};
        use_all(max, &err, &ok);
        assert_int_equal(err.code, ok ? ERR_NONE : ERR_NOMEM);
        assert_true(max < 65536);
    }
}

/* Each function in an arena that is filled up to some bytes. */
static void test_full_arenas(void **state)
{
    const struct str text = S("An address of some length@example.com");
    struct seal_key key = {{1}};
    struct str sealed, out;
    struct error err = {.code = ERR_NONE};
    auto_json claims = claims_for(60);
    struct str token = jwt_sign(arena, claims, "special", secret, &err);
    assert_true(seal(arena, &key, S("c"), text, &sealed, &err));
    size_t done[5] = {0}, refused[5] = {0};
    for (size_t left = 0; left < 900; left += 4) {
        for (int i = 0; i < 5; i++) {
            auto_arena a = arena_new(4096);
            const char *typ;
            err = (struct error){.code = ERR_NONE};
            assert_non_null(arena_alloc(a, 4096 - 64 - left));
            auto_json back = NULL;
            bool ok = i == 0   ? jwt_sign(a, claims, "special", secret, &err).p != NULL
                      : i == 1 ? (back = jwt_verify(a, token, secret, &typ, &err)) != NULL
                      : i == 2 ? seal(a, &key, S("c"), text, &out, &err)
                      : i == 3 ? unseal(a, &key, S("c"), sealed, &out, &err)
                               : email_normalize(a, text, &out, &err);
            assert_int_equal(err.code, ok ? ERR_NONE : ERR_NOMEM);
            done[i] += ok;
            refused[i] += !ok;
        }
    }
    for (int i = 0; i < 5; i++)
        assert_true(done[i] > 0 && refused[i] > 0);
}

static void test_sizes(void **state)
{
    struct seal_key key = {{1}};
    struct error err = {.code = ERR_NONE};
    struct str out, big = str_n(arena_alloc(arena, 17 << 20), 17 << 20);
    memset((char *)(uintptr_t)big.p, 'x', big.n);
    assert_false(seal(arena, &key, S("c"), big, &out, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    auto_json claims = claims_for(60);
    json_set(claims, "long", json_strn(str_sub(big, 0, 20000)));
    assert_null(jwt_sign(arena, claims, NULL, secret, &err).p);
    assert_non_null(strstr(err.msg, "more than"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_sha256),
        T(test_hmac),
        T(test_digests_in_threads),
        T(test_compare),
        T(test_hex),
        T(test_uuid),
        T(test_uuid_ordered),
        T(test_base64),
        T(test_random_text),
        T(test_passwords),
        T(test_jwt_round_trip),
        T(test_jwt_of_the_rfc),
        T(test_jwt_refused),
        T(test_ed25519),
        T(test_seal),
        T(test_email),
        T(test_failing_allocations),
        T(test_full_arenas),
        T(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
