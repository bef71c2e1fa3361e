/* relay: a WebSocket to the standard streams of a managed process (box.md §6.3). One complete line
 * of the process is one text message; one text message is one line for the process. */
#include "box/server.h"

#include <unistd.h>

enum {
    BLOCK = 64 * 1024,
    QUEUE_ROOM = 256 * 1024, /* while more waits for the client the process waits too */
    QUEUE_MAX = 64 << 20,
    PING_MS = 30000,
    FINISH_MS = 1000
};

/* An attachment. Lives on the stack of the request's fiber, which waits for both pumps. */
struct relay {
    struct runtime *rt;
    struct process *p;
    struct ws *ws;
    struct task_group *in_group, *out_group;
    bool in_done, out_done, client_gone;
    struct task_cond news, room;
};

static void touch(struct relay *r)
{
    if (r->p->session)
        box_session_touch(r->rt, r->p->session);
}

static void on_drain(void *arg)
{
    struct relay *r = arg;
    task_cond_notify_all(&r->room);
}

/* ---- client to process ------------------------------------------------------------------------- */

static bool write_line(struct relay *r, struct str text, struct error *err)
{
    return task_write_all(r->p->box.in, text.p, text.n, err) &&
           task_write_all(r->p->box.in, "\n", 1, err);
}

static void pump_in(void *arg)
{
    struct relay *r = arg;
    struct error err;
    struct ws_msg m;
    bool writable = true;
    while (ws_recv(r->ws, &m, &err)) {
        if (m.type != WS_TEXT || !writable)
            continue;
        touch(r);
        writable = write_line(r, m.data, &err);
        if (!writable && err.code == ERR_CANCELED)
            break;
    }
    r->client_gone = err.code != ERR_CANCELED;
    r->in_done = true;
    task_cond_notify_all(&r->news);
}

void relay_stop_input(struct process *p)
{
    struct relay *r = p->relay;
    struct error ignored;
    if (!r)
        return;
    task_group_cancel(r->in_group);
    task_shield(true);
    while (p->relay == r && !r->in_done && task_cond_wait(&r->news, &ignored))
        ;
    task_shield(false);
}

/* ---- process to client ------------------------------------------------------------------------- */

static bool send_line(struct relay *r, struct str line, struct error *err)
{
    auto_arena a = utf8_valid(line) ? NULL : arena_new(3 * line.n + 4096);
    struct str text = a ? utf8_clean(a, line) : line;
    while (ws_is_open(r->ws) && ws_queued(r->ws) > QUEUE_ROOM)
        if (!task_cond_wait(&r->room, err))
            return false;
    if (text.n > 0 && !utf8_valid(text))
        return err_set(err, ERR_NOMEM, "out of memory for a line");
    touch(r);
    return ws_send(r->ws, WS_TEXT, text, err);
}

bool relay_line(const struct buf *b, size_t from, size_t *scanned, struct str *line)
{
    const char *end = b->n > *scanned ? memchr(b->p + *scanned, '\n', b->n - *scanned) : NULL;
    if (!end) {
        *scanned = b->n;
        return false;
    }
    *line = str_n(b->p + from, (size_t)(end - b->p) - from);
    *scanned = (size_t)(end - b->p) + 1;
    return true;
}

/* Sends the whole lines that are there. What cannot be sent stays for the next attachment. */
static bool send_lines(struct relay *r, struct error *err)
{
    struct buf *b = &r->p->line;
    size_t from = 0, scanned = r->p->line_scanned;
    struct str line;
    bool ok = true;
    while (ok && relay_line(b, from, &scanned, &line)) {
        ok = send_line(r, line, err);
        from = ok ? scanned : from;
    }
    buf_eat(b, from);
    r->p->line_scanned = ok ? scanned - from : 0;
    if (ok && b->n > RPC_MESSAGE_MAX) {
        buf_free(b);
        *b = BUF(RPC_MESSAGE_MAX + BOX_TAIL_MAX);
        r->p->line_scanned = 0;
        ws_shutdown(r->ws, 1009, S("a line is too long"));
        return err_set(err, ERR_TOO_LARGE, "a line is longer than %d bytes", RPC_MESSAGE_MAX);
    }
    return ok;
}

/* At the end of output a last line may lack its end. */
static void send_rest(struct relay *r)
{
    struct error ignored;
    struct buf *b = &r->p->line;
    if (b->n && send_line(r, buf_view(b), &ignored))
        buf_clear(b);
    r->p->line_scanned = 0;
}

static void pump_out(void *arg)
{
    struct relay *r = arg;
    struct buf *b = &r->p->line;
    struct error err;
    ssize_t n = 1;
    bool ok = send_lines(r, &err);
    while (ok && n > 0) {
        if (b->n == 0 && b->cap > 0) { /* idle ones have no buffer */
            buf_free(b);
            *b = BUF(RPC_MESSAGE_MAX + BOX_TAIL_MAX);
        }
        ok = task_fd_wait(r->p->box.out, TASK_READ, &err) && buf_reserve(b, BLOCK);
        n = ok ? task_read(r->p->box.out, b->p + b->n, BLOCK, &err) : -1;
        if (n > 0) {
            b->n += (size_t)n;
            ok = send_lines(r, &err);
        }
    }
    if (ok && n == 0)
        send_rest(r);
    r->out_done = true;
    task_cond_notify_all(&r->news);
}

void relay_finish(struct process *p)
{
    struct relay *r = p->relay;
    struct error ignored;
    struct task_deadline d;
    if (!r)
        return;
    task_deadline_push(&d, FINISH_MS);
    while (p->relay == r && !r->out_done && task_cond_wait(&r->news, &ignored))
        ;
    task_deadline_pop(&d);
    if (p->relay != r)
        return;
    task_group_cancel(r->out_group);
    task_shield(true);
    while (p->relay == r && !r->out_done && task_cond_wait(&r->news, &ignored))
        ;
    task_shield(false);
}

/* ---- an attachment ----------------------------------------------------------------------------- */

static bool run(struct relay *r, struct error *err)
{
    r->in_group = task_group_new(NULL, "box relay in");
    r->out_group = task_group_new(NULL, "box relay out");
    if (!r->in_group || !r->out_group)
        return err_set(err, ERR_NOMEM, "out of memory for a relay");
    ws_on_drain(r->ws, on_drain, r);
    r->p->relay = r;
    if (!task_spawn(r->in_group, "box relay in", pump_in, r, err))
        return false;
    if (!task_spawn(r->out_group, "box relay out", pump_out, r, err)) {
        r->out_done = true;
        return false;
    }
    while (!r->out_done && !r->client_gone)
        if (!task_cond_wait(&r->news, err))
            return false;
    return true;
}

static void detach(struct relay *r)
{
    task_group_free(r->in_group);
    task_group_free(r->out_group);
    ws_on_drain(r->ws, NULL, NULL);
    r->in_done = r->out_done = true;
    if (r->p->relay == r)
        r->p->relay = NULL;
    /* Whoever waits for us sees that p->relay is another one and looks no more at this stack. */
    task_cond_notify_all(&r->news);
}

/* Waits for its turn, and serves. Holds a reference to the process. */
static void attach(struct runtime *rt, struct process *p, struct ws *ws)
{
    struct error err;
    struct relay r = {.rt = rt, .p = p, .ws = ws};
    /* A wait inside: one attachment at a time, the next when the first has ended. */
    if (!task_lock(&p->attach, &err))
        return;
    if (p->box.out < 0 || p->stopping) {
        ws_shutdown(ws, 1011, S("managed process stdio unavailable"));
    } else {
        if (!run(&r, &err) && err.code != ERR_CANCELED)
            log_warn("box", "a relay ended: %s", err.msg);
        detach(&r);
    }
    task_unlock(&p->attach);
}

static void refuse(struct http_request *r, const struct error *err)
{
    auto_buf text = BUF(8 << 10);
    auto_json body = json_pack("{s:{s:s,s:s}}", "error", "code", err->tag ? err->tag : "BoxError",
                               "message", err->msg);
    if (json_put(&text, body))
        http_answer(r, 400, "application/json", buf_view(&text));
    else
        http_answer(r, 500, "text/plain", S("out of memory"));
}

static struct process *find(struct runtime *rt, struct http_request *r, struct error *err)
{
    const char *id = r->param_count > 1 ? str_z(r->arena, http_param(r, 1)) : "default";
    struct session *s = box_session_find(rt, str_z(r->arena, http_param(r, 0)));
    if (!s) {
        box_session_missing(err, S("of this path"));
        return NULL;
    }
    struct process *p = box_process_find(rt, s, id);
    if (!p) {
        box_process_missing(err, id, s->logical);
        return NULL;
    }
    if (!p->running) {
        err_tag(err, ERR_CONFLICT, 0, "BoxManagedProcessConflictError",
                "managed process %.100s is not running", id);
        return NULL;
    }
    return p;
}

static bool admitted(struct runtime *rt, const struct place *place, int64_t generation,
                     struct error *err)
{
    if (!rt->conf->policy.required)
        return true;
    if (!engine_require_ready(rt, err))
        return false;
    const struct record *grant = admission_check(rt, place, generation, err);
    return grant &&
           (grant->max_managed_processes > 0 ||
            err_tag(err, ERR_DENIED, 0, "BoxAdmissionError", "managed processes are not admitted"));
}

void relay_serve(struct runtime *rt, struct http_request *r)
{
    struct error err;
    int64_t generation;
    struct place *place = handshake_relay(rt, r, &generation);
    if (!place) {
        handshake_refuse(rt, r);
        return;
    }
    if (!admitted(rt, place, generation, &err)) {
        refuse(r, &err);
        return;
    }
    if (!physical_is_of(http_param(r, 0), place->ns, generation)) {
        handshake_refuse(rt, r);
        return;
    }
    struct process *p = find(rt, r, &err);
    if (!p) {
        refuse(r, &err);
        return;
    }
    struct ws_opts o = {.message_max = RPC_MESSAGE_MAX,
                        .queue_max = QUEUE_MAX,
                        .fragments_max = RPC_FRAGMENTS_MAX,
                        .ping_ms = PING_MS,
                        .subprotocol = "mcp"};
    struct ws *ws = ws_accept(r, &o, &err);
    if (!ws) {
        http_answer(r, 426, "text/plain", S("Upgrade required"));
        return;
    }
    struct live live;
    box_server_enter(r, &live, ws);
    p->refs++;
    attach(rt, p, ws);
    box_process_unref(p);
    box_server_leave(&live);
    ws_close(ws);
}
