/* conf: INIT's payload over the configuration before it. */
#include "box/conf.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOTS_MAX = 64 };

static const struct limit {
    const char *name;
    size_t at;
    int64_t standard, low, high;
} limits[] = {
    {"max_sessions", offsetof(struct box_limits, max_sessions), 64, 0, 5000},
    {"max_managed_processes", offsetof(struct box_limits, max_managed_processes), 64, 0, 1024},
    {"max_completed_processes", offsetof(struct box_limits, max_completed_processes), 256, 0,
     10000},
    {"completed_process_retention_sec",
     offsetof(struct box_limits, completed_process_retention_sec), 300, 0, 86400},
    {"max_admission_records", offsetof(struct box_limits, max_admission_records), 100000, 1,
     250000},
    {"max_rpc_file_bytes", offsetof(struct box_limits, max_rpc_file_bytes), 20971520, 1, 104857600},
};

static int64_t *limit_of(struct box_limits *l, const struct limit *x)
{
    return (int64_t *)(void *)((char *)l + x->at);
}

static bool read_limits(const json_t *payload, struct box_limits *out, struct error *err)
{
    const json_t *given = json_object_get(payload, "limits");
    if (!given)
        return true;
    if (!json_is_object(given))
        return err_set(err, ERR_INVALID, "box.limits must be an object");
    for (size_t i = 0; i < array_len(limits); i++) {
        const struct limit *x = &limits[i];
        const json_t *value = json_object_get(given, x->name);
        if (!value)
            continue;
        if (!json_is_integer(value) || json_integer_value(value) < x->low ||
            json_integer_value(value) > x->high)
            return err_set(err, ERR_INVALID, "box.limits.%s must be an integer from %lld to %lld",
                           x->name, (long long)x->low, (long long)x->high);
        *limit_of(out, x) = json_integer_value(value);
    }
    return true;
}

/* ---- paths ------------------------------------------------------------------------------------- */

/* "~" and relative paths made absolute; links are not looked at. */
static const char *absolute(struct arena *a, struct str text, const char *base)
{
    const char *home = getenv("HOME");
    if (text.n && text.p[0] == '~' && (text.n == 1 || text.p[1] == '/') && home && home[0] == '/')
        return z_fmt(a, "%s" STR_FMT, home, STR_ARG(str_sub(text, 1, text.n - 1)));
    if (text.n && text.p[0] == '/')
        return str_z(a, text);
    return z_fmt(a, "%s/" STR_FMT, base, STR_ARG(text));
}

/* The canonical path; of what does not exist yet the part that does, and the rest lexically. */
static const char *canonical(struct arena *a, const char *path)
{
    char found[PATH_MAX];
    size_t n = strlen(path);
    while (n > 0) {
        const char *prefix = str_z(a, str_n(path, n));
        if (*prefix && realpath(prefix, found)) {
            return path_normal(a, str_fmt(a, "%s/%s", found, path + n));
        }
        while (n > 0 && path[--n] != '/')
            ;
    }
    return path_normal(a, str_c(path));
}

static bool add_root(struct conf *c, size_t *n, struct arena *a, struct str text, const char *cwd)
{
    text = str_trim(text);
    if (!text.n)
        return true;
    const char *root = canonical(a, absolute(a, text, cwd));
    if (*n == ROOTS_MAX)
        return false;
    c->roots[*n] = mem_strndup(root, strlen(root));
    return c->roots[(*n)++] != NULL;
}

static bool read_roots(struct conf *c, struct arena *a, const json_t *local, const char *host_root,
                       const char *cwd)
{
    const json_t *given = json_object_get(local, "allowed_mount_roots");
    size_t n = 0;
    bool ok = (c->roots = mem_alloc((ROOTS_MAX + 1) * sizeof(*c->roots))) != NULL;
    for (size_t i = 0; ok && i < json_array_size(given); i++)
        ok = add_root(c, &n, a, json_sv(json_array_get(given, i)), cwd);
    struct str rest = json_sv(given), part;
    while (ok && str_split(&rest, ',', &part))
        ok = add_root(c, &n, a, part, cwd);
    if (ok && n == 0 && host_root)
        ok = add_root(c, &n, a, str_c(host_root), cwd);
    auto_buf text = BUF(ROOTS_MAX * (BOX_PATH_MAX + 3));
    for (size_t i = 0; ok && i < n; i++)
        ok = buf_fmt(&text, "%s%s", i ? ", " : "", c->roots[i]);
    c->roots_text = ok ? mem_strndup(text.p ? text.p : "", text.n) : NULL;
    return c->roots_text != NULL;
}

static bool outside_roots(const struct conf *c, struct error *err)
{
    return spec_refuse(err, "default_workspace is outside allowed_mount_roots: %s", c->roots_text);
}

/* Roots that do not exist are made when the workspace lies below them: else there were nothing
 * that the check of a descriptor could begin with. */
static bool make_workspace(struct conf *c, struct arena *a, const char *path, struct error *err)
{
    char where[BOX_PATH_MAX + 1];
    const char *plain = canonical(a, path);
    size_t i = 0;
    while (c->roots[i] && !path_within(plain, c->roots[i]))
        i++;
    if (!c->roots[i])
        return outside_roots(c, err);
    int fd = mount_open(c, plain, true, "default_workspace", where, err);
    if (fd < 0)
        return false;
    close(fd);
    c->workspace = mem_strndup(where, strlen(where));
    return c->workspace || err_set(err, ERR_NOMEM, "out of memory for the configuration");
}

static bool read_paths(struct conf *c, struct error *err)
{
    auto_arena a = arena_new(8 << 20);
    char cwd[PATH_MAX];
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory for the configuration");
    if (!getcwd(cwd, sizeof(cwd)))
        return spec_refuse(err, "the working directory is gone");
    const json_t *local = json_object_get(c->raw, "local");
    struct str root = str_trim(json_s(local, "host_root"));
    struct str name = str_trim(json_s(local, "default_workspace"));
    const char *host_root = root.n ? canonical(a, absolute(a, root, cwd)) : NULL;
    if (!read_roots(c, a, local, host_root, cwd))
        return err_set(err, ERR_NOMEM, "out of memory or too many allowed_mount_roots");
    if (!name.n && !host_root)
        return true;
    return make_workspace(
        c, a, absolute(a, name.n ? name : S("default"), host_root ? host_root : cwd), err);
}

/* ---- building ---------------------------------------------------------------------------------- */

struct conf *conf_new(void)
{
    struct conf *c = new (struct conf);
    if (!c)
        return NULL;
    c->refs = 1;
    for (size_t i = 0; i < array_len(limits); i++)
        *limit_of(&c->limits, &limits[i]) = limits[i].standard;
    policy_default(&c->policy);
    c->raw = json_object();
    c->backend = mem_strndup("local", 5);
    c->roots = mem_alloc(sizeof(*c->roots));
    c->roots_text = mem_strndup("", 0);
    if (!c->raw || !c->backend || !c->roots || !c->roots_text) {
        conf_unref(c);
        return NULL;
    }
    return c;
}

struct conf *conf_ref(struct conf *c)
{
    c->refs++;
    return c;
}

void conf_unref(struct conf *c)
{
    if (!c || --c->refs > 0)
        return;
    for (size_t i = 0; c->roots && c->roots[i]; i++)
        mem_free(c->roots[i]);
    mem_free(c->roots);
    mem_free(c->roots_text);
    mem_free(c->backend);
    mem_free(c->workspace);
    json_decref(c->raw);
    mem_free(c);
}

struct conf *conf_apply(const struct conf *old, const json_t *payload, struct error *err)
{
    struct conf *c = new (struct conf);
    if (!c) {
        err_set(err, ERR_NOMEM, "out of memory for the configuration");
        return NULL;
    }
    c->refs = 1;
    c->limits = old->limits;
    c->configured = true;
    c->raw = json_copy(old->raw);
    bool ok = read_limits(payload, &c->limits, err);
    if (ok && (!c->raw || json_object_update(c->raw, (json_t *)(uintptr_t)payload) != 0))
        ok = err_set(err, ERR_NOMEM, "out of memory for the configuration");
    if (ok) {
        struct str name = json_s(c->raw, "backend");
        c->backend = name.p ? mem_strndup(name.p, name.n) : mem_strndup("local", 5);
        policy_read(json_object_get(c->raw, "admission"), old, c);
        ok = c->backend ? read_paths(c, err)
                        : err_set(err, ERR_NOMEM, "out of memory for the configuration");
    }
    if (!ok) {
        conf_unref(c);
        return NULL;
    }
    return c;
}
