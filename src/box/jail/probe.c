/* The outer half of a probe: a session with small limits, in which jail_probe_inside tries things, and
 * what can be seen of it from outside. */
#include "box/jail/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROBE_MS = 10000 /* usually a third of a second */, TEXT_MAX = 8192 };

/* ---- a place --------------------------------------------------------------------------------- */
struct place {
    char path[BOX_PATH_MAX + 1], ro[BOX_PATH_MAX + 1];
    int dir, ro_dir; /* O_PATH */
};

static void remove_place(struct place *p)
{
    static const char *const made[] = {"mark", "ro/mark"};
    char path[BOX_PATH_MAX + 16];
    if (p->dir >= 0)
        close(p->dir);
    if (p->ro_dir >= 0)
        close(p->ro_dir);
    for (size_t i = 0; i < array_len(made); i++)
        if (snprintf(path, sizeof path, "%s/%s", p->path, made[i]) < (int)sizeof path)
            unlink(path);
    rmdir(p->ro);
    rmdir(p->path);
}

static bool make_place(struct place *p, const char *below, char *why, size_t max)
{
    uint64_t word = 0;
    *p = (struct place){.dir = -1, .ro_dir = -1};
    if (getrandom(&word, sizeof word, 0) != sizeof word ||
        snprintf(p->path, sizeof p->path, "%s/.box-readiness-%016llx", below,
                 (unsigned long long)word) >= (int)sizeof p->path - 4) {
        snprintf(why, max, "no name for a probe below %.100s", below);
        return false;
    }
    snprintf(p->ro, sizeof p->ro, "%.4090s/ro", p->path);
    if (mkdir(p->path, 0700) == 0 && mkdir(p->ro, 0700) == 0) {
        p->dir = open(p->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        p->ro_dir = open(p->ro, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (p->dir >= 0 && p->ro_dir >= 0)
        return true;
    snprintf(why, max, "%.100s cannot be written: %s", below,
             strerrordesc_np(errno) ? strerrordesc_np(errno) : "");
    remove_place(p);
    return false;
}

static bool was_marked(const struct place *p)
{
    char path[BOX_PATH_MAX + 16], text[8] = "";
    snprintf(path, sizeof path, "%s/mark", p->path);
    auto_fd fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof text) == 5 && !strcmp(text, "seen\n");
}

/* ---- running it ------------------------------------------------------------------------------ */
static struct jail_session *start(struct jail_self *self, const struct place *p, struct error *err)
{
    struct jail_start s = {.kind = JAIL_START,
                           .memory = jail_probe_limits.memory,
                           .store_bytes = jail_probe_limits.store_bytes,
                           .store_inodes = jail_probe_limits.store_inodes,
                           .pids = jail_probe_limits.pids,
                           .cpu_percent = 50,
                           .read_only_root = true,
                           .primary = true,
                           .mounts = 2};
    char id[48], text[3 * BOX_PATH_MAX];
    snprintf(id, sizeof id, "%llu-probe", (unsigned long long)++self->counter);
    int n = snprintf(text, sizeof text, "%s%c/workspace%c%cw%c/workspace%c%s%cr%c/workspace/ro%c%s",
                     id, 0, 0, 0, 0, 0, p->path, 0, 0, 0, p->ro);
    int fds[] = {p->dir, p->ro_dir};
    return jail_session_start(self, &s, id, str_n(text, (size_t)n + 1), fds, 2, err);
}

static bool said(const struct buf *text, const char *name)
{
    char line[64];
    snprintf(line, sizeof line, "\n%s=1\n", name);
    return str_find(buf_view(text), str_c(line)) >= 0;
}

/* Reads what the inner half says; when it is about to use the processor, its share is made small. */
static bool listen_to(struct jail_session *s, int out, int *in, struct buf *text, struct error *err)
{
    char block[1024];
    ssize_t got;
    while ((got = task_read(out, block, sizeof block, err)) > 0) {
        buf_add(text, block, (size_t)got);
        if (*in >= 0 && said(text, "processor")) {
            jail_cgroups_squeeze(&s->self->groups, s->id);
            close(steal_fd(in));
        }
    }
    return got == 0;
}

/* Runs the inner half; its output into `text`. */
static bool run(struct jail_session *s, const struct place *p, struct buf *text, struct error *err)
{
    struct jail_run r = {.kind = JAIL_EXEC, .probe = true, .args = 1};
    struct jail_call c;
    char words[BOX_PATH_MAX + 32];
    int out[2] = {-1, -1}, in[2] = {-1, -1};
    int n = snprintf(words, sizeof words, "/workspace%c%s", 0, p->path);
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ok = (null >= 0 && task_sys_pipe(out) == 0 && task_sys_pipe(in) == 0) ||
              err_sys(err, errno, "the pipes of a probe");
    if (ok) {
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        jail_call_begin(s, &c);
        r.id = c.id;
        int fds[] = {in[0], out[1], null};
        ok = jail_link_send(s, &r, sizeof r, str_n(words, (size_t)n + 1), fds, 3, err);
        close(steal_fd(&out[1]));
        ok = ok && listen_to(s, out[0], &in[1], text, err);
        jail_call_end(s, &c);
    }
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            close(out[i]);
        if (in[i] >= 0)
            close(in[i]);
    }
    return ok;
}

/* ---- judging --------------------------------------------------------------------------------- */
/* All namespaces that it named are others than ours. */
static bool apart(const struct buf *text)
{
    struct str rest = buf_view(text), line;
    int n = 0;
    while (str_split(&rest, '\n', &line)) {
        char path[64], ours[64];
        if (!str_starts(line, S("ns=")))
            continue;
        struct str theirs = str_sub(line, 3, line.n);
        struct str kind =
            str_sub(theirs, 0, (size_t)(str_chr(theirs, ':') > 0 ? str_chr(theirs, ':') : 0));
        snprintf(path, sizeof path, "/proc/self/ns/" STR_FMT, STR_ARG(kind));
        ssize_t got = readlink(path, ours, sizeof ours);
        if (got <= 0 || str_eq(str_n(ours, (size_t)got), theirs))
            return false;
        n++;
    }
    return n == 7;
}

/* The session's first process is not root's outside. */
static bool nobody_outside(pid_t pid)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *uid = strstr(text, "\nUid:"), *gid = strstr(text, "\nGid:");
    return uid && gid && strtol(uid + 5, NULL, 10) > 0 && strtol(gid + 5, NULL, 10) > 0;
}

static void judge(const struct jail_self *self, const struct jail_session *s, const struct place *p,
                  const struct buf *text, struct box_probe *out)
{
    bool memory = said(text, "memory"), pids = said(text, "pids");
    bool cpu = jail_cgroups_throttled(&self->groups, s->id) > 0;
    bool marked = said(text, "wrote") && was_marked(p);
    out->enforced[BOX_CHECK_NAMESPACE_ISOLATION] = apart(text);
    out->enforced[BOX_CHECK_MOUNT_ISOLATION] = marked && said(text, "hidden");
    out->enforced[BOX_CHECK_NETWORK_ISOLATION] = apart(text) && said(text, "no_route");
    out->enforced[BOX_CHECK_HARD_READ_ONLY_MOUNT_QUOTA] = said(text, "ro_mount");
    out->enforced[BOX_CHECK_BOUNDED_EPHEMERAL_STORAGE] = said(text, "store_bytes");
    out->enforced[BOX_CHECK_MEMORY_LIMIT] = memory;
    out->enforced[BOX_CHECK_PIDS_LIMIT] = pids;
    out->enforced[BOX_CHECK_CPU_LIMIT] = cpu;
    out->enforced[BOX_CHECK_CGROUP_V2] = self->groups.v2 && memory && pids && cpu;
    out->enforced[BOX_CHECK_UID_MAPPING] = said(text, "not_root") && nobody_outside(s->pid);
    out->enforced[BOX_CHECK_NO_NEW_PRIVILEGES] = said(text, "no_new_privs");
    out->enforced[BOX_CHECK_CAPABILITIES_EMPTY] = said(text, "no_caps");
    out->enforced[BOX_CHECK_SECCOMP] = said(text, "seccomp");
    out->enforced[BOX_CHECK_LANDLOCK] = said(text, "landlock");
    out->enforced[BOX_CHECK_READ_ONLY_ROOT] = said(text, "ro_root");
    /* The walls without which nothing is run; limits may be missing, and are said to be. */
    out->available = said(text, "end") && out->enforced[BOX_CHECK_NAMESPACE_ISOLATION] &&
                     out->enforced[BOX_CHECK_MOUNT_ISOLATION] &&
                     out->enforced[BOX_CHECK_NO_NEW_PRIVILEGES] &&
                     out->enforced[BOX_CHECK_CAPABILITIES_EMPTY] && said(text, "seccomp");
}

static void name_gaps(const struct jail_self *self, const struct buf *text, struct box_probe *out)
{
    auto_buf why = BUF(2048); /* cut to what fits */
    if (!said(text, "end"))
        buf_z(&why, "the probe did not come to its end; ");
    size_t before = why.n;
    for (int c = 0; c < BOX_CHECK_COUNT; c++)
        if (!out->enforced[c] && c != BOX_CHECK_CGROUP_V2) {
            buf_z(&why, why.n > before ? ", " : "not enforced: ");
            buf_z(&why, box_check_name((enum box_check)c));
        }
    if (*self->groups.why)
        buf_fmt(&why, "%s%s", why.n ? "; " : "", self->groups.why);
    snprintf(out->reason, sizeof out->reason, STR_FMT, STR_ARG(buf_view(&why)));
}

void jail_probe_session(struct jail_self *self, const char *workspace, struct box_probe *out)
{
    struct error err = {0};
    struct task_deadline d;
    struct place p;
    auto_buf text = BUF(TEXT_MAX);
    *out = (struct box_probe){0};
    if (!make_place(&p, workspace ? workspace : self->env->state_dir, out->reason,
                    sizeof out->reason))
        return;
    task_deadline_push(&d, PROBE_MS);
    struct jail_session *s = jail_zygote_ready(self, &err) ? start(self, &p, &err) : NULL;
    buf_c(&text, '\n');
    bool ran = s && run(s, &p, &text, &err);
    task_deadline_pop(&d);
    if (ran) {
        judge(self, s, &p, &text, out);
        name_gaps(self, &text, out);
    } else {
        snprintf(out->reason, sizeof out->reason, "%.250s", err.msg);
    }
    if (s)
        jail_session_stop(s);
    remove_place(&p);
}
