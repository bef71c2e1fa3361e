/* base: memory, strings, buffers, errors, JSON helpers, log, time. No I/O but the log's own stream.
 * The one public header of src/base; every other folder may include it. */
#ifndef PARLEY_BASE_H
#define PARLEY_BASE_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef PARLEY_VERSION /* the build says it */
#define PARLEY_VERSION "0.1.0"
#endif

#define warn_unused                     __attribute__((warn_unused_result))
#define printf_like(fmt, args)          __attribute__((format(printf, fmt, args)))
#define array_len(a)                    (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* ---- errors -------------------------------------------------------------------------------------
 * Fallible functions return bool or a pointer, take `struct error *err` last (never NULL) and fill
 * it on failure. */

enum err_code {
    ERR_NONE = 0,
    ERR_INVALID,      /* 400: the caller's input; the sentence names field and limit */
    ERR_UNAUTHORIZED, /* 401 */
    ERR_DENIED,       /* 403 */
    ERR_NOT_FOUND,    /* 404: missing or another tenant's, never told apart */
    ERR_CONFLICT,     /* 409 */
    ERR_TOO_LARGE,    /* 413: a declared limit of size reached */
    ERR_CAPACITY,     /* 429: a declared limit of number reached */
    ERR_UPSTREAM,     /* 502: a remote peer answered wrongly or with an error */
    ERR_UNAVAILABLE,  /* 503 */
    ERR_TIMEOUT,      /* 504: a deadline passed */
    ERR_CANCELED,     /* the task group was cancelled; pass it up, log nothing */
    ERR_CLOSED,       /* end of stream, channel or connection closed */
    ERR_NOMEM,
    ERR_IO,
    ERR_PROTOCOL, /* bytes from a peer that break the protocol */
    ERR_INTERNAL, /* 500: our own fault */
};

/* One failure. `tag` is a stable string code of the API ("workspace_quota_exceeded") or NULL;
 * `http` overrides the status that follows from `code` when not 0. `tag` must be a string
 * literal. */
struct error {
    enum err_code code;
    int http;
    const char *tag;
    char msg[1000];
};

/* Fills `err`; returns false so that `return err_set(...)` reads well. Messages over 999 bytes
 * are cut at a UTF-8 border. */
bool err_set(struct error *err, enum err_code code, const char *fmt, ...) printf_like(3, 4);
/* As err_set with an explicit HTTP status and stable code. */
bool err_tag(struct error *err, enum err_code code, int http, const char *tag, const char *fmt, ...)
    printf_like(5, 6);
/* Puts "context: " in front of the message; code, status and tag stay. Returns false. */
bool err_wrap(struct error *err, const char *fmt, ...) printf_like(2, 3);
/* ERR_IO with strerror(errno_value) behind the text. Returns false. */
bool err_sys(struct error *err, int errno_value, const char *fmt, ...) printf_like(3, 4);
/* HTTP status for an error: `http` if set, else by code. */
int err_http(const struct error *err);

/* ---- memory -------------------------------------------------------------------------------------
 * The only allocator of the program. NULL on failure; sizes are bytes. Tests can make the Nth call
 * fail. */
void *mem_alloc(size_t size);            /* zeroed */
void *mem_realloc(void *p, size_t size); /* new bytes are not zeroed */
void mem_free(void *p);
char *mem_strndup(const char *p, size_t n); /* NUL-terminated copy */
/* For libraries that can be given an allocator and answer for their own failures: not counted, never told to fail, not zeroed.
 * A block may be freed on another thread. `mem_lib_size`: bytes that the block can hold. */
void *mem_lib_alloc(size_t size);
void *mem_lib_realloc(void *p, size_t size);
void mem_lib_free(void *p);
size_t mem_lib_size(void *p);
/* Fails the nth allocation from now (1 = next) and, if `repeat`, all after it; 0 turns it off.
 * Thread-local. For tests. */
void mem_fail_after(long nth, bool repeat);
unsigned long mem_failures(void); /* grows with each allocation of this thread that fails */
/* Live blocks of this process since start (atomic); a test asserts that it returns to its old
 * value. */
long mem_live(void);
/* Routes jansson through mem_*; called once first thing in main and in each test. */
void base_init(void);

/* Unformatted: the formatter takes the name for the C++ operator and tears the definition apart. */
/* clang-format off */
#define new(type) ((type *)mem_alloc(sizeof(type)))
/* clang-format on */

/* Hands over: returns *p and leaves NULL behind, so that an auto_ variable releases nothing. */
#define steal(p)                     \
    __extension__({                  \
        __typeof__(p) steal_p = (p); \
        (p) = NULL;                  \
        steal_p;                     \
    })
void base_auto_mem(void *pp);
void base_auto_json(json_t **pp);
void base_auto_fd(int *fd);
#define auto_mem  __attribute__((cleanup(base_auto_mem)))
#define auto_json __attribute__((cleanup(base_auto_json))) json_t *
#define auto_fd   __attribute__((cleanup(base_auto_fd))) int

/* ---- arena --------------------------------------------------------------------------------------
 * Bump allocation for one run (request, query, job); everything goes with arena_free. Not
 * thread-safe; one owner. */
struct arena;
/* `max`: most bytes the arena may hand out (>= 1024). NULL when memory ends. Initial footprint:
 * about 200 bytes; the first block (2 KiB) is taken at the first allocation. */
struct arena *arena_new(size_t max);
/* Runs deferred calls in reverse order, then releases all. NULL is fine. */
void arena_free(struct arena *a);
/* 16-byte aligned, zeroed. NULL when the maximum or memory is reached; arena_failed() then stays
 * true. n = 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t n);
bool arena_failed(const struct arena *a);
size_t arena_used(const struct arena *a);
/* Calls fn(arg) at arena_free. False (nothing registered, fn not called) when memory ends. */
bool arena_defer(struct arena *a, void (*fn)(void *), void *arg) warn_unused;
/* Takes over one reference of `j` and drops it with the arena; returns j. NULL for NULL, or when
 * memory ends: the reference is dropped at once then. */
json_t *arena_json(struct arena *a, json_t *j);
void base_auto_arena(struct arena **pp);
#define auto_arena            __attribute__((cleanup(base_auto_arena))) struct arena *
#define arena_new_of(a, type) ((type *)arena_alloc((a), sizeof(type)))

/* ---- str: a text from outside, not NUL-terminated, never owned ------------------------------- */
struct str {
    const char *p;
    size_t n;
};
#define S(lit)     ((struct str){"" lit, sizeof(lit) - 1})
#define STR_NONE   ((struct str){NULL, 0})
#define STR_FMT    "%.*s"
#define STR_ARG(s) (int)(s).n, (s).p ? (s).p : ""
struct str str_c(const char *z); /* of a C string; NULL gives an empty str */
struct str str_n(const char *p, size_t n);
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_ieqz(struct str a, const char *z); /* ASCII case-insensitive */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
bool str_istarts(struct str s, struct str prefix);
ptrdiff_t str_find(struct str s, struct str needle); /* byte offset or -1 */
ptrdiff_t str_chr(struct str s, char c);
struct str str_sub(struct str s, size_t from, size_t n); /* clamped */
struct str str_trim(struct str s);                       /* ASCII white space */
/* Cuts `*rest` at the first `sep` (removed); returns the part before. False when *rest was
 * exhausted (p == NULL). */
bool str_split(struct str *rest, char sep, struct str *part);
bool str_to_i64(struct str s, int64_t *out); /* whole text, decimal, no overflow */
bool str_to_f64(struct str s, double *out);  /* whole text */
struct str str_dup(struct arena *a,
                   struct str s); /* NUL-terminated copy; STR_NONE when the arena is full */
const char *str_z(struct arena *a, struct str s); /* C string copy; "" when the arena is full */
struct str str_fmt(struct arena *a, const char *fmt, ...) printf_like(2, 3);
const char *z_fmt(struct arena *a, const char *fmt, ...) printf_like(2, 3);
struct str str_lower(struct arena *a, struct str s); /* ASCII */
uint64_t str_hash(struct str s);

/* ---- utf-8 ----------------------------------------------------------------------------------- */
bool utf8_valid(struct str s);
size_t utf8_count(struct str s);                 /* code points; invalid bytes count one each */
struct str utf8_cut(struct str s, size_t chars); /* first `chars` code points */
size_t utf8_border(const char *p, size_t n); /* largest m <= n that ends no code point half-way */
struct str utf8_clean(struct arena *a,
                      struct str s); /* invalid bytes become U+FFFD; s itself if valid */

/* ---- buf: a growing byte buffer with a maximum --------------------------------------------------
 * After a failed append `failed` stays true and later appends do nothing, so one check at the end
 * is enough. */
struct buf {
    char *p;
    size_t n, cap, max;
    bool failed;
};
#define BUF(max_bytes) ((struct buf){.max = (max_bytes)})
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_str(struct buf *b, struct str s);
bool buf_z(struct buf *b, const char *z);
bool buf_c(struct buf *b, char c);
bool buf_fmt(struct buf *b, const char *fmt, ...) printf_like(2, 3);
bool buf_u64(struct buf *b, uint64_t v);       /* decimal digits; a tenth of what buf_fmt costs */
bool buf_reserve(struct buf *b, size_t extra); /* room for `extra` more bytes behind n */
void buf_eat(struct buf *b, size_t n);         /* drops the first n bytes */
void buf_clear(struct buf *b);                 /* n = 0, failed = false, memory stays */
void buf_free(struct buf *b);
struct str buf_view(const struct buf *b); /* valid until the next append */
const char *buf_cstr(struct buf *b);      /* NUL-terminated view; "" when failed */
#define auto_buf __attribute__((cleanup(buf_free))) struct buf

/* ---- list: intrusive, doubly linked, circular
 * ---------------------------------------------------- A node that is not linked points to
 * itself or is zero. */
struct list {
    struct list *next, *prev;
};
void list_init(struct list *l);
bool list_empty(const struct list *l);                /* also true for a zeroed head */
void list_push(struct list *head, struct list *node); /* at the end */
void list_push_front(struct list *head, struct list *node);
void list_del(struct list *node);         /* safe on an unlinked node */
struct list *list_pop(struct list *head); /* first or NULL */
#define list_each(it, head)                          \
    for (struct list *it = (head)->next, *it##_next; \
         it && it != (head) && (it##_next = it->next, 1); it = it##_next)

/* ---- map: str -> pointer, owned key copies --------------------------------------------------- */
struct map {
    struct map_slot *slots;
    size_t n, cap, max; /* max: most entries, 0 = unlimited */
    size_t tombs;
};
void *map_get(const struct map *m, struct str key);
bool map_put(struct map *m, struct str key, void *value); /* replaces; false: memory or max */
void *map_del(struct map *m, struct str key);             /* the removed value or NULL */
/* Iterates in no promised order; *pos starts at 0. The current entry may be deleted during
 * iteration. */
bool map_next(const struct map *m, size_t *pos, struct str *key, void **value);
void map_free(struct map *m);

/* ---- JSON ------------------------------------------------------------------------------------ */
#define JSON_DEPTH_MAX \
    64 /* nesting accepted from outside: jansson recurses, a fiber's stack is small */
enum { JSON_GROUPS_MAX = 1 << 17, JSON_VALUES_MAX = 1 << 20 }; /* bound the memory of a text */
/* Parses one JSON value from outside. Limits: those above, valid UTF-8, no trailing bytes,
 * duplicate keys: last wins. New reference, or NULL with ERR_INVALID "invalid JSON: …" /
 * ERR_NOMEM. */
json_t *json_parse(struct str text, struct error *err);
/* As json_parse, but strings may hold U+0000: for what people and models write. Read such strings
 * with json_s or json_sv, never as C strings. */
json_t *json_parse_words(struct str text, struct error *err);
/* Compact text into `b`, non-ASCII kept, reals in their shortest form. False when b is full or j is
 * NULL. */
bool json_put(struct buf *b, const json_t *j);
/* As json_dumps of jansson (flags: JSON_INDENT …), in memory that mem_free takes. Never free a text of json_dumps itself with mem_free:
 * jansson's blocks are pooled. NULL when memory ends. */
char *json_dump_z(const json_t *j, size_t flags);
struct str json_text(struct arena *a, const json_t *j); /* compact; STR_NONE when full */
const char *json_z(const json_t *obj, const char *key); /* string member or NULL (borrowed) */
const char *json_z_or(const json_t *obj, const char *key, const char *fallback);
struct str json_s(const json_t *obj, const char *key); /* string member or STR_NONE */
struct str json_sv(const json_t *j);                   /* of a string value, else STR_NONE */
int64_t json_i_or(const json_t *obj, const char *key, int64_t fallback);
double json_f_or(const json_t *obj, const char *key, double fallback); /* also from integers */
bool json_b_or(const json_t *obj, const char *key, bool fallback);
json_t *json_at(const json_t *obj,
                const char *dotted); /* borrowed; "a.b.c"; NULL when a step is missing */
json_t *json_strn(struct str s);     /* new string; invalid UTF-8 becomes U+FFFD */
json_t *json_now(void);              /* new string: time_iso of now; NULL: no memory */
bool json_set(json_t *obj, const char *key,
              json_t *value_stolen); /* false (and value dropped) on failure or NULL value */

/* ---- log: one line per event, text or JSON ------------------------------------------------------
 * `area` is a short literal ("net", "bot"). Text after the message holds key=value pairs by
 * convention. Never log secrets. */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
/* fd: where lines go, -1: nowhere but the tap. At start: LOG_INFO, text, standard error. */
void log_setup(enum log_level min, bool as_json, int fd);
/* Called for each line that passes the level (already formatted, no newline); for the log files
 * and the panel's cache. It must not wait and must not log. NULL removes it. */
void log_tap(void (*fn)(void *arg, enum log_level level, struct str line), void *arg);
void log_line(enum log_level level, const char *area, const char *file, int line, const char *fmt,
              ...) printf_like(5, 6);
bool log_enabled(enum log_level level);
#define log_debug(area, ...) \
    (log_enabled(LOG_DEBUG) ? log_line(LOG_DEBUG, area, __FILE__, __LINE__, __VA_ARGS__) : (void)0)
#define log_info(area, ...)  log_line(LOG_INFO, area, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(area, ...)  log_line(LOG_WARN, area, __FILE__, __LINE__, __VA_ARGS__)
#define log_error(area, ...) log_line(LOG_ERROR, area, __FILE__, __LINE__, __VA_ARGS__)

/* ---- time: microseconds unless said; tests may shift both clocks ----------------------------- */
int64_t time_mono_us(void);
int64_t time_wall_us(void);                     /* since 1970, UTC */
void time_shift_us(int64_t wall, int64_t mono); /* added to the clocks from now on; for tests */
#define TIME_ISO_SIZE 32
/* "YYYY-MM-DDTHH:MM:SS.ffffff" (no fraction when it is 0), naive UTC; returns `out`
 * (TIME_ISO_SIZE bytes). */
const char *time_iso(int64_t wall_us, char *out);
/* "YYYY-MM-DD HH:MM:SS.ffffff": how rows are stored (persistence-and-ops.md §1). Always 26
 * characters. */
const char *time_sql(int64_t wall_us, char *out);
/* Reads either form, with or without fraction, 'Z' or ±HH:MM offset (converted to UTC). False if
 * it is none. */
bool time_parse(struct str s, int64_t *wall_us);

/* ---- assets: files put into the binary at build time (tools/embed) --------------------------- */
struct base_asset {
    /* "web/index.html", "metadata/config.yaml", "widget/widget.js",
     * "migrations/sqlite/0001_x.sql" */
    const char *path;
    const unsigned char *data;
    size_t size;      /* bytes of data as stored */
    const char *etag; /* quoted SHA-256 prefix */
    bool gzip;        /* data is a gzip stream; otherwise it is followed by a NUL byte */
};
extern const struct base_asset base_assets[]; /* sorted by path (strcmp) */
extern const size_t base_asset_count;
const struct base_asset *base_asset_find(const char *path); /* NULL if there is none */

#endif
