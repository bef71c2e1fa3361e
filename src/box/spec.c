/* spec: BoxSpec and BoxManagedProcessSpec, field by field (box.md §3.1, §3.2, §3.5). */
#include "box/spec.h"

#include <stdlib.h>

enum {
    TIMEOUT_MAX = 7 * 24 * 3600,
    MEMORY_MIN = 32,
    MEMORY_MAX = 1 << 24, /* MiB */
    PIDS_MAX = 1 << 22,
    QUOTA_MAX = 1 << 24 /* MiB */
};
#define CPUS_MAX 4096.0

struct reading {
    struct arena *a;
    const json_t *data;
    struct error *err;
};

static const json_t *member(const struct reading *r, const char *name)
{
    return json_object_get(r->data, name);
}

static bool no_memory(struct error *err)
{
    return err_set(err, ERR_NOMEM, "out of memory for a spec");
}

/* A text, trimmed and as a C string. `fallback`: when the member is absent; NULL: it must be there. */
static bool take_text(const struct reading *r, const char *name, const char *fallback,
                      const char **out)
{
    const json_t *value = member(r, name);
    *out = fallback;
    if (!value && fallback)
        return true;
    struct str s = str_trim(json_sv(value));
    if (!json_is_string(value))
        return spec_refuse(r->err, "%s must be a text", name);
    if (s.n && memchr(s.p, '\0', s.n))
        return spec_refuse(r->err, "%s must not hold NUL characters", name);
    *out = str_z(r->a, s);
    return !arena_failed(r->a) || no_memory(r->err);
}

static bool take_int(const struct reading *r, const char *name, int64_t fallback, int64_t low,
                     int64_t high, int64_t *out)
{
    const json_t *value = member(r, name);
    *out = fallback;
    if (!value)
        return true;
    if (!lax_int(value, out) || *out < low || *out > high)
        return spec_refuse(r->err, "%s must be an integer from %lld to %lld", name, (long long)low,
                           (long long)high);
    return true;
}

static bool take_bool(const struct reading *r, const char *name, bool fallback, bool *out)
{
    const json_t *value = member(r, name);
    *out = fallback;
    return !value || lax_bool(value, out) || spec_refuse(r->err, "%s must be true or false", name);
}

static bool take_mode(const struct reading *r, const char *name, enum box_mode *out)
{
    const json_t *value = member(r, name);
    *out = BOX_MOUNT_RW;
    if (!value)
        return true;
    for (int m = BOX_MOUNT_NONE; m <= BOX_MOUNT_RW; m++) {
        if (str_eqz(json_sv(value), mode_name((enum box_mode)m))) {
            *out = (enum box_mode)m;
            return true;
        }
    }
    return spec_refuse(r->err, "%s must be none, ro or rw", name);
}

/* A path inside: absolute, bounded, normalised. */
static bool inside_path(const struct reading *r, const char *name, const char *given,
                        const char **out)
{
    if (given[0] != '/' || strlen(given) > BOX_PATH_MAX)
        return spec_refuse(r->err, "%s must be an absolute path of at most %d bytes", name,
                           BOX_PATH_MAX);
    *out = path_normal(r->a, str_c(given));
    return !arena_failed(r->a) || no_memory(r->err);
}

static bool is_drive(const char *p)
{
    return ((p[0] | 32) >= 'a' && (p[0] | 32) <= 'z' && p[1] == ':' &&
            (p[2] == '\\' || p[2] == '/')) ||
           strncmp(p, "\\\\", 2) == 0;
}

static bool outside_path(const struct reading *r, const char *name, const char *path)
{
    if ((path[0] != '/' && !is_drive(path)) || strlen(path) > BOX_PATH_MAX)
        return spec_refuse(r->err, "%s must be an absolute path of at most %d bytes", name,
                           BOX_PATH_MAX);
    return true;
}

static bool name_ok(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p == '=' || (unsigned char)*p < 0x20)
            return false;
    return *name != '\0';
}

/* env as "NAME=value", NULL-terminated. Values never get into an error. */
static bool take_env(const struct reading *r, const char *const **out)
{
    static const char *const none[] = {NULL};
    json_t *env = json_object_get(r->data, "env");
    *out = none;
    if (!env)
        return true;
    if (!json_is_object(env) || json_object_size(env) > SPEC_ENV_MAX)
        return spec_refuse(r->err, "env must be an object of at most %d texts", SPEC_ENV_MAX);
    const char **list = arena_alloc(r->a, (json_object_size(env) + 1) * sizeof(*list));
    const char *name;
    json_t *value;
    size_t n = 0;
    if (!list)
        return no_memory(r->err);
    json_object_foreach (env, name, value) {
        struct str s = json_sv(value);
        if (!name_ok(name))
            return spec_refuse(r->err, "env has a name that no variable can have");
        if (!json_is_string(value) || (s.n && memchr(s.p, '\0', s.n)))
            return spec_refuse(r->err, "env.%.100s must be a text without NUL characters", name);
        list[n++] = z_fmt(r->a, "%s=" STR_FMT, name, STR_ARG(s));
    }
    *out = list;
    return !arena_failed(r->a) || no_memory(r->err);
}

static bool take_mount(const struct reading *r, struct spec_mount *m)
{
    const char *host = NULL, *target = NULL;
    if (!take_text(r, "host_path", NULL, &host) || !outside_path(r, "host_path", host) ||
        !take_text(r, "mount_path", NULL, &target))
        return false;
    if (path_has_dots(str_c(target)))
        return spec_refuse(r->err, "mount_path must not hold \"..\"");
    m->host_path = host;
    return inside_path(r, "mount_path", target, &m->mount_path) && take_mode(r, "mode", &m->mode);
}

static bool take_extra(const struct reading *r, struct spec *s)
{
    const json_t *list = member(r, "extra_mounts");
    if (!list)
        return true;
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > SPEC_MOUNTS_MAX)
        return spec_refuse(r->err, "extra_mounts must be a list of at most %d mounts",
                           SPEC_MOUNTS_MAX);
    s->extra = arena_alloc(r->a, (n + 1) * sizeof(*s->extra));
    if (!s->extra)
        return no_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        struct reading one = {r->a, json_array_get(list, i), r->err};
        struct spec_mount *m = &s->extra[s->extra_count];
        if (!json_is_object(one.data))
            return spec_refuse(r->err, "extra_mounts[%zu] must be an object", i);
        if (!take_mount(&one, m)) {
            err_wrap(r->err, "extra_mounts[%zu]", i);
            return false;
        }
        s->extra_count += m->mode != BOX_MOUNT_NONE;
    }
    return true;
}

/* The directory of a command; without one it is where the workspace is mounted. */
static bool take_workdir(const struct reading *r, struct spec *s)
{
    const json_t *value = member(r, "workdir");
    const char *path = s->mount_path;
    bool blank =
        !value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0);
    struct str mount = str_trim(json_sv(member(r, "mount_path")));
    if (blank && !mount.n && value)
        return spec_refuse(r->err, "workdir must be an absolute path");
    if (!blank && !take_text(r, "workdir", NULL, &path))
        return false;
    if (!inside_path(r, "workdir", path, &s->workdir))
        return false;
    if (s->host_path && s->host_path_mode != BOX_MOUNT_NONE &&
        !path_within(s->workdir, s->mount_path))
        return spec_refuse(r->err, "workdir must be %s or lie below it", s->mount_path);
    return true;
}

/* Where a workspace must not be put: it would cover what the system inside needs. */
static bool mount_path_ok(const char *path)
{
    static const char *const taken[] = {"/bin",   "/boot",  "/dev",    "/etc",  "/lib",
                                        "/lib32", "/lib64", "/libx32", "/proc", "/run",
                                        "/sbin",  "/sys",   "/tmp",    "/usr",  "/var"};
    for (size_t i = 0; i < array_len(taken); i++)
        if (path_within(path, taken[i]))
            return false;
    return strcmp(path, "/") != 0;
}

static bool take_paths(const struct reading *r, struct spec *s)
{
    const char *mount = SPEC_MOUNT_PATH;
    const json_t *host = member(r, "host_path");
    if (!take_text(r, "mount_path", SPEC_MOUNT_PATH, &mount))
        return false;
    if (path_has_dots(str_c(mount)))
        return spec_refuse(r->err, "mount_path must not hold \"..\"");
    if (!inside_path(r, "mount_path", mount, &s->mount_path))
        return false;
    if (!mount_path_ok(s->mount_path))
        return spec_refuse(r->err, "mount_path must not be a system directory");
    if (host && !json_is_null(host) &&
        (!take_text(r, "host_path", NULL, &s->host_path) ||
         !outside_path(r, "host_path", s->host_path)))
        return false;
    return take_mode(r, "host_path_mode", &s->host_path_mode) && take_workdir(r, s) &&
           take_extra(r, s);
}

static bool take_network(const struct reading *r, struct spec *s)
{
    const json_t *value = member(r, "network");
    s->network = value && str_eqz(json_sv(value), "on");
    return !value || s->network || str_eqz(json_sv(value), "off") ||
           spec_refuse(r->err, "network must be on or off");
}

static bool take_limits(const struct reading *r, struct spec *s)
{
    const json_t *cpus = member(r, "cpus");
    s->cpus = 1.0;
    if (cpus && (!lax_float(cpus, &s->cpus) || s->cpus <= 0 || s->cpus > CPUS_MAX))
        return spec_refuse(r->err, "cpus must be a number above 0, at most %.0f", CPUS_MAX);
    return take_int(r, "timeout_sec", 30, 1, TIMEOUT_MAX, &s->timeout_sec) &&
           take_int(r, "memory_mb", 512, MEMORY_MIN, MEMORY_MAX, &s->memory_mb) &&
           take_int(r, "pids_limit", 128, 1, PIDS_MAX, &s->pids_limit) &&
           take_int(r, "workspace_quota_mb", 0, 0, QUOTA_MAX, &s->workspace_quota_mb) &&
           take_bool(r, "persistent", false, &s->persistent) &&
           take_bool(r, "read_only_rootfs", true, &s->read_only_rootfs) &&
           take_bool(r, "exact", false, &s->exact);
}

bool spec_read(struct arena *a, const json_t *data, struct spec *out, struct error *err)
{
    struct reading r = {a, data, err};
    const json_t *skill = json_object_get(data, "skill_name");
    *out = (struct spec){0};
    if (!box_session_id_read(json_object_get(data, "session_id"), "BoxValidationError",
                             &out->session_id, err))
        return false;
    if (skill && !json_is_null(skill))
        return spec_refuse(err, "skill_name is not supported: skills are mounted by the core");
    if (!take_text(&r, "cmd", "", &out->cmd) ||
        !take_text(&r, "image", BOX_DEFAULT_IMAGE, &out->image))
        return false;
    if (strlen(out->cmd) > SPEC_CMD_MAX)
        return spec_refuse(err, "cmd must not be longer than %d bytes", SPEC_CMD_MAX);
    if (!*out->image)
        out->image = BOX_DEFAULT_IMAGE;
    return take_network(&r, out) && take_env(&r, &out->env) && take_paths(&r, out) &&
           take_limits(&r, out);
}

/* ---- managed processes ----------------------------------------------------------------------- */

const char *process_id_read(struct arena *a, const json_t *value, struct error *err)
{
    if (!value)
        return "default";
    struct str s = json_sv(value);
    bool ok = json_is_string(value) && s.n > 0 && s.n <= SPEC_PROCESS_ID_MAX * 4 &&
              utf8_count(s) <= SPEC_PROCESS_ID_MAX && !str_eqz(s, ".") && !str_eqz(s, "..");
    for (size_t i = 0; ok && i < s.n; i++)
        ok = (unsigned char)s.p[i] >= 0x20 && s.p[i] != 0x7f && s.p[i] != '/';
    if (!ok) {
        spec_refuse(err,
                    "process_id must be a text of 1 to %d characters without slashes and control "
                    "characters",
                    SPEC_PROCESS_ID_MAX);
        return NULL;
    }
    return str_z(a, s);
}

static bool take_argv(const struct reading *r, struct process_spec *p)
{
    const char *command = NULL;
    json_t *args = json_object_get(r->data, "args");
    if (!take_text(r, "command", NULL, &command))
        return false;
    if (!*command)
        return spec_refuse(r->err, "command must not be empty");
    size_t n = json_array_size(args);
    if (args && (!json_is_array(args) || n > SPEC_ARGS_MAX))
        return spec_refuse(r->err, "args must be a list of at most %d texts", SPEC_ARGS_MAX);
    const char **argv = arena_alloc(r->a, (n + 2) * sizeof(*argv));
    p->args = arena_json(r->a, args ? json_incref(args) : json_array());
    if (!argv || !p->args)
        return no_memory(r->err);
    argv[0] = command;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(args, i);
        struct str s = json_sv(value);
        if (!json_is_string(value) || (s.n && memchr(s.p, '\0', s.n)))
            return spec_refuse(r->err, "args[%zu] must be a text without NUL characters", i);
        argv[i + 1] = str_z(r->a, s);
    }
    p->argv = argv;
    return !arena_failed(r->a) || no_memory(r->err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the variables, sorted: all that is ever shown of them. */
static json_t *env_names(struct arena *a, json_t *env)
{
    size_t n = 0;
    const char **names = arena_alloc(a, (json_object_size(env) + 1) * sizeof(*names));
    json_t *out = arena_json(a, json_array()), *value;
    const char *name;
    if (!names || !out)
        return NULL;
    json_object_foreach (env, name, value)
        names[n++] = name;
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(out, json_string(names[i])) != 0)
            return NULL;
    return out;
}

bool process_spec_read(struct arena *a, const json_t *spec, struct process_spec *out,
                       struct error *err)
{
    struct reading r = {a, spec, err};
    const char *cwd = SPEC_MOUNT_PATH;
    *out = (struct process_spec){0};
    if (!json_is_object(spec))
        return spec_refuse(err, "spec must be an object");
    out->process_id = process_id_read(a, json_object_get(spec, "process_id"), err);
    if (!out->process_id || !take_argv(&r, out) || !take_env(&r, &out->env) ||
        !take_text(&r, "cwd", SPEC_MOUNT_PATH, &cwd) || !inside_path(&r, "cwd", cwd, &out->cwd) ||
        !take_int(&r, "memory_mb", 0, 0, MEMORY_MAX, &out->memory_mb))
        return false;
    out->env_keys = env_names(a, json_object_get(spec, "env"));
    return out->env_keys || no_memory(err);
}
