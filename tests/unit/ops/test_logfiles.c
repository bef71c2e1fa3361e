/* Log files and the panel's log cache. persistence-and-ops.md §10 */
#include "ops/lab.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const int64_t day_us = 86400LL * 1000000;

static void name_of(int64_t wall_us, char out[64])
{
    time_t t = (time_t)(wall_us / 1000000);
    struct tm tm;
    localtime_r(&t, &tm);
    strftime(out, 64, "langbot-%Y-%m-%d.log", &tm);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; text && *text; text++)
        n += *text == '\n';
    return n;
}

static int setup(void **state)
{
    log_setup(LOG_INFO, false, -1);
    return 0;
}

static struct logfiles *open_in(const char *dir)
{
    struct error err = {0};
    struct logfiles *l = logfiles_new(dir, &err);
    assert_non_null(l);
    return l;
}

static void lines_are_written_in_order_and_privately(void **state)
{
    char dir[64], name[64], path[160];
    struct stat st;
    long before = mem_live();
    make_dir(dir);
    struct logfiles *l = open_in(dir);
    for (int i = 0; i < 500; i++)
        log_info("test", "line number=%d", i);
    log_debug("test", "below the level");
    logfiles_free(l);
    log_info("test", "after the end");
    name_of(time_wall_us(), name);
    auto_mem char *text = file_text(dir, name);
    assert_non_null(text);
    assert_int_equal(lines_of(text), 500);
    const char *at = text;
    for (int i = 0; i < 500; i++) {
        char want[40];
        snprintf(want, sizeof want, "line number=%d\n", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    assert_null(strstr(text, "below") ? text : NULL);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    mem_free(steal(text));
    remove_dir(dir);
    assert_int_equal(mem_live(), before);
}

static void a_restart_goes_on_in_the_same_file(void **state)
{
    char dir[64], name[64];
    make_dir(dir);
    for (int i = 0; i < 2; i++) {
        struct logfiles *l = open_in(dir);
        log_info("test", "start %d", i);
        logfiles_free(l);
    }
    name_of(time_wall_us(), name);
    auto_mem char *text = file_text(dir, name);
    assert_int_equal(lines_of(text), 2);
    remove_dir(dir);
}

static void each_day_has_its_file(void **state)
{
    char dir[64], names[3][64];
    make_dir(dir);
    struct logfiles *l = open_in(dir);
    for (int i = 0; i < 3; i++) {
        name_of(time_wall_us(), names[i]);
        log_info("test", "on day %d", i);
        usleep(150000); /* what is written together goes to one file */
        time_shift_us(day_us, 0);
    }
    logfiles_free(l);
    time_shift_us(-3 * day_us, 0);
    for (int i = 0; i < 3; i++) {
        char want[32];
        auto_mem char *text = file_text(dir, names[i]);
        snprintf(want, sizeof want, "on day %d\n", i);
        assert_non_null(text);
        assert_int_equal(lines_of(text), 1);
        assert_non_null(strstr(text, want));
    }
    remove_dir(dir);
}

static void a_full_file_is_numbered_and_the_sixth_goes(void **state)
{
    char dir[64], name[64], numbered[80], path[160];
    enum { ONE = 10 << 20 };
    make_dir(dir);
    name_of(time_wall_us(), name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (int round = 0; round < 7; round++) {
        struct logfiles *l = open_in(dir);
        log_info("test", "round %d", round);
        logfiles_free(l);
        assert_int_equal(truncate(path, ONE), 0); /* the next line does not fit any more */
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (int i = 1; i <= 5; i++) {
        char want[32];
        snprintf(numbered, sizeof numbered, "%s.%d", name, i);
        auto_mem char *text = file_text(dir, numbered);
        snprintf(want, sizeof want, "round %d\n", 6 - i);
        assert_non_null(text);
        assert_non_null(strstr(text, want));
    }
    snprintf(numbered, sizeof numbered, "%s.6", name);
    assert_false(file_there(dir, numbered));
    remove_dir(dir);
}

static void a_disk_that_fails_loses_lines_but_nobody_waits(void **state)
{
    char dir[64], name[64];
    make_dir(dir);
    struct logfiles *l = open_in(dir);
    task_sys_fail_after(TASK_SYS_OPEN, 1, true, EACCES);
    log_info("test", "lost");
    usleep(200000);
    task_sys_fail_after(TASK_SYS_OPEN, 0, false, 0);
    log_info("test", "kept");
    logfiles_free(l);
    name_of(time_wall_us(), name);
    auto_mem char *text = file_text(dir, name);
    assert_non_null(text);
    assert_non_null(strstr(text, "kept"));
    assert_null(strstr(text, "INFO] : test: lost"));
    remove_dir(dir);
}

/* ---- cache ---- */

static json_t *read_from(struct logfiles *l, int64_t page, int64_t offset)
{
    json_t *j = logfiles_read(l, page, offset);
    assert_non_null(j);
    return j;
}

static void the_cache_has_ten_pages_of_twenty_lines(void **state)
{
    char dir[64];
    make_dir(dir);
    struct logfiles *l = open_in(dir);
    auto_json none = read_from(l, 0, 0);
    assert_string_equal(json_z(none, "logs"), "");
    assert_int_equal(json_i_or(none, "end_page_number", -1), 0);
    assert_int_equal(json_i_or(none, "end_offset", -1), 0);
    for (int i = 0; i < 45; i++)
        log_info("test", "n=%d;", i);
    auto_json all = read_from(l, 0, 0);
    assert_int_equal(lines_of(json_z(all, "logs")), 45);
    assert_int_equal(json_i_or(all, "end_page_number", -1), 2);
    assert_int_equal(json_i_or(all, "end_offset", -1), 5);
    auto_json rest = read_from(l, 1, 15);
    assert_int_equal(lines_of(json_z(rest, "logs")), 10);
    assert_non_null(strstr(json_z(rest, "logs"), "n=35;"));
    assert_null(strstr(json_z(rest, "logs"), "n=34;"));
    auto_json nothing = read_from(l, 2, 5);
    assert_string_equal(json_z(nothing, "logs"), "");
    auto_json beyond = read_from(l, 9, 0);
    assert_string_equal(json_z(beyond, "logs"), "");
    auto_json odd = read_from(l, -5, -1);
    assert_int_equal(lines_of(json_z(odd, "logs")), 45);
    for (int i = 45; i < 245; i++)
        log_info("test", "n=%d;", i);
    auto_json kept = read_from(l, 0, 0); /* pages 3 to 12 */
    assert_int_equal(lines_of(json_z(kept, "logs")), 185);
    assert_non_null(strstr(json_z(kept, "logs"), "n=60;"));
    assert_null(strstr(json_z(kept, "logs"), "n=59;"));
    assert_int_equal(json_i_or(kept, "end_page_number", -1), 12);
    assert_int_equal(json_i_or(kept, "end_offset", -1), 5);
    logfiles_free(l);
    remove_dir(dir);
}

static void a_long_line_is_cut_in_the_cache(void **state)
{
    char dir[64];
    static char word[22001];
    memset(word, 'x', sizeof word - 1);
    make_dir(dir);
    struct logfiles *l = open_in(dir);
    log_info("test", "%s", word);
    auto_json j = read_from(l, 0, 0);
    struct str text = json_s(j, "logs");
    assert_true(str_ends(text, S("xxx\n[log truncated]\n")));
    assert_int_equal(text.n, 20000 + strlen("\n[log truncated]\n"));
    logfiles_free(l);
    remove_dir(dir);
}

static void want_of_memory_costs_lines_only(void **state)
{
    char dir[64];
    long before = mem_live();
    make_dir(dir);
    for (long n = 1; n < 12; n++) {
        struct error err = {0};
        mem_fail_after(n, false);
        struct logfiles *l = logfiles_new(dir, &err);
        if (!l)
            assert_int_equal(err.code, ERR_NOMEM);
        log_info("test", "with little memory");
        log_info("test", "with little memory");
        json_t *j = l ? logfiles_read(l, 0, 0) : NULL;
        mem_fail_after(0, false);
        json_decref(j);
        logfiles_free(l);
    }
    remove_dir(dir);
    assert_int_equal(mem_live(), before);
}

/* ---- retention ---- */

static void only_old_log_files_are_removed(void **state)
{
    static const char *const strange[] = {"langbot-2020-01-01.txt",      "langbot-2020-01-01.log.",
                                          "langbot-2020-01-01.log.a",    "langbot-2020-1-01.log",
                                          "xlangbot-2020-01-01.log",     "langbot-2020-13-01.log",
                                          "langbot-2020-01-01.log.1.gz", "other.log"};
    char dir[64], name[64], old[70];
    make_dir(dir);
    for (size_t i = 0; i < array_len(strange); i++)
        put_file(dir, strange[i], "x");
    put_file(dir, "langbot-2020-01-01.log", "x");
    put_file(dir, "langbot-2020-01-01.log.12", "x");
    for (int back = 0; back < 4; back++) {
        name_of(time_wall_us() - back * day_us, name);
        put_file(dir, name, "x");
    }
    snprintf(old, sizeof old, "%s.1", name);
    put_file(dir, old, "x");
    assert_int_equal(logfiles_prune(dir, 3), 4); /* two of 2020, two of three days ago */
    for (size_t i = 0; i < array_len(strange); i++)
        assert_true(file_there(dir, strange[i]));
    for (int back = 0; back < 4; back++) {
        name_of(time_wall_us() - back * day_us, name);
        assert_int_equal(file_there(dir, name), back < 3);
    }
    assert_int_equal(logfiles_prune(dir, 1), 2);
    assert_int_equal(logfiles_prune(dir, 0), 0);
    assert_int_equal(logfiles_prune("/nonexistent/logs", 3), 0);
    remove_dir(dir);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_written_in_order_and_privately),
        cmocka_unit_test(a_restart_goes_on_in_the_same_file),
        cmocka_unit_test(each_day_has_its_file),
        cmocka_unit_test(a_full_file_is_numbered_and_the_sixth_goes),
        cmocka_unit_test(a_disk_that_fails_loses_lines_but_nobody_waits),
        cmocka_unit_test(the_cache_has_ten_pages_of_twenty_lines),
        cmocka_unit_test(a_long_line_is_cut_in_the_cache),
        cmocka_unit_test(want_of_memory_costs_lines_only),
        cmocka_unit_test(only_old_log_files_are_removed),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
