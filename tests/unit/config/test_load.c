/* config.yaml: made, completed, overridden, never robbed of a key (persistence-and-ops.md §6, §16 "Configuration"). */
#include "config/conf.h"
#include "crypto/crypto.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *text_at(const json_t *j, const char *path)
{
    const json_t *at = json_at(j, path);
    if (!json_is_string(at)) {
        fail_msg("%s is no text", path);
    }
    return json_string_value(at);
}

static void is(const json_t *j, const char *path, const char *wanted_json)
{
    json_error_t e;
    auto_json wanted = json_loads(wanted_json, JSON_DECODE_ANY, &e);
    assert_non_null(wanted);
    const json_t *have = path ? json_at(j, path) : j;
    if (!have || !json_equal(have, wanted) || json_typeof(have) != json_typeof(wanted)) {
        char *text = have ? json_dump_z(have, JSON_ENCODE_ANY) : NULL;
        fail_msg("%s is %s, not %s", path ? path : "it", text ? text : "absent", wanted_json);
    }
}

static bool only(const char *text, const char *set, size_t n)
{
    return strlen(text) == n && strspn(text, set) == n;
}

static void test_made_when_missing(void **state)
{
    struct config *c = conf_load(NO_ENV);
    struct stat st;
    auto_json j = conf_yaml();
    assert_true(only(text_at(j, "system.jwt.secret"), "0123456789abcdef", 32));
    assert_true(only(text_at(j, "system.recovery_key"), "23456789ABCDEFGHJKLMNPQRSTUVWXYZ", 8));
    is(j, "api.port", "5300");
    is(j, "command.prefix", "[\"!\", \"！\"]");
    is(j, "plugin.connect_timeout_seconds", "180.0");
    is(j, "system.limitation.max_bots", "-1");
    assert_non_null(strstr(conf_text("config.yaml"), "！"));
    assert_non_null(strstr(conf_text("config.yaml"), "# "));
    assert_int_equal(stat(conf_at("config.yaml"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    static const char *const dirs[] = {"metadata", "logs", "labels", "temp", "storage"};
    for (size_t i = 0; i < array_len(dirs); i++) {
        assert_int_equal(stat(conf_at(dirs[i]), &st), 0);
        assert_true(S_ISDIR(st.st_mode));
    }
    assert_string_equal(config_str(c, "system.jwt.secret"), text_at(j, "system.jwt.secret"));

    char before[200000];
    snprintf(before, sizeof(before), "%s", conf_text("config.yaml"));
    struct config *again = conf_load(NO_ENV);
    assert_string_equal(before, conf_text("config.yaml"));
    assert_string_equal(config_instance_id(c), config_instance_id(again));
    assert_memory_equal(config_secret_key(c), config_secret_key(again), 32);
    config_free(again);
    config_free(c);
}

static void test_only_what_changed_is_written(void **state)
{
    const struct base_asset *asset = base_asset_find("metadata/config.yaml");
    assert_non_null(asset);
    config_free(conf_load(ENV("API__PORT=6000", "COMMAND__PREFIX=#", "NEW__DEEP__KEY=made")));
    /* The lines that differ from the template: port, prefix, secret, recovery key; and three new ones. */
    struct str old = str_n((const char *)asset->data, asset->size), line, now, now_line;
    now = str_c(conf_text("config.yaml"));
    size_t different = 0, more = 0;
    while (str_split(&old, '\n', &line) && str_split(&now, '\n', &now_line)) {
        different += !str_eq(line, now_line);
    }
    while (now.p && str_split(&now, '\n', &now_line)) {
        more++;
    }
    assert_in_range(different, 4, 5);
    assert_int_equal(more, 3);
    assert_true(
        str_ends(str_c(conf_text("config.yaml")), S("new:\n    deep:\n        key: made\n")));
}

static void test_environment_types(void **state)
{
    config_free(conf_load(
        ENV("SYSTEM__JWT__EXPIRE=3600", "PLUGIN__CONNECT_TIMEOUT_SECONDS=12.5",
            "PLUGIN__ENABLE_MARKETPLACE=no", "COMMAND__ENABLE=YES",
            "SYSTEM__ALLOW_MODIFY_LOGIN_INFO=On", "MONITORING__AUTO_CLEANUP__ENABLED=1",
            "STORAGE__CLEANUP__ENABLED=nonsense", "COMMAND__PREFIX= # , ,/ ,！,",
            "VDB__PGVECTOR__ALLOWED_DIMENSIONS=384, 512 ,",
            "SYSTEM__OUTBOUND_IPS=10.0.0.1, 10.0.0.2", "STORAGE__CLEANUP__LOG_RETENTION_DAYS=many",
            "API__EXTRA_WEBHOOK_PREFIX=https://ünï.example", "NEW__DEEP__KEY=made",
            "SYSTEM__LIMITATION=gone", "SYSTEM__EDITION__SUB=stopped",
            "SYSTEM____EDITION=empty part", "__SYSTEM__EDITION=empty part",
            "SYSTEM__EDITION__=empty part", "system__edition=lower case", "System__Edition=mixed",
            "SYSTEMEDITION=none", "1__2=no letter",
            "API__WEBUI_URL=", "DATABASE__POSTGRESQL__PASSWORD=12345", "PLUGIN__WORKER__MAX_CPUS=2",
            "SYSTEM__LIMITATION__MAX_BOTS= 7 ", "CONCURRENCY__SESSION=1.5",
            "SYSTEM__DISABLED_ADAPTERS=on,true,12", "PLUGIN__RUNTIME_WS_URL=yes")));
    auto_json j = conf_yaml();
    is(j, "system.jwt.expire", "3600");
    is(j, "plugin.connect_timeout_seconds", "12.5");
    is(j, "plugin.enable_marketplace", "false");
    is(j, "command.enable", "true");
    is(j, "system.allow_modify_login_info", "true");
    is(j, "monitoring.auto_cleanup.enabled", "true");
    is(j, "storage.cleanup.enabled", "false");
    is(j, "command.prefix", "[\"#\", \"/\", \"！\"]");
    is(j, "vdb.pgvector.allowed_dimensions", "[384, 512]");
    is(j, "system.outbound_ips", "[\"10.0.0.1\", \"10.0.0.2\"]");
    is(j, "storage.cleanup.log_retention_days", "\"many\"");
    is(j, "api.extra_webhook_prefix", "\"https://ünï.example\"");
    is(j, "new.deep.key", "\"made\"");
    is(j, "system.edition", "\"community\"");
    is(j, "system.limitation.max_pipelines", "-1");
    is(j, "system.limitation.max_bots", "7");
    is(j, "api.webui_url", "\"\"");
    is(j, "database.postgresql.password", "\"12345\"");
    is(j, "plugin.worker.max_cpus", "2.0");
    is(j, "concurrency.session", "\"1.5\"");
    is(j, "system.disabled_adapters", "[\"on\", \"true\", \"12\"]");
    is(j, "plugin.runtime_ws_url", "\"yes\"");
    assert_null(json_at(j, "1"));
    config_free(conf_load(NO_ENV));
    auto_json later = conf_yaml();
    assert_true(json_equal(j, later));
}

static char logged[65536];

static void tap(void *arg, enum log_level level, struct str line)
{
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof(logged) - n, STR_FMT "\n", STR_ARG(line));
}

static void test_values_are_not_logged(void **state)
{
    log_setup(LOG_DEBUG, false, open("/dev/null", O_WRONLY | O_CLOEXEC));
    logged[0] = '\0';
    log_tap(tap, NULL);
    config_free(conf_load(ENV("DATABASE__POSTGRESQL__PASSWORD=seen-nowhere", "NEW__KEY=\xff\xfe")));
    assert_null(strstr(logged, "seen-nowhere"));
    assert_non_null(strstr(logged, "DATABASE__POSTGRESQL__PASSWORD"));
    assert_non_null(strstr(logged, "NEW__KEY"));
    auto_json j = conf_yaml();
    assert_null(json_at(j, "new"));
    assert_null(strstr(logged, text_at(j, "system.jwt.secret")));
    assert_null(strstr(logged, text_at(j, "system.recovery_key")));
}

static const char old_file[] = "admins: [person_1]   # who may\n"
                               "own:\n"
                               "  kept: [1, zwei, {drei: null}]\n"
                               "  ümlaut: 日本\n"
                               "# a comment of the owner\n"
                               "api: {webhook_prefix: 'http://127.0.0.1:5300', port: 5301}\n"
                               "command:\n"
                               "  enable: true\n"
                               "  prefix:\n"
                               "  - '!'\n"
                               "  privilege: {}\n"
                               "plugin:\n"
                               "  enable: false\n"
                               "storage: {use: local, local: {path: old}}\n"
                               "system:\n"
                               "  edition: community # as it was\n"
                               "  recovery_key: A1B2C3\n"
                               "  jwt: {expire: 604800, secret: an-old-secret}\n"
                               "vdb:\n"
                               "  use: chroma\n"
                               "  chroma:\n"
                               "    path: old\n"
                               "webhooks:\n"
                               "  max_per_workspace: 3";

static void test_an_older_file(void **state)
{
    conf_write("config.yaml", old_file);
    config_free(
        conf_load(ENV("PLUGIN__WORKER__MAX_PIDS=64", "MONITORING__QUERY_LIMITS__DETAIL_ROWS=77",
                      "COMMAND__PREFIX=#,/", "SYSTEM__EDITION=own")));
    auto_json j = conf_yaml();
    is(j, "cloud.directory",
       "{\"max_active_workspaces\": 1000, \"max_snapshot_workspaces\": 1000, "
       "\"max_snapshot_memberships\": 20000, \"max_response_bytes\": 33554432}");
    is(j, "database.postgresql.pool_size", "10");
    is(j, "database.postgresql.statement_timeout_ms", "60000");
    is(j, "system.blocking_executor",
       "{\"max_workers\": 8, \"max_pending\": 128, \"max_inflight_per_scope\": 4}");
    is(j, "plugin.connect_timeout_seconds", "180.0");
    is(j, "plugin.worker.max_cpus", "1.0");
    is(j, "plugin.worker.require_hard_limits", "false");
    is(j, "plugin.worker.max_pids", "64");
    is(j, "mcp.stdio.enabled", "true");
    is(j, "monitoring.query_limits.page_rows", "1000");
    is(j, "monitoring.query_limits.detail_rows", "77");
    is(j, "storage.max_object_read_bytes", "10485760");
    is(j, "storage.cleanup.max_files_per_run", "1000");
    is(j, "monitoring.auto_cleanup.max_batches_per_table_per_run", "4");
    is(j, "webhooks.max_inflight_requests", "16");
    is(j, "webhooks.max_per_workspace", "3");
    is(j, "box.limits.max_workspace_entries", "100000");
    is(j, "command.prefix", "[\"#\", \"/\"]");
    is(j, "system.recovery_key", "\"A1B2C3\"");
    is(j, "system.jwt.secret", "\"an-old-secret\"");
    is(j, "system.edition", "\"own\"");
    is(j, "own", "{\"kept\": [1, \"zwei\", {\"drei\": null}], \"ümlaut\": \"日本\"}");
    is(j, "storage.local.path", "\"old\"");
    is(j, "vdb.chroma.path", "\"old\"");
    is(j, "admins", "[\"person_1\"]");
    /* Not deep-merged: what is no typed leaf stays out. */
    assert_null(json_at(j, "system.limitation"));
    assert_null(json_at(j, "concurrency"));
    const char *text = conf_text("config.yaml");
    assert_non_null(strstr(text, "# a comment of the owner\n"));
    assert_non_null(strstr(text, "admins: [person_1]   # who may\n"));
    assert_non_null(strstr(text, "edition: own # as it was\n"));
    assert_non_null(strstr(text, "  prefix:\n  - \"#\"\n  - \"/\"\n  privilege: {}\n"));
}

static void test_missing_keys_take_the_templates_type(void **state)
{
    conf_write("config.yaml", old_file);
    config_free(conf_load(
        ENV("SYSTEM__LIMITATION__MAX_BOTS=1", "CONCURRENCY__PENDING_QUERIES=900",
            "SYSTEM__OUTBOUND_IPS=10.0.0.1,10.0.0.2", "VDB__PGVECTOR__ALLOWED_DIMENSIONS=384,512",
            "BOX__LOCAL__ALLOWED_MOUNT_ROOTS=/tmp", "SYSTEM__ALLOW_MODIFY_LOGIN_INFO=no",
            "VDB__PGVECTOR=x", "API__WEBUI_URL__DEEPER=x", "PROXY__HTTP=5")));
    auto_json j = conf_yaml();
    is(j, "system.limitation", "{\"max_bots\": 1}");
    is(j, "concurrency.pending_queries", "900");
    is(j, "system.outbound_ips", "[\"10.0.0.1\", \"10.0.0.2\"]");
    is(j, "vdb.pgvector.allowed_dimensions", "[384, 512]");
    is(j, "box.local.allowed_mount_roots", "[\"/tmp\"]");
    is(j, "system.allow_modify_login_info", "false");
    is(j, "proxy.http", "\"5\"");
    assert_null(json_at(j, "api.webui_url"));
}

/* A text that an earlier version made of a number becomes a number again. */
static void test_texts_are_healed(void **state)
{
    conf_write(
        "config.yaml",
        "system:\n    limitation: {max_bots: '3', max_pipelines: '4'}\n    outbound_ips: '1.1.1.1'\n");
    struct config *c = conf_load(ENV("SYSTEM__LIMITATION__MAX_BOTS=5", "SYSTEM__OUTBOUND_IPS=a,b"));
    auto_json j = conf_yaml();
    is(j, "system.limitation", "{\"max_bots\": 5, \"max_pipelines\": \"4\"}");
    is(j, "system.outbound_ips", "[\"a\", \"b\"]");
    assert_int_equal(config_int(c, "system.limitation.max_pipelines"), 4);
    config_free(c);
}

static void test_broken_files(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"webhooks: none\n", "webhooks must be a mapping"},
        {"system:\n    blocking_executor: 5\n", "system.blocking_executor must be a mapping"},
        {"plugin:\n    worker: [1]\n", "plugin.worker must be a mapping"},
        {"storage:\n", "storage must be a mapping"},
        {"system:\n    jwt: text\n", "system.jwt must be a mapping"},
        {"", "config.yaml is empty: restore a backup"},
        {"# nothing\n\n", "config.yaml: line 1: the document is empty"},
        {"~\n", "line 1: the file is empty"},
        {"- a\n- b\n", "line 1: config.yaml must be a mapping"},
        {"a: 1\nb: [1, 2\nc: 3\n", "config.yaml: line "},
        {"a: 1\nb:\n  c: 1\n  c: 2\n", "config.yaml: line 4: the key \"c\" is there twice"},
        {"a: 1\n\tb: 2\n", "config.yaml: line "},
        {"a: 1\n---\nb: 2\n", "more than one document"},
        {"a: 1\nb: \xff\n", "config.yaml: line 2: not UTF-8 text"},
        {"a: *nobody\n", "line 1: an alias without its anchor"},
        {"a: &x [*x]\n", "line 1: an alias of what it stands in"},
        {"a: !python/object:os.system x\n", "line 1: unknown tag"},
        {"? [a, b]\n: 1\n", "line 1: a key must be a text"},
        {"a: {<<: 5}\n", "line 1: only mappings can be merged"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        conf_write("config.yaml", cases[i].text);
        const char *msg = conf_fails(NO_ENV);
        if (!strstr(msg, cases[i].wanted)) {
            fail_msg("case %zu: %s", i, msg);
        }
        assert_string_equal(conf_text("config.yaml"), cases[i].text);
    }
}

static void test_bombs(void **state)
{
    auto_buf b = BUF(1 << 21);
    buf_z(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        buf_fmt(&b, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
                i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    conf_write("config.yaml", buf_cstr(&b));
    assert_non_null(strstr(conf_fails(NO_ENV), "too many values"));

    buf_clear(&b);
    for (int i = 0; i < 100000; i++) {
        buf_c(&b, '[');
    }
    conf_write("config.yaml", buf_cstr(&b));
    assert_non_null(strstr(conf_fails(NO_ENV), "line 1: "));

    buf_clear(&b);
    buf_z(&b, "a: '");
    while (b.n <= YAML_TEXT_MAX) {
        buf_z(&b, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    }
    buf_z(&b, "'\n");
    conf_write("config.yaml", buf_cstr(&b));
    assert_non_null(strstr(conf_fails(NO_ENV), "larger than"));

    buf_clear(&b);
    buf_z(&b, "a: [");
    while (b.n < YAML_TEXT_MAX - 10) {
        buf_z(&b, "1,");
    }
    buf_z(&b, "]\n");
    conf_write("config.yaml", buf_cstr(&b));
    assert_non_null(strstr(conf_fails(NO_ENV), "too many values"));
}

static void test_readers(void **state)
{
    struct error err;
    struct config *c = config_of_text(
        S("api: {port: '6001', webhook_prefix: 5, global_api_key: [x]}\n"
          "concurrency: {pipeline: 0, session: many, pending_queries: 7.0, pending_queries_per_workspace: -5}\n"
          "command: {enable: 'no', prefix: ' a, ,b '}\n"
          "database: {postgresql: {password: 0123}}\n"
          "plugin: {connect_timeout_seconds: '2.5', enable: null, worker: {max_cpus: 3}}\n"
          "system: {outbound_ips: [' x ', 5, ''], instance_id: ' mine ', limitation: {max_bots: 99999999999999999999}}\n"
          "box: {local: {skills_root: ./old/skills}}\n"),
        NO_ENV, &err);
    assert_non_null(c);
    assert_int_equal(config_int(c, "api.port"), 6001);
    assert_string_equal(config_str(c, "api.webhook_prefix"), "5");
    assert_string_equal(config_str(c, "api.global_api_key"), "");
    assert_string_equal(config_str(c, "database.postgresql.password"), "83");
    assert_int_equal(config_int_in(c, "concurrency.pipeline", 1, 1000), 20);
    assert_int_equal(config_int_in(c, "concurrency.session", 1, 1000), 1);
    assert_int_equal(config_int_in(c, "concurrency.pending_queries", 1, 1000), 7);
    assert_int_equal(config_int_in(c, "concurrency.pending_queries_per_workspace", 1, 1000), 100);
    assert_int_equal(config_int(c, "concurrency.session"), 1);
    assert_int_equal(config_int(c, "system.limitation.max_bots"), -1);
    assert_int_equal(config_int_in(c, "no.such", 3, 9), 3);
    assert_false(config_bool(c, "command.enable"));
    assert_true(config_bool(c, "plugin.enable"));
    assert_false(config_bool(c, "no.such"));
    assert_true(config_num(c, "plugin.connect_timeout_seconds") == 2.5);
    assert_true(config_num(c, "plugin.worker.max_cpus") == 3.0);
    assert_true(config_num(c, "plugin.worker.max_total_cpus") == 8.0);
    assert_string_equal(config_str(c, "system.edition"), "community");
    assert_string_equal(config_str(c, "no.such"), "");
    assert_string_equal(config_str(c, "skills.root"), "./old/skills");
    assert_false(config_has(c, "skills.root"));
    assert_false(config_has(c, "plugin.enable"));
    assert_true(config_has(c, "api.port"));
    assert_null(config_json(c, "no.such"));
    assert_true(json_is_object(config_json(c, "plugin.worker")));
    auto_json prefix = config_list(c, "command.prefix");
    auto_json ips = config_list(c, "system.outbound_ips");
    auto_json none = config_list(c, "no.such");
    is(prefix, NULL, "[\"a\", \"b\"]");
    is(ips, NULL, "[\"x\", \"5\"]");
    is(none, NULL, "[]");
    assert_string_equal(config_instance_id(c), "mine");

    auto_arena a = arena_new(65536);
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "%s/langbot.db", config_data_dir(c));
    assert_string_equal(config_path(c, a, "data/langbot.db"), wanted);
    assert_string_equal(config_path(c, a, "./data/langbot.db"), wanted);
    assert_string_equal(config_path(c, a, "langbot.db"), wanted);
    assert_string_equal(config_path(c, a, "/abs/x"), "/abs/x");
    assert_string_equal(config_path(c, a, "./data"), config_data_dir(c));
    config_free(c);

    c = config_of_text(S(""), ENV("API__PORT=9", "SYSTEM__OUTBOUND_IPS=1,2"), &err);
    assert_non_null(c);
    assert_int_equal(config_int(c, "api.port"), 9);
    assert_true(strncmp(config_instance_id(c), "instance_", 9) == 0);
    config_free(c);
    assert_null(config_of_text(S("a: ["), NO_ENV, &err));
}

static void test_the_sets_root_wins(void **state)
{
    struct error err;
    struct config *c = config_of_text(
        S("skills: {root: ./new}\nbox: {local: {skills_root: ./old}}\n"), NO_ENV, &err);
    assert_string_equal(config_str(c, "skills.root"), "./new");
    config_free(c);
    c = config_of_text(S("skills: {root: ' '}\nbox: {local: {skills_root: ./old}}\n"), NO_ENV,
                       &err);
    assert_string_equal(config_str(c, "skills.root"), "./old");
    config_free(c);
    c = config_of_text(S("a: 1\n"), NO_ENV, &err);
    assert_string_equal(config_str(c, "skills.root"), "./data/box/skills");
    config_free(c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, conf_setup, conf_teardown)
    const struct CMUnitTest tests[] = {
        T(test_made_when_missing),
        T(test_only_what_changed_is_written),
        T(test_environment_types),
        T(test_values_are_not_logged),
        T(test_an_older_file),
        T(test_missing_keys_take_the_templates_type),
        T(test_texts_are_healed),
        T(test_broken_files),
        T(test_bombs),
        T(test_readers),
        T(test_the_sets_root_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
