/* mounts: directories of the host. One check for primary and extra mounts and for the default
 * workspace, in every mode: a path is opened once, what was opened is judged by where it really is,
 * and what is mounted later is that descriptor. So no link that changes in between matters. */
#include "box/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN_DIR = O_PATH | O_DIRECTORY | O_CLOEXEC };

bool path_blocked(const char *canonical)
{
    static const char *const blocked[] = {"/etc",  "/proc", "/sys", "/dev",
                                          "/root", "/boot", "/run", "/var/run"};
    for (size_t i = 0; i < array_len(blocked); i++)
        if (path_within(canonical, blocked[i]))
            return true;
    return false;
}

/* Not by way of /proc/<pid>/root and the like: where such a link leads is shown as seen from there, in another mount namespace. */
static int open_dir(const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = OPEN_DIR, .resolve = RESOLVE_NO_MAGICLINKS | resolve};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static bool canonical_of(int fd, char out[BOX_PATH_MAX + 1])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, BOX_PATH_MAX);
    out[n > 0 ? n : 0] = '\0';
    /* What was removed meanwhile is shown with a remark behind it, and is of no use. */
    return n > 0 && n < BOX_PATH_MAX && out[0] == '/' &&
           !str_ends(str_n(out, (size_t)n), S(" (deleted)"));
}

/* Judges where a directory really is. */
static bool allowed(const struct conf *c, const char *path, const char *field, struct error *err)
{
    if (path_blocked(path))
        return spec_refuse(err, "%s %s is blocked for security", field, path);
    if (!c->roots[0])
        return spec_refuse(
            err, "%s mounting is disabled because no allowed_mount_roots are configured", field);
    for (size_t i = 0; c->roots[i]; i++)
        if (strcmp(path, "/") != 0 && path_within(path, c->roots[i]))
            return true;
    return spec_refuse(err, "%s is outside allowed_mount_roots: %s", field, c->roots_text);
}

struct opening {
    const struct conf *conf;
    const char *path, *field;
    bool create;
    char *canonical;
    struct error *err;
    int fd;
};

static bool no_directory(const struct opening *o)
{
    return spec_refuse(o->err, "%s must point to an existing directory on the host", o->field);
}

/* Makes and enters one more level; takes fd. Links are not followed: what is made here is ours. */
static int descend(int fd, struct str name)
{
    char part[256];
    int next = -1;
    snprintf(part, sizeof(part), STR_FMT, STR_ARG(name));
    if (name.n < sizeof(part) && (mkdirat(fd, part, 0777) == 0 || errno == EEXIST))
        next = openat(fd, part, OPEN_DIR | O_NOFOLLOW);
    close(fd);
    return next;
}

/* The deepest directory of the path that exists; *rest is what is missing below it. */
static int open_deepest(const char *path, struct str *rest)
{
    char part[BOX_PATH_MAX + 1];
    size_t n = strlen(path);
    while (n > 0) {
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        int fd = open_dir(part, 0);
        if (fd >= 0) {
            *rest = str_c(path + n);
            return fd;
        }
        if (errno != ENOENT)
            return -1;
        while (n > 0 && path[--n] != '/')
            ;
    }
    *rest = str_c(path);
    return open_dir("/", 0);
}

/* Below a root that does not exist either, its own parents are not judged: the operator named it. */
static bool may_make_below(const struct opening *o, const char *existing, struct str rest,
                           struct error *err)
{
    auto_arena a = arena_new(64 << 10);
    const char *whole = a ? path_normal(a, str_fmt(a, "%s/" STR_FMT, existing, STR_ARG(rest))) : "";
    for (size_t i = 0; o->conf->roots[i]; i++)
        if (*whole && path_within(whole, o->conf->roots[i]) && !path_blocked(whole) &&
            path_within(o->conf->roots[i], existing))
            return true;
    return allowed(o->conf, existing, o->field, err);
}

static int create_below(const struct opening *o)
{
    struct str rest, part;
    int fd = open_deepest(o->path, &rest);
    if (fd < 0 || path_has_dots(rest)) {
        if (fd >= 0)
            close(fd);
        no_directory(o);
        return -1;
    }
    if (!canonical_of(fd, o->canonical) || !may_make_below(o, o->canonical, rest, o->err)) {
        close(fd);
        return -1;
    }
    while (fd >= 0 && str_split(&rest, '/', &part))
        if (part.n && !str_eqz(part, "."))
            fd = descend(fd, part);
    if (fd < 0)
        no_directory(o);
    return fd;
}

static void judge(struct opening *o)
{
    if (o->fd < 0)
        return;
    bool ok = canonical_of(o->fd, o->canonical) ? allowed(o->conf, o->canonical, o->field, o->err)
                                                : no_directory(o);
    if (!ok) {
        close(o->fd);
        o->fd = -1;
    }
}

static void open_slowly(void *arg)
{
    struct opening *o = arg;
    o->fd = open_dir(o->path, 0);
    if (o->fd < 0 && errno == ENOENT && o->create)
        o->fd = create_below(o);
    else if (o->fd < 0)
        no_directory(o);
    judge(o);
}

int mount_open(const struct conf *c, const char *path, bool create, const char *field,
               char canonical[BOX_PATH_MAX + 1], struct error *err)
{
    struct opening o = {c, path, field, create, canonical, err, -1};
    canonical[0] = '\0';
    err->code = ERR_NONE;
    if (path[0] != '/') {
        spec_refuse(err, "%s is outside allowed_mount_roots: %s", field, c->roots_text);
        return -1;
    }
    o.fd = open_dir(path, RESOLVE_CACHED);
    if (o.fd >= 0) {
        judge(&o);
    } else if (!task_in_fiber()) {
        open_slowly(&o);
    } else if (!task_work(open_slowly, &o, err)) {
        return -1;
    }
    return o.fd;
}

bool mount_targets_ok(const struct spec *s, struct error *err)
{
    for (size_t i = 0; i < s->extra_count; i++) {
        const char *target = s->extra[i].mount_path;
        if (!path_within(target, s->mount_path) || strcmp(target, s->mount_path) == 0)
            return spec_refuse(err, "mount_path of an extra mount must lie below %s",
                               s->mount_path);
        for (size_t j = 0; j < i; j++)
            if (path_within(target, s->extra[j].mount_path) ||
                path_within(s->extra[j].mount_path, target))
                return spec_refuse(
                    err, "mount_path of an extra mount must not meet that of another: %s", target);
    }
    return true;
}
