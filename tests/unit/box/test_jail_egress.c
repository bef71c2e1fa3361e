/* The way out of a session with network: what it lets through, what it refuses. */
#include "box/jail_lab.h"

#include "net/net.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int server;
static unsigned port;
static char seen[2048];

/* Answers each connection with a fixed response and keeps what it read. */
static void answer(void *arg)
{
    struct error err;
    while (task_fd_wait(server, TASK_READ, &err)) {
        int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        static const char text[] =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        ssize_t n = task_read(fd, seen, sizeof seen - 1, &err);
        seen[n > 0 ? n : 0] = '\0';
        assert_true(task_write_all(fd, text, sizeof text - 1, &err));
        close(fd);
    }
}

static void open_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f0000fe)};
    socklen_t n = sizeof at;
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server, 5), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&at, &n), 0);
    port = ntohs(at.sin_port);
}

static struct said ask(struct lab *lab, void *s, const char *fmt)
{
    char cmd[1000], url[64];
    snprintf(url, sizeof url, "127.0.0.254:%u", port);
    snprintf(cmd, sizeof cmd, fmt, url);
    return lab_exec(lab, s, cmd);
}

/* One request by hand: python is not on every machine. */
#define RAW "exec 3<>/dev/tcp/127.0.0.1/3128; "

static void outward(struct lab *lab)
{
    struct error err = {0};
    /* The one private address that this test's operator allows. */
    const char *allow[] = {"127.0.0.254/32", NULL};
    struct http_client_opts opts = {.allow_private = allow};
    assert_true(http_client_init(&opts, &err));
    open_server();
    struct task_group *g = task_group_new(NULL, "server");
    assert_true(task_spawn(g, "server", answer, NULL, &err));
    struct box_session_spec spec = lab_spec(lab);
    spec.network = true;
    void *s = lab_start(lab, &spec);
    if (lab_exec(lab, s, "command -v bash").code != 0) {
        print_message("skipped: no bash here\n");
    } else {
        struct said r = ask(lab, s,
                            "bash -c '" RAW "printf \"GET http://%s/a/b?c=d HTTP/1.1\\r\\n"
                            "Host: x\\r\\nProxy-Authorization: y\\r\\n\\r\\n\" >&3; cat <&3'");
        assert_non_null(strstr(r.out, "hello"));
        assert_ptr_equal(strstr(seen, "GET /a/b?c=d HTTP/1.1\r\n"), seen);
        assert_null(strstr(seen, "Proxy-"));
        r = ask(lab, s,
                "bash -c '" RAW "printf \"CONNECT %s HTTP/1.1\\r\\n\\r\\nbytes\" >&3; cat <&3'");
        assert_non_null(strstr(r.out, "200 Connection established"));
        assert_non_null(strstr(r.out, "hello"));
        assert_string_equal(seen, "bytes");
        static const char *const refused[] = {
            "127.0.0.1:22", "10.0.0.1:80",         "192.168.1.1:80", "169.254.169.254:80",
            "[::1]:80",     "localhost:80",        "0x7f000001:80",  "127.1:80",
            "[fe80::1]:80", "[::ffff:10.0.0.1]:80"};
        for (size_t i = 0; i < array_len(refused); i++) {
            char cmd[300];
            snprintf(cmd, sizeof cmd,
                     "bash -c '" RAW "printf \"CONNECT %s HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3'",
                     refused[i]);
            r = lab_exec(lab, s, cmd);
            if (!strstr(r.out, " 403 ") && !strstr(r.out, " 502 "))
                fail_msg("%s: %s", refused[i], r.out);
        }
        r = ask(lab, s, "bash -c '" RAW "printf \"GET / HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3' # %s");
        assert_non_null(strstr(r.out, " 400 "));
    }
    if (lab_exec(lab, s, "command -v curl").code == 0) /* by the variables alone */
        assert_string_equal(ask(lab, s, "curl -s http://%s/").out, "hello");
    /* There is no other way. */
    assert_int_not_equal(ask(lab, s, "bash -c 'exec 3<>/dev/tcp/127.0.0.254/${0##*:}' %s").code, 0);
    lab->b->stop_session(s);
    /* By name: the operator's list. */
    json_t *conf = json_pack("{s:[s,s]}", "hosts", "*.example.org", "one.test");
    assert_true(lab->b->configure(lab->self, conf, &err));
    json_decref(conf);
    s = lab_start(lab, &spec);
    struct said r =
        ask(lab, s, "bash -c '" RAW "printf \"CONNECT %s HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3'");
    assert_non_null(strstr(r.out, " 403 "));
    lab->b->stop_session(s);
    task_group_free(g);
    close(server);
    http_client_end();
}

static void test_outward(void **st)
{
    lab_run(outward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_outward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
