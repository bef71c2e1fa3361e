#include "model/model_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct {
    const char *text, *shown;
} cases[] = {
    {"", ""},
    {"plain", "plain"},
    {"<think>a\nb</think>\n\nvisible", "visible"},
    {"intro <think>x</think>tail", "intro tail"},
    {"<think>a</think>one<think>b</think>two", "onetwo"},
    {"hidden prefix</think>shown", "shown"},
    {"CRETIRE_REASONING_BEGINkold styleCRETIRE_REASONING_ENDkshown", "shown"},
    {"old prefix CRETIRE_REASONING_ENDk shown", "shown"},
    {"  <think></think>  漢字 😀  ", "漢字 😀"},
    {"a < b and c > d", "a < b and c > d"},
    {"no tags at all, only <thi", "no tags at all, only <thi"},
    {"<think>secret <b>x</b> <thinking></think>a < b", "a < b"},
    {"<think>secret", ""},
    {"one <think>secret", "one"},
    {"a <thin> b </thinker> c", "a <thin> b </thinker> c"},
    {"<think>a</think>x</think>y", "x</think>y"},
    {"<think>a<think>b</think>c", "c"},
    {"<think>a CRETIRE_REASONING_ENDk b</think>c", "c"},
    {"x \n\n y", "x \n\n y"},
};

static void test_whole(void **state)
{
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_buf out = BUF(4096);
        assert_true(think_strip(str_c(cases[i].text), &out));
        assert_string_equal(buf_cstr(&out), cases[i].shown);
    }
}

static void test_cut_anywhere(void **state)
{
    for (size_t i = 0; i < array_len(cases); i++) {
        struct str text = str_c(cases[i].text);
        for (size_t step = 1; step <= text.n; step++) {
            struct think t;
            auto_buf out = BUF(4096);
            think_init(&t, THINK_HOLD);
            for (size_t at = 0; at < text.n; at += step) {
                assert_true(think_feed(&t, str_sub(text, at, step), &out));
                /* Nothing is shown that is taken back. */
                if (out.n > 0)
                    assert_memory_equal(out.p, cases[i].shown, out.n);
            }
            assert_true(think_end(&t, &out));
            assert_string_equal(buf_cstr(&out), cases[i].shown);
            think_free(&t);
        }
    }
}

static void test_hold_is_bounded(void **state)
{
    struct think t;
    auto_buf out = BUF(1 << 20);
    think_init(&t, THINK_HOLD);
    size_t fed = 0;
    for (int i = 0; i < 200; i++) {
        assert_true(think_feed(&t, S("plain words "), &out));
        fed += 12;
        if (fed > THINK_HOLD + 12)
            assert_true(out.n + 16 >= fed);
    }
    /* A close tag now comes too late: what follows is the answer. */
    assert_true(think_feed(&t, S("</thi"), &out));
    assert_true(think_feed(&t, S("nk>\nanswer"), &out));
    assert_true(think_end(&t, &out));
    assert_true(t.orphan && t.late);
    assert_string_equal(buf_cstr(&out) + t.late_at, "\nanswer");
    assert_null(strstr(buf_cstr(&out), "think>"));
    think_free(&t);

    /* A model that is known for it is waited for. */
    buf_clear(&out);
    think_init(&t, SIZE_MAX);
    for (int i = 0; i < 200; i++)
        assert_true(think_feed(&t, S("hidden words "), &out));
    assert_int_equal(out.n, 0);
    assert_true(think_feed(&t, S("</think>answer"), &out));
    assert_true(think_end(&t, &out));
    assert_true(t.orphan && !t.late);
    assert_string_equal(buf_cstr(&out), "answer");
    think_free(&t);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_hold_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
