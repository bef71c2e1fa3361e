/* Compares the HTTP server with a bare epoll responder that knows nothing of HTTP: both answer the
 * same bytes to wrk (https://github.com/wg/wrk), each in a process of its own, in turns. Prints
 * requests per second and, because machines are seldom idle, requests per second of processor time;
 * the ratio of the latter is the one that is judged. Usage: bench_http [seconds] [connections]
 * [rounds]; "bench_http serve PORT" only serves. */
#include "net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char body[] = "{\"code\":0,\"msg\":\"ok\",\"resources\":{}}";

static int listen_on(uint16_t *port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(*port)};
    socklen_t n = sizeof(a);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        exit(1);
    *port = ntohs(a.sin_port);
    return fd;
}

/* The yardstick: one receive and one send for each readiness, no parsing. */
static void raw_serve(int listener)
{
    static char in[65536];
    char answer[512];
    int ep = epoll_create1(0);
    int m = snprintf(
        answer, sizeof(answer),
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\nX-Request-Id: 00000000-0000-4000-8000-000000000000\r\n\r\n%s",
        sizeof(body) - 1, body);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(ep, events, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                ev.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (ev.data.fd >= 0)
                    epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
            } else if (recv(fd, in, sizeof(in), 0) <= 0 ||
                       send(fd, answer, (size_t)m, MSG_NOSIGNAL) < 0) {
                close(fd);
            }
        }
    }
}

static void health(struct http_request *r)
{
    http_answer(r, 200, "application/json", str_n(body, sizeof(body) - 1));
}

static int parley_serve(void *arg)
{
    static const struct http_route routes[] = {{HTTP_M_GET, "/healthz", .handler = health},
                                               {.pattern = NULL}};
    static const struct http_route *const tables[] = {routes, NULL};
    const int *port_fd = arg;
    struct error err;
    struct http_server_opts o = {
        .host = "127.0.0.1", .port = (uint16_t)port_fd[0], .tables = tables};
    struct http_server *s = http_server_new(&o, &err);
    if (!s) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    uint16_t port = http_server_port(s);
    if (port_fd[1] >= 0 && write(port_fd[1], &port, sizeof(port)) != sizeof(port))
        return 1;
    if (!task_signal_wait(1u << SIGTERM | 1u << SIGINT, &err))
        fprintf(stderr, "%s\n", err.msg);
    http_server_stop(s, 100);
    return 0;
}

static pid_t start_raw(uint16_t *port)
{
    int fd = listen_on(port);
    pid_t pid = fork();
    if (pid == 0)
        raw_serve(fd);
    close(fd);
    return pid;
}

static pid_t start_parley(uint16_t *port)
{
    int p[2];
    if (pipe(p) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        int port_fd[2] = {0, p[1]};
        base_init();
        exit(task_run(parley_serve, port_fd));
    }
    if (read(p[0], port, sizeof(*port)) != sizeof(*port))
        exit(1);
    close(p[0]);
    close(p[1]);
    return pid;
}

static double cpu_of(pid_t pid)
{
    clockid_t id;
    struct timespec ts;
    if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0)
        return 0;
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Requests that wrk counted. */
static double run_wrk(uint16_t port, const char *seconds, const char *connections, double *rate)
{
    char url[64], duration[16], out[4096];
    int p[2];
    size_t n = 0;
    ssize_t got;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/healthz", port);
    snprintf(duration, sizeof(duration), "%ss", seconds);
    if (pipe(p) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execlp("wrk", "wrk", "-t1", "-c", connections, "-d", duration, url, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    while ((got = read(p[0], out + n, sizeof(out) - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = 0;
    close(p[0]);
    waitpid(pid, NULL, 0);
    const char *in = strstr(out, " requests in "), *per = strstr(out, "Requests/sec:");
    if (!in || !per) {
        fprintf(stderr, "wrk is needed: %s\n", out);
        exit(1);
    }
    while (in > out && in[-1] != ' ' && in[-1] != '\n')
        in--;
    *rate = strtod(per + 13, NULL);
    if (strstr(out, "Non-2xx") || strstr(out, "Socket errors"))
        printf("%s", out);
    return strtod(in, NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        int port_fd[2] = {(int)strtol(argv[2], NULL, 10), -1};
        base_init();
        return task_run(parley_serve, port_fd);
    }
    const char *seconds = argc > 1 ? argv[1] : "3", *connections = argc > 2 ? argv[2] : "64";
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 3;
    uint16_t ports[2] = {0, 0};
    pid_t pids[2] = {start_raw(&ports[0]), start_parley(&ports[1])};
    double requests[2] = {0}, cpu[2] = {0}, best[2] = {0};
    for (long i = 0; i < rounds; i++) {
        for (int k = 0; k < 2; k++) {
            double rate, before = cpu_of(pids[k]);
            requests[k] += run_wrk(ports[k], seconds, connections, &rate);
            cpu[k] += cpu_of(pids[k]) - before;
            if (rate > best[k])
                best[k] = rate;
        }
    }
    for (int k = 0; k < 2; k++) {
        struct rusage ru;
        kill(pids[k], SIGTERM);
        wait4(pids[k], NULL, 0, &ru);
        printf(
            "%s best %.0f requests/s, %.0f requests per processor second, each %.2f us user %.2f us "
            "kernel\n",
            k ? "parley" : "raw   ", best[k], requests[k] / cpu[k],
            ((double)ru.ru_utime.tv_sec * 1e6 + (double)ru.ru_utime.tv_usec) / requests[k],
            ((double)ru.ru_stime.tv_sec * 1e6 + (double)ru.ru_stime.tv_usec) / requests[k]);
    }
    printf("ratio per processor second %.2f, of best rounds %.2f\n",
           requests[1] / cpu[1] / (requests[0] / cpu[0]), best[1] / best[0]);
    return 0;
}
