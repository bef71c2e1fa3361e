/* Frames of a WebSocket peer; the first byte says how they are cut. The messages must be the same
 * however the bytes are cut, text must be valid UTF-8, and everything must be released. */
#include "loop.h"
#include "net/ws_private.h"

#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 300 };

static struct http_server server;

/* A socket that has been given all bytes, `step` at a time, and whose peer is gone. */
static struct ws *fed(const uint8_t *data, size_t size, size_t step)
{
    struct ws_opts o = {.message_max = MESSAGE_MAX, .queue_max = 10000};
    struct error err;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    struct ws *w = ws_new(pair[0], &o, &server, NULL, NULL, &err);
    if (!w)
        abort();
    for (size_t off = 0; off < size && !w->over; off += step)
        ws_feed(w, (const char *)data + off, size - off < step ? size - off : step);
    if (w->message.n > MESSAGE_MAX)
        abort();
    close(pair[1]);
    return w;
}

/* Hash over the messages that it made of them; the socket is closed, and released in the next turn of the loop. */
static uint64_t messages(struct ws *w)
{
    struct error err;
    struct ws_msg m;
    uint64_t seen = 0;
    while (ws_recv(w, &m, &err)) {
        if (m.data.n > MESSAGE_MAX || (m.type == WS_TEXT && !utf8_valid(m.data)))
            abort();
        seen = seen * 31 + str_hash(m.data) + m.type;
    }
    ws_close(w);
    return seen;
}

static void both(const uint8_t *data, size_t size)
{
    if (!server.websockets.next)
        list_init(&server.websockets);
    long blocks = mem_live();
    struct ws *cut = fed(data + 1, size - 1, (size_t)data[0] + 1);
    struct ws *whole = fed(data + 1, size - 1, size);
    /* A socket that was not closed by rule waits for the loop to see that its peer is gone: both in the same turn. */
    bool same = messages(cut) == messages(whole);
    while (server.handles > 0)
        fuzz_loop_turn();
    if (!same || mem_live() != blocks)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    if (size >= 2 && size <= 60000)
        fuzz_loop_run(both, data, size);
    return 0;
}
