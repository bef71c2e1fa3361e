/*
 * A floor for HTTP on this machine: one thread, one epoll descriptor, one fixed answer to whatever ends with an empty
 * line. It parses nothing, so no server that does its work is faster. Prints its port and runs until it is killed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\n"
                             "Content-Type: application/json\r\n"
                             "Content-Length: 15\r\n"
                             "\r\n"
                             "{\"status\":\"ok\"}";

static int listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, 512) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return -1;
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void greet(int poll_fd, int listener)
{
    int one = 1, fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e) != 0)
            close(fd);
    }
}

static void serve(int fd)
{
    char request[8192];
    ssize_t n = recv(fd, request, sizeof request, 0);
    if (n <= 0) {
        close(fd);
        return;
    }
    /* The client of the bench sends a request in one write. */
    if (n >= 4 && memcmp(request + n - 4, "\r\n\r\n", 4) == 0 &&
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) != (ssize_t)sizeof answer - 1)
        close(fd);
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = listen_anywhere(), poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, ready[256];
    if (listener < 0 || poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &e) != 0) {
        perror("responder");
        return 1;
    }
    for (;;) {
        int n = epoll_wait(poll_fd, ready, 256, -1);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == listener)
                greet(poll_fd, listener);
            else
                serve(ready[i].data.fd);
        }
    }
}
