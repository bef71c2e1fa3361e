/* WebSocket handshake, server side (RFC 6455 §4.2). */
#include "net/ws_private.h"

#include <openssl/evp.h>
#include <unistd.h>

/* True if the comma-separated list of any header line `name` holds the token. */
static bool has_token(const struct http_request *r, const char *name, const char *token)
{
    for (size_t i = 0; i < r->header_count; i++) {
        struct str rest = r->headers[i].value, part;
        if (!str_ieqz(r->headers[i].name, name))
            continue;
        while (str_split(&rest, ',', &part))
            if (str_ieqz(str_trim(part), token))
                return true;
    }
    return false;
}

bool http_is_upgrade(const struct http_request *r)
{
    return r->method == HTTP_M_GET && has_token(r, "upgrade", "websocket") &&
           has_token(r, "connection", "upgrade");
}

bool ws_accept_key(struct str key, char out[29])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[64 + sizeof(guid)];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (key.n > 64)
        return false;
    memcpy(text, key.p, key.n);
    memcpy(text + key.n, guid, sizeof(guid) - 1);
    if (EVP_Digest(text, key.n + sizeof(guid) - 1, digest, &n, EVP_sha1(), NULL) != 1 || n != 20)
        return false;
    return EVP_EncodeBlock((unsigned char *)out, digest, 20) == 28;
}

/* 16 bytes in base64. */
static bool key_ok(struct str key)
{
    if (key.n != 24 || !str_ends(key, S("==")))
        return false;
    for (size_t i = 0; i < 22; i++) {
        unsigned char c = (unsigned char)key.p[i];
        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '+' ||
              c == '/'))
            return false;
    }
    return true;
}

struct ws *ws_accept(struct http_request *r, const struct ws_opts *opts, struct error *err)
{
    struct http_run *run = run_of(r);
    struct http_conn *c = run->conn;
    struct str key = http_header_get(r, "sec-websocket-key");
    char accept[29];
    if (run->answered)
        err_set(err, ERR_INTERNAL, "the request has its answer already");
    else if (!http_is_upgrade(r) || run->http10)
        err_set(err, ERR_INVALID, "a WebSocket handshake is needed");
    else if (!str_eqz(http_header_get(r, "sec-websocket-version"), "13"))
        err_set(err, ERR_INVALID, "Sec-WebSocket-Version must be 13");
    else if (!key_ok(key) || !ws_accept_key(key, accept))
        err_set(err, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    else if (c->state != CONN_RUN || c->eof)
        err_set(err, ERR_CLOSED, "the client is gone");
    else
        goto agreed;
    return NULL;

agreed:
    http_answer_header(r, "Sec-WebSocket-Accept", str_c(accept));
    if (opts && opts->subprotocol && has_token(r, "sec-websocket-protocol", opts->subprotocol))
        http_answer_header(r, "Sec-WebSocket-Protocol", str_c(opts->subprotocol));
    size_t n = answer_head(run, 101, NULL, 0);
    if (n == 0) {
        err_set(err, ERR_INTERNAL, "answer headers too large");
        return NULL;
    }
    run->answered = true;
    run->keep = false;
    r->status = 101;
    auto_buf ahead = BUF(0);
    int fd = conn_give(c, &ahead);
    struct ws *w = ws_new(fd, opts, run->server, NULL, NULL, err);
    if (!w) {
        close(fd);
        return NULL;
    }
    if (ws_send_raw(w, run->server->head_text, n) && ahead.n > 0)
        ws_feed(w, ahead.p, ahead.n);
    return w;
}

void ws_server_stop(struct list *node)
{
    ws_shutdown(container_of(node, struct ws, node), 1001, S("the server stops"));
}
