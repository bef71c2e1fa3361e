/* Messages with descriptors over a SOCK_SEQPACKET pair. */
#include "box/jail/jail.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

bool jail_send(int sock, const void *head, size_t head_n, const void *body, size_t body_n,
               const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(JAIL_FDS_MAX * sizeof(int))];
    } control;
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_n}, {(void *)(uintptr_t)body, body_n}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = body_n ? 2 : 1};
    if (count > JAIL_FDS_MAX) {
        errno = E2BIG;
        return false;
    }
    if (count > 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(sock, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

ssize_t jail_recv(int sock, void *p, size_t max, int *fds, int *count, int flags)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(JAIL_FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = {p, max};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    int room = *count;
    *count = 0;
    ssize_t n;
    do
        n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < got; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (*count < room)
                fds[(*count)++] = fd;
            else
                close(fd);
        }
    }
    if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        while (*count)
            close(fds[--*count]);
        errno = EMSGSIZE;
        return -1;
    }
    return n;
}

bool jail_why(char *why, const char *what)
{
    int e = errno;
    /* Not strerror: it may allocate. */
    const char *name = strerrordesc_np(e);
    snprintf(why, JAIL_TEXT_MAX, "%s: %s", what, name ? name : "unknown error");
    errno = e;
    return false;
}
