/* Paths of the sandbox and their way to descriptors. Nothing follows a link, and nothing is named twice: what was opened is
 * what is used. box.md §10.4. */
#include "box/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 4095, OPEN_TRIES = 64 };

bool files_without_openat2;

static const char outside[] = "Path escapes the workspace boundary.";

static int linked(const struct files_path *p, struct error *err)
{
    err_set(err, ERR_INVALID, "Path escapes the workspace boundary or contains a symbolic link: %s",
            p->given);
    return -1;
}

/* Takes `..` back by the letter. False: it leaves the root of the file system or has too many parts. */
static bool normalise(struct arena *a, struct str path, struct str *out)
{
    char *made = arena_alloc(a, path.n + 2);
    size_t n = 0;
    struct str part;
    if (!made)
        return false;
    while (str_split(&path, '/', &part)) {
        if (part.n == 0 || str_eq(part, S(".")))
            continue;
        if (str_eq(part, S(".."))) {
            while (n > 0 && made[--n] != '/')
                ;
            continue;
        }
        made[n++] = '/';
        memcpy(made + n, part.p, part.n);
        n += part.n;
    }
    made[n] = '\0';
    *out = str_n(made, n);
    return true;
}

bool files_path(struct arena *a, const json_t *value, const char *fallback, struct files_path *out,
                struct error *err)
{
    bool given = value && !json_is_null(value);
    if ((given && !json_is_string(value)) || (!given && !fallback))
        return err_set(err, ERR_INVALID, "path must be a string");
    struct str path = given ? json_sv(value) : str_c(fallback);
    if (path.n == 0)
        path = S(FILES_ROOT);
    if (path.n > PATH_BYTES)
        return err_set(err, ERR_INVALID, "path must have at most %d bytes", PATH_BYTES);
    if (memchr(path.p, '\0', path.n))
        return err_set(err, ERR_INVALID, "path must not hold a NUL character");
    struct str whole;
    if (path.p[0] != '/' || !normalise(a, path, &whole))
        return err_set(err, ERR_INVALID, "%s", outside);
    if (!str_eq(whole, S(FILES_ROOT)) && !str_starts(whole, S(FILES_ROOT "/")))
        return err_set(err, ERR_INVALID, "%s", outside);
    *out = (struct files_path){.given = str_z(a, path), .full = whole.p};
    out->below = whole.p + (whole.n > sizeof FILES_ROOT - 1 ? sizeof FILES_ROOT : whole.n);
    return true;
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool is_link(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static int failed(const struct files_path *p, int code, struct error *err)
{
    if (code == ELOOP || code == EXDEV)
        return linked(p, err);
    if (code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG)
        err_set(err, ERR_NOT_FOUND, "File not found: %s", p->given);
    else if (code == ENXIO || code == ENODEV)
        err_set(err, ERR_INVALID, "Not a regular file: %s", p->given);
    else
        err_sys(err, code, "%s", p->given);
    return -1;
}

int files_open_at(int dir, const char *name, const struct files_path *p, int flags, mode_t mode,
                  struct error *err)
{
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
    if (fd >= 0)
        return fd;
    int code = errno;
    /* A link at the end gives ELOOP, or ENOTDIR where a directory was wanted. */
    return failed(p, code == ENOTDIR && is_link(dir, name) ? ELOOP : code, err);
}

/* One component after the other, each from the descriptor of the one before. `made`: missing ones are made. */
static int walk_to(int root, const char *below, const struct files_path *p, bool make,
                   struct error *err)
{
    int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return failed(p, errno, err);
    char name[256];
    for (struct str rest = str_c(below), part; rest.n && str_split(&rest, '/', &part);) {
        if (part.n >= sizeof name) {
            close(dir);
            return failed(p, ENAMETOOLONG, err);
        }
        memcpy(name, part.p, part.n);
        name[part.n] = '\0';
        bool made = make && mkdirat(dir, name, 0777) == 0;
        int unmade = make && !made && errno != EEXIST ? errno : 0;
        int next = files_open_at(dir, name, p, O_PATH | O_DIRECTORY, 0, err);
        if (next < 0 && unmade && err->code == ERR_NOT_FOUND)
            err_sys(err, unmade, "%s", p->given);
        if (made && next >= 0)
            files_adopt(dir, next);
        close(dir);
        if (next < 0)
            return -1;
        dir = next;
    }
    return dir;
}

static struct str parent_of(const char *below, const char **name)
{
    const char *slash = strrchr(below, '/');
    *name = slash ? slash + 1 : below;
    return slash ? str_n(below, (size_t)(slash - below)) : S("");
}

static int open_by_steps(int root, const struct files_path *p, int flags, struct error *err)
{
    const char *name;
    char dirs[PATH_BYTES + 1];
    struct str parent = parent_of(p->below, &name);
    memcpy(dirs, parent.p, parent.n);
    dirs[parent.n] = '\0';
    int dir = walk_to(root, dirs, p, false, err);
    if (dir < 0)
        return -1;
    int fd = files_open_at(dir, *name ? name : ".", p, flags, 0, err);
    close(dir);
    return fd;
}

int files_open(int root, const struct files_path *p, int flags, struct error *err)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    for (int try = 0; !files_without_openat2 && try < OPEN_TRIES; try++) {
        long fd = syscall(SYS_openat2, root, *p->below ? p->below : ".", &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno == EAGAIN || errno == EINTR) /* something was renamed meanwhile */
            continue;
        if (errno == ENOSYS || errno == EPERM || errno == E2BIG)
            break; /* no such call here, or none is allowed */
        return failed(p, errno, err);
    }
    return open_by_steps(root, p, flags, err);
}

int files_open_parent(int root, const struct files_path *p, bool make, const char **name,
                      struct error *err)
{
    char dirs[PATH_BYTES + 1];
    struct str parent = parent_of(p->below, name);
    if (!**name) {
        err_set(err, ERR_INVALID, "Path must reference a file under " FILES_ROOT ".");
        return -1;
    }
    memcpy(dirs, parent.p, parent.n);
    dirs[parent.n] = '\0';
    return walk_to(root, dirs, p, make, err);
}

void files_adopt(int dir, int made)
{
    struct stat st;
    if (geteuid() != 0 || fstat(dir, &st) != 0)
        return;
    if (fchownat(made, "", st.st_uid, st.st_gid, AT_EMPTY_PATH) != 0)
        log_debug("tool", "a new file stays ours: %s", strerror(errno));
}

bool files_is_dir(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}
