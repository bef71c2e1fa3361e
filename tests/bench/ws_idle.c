/* Memory of idle WebSockets: opens many to a server in a process of its own, sends one message over
 * each, waits until the stacks' unused pages are given back, and prints the growth of the server's
 * anonymous memory for each socket, with the fiber that waits on it. Usage: bench_ws_idle [sockets]
 */
#include "net/net.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void h_echo(struct http_request *r)
{
    struct error err;
    struct ws_msg m;
    struct ws *w = ws_accept(r, NULL, &err);
    if (!w) {
        http_answer(r, 400, NULL, STR_NONE);
        return;
    }
    while (ws_recv(w, &m, &err) && ws_send(w, m.type, m.data, &err))
        ;
    ws_close(w);
}

static int serve(void *arg)
{
    static const struct http_route routes[] = {{HTTP_M_GET, "/ws", .handler = h_echo},
                                               {.pattern = NULL}};
    static const struct http_route *const tables[] = {routes, NULL};
    struct error err;
    struct http_server_opts o = {.host = "127.0.0.1", .tables = tables, .connections_max = 100000};
    struct http_server *s = http_server_new(&o, &err);
    if (!s)
        return 1;
    uint16_t port = http_server_port(s);
    if (write(*(int *)arg, &port, sizeof(port)) != sizeof(port) ||
        !task_signal_wait(1u << SIGTERM, &err))
        return 1;
    http_server_stop(s, 2000);
    return 0;
}

static long anonymous_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtol(line + 8, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

static int open_socket(uint16_t port)
{
    static const char hello[] =
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n"
        "Origin: http://localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    static const char frame[] = "\x81\x85\0\0\0\0hello";
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    char in[1024];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        write(fd, hello, sizeof(hello) - 1) != (ssize_t)sizeof(hello) - 1 ||
        read(fd, in, sizeof(in)) < 12 || memcmp(in, "HTTP/1.1 101", 12) != 0 ||
        write(fd, frame, sizeof(frame) - 1) != (ssize_t)sizeof(frame) - 1 ||
        read(fd, in, sizeof(in)) != 7)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 5000;
    struct rlimit limit;
    int p[2];
    uint16_t port;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (pipe(p) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        base_init();
        exit(task_run(serve, &p[1]));
    }
    if (read(p[0], &port, sizeof(port)) != sizeof(port))
        return 1;
    int warm = open_socket(port);
    sleep(1);
    long before = anonymous_kib(pid), opened = 0;
    while (opened < count && open_socket(port) >= 0)
        opened++;
    sleep(3);
    long after = anonymous_kib(pid);
    printf("%ld idle sockets, server grew by %ld KiB: %.2f KiB each\n", opened, after - before,
           (double)(after - before) / (double)(opened ? opened : 1));
    kill(pid, SIGTERM);
    int status;
    waitpid(pid, &status, 0);
    printf("server ended with %d\n", status);
    close(warm);
    return opened == count && status == 0 ? 0 : 1;
}
