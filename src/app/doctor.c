/* `parley doctor`: what is missing on this machine and what to do about it. It changes nothing: no file is made, no lock taken. */
#include "app/doctor.h"

#include "app/app_private.h"
#include "task/task.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

enum { NOFILE_WANTED = 4096, DISK_WANTED_MIB = 512, MEMORY_WANTED_MIB = 128 };

void doctor_say(struct doctor *d, enum doctor_state state, const char *what, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "note", "warn", "missing"};
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->count[state]++;
    printf("%-8s %-16s %s\n", names[state], what, text);
}

/* ---- data directory and configuration ------------------------------------------------------------------------------------------- */

static void check_disk(struct doctor *d, const char *dir)
{
    struct statvfs v;
    if (statvfs(dir, &v) != 0)
        return;
    long long mib = (long long)((double)v.f_bavail * (double)v.f_frsize / 1048576.0);
    if (mib < DISK_WANTED_MIB)
        doctor_say(d, DOCTOR_WARN, "disk", "only %lld MiB are free below %s: make room", mib, dir);
    else
        doctor_say(d, DOCTOR_OK, "disk", "%lld MiB are free below %s", mib, dir);
}

static void check_data_dir(struct doctor *d, const char *dir)
{
    struct stat st;
    char parent[4096];
    if (stat(dir, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            doctor_say(d, DOCTOR_MISSING, "data directory",
                       "%s is no directory: name another with --data", dir);
        else if (access(dir, R_OK | W_OK | X_OK) != 0)
            doctor_say(d, DOCTOR_MISSING, "data directory",
                       "%s cannot be written by user %u: change its owner or mode", dir,
                       (unsigned)geteuid());
        else
            doctor_say(d, DOCTOR_OK, "data directory", "%s can be written", dir);
        check_disk(d, dir);
        return;
    }
    snprintf(parent, sizeof parent, "%s", dir);
    char *slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = 0;
    if (access(parent, W_OK | X_OK) != 0)
        doctor_say(
            d, DOCTOR_MISSING, "data directory",
            "%s does not exist and cannot be made in %s: make it, or name another with --data", dir,
            parent);
    else
        doctor_say(d, DOCTOR_NOTE, "data directory",
                   "%s does not exist yet; the first start makes it", dir);
}

/* Warnings that reading the settings gives are findings here. */
static void heard(void *arg, enum log_level level, struct str line)
{
    struct doctor *d = arg;
    ptrdiff_t at = str_find(line, S("config: "));
    if (level < LOG_WARN || at < 0 || d->heard_n == array_len(d->heard))
        return;
    struct str text = str_sub(line, (size_t)at + 8, line.n);
    snprintf(d->heard[d->heard_n++], sizeof d->heard[0], STR_FMT, STR_ARG(text));
}

static void say_heard(struct doctor *d)
{
    for (size_t i = 0; i < d->heard_n; i++)
        doctor_say(d, DOCTOR_WARN, "setting", "%s: correct it in config.yaml or in the environment",
                   d->heard[i]);
    d->heard_n = 0;
}

static struct config *check_config(struct doctor *d, const char *dir)
{
    struct error err = {0};
    char path[4096];
    size_t i;
    json_t *name;
    snprintf(path, sizeof path, "%s/config.yaml", dir);
    log_tap(heard, d);
    struct config *c = config_peek(dir, NULL, &err);
    log_tap(NULL, NULL);
    if (!c) {
        doctor_say(d, DOCTOR_MISSING, "configuration", "%s cannot be used: %s", path, err.msg);
        return NULL;
    }
    if (access(path, F_OK) != 0)
        doctor_say(d, DOCTOR_NOTE, "configuration",
                   "%s does not exist yet; the first start writes it", path);
    else
        doctor_say(d, DOCTOR_OK, "configuration", "%s can be read", path);
    say_heard(d);
    auto_json unknown = config_unknown(c);
    json_array_foreach (unknown, i, name)
        doctor_say(d, DOCTOR_WARN, "setting",
                   "%s is not known and has no effect: check how it is spelt",
                   json_string_value(name));
    return c;
}

/* Readers that clamp say so in the log, too: those that a start would use first. */
static void check_numbers(struct doctor *d, const struct config *c)
{
    static const struct {
        const char *path;
        int64_t lo, hi;
    } numbers[] = {
        {"api.port", 1, 65535},
        {"storage.max_object_read_bytes", 1, 64 << 20},
        {"storage.cleanup.check_interval_hours", 1, 8760},
        {"storage.cleanup.uploaded_file_retention_days", 1, 36500},
        {"storage.cleanup.log_retention_days", 1, 36500},
        {"storage.cleanup.max_files_per_run", 1, 10000},
        {"monitoring.auto_cleanup.check_interval_hours", 1, 8760},
        {"monitoring.auto_cleanup.retention_days", 1, 36500},
        {"monitoring.auto_cleanup.delete_batch_size", 1, 100000},
        {"monitoring.auto_cleanup.max_batches_per_table_per_run", 1, 100},
        {"system.task_retention.completed_limit", 1, 100000},
        {"system.task_retention.max_active_user_tasks", 1, 10000},
        {"system.task_retention.max_active_user_tasks_per_workspace", 1, 10000},
    };
    log_tap(heard, d);
    for (size_t i = 0; i < array_len(numbers); i++)
        (void)config_int_in(c, numbers[i].path, numbers[i].lo, numbers[i].hi);
    log_tap(NULL, NULL);
    say_heard(d);
}

static void check_secrets(struct doctor *d, const struct config *c)
{
    static const char *const files[] = {"config.yaml", "labels/secret.key", "langbot.db"};
    auto_arena a = arena_new(64 << 10);
    bool all = true, any = false;
    for (size_t i = 0; a && i < array_len(files); i++) {
        const char *path = config_path(c, a, files[i]);
        struct stat st;
        if (stat(path, &st) != 0)
            continue;
        any = true;
        if (st.st_mode & 077) {
            doctor_say(d, DOCTOR_WARN, "secrets",
                       "%s can be read by others (mode %03o): chmod 600 %s", path,
                       (unsigned)(st.st_mode & 0777), path);
            all = false;
        }
    }
    if (all && any)
        doctor_say(d, DOCTOR_OK, "secrets", "files with secrets can be read by their owner only");
    const char *key = a ? config_path(c, a, "labels/secret.key") : "";
    if (any && access(key, F_OK) != 0 && !getenv("PARLEY_SECRET_KEY"))
        doctor_say(
            d, DOCTOR_WARN, "secrets",
            "%s is not there: secrets in the database that it sealed cannot be read; restore it from the backup",
            key);
}

/* ---- database ------------------------------------------------------------------------------------------------------------------- */

static void say_state(struct doctor *d, const struct db_migration_state *s)
{
    if (s->stored < s->newest)
        doctor_say(
            d, DOCTOR_WARN, "database schema",
            "is at revision %d of %d: make a backup; the next start or parley migrate upgrades it",
            s->stored, s->newest);
    else if (s->stored > s->newest)
        doctor_say(d, DOCTOR_MISSING, "database schema",
                   "is at revision %d, newer than this program's %d: use the newer program",
                   s->stored, s->newest);
    else
        doctor_say(d, DOCTOR_OK, "database schema", "is the newest, revision %d", s->stored);
}

static void check_sqlite(struct doctor *d, const struct config *c)
{
    auto_arena a = arena_new(16 << 10);
    struct error err = {0};
    struct db_peek p;
    if (!a)
        return;
    const char *path = config_path(c, a, config_str(c, "database.sqlite.path"));
    if (!db_peek(path, &p, &err)) {
        if (err.code == ERR_NOT_FOUND)
            doctor_say(d, DOCTOR_NOTE, "database",
                       "%s does not exist yet; the first start makes it", path);
        else
            doctor_say(d, DOCTOR_MISSING, "database",
                       "%s: %s; restore a backup of migration-backups", path, err.msg);
        return;
    }
    d->serving = p.in_use;
    const char *sign = p.in_use ? NULL : app_database_lost(c, a, path);
    if (sign) {
        doctor_say(
            d, DOCTOR_MISSING, "database",
            "%s is empty, but %s: restore a backup of it, or remove the file to start afresh", path,
            sign);
        return;
    }
    if (p.foreign) {
        doctor_say(d, DOCTOR_MISSING, "database",
                   "%s belongs to another program: name another in database.sqlite.path", path);
        return;
    }
    if (p.unclear) {
        doctor_say(d, DOCTOR_NOTE, "database",
                   "%s can be judged only when its journal (-wal) has been taken up: %s", path,
                   p.in_use ? "a running server holds it" : "start the server");
        return;
    }
    if (access(path, W_OK) != 0)
        doctor_say(d, DOCTOR_MISSING, "database", "%s cannot be written: change its owner or mode",
                   path);
    else
        doctor_say(d, DOCTOR_OK, "database", "%s can be read%s", path,
                   p.in_use ? "; a running server holds it" : "");
    if (!p.in_use && p.unfinished)
        doctor_say(d, DOCTOR_NOTE, "database",
                   "was not closed cleanly; the next start takes its journal up");
    /* Behind a journal the file may be older than the database. */
    if (p.state.stored || !(p.in_use || p.unfinished))
        say_state(d, &p.state);
}

static void check_database(struct doctor *d, const struct config *c)
{
    const char *use = config_str(c, "database.use");
    struct error err = {0};
    struct store st = {0};
    struct db_migration_state state;
    if (strcmp(use, "sqlite") == 0) {
        check_sqlite(d, c);
    } else if (strcmp(use, "postgresql") != 0) {
        doctor_say(d, DOCTOR_MISSING, "database",
                   "database.use is %s: sqlite and postgresql are known", use);
    } else if (!app_open_store(c, &st, &err) || !db_migration_state(st.db, &state, &err)) {
        doctor_say(d, DOCTOR_MISSING, "database",
                   "PostgreSQL: %s; check database.postgresql and that the server runs", err.msg);
    } else {
        doctor_say(d, DOCTOR_OK, "database", "PostgreSQL answers");
        say_state(d, &state);
    }
    db_close(st.db);
}

/* ---- machine -------------------------------------------------------------------------------------------------------------------- */

static void check_port(struct doctor *d, const struct config *c)
{
    int port = (int)config_int(c, "api.port"), on = 1;
    auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY),
                             .sin_port = htons((uint16_t)port)};
    if (fd < 0 || port < 1 || port > 65535)
        return;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0)
        doctor_say(d, DOCTOR_OK, "port", "%d is free", port);
    else if (errno == EADDRINUSE && d->serving)
        doctor_say(d, DOCTOR_OK, "port", "%d is in use, as is the database: the server runs", port);
    else if (errno == EADDRINUSE)
        doctor_say(d, DOCTOR_WARN, "port",
                   "%d is in use by another program: stop it, or set api.port", port);
    else
        doctor_say(d, DOCTOR_MISSING, "port", "%d cannot be used (%s): set api.port", port,
                   strerror(errno));
}

static void check_clock(struct doctor *d, const struct config *c)
{
    const int64_t year_2024 = 1704067200;
    auto_arena a = arena_new(16 << 10);
    struct timex t = {.modes = 0};
    struct stat st;
    int64_t now = time_wall_us() / 1000000;
    if (now < year_2024 ||
        (a && c && stat(config_path(c, a, "config.yaml"), &st) == 0 && st.st_mtime > now + 86400)) {
        doctor_say(d, DOCTOR_WARN, "clock",
                   "is behind: logins and signatures need the right time; synchronize it");
        return;
    }
    int state = adjtimex(&t);
    if (state == TIME_ERROR || (state >= 0 && (t.status & STA_UNSYNC)))
        doctor_say(
            d, DOCTOR_NOTE, "clock",
            "is plausible; the kernel does not know it as synchronized (usual in containers)");
    else
        doctor_say(d, DOCTOR_OK, "clock", "is plausible%s", state >= 0 ? " and synchronized" : "");
}

static void check_certificates(struct doctor *d)
{
    static const char standard[] = "/etc/ssl/certs/ca-certificates.crt";
    const char *set = getenv("SSL_CERT_FILE"), *path = set && *set ? set : standard;
    struct stat st;
    if (stat(path, &st) == 0 && st.st_size > 0 && access(path, R_OK) == 0)
        doctor_say(d, DOCTOR_OK, "certificates", "of authorities are in %s", path);
    else if (path == standard)
        doctor_say(d, DOCTOR_MISSING, "certificates",
                   "%s is not there, no https works: install ca-certificates", path);
    else
        doctor_say(d, DOCTOR_MISSING, "certificates",
                   "SSL_CERT_FILE names %s, which cannot be read: correct it", path);
}

static void check_limits(struct doctor *d)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
        r.rlim_cur < NOFILE_WANTED)
        doctor_say(d, DOCTOR_WARN, "open files",
                   "at most %llu: raise it to %d (ulimit -n, LimitNOFILE of the service)",
                   (unsigned long long)r.rlim_cur, NOFILE_WANTED);
    else
        doctor_say(d, DOCTOR_OK, "open files", "the limit is %llu", (unsigned long long)r.rlim_cur);
}

static int64_t memory_available_mib(void)
{
    char line[200];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && kib < 0 && fgets(line, sizeof line, f)) {
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtoll(line + 13, NULL, 10);
    }
    if (f)
        fclose(f);
    return kib < 0 ? -1 : kib / 1024;
}

static void check_memory(struct doctor *d)
{
    int64_t mib = memory_available_mib();
    if (mib < 0)
        doctor_say(d, DOCTOR_NOTE, "memory", "cannot be read from /proc/meminfo");
    else if (mib < MEMORY_WANTED_MIB)
        doctor_say(d, DOCTOR_WARN, "memory",
                   "only %lld MiB are available: end other programs or add some", (long long)mib);
    else
        doctor_say(d, DOCTOR_OK, "memory", "%lld MiB are available", (long long)mib);
}

static void check_panel(struct doctor *d)
{
    /* Without it there is one page that says so. */
    size_t pages = 0;
    for (size_t i = 0; i < base_asset_count; i++)
        pages += str_starts(str_c(base_assets[i].path), S("web/"));
    if (pages > 1)
        doctor_say(d, DOCTOR_OK, "panel", "is part of this program");
    else
        doctor_say(d, DOCTOR_WARN, "panel",
                   "is not part of this program, only the API is served: build with the panel");
    if (dlopen("libcairo.so.2", RTLD_LAZY | RTLD_LOCAL) &&
        dlopen("libfreetype.so.6", RTLD_LAZY | RTLD_LOCAL))
        doctor_say(d, DOCTOR_OK, "pictures", "long answers can be sent as pictures");
    else
        doctor_say(
            d, DOCTOR_NOTE, "pictures",
            "long answers are forwarded as text: install libcairo2 and libfreetype6 to send them as pictures");
}

/* ---- all ------------------------------------------------------------------------------------------------------------------------ */

static int in_fiber(void *arg)
{
    const struct app_options *o = arg;
    struct doctor d = {0};
    printf("Parley %s, user %u\n\n", PARLEY_VERSION, (unsigned)geteuid());
    check_data_dir(&d, o->data_dir);
    struct config *c = check_config(&d, o->data_dir);
    if (c) {
        check_numbers(&d, c);
        check_secrets(&d, c);
        check_database(&d, c);
        check_port(&d, c);
    }
    check_clock(&d, c);
    check_certificates(&d);
    check_limits(&d);
    check_memory(&d);
    check_panel(&d);
    doctor_kernel(&d);
    config_free(c);
    if (d.count[DOCTOR_MISSING])
        printf("\n%d missing, %d warnings: Parley cannot work before what is missing is there.\n",
               d.count[DOCTOR_MISSING], d.count[DOCTOR_WARN]);
    else
        printf("\nNothing is missing, %d warnings.\n", d.count[DOCTOR_WARN]);
    fflush(stdout);
    return d.count[DOCTOR_MISSING] ? 1 : 0;
}

int app_doctor(const struct app_options *o)
{
    /* What the parts log is said here in its own form. */
    log_setup(LOG_WARN, false, -1);
    return task_run(in_fiber, (void *)(uintptr_t)o);
}
