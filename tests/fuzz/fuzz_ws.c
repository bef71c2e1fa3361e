/* Frames of a WebSocket peer; the first byte says which role reads them and how they are cut. The
 * messages must be the same however the bytes are cut, text must be valid UTF-8, and everything
 * must be released. */
#include "net/ws_private.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t seen;

struct input {
    const uint8_t *data;
    size_t size, step;
};

static int run(void *arg)
{
    const struct input *in = arg;
    static struct http_server server;
    struct ws_opts o = {.message_max = 2000, .queue_max = 100000};
    struct error err;
    struct ws_msg m;
    int pair[2];
    list_init(&server.websockets);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    struct ws *w = ws_new(pair[0], &o, &server, NULL, NULL, &err);
    if (!w)
        abort();
    for (size_t off = 0; off < in->size && !w->over; off += in->step)
        ws_feed(w, (const char *)in->data + off,
                in->size - off < in->step ? in->size - off : in->step);
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
        task_yield();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 60000)
        return 0;
    base_init();
    log_setup(LOG_ERROR, false, -1);
    long blocks = mem_live();
    struct input in = {data + 1, size - 1, (size_t)data[0] + 1};
    seen = 0;
    task_run(run, &in);
    uint64_t cut = seen;
    in.step = size;
    seen = 0;
    task_run(run, &in);
    if (seen != cut || mem_live() != blocks)
        abort();
    return 0;
}
