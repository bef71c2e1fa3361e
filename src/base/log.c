/* log: one line per event. Lines are built in one static buffer under a mutex, so that a log
 * call needs neither memory nor much of a fiber's stack, and lines of different threads come out
 * whole and in order. */
#include "base/base_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_MAX = 24 * 1024, LINE_MAX_BYTES = 48 * 1024 };

static atomic_int min_level = LOG_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* All below: under `lock`. */
static bool as_json_lines;
static int out_fd = 2;
static void (*tap_fn)(void *arg, enum log_level level, struct str line);
static void *tap_arg;
static char message[MESSAGE_MAX];
static char line_text[LINE_MAX_BYTES + 1];
static size_t line_n;

static const char *const level_names[] = {
    [LOG_DEBUG] = "DEBUG", [LOG_INFO] = "INFO", [LOG_WARN] = "WARNING", [LOG_ERROR] = "ERROR"};

void log_setup(enum log_level min, bool as_json, int fd)
{
    pthread_mutex_lock(&lock);
    atomic_store(&min_level, (int)min);
    as_json_lines = as_json;
    out_fd = fd;
    pthread_mutex_unlock(&lock);
}

void log_tap(void (*fn)(void *arg, enum log_level level, struct str line), void *arg)
{
    pthread_mutex_lock(&lock);
    tap_fn = fn;
    tap_arg = arg;
    pthread_mutex_unlock(&lock);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&min_level, memory_order_relaxed);
}

static void put(const char *p, size_t n)
{
    size_t room = LINE_MAX_BYTES - line_n;
    if (n > room) {
        n = room;
    }
    memcpy(line_text + line_n, p, n);
    line_n += n;
}

static void put_z(const char *z)
{
    put(z, strlen(z));
}

/* Escapes what would break the line, a terminal or (in JSON) the string: control characters,
 * DEL, invalid UTF-8. */
static void put_escaped(const char *z, bool json)
{
    const unsigned char *p = (const unsigned char *)z;
    size_t n = strlen(z);
    const size_t tail = 64; /* room that stays for the end of the line */
    for (size_t i = 0; i < n;) {
        if (line_n + tail > LINE_MAX_BYTES) {
            put_z("...");
            return;
        }
        char esc[8];
        int step = utf8_step(p + i, n - i);
        if (step <= 0) {
            put_z("\xef\xbf\xbd");
            i++;
            continue;
        }
        if (json && (p[i] == '"' || p[i] == '\\')) {
            put((char[]){'\\', (char)p[i]}, 2);
        } else if (p[i] == '\n' || p[i] == '\r' || p[i] == '\t') {
            put((char[]){'\\', p[i] == '\n' ? 'n' : p[i] == '\r' ? 'r' : 't'}, 2);
        } else if (p[i] < 0x20 || p[i] == 0x7f) {
            snprintf(esc, sizeof(esc), json ? "\\u%04x" : "\\x%02x", p[i]);
            put_z(esc);
        } else if (p[i] == 0xc2 && p[i + 1] < 0xa0) { /* C1 controls: terminals obey them too */
            snprintf(esc, sizeof(esc), json ? "\\u%04x" : "\\x%02x", p[i + 1]);
            put_z(esc);
        } else {
            put((const char *)p + i, (size_t)step);
        }
        i += (size_t)step;
    }
}

static void build_text(enum log_level level, const char *area, const char *file, int line)
{
    int64_t now = time_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm tm = {0};
    localtime_r(&seconds, &tm);
    line_n += (size_t)snprintf(line_text, 200,
                               "[%02d-%02d %02d:%02d:%02d.%03d] %.64s (%d) - [%s] : %.32s: ",
                               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                               (int)(now / 1000 % 1000), file, line, level_names[level], area);
    put_escaped(message, false);
}

static void build_json(enum log_level level, const char *area, const char *file, int line)
{
    char when[TIME_ISO_SIZE];
    time_sql(time_wall_us(), when);
    when[10] = 'T';
    line_n += (size_t)snprintf(line_text, 200,
                               "{\"time\":\"%sZ\",\"level\":\"%s\",\"area\":\"%.32s\","
                               "\"file\":\"%.64s\",\"line\":%d,\"msg\":\"",
                               when, level_names[level], area, file, line);
    put_escaped(message, true);
    put_z("\"}");
}

static void write_line(void)
{
    line_text[line_n] = '\n';
    size_t done = 0;
    while (done < line_n + 1) {
        ssize_t n = write(out_fd, line_text + done, line_n + 1 - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return; /* there is nowhere to report that the log cannot be written */
        }
    }
}

void log_line(enum log_level level, const char *area, const char *file, int line, const char *fmt,
              ...)
{
    if (!log_enabled(level)) {
        return;
    }
    int saved = errno; /* callers log before they look at it */
    const char *slash = strrchr(file, '/');
    va_list ap;
    pthread_mutex_lock(&lock);
    va_start(ap, fmt);
    if (vsnprintf(message, sizeof(message), fmt, ap) < 0) {
        message[0] = '\0';
    }
    va_end(ap);
    if (strlen(message) == sizeof(message) - 1) {
        message[utf8_border(message, sizeof(message) - 1)] = '\0';
    }
    line_n = 0;
    if (as_json_lines) {
        build_json(level, area, slash ? slash + 1 : file, line);
    } else {
        build_text(level, area, slash ? slash + 1 : file, line);
    }
    if (tap_fn) {
        tap_fn(tap_arg, level, str_n(line_text, line_n));
    }
    if (out_fd >= 0) {
        write_line();
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
}
