/* Long texts as pictures. pipeline.md §7.9 */
#include "pipeline/engine.h"

#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const fonts[] = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"};

static const char *font(void)
{
    for (size_t i = 0; i < array_len(fonts); i++) {
        if (access(fonts[i], R_OK) == 0)
            return fonts[i];
    }
    skip();
    return NULL;
}

/* The PNG's own words on its size, and how many bytes it has. */
struct image {
    unsigned width, height, depth, colour;
    size_t bytes;
};

static unsigned number(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (unsigned)u[0] << 24 | (unsigned)u[1] << 16 | (unsigned)u[2] << 8 | u[3];
}

static bool picture(struct str text, struct image *out, char why[200])
{
    auto_arena a = arena_new(32u << 20);
    struct error err = {0};
    struct str uri, png, prefix = S("data:image/png;base64,");
    if (!long_text_picture(text, font(), a, &uri, why))
        return false;
    assert_true(str_starts(uri, prefix));
    assert_true(base64_decode(a, str_sub(uri, prefix.n, uri.n), 16 << 20, &png, &err));
    assert_true(png.n > 40 && memcmp(png.p, "\x89PNG\r\n\x1a\n", 8) == 0 &&
                memcmp(png.p + 12, "IHDR", 4) == 0);
    assert_memory_equal(png.p + png.n - 8, "IEND", 4);
    *out = (struct image){number(png.p + 16), number(png.p + 20), (unsigned char)png.p[24],
                          (unsigned char)png.p[25], png.n};
    const char *keep = getenv("PICTURE_FILE");
    if (keep) {
        FILE *f = fopen(keep, "wb");
        fwrite(png.p, 1, png.n, f);
        fclose(f);
    }
    return true;
}

static struct str repeat(struct arena *a, const char *piece, size_t times)
{
    size_t n = strlen(piece);
    char *p = arena_alloc(a, n * times + 1);
    for (size_t i = 0; i < times; i++)
        memcpy(p + i * n, piece, n);
    return str_n(p, n * times);
}

static void a_short_text_has_the_least_height(void **state)
{
    struct image i;
    char why[200];
    assert_true(picture(S("One line of words, größer.\nAnother with 1234567890."), &i, why));
    assert_int_equal(i.width, 800);
    assert_int_equal(i.height, 280);
    assert_int_equal(i.depth, 8);
    assert_int_equal(i.colour, 2); /* without transparency */
    struct image empty;
    assert_true(picture(S(" "), &empty, why));
    assert_true(empty.bytes < i.bytes); /* something was drawn */
}

static void height_follows_the_lines(void **state)
{
    struct image i;
    char why[200];
    auto_arena a = arena_new(1 << 20);
    assert_true(picture(repeat(a, "x\n", 19), &i, why));
    assert_int_equal(i.height, 35 * 19 + 65);
    assert_true(picture(repeat(a, "x\r\n", 256), &i, why));
    assert_int_equal(i.height, 35 * 256 + 65);
}

static void long_lines_are_wrapped_even_without_spaces(void **state)
{
    struct image words, letters;
    char why[200];
    auto_arena a = arena_new(1 << 20);
    assert_true(picture(repeat(a, "words and ", 200), &words, why));
    assert_true(words.height > 35 * 30 + 65);
    assert_true(picture(repeat(a, "7", 1000), &letters, why));
    assert_true(letters.height > 35 * 20 + 65);
}

static void limits_are_told(void **state)
{
    struct image i;
    char why[200] = "";
    auto_arena a = arena_new(2 << 20);
    assert_false(picture(repeat(a, "x\n", 257), &i, why));
    assert_non_null(strstr(why, "256 lines"));
    assert_false(picture(repeat(a, "x", 100001), &i, why));
    assert_non_null(strstr(why, "100,000"));
}

static void a_file_that_is_no_font(void **state)
{
    char why[200], path[] = "/tmp/parley-font-XXXXXX";
    struct str uri = S("x");
    auto_arena a = arena_new(1 << 20);
    auto_fd fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "not a font", 10) == 10);
    assert_false(long_text_picture(S("text"), path, a, &uri, why));
    assert_non_null(strstr(why, "font"));
    assert_null(uri.p);
    assert_false(long_text_picture(S("text"), "/nonexistent.ttf", a, &uri, why));
    unlink(path);
}

static void odd_bytes_do_no_harm(void **state)
{
    struct image i;
    char why[200];
    static const char bytes[] =
        "a\0b\x01\x7f\xff\xfe\xc3(\xe2\x80\xae right \xf0\x9f\x98\x80 \xe0\xb8\x81\t<b>&amp;</b>";
    assert_true(picture(str_n(bytes, sizeof bytes - 1), &i, why));
    assert_int_equal(i.height, 280);
}

/* Each character is ten wide. */
static double ten(void *arg, struct str c)
{
    return 10;
}

static void lines_end_where_they_are_full(void **state)
{
    static const struct {
        const char *text, *lines;
    } cases[] = {
        {"abcdefgh", "abcde|fgh"},        {"ab\ncd", "ab|cd"},   {"a\n\nb\n", "a||b"},
        {"abc1234", "abc|1234"}, /* a number goes to the next line whole */
        {"1234567", "12345|67"}, /* unless it fills one */
        {"ab123456789", "ab|12345|6789"}, {"äöüßéx", "äöüßé|x"}, {"", ""},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct str lines[8];
        auto_buf got = BUF(256);
        size_t n = picture_lines(str_c(cases[i].text), 50, ten, NULL, lines, array_len(lines));
        assert_true(n <= array_len(lines));
        for (size_t k = 0; k < n; k++)
            buf_fmt(&got, "%s" STR_FMT, k ? "|" : "", STR_ARG(lines[k]));
        assert_string_equal(buf_cstr(&got), cases[i].lines);
    }
    struct str two[2];
    assert_int_equal(picture_lines(S("a\nb\nc"), 50, ten, NULL, two, 2), 3);
    /* A character wider than the line is still taken. */
    assert_int_equal(picture_lines(S("abc"), 5, ten, NULL, two, 2), 3);
    assert_int_equal(picture_lines(S("ab"), 5, ten, NULL, two, 2), 2);
}

static void want_of_room_is_told(void **state)
{
    char why[200];
    struct str uri;
    auto_arena a = arena_new(2048);
    assert_false(long_text_picture(S("text"), font(), a, &uri, why));
    assert_string_equal(why, "out of memory");
}

static void *on_thread(void *arg)
{
    struct image i;
    char why[200];
    for (int k = 0; k < 3; k++)
        *(bool *)arg &= picture(S("several at once"), &i, why) && i.height == 280;
    return NULL;
}

static void workers_draw_at_the_same_time(void **state)
{
    pthread_t threads[4];
    bool ok[4];
    for (int i = 0; i < 4; i++) {
        ok[i] = true;
        assert_int_equal(pthread_create(&threads[i], NULL, on_thread, &ok[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_text_has_the_least_height),
        cmocka_unit_test(height_follows_the_lines),
        cmocka_unit_test(long_lines_are_wrapped_even_without_spaces),
        cmocka_unit_test(limits_are_told),
        cmocka_unit_test(a_file_that_is_no_font),
        cmocka_unit_test(odd_bytes_do_no_harm),
        cmocka_unit_test(lines_end_where_they_are_full),
        cmocka_unit_test(want_of_room_is_told),
        cmocka_unit_test(workers_draw_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
