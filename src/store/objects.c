/* Objects on disk: data/storage/v1/<instance>/<workspace>/<generation>/<owner type>/<owner>/<key><suffix>.
 * persistence-and-ops.md §9, http-api.md §7. File work runs on workers. */
#include "store/store.h"
#include "task/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct objects {
    char *root;
    int64_t max;
    char instance[256], prefix[25];
    const struct fence *fence;
};

struct objects *objects_new(const char *root, int64_t max, const char *instance,
                            const struct fence *f, struct error *err)
{
    struct objects *o = new (struct objects);
    if (o)
        o->root = mem_strndup(root, strlen(root));
    if (!o || !o->root) {
        mem_free(o);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    char hash[65];
    o->max = max;
    o->fence = f;
    snprintf(o->instance, sizeof o->instance, "%s", instance);
    sha256_hex(str_c(instance), hash);
    snprintf(o->prefix, sizeof o->prefix, "%.24s", hash);
    return o;
}

void objects_free(struct objects *o)
{
    if (!o)
        return;
    mem_free(o->root);
    mem_free(o);
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------- */

static bool all_hex(struct str s, size_t n)
{
    if (s.n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return true;
}

static bool suffix_ok(struct str s)
{
    if (s.n < 2 || s.n > 17 || s.p[0] != '.')
        return false;
    for (size_t i = 1; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'z')))
            return false;
    return true;
}

static bool owner_type_ok(struct str s)
{
    if (s.n == 0 || s.n > 64 || s.p[0] < 'a' || s.p[0] > 'z')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* A canonical key of this scope; its owner type in *type. */
static bool key_fits(const struct objects *o, const struct scope *s, struct str key,
                     struct str *type)
{
    struct str part[7], rest = key;
    size_t n = 0;
    while (n < 7 && str_split(&rest, '/', &part[n]))
        n++;
    if (n != 7 || rest.n > 0 || !str_eqz(part[0], "v1") || !str_eqz(part[1], o->prefix) ||
        !str_eqz(part[2], s->workspace))
        return false;
    char generation[24];
    snprintf(generation, sizeof generation, "%lld", (long long)s->generation);
    struct str hash = str_sub(part[6], 0, 64), suffix = str_sub(part[6], 64, part[6].n);
    *type = part[4];
    return str_eqz(part[3], generation) && owner_type_ok(part[4]) && all_hex(part[5], 32) &&
           all_hex(hash, 64) && (suffix.n == 0 || suffix_ok(suffix));
}

static bool missing(struct error *err)
{
    return err_tag(err, ERR_NOT_FOUND, 404, "resource_not_found", "Resource not found");
}

static bool type_in(struct str type, const char *const *types)
{
    for (; *types; types++)
        if (str_eqz(type, *types))
            return true;
    return false;
}

/* ---- file work ------------------------------------------------------------------------------------------------------------------ */

struct job {
    const char *root, *key;
    struct str data, out;
    struct arena *arena;
    int64_t max;
    bool ok, absent;
    struct error err;
};

/* Opens the folder of a key below the root, part by part without following links; makes folders if asked. */
static int open_folder(const char *root, struct str key, bool make, struct str *name)
{
    struct str rest = key, part;
    *name = STR_NONE;
    int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (dir >= 0 && str_chr(rest, '/') >= 0 && str_split(&rest, '/', &part)) {
        char z[128];
        snprintf(z, sizeof z, STR_FMT, STR_ARG(part));
        if (make && mkdirat(dir, z, 0700) != 0 && errno != EEXIST) {
            close(dir);
            return -1;
        }
        int next = openat(dir, z, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    *name = rest;
    return dir;
}

static bool write_fully(int fd, struct str data)
{
    while (data.n > 0) {
        ssize_t n = write(fd, data.p, data.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = str_sub(data, (size_t)n, data.n);
    }
    return true;
}

static void put_work(void *arg)
{
    struct job *j = arg;
    struct str name;
    auto_fd dir = open_folder(j->root, str_c(j->key), true, &name);
    char final[128], temp[140];
    snprintf(final, sizeof final, STR_FMT, STR_ARG(name));
    snprintf(temp, sizeof temp, ".%s.tmp", final);
    auto_fd fd =
        dir >= 0 ? openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)
                 : -1;
    j->ok = fd >= 0 && write_fully(fd, j->data) && renameat(dir, temp, dir, final) == 0;
    if (!j->ok) {
        err_sys(&j->err, errno, "the object could not be stored");
        if (dir >= 0)
            unlinkat(dir, temp, 0);
    }
}

static void get_work(void *arg)
{
    struct job *j = arg;
    struct str name;
    auto_fd dir = open_folder(j->root, str_c(j->key), false, &name);
    char z[128];
    snprintf(z, sizeof z, STR_FMT, STR_ARG(name));
    auto_fd fd = dir >= 0 ? openat(dir, z, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        j->absent = true;
        return;
    }
    if (st.st_size > j->max) {
        err_set(&j->err, ERR_TOO_LARGE,
                "the object is larger than storage.max_object_read_bytes (%lld)",
                (long long)j->max);
        return;
    }
    char *p = arena_alloc(j->arena, (size_t)st.st_size + 1);
    size_t n = 0;
    while (p && n < (size_t)st.st_size) {
        ssize_t k = read(fd, p + n, (size_t)st.st_size - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    if (p && n == (size_t)st.st_size) {
        j->ok = true;
        j->out = str_n(p, n);
    } else {
        err_set(&j->err, p ? ERR_IO : ERR_NOMEM, "the object could not be read");
    }
}

static void delete_work(void *arg)
{
    struct job *j = arg;
    struct str name;
    auto_fd dir = open_folder(j->root, str_c(j->key), false, &name);
    char z[128];
    snprintf(z, sizeof z, STR_FMT, STR_ARG(name));
    j->ok = dir < 0 || unlinkat(dir, z, 0) == 0 || errno == ENOENT;
    if (!j->ok)
        err_sys(&j->err, errno, "the object could not be deleted");
}

static bool run(void (*fn)(void *), struct job *j, struct error *err)
{
    if (!task_work(fn, j, err))
        return false;
    if (j->ok)
        return true;
    if (j->absent)
        return missing(err);
    *err = j->err;
    return false;
}

bool objects_put(struct objects *o, const struct scope *s, const char *owner_type, struct str owner,
                 struct str suffix, struct str data, struct arena *a, struct str *key,
                 struct error *err)
{
    if (!fence_check(o->fence, s, err))
        return false;
    if ((int64_t)data.n > o->max)
        return err_set(err, ERR_TOO_LARGE,
                       "an object may have at most %lld bytes (storage.max_object_read_bytes)",
                       (long long)o->max);
    char id[UUID_SIZE], owner_hash[65], key_hash[65];
    uuid4(id);
    suffix = str_lower(a, suffix);
    struct str logical = str_fmt(a, "%s" STR_FMT, id, STR_ARG(suffix));
    sha256_hex(owner, owner_hash);
    sha256_hex(logical, key_hash);
    *key = str_fmt(a, "v1/%s/%s/%lld/%s/%.32s/%s" STR_FMT, o->prefix, s->workspace,
                   (long long)s->generation, owner_type, owner_hash, key_hash,
                   STR_ARG(suffix_ok(suffix) ? suffix : S("")));
    struct job j = {.root = o->root, .key = str_z(a, *key), .data = data};
    return run(put_work, &j, err);
}

bool objects_get(struct objects *o, const struct scope *s, struct str key, const char *const *types,
                 struct arena *a, struct str *data, struct error *err)
{
    struct str type;
    if (!fence_check(o->fence, s, err))
        return false;
    if (!key_fits(o, s, key, &type) || !type_in(type, types))
        return missing(err);
    struct job j = {.root = o->root, .key = str_z(a, key), .arena = a, .max = o->max};
    if (!run(get_work, &j, err))
        return false;
    *data = j.out;
    return true;
}

bool objects_delete(struct objects *o, const struct scope *s, struct str key, struct error *err)
{
    struct str type;
    if (!fence_check(o->fence, s, err))
        return false;
    if (!key_fits(o, s, key, &type))
        return missing(err);
    auto_arena a = arena_new(4096);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    struct job j = {.root = o->root, .key = str_z(a, key)};
    return run(delete_work, &j, err);
}

/* ---- survey: sizes and what retention may remove ----------------------------------------------------------------------------------- */

struct survey {
    const struct objects *o;
    const char *base; /* folder of workspace below the root */
    int64_t before_us, limit, size, files;
    bool remove;
    json_t *old;
};

static const char *const kept_short[] = {"upload_image", "upload_document", "upload", NULL};

static void survey_file(struct survey *v, int dir, const char *name, const char *path,
                        const char *type)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return;
    v->size += st.st_size;
    v->files++;
    int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    if (!type_in(str_c(type), kept_short) || changed >= v->before_us ||
        (int64_t)json_array_size(v->old) >= v->limit)
        return;
    char iso[TIME_ISO_SIZE];
    json_array_append_new(v->old,
                          json_pack("{s:s,s:I,s:s}", "key", path, "size_bytes",
                                    (json_int_t)st.st_size, "modified_at", time_iso(changed, iso)));
    if (v->remove)
        unlinkat(dir, name, 0);
}

/* Walks generation/type/owner/file; `depth` 0 is the workspace's folder. */
static void survey_dir(struct survey *v, int fd, const char *path, const char *type, int depth)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));) {
        char sub[512];
        if (e->d_name[0] == '.' ||
            snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >= (int)sizeof sub)
            continue;
        if (depth == 3) {
            survey_file(v, dirfd(d), e->d_name, sub, type);
            continue;
        }
        int next = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next >= 0)
            survey_dir(v, next, sub, depth == 1 ? e->d_name : type, depth + 1);
    }
    closedir(d);
}

static void survey_work(void *arg)
{
    struct survey *v = arg;
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", v->o->root, v->base);
    int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        survey_dir(v, fd, v->base, "", 0);
}

json_t *objects_survey(struct objects *o, const struct scope *s, int64_t before_us, int64_t limit,
                       bool remove, struct error *err)
{
    char base[128];
    snprintf(base, sizeof base, "v1/%s/%s", o->prefix, s->workspace);
    struct survey v = {.o = o,
                       .base = base,
                       .before_us = before_us,
                       .limit = limit,
                       .remove = remove,
                       .old = json_array()};
    if (!v.old || !task_work(survey_work, &v, err)) {
        json_decref(v.old);
        return NULL;
    }
    return json_pack("{s:I,s:I,s:o}", "size_bytes", (json_int_t)v.size, "file_count",
                     (json_int_t)v.files, "candidates", v.old);
}
