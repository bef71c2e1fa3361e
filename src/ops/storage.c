/* What takes how much room. persistence-and-ops.md §11. */
#include "ops/ops_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH_MAX = 32,
    ENTRIES_MAX = 1000000, /* of one section: what lies beyond is not counted */
    CANDIDATES_MAX = 1000,
};

/* A directory below the data directory, or the file of the database with those beside it. */
struct section {
    const char *key, *path;
    bool is_file, exists;
    int64_t size, files;
};

struct work {
    struct section sections[7];
    const char *logs;
    int64_t log_days;
    json_t *old_logs;
};

static void walk(struct section *s, int dir_fd, int depth)
{
    DIR *d = fdopendir(dir_fd);
    if (!d) {
        close(dir_fd);
        return;
    }
    for (struct dirent *e; s->files < ENTRIES_MAX && (e = readdir(d));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(st.st_mode)) {
            s->files++;
            s->size += st.st_size;
        } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (fd >= 0)
                walk(s, fd, depth + 1);
        }
    }
    closedir(d);
}

static void measure_file(struct section *s)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < array_len(beside); i++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s%s", s->path, beside[i]);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        s->exists = true;
        s->files++;
        s->size += st.st_size;
    }
}

static void measure(struct section *s)
{
    if (s->is_file) {
        measure_file(s);
        return;
    }
    int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    s->exists = true;
    walk(s, fd, 0);
}

static void find_old_logs(struct work *w)
{
    DIR *d = opendir(w->logs);
    if (!d)
        return;
    for (struct dirent *e; json_array_size(w->old_logs) < CANDIDATES_MAX && (e = readdir(d));) {
        char date[11];
        struct stat st;
        if (logfiles_is_old(e->d_name, time_wall_us(), w->log_days, date) &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            json_array_append_new(w->old_logs,
                                  json_pack("{s:s,s:s,s:I}", "name", e->d_name, "date", date,
                                            "size_bytes", (json_int_t)st.st_size));
    }
    closedir(d);
}

static void run(void *arg)
{
    struct work *w = arg;
    for (size_t i = 0; i < array_len(w->sections); i++) {
        if (w->sections[i].path)
            measure(&w->sections[i]);
    }
    find_old_logs(w);
}

static json_t *sections_json(const struct work *w)
{
    json_t *out = json_array();
    for (size_t i = 0; i < array_len(w->sections); i++) {
        const struct section *s = &w->sections[i];
        json_array_append_new(out, json_pack("{s:s,s:o,s:b,s:I,s:I}", "key", s->key, "path",
                                             s->path ? json_string(s->path) : json_null(), "exists",
                                             (int)s->exists, "size_bytes", (json_int_t)s->size,
                                             "file_count", (json_int_t)s->files));
    }
    return out;
}

static bool measure_all(const struct ops_env *env, struct arena *a, int64_t database_size,
                        struct work *w, struct error *err)
{
    static const char *const dirs[][2] = {
        {"logs", "logs"},       {"storage", "storage"}, {"vector_store", "chroma"},
        {"plugins", "plugins"}, {"mcp", "mcp"},         {"temp", "temp"}};
    bool sqlite = db_kind_of(env->store->db) == DB_SQLITE;
    w->sections[0] = (struct section){.key = "database", .is_file = true};
    if (sqlite) {
        w->sections[0].path =
            config_path(env->config, a, config_str(env->config, "database.sqlite.path"));
    } else {
        /* On its server: there is a size, but no path of ours. */
        w->sections[0].exists = true;
        w->sections[0].size = database_size;
    }
    for (size_t i = 0; i < array_len(dirs); i++)
        w->sections[i + 1] =
            (struct section){.key = dirs[i][0], .path = config_path(env->config, a, dirs[i][1])};
    w->logs = config_path(env->config, a, "logs");
    return !arena_failed(a) ? task_work(run, w, err) : err_set(err, ERR_NOMEM, "out of memory");
}

json_t *storage_analysis(const struct ops_env *env, const struct scope *s, struct error *err)
{
    const struct config *c = env->config;
    auto_arena a = arena_new(64 << 10);
    char when[TIME_ISO_SIZE];
    struct store_sizes sizes;
    int64_t upload_days =
        config_int_in(c, "storage.cleanup.uploaded_file_retention_days", 1, 36500);
    auto_json logs = json_array();
    struct work w = {.log_days = config_int_in(c, "storage.cleanup.log_retention_days", 1, 36500),
                     .old_logs = logs};
    if (!a || !logs) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (!store_sizes(env->store, s, &sizes, err) ||
        !measure_all(env, a, sizes.database_bytes, &w, err))
        return NULL;
    auto_json counts = monitor_counts(env->store, s, err);
    if (!counts)
        return NULL;
    auto_json objects =
        objects_survey(env->objects, s, time_wall_us() - upload_days * 86400 * 1000000,
                       CANDIDATES_MAX, false, err);
    if (!objects)
        return NULL;
    json_t *out = json_pack(
        "{s:s,s:{s:I,s:I},s:o,s:{s:s,s:O,s:{s:I,s:I}},s:{s:O,s:O},s:o}", "generated_at",
        time_iso(time_wall_us(), when), "cleanup_policy", "uploaded_file_retention_days",
        (json_int_t)upload_days, "log_retention_days", (json_int_t)w.log_days, "sections",
        sections_json(&w), "database", "type",
        db_kind_of(env->store->db) == DB_SQLITE ? "sqlite" : "postgresql", "monitoring_counts",
        counts, "binary_storage", "count", (json_int_t)sizes.binary_count, "size_bytes",
        (json_int_t)sizes.binary_bytes, "cleanup_candidates", "uploaded_files",
        json_object_get(objects, "candidates"), "log_files", logs, "tasks", jobs_stats(env->jobs));
    if (!out)
        err_set(err, ERR_NOMEM, "out of memory");
    return out;
}
