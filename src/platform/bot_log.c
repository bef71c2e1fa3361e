/* The event log of a bot: the last 200 entries, with the pictures that came. platforms.md §1.3. */
#include "platform/platform_private.h"

#include <stdio.h>

enum { IMAGES_PER_ENTRY = 10, IMAGE_BYTES_MAX = 10 << 20, SAVING_MAX = 16, READER_WAIT_MS = 2000 };
#define CUT_MARK "\n[log truncated]"

static const char *level_name(enum log_level l)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    return names[l];
}

/* ---- pictures --------------------------------------------------------------------------------------------------------------- */

struct drop {
    struct platform *platform;
    struct scope scope;
    json_t *keys;
};

static void drop_images(void *arg)
{
    struct drop *d = arg;
    size_t i;
    json_t *k;
    json_array_foreach (d->keys, i, k) {
        struct error err = {0};
        if (!objects_delete(d->platform->opts.objects, &d->scope, json_sv(k), &err) &&
            err.code != ERR_NOT_FOUND && err.code != ERR_CANCELED)
            log_warn("bot", "a picture of an event log was not removed: %s", err.msg);
    }
    json_decref(d->keys);
    mem_free(d);
}

/* Takes `keys`. */
static void drop_later(struct bot *b, json_t *keys)
{
    struct error err = {0};
    struct drop *d =
        json_array_size(keys) > 0 && b->platform->opts.objects ? new (struct drop) : NULL;
    if (d) {
        *d = (struct drop){.platform = b->platform, .scope = b->scope, .keys = keys};
        if (task_spawn(b->platform->group, "bot log", drop_images, d, &err))
            return;
    }
    json_decref(keys);
    mem_free(d);
}

struct save {
    struct bot *bot;
    uint64_t epoch;
    int64_t seq;
    json_t *images; /* component objects */
    char *session;
};

static struct bot_entry *entry_of(struct bot_log *l, uint64_t epoch, int64_t seq)
{
    if (l->epoch != epoch || l->n == 0 || seq < l->ring[0]->seq || seq > l->ring[l->n - 1]->seq)
        return NULL;
    return l->ring[seq - l->ring[0]->seq];
}

static const char *suffix_of(struct str mime)
{
    if (str_ieqz(mime, "image/png"))
        return ".png";
    if (str_ieqz(mime, "image/gif"))
        return ".gif";
    return str_ieqz(mime, "image/webp") ? ".webp" : ".jpg";
}

/* The key of the stored picture (new reference) or NULL. */
static json_t *save_one(struct save *s, struct str uri, struct error *err)
{
    struct str mime, text, data, key = STR_NONE;
    auto_arena a = arena_new(2u * IMAGE_BYTES_MAX);
    if (!a || !data_uri_split(uri, &mime, &text) ||
        !base64_decode(a, text, IMAGE_BYTES_MAX, &data, err))
        return NULL;
    char unique[UUID_SIZE];
    uuid4(unique);
    struct str owner = str_fmt(a, "%s-%s", s->session ? s->session : "", unique);
    if (!objects_put(s->bot->platform->opts.objects, &s->bot->scope, "bot_log", owner,
                     str_c(suffix_of(mime)), data, a, &key, err))
        return NULL;
    return json_strn(key);
}

static void save_images(void *arg)
{
    struct save *s = arg;
    struct bot_log *l = &s->bot->log;
    auto_json keys = json_array();
    size_t i;
    json_t *c;
    json_array_foreach (s->images, i, c) {
        struct error err = {0};
        struct str uri = json_s(c, "base64");
        json_t *key =
            uri.n && json_array_size(keys) < IMAGES_PER_ENTRY ? save_one(s, uri, &err) : NULL;
        if (key)
            json_array_append_new(keys, key);
        else if (err.code && err.code != ERR_CANCELED && err.code != ERR_INVALID)
            log_warn("bot", "a picture was not kept in the event log bot=%s: %s", s->bot->uuid,
                     err.msg);
    }
    struct bot_entry *e = entry_of(l, s->epoch, s->seq);
    if (e && !e->images)
        e->images = steal(keys);
    else
        drop_later(s->bot, steal(keys));
    l->saving--;
    task_cond_notify_all(&l->saved);
    json_decref(s->images);
    mem_free(s->session);
    mem_free(s);
}

/* In a fiber of its own: whoever logs must not wait for a disk. Under pressure a picture is left out of the log. */
static void save_later(struct bot *b, const struct bot_entry *e, const json_t *images)
{
    struct error err = {0};
    bool any = false;
    size_t i;
    json_t *c;
    json_array_foreach (images, i, c) {
        any = any || json_s(c, "base64").n > 0;
    }
    if (!any || !b->platform->opts.objects || b->log.saving >= SAVING_MAX)
        return;
    struct save *s = new (struct save);
    if (!s)
        return;
    *s = (struct save){.bot = b,
                       .epoch = b->log.epoch,
                       .seq = e->seq,
                       .images = json_incref((json_t *)(uintptr_t)images)};
    s->session = e->session ? mem_strndup(e->session, strlen(e->session)) : NULL;
    if (task_spawn(b->platform->group, "bot log", save_images, s, &err)) {
        b->log.saving++;
        return;
    }
    json_decref(s->images);
    mem_free(s->session);
    mem_free(s);
}

/* ---- entries ----------------------------------------------------------------------------------------------------------------- */

/* Frees the first n; their pictures go with them. */
static void forget(struct bot *b, size_t n, bool images)
{
    struct bot_log *l = &b->log;
    auto_json keys = NULL;
    for (size_t i = 0; i < n; i++) {
        struct bot_entry *e = l->ring[i];
        if (images && e->images) {
            keys = keys ? keys : json_array();
            json_array_extend(keys, e->images);
        }
        json_decref(e->images);
        mem_free(e->text);
        mem_free(e->session);
        mem_free(e);
    }
    memmove(l->ring, l->ring + n, (l->n - n) * sizeof(struct bot_entry *));
    l->n -= n;
    if (keys)
        drop_later(b, steal(keys));
}

void bot_log_clear(struct bot *b)
{
    forget(b, b->log.n, true);
    b->log.next_seq = 0;
    b->log.epoch++;
}

void bot_log_free(struct bot *b)
{
    forget(b, b->log.n, false);
}

/* Takes nothing; the cut text as an owned copy. */
static char *cut_text(struct str text)
{
    if (text.n <= BOT_LOG_CHARS || utf8_count(text) <= BOT_LOG_CHARS)
        return mem_strndup(text.p, text.n);
    struct str head = utf8_cut(text, BOT_LOG_CHARS - (sizeof CUT_MARK - 1));
    char *p = mem_alloc(head.n + sizeof CUT_MARK);
    if (p) {
        memcpy(p, head.p, head.n);
        memcpy(p + head.n, CUT_MARK, sizeof CUT_MARK);
    }
    return p;
}

static void add(struct bot *b, enum log_level level, const json_t *images, const char *session,
                struct str text)
{
    struct bot_log *l = &b->log;
    struct bot_entry *e = new (struct bot_entry);
    char *copy = cut_text(text);
    if (!e || !copy) {
        mem_free(e);
        mem_free(copy);
        return;
    }
    if (l->n == BOT_LOG_MAX)
        forget(b, BOT_LOG_DROP, true);
    *e = (struct bot_entry){
        .seq = l->next_seq++, .unix_s = time_wall_us() / 1000000, .level = level, .text = copy};
    e->session = session ? mem_strndup(session, strlen(session)) : NULL;
    l->ring[l->n++] = e;
    if (json_array_size(images) > 0)
        save_later(b, e, images);
}

void bot_log(struct bot *b, enum log_level level, const json_t *images, const char *session,
             const char *fmt, ...)
{
    char small[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    char *big = NULL;
    if ((size_t)n >= sizeof small) {
        big = mem_alloc((size_t)n + 1);
        if (big) {
            va_start(args, fmt);
            n = vsnprintf(big, (size_t)n + 1, fmt, args);
            va_end(args);
        } else {
            n = (int)utf8_border(small, sizeof small - 1);
        }
    }
    struct str text = str_n(big ? big : small, (size_t)n);
    if (level == LOG_ERROR)
        snprintf(b->last_error, sizeof b->last_error, "%.*s",
                 (int)utf8_border(text.p, text.n < 390 ? text.n : 390), text.p);
    if (level >= LOG_WARN)
        log_line(level, "bot", __FILE__, __LINE__, "bot=%s %.500s", b->uuid, text.p);
    if (!b->removed)
        add(b, level, images, session, text);
    mem_free(big);
}

static json_t *entry_json(const struct bot_entry *e)
{
    return json_pack("{s:I,s:I,s:s,s:o,s:o,s:s}", "seq_id", (json_int_t)e->seq, "timestamp",
                     (json_int_t)e->unix_s, "level", level_name(e->level), "text",
                     json_strn(str_c(e->text)), "images",
                     e->images ? json_deep_copy(e->images) : json_array(), "message_session_id",
                     e->session ? e->session : "");
}

json_t *bot_logs(struct bot *b, int64_t from_index, int64_t max_count)
{
    struct bot_log *l = &b->log;
    struct error ignored = {0};
    struct task_deadline d;
    task_deadline_push(&d, READER_WAIT_MS); /* whoever saw the message come sees its picture too */
    while (l->saving > 0 && task_cond_wait(&l->saved, &ignored))
        ;
    task_deadline_pop(&d);
    size_t end = l->n;
    while (from_index >= 0 && end > 0 && l->ring[end - 1]->seq > from_index)
        end--;
    size_t want = max_count < 0 ? 0 : max_count > BOT_LOG_MAX ? BOT_LOG_MAX : (size_t)max_count;
    json_t *logs = json_array();
    for (size_t i = end > want ? end - want : 0; i < end; i++)
        json_array_append_new(logs, entry_json(l->ring[i]));
    return json_pack("{s:o,s:I}", "logs", logs, "total_count", (json_int_t)l->n);
}
