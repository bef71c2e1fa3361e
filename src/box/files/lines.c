/* Text of files: lines with any kind of end, bytes that are no UTF-8. */
#include "box/files/files.h"

#include <errno.h>
#include <unistd.h>

enum { CHUNK = 65536 };

/* Length of the well-formed sequence at p; 0 - k: k bytes begin none (the longest false start, as everybody replaces). */
static int sequence(const unsigned char *p, size_t n)
{
    unsigned char c = p[0];
    if (c < 0x80)
        return 1;
    if (c < 0xC2 || c > 0xF4)
        return -1;
    int len = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    unsigned char lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < len; i++, lo = 0x80, hi = 0xBF)
        if ((size_t)i >= n || p[i] < lo || p[i] > hi)
            return -i;
    return len;
}

bool files_utf8(struct buf *out, struct str bytes, bool replace)
{
    size_t from = 0, i = 0;
    if (bytes.n == 0)
        return !out->failed;
    while (i < bytes.n) {
        int step = sequence((const unsigned char *)bytes.p + i, bytes.n - i);
        if (step > 0) {
            i += (size_t)step;
            continue;
        }
        buf_add(out, bytes.p + from, i - from);
        if (replace)
            buf_str(out, S("\xEF\xBF\xBD"));
        i += (size_t)-step;
        from = i;
    }
    return buf_add(out, bytes.p + from, i - from);
}

bool files_lines_open(struct files_lines *l, int fd, struct error *err)
{
    *l = (struct files_lines){.fd = fd, .chunk = mem_alloc(CHUNK)};
    return l->chunk || err_set(err, ERR_NOMEM, "out of memory");
}

void files_lines_close(struct files_lines *l)
{
    mem_free(l->chunk);
    l->chunk = NULL;
}

/* More bytes; false at the end or on failure. */
static bool fill(struct files_lines *l, bool *bad)
{
    while (!l->eof) {
        ssize_t n = read(l->fd, l->chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        *bad = n < 0;
        l->eof = n <= 0;
        if (l->eof)
            return false;
        l->at = 0;
        l->n = (size_t)n;
        l->read += n;
        if (l->skip_lf && l->chunk[0] == '\n')
            l->at = 1;
        l->skip_lf = false;
        if (l->at < l->n)
            return true;
    }
    return false;
}

bool files_more(struct files_lines *l)
{
    bool bad = false;
    return l->at < l->n || fill(l, &bad);
}

static size_t line_end(const char *p, size_t n)
{
    const char *lf = memchr(p, '\n', n);
    size_t most = lf ? (size_t)(lf - p) : n;
    const char *cr = memchr(p, '\r', most);
    return cr ? (size_t)(cr - p) : most;
}

enum files_line files_next_line(struct files_lines *l, struct buf *line, bool *ended)
{
    bool some = false, bad = false;
    *ended = false;
    if (line)
        buf_clear(line);
    for (;;) {
        if (l->at == l->n && !fill(l, &bad))
            return bad ? LINE_FAILED : some ? LINE_TEXT : LINE_END;
        some = true;
        char *p = l->chunk + l->at;
        size_t left = l->n - l->at, n = line_end(p, left);
        if (line && !buf_add(line, p, n)) {
            return LINE_LONG;
        }
        l->at += n;
        if (n == left)
            continue;
        l->at++;
        if (p[n] == '\r') { /* the other half of the end may be in the next chunk */
            if (l->at < l->n && l->chunk[l->at] == '\n')
                l->at++;
            else if (l->at == l->n)
                l->skip_lf = true;
        }
        *ended = true;
        return LINE_TEXT;
    }
}
