/* Limits by control groups, version 1 and 2. The runtime's directory lies below the one it runs in,
 * so whatever bounds the runtime bounds its sessions as well. */
#include "box/jail/jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PREFIX "parley-jail."
enum { CPU_PERIOD_US = 100000, PATH_SIZE = 512 };

static const char *const names[JAIL_CONTROLLERS] = {"memory", "pids", "cpu"};

/* ---- small files ----------------------------------------------------------------------------- */
static bool put(const char *dir, const char *file, const char *text)
{
    char path[PATH_SIZE + 64];
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = strlen(text);
    bool ok = write(fd, text, n) == (ssize_t)n;
    int e = errno;
    close(fd);
    errno = e;
    return ok;
}

static bool put_number(const char *dir, const char *file, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return put(dir, file, text);
}

/* The whole of a small file, NUL-terminated; false when it cannot be read. */
static bool get(const char *path, char *out, size_t max)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = 0;
    ssize_t got;
    while (n < max - 1 && (got = read(fd, out + n, max - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
    return true;
}

/* True when the word is in the text, between separators. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n) {
        bool left = p == text || strchr(" ,:\n", p[-1]);
        bool right = !p[n] || strchr(" ,:\n", p[n]);
        if (left && right)
            return true;
    }
    return false;
}

/* ---- finding --------------------------------------------------------------------------------- */
/* The directory of this process in the hierarchy of a controller (NULL: of version 2), from
 * /proc/self/cgroup: lines "7:cpu,cpuacct:/path". */
static bool own_path(const char *table, const char *controller, char *out, size_t max)
{
    for (const char *line = table; *line;) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        const char *first = memchr(line, ':', n);
        const char *second = first ? memchr(first + 1, ':', n - (size_t)(first + 1 - line)) : NULL;
        if (second) {
            char list[128] = "";
            size_t m = (size_t)(second - first - 1);
            if (m < sizeof list)
                memcpy(list, first + 1, m), list[m] = '\0';
            if (controller ? has_word(list, controller) : (m == 0 && line[0] == '0')) {
                size_t rest = n - (size_t)(second + 1 - line);
                snprintf(out, max, "%.*s", (int)rest, second + 1);
                return true;
            }
        }
        line = end ? end + 1 : line + n;
    }
    return false;
}

/* Where the hierarchy of a controller (NULL: version 2) is mounted, with the part of it that the mount
 * shows as its root: fields of /proc/self/mountinfo. */
static bool mount_point(const char *controller, char *at, char *root, size_t max)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[1024];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char r[PATH_SIZE], m[PATH_SIZE], type[32], opts[256];
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %511s %511s", r, m) != 2 ||
            sscanf(dash, " - %31s %*s %255s", type, opts) != 2)
            continue;
        found = controller ? !strcmp(type, "cgroup") && has_word(opts, controller)
                           : !strcmp(type, "cgroup2");
        if (found) {
            snprintf(at, max, "%s", m);
            snprintf(root, max, "%s", r);
        }
    }
    if (f)
        fclose(f);
    return found;
}

static bool own_dir(const char *table, const char *controller, char *out, size_t max)
{
    char at[PATH_SIZE], root[PATH_SIZE], own[PATH_SIZE];
    if (!own_path(table, controller, own, sizeof own) ||
        !mount_point(controller, at, root, sizeof at))
        return false;
    const char *below = own;
    size_t n = strlen(root);
    if (strcmp(root, "/") != 0 && !strncmp(own, root, n))
        below = own + n;
    if (strstr(below, "..")) /* outside of what this process may see */
        below = "";
    return snprintf(out, max, "%s%s", at, strcmp(below, "/") ? below : "") < (int)max - 80;
}

/* Version 2: processes and controllers of children exclude each other, so the runtime's own
 * processes move to a leaf beside the sessions. Only done where all in the directory are ours. */
static bool delegate_v2(const char *dir)
{
    char path[PATH_SIZE + 64], text[4096];
    if (put(dir, "cgroup.subtree_control", "+memory +pids +cpu"))
        return true;
    if (errno != EBUSY)
        return false;
    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    if (!get(path, text, sizeof text))
        return false;
    snprintf(path, sizeof path, "%s/" PREFIX "runtime", dir);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return false;
    for (char *p = text, *end; *p; p = end + (*end == '\n')) {
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        if (pid != getpid())
            return errno = EBUSY, false;
    }
    return put_number(path, "cgroup.procs", getpid()) &&
           put(dir, "cgroup.subtree_control", "+memory +pids +cpu");
}

static bool make_base(struct jail_cgroups *g, int c, const char *own, const char *instance)
{
    snprintf(g->base[c], sizeof g->base[c], "%.400s/" PREFIX "%.12s.%d.%llu", own, instance,
             (int)getpid(), jail_start_time(getpid()));
    return mkdir(g->base[c], 0755) == 0 || errno == EEXIST;
}

static void find_v2(struct jail_cgroups *g, const char *table, const char *instance)
{
    char own[PATH_SIZE], path[PATH_SIZE + 64], text[256];
    if (!own_dir(table, NULL, own, sizeof own)) {
        snprintf(g->why, sizeof g->why, "no cgroup hierarchy with memory, pids and cpu");
        return;
    }
    snprintf(path, sizeof path, "%s/cgroup.controllers", own);
    if (!get(path, text, sizeof text) || !has_word(text, "memory") || !has_word(text, "pids") ||
        !has_word(text, "cpu")) {
        snprintf(g->why, sizeof g->why, "cgroup v2 offers no memory, pids and cpu here");
        return;
    }
    if (!delegate_v2(own) || !make_base(g, 0, own, instance) ||
        !put(g->base[0], "cgroup.subtree_control", "+memory +pids +cpu")) {
        snprintf(g->why, sizeof g->why, "cgroup v2 is not delegated: %s",
                 strerrordesc_np(errno) ? strerrordesc_np(errno) : "");
        return;
    }
    g->v2 = true;
    for (int c = 0; c < JAIL_CONTROLLERS; c++) {
        if (c)
            memcpy(g->base[c], g->base[0], sizeof g->base[c]);
        g->usable[c] = true;
    }
}

void jail_cgroups_find(struct jail_cgroups *g, const char *instance)
{
    char table[4096], own[PATH_SIZE];
    *g = (struct jail_cgroups){0};
    if (!get("/proc/self/cgroup", table, sizeof table)) {
        snprintf(g->why, sizeof g->why, "/proc/self/cgroup cannot be read");
        return;
    }
    int found = 0;
    for (int c = 0; c < JAIL_CONTROLLERS; c++) {
        if (!own_dir(table, names[c], own, sizeof own))
            continue;
        found++;
        g->usable[c] = make_base(g, c, own, instance);
        if (!g->usable[c])
            snprintf(g->why, sizeof g->why, "cgroup %s: %.120s cannot be written", names[c], own);
    }
    if (!found)
        find_v2(g, table, instance);
    else if (found < JAIL_CONTROLLERS && !*g->why)
        snprintf(g->why, sizeof g->why, "not all of memory, pids and cpu have a cgroup hierarchy");
}

/* ---- a session ------------------------------------------------------------------------------- */
static bool limit_memory(const char *dir, bool v2, int64_t bytes)
{
    if (v2)
        return put_number(dir, "memory.max", bytes) &&
               (put(dir, "memory.swap.max", "0") || errno == ENOENT) &&
               (put(dir, "memory.oom.group", "0") || errno == ENOENT);
    return put_number(dir, "memory.limit_in_bytes", bytes) &&
           (put_number(dir, "memory.memsw.limit_in_bytes", bytes) || errno == ENOENT ||
            errno == EOPNOTSUPP);
}

static bool limit_cpu(const char *dir, bool v2, uint32_t percent)
{
    char text[64];
    int64_t quota = (int64_t)percent * CPU_PERIOD_US / 100;
    if (quota < 1000) /* the kernel's least */
        quota = 1000;
    if (v2) {
        snprintf(text, sizeof text, "%lld %d", (long long)quota, CPU_PERIOD_US);
        return put(dir, "cpu.max", text);
    }
    return put_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US) &&
           put_number(dir, "cpu.cfs_quota_us", quota);
}

static bool limit_one(const char *dir, bool v2, int c, const struct jail_start *s)
{
    switch (c) {
    case JAIL_MEMORY: return limit_memory(dir, v2, s->memory);
    case JAIL_PIDS: /* and the init, which is ours */
        return put_number(dir, "pids.max", (int64_t)s->pids + 1);
    default: return limit_cpu(dir, v2, s->cpu_percent);
    }
}

bool jail_cgroups_join(const struct jail_cgroups *g, const char *id, const struct jail_start *s,
                       char *why)
{
    char dir[PATH_SIZE + 256];
    for (int c = 0; c < JAIL_CONTROLLERS; c++) {
        if (!g->usable[c])
            continue;
        snprintf(dir, sizeof dir, "%s/%s", g->base[c], id);
        if (!(g->v2 && c) && mkdir(dir, 0755) < 0 && errno != EEXIST)
            return jail_why(why, "cgroup directory");
        if (!limit_one(dir, g->v2, c, s))
            return jail_why(why, names[c]);
        if (g->v2 && c < JAIL_CONTROLLERS - 1)
            continue;
        /* A thread that moves itself needs no lock of all processes: "tasks" of version 1. */
        if (!put(dir, g->v2 ? "cgroup.procs" : "tasks", "0"))
            return jail_why(why, "joining the cgroup");
    }
    return true;
}

void jail_cgroups_squeeze(const struct jail_cgroups *g, const char *id)
{
    char dir[PATH_SIZE + 256];
    snprintf(dir, sizeof dir, "%s/%s", g->base[JAIL_CPU], id);
    if (g->usable[JAIL_CPU])
        limit_cpu(dir, g->v2, 1);
}

int64_t jail_cgroups_throttled(const struct jail_cgroups *g, const char *id)
{
    char path[PATH_SIZE + 300], text[1024];
    if (!g->usable[JAIL_CPU])
        return -1;
    snprintf(path, sizeof path, "%s/%s/cpu.stat", g->base[JAIL_CPU], id);
    const char *at = get(path, text, sizeof text) ? strstr(text, "nr_throttled ") : NULL;
    return at ? strtoll(at + sizeof "nr_throttled", NULL, 10) : -1;
}

bool jail_cgroups_remove(const struct jail_cgroups *g, const char *id)
{
    char dir[PATH_SIZE + 256];
    bool gone = true;
    for (int c = 0; c < (g->v2 ? 1 : JAIL_CONTROLLERS); c++) {
        if (!g->usable[c])
            continue;
        snprintf(dir, sizeof dir, "%s/%s", g->base[c], id);
        if (rmdir(dir) < 0 && errno != ENOENT)
            gone = false;
    }
    return gone;
}

void jail_cgroups_leave(const struct jail_cgroups *g)
{
    for (int c = 0; c < (g->v2 ? 1 : JAIL_CONTROLLERS); c++)
        if (g->usable[c])
            rmdir(g->base[c]);
}

/* ---- leftovers ------------------------------------------------------------------------------- */
static void kill_inside(const char *dir)
{
    char path[PATH_SIZE + 1200], text[8192];
    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    if (!get(path, text, sizeof text))
        return;
    for (char *p = text, *end; *p; p = end + (*end == '\n')) {
        long pid = strtol(p, &end, 10);
        if (end == p)
            return;
        if (pid > 1)
            kill((pid_t)pid, SIGKILL);
    }
}

static void sweep_instance(const char *dir)
{
    char path[PATH_SIZE + 900];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            kill_inside(path);
            /* Those that were killed need a moment to leave. */
            for (int i = 0; i < 100 && rmdir(path) < 0 && errno == EBUSY; i++)
                usleep(10000);
        }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* Whether the runtime that made a directory is gone: its name ends with the id and the start of it. */
static bool is_orphan(const char *name)
{
    const char *pid = strchr(name, '.');
    const char *start = pid ? strchr(pid + 1, '.') : NULL;
    return start &&
           jail_start_time((pid_t)strtol(pid + 1, NULL, 10)) != strtoull(start + 1, NULL, 10);
}

void jail_cgroups_sweep(void)
{
    char table[4096], own[PATH_SIZE], path[PATH_SIZE + 600];
    if (!get("/proc/self/cgroup", table, sizeof table))
        return;
    for (int c = 0; c <= JAIL_CONTROLLERS; c++) {
        if (!own_dir(table, c < JAIL_CONTROLLERS ? names[c] : NULL, own, sizeof own))
            continue;
        DIR *d = opendir(own);
        for (struct dirent *e; d && (e = readdir(d));) {
            if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) != 0 ||
                !is_orphan(e->d_name + sizeof PREFIX - 1))
                continue;
            snprintf(path, sizeof path, "%s/%s", own, e->d_name);
            sweep_instance(path);
        }
        if (d)
            closedir(d);
    }
}
