/* The data directory's small files, whole-file writes, and both when calls or memory fail (persistence-and-ops.md §6.3, §7). */
#include "config/conf.h"
#include "crypto/crypto.h"
#include "task/task.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *parse(const char *name)
{
    struct error err;
    json_t *j = json_parse(str_c(conf_text(name)), &err);
    assert_non_null(j);
    return j;
}

/* Files below data/ whose name ends so. */
static size_t count_ending(const char *dir, const char *suffix)
{
    size_t n = 0;
    DIR *d = opendir(conf_at(dir));
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        n += str_ends(str_c(e->d_name), str_c(suffix));
    }
    closedir(d);
    return n;
}

static void test_instance_label(void **state)
{
    struct config *c = conf_load(NO_ENV);
    auto_json label = parse("labels/instance_id.json");
    const char *id = json_z(label, "instance_id");
    assert_true(str_starts(str_c(id), S("instance_")));
    assert_true(uuid_is_v4(str_c(id + 9)));
    assert_true(json_i_or(label, "instance_create_ts", 0) > 1600000000);
    assert_int_equal(json_object_size(label), 2);
    assert_string_equal(config_instance_id(c), id);
    assert_true(config_instance_created(c) == json_i_or(label, "instance_create_ts", 0));
    assert_non_null(strstr(conf_text("labels/instance_id.json"), "\n    \"instance_id\": "));
    config_free(c);
}

static void test_instance_setting_wins(void **state)
{
    struct config *c = conf_load(ENV("SYSTEM__INSTANCE_ID= instance_mine "));
    auto_json label = parse("labels/instance_id.json");
    assert_string_equal(config_instance_id(c), "instance_mine");
    assert_true(uuid_is_v4(str_c(json_z(label, "instance_id") + 9)));
    config_free(c);
    c = conf_load(ENV("SYSTEM__INSTANCE_ID="));
    assert_string_equal(config_instance_id(c), json_z(label, "instance_id"));
    config_free(c);
}

static void test_instance_of_an_older_file(void **state)
{
    conf_write("labels/instance_id.json", "{\"instance_id\": \"instance_old\", \"own\": 1}");
    struct config *c = conf_load(NO_ENV);
    auto_json label = parse("labels/instance_id.json");
    assert_string_equal(config_instance_id(c), "instance_old");
    assert_true(json_i_or(label, "instance_create_ts", 0) > 1600000000);
    assert_int_equal(json_i_or(label, "own", 0), 1);
    config_free(c);
    conf_write("labels/instance_id.json",
               "{\"instance_id\": \"instance_old\", \"instance_create_ts\": 5}");
    c = conf_load(NO_ENV);
    assert_int_equal(config_instance_created(c), 5);
    config_free(c);
}

static void test_broken_labels(void **state)
{
    static const struct {
        const char *file, *text, *wanted;
    } cases[] = {
        {"labels/instance_id.json", "{", "labels/instance_id.json: "},
        {"labels/instance_id.json", "[]", "not a JSON object"},
        {"labels/instance_id.json", "{\"instance_id\": \"\"}", "instance id must have 1 to 255"},
        {"labels/instance_id.json", "{\"instance_id\": 5}", "instance id must have 1 to 255"},
        {"metadata/sensitive-words.json", "nothing", "metadata/sensitive-words.json: "},
        {"metadata/sensitive-words.json", "{\"words\": \"x\"}", "words must be a list"},
        {"labels/secret.key", "c2hvcnQ=", "labels/secret.key must hold 32 bytes"},
        {"labels/secret.key", "", "labels/secret.key must hold 32 bytes"},
    };
    config_free(conf_load(NO_ENV));
    for (size_t i = 0; i < array_len(cases); i++) {
        char before[4096];
        snprintf(before, sizeof(before), "%s", conf_text(cases[i].file));
        conf_write(cases[i].file, cases[i].text);
        const char *msg = conf_fails(NO_ENV);
        if (!strstr(msg, cases[i].wanted)) {
            fail_msg("case %zu: %s", i, msg);
        }
        conf_write(cases[i].file, before);
    }
    assert_non_null(strstr(conf_fails(ENV("PARLEY_SECRET_KEY=abc")), "PARLEY_SECRET_KEY"));
}

static void test_secret_key(void **state)
{
    struct config *c = conf_load(NO_ENV);
    struct stat st;
    assert_int_equal(stat(conf_at("labels/secret.key"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    config_free(c);
    static const unsigned char wanted[32] = "0123456789abcdef0123456789ABCDEF";
    c = conf_load(ENV("PARLEY_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERUY="));
    assert_memory_equal(config_secret_key(c), wanted, 32);
    config_free(c);
    c = conf_load(
        ENV("PARLEY_SECRET_KEY=3031323334353637383961626364656630313233343536373839414243444546"));
    assert_memory_equal(config_secret_key(c), wanted, 32);
    config_free(c);
    conf_write("labels/secret.key", " MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERUY \n");
    c = conf_load(NO_ENV);
    assert_memory_equal(config_secret_key(c), wanted, 32);
    config_free(c);
}

static void test_sensitive_words(void **state)
{
    struct config *c = conf_load(NO_ENV);
    auto_json made = parse("metadata/sensitive-words.json");
    assert_string_equal(json_z(made, "mask"), "*");
    assert_string_equal(json_z(made, "mask_word"), "");
    assert_true(json_is_array(json_object_get(made, "words")));
    assert_true(json_equal(config_sensitive_words(c), made));
    config_free(c);
    conf_write("metadata/sensitive-words.json",
               "{\"own\": 1, \"words\": [\"日本\"], \"mask\": \"#\"}");
    c = conf_load(NO_ENV);
    auto_json completed = parse("metadata/sensitive-words.json");
    assert_string_equal(json_z(completed, "mask"), "#");
    assert_string_equal(json_z(completed, "mask_word"), "");
    assert_int_equal(json_i_or(completed, "own", 0), 1);
    assert_non_null(strstr(conf_text("metadata/sensitive-words.json"), "日本"));
    assert_true(json_equal(config_sensitive_words(c), completed));
    config_free(c);
    /* What a power cut may leave of a file that nobody waited for. */
    conf_write("metadata/sensitive-words.json", "");
    c = conf_load(NO_ENV);
    auto_json again = parse("metadata/sensitive-words.json");
    assert_true(json_equal(again, made));
    config_free(c);
}

static void test_directories(void **state)
{
    struct error err;
    char deep[256];
    snprintf(deep, sizeof(deep), "%s/a/b/c/", conf_dir);
    struct config *c = config_load(deep, NO_ENV, &err);
    assert_non_null(c);
    snprintf(deep, sizeof(deep), "%s/a/b/c", conf_dir);
    assert_string_equal(config_data_dir(c), deep);
    config_free(c);
    conf_write("file", "x");
    assert_null(config_load(conf_at("file"), NO_ENV, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_null(config_load("", NO_ENV, &err));
}

static void test_write_file(void **state)
{
    struct error err;
    struct stat st;
    conf_write("one", "old");
    assert_int_equal(symlink(conf_at("one"), conf_at("link")), 0);
    assert_true(config_write_file(conf_at("link"), S("new"), 0640, &err));
    assert_string_equal(conf_text("one"), "new");
    assert_int_equal(lstat(conf_at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(conf_at("one"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_false(config_write_file(conf_at("no/such"), S("x"), 0600, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.msg, "no/such"));
}

static void test_read_file(void **state)
{
    struct error err;
    struct str text;
    auto_arena a = arena_new(1 << 16);
    conf_write("five", "12345");
    assert_true(config_read_file(a, conf_at("five"), 5, &text, &err));
    assert_true(str_eqz(text, "12345"));
    assert_false(config_read_file(a, conf_at("five"), 4, &text, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_false(config_read_file(a, conf_at("none"), 4, &text, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(mkfifo(conf_at("pipe"), 0600), 0);
    assert_false(config_read_file(a, conf_at("pipe"), 4, &text, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_false(config_read_file(a, conf_dir, 4, &text, &err));
}

/* Whatever call fails: the old file or the new one, whole, and nothing left lying about. */
static void test_failing_calls(void **state)
{
    static const enum task_sys_op ops[] = {TASK_SYS_WRITE, TASK_SYS_OPEN, TASK_SYS_FSYNC,
                                           TASK_SYS_RENAME};
    struct error err;
    conf_write("f", "old");
    for (size_t i = 0; i < array_len(ops); i++) {
        for (long nth = 1;; nth++) {
            conf_write("f", "old");
            task_sys_fail_after(ops[i], nth, false, ENOSPC);
            bool ok = config_write_file(conf_at("f"), S("new text"), 0600, &err);
            task_sys_fail_after(ops[i], 0, false, 0);
            const char *text = conf_text("f");
            assert_true(!strcmp(text, "new text") || (!ok && !strcmp(text, "old")));
            assert_int_equal(count_ending("", ".tmp"), 0);
            if (ok) {
                assert_true(nth > 1);
                break;
            }
            assert_int_equal(err.code, ERR_IO);
            assert_non_null(strstr(err.msg, "No space left"));
        }
    }
}

/* A start that fails half-way leaves a directory in which the next one succeeds, with the same identity where it was made. */
static void test_start_with_failing_calls(void **state)
{
    static const enum task_sys_op ops[] = {TASK_SYS_READ,  TASK_SYS_WRITE,  TASK_SYS_OPEN,
                                           TASK_SYS_FSYNC, TASK_SYS_RENAME, TASK_SYS_MKDIR};
    char dir[256];
    size_t rounds = 0;
    for (size_t i = 0; i < array_len(ops); i++) {
        for (long nth = 1;; nth++) {
            struct error err = {.code = ERR_NONE};
            snprintf(dir, sizeof(dir), "%s/%zu-%ld", conf_dir, i, nth);
            task_sys_fail_after(ops[i], nth, false, EIO);
            struct config *c = config_load(dir, NO_ENV, &err);
            task_sys_fail_after(ops[i], 0, false, 0);
            if (c) {
                config_free(c);
                break;
            }
            assert_int_equal(err.code, ERR_IO);
            c = config_load(dir, NO_ENV, &err);
            assert_non_null(c);
            config_free(c);
            rounds++;
        }
    }
    assert_true(rounds > 15);
}

static void test_failing_allocations(void **state)
{
    static const char text[] = "api: &x {port: 1}\nlist:\n- a\n- *x\n- <<: *x\n";
    conf_write("config.yaml",
               "base: &b {k: 1}\napi: {port: 1, <<: *b} # kept\ncommand:\n  prefix: ['a']\n");
    const char *const *env = ENV("API__PORT=7", "COMMAND__PREFIX=b,c", "NEW__KEY__DEEP=1",
                                 "DATABASE__POSTGRESQL__PASSWORD=1", "PROXY__HTTP=x");
    char kept[8192];
    snprintf(kept, sizeof(kept), "%s", conf_text("config.yaml"));
    for (long nth = 1;; nth++) {
        struct error err = {.code = ERR_NONE};
        conf_write("config.yaml", kept);
        unlink(conf_at("labels/instance_id.json"));
        unlink(conf_at("labels/secret.key"));
        unlink(conf_at("metadata/sensitive-words.json"));
        long before = mem_live();
        mem_fail_after(nth, false);
        struct config *c = config_load(conf_at(""), env, &err);
        bool failed_one = c == NULL;
        mem_fail_after(0, false);
        if (failed_one) {
            assert_int_equal(err.code, ERR_NOMEM);
        } else {
            assert_int_equal(config_int(c, "api.port"), 7);
            config_free(c);
            auto_json j = conf_yaml();
            assert_int_equal(json_i_or(json_at(j, "api"), "port", 0), 7);
            /* Want of memory is never a reason to lose the owner's comments. */
            assert_non_null(strstr(conf_text("config.yaml"), "# kept"));
        }
        assert_int_equal(mem_live(), before);
        if (!failed_one) {
            break;
        }
        assert_true(nth < 20000);
    }
    for (long nth = 1;; nth++) {
        struct error err = {.code = ERR_NONE};
        long before = mem_live();
        mem_fail_after(nth, true);
        json_t *j = config_yaml_to_json(str_c(text), "x", &err);
        mem_fail_after(0, false);
        bool done = j != NULL;
        json_decref(j);
        assert_int_equal(mem_live(), before);
        if (done) {
            assert_true(nth > 5);
            break;
        }
        assert_int_equal(err.code, ERR_NOMEM);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, conf_setup, conf_teardown)
    const struct CMUnitTest tests[] = {
        T(test_instance_label),
        T(test_instance_setting_wins),
        T(test_instance_of_an_older_file),
        T(test_broken_labels),
        T(test_secret_key),
        T(test_sensitive_words),
        T(test_directories),
        T(test_write_file),
        T(test_read_file),
        T(test_failing_calls),
        T(test_start_with_failing_calls),
        T(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
