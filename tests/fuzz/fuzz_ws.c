/* Frames of a WebSocket peer; the first byte says how they are cut. The messages must be the same
 * however the bytes are cut, text must be valid UTF-8, and everything must be released. */
#include "loop.h"
#include "net/ws_private.h"

#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Hash over the messages that a socket makes of the bytes. */
static uint64_t messages(const uint8_t *data, size_t size, size_t step)
{
    static struct http_server server;
    struct ws_opts o = {.message_max = 300, .queue_max = 10000};
    struct error err;
    struct ws_msg m;
    uint64_t seen = 0;
    int pair[2];
    if (!server.websockets.next)
        list_init(&server.websockets);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    struct ws *w = ws_new(pair[0], &o, &server, NULL, NULL, &err);
    if (!w)
        abort();
    for (size_t off = 0; off < size && !w->over; off += step)
        ws_feed(w, (const char *)data + off, size - off < step ? size - off : step);
    if (w->message.n > o.message_max)
        abort();
    close(pair[1]);
    while (ws_recv(w, &m, &err)) {
        if (m.data.n > o.message_max || (m.type == WS_TEXT && !utf8_valid(m.data)))
            abort();
        seen = seen * 31 + str_hash(m.data) + m.type;
    }
    ws_close(w);
    while (server.handles > 0)
        fuzz_loop_turn();
    return seen;
}

static void both(const uint8_t *data, size_t size)
{
    long blocks = mem_live();
    uint64_t cut = messages(data + 1, size - 1, (size_t)data[0] + 1);
    uint64_t whole = messages(data + 1, size - 1, size);
    if (whole != cut || mem_live() != blocks)
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
