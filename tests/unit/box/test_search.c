/* The file tools glob and grep. box.md §10.8, §10.9, §14 I. */
#include "box/files_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define W "/workspace"

/* Files with growing times; directories are old. */
static void tree(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[300];
        snprintf(text, sizeof text, "content of %s\n", names[i]);
        lab_text(names[i], text);
        struct timespec t[2] = {{1700000000 + (time_t)i, 0}, {1700000000 + (time_t)i, 0}};
        utimensat(AT_FDCWD, lab_path(names[i]), t, 0);
    }
    static const char *const dirs[] = {"sub", "sub/deep", ".hidden", "node_modules"};
    for (size_t i = 0; i < array_len(dirs); i++) {
        struct timespec t[2] = {{1600000000, 0}, {1600000000, 0}};
        utimensat(AT_FDCWD, lab_path(dirs[i]), t, 0);
    }
}
#define TREE(...)                                      \
    do {                                               \
        static const char *const t_[] = {__VA_ARGS__}; \
        tree(t_, array_len(t_));                       \
    } while (0)

/* The matches of a glob without /workspace, joined by blanks. */
static const char *found(const char *pattern)
{
    static char out[8192];
    char args[2048];
    snprintf(args, sizeof args, "{'pattern':'%s'}", pattern);
    auto_json r = lab_call(BOX_FILE_GLOB, args);
    if (!r)
        fail_msg("%s: %s", pattern, lab_err.msg);
    size_t i, n = 0;
    json_t *m;
    out[0] = '\0';
    json_array_foreach (json_object_get(r, "matches"), i, m)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "",
                              json_string_value(m) + strlen(W "/"));
    return out;
}

static void order_and_shape(void **state)
{
    TREE("a.py", "b.txt", "sub/c.py", "sub/deep/d.py");
    auto_json r = lab_call(BOX_FILE_GLOB, "{'pattern':'**/*.py'}");
    assert_string_equal(found("**/*.py"), "sub/deep/d.py sub/c.py a.py");
    assert_string_equal(json_z(r, "preview"), W "/sub/deep/d.py\n" W "/sub/c.py\n" W "/a.py");
    assert_int_equal(json_i_or(r, "total", 0), 3);
    assert_true(json_is_false(json_object_get(r, "truncated")));
    assert_true(json_is_null(json_object_get(r, "truncated_by")));
    auto_json sub = lab_call(BOX_FILE_GLOB, "{'path':'" W "/sub/','pattern':'*.py'}");
    assert_string_equal(json_z(sub, "preview"), W "/sub/deep/d.py\n" W "/sub/c.py");
}

static void patterns(void **state)
{
    static const char *const cases[][2] = {
        {"*.py", "sub/deep/d.py sub/c.py a.py"},
        {"sub/*.py", "sub/c.py"},
        {"sub/**/*.py", "sub/deep/d.py sub/c.py"},
        {"?.txt", "b.txt"},
        {"[ab].*", "b.txt a.py"},
        {"[!ab].*", "sub/deep/d.py sub/c.py"},
        {"deep", "sub/deep"},
        {"*.none", ""},
        {"sub", "sub"},
        {"sub/deep/d.py", "sub/deep/d.py"},
        {"A.PY", ""},
        {"**", "sub/deep/d.py sub/c.py b.txt a.py sub/deep sub"},
        {"sub/**", "sub/c.py sub/deep"},
        {W "/sub/*.py", "sub/c.py"},
        {"/etc/*", ""},
        {"./a.py", "a.py"},
        {"**/**/d.py", "sub/deep/d.py"},
    };
    TREE("a.py", "b.txt", "sub/c.py", "sub/deep/d.py");
    for (size_t i = 0; i < array_len(cases); i++)
        if (strcmp(found(cases[i][0]), cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], found(cases[i][0]));
    lab_fails(BOX_FILE_GLOB, "{'pattern':''}", "pattern must be a string that is not empty");
    lab_fails(BOX_FILE_GLOB, "{'pattern':5}", "pattern must be a string that is not empty");
}

static void names(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool hit;
    } cases[] = {
        {"*", "", true},
        {"a*b", "ab", true},
        {"a*b", "acb", true},
        {"a*b", "ac", false},
        {"*a*a*b", "aaaaaaaaab", true},
        {"?", "\xE2\x82\xAC", true},
        {"??", "\xE2\x82\xAC", false},
        {"[\xC3\xA0-\xC3\xBF]", "\xC3\xA9", true},
        {"[a-c]x", "bx", true},
        {"[]a]", "]", true},
        {"[!]a]", "b", true},
        {"[!]a]", "]", false},
        {"[a", "[a", true},
        {"[a-]", "-", true},
        {"[!a]", "a", false},
        {"\\*", "\\x", true},
        {"a", "A", false},
        {"[]", "[]", true},
        {"\xFF?", "\xFF\xFE", true},
        {"*.tar.*", "x.tar.gz", true},
    };
    for (size_t i = 0; i < array_len(cases); i++)
        if (files_match_name(str_c(cases[i].pattern), str_c(cases[i].name)) != cases[i].hit)
            fail_msg("%s against %s", cases[i].pattern, cases[i].name);
    char long_name[256], stars[512];
    memset(long_name, 'a', sizeof long_name);
    for (size_t i = 0; i < sizeof stars; i += 2)
        memcpy(stars + i, "*a", 2);
    stars[511] = 'b';
    assert_false(files_match_name(str_n(stars, 512), str_n(long_name, 255))); /* ends soon */
}

static void skips(void **state)
{
    TREE("x.js", ".git/x.js", "node_modules/x.js", "__pycache__/x.js", ".venv/x.js", "venv/x.js",
         ".tox/x.js", "dist/x.js", "build/x.js", ".hidden/x.js");
    assert_string_equal(found("**/*.js"), ".hidden/x.js x.js");
}

static void newest_hundred(void **state)
{
    char name[16];
    for (int i = 0; i < 130; i++) {
        snprintf(name, sizeof name, "f%03d", i);
        lab_text(name, "");
        struct timespec t[2] = {{1700000000 + (i * 37) % 130, 0}, {1700000000 + (i * 37) % 130, 0}};
        utimensat(AT_FDCWD, lab_path(name), t, 0);
    }
    auto_json r = lab_call(BOX_FILE_GLOB, "{'pattern':'f*'}");
    assert_int_equal(json_array_size(json_object_get(r, "matches")), 100);
    assert_int_equal(json_i_or(r, "total", 0), 130);
    assert_string_equal(json_z(r, "truncated_by"), "matches");
    int64_t last = INT64_MAX;
    size_t i;
    json_t *m;
    json_array_foreach (json_object_get(r, "matches"), i, m) {
        struct stat st;
        assert_int_equal(stat(lab_path(json_string_value(m) + strlen(W "/")), &st), 0);
        assert_true(st.st_mtime < last && st.st_mtime >= 1700000030);
        last = st.st_mtime;
    }
}

static void equal_times(void **state)
{
    TREE("a", "b", "c");
    struct timespec t[2] = {{1700000000, 0}, {1700000000, 0}};
    for (char c = 'a'; c <= 'c'; c++)
        utimensat(AT_FDCWD, lab_path((char[]){c, '\0'}), t, 0);
    assert_string_equal(found("*"), "c b a");
}

static void glob_bytes(void **state)
{
    char name[1100];
    for (int i = 0; i < 95; i++) {
        snprintf(name, sizeof name, "%0200d/%0200d/%0200d/f%d", 1, 2, 3, i);
        lab_text(name, "");
    }
    auto_json r = lab_call(BOX_FILE_GLOB, "{'pattern':'f*'}");
    assert_string_equal(json_z(r, "truncated_by"), "bytes");
    assert_int_equal(json_i_or(r, "total", 0), 95);
    assert_true(json_s(r, "preview").n <= BOX_FILE_OUTPUT_MAX);
    assert_in_range(json_array_size(json_object_get(r, "matches")), 70, 83);
}

/* Very deep trees end the walk there; no descriptor is held beyond the bound. */
static void depth(void **state)
{
    char name[512] = "";
    size_t n = 0;
    for (int i = 0; i < 80; i++)
        n += (size_t)snprintf(name + n, sizeof name - n, "d/");
    snprintf(name + n, sizeof name - n, "deepest");
    lab_text(name, "word");
    lab_text("d/near", "word");
    auto_json r = lab_call(BOX_FILE_GLOB, "{'pattern':'[!d]*'}");
    assert_string_equal(json_z(r, "preview"), W "/d/near");
    assert_string_equal(json_z(r, "truncated_by"), "scan");
    auto_json g = lab_call(BOX_FILE_GREP, "{'pattern':'word'}");
    assert_int_equal(json_i_or(g, "total", 0), 1);
    assert_string_equal(json_z(g, "truncated_by"), "scan");
}

/* ---- grep ----------------------------------------------------------------------------------------------------------- */

static json_t *grep(const char *pattern)
{
    auto_json args = json_pack("{s:s}", "pattern", pattern);
    return box_file_run(lab_root, BOX_FILE_GREP, args, &lab_err);
}

/* "file:line:content" of the matches, one a line. */
static const char *lines(const json_t *r)
{
    static char out[65536];
    size_t i, n = 0;
    json_t *m;
    out[0] = '\0';
    json_array_foreach (json_object_get(r, "matches"), i, m)
        n +=
            (size_t)snprintf(out + n, sizeof out - n, "%s%s:%d:%s", i ? "\n" : "",
                             json_z(m, "file"), (int)json_i_or(m, "line", 0), json_z(m, "content"));
    return out;
}

static void grep_shape(void **state)
{
    lab_text("d/f.txt",
             "first\n  second match  \r\nthird\nmatch \xC3\xA9 \xE2\x82\xAC\nbad \xFF match\n");
    auto_json r = grep("match");
    assert_string_equal(lines(r),
                        W "/d/f.txt:2:  second match\n" W
                          "/d/f.txt:4:match \xC3\xA9 \xE2\x82\xAC\n" W "/d/f.txt:5:bad  match");
    assert_int_equal(json_i_or(r, "total", 0), 3);
    assert_true(json_is_false(json_object_get(r, "truncated")));
    auto_json one = lab_call(BOX_FILE_GREP, "{'path':'" W "/d/f.txt','pattern':'^third$'}");
    assert_string_equal(lines(one), W "/d/f.txt:3:third");
    auto_json odd = lab_call(BOX_FILE_GREP, "{'path':'" W "/d/../d/','pattern':'^third$'}");
    assert_string_equal(lines(odd), W "/d/../d/f.txt:3:third");
}

static void grep_order_and_include(void **state)
{
    TREE("z.py", "a.py", "b.txt", "sub/c.py", "node_modules/d.py");
    auto_json r = lab_call(BOX_FILE_GREP, "{'pattern':'content','include':'*.py'}");
    assert_string_equal(lines(r),
                        W "/a.py:1:content of a.py\n" W "/sub/c.py:1:content of sub/c.py\n" W
                          "/z.py:1:content of z.py");
    auto_json sub = lab_call(BOX_FILE_GREP, "{'pattern':'content','include':'sub/*'}");
    assert_string_equal(lines(sub), W "/sub/c.py:1:content of sub/c.py");
}

static void grep_bounds(void **state)
{
    auto_buf b = BUF(1 << 22);
    for (int i = 0; i < 300; i++)
        buf_z(&b, "hit\n");
    lab_put("f", b.p, b.n);
    auto_json r = grep("hit");
    assert_int_equal(json_i_or(r, "total", 0), 200);
    assert_string_equal(json_z(r, "truncated_by"), "matches");
    lab_put("f", b.p, 200 * 4);
    auto_json all = grep("hit");
    assert_int_equal(json_i_or(all, "total", 0), 200);
    assert_true(json_is_null(json_object_get(all, "truncated_by")));

    buf_clear(&b);
    for (int i = 0; i < 700; i++)
        buf_c(&b, 'x');
    buf_z(&b, " hit\n");
    lab_put("f", b.p, b.n);
    auto_json cut = grep("hit");
    assert_string_equal(json_z(cut, "truncated_by"), "line");
    assert_true(str_ends(json_s(json_array_get(json_object_get(cut, "matches"), 0), "content"),
                         S("xx... [truncated]")));
    assert_int_equal(json_s(json_array_get(json_object_get(cut, "matches"), 0), "content").n,
                     500 + 15);

    buf_clear(&b);
    for (int i = 0; i < 150; i++) {
        for (int k = 0; k < 490; k++)
            buf_z(&b, "\xC3\xA9");
        buf_z(&b, " hit\n");
    }
    lab_put("f", b.p, b.n);
    auto_json bytes = grep("hit");
    assert_string_equal(json_z(bytes, "truncated_by"), "bytes");
    assert_in_range(json_array_size(json_object_get(bytes, "matches")), 40, 52);
}

/* A line that is too long ends its file, not the search. */
static void grep_long_line(void **state)
{
    auto_buf b = BUF(8 << 20);
    buf_z(&b, "hit\n");
    for (int i = 0; i < (1 << 20) + 1; i++)
        buf_c(&b, 'x');
    buf_z(&b, "\nhit\n");
    lab_put("a", b.p, b.n);
    lab_text("b", "hit\n");
    auto_json r = grep("hit");
    assert_string_equal(lines(r), W "/a:1:hit\n" W "/b:1:hit");
    assert_string_equal(json_z(r, "truncated_by"), "line");
}

static void grep_many_files(void **state)
{
    char name[32];
    for (int i = 0; i < 5001; i++) {
        snprintf(name, sizeof name, "m/%05d", i);
        lab_text(name, "x\n");
    }
    auto_json r = grep("nothing");
    assert_string_equal(json_z(r, "truncated_by"), "scan");
    unlink(lab_path("m/00000"));
    auto_json all = grep("nothing");
    assert_true(json_is_null(json_object_get(all, "truncated_by")));
}

static void grep_bad_patterns(void **state)
{
    static const char *const bad[] = {"(", "[", "*x", "(?P<n", "a{2,1}", "\\C"};
    for (size_t i = 0; i < array_len(bad); i++) {
        auto_json args =
            json_pack("{s:s,s:s}", "pattern", bad[i], "path", i % 2 ? W "/none" : "/etc");
        auto_json r = box_file_run(lab_root, BOX_FILE_GREP, args, &lab_err);
        assert_non_null(r);
        assert_true(json_is_false(json_object_get(r, "ok")));
        if (strncmp(json_z(r, "error"), "Invalid regex: ", 15) != 0)
            fail_msg("%s: %s", bad[i], json_z(r, "error"));
    }
    lab_fails(BOX_FILE_GREP, "{'pattern':5}",
              "pattern must be a string of at most 1024 characters");
    lab_fails(BOX_FILE_GREP, "{}", "pattern must be a string of at most 1024 characters");
    auto_buf b = BUF(4096);
    for (int i = 0; i < 1024; i++)
        buf_c(&b, 'x');
    auto_json fits = grep(buf_cstr(&b));
    assert_true(json_is_true(json_object_get(fits, "ok")));
    buf_c(&b, 'x');
    auto_json over = grep(buf_cstr(&b));
    assert_true(json_is_false(json_object_get(over, "ok")));
}

static void grep_catastrophic(void **state)
{
    static const char *const patterns_[] = {"(a+)+$",           "(a|aa)+$",  "(.*a){25}$",
                                            "(?:a?){50}a{50}b", "(?R)?a+!x", "^(?:a+)+(?:a+)+b$"};
    auto_buf b = BUF(65536);
    for (int i = 0; i < 3000; i++)
        buf_c(&b, 'a');
    buf_z(&b, "!\n");
    lab_put("f", b.p, b.n);
    for (size_t i = 0; i < array_len(patterns_); i++) {
        int64_t start = time_mono_us();
        auto_json r = grep(patterns_[i]);
        assert_non_null(r);
        bool ok = json_is_true(json_object_get(r, "ok"));
        assert_true(ok ? json_array_size(json_object_get(r, "matches")) == 0
                       : strcmp(json_z(r, "error"), "Regex search timed out") == 0);
        assert_true(time_mono_us() - start < 5000000); /* noisy machines: far above the budget */
    }
}

static void grep_dialect(void **state)
{
    static const struct {
        const char *pattern;
        int line;
    } cases[] = {
        {"\\bfoo\\b", 2},
        {"(?i)FOO\\s+bar", 2},
        {"^\\d{3}-[a-c]+$", 3},
        {"\xC3\xA9+\xE2\x82\xAC?", 4},
        {"zzz|abc", 3},
        {"x(?:y|z)", 5},
        {"\\t", 6},
        {"\\$\\{v\\}", 7},
        {"(?P<q>é)(?P=q)", 4},
        {"\\u00e9", 4},
        {"\\w\xC3\xA9", 4},
        {"(?<=x)z", 5},
        {"^$", 8},
    };
    lab_text("f",
             "nope\nsay foo  bar\n123-abc\n\xC3\xA9\xC3\xA9\xE2\x82\xAC\nxz\nt\tt\n${v}\n\nend");
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_json r = grep(cases[i].pattern);
        const json_t *first = json_array_get(json_object_get(r, "matches"), 0);
        if (json_i_or(first, "line", 0) != cases[i].line)
            fail_msg("%s: line %d", cases[i].pattern, (int)json_i_or(first, "line", 0));
    }
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
#define T(f) cmocka_unit_test_setup_teardown(f, lab_begin, lab_end)
    const struct CMUnitTest tests[] = {
        T(order_and_shape),
        T(patterns),
        T(names),
        T(skips),
        T(newest_hundred),
        T(equal_times),
        T(glob_bytes),
        T(depth),
        T(grep_shape),
        T(grep_order_and_include),
        T(grep_bounds),
        T(grep_long_line),
        T(grep_many_files),
        T(grep_bad_patterns),
        T(grep_catastrophic),
        T(grep_dialect),
    };
    return cmocka_run_group_tests_name("box/search", tests, NULL, NULL);
}
