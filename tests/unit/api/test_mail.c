/* Invitations by mail. tenancy.md §6 */
#include "api/mail.h"
#include "crypto/crypto.h"
#include "support/fake_peer.h"
#include "task/task.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                           \
        }                                                                      \
    } while (0)

#define PREFIX "WORKSPACE__INVITATIONS__EMAIL__"
#define TO     "guest@example.com"
#define LINK   "https://bots.example/invitations/accept#token=lbi_secret-token"

static char settings_text[12][160];
static const char *settings[13];

static struct config *config_with(const char *const *lines)
{
    struct error err = {0};
    size_t n = 0;
    for (; lines[n]; n++) {
        snprintf(settings_text[n], sizeof settings_text[n], PREFIX "%s", lines[n]);
        settings[n] = settings_text[n];
    }
    settings[n] = NULL;
    struct config *c = config_of_text(S(""), settings, &err);
    CHECK(c);
    return c;
}

/* ---- what is configured ---- */

static void an_incomplete_configuration_mails_nothing(void **state)
{
    static const struct {
        const char *lines[5], *provider;
    } cases[] = {
        {{NULL}, NULL},
        {{"PROVIDER=resend", "FROM=a@b.c", "RESEND__API_KEY=k", NULL}, "resend"},
        {{"PROVIDER= ReSend ", "FROM=a@b.c", "RESEND__API_KEY=k", NULL}, "resend"},
        {{"PROVIDER=resend", "FROM=a@b.c", NULL}, NULL},
        {{"PROVIDER=resend", "RESEND__API_KEY=k", NULL}, NULL},
        {{"PROVIDER=resend", "FROM=  ", "RESEND__API_KEY=k", NULL}, NULL},
        {{"PROVIDER=resend", "FROM=a@b.c", "RESEND__API_KEY=k", "RESEND__API_URL=", NULL}, NULL},
        {{"PROVIDER=SMTP", "FROM=a@b.c", "SMTP__HOST=h", NULL}, "smtp"},
        {{"PROVIDER=smtp", "FROM=a@b.c", NULL}, NULL},
        {{"PROVIDER=pigeon", "FROM=a@b.c", "SMTP__HOST=h", NULL}, NULL},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_arena a = arena_new(64 << 10);
        struct config *c = config_with(cases[i].lines);
        const char *got = mail_provider(c);
        assert_true(cases[i].provider ? got && strcmp(got, cases[i].provider) == 0 : !got);
        if (!got)
            assert_string_equal(mail_invitation(c, a, TO, "W", S(LINK)), "link_only");
        config_free(c);
    }
}

/* ---- a fiber that sends, with the log kept ---- */

static char log_text[16 << 10];

static void keep(void *arg, enum log_level level, struct str line)
{
    size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, STR_FMT "\n", STR_ARG(line));
}

struct sending {
    const char *const *lines;
    const char *to, *workspace;
    char status[16];
};

static int send_in_fiber(void *arg)
{
    struct sending *s = arg;
    struct error err = {0};
    struct http_client_opts none = {0};
    auto_arena a = arena_new(4 << 20);
    struct config *c = config_with(s->lines);
    CHECK(http_client_init(&none, &err));
    snprintf(s->status, sizeof s->status, "%s",
             mail_invitation(c, a, s->to, s->workspace, S(LINK)));
    http_client_end();
    config_free(c);
    return 0;
}

static const char *deliver(struct sending *s)
{
    log_text[0] = 0;
    log_tap(keep, NULL);
    assert_int_equal(task_run(send_in_fiber, s), 0);
    log_tap(NULL, NULL);
    assert_null(strstr(log_text, "guest"));
    assert_null(strstr(log_text, "lbi_"));
    assert_null(strstr(log_text, "Secret-1"));
    return s->status;
}

/* ---- web service ---- */

static int web_status;

static void web_service(struct fake_peer *p, int conn, int index)
{
    char answer[128];
    if (!peer_read(p, conn))
        return;
    snprintf(answer, sizeof answer, "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}", web_status);
    peer_send(conn, answer);
}

static void through_a_web_service(void **state)
{
    static const int statuses[] = {200, 401, 500};
    struct error err = {0};
    for (size_t i = 0; i < array_len(statuses); i++) {
        struct fake_peer p = {0};
        char url[128], line[160];
        web_status = statuses[i];
        fake_peer_start(&p, web_service);
        snprintf(line, sizeof line, "RESEND__API_URL=%s",
                 fake_peer_url(&p, "/emails", url, sizeof url));
        const char *lines[] = {"PROVIDER=resend", "FROM=Bots <bot@example.com>",
                               "RESEND__API_KEY=Secret-1", line, NULL};
        struct sending s = {.lines = lines, .to = TO, .workspace = "A <b>&\r\nX: y"};
        assert_string_equal(deliver(&s), statuses[i] == 200 ? "sent" : "failed");
        fake_peer_stop(&p);
        assert_non_null(strstr(p.last, "POST /emails HTTP/1.1\r\n"));
        assert_non_null(strstr(p.last, "Authorization: Bearer Secret-1\r\n"));
        auto_json body = json_parse(str_c(strstr(p.last, "\r\n\r\n") + 4), &err);
        assert_non_null(body);
        assert_string_equal(json_z(body, "from"), "Bots <bot@example.com>");
        assert_int_equal(json_array_size(json_object_get(body, "to")), 1);
        assert_string_equal(json_string_value(json_array_get(json_object_get(body, "to"), 0)), TO);
        assert_string_equal(json_z(body, "subject"), "You were invited to A <b>&  X: y");
        assert_non_null(strstr(json_z(body, "text"), LINK));
        assert_non_null(strstr(json_z(body, "text"), "7 days"));
        assert_non_null(strstr(json_z(body, "html"), "A &lt;b&gt;&amp;"));
        assert_non_null(strstr(json_z(body, "html"), "href=\"" LINK "\""));
        assert_int_equal(strstr(log_text, "status=") != NULL, statuses[i] != 200);
    }
}

static void silent(struct fake_peer *p, int conn, int index)
{
    peer_wait_closed(conn, 5000);
}

static void silence_is_waited_for_only_so_long(void **state)
{
    for (int smtp = 0; smtp < 2; smtp++) {
        struct fake_peer p = {0};
        char url[128], line[160];
        fake_peer_start(&p, silent);
        snprintf(line, sizeof line, smtp ? "SMTP__PORT=%s" : "RESEND__API_URL=%s",
                 smtp ? strrchr(fake_peer_url(&p, "", url, sizeof url), ':') + 1
                      : fake_peer_url(&p, "/", url, sizeof url));
        const char *lines[] = {smtp ? "PROVIDER=smtp" : "PROVIDER=resend",
                               "FROM=bot@example.com",
                               "RESEND__API_KEY=Secret-1",
                               "SMTP__HOST=127.0.0.1",
                               "TIMEOUT_SECONDS=1",
                               line,
                               NULL};
        struct sending s = {.lines = lines, .to = TO, .workspace = "W"};
        int64_t before = time_mono_us();
        assert_string_equal(deliver(&s), "failed");
        assert_true(time_mono_us() - before < 4000000);
        fake_peer_stop(&p);
    }
}

/* ---- mail server ---- */

/* How the server of a test behaves; what it heard, as one text. */
static struct {
    bool refuse, offer_tls;
    char heard[64 << 10];
} server;

static bool read_line(int conn, char *out, size_t size)
{
    size_t n = 0;
    while (n + 1 < size) {
        if (read(conn, out + n, 1) != 1)
            return false;
        if (out[n++] == '\n')
            break;
    }
    out[n] = 0;
    strncat(server.heard, out, sizeof server.heard - strlen(server.heard) - 1);
    return true;
}

static void mail_server(struct fake_peer *p, int conn, int index)
{
    char line[2048];
    peer_send(conn, "220 test\r\n");
    while (read_line(conn, line, sizeof line)) {
        if (strncmp(line, "EHLO", 4) == 0) {
            peer_send(conn, server.offer_tls ? "250-test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
                                             : "250-test\r\n250 AUTH PLAIN\r\n");
        } else if (strncmp(line, "STARTTLS", 8) == 0) {
            peer_send(conn, "454 not now\r\n");
        } else if (strncmp(line, "AUTH PLAIN", 10) == 0) {
            if (strlen(line) < 14) {
                peer_send(conn, "334 \r\n");
                if (!read_line(conn, line, sizeof line))
                    return;
            }
            peer_send(conn, "235 in\r\n");
        } else if (strncmp(line, "RCPT", 4) == 0 && server.refuse) {
            peer_send(conn, "550 no guest@example.com here\r\n");
        } else if (strncmp(line, "DATA", 4) == 0) {
            peer_send(conn, "354 go\r\n");
            while (read_line(conn, line, sizeof line) && strcmp(line, ".\r\n") != 0) {
            }
            peer_send(conn, "250 taken\r\n");
        } else if (strncmp(line, "QUIT", 4) == 0) {
            peer_send(conn, "221 bye\r\n");
            return;
        } else {
            peer_send(conn, "250 ok\r\n");
        }
    }
}

static const char *by_server(const char *from, const char *to, const char *workspace,
                             const char *more)
{
    static char status[16];
    struct fake_peer p = {0};
    char port[32];
    server.heard[0] = 0;
    fake_peer_start(&p, mail_server);
    snprintf(port, sizeof port, "SMTP__PORT=%u", p.port);
    const char *lines[] = {"PROVIDER=smtp",
                           from,
                           "SMTP__HOST=127.0.0.1",
                           port,
                           "SMTP__USERNAME=user",
                           "SMTP__PASSWORD=Secret-1",
                           "TIMEOUT_SECONDS=5",
                           more,
                           NULL};
    struct sending s = {.lines = lines, .to = to, .workspace = workspace};
    snprintf(status, sizeof status, "%s", deliver(&s));
    fake_peer_stop(&p);
    return status;
}

/* The decoded text of the part with this type. */
static struct str part(struct arena *a, const char *type)
{
    struct error err = {0};
    auto_buf coded = BUF(64 << 10);
    struct str out = STR_NONE;
    const char *at = strstr(server.heard, type);
    assert_non_null(at);
    at = strstr(at, "\r\n\r\n") + 4;
    for (const char *end; (end = strstr(at, "\r\n")) && strncmp(at, "--", 2) != 0; at = end + 2) {
        assert_true(end - at <= 76);
        buf_add(&coded, at, (size_t)(end - at));
    }
    assert_true(base64_decode(a, str_dup(a, buf_view(&coded)), 64 << 10, &out, &err));
    return out;
}

static void through_a_mail_server(void **state)
{
    auto_arena a = arena_new(1 << 20);
    server.refuse = server.offer_tls = false;
    assert_string_equal(
        by_server("FROM=Böts <bot@example.com>", TO, "Käse\r\nBcc: x@y.z", "SMTP__STARTTLS=false"),
        "sent");
    assert_non_null(strstr(server.heard, "MAIL FROM:<bot@example.com>"));
    assert_non_null(strstr(server.heard, "RCPT TO:<" TO ">"));
    assert_non_null(strstr(server.heard, "AHVzZXIAU2VjcmV0LTE=")); /* \0user\0Secret-1 */
    assert_non_null(strstr(server.heard, "\r\nFrom: =?utf-8?B?QsO2dHM=?= <bot@example.com>\r\n"));
    assert_non_null(strstr(server.heard, "\r\nTo: " TO "\r\nSubject: =?utf-8?B?"));
    assert_null(strstr(server.heard, "\nBcc"));
    assert_non_null(strstr(server.heard, "\r\nMIME-Version: 1.0\r\n"));
    struct str text = part(a, "text/plain"), html = part(a, "text/html");
    assert_true(str_find(text, S(LINK)) > 0 && str_find(text, S("Käse  Bcc: x@y.z")) > 0);
    assert_true(str_find(html, S(LINK)) > 0);
}

static void a_refused_guest(void **state)
{
    server.refuse = true;
    server.offer_tls = false;
    assert_string_equal(by_server("FROM=bot@example.com", TO, "W", "SMTP__STARTTLS=false"),
                        "failed");
    server.refuse = false;
    assert_null(strstr(server.heard, "DATA"));
    assert_non_null(strstr(log_text, "provider=smtp"));
}

static void nothing_is_said_in_the_clear_when_tls_is_wanted(void **state)
{
    for (int offered = 0; offered < 2; offered++) {
        server.refuse = false;
        server.offer_tls = offered;
        assert_string_equal(by_server("FROM=bot@example.com", TO, "W", "SMTP__STARTTLS=true"),
                            "failed");
        assert_null(strstr(server.heard, "AUTH"));
        assert_null(strstr(server.heard, "MAIL"));
        assert_int_equal(strstr(server.heard, "STARTTLS") != NULL, offered);
    }
}

static void an_address_cannot_hold_commands(void **state)
{
    static const char *const bad[] = {"guest@example.com>\r\nRCPT TO:<x@y.z", "guest @example.com",
                                      "guest", "@example.com", "guest<@example.com"};
    for (size_t i = 0; i < array_len(bad); i++) {
        assert_string_equal(by_server("FROM=bot@example.com", bad[i], "W", "SMTP__STARTTLS=false"),
                            "failed");
        assert_string_equal(server.heard, "");
    }
}

int main(void)
{
    base_init();
    log_setup(LOG_INFO, false, -1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_incomplete_configuration_mails_nothing),
        cmocka_unit_test(through_a_web_service),
        cmocka_unit_test(silence_is_waited_for_only_so_long),
        cmocka_unit_test(through_a_mail_server),
        cmocka_unit_test(a_refused_guest),
        cmocka_unit_test(nothing_is_said_in_the_clear_when_tls_is_wanted),
        cmocka_unit_test(an_address_cannot_hold_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
