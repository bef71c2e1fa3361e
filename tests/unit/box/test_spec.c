/* Specs, paths and what may be mounted (box.md §3, S5). */
#include "box/rig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool reads(const char *text, struct spec *out, struct error *err)
{
    static struct arena *a;
    arena_free(a);
    a = arena_new(4 << 20);
    if (!text)
        return false;
    json_t *data = arena_json(a, json_parse_words(str_c(text), err));
    assert_non_null(data);
    return spec_read(a, data, out, err);
}

static void good(const char *more, struct spec *out)
{
    struct error err = {0};
    char text[4096];
    snprintf(text, sizeof(text), "{\"session_id\":\" s \"%s%s}", *more ? "," : "", more);
    if (!reads(text, out, &err))
        fail_msg("%s: %s", more, err.msg);
}

static void bad(const char *more, const char *field)
{
    struct error err = {0};
    struct spec s;
    char text[4096];
    snprintf(text, sizeof(text), "{\"session_id\":\"s\",%s}", more);
    assert_false(reads(text, &s, &err));
    assert_string_equal(err.tag, "BoxValidationError");
    if (!strstr(err.msg, field))
        fail_msg("%s: \"%s\" does not name %s", more, err.msg, field);
}

static void test_defaults(void **state)
{
    struct spec s;
    good("", &s);
    assert_true(str_eqz(s.session_id, "s"));
    assert_string_equal(s.image, BOX_DEFAULT_IMAGE);
    assert_string_equal(s.workdir, "/workspace");
    assert_true(s.timeout_sec == 30 && s.memory_mb == 512 && s.pids_limit == 128);
    assert_true(!s.network && !s.persistent && s.read_only_rootfs && s.workspace_quota_mb == 0);
    assert_true(!s.host_path && s.extra_count == 0 && !s.env[0]);
    reads(NULL, NULL, NULL);
}

static void test_coercions(void **state)
{
    struct spec s;
    good("\"timeout_sec\":\"30\",\"memory_mb\":64.0,\"cpus\":\"0.5\",\"persistent\":\"Yes\"", &s);
    assert_true(s.timeout_sec == 30 && s.memory_mb == 64 && s.persistent);
    assert_true(s.cpus > 0.49 && s.cpus < 0.51);
    good("\"timeout_sec\":true,\"read_only_rootfs\":0,\"cpus\":2", &s);
    assert_true(s.timeout_sec == 1 && !s.read_only_rootfs && s.cpus > 1.9);
    good("\"cmd\":\"  ls \\n\",\"mount_path\":\" /data \",\"workdir\":null", &s);
    assert_string_equal(s.cmd, "ls");
    assert_string_equal(s.workdir, "/data");
    good("\"skill_name\":null,\"unknown\":[1],\"host_path\":null,\"workdir\":\"/a/./b//c/\"", &s);
    assert_string_equal(s.workdir, "/a/b/c");
    good("\"env\":{\"A\":\"1=2\",\"B\":\"\"}", &s);
    assert_true(s.env[0] && s.env[1] && !s.env[2]);
    assert_string_equal(s.env[0], "A=1=2");
    reads(NULL, NULL, NULL);
}

static void test_bad_fields(void **state)
{
    static const char *const cases[][2] = {
        {"\"cmd\":5", "cmd"},
        {"\"cmd\":\"a\\u0000b\"", "cmd"},
        {"\"workdir\":\"x\"", "workdir"},
        {"\"workdir\":\"\"", "workdir"},
        {"\"workdir\":null", "workdir"},
        {"\"timeout_sec\":0", "timeout_sec"},
        {"\"timeout_sec\":1.5", "timeout_sec"},
        {"\"timeout_sec\":null", "timeout_sec"},
        {"\"network\":\"OFF\"", "network"},
        {"\"network\":true", "network"},
        {"\"env\":{\"A\":1}", "env"},
        {"\"env\":[]", "env"},
        {"\"env\":{\"A=B\":\"x\"}", "env"},
        {"\"env\":{\"\":\"x\"}", "env"},
        {"\"env\":{\"A\":\"x\\u0000\"}", "env"},
        {"\"image\":null", "image"},
        {"\"host_path\":\"x\"", "host_path"},
        {"\"host_path\":\"\"", "host_path"},
        {"\"host_path_mode\":\"w\"", "host_path_mode"},
        {"\"mount_path\":\"\"", "mount_path"},
        {"\"mount_path\":\"/\"", "mount_path"},
        {"\"mount_path\":\"/etc\"", "mount_path"},
        {"\"mount_path\":\"/usr/lib\"", "mount_path"},
        {"\"mount_path\":\"/x/../etc\"", "mount_path"},
        {"\"mount_path\":\"/proc\"", "mount_path"},
        {"\"persistent\":2", "persistent"},
        {"\"cpus\":0", "cpus"},
        {"\"cpus\":\"inf\"", "cpus"},
        {"\"memory_mb\":31", "memory_mb"},
        {"\"memory_mb\":\"512m\"", "memory_mb"},
        {"\"pids_limit\":0", "pids_limit"},
        {"\"workspace_quota_mb\":-1", "workspace_quota_mb"},
        {"\"extra_mounts\":{}", "extra_mounts"},
        {"\"extra_mounts\":[5]", "extra_mounts"},
        {"\"extra_mounts\":[{\"mount_path\":\"/x\"}]", "host_path"},
        {"\"extra_mounts\":[{\"host_path\":\"/x\"}]", "mount_path"},
        {"\"extra_mounts\":[{\"host_path\":\"/x\",\"mount_path\":\"/y\",\"mode\":\"x\"}]", "mode"},
        {"\"extra_mounts\":[{\"host_path\":\"/x\",\"mount_path\":\"/workspace/../y\"}]",
         "mount_path"},
        {"\"host_path\":\"/x\",\"workdir\":\"/workspacex\"", "workdir"},
        {"\"host_path\":\"/x\",\"workdir\":\"/workspace/../etc\"", "workdir"},
        {"\"skill_name\":\"demo\"", "skill_name"}};
    for (size_t i = 0; i < array_len(cases); i++)
        bad(cases[i][0], cases[i][1]);
    reads(NULL, NULL, NULL);
}

static void test_session_ids(void **state)
{
    static const char *const wrong[] = {"null",          "5",         "\"\"", "\"  \"",
                                        "\"a\\u0000b\"", "\"a\\nb\"", "[]"};
    for (size_t i = 0; i < array_len(wrong); i++) {
        struct error err = {0};
        struct str out;
        auto_json j = json_parse_words(str_c(wrong[i]), &err);
        assert_false(box_session_id_read(j, "ValueError", &out, &err));
        assert_non_null(strstr(err.msg, "session_id"));
    }
}

static void test_process_specs(void **state)
{
    static const char *const cases[][2] = {
        {"{}", "command"},
        {"{\"command\":\" \"}", "command"},
        {"{\"command\":[]}", "command"},
        {"{\"command\":\"x\",\"args\":\"y\"}", "args"},
        {"{\"command\":\"x\",\"args\":[1]}", "args"},
        {"{\"command\":\"x\",\"args\":null}", "args"},
        {"{\"command\":\"x\",\"env\":[]}", "env"},
        {"{\"command\":\"x\",\"cwd\":\"y\"}", "cwd"},
        {"{\"command\":\"x\",\"cwd\":\"\"}", "cwd"},
        {"{\"command\":\"x\",\"process_id\":\"\"}", "process_id"},
        {"{\"command\":\"x\",\"process_id\":\"a/b\"}", "process_id"},
        {"{\"command\":\"x\",\"process_id\":\"..\"}", "process_id"},
        {"{\"command\":\"x\",\"process_id\":null}", "process_id"},
        {"{\"command\":\"x\",\"process_id\":\"a\\u0000\"}", "process_id"},
        {"{\"command\":\"x\",\"memory_mb\":-1}", "memory_mb"},
        {"[]", "spec"}};
    for (size_t i = 0; i < array_len(cases); i++) {
        struct error err = {0};
        struct process_spec p;
        auto_arena a = arena_new(1 << 20);
        auto_json j = json_parse_words(str_c(cases[i][0]), &err);
        assert_false(process_spec_read(a, j, &p, &err));
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.msg);
    }
    struct error err = {0};
    struct process_spec p;
    auto_arena a = arena_new(1 << 20);
    auto_json j = json_parse(
        S("{\"command\":\" npx \",\"args\":[\"-y\",\"\"],\"env\":{\"B\":\"2\",\"A\":\"1\"}}"),
        &err);
    assert_true(process_spec_read(a, j, &p, &err));
    assert_string_equal(p.process_id, "default");
    assert_string_equal(p.argv[0], "npx");
    assert_true(p.argv[2] && !p.argv[2][0] && !p.argv[3]);
    assert_string_equal(json_string_value(json_array_get(p.env_keys, 0)), "A");
}

static void test_paths(void **state)
{
    static const char *const cases[][2] = {{"/", "/"},        {"//", "/"},
                                           {"/a/../..", "/"}, {"/a/./b/../c//", "/a/c"},
                                           {"/..", "/"},      {"/a b/", "/a b"}};
    auto_arena a = arena_new(1 << 16);
    for (size_t i = 0; i < array_len(cases); i++)
        assert_string_equal(path_normal(a, str_c(cases[i][0])), cases[i][1]);
    assert_true(path_within("/a/b", "/a") && path_within("/a", "/a") && path_within("/x", "/"));
    assert_false(path_within("/ab", "/a") || path_within("/", "/a"));
}

/* ---- S5: one check for whatever is mounted ------------------------------------------------------- */

static struct rig l;

static void mount_fails(const char *path)
{
    rig_fails(
        &l, "box_create_session",
        json_pack("{s:s,s:s,s:s}", "session_id", "s", "host_path", path, "host_path_mode", "ro"),
        "BoxValidationError");
    rig_fails(&l, "box_create_session",
              json_pack("{s:s,s:[{s:s,s:s,s:s}]}", "session_id", "s", "extra_mounts", "host_path",
                        path, "mount_path", "/workspace/x", "mode", "ro"),
              "BoxValidationError");
}

FIBER_TEST(test_s5_refused_paths)
{
    static const char *const paths[] = {"/",
                                        "//",
                                        "/.",
                                        "/..",
                                        "/etc",
                                        "/etc/",
                                        "//etc",
                                        "/./etc",
                                        "/etc/../etc",
                                        "/usr/../etc",
                                        "/etc/ssl",
                                        "/proc",
                                        "/proc/1",
                                        "/proc/self/root",
                                        "/sys",
                                        "/dev",
                                        "/dev/shm",
                                        "/root",
                                        ("/root/"
                                         "x"),
                                        "/boot",
                                        "/run",
                                        "/var/run",
                                        "/var/run/docker.sock",
                                        "/run/docker.sock",
                                        "/usr",
                                        "/usr/bin",
                                        "/opt",
                                        "/home",
                                        "/var",
                                        "/var/lib",
                                        "/bin",
                                        "/lib",
                                        "/sbin",
                                        "/srv",
                                        "/mnt",
                                        "/tmp",
                                        "/tmp/..",
                                        "/nonexistent/x",
                                        "C:\\Windows",
                                        "\\\\.\\pipe\\docker_engine"};
    char path[256], other[256];
    rig_open(&l, "fake", NULL);
    for (size_t i = 0; i < array_len(paths); i++)
        mount_fails(paths[i]);
    static const char *const below[] = {
        "%s/mounts/..",       "%s/mounts/../..",  "%s/mountsx",   "%s/mounts/../state",
        "%s/mounts/link",     "%s/mounts/link/x", "%s/mounts/up", "%s/mounts/file",
        "%s/mounts/link/new", "%s/mounts/gone"};
    snprintf(path, sizeof(path), "%s/mounts/link", l.root);
    CHECK(symlink("/etc", path) == 0);
    snprintf(path, sizeof(path), "%s/mounts/up", l.root);
    CHECK(symlink("../../..", path) == 0);
    snprintf(path, sizeof(path), "%s/mounts/file", l.root);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (size_t i = 0; i < array_len(below); i++) {
        snprintf(path, sizeof(path), below[i], l.root);
        mount_fails(path);
    }
    /* An allowed directory, but by a link that leads anywhere, also into the mounts of others. */
    snprintf(other, sizeof(other), "/proc/self/root%s/mounts", l.root);
    mount_fails(other);
    CHECK(fake.started == 0);
    snprintf(other, sizeof(other), "%s/mounts/gone", l.root); /* nothing was made on the way */
    CHECK(access(other, F_OK) != 0);
    rig_close(&l);
}

FIBER_TEST(test_s5_legal_paths)
{
    char path[256];
    struct stat st;
    rig_open(&l, "fake", NULL);
    snprintf(path, sizeof(path), "%s/mounts/new/deep", l.root);
    rig_ok(&l, "box_create_session", json_pack("{s:s,s:s}", "session_id", "s", "host_path", path));
    CHECK(strcmp(fake.last_host, path) == 0);
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode)); /* a missing one that is writable is made */
    snprintf(path, sizeof(path), "%s//mounts/./new/../new/", l.root);
    rig_ok(&l, "box_create_session", json_pack("{s:s,s:s}", "session_id", "t", "host_path", path));
    snprintf(path, sizeof(path), "%s/mounts/new", l.root);
    CHECK(strcmp(fake.last_host, path) == 0);
    rig_ok(&l, "box_create_session",
           json_pack("{s:s,s:s,s:s}", "session_id", "u", "host_path", "/etc", "host_path_mode",
                     "none"));
    CHECK(!*fake.last_host);
    rig_close(&l);
}

FIBER_TEST(test_s5_targets)
{
    static const char *const pairs[][2] = {{"x", "x"},   {"x", "x/"}, {"x", "./x"}, {"x", "x/y"},
                                           {"x/y", "x"}, {"", "y"},   {".", "y"}};
    static const char *const wrong[] = {"/", "/etc", "/workspacex", "/tmp/x", "/proc"};
    char place[256], a[64], b[64];
    rig_open(&l, "fake", NULL);
    snprintf(place, sizeof(place), "%s/mounts", l.root);
    for (size_t i = 0; i < array_len(pairs); i++) {
        snprintf(a, sizeof(a), "/workspace/%s", pairs[i][0]);
        snprintf(b, sizeof(b), "/workspace/%s", pairs[i][1]);
        rig_fails(&l, "box_create_session",
                  json_pack("{s:s,s:[{s:s,s:s,s:s},{s:s,s:s,s:s}]}", "session_id", "s",
                            "extra_mounts", "host_path", place, "mount_path", a, "mode", "ro",
                            "host_path", place, "mount_path", b, "mode", "ro"),
                  "mount_path");
    }
    for (size_t i = 0; i < array_len(wrong); i++)
        rig_fails(&l, "box_create_session",
                  json_pack("{s:s,s:[{s:s,s:s,s:s}]}", "session_id", "s", "extra_mounts",
                            "host_path", place, "mount_path", wrong[i], "mode", "ro"),
                  "mount_path");
    CHECK(fake.started == 0);
    rig_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_coercions),
        cmocka_unit_test(test_bad_fields),       cmocka_unit_test(test_session_ids),
        cmocka_unit_test(test_process_specs),    cmocka_unit_test(test_paths),
        cmocka_unit_test(test_s5_refused_paths), cmocka_unit_test(test_s5_legal_paths),
        cmocka_unit_test(test_s5_targets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
