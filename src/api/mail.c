/* Invitations by mail: through a web service (Resend's form) or a mail server. tenancy.md §6.
 *
 * Nothing that is logged here names a person, a link or a secret: only the kind of the failure. */
#include "api/mail.h"

#include "crypto/crypto.h"
#include "task/task.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CONF "workspace.invitations.email."

static const char *conf(const struct config *c, struct arena *a, const char *path)
{
    return str_z(a, str_trim(str_c(config_str(c, path))));
}

static bool given(const struct config *c, const char *path)
{
    return str_trim(str_c(config_str(c, path))).n > 0;
}

const char *mail_provider(const struct config *c)
{
    struct str p = str_trim(str_c(config_str(c, CONF "provider")));
    if (!given(c, CONF "from"))
        return NULL;
    if (str_ieqz(p, "resend"))
        return given(c, CONF "resend.api_url") && given(c, CONF "resend.api_key") ? "resend" : NULL;
    if (str_ieqz(p, "smtp"))
        return given(c, CONF "smtp.host") ? "smtp" : NULL;
    return NULL;
}

struct letter {
    const char *from, *to;
    struct str subject, text, html;
};

/* ---- what is written ------------------------------------------------------------------------------------------------------------- */

static struct str escape_html(struct arena *a, struct str s)
{
    auto_buf b = BUF(64 << 10);
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '&': buf_z(&b, "&amp;"); break;
        case '<': buf_z(&b, "&lt;"); break;
        case '>': buf_z(&b, "&gt;"); break;
        case '"': buf_z(&b, "&quot;"); break;
        case '\'': buf_z(&b, "&#39;"); break;
        default: buf_c(&b, s.p[i]);
        }
    }
    return b.failed ? STR_NONE : str_dup(a, buf_view(&b));
}

/* One line: a name that holds a line break must not begin a header of its own. */
static struct str one_line(struct arena *a, const char *z)
{
    struct str s = utf8_clean(a, str_dup(a, utf8_cut(str_c(z), 200)));
    char *p = arena_alloc(a, s.n + 1);
    if (!p)
        return STR_NONE;
    for (size_t i = 0; i < s.n; i++)
        p[i] = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? ' ' : s.p[i];
    return str_trim(str_n(p, s.n));
}

static bool write_letter(struct arena *a, const char *workspace, struct str link, struct letter *l)
{
    struct str name = one_line(a, workspace);
    struct str name_html = escape_html(a, name), link_html = escape_html(a, link);
    l->subject = str_fmt(a, "You were invited to " STR_FMT, STR_ARG(name));
    l->text = str_fmt(
        a,
        "You were invited to join the workspace " STR_FMT ".\n\nOpen this link to accept:\n" STR_FMT
        "\n\nThe link works once and for 7 days. If you did not expect this mail, there is nothing to do.\n",
        STR_ARG(name), STR_ARG(link));
    l->html = str_fmt(
        a,
        "<!doctype html><html><body><p>You were invited to join the workspace <b>" STR_FMT
        "</b>.</p><p><a href=\"" STR_FMT
        "\">Accept the invitation</a></p><p>Or copy this address into a browser:<br>" STR_FMT
        "</p><p>The link works once and for 7 days. If you did not expect this mail, there is nothing to do.</p></body></html>\n",
        STR_ARG(name_html), STR_ARG(link_html), STR_ARG(link_html));
    return l->subject.p && l->text.p && l->html.p && name_html.p && link_html.p;
}

/* ---- web service ------------------------------------------------------------------------------------------------------------------- */

static bool by_web(const struct config *c, struct arena *a, const struct letter *l, int timeout_ms)
{
    struct error err = {0};
    json_t *body = arena_json(a, json_pack("{s:s,s:[s],s:o,s:o,s:o}", "from", l->from, "to", l->to,
                                           "subject", json_strn(l->subject), "text",
                                           json_strn(l->text), "html", json_strn(l->html)));
    struct http_header headers[] = {
        {S("Authorization"), str_fmt(a, "Bearer %s", conf(c, a, CONF "resend.api_key"))},
        {S("Content-Type"), S("application/json")},
    };
    struct http_call call = {
        .method = "POST",
        .url = conf(c, a, CONF "resend.api_url"),
        .headers = headers,
        .header_count = array_len(headers),
        .body = body ? json_text(a, body) : STR_NONE,
        .connect_ms = timeout_ms,
        .total_ms = timeout_ms,
        .body_max = 64 << 10,
    };
    struct http_result result = {0};
    if (!call.body.p)
        return false;
    if (!http_fetch(a, &call, &result, &err)) {
        log_warn("mail", "an invitation could not be mailed provider=resend reason=%s",
                 err.code == ERR_TIMEOUT ? "timeout" : "no answer");
        return false;
    }
    if (result.status < 200 || result.status > 299) {
        log_warn("mail", "an invitation could not be mailed provider=resend status=%d",
                 result.status);
        return false;
    }
    return true;
}

/* ---- mail server ----------------------------------------------------------------------------------------------------------------- */

static bool is_ascii(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    }
    return true;
}

/* RFC 2047: words of at most 75 characters, each of whole code points. */
static void put_words(struct buf *b, struct arena *a, struct str s)
{
    enum { WORD = 42 };
    if (is_ascii(s)) {
        buf_str(b, s);
        return;
    }
    for (bool first = true; s.n > 0; first = false) {
        size_t n = s.n > WORD ? utf8_border(s.p, WORD) : s.n;
        if (n == 0)
            n = 1;
        struct str coded = base64_encode(a, str_sub(s, 0, n));
        buf_fmt(b, "%s=?utf-8?B?" STR_FMT "?=", first ? "" : "\r\n ", STR_ARG(coded));
        s = str_sub(s, n, s.n);
    }
}

static void put_part(struct buf *b, struct arena *a, const char *boundary, const char *type,
                     struct str text)
{
    enum { LINE = 76 };
    struct str coded = base64_encode(a, text);
    buf_fmt(b,
            "--%s\r\nContent-Type: %s; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n",
            boundary, type);
    for (size_t i = 0; i < coded.n; i += LINE) {
        buf_str(b, str_sub(coded, i, LINE));
        buf_z(b, "\r\n");
    }
}

/* The address in "Name <address>", or the whole. */
static struct str address_of(const char *from)
{
    struct str s = str_c(from);
    ptrdiff_t open = str_chr(s, '<');
    if (open < 0 || !str_ends(s, S(">")))
        return s;
    return str_trim(str_sub(s, (size_t)open + 1, s.n - (size_t)open - 2));
}

/* What may stand in an envelope without ending it. */
static bool address_ok(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] <= 0x20 || s.p[i] == 0x7f || s.p[i] == '<' || s.p[i] == '>')
            return false;
    }
    return s.n > 2 && s.n <= 320 && str_chr(s, '@') > 0;
}

static bool put_mail(struct buf *b, struct arena *a, const struct letter *l)
{
    char when[64], boundary[UUID_SIZE], id[UUID_SIZE];
    time_t now = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    struct str from = str_c(l->from), address = address_of(l->from);
    ptrdiff_t at = str_chr(address, '@'), name = str_chr(from, '<');
    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%a, %d %b %Y %H:%M:%S +0000", &tm);
    uuid4(boundary);
    uuid4(id);
    buf_fmt(b, "Date: %s\r\nMessage-ID: <%s@" STR_FMT ">\r\nFrom: ", when, id,
            STR_ARG(str_sub(address, (size_t)at + 1, address.n)));
    if (name > 0) {
        put_words(b, a, str_trim(str_sub(from, 0, (size_t)name)));
        buf_fmt(b, " <" STR_FMT ">", STR_ARG(address));
    } else {
        buf_str(b, address);
    }
    buf_fmt(b, "\r\nTo: %s\r\nSubject: ", l->to);
    put_words(b, a, l->subject);
    buf_fmt(
        b,
        "\r\nMIME-Version: 1.0\r\nAuto-Submitted: auto-generated\r\nContent-Type: multipart/alternative; boundary=\"%s\"\r\n\r\n",
        boundary);
    put_part(b, a, boundary, "text/plain", l->text);
    put_part(b, a, boundary, "text/html", l->html);
    buf_fmt(b, "--%s--\r\n", boundary);
    return !b->failed && !arena_failed(a);
}

struct smtp {
    const char *url, *user, *password, *from, *to, *ca_file;
    bool starttls;
    long timeout_ms;
    struct str mail;
    size_t at;
    CURLcode code;
};

static size_t read_mail(char *p, size_t size, size_t count, void *arg)
{
    struct smtp *s = arg;
    struct str part = str_sub(s->mail, s->at, size * count);
    if (part.n)
        memcpy(p, part.p, part.n);
    s->at += part.n;
    return part.n;
}

static void smtp_options(CURL *h, struct smtp *s, struct curl_slist *to)
{
    curl_easy_setopt(h, CURLOPT_URL, s->url);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROXY, ""); /* the proxies of the settings are for the web */
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, s->timeout_ms);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, s->timeout_ms);
    /* Asked for, it is insisted on: a middleman must not talk it away. */
    curl_easy_setopt(h, CURLOPT_USE_SSL,
                     s->starttls ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_NONE);
    if (s->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, s->ca_file);
    if (s->user[0]) {
        curl_easy_setopt(h, CURLOPT_USERNAME, s->user);
        curl_easy_setopt(h, CURLOPT_PASSWORD, s->password);
    }
    curl_easy_setopt(h, CURLOPT_MAIL_FROM, s->from);
    curl_easy_setopt(h, CURLOPT_MAIL_RCPT, to);
    curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(h, CURLOPT_READFUNCTION, read_mail);
    curl_easy_setopt(h, CURLOPT_READDATA, s);
}

/* On a worker: the fiber waits for it, `arg` lives until then. */
static void smtp_work(void *arg)
{
    struct smtp *s = arg;
    CURL *h = curl_easy_init();
    struct curl_slist *to = curl_slist_append(NULL, s->to);
    s->code = CURLE_OUT_OF_MEMORY;
    if (h && to) {
        smtp_options(h, s, to);
        s->code = curl_easy_perform(h);
    }
    curl_slist_free_all(to);
    curl_easy_cleanup(h);
}

static bool by_smtp(const struct config *c, struct arena *a, const struct letter *l, int timeout_ms)
{
    struct error err = {0};
    auto_buf mail = BUF(256 << 10);
    bool ssl = config_bool(c, CONF "smtp.ssl");
    const char *host = conf(c, a, CONF "smtp.host"), *ca = getenv("SSL_CERT_FILE");
    struct str from = address_of(l->from);
    if (!address_ok(from) || !address_ok(str_c(l->to)) || !put_mail(&mail, a, l)) {
        log_warn("mail", "an invitation could not be mailed provider=smtp reason=address or size");
        return false;
    }
    struct smtp s = {
        .url = z_fmt(a, strchr(host, ':') && host[0] != '[' ? "%s://[%s]:%lld" : "%s://%s:%lld",
                     ssl ? "smtps" : "smtp", host,
                     (long long)config_int_in(c, CONF "smtp.port", 1, 65535)),
        .user = conf(c, a, CONF "smtp.username"),
        .password = config_str(c, CONF "smtp.password"),
        .from = z_fmt(a, "<" STR_FMT ">", STR_ARG(from)),
        .to = z_fmt(a, "<%s>", l->to),
        .ca_file = ca && *ca ? ca : NULL,
        .starttls = !ssl && config_bool(c, CONF "smtp.starttls"),
        .timeout_ms = timeout_ms,
        .mail = buf_view(&mail),
    };
    if (arena_failed(a) || !task_work(smtp_work, &s, &err)) {
        log_warn("mail", "an invitation could not be mailed provider=smtp reason=not tried");
        return false;
    }
    if (s.code != CURLE_OK)
        log_warn("mail", "an invitation could not be mailed provider=smtp reason=%s",
                 curl_easy_strerror(s.code));
    return s.code == CURLE_OK;
}

const char *mail_invitation(const struct config *c, struct arena *a, const char *to,
                            const char *workspace, struct str link)
{
    const char *provider = mail_provider(c);
    struct letter l = {.from = conf(c, a, CONF "from"), .to = to};
    int timeout_ms = (int)config_int_in(c, CONF "timeout_seconds", 1, 300) * 1000;
    if (!provider)
        return "link_only";
    if (!to[0] || !write_letter(a, workspace, link, &l))
        return "failed";
    bool sent = strcmp(provider, "resend") == 0 ? by_web(c, a, &l, timeout_ms)
                                                : by_smtp(c, a, &l, timeout_ms);
    return sent ? "sent" : "failed";
}
