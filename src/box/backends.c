/* backends: the table of what is built, and what all of them need. */
#include "box/backend.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024 };

/* "host" is tried by no automatic choice: it isolates nothing. */
const struct box_backend *const box_backends[] = {&box_backend_jail, &box_backend_host, NULL};
const struct box_backend *const box_backends_auto[] = {&box_backend_jail, NULL};
const struct box_backend *const box_backends_local[] = {&box_backend_jail, NULL};

const struct box_backend *box_backend_find(const char *name)
{
    for (size_t i = 0; box_backends[i]; i++)
        if (strcmp(box_backends[i]->name, name) == 0)
            return box_backends[i];
    return NULL;
}

const char *box_check_name(enum box_check c)
{
    static const char *const names[] = {
        [BOX_CHECK_CGROUP_V2] = "cgroup_v2",
        [BOX_CHECK_NAMESPACE_ISOLATION] = "namespace_isolation",
        [BOX_CHECK_MOUNT_ISOLATION] = "mount_isolation",
        [BOX_CHECK_NETWORK_ISOLATION] = "network_isolation",
        [BOX_CHECK_HARD_WORKSPACE_QUOTA] = "hard_workspace_quota",
        [BOX_CHECK_HARD_READ_ONLY_MOUNT_QUOTA] = "hard_read_only_mount_quota",
        [BOX_CHECK_BOUNDED_EPHEMERAL_STORAGE] = "bounded_ephemeral_storage",
        [BOX_CHECK_INODE_QUOTA] = "inode_quota",
        [BOX_CHECK_MEMORY_LIMIT] = "memory_limit",
        [BOX_CHECK_PIDS_LIMIT] = "pids_limit",
        [BOX_CHECK_CPU_LIMIT] = "cpu_limit",
        [BOX_CHECK_UID_MAPPING] = "uid_mapping",
        [BOX_CHECK_NO_NEW_PRIVILEGES] = "no_new_privileges",
        [BOX_CHECK_CAPABILITIES_EMPTY] = "capabilities_empty",
        [BOX_CHECK_SECCOMP] = "seccomp",
        [BOX_CHECK_LANDLOCK] = "landlock",
        [BOX_CHECK_READ_ONLY_ROOT] = "read_only_root",
    };
    return names[c];
}

bool box_instance_alive(const struct box_backend_env *env, const char *instance)
{
    char path[BOX_PATH_MAX + 1];
    if (strcmp(instance, env->instance) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/%s/lock", env->state_root, instance);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

void box_exec_result_free(struct box_exec_result *r)
{
    buf_free(&r->out.head);
    buf_free(&r->out.tail);
    buf_free(&r->err.head);
    buf_free(&r->err.tail);
}

/* The last BOX_TAIL_MAX bytes of what was discarded. */
static bool keep_tail(struct buf *tail, const char *p, size_t n)
{
    if (tail->max == 0)
        *tail = BUF(2 * BOX_TAIL_MAX);
    if (n >= BOX_TAIL_MAX) {
        buf_clear(tail);
        return buf_add(tail, p + n - BOX_TAIL_MAX, BOX_TAIL_MAX);
    }
    if (tail->n + n > 2 * BOX_TAIL_MAX)
        buf_eat(tail, tail->n + n - BOX_TAIL_MAX);
    return buf_add(tail, p, n);
}

bool box_capture_add(struct box_capture *c, size_t max, const void *p, size_t n)
{
    if (c->head.max == 0)
        c->head = BUF(max + 1);
    size_t room = max - c->head.n, kept = n < room ? n : room;
    if (kept && !buf_add(&c->head, p, kept))
        return false;
    c->discarded += n - kept;
    return n == kept || keep_tail(&c->tail, (const char *)p + kept, n - kept);
}

struct box_drain {
    struct box_exec_result *result;
    size_t max;
    struct task_group *group;
    struct task_cond news;
    int open;
    bool starved;
};
struct stream {
    struct box_drain *drain;
    struct box_capture *capture;
    int fd;
};

static void read_stream(void *arg)
{
    struct stream *s = arg;
    struct error err;
    auto_mem char *block = mem_alloc(READ_SIZE);
    ssize_t n = 0;
    while (block && (n = task_read(s->fd, block, READ_SIZE, &err)) > 0) {
        if (!box_capture_add(s->capture, s->drain->max, block, (size_t)n)) {
            s->drain->starved = true; /* go on reading: the command must not hang */
        }
        task_yield(); /* a flood must not keep the loop from others */
    }
    s->drain->starved = s->drain->starved || !block;
    s->drain->open--;
    task_cond_notify_all(&s->drain->news);
    mem_free(s);
}

static bool add_stream(struct box_drain *d, int fd, struct box_capture *capture, struct error *err)
{
    struct stream *s = new (struct stream);
    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory for the output of a command");
    *s = (struct stream){d, capture, fd};
    if (!task_spawn(d->group, "box output", read_stream, s, err)) {
        mem_free(s);
        return false;
    }
    d->open++;
    return true;
}

struct box_drain *box_drain_start(int out, int err_fd, size_t max, struct box_exec_result *result,
                                  struct error *err)
{
    struct box_drain *d = new (struct box_drain);
    if (d)
        d->group = task_group_new(NULL, "box output");
    if (!d || !d->group) {
        mem_free(d);
        err_set(err, ERR_NOMEM, "out of memory for the output of a command");
        return NULL;
    }
    d->result = result;
    d->max = max;
    if ((out >= 0 && !add_stream(d, out, &result->out, err)) ||
        (err_fd >= 0 && !add_stream(d, err_fd, &result->err, err))) {
        box_drain_end(d);
        return NULL;
    }
    return d;
}

bool box_drain_wait(struct box_drain *d, int64_t ms)
{
    struct error ignored;
    struct task_deadline deadline;
    task_deadline_push(&deadline, ms);
    while (d->open > 0 && task_cond_wait(&d->news, &ignored))
        ;
    task_deadline_pop(&deadline);
    return d->open == 0;
}

bool box_drain_end(struct box_drain *d)
{
    bool whole = !d->starved;
    task_group_free(d->group);
    mem_free(d);
    return whole;
}

int box_exit_code(int status)
{
    return WIFEXITED(status)     ? WEXITSTATUS(status)
           : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                 : 255;
}
