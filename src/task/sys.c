/* sys: system calls that tests can make fail. */
#include "task/task_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    atomic_long in; /* calls until the failure; 0: off */
    atomic_bool repeat;
    atomic_int error;
} plan[TASK_SYS_OPS];

void task_sys_fail_after(enum task_sys_op op, long nth, bool repeat, int errno_value)
{
    atomic_store(&plan[op].error, errno_value);
    atomic_store(&plan[op].repeat, repeat);
    atomic_store(&plan[op].in, nth);
}

bool task_sys_fails(enum task_sys_op op)
{
    long in = atomic_load_explicit(&plan[op].in, memory_order_relaxed);
    if (in == 0) {
        return false;
    }
    if (in == 1 && atomic_load(&plan[op].repeat)) {
        errno = atomic_load(&plan[op].error);
        return true;
    }
    while (in > 0 && !atomic_compare_exchange_weak(&plan[op].in, &in, in - 1)) {
    }
    if (in != 1) {
        return false;
    }
    errno = atomic_load(&plan[op].error);
    return true;
}

ssize_t task_sys_read(int fd, void *p, size_t n)
{
    return task_sys_fails(TASK_SYS_READ) ? -1 : read(fd, p, n);
}

ssize_t task_sys_write(int fd, const void *p, size_t n)
{
    return task_sys_fails(TASK_SYS_WRITE) ? -1 : write(fd, p, n);
}

int task_sys_open(const char *path, int flags, mode_t mode)
{
    return task_sys_fails(TASK_SYS_OPEN) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

int task_sys_fsync(int fd)
{
    return task_sys_fails(TASK_SYS_FSYNC) ? -1 : fsync(fd);
}

int task_sys_rename(const char *from, const char *to)
{
    return task_sys_fails(TASK_SYS_RENAME) ? -1 : rename(from, to);
}

int task_sys_unlink(const char *path)
{
    return task_sys_fails(TASK_SYS_UNLINK) ? -1 : unlink(path);
}

int task_sys_mkdir(const char *path, mode_t mode)
{
    return task_sys_fails(TASK_SYS_MKDIR) ? -1 : mkdir(path, mode);
}

int task_sys_pipe(int fds[2])
{
    return task_sys_fails(TASK_SYS_PIPE) ? -1 : pipe2(fds, O_CLOEXEC);
}

void *task_sys_mmap(size_t size)
{
    if (task_sys_fails(TASK_SYS_MMAP)) {
        return NULL;
    }
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
