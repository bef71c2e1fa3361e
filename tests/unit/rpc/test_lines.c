/* The line framing (box.md §14 A): what is one message, what a sequence of chunks, what ends a connection. */
#include "rpc/rpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Everything that the reader makes of a text, joined by '|'; "!" at the end where it broke off. */
static char *read_all(struct str text, size_t step)
{
    struct rpc_lines l;
    struct error err = {0};
    static char out[1 << 16];
    size_t n = 0;
    rpc_lines_init(&l);
    for (size_t at = 0; at < text.n; at += step) {
        struct str s, piece = str_sub(text, at, step);
        assert_true(rpc_lines_add(&l, piece.p, piece.n, &err));
        while (rpc_lines_next(&l, &s, &err)) {
            memcpy(out + n, s.p, s.n);
            n += s.n;
            out[n++] = '|';
        }
        if (err.code != ERR_NONE) {
            assert_int_equal(err.code, ERR_PROTOCOL);
            out[n++] = '!';
            break;
        }
    }
    out[n] = '\0';
    rpc_lines_free(&l);
    return out;
}

static void reads(const char *text, const char *expected)
{
    for (size_t step = 1; step < 9; step++)
        assert_string_equal(read_all(str_c(text), step), expected);
    assert_string_equal(read_all(str_c(text), 10000), expected);
}

static void test_lines(void **state)
{
    reads("{\"a\":1}\n", "{\"a\":1}|");
    reads("\n  \n {\"a\":1} \r\n\n{\"b\":2}\n", "{\"a\":1}|{\"b\":2}|");
    reads("noise\n[1]\n\"x\"\n{\"a\":1} trailing\n{}\n", "{}|");
    reads("{not json}\n", "{not json}|"); /* dropped one floor up, with a warning */
    reads("{\"type\":\"other\"}\n", "{\"type\":\"other\"}|");
    reads("{\"type\":\"chunk_data\",\"data\":\"x\",\"offset\":0}\n{\"type\":\"chunk_end\"}\n{}\n",
          "{}|");
    reads("{\"a\":1}", "");
}

#define START(n)   "{\"type\":\"chunk_start\",\"total_size\":" n "}\n"
#define DATA(t, o) "{\"type\":\"chunk_data\",\"data\":\"" t "\",\"offset\":" o "}\n"
#define END        "{\"type\":\"chunk_end\"}\n"

static void test_sequences(void **state)
{
    reads(START("5") DATA("ab", "0") DATA("cde", "2") END, "abcde|");
    reads(START("0") END, "|");
    reads(START("3") "\n{bad\n{\"type\":\"x\"}\n" START("9") DATA("", "0") DATA("\xe2\x82\xac", "0")
              END,
          "\xe2\x82\xac|");
    reads(START("10") DATA("ab", "1"), "!");
    reads(START("1") DATA("ab", "0"), "!");
    reads(START("3") DATA("ab", "0") END, "!");
    reads(START("-1"), "!");
    reads(START("16777217"), "!");
    reads("{\"type\":\"chunk_start\"}\n", "!");
    reads(START("2") "{\"type\":\"chunk_data\",\"data\":5,\"offset\":0}\n", "!");
}

static void test_too_many_lines(void **state)
{
    struct buf b = BUF(1 << 20);
    buf_z(&b, START("2"));
    for (int i = 0; i < RPC_FRAGMENTS_MAX - 2; i++)
        buf_z(&b, "\n");
    buf_z(&b, DATA("{}", "0") END);
    assert_string_equal(read_all(buf_view(&b), 1 << 16), "{}|");
    buf_clear(&b);
    buf_z(&b, START("2"));
    for (int i = 0; i <= RPC_FRAGMENTS_MAX; i++)
        buf_z(&b, DATA("", "0"));
    assert_string_equal(read_all(buf_view(&b), 1 << 16), "!");
    buf_free(&b);
}

/* What is written is read back, and no line is longer than readers take. */
static void test_round_trip(void **state)
{
    static const char *const fills[] = {"a", "\"", "\\", "\xc3\xa9", "\xf0\x9f\x98\x80", "\x01"};
    static const size_t sizes[] = {1, RPC_CHUNK - 1, RPC_CHUNK, RPC_CHUNK + 1, 100000, 1 << 20};
    for (size_t f = 0; f < array_len(fills); f++) {
        for (size_t s = 0; s < array_len(sizes); s++) {
            struct error err = {0};
            struct buf text = BUF(4 << 20), out = BUF(16 << 20);
            struct rpc_lines l;
            struct str got;
            buf_c(&text, '{');
            while (text.n + 5 < sizes[s])
                buf_z(&text, fills[f]);
            buf_c(&text, '}');
            assert_true(rpc_lines_put(&out, buf_view(&text), &err));
            struct str rest = buf_view(&out), line;
            assert_int_equal(text.n <= RPC_CHUNK, str_chr(rest, '\n') == (ptrdiff_t)out.n - 1);
            while (str_split(&rest, '\n', &line))
                assert_true(line.n < RPC_LINE_MAX);
            rpc_lines_init(&l);
            assert_true(rpc_lines_add(&l, out.p, out.n, &err));
            assert_true(rpc_lines_next(&l, &got, &err));
            assert_true(str_eq(got, buf_view(&text)));
            assert_false(rpc_lines_next(&l, &got, &err));
            assert_int_equal(err.code, ERR_NONE);
            rpc_lines_free(&l);
            buf_free(&text);
            buf_free(&out);
        }
    }
}

static void test_too_large_to_send(void **state)
{
    struct error err = {0};
    struct buf out = BUF(64 << 20);
    char *big = mem_alloc(RPC_MESSAGE_MAX + 1);
    memset(big, 'a', RPC_MESSAGE_MAX + 1);
    assert_false(rpc_lines_put(&out, str_n(big, RPC_MESSAGE_MAX + 1), &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_int_equal(out.n, 0);
    assert_true(rpc_lines_put(&out, str_n(big, RPC_MESSAGE_MAX), &err));
    mem_free(big);
    buf_free(&out);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines), cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_too_many_lines), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_too_large_to_send)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
