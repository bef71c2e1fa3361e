/* Bodies of requests: the decoder of the chunked coding. */
#include "net/conn.h"

enum {
    CK_SIZE,
    CK_EXT,
    CK_SIZE_LF,
    CK_DATA,
    CK_DATA_CR,
    CK_DATA_LF,
    CK_LINE,
    CK_TRAILER,
    CK_TRAILER_LF,
    CK_LAST_LF
};

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool text_byte(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

/* One byte outside of chunk data. False: malformed. */
static bool step(struct chunked *ck, unsigned char c, bool *end)
{
    int v;
    switch (ck->state) {
    case CK_SIZE:
        v = hex_value(c);
        if (v >= 0) {
            ck->left = ck->left * 16 + (unsigned)v;
            /* 12 digits are 256 TiB: more than any body, far from an overflow. */
            return ++ck->digits <= 12;
        }
        if (ck->digits == 0)
            return false;
        ck->state = c == '\r' ? CK_SIZE_LF : CK_EXT;
        return c == '\r' || c == ';' || c == ' ' || c == '\t';
    case CK_EXT:
        if (c == '\r')
            ck->state = CK_SIZE_LF;
        return c == '\r' || (text_byte(c) && ++ck->side <= CONN_SIDE_MAX);
    case CK_SIZE_LF: ck->state = ck->left > 0 ? CK_DATA : CK_LINE; return c == '\n';
    case CK_DATA_CR: ck->state = CK_DATA_LF; return c == '\r';
    case CK_DATA_LF:
        ck->state = CK_SIZE;
        ck->digits = 0;
        return c == '\n';
    case CK_LINE:
        ck->state = c == '\r' ? CK_LAST_LF : CK_TRAILER;
        return c == '\r' || (text_byte(c) && ++ck->side <= CONN_SIDE_MAX);
    case CK_TRAILER:
        if (c == '\r')
            ck->state = CK_TRAILER_LF;
        return c == '\r' || (text_byte(c) && ++ck->side <= CONN_SIDE_MAX);
    case CK_TRAILER_LF: ck->state = CK_LINE; return c == '\n';
    default: /* CK_LAST_LF */ *end = true; return c == '\n';
    }
}

enum chunked_result chunked_feed(struct chunked *ck, const char *p, size_t n, size_t *used,
                                 struct buf *body)
{
    size_t i = 0;
    bool end = false;
    while (i < n && !end) {
        if (ck->state == CK_DATA) {
            size_t take = ck->left < n - i ? (size_t)ck->left : n - i;
            if (take > body->max - body->n || !buf_add(body, p + i, take))
                return CHUNKED_FULL;
            i += take;
            ck->left -= take;
            if (ck->left == 0)
                ck->state = CK_DATA_CR;
        } else if (!step(ck, (unsigned char)p[i++], &end)) {
            return CHUNKED_BAD;
        } else if (ck->state == CK_DATA && ck->left > body->max - body->n) {
            return CHUNKED_FULL;
        }
    }
    *used = i;
    return end ? CHUNKED_END : CHUNKED_MORE;
}
