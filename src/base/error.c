/* error: one failure as a value. */
#include "base/base.h"

#include <stdio.h>

static void fill(struct error *err, enum err_code code, int http, const char *tag, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof(err->msg)) {
        n = utf8_border(text, sizeof(err->msg) - 1);
    }
    memmove(err->msg, text, n);
    err->msg[n] = '\0';
    err->code = code;
    err->http = http;
    err->tag = tag;
}

/* Formats into a buffer of its own first: the arguments may point into err->msg. One byte more
 * than msg so that an overlong text is recognised as such by fill. */
#define FORMAT(text, fmt)                             \
    char text[sizeof(err->msg) + 1];                  \
    va_list ap;                                       \
    va_start(ap, fmt);                                \
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0) { \
        text[0] = '\0';                               \
    }                                                 \
    va_end(ap)

bool err_set(struct error *err, enum err_code code, const char *fmt, ...)
{
    if (!strchr(fmt,
                '%')) { /* the common case; printf's frames would touch one more page of a fiber */
        fill(err, code, 0, NULL, fmt);
        return false;
    }
    FORMAT(text, fmt);
    fill(err, code, 0, NULL, text);
    return false;
}

bool err_tag(struct error *err, enum err_code code, int http, const char *tag, const char *fmt, ...)
{
    FORMAT(text, fmt);
    fill(err, code, http, tag, text);
    return false;
}

/* Puts `head`, ": " and `tail` into err->msg, cut at a code point. Neither part may lie in
 * err->msg. */
static void join(struct error *err, const char *head, const char *tail)
{
    char text[sizeof(err->msg) + 1];
    int n = snprintf(text, sizeof(text), "%s: %s", head, tail);
    fill(err, err->code, err->http, err->tag, n < 0 ? head : text);
}

bool err_wrap(struct error *err, const char *fmt, ...)
{
    FORMAT(text, fmt);
    char old[sizeof(err->msg)];
    memcpy(old, err->msg, sizeof(old));
    join(err, text, old);
    return false;
}

bool err_sys(struct error *err, int errno_value, const char *fmt, ...)
{
    FORMAT(text, fmt);
    char reason[128];
    err->code = ERR_IO;
    err->http = 0;
    err->tag = NULL;
    join(err, text, strerror_r(errno_value, reason, sizeof(reason)));
    return false;
}

int err_http(const struct error *err)
{
    if (err->http) {
        return err->http;
    }
    switch (err->code) {
    case ERR_NONE: return 200;
    case ERR_INVALID: return 400;
    case ERR_UNAUTHORIZED: return 401;
    case ERR_DENIED: return 403;
    case ERR_NOT_FOUND: return 404;
    case ERR_CONFLICT: return 409;
    case ERR_TOO_LARGE: return 413;
    case ERR_CAPACITY: return 429;
    case ERR_UPSTREAM:
    case ERR_PROTOCOL: return 502;
    case ERR_UNAVAILABLE:
    case ERR_CANCELED:
    case ERR_NOMEM: return 503;
    case ERR_TIMEOUT: return 504;
    case ERR_CLOSED:
    case ERR_IO:
    case ERR_INTERNAL: break;
    }
    return 500;
}
