/* process_err: what a managed process says on stderr: the end of it is kept, a little is logged
 * (box.md §6.1). */
#include "box/runtime.h"

enum {
    BLOCK = 64 * 1024,
    LOG_CHUNKS = 4, /* in a second */
    LOG_CHARS = 512,
    SECOND_US = 1000000
};

struct chunk {
    struct list node;
    size_t n, chars;
    char text[];
};

static void drop_oldest(struct preview *v)
{
    struct chunk *c = container_of(list_pop(&v->chunks), struct chunk, node);
    v->chars -= c->chars + 1;
    mem_free(c);
}

void preview_add(struct preview *v, struct str text)
{
    size_t chars = utf8_count(text);
    if (chars == 0)
        return;
    while (chars > PREVIEW_MAX - 1) { /* of one long chunk the end */
        size_t over = utf8_cut(text, chars - (PREVIEW_MAX - 1)).n;
        text = str_sub(text, over, text.n - over);
        chars = utf8_count(text);
    }
    struct chunk *c = mem_alloc(sizeof(*c) + text.n);
    if (!c)
        return;
    memcpy(c->text, text.p, text.n);
    c->n = text.n;
    c->chars = chars;
    list_push(&v->chunks, &c->node);
    v->chars += chars + 1;
    while (v->chars > PREVIEW_MAX)
        drop_oldest(v);
}

json_t *preview_text(const struct preview *v)
{
    auto_buf out = BUF(PREVIEW_MAX * 4 + 16);
    for (struct list *node = v->chunks.next; node && node != &v->chunks; node = node->next) {
        const struct chunk *c = container_of(node, struct chunk, node);
        if (out.n)
            buf_c(&out, '\n');
        buf_add(&out, c->text, c->n);
    }
    return json_strn(out.n ? buf_view(&out) : S(""));
}

void preview_free(struct preview *v)
{
    while (!list_empty(&v->chunks))
        drop_oldest(v);
}

static struct str right_strip(struct str s)
{
    while (s.n && strchr(" \t\r\n\v\f", s.p[s.n - 1]) && s.p[s.n - 1])
        s.n--;
    return s;
}

static void log_chunk(struct process *p, struct str text)
{
    int64_t now = time_mono_us();
    if (now - p->log_window_us >= SECOND_US) {
        if (p->suppressed)
            log_info("box", "process %s: %u more pieces of stderr", p->id, p->suppressed);
        p->log_window_us = now;
        p->logged = p->suppressed = 0;
    }
    if (p->logged == LOG_CHUNKS) {
        p->suppressed++;
        return;
    }
    p->logged++;
    struct str head = utf8_cut(text, LOG_CHARS);
    log_info("box", "process %s: " STR_FMT, p->id, STR_ARG(head));
}

/* Takes a block; bytes of a character that is not whole yet wait for the next. */
static void take(struct process *p, bool last)
{
    auto_arena a = arena_new(4 * BLOCK);
    struct str all = buf_view(&p->stderr_rest);
    size_t n = last ? all.n : utf8_border(all.p, all.n);
    struct str text = a ? right_strip(utf8_clean(a, str_n(all.p, n))) : STR_NONE;
    if (text.n) {
        preview_add(&p->preview, text);
        log_chunk(p, text);
    }
    buf_eat(&p->stderr_rest, n);
}

void box_process_read_stderr(void *arg)
{
    struct process *p = arg;
    struct error err;
    ssize_t n = 1;
    p->stderr_rest = BUF(BLOCK + 16);
    while (n > 0) {
        /* Idle ones have no buffer. */
        if (!task_fd_wait(p->box.err, TASK_READ, &err) ||
            !buf_reserve(&p->stderr_rest, BLOCK - p->stderr_rest.n))
            break;
        n = task_read(p->box.err, p->stderr_rest.p + p->stderr_rest.n, BLOCK - p->stderr_rest.n,
                      &err);
        p->stderr_rest.n += n > 0 ? (size_t)n : 0;
        take(p, n <= 0);
        if (p->stderr_rest.n == 0) {
            buf_free(&p->stderr_rest);
            p->stderr_rest = BUF(BLOCK + 16);
        }
    }
    buf_free(&p->stderr_rest);
}
