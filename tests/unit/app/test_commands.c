/* `parley migrate` and `parley doctor`. persistence-and-ops.md §5.5 */
#include "app/app.h"
#include "config/config.h"
#include "store/store.h"
#include "task/task.h"

#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64], data[80], said[64 << 10];

static int make_root(void **state)
{
    snprintf(root, sizeof root, "/tmp/parley-app-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(data, sizeof data, "%s/data", root);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int remove_root(void **state)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* ---- a command, with what it says ---- */

static int run(int (*command)(const struct app_options *))
{
    struct app_options o = {.data_dir = data};
    char path[] = "/tmp/parley-said-XXXXXX";
    fflush(stdout);
    fflush(stderr);
    int out = dup(1), error = dup(2), fd = mkstemp(path);
    assert_true(out >= 0 && error >= 0 && fd >= 0);
    dup2(fd, 1);
    dup2(fd, 2);
    int status = command(&o);
    fflush(stdout);
    dup2(out, 1);
    dup2(error, 2);
    ssize_t n = pread(fd, said, sizeof said - 1, 0);
    said[n < 0 ? 0 : n] = 0;
    close(fd);
    close(out);
    close(error);
    unlink(path);
    return status;
}

static int check(const struct app_options *o)
{
    return app_migrate(o, true);
}

static int migrate(const struct app_options *o)
{
    return app_migrate(o, false);
}

static bool line_with(const char *a, const char *b)
{
    for (const char *line = said; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t n = strcspn(line, "\n");
        if (memmem(line, n, a, strlen(a)) && memmem(line, n, b, strlen(b)))
            return true;
        if (!*line)
            break;
    }
    return false;
}

/* ---- all files with size and time of change ---- */

static uint64_t sum;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char text[512];
    snprintf(text, sizeof text, "%s %lld %lld.%ld %o", path,
             S_ISREG(st->st_mode) ? (long long)st->st_size : 0, (long long)st->st_mtim.tv_sec,
             st->st_mtim.tv_nsec, (unsigned)st->st_mode);
    sum = sum * 31 + str_hash(str_c(text));
    return 0;
}

static uint64_t fingerprint(void)
{
    sum = 1;
    nftw(root, add_file, 16, FTW_PHYS);
    return sum;
}

/* ---- rows ---- */

static char workspace[UUID_SIZE], account_id[UUID_SIZE];

static int fill_in_fiber(void *arg)
{
    struct error err = {0};
    struct store st = {0};
    struct scope scope;
    char path[128];
    struct config *c = config_load(data, NULL, &err);
    if (!c)
        abort();
    snprintf(path, sizeof path, "%s/langbot.db", data);
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    snprintf(st.instance, sizeof st.instance, "%s", config_instance_id(c));
    memcpy(st.key.k, config_secret_key(c), sizeof st.key.k);
    st.db = db_open(&o, &err);
    if (!st.db || !store_start(&st, &err))
        abort();
    json_t *account =
        account_create_first(&st, S("first@example.com"), "$argon2id$x", &scope, &err);
    if (!account)
        abort();
    snprintf(workspace, sizeof workspace, "%s", scope.workspace);
    snprintf(account_id, sizeof account_id, "%s", json_z_or(account, "uuid", ""));
    json_decref(account);
    db_close(st.db);
    config_free(c);
    return 0;
}

static void fill(void)
{
    assert_int_equal(task_run(fill_in_fiber, NULL), 0);
}

/* ---- migrate ---- */

static void a_check_makes_nothing(void **state)
{
    assert_int_equal(run(check), 1);
    assert_true(line_with("parley migrate:", "no data directory"));
    assert_int_equal(access(data, F_OK), -1);
}

static void migrate_makes_the_newest_schema_and_a_check_agrees(void **state)
{
    assert_int_equal(run(migrate), 0);
    assert_true(line_with("Stored revision", "0"));
    assert_true(line_with("Applied", "now at revision"));
    assert_true(line_with("parley_messages", "0"));
    fill();
    assert_int_equal(run(check), 0);
    assert_true(line_with(workspace, account_id)); /* the owner stands beside his workspace */
    assert_true(line_with(account_id, "active"));
    assert_true(line_with("workspace_memberships", " 1 "));
    assert_false(line_with("belong to no workspace", ""));
    assert_int_equal(run(migrate), 0); /* again: nothing to do */
    assert_true(line_with("Applied          0", ""));
}

static int forget_in_fiber(void *arg)
{
    struct error err = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/langbot.db", data);
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = db_open(&o, &err);
    if (!db)
        abort();
    db_close(db);
    return 0;
}

static void a_check_tells_of_an_empty_database(void **state)
{
    assert_int_equal(run(migrate), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/langbot.db", data);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run(check), 1);
    assert_true(line_with("parley migrate:", "no database yet"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(task_run(forget_in_fiber, NULL), 0);
    assert_int_equal(run(check), 3);
    assert_true(line_with("to be upgraded", "backup"));
}

static void a_database_in_use_is_left_alone(void **state)
{
    char path[128];
    fill();
    snprintf(path, sizeof path, "%s/langbot.db.lock", data);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(run(migrate), 1);
    assert_true(line_with("parley migrate:", "in use"));
    assert_int_equal(run(app_doctor), 0);
    assert_true(line_with("ok", "a running server holds it"));
    close(fd);
}

/* ---- doctor ---- */

static void the_doctor_changes_nothing(void **state)
{
    uint64_t before = fingerprint();
    assert_int_equal(run(app_doctor), 0);
    assert_true(line_with("note", "does not exist yet; the first start makes it"));
    assert_int_equal(fingerprint(), before);
    fill();
    before = fingerprint();
    assert_int_equal(run(app_doctor), 0);
    assert_true(line_with("ok", "can be written"));
    assert_true(line_with("ok", "is the newest, revision"));
    assert_true(line_with("ok", "files with secrets"));
    assert_true(line_with("note", "Landlock"));
    assert_true(line_with("seccomp", "(not used yet)"));
    assert_true(line_with("user namespaces", "(not used yet)"));
    assert_true(line_with("control groups", "(not used yet)"));
    assert_false(line_with("missing  ", ""));
    assert_int_equal(fingerprint(), before);
}

static void put(const char *name, const char *text, int flags)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", data, name);
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void settings_that_are_wrong(void **state)
{
    char path[128];
    fill();
    put("config.yaml", "\nnonsense_section:\n    a: 1\n", O_APPEND);
    snprintf(path, sizeof path, "%s/config.yaml", data);
    assert_int_equal(chmod(path, 0644), 0);
    setenv("STORAGE__CLEANUP__LOG_RETENTION_DAYS", "-3", 1);
    assert_int_equal(run(app_doctor), 0);
    unsetenv("STORAGE__CLEANUP__LOG_RETENTION_DAYS");
    assert_true(line_with("warn", "nonsense_section is not known"));
    assert_true(line_with("warn", "chmod 600"));
    assert_true(line_with("warn", "storage.cleanup.log_retention_days"));
    put("config.yaml", "a: [", O_TRUNC);
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing", "config.yaml cannot be used"));
    assert_true(line_with("Parley cannot work before", "1 missing"));
}

static void a_damaged_database(void **state)
{
    fill();
    put("langbot.db",
        "this is no database at all, but long enough to have a header of its own.............................",
        O_TRUNC);
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing", "database"));
    assert_true(line_with("missing", "restore a backup"));
}

static const char *of_data(char *out, const char *name)
{
    snprintf(out, 160, "%s/%s", data, name);
    return out;
}

/* A file of no bytes where there was a database: refused, and said how to go on either way. */
static void an_emptied_database(void **state)
{
    char path[160], dir[160];
    /* A first start that was cut off at once: nothing was in use. */
    fill();
    put("langbot.db", "", O_TRUNC);
    assert_int_equal(run(app_doctor), 0);
    assert_int_equal(run(migrate), 0);

    put("langbot.db", "", O_TRUNC);
    put("langbot.db-wal", "something", O_TRUNC);
    assert_int_equal(run(migrate), 1);
    assert_true(line_with("its journal (-wal) is not", "to start afresh on purpose"));
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing  database", "is empty, but its journal"));
    assert_int_equal(unlink(of_data(path, "langbot.db-wal")), 0);

    assert_int_equal(mkdir(of_data(dir, "migration-backups"), 0700), 0);
    assert_int_equal(run(app_doctor), 0); /* an empty folder says nothing */
    put("migration-backups/one", "x", 0);
    assert_int_equal(run(migrate), 1);
    assert_true(line_with("there are backups of it", ""));
    assert_int_equal(unlink(of_data(path, "migration-backups/one")), 0);

    put("labels/instance_id.json",
        "{\"instance_id\": \"instance_x\", \"instance_create_ts\": 1700000000}", O_TRUNC);
    assert_int_equal(run(migrate), 1);
    assert_true(line_with("this instance was made on 2023-11-14", ""));
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing  database", "2023-11-14"));
    /* On purpose. */
    assert_int_equal(unlink(of_data(path, "langbot.db")), 0);
    assert_int_equal(run(migrate), 0);
    assert_int_equal(run(app_doctor), 0);
}

static void an_emptied_configuration(void **state)
{
    fill();
    put("config.yaml", "", O_TRUNC);
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing  configuration", "config.yaml is empty: restore a backup"));
    assert_int_equal(run(migrate), 1);
    assert_true(line_with("parley migrate:", "config.yaml is empty"));
}

static void a_lost_key_and_a_used_port(void **state)
{
    char path[128], port[16];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t n = sizeof at;
    fill();
    snprintf(path, sizeof path, "%s/labels/secret.key", data);
    assert_int_equal(unlink(path), 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0 &&
                getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    snprintf(port, sizeof port, "%u", ntohs(at.sin_port));
    setenv("API__PORT", port, 1);
    assert_int_equal(run(app_doctor), 0);
    unsetenv("API__PORT");
    close(fd);
    assert_true(line_with("warn", "secret.key is not there"));
    assert_true(line_with("warn", "in use by another program"));
}

static void what_is_not_there(void **state)
{
    snprintf(data, sizeof data, "/nonexistent/parley/data");
    assert_int_equal(run(app_doctor), 1);
    assert_true(line_with("missing", "cannot be made"));
    snprintf(data, sizeof data, "%s/data", root);
    setenv("SSL_CERT_FILE", "/nonexistent.pem", 1);
    assert_int_equal(run(app_doctor), 1);
    unsetenv("SSL_CERT_FILE");
    assert_true(line_with("missing", "SSL_CERT_FILE names /nonexistent.pem"));
}

int main(void)
{
    base_init();
#define T(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        T(a_check_makes_nothing),
        T(migrate_makes_the_newest_schema_and_a_check_agrees),
        T(a_check_tells_of_an_empty_database),
        T(a_database_in_use_is_left_alone),
        T(the_doctor_changes_nothing),
        T(settings_that_are_wrong),
        T(a_damaged_database),
        T(an_emptied_database),
        T(an_emptied_configuration),
        T(a_lost_key_and_a_used_port),
        T(what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
