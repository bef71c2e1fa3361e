/* process_err: what a managed process says on stderr: the end of it is kept, a little is logged
 * (box.md §6.1). */
#include "box/runtime.h"

enum {
    BLOCK = 64 * 1024,
    LOG_CHUNKS = 4, /* in a second */
    LOG_CHARS = 512,
    SECOND_US = 1000000
};

void preview_add(struct preview *v, struct str text)
{
    if (v->text.max == 0)
        v->text = BUF(PREVIEW_MAX * 4 + 4 * BLOCK);
    buf_str(&v->text, text);
    if (v->text.failed) {
        buf_free(&v->text);
        return;
    }
    struct str all = buf_view(&v->text);
    size_t chars = utf8_count(all);
    if (chars <= PREVIEW_MAX)
        return;
    /* The oldest goes, by whole lines where there are some. */
    size_t over = utf8_cut(all, chars - PREVIEW_MAX).n;
    const char *end = memchr(all.p + over, '\n', (all.n - over) / 2);
    buf_eat(&v->text, end ? (size_t)(end - all.p) + 1 : over);
}

static struct str right_strip(struct str s)
{
    while (s.n && strchr(" \t\r\n\v\f", s.p[s.n - 1]) && s.p[s.n - 1])
        s.n--;
    return s;
}

json_t *preview_text(const struct preview *v)
{
    struct str s = right_strip(buf_view(&v->text));
    return json_strn(s.n ? s : S(""));
}

void preview_free(struct preview *v)
{
    buf_free(&v->text);
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
    struct str text = a && n ? utf8_clean(a, str_n(all.p, n)) : STR_NONE;
    if (text.n) {
        preview_add(&p->preview, text);
        log_chunk(p, right_strip(text));
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
