/* Log files and the panel's log cache. persistence-and-ops.md §10.
 *
 * The tap only copies a line into memory: one copy for the cache, one for the file. A thread of its own brings what has gathered
 * to the disk, so a slow disk holds nobody up; when it falls too far behind, lines are dropped and counted instead of growing. */
#include "ops/ops_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FILE_MAX = 10 << 20, /* bytes of one file */
    NUMBERED = 5,        /* .1 … .5 beside the newest */
    PAGES = 10,
    PAGE_LINES = 20,
    CACHED = PAGES * PAGE_LINES,
    LINE_CHARS = 20000,
    WAITING_MAX = 4 << 20, /* bytes that wait for the disk */
    BATCH_MS = 50,         /* lines that come close together are written together */
    THREAD_STACK = 256 << 10,
};

struct logfiles {
    pthread_mutex_t lock; /* of all in this block; never held during I/O */
    pthread_cond_t more;
    char *lines[CACHED]; /* line n is at n % CACHED */
    int64_t count;       /* lines since the start */
    struct buf waiting;
    int64_t lost;
    bool stopping;

    /* of the thread */
    char *dir;
    struct buf taken;
    int fd;
    int64_t size;
    char day[11];
    bool complained;
    pthread_t thread;
    bool started;
};

static void day_of(int64_t wall_us, int back, char out[11])
{
    time_t t = (time_t)(wall_us / 1000000);
    struct tm tm;
    localtime_r(&t, &tm);
    if (back) {
        /* By calendar: a day has not always 24 hours. */
        tm.tm_mday -= back;
        tm.tm_hour = 12;
        tm.tm_isdst = -1;
        mktime(&tm);
    }
    snprintf(out, 11, "%04u-%02u-%02u", (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100);
}

/* ---- the tap --------------------------------------------------------------------------------------------------------------- */

static void cache(struct logfiles *l, struct str line)
{
    static const char mark[] = "\n[log truncated]";
    struct str kept = line.n > LINE_CHARS ? utf8_cut(line, LINE_CHARS) : line;
    bool cut = kept.n < line.n;
    size_t mark_n = cut ? sizeof(mark) - 1 : 0;
    char *copy = mem_alloc(kept.n + mark_n + 1);
    /* Want of memory loses the text of a line, not its place. */
    if (copy) {
        memcpy(copy, kept.p, kept.n);
        memcpy(copy + kept.n, mark, mark_n);
    }
    char **at = &l->lines[l->count % CACHED];
    mem_free(*at);
    *at = copy;
    l->count++;
}

static void tap(void *arg, enum log_level level, struct str line)
{
    struct logfiles *l = arg;
    pthread_mutex_lock(&l->lock);
    cache(l, line);
    bool idle = l->waiting.n == 0;
    if (l->waiting.n + line.n + 1 > WAITING_MAX || !buf_reserve(&l->waiting, line.n + 1)) {
        l->lost++;
    } else {
        buf_str(&l->waiting, line);
        buf_c(&l->waiting, '\n');
    }
    if (idle)
        pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
}

/* ---- files ----------------------------------------------------------------------------------------------------------------- */

static const char *path_of(const struct logfiles *l, int number, char out[4096])
{
    int n = number ? snprintf(out, 4096, "%s/langbot-%s.log.%d", l->dir, l->day, number)
                   : snprintf(out, 4096, "%s/langbot-%s.log", l->dir, l->day);
    return n > 0 && n < 4096 ? out : "";
}

static void close_file(struct logfiles *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

static void shift(struct logfiles *l)
{
    char from[4096], to[4096];
    close_file(l);
    for (int i = NUMBERED; i > 0; i--) {
        /* One that is not there is no failure; renaming over the oldest ends it. */
        (void)!rename(path_of(l, i - 1, from), path_of(l, i, to));
    }
}

static bool open_file(struct logfiles *l)
{
    char path[4096];
    struct stat st;
    l->fd = task_sys_open(path_of(l, 0, path), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (l->fd < 0)
        return false;
    l->size = fstat(l->fd, &st) == 0 ? st.st_size : 0;
    return true;
}

/* The file that takes `n` more bytes now: that of today, and not over its size. */
static bool file_for(struct logfiles *l, size_t n)
{
    char today[11];
    day_of(time_wall_us(), 0, today);
    if (strcmp(today, l->day) != 0) {
        close_file(l);
        memcpy(l->day, today, sizeof today);
    }
    if (l->fd < 0 && !open_file(l))
        return false;
    if (l->size > 0 && l->size + (int64_t)n > FILE_MAX) {
        shift(l);
        return open_file(l);
    }
    return true;
}

static bool write_all(struct logfiles *l, struct str text)
{
    while (text.n > 0) {
        ssize_t n = task_sys_write(l->fd, text.p, text.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        l->size += n;
        text = str_sub(text, (size_t)n, text.n);
    }
    return true;
}

/* Whole lines, in pieces that fit into a file. */
static bool write_lines(struct logfiles *l, struct str text)
{
    enum { PIECE = 1 << 20 };
    while (text.n > 0) {
        size_t n = text.n;
        if (n > PIECE) {
            const char *end = memrchr(text.p, '\n', PIECE);
            n = end ? (size_t)(end - text.p) + 1 : n;
        }
        if (!file_for(l, n) || !write_all(l, str_sub(text, 0, n)))
            return false;
        text = str_sub(text, n, text.n);
    }
    return true;
}

static void write_taken(struct logfiles *l, int64_t lost)
{
    bool ok = write_lines(l, buf_view(&l->taken));
    char note[80];
    if (ok && lost > 0) {
        int n = snprintf(note, sizeof note, "[%lld lines of the log were lost here]\n",
                         (long long)lost);
        ok = write_lines(l, str_n(note, (size_t)n));
    }
    if (!ok) {
        int why = errno;
        close_file(l); /* the next lines try again */
        if (!l->complained)
            log_warn("log", "the log file cannot be written, its lines are lost error=%s",
                     strerror(why));
    }
    l->complained = !ok;
    buf_clear(&l->taken);
}

static void wait_a_moment(struct logfiles *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BATCH_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (!l->stopping && pthread_cond_timedwait(&l->more, &l->lock, &until) == 0) {
    }
}

static void *writer(void *arg)
{
    struct logfiles *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stopping && l->waiting.n == 0 && l->lost == 0)
            pthread_cond_wait(&l->more, &l->lock);
        if (l->waiting.n == 0 && l->lost == 0)
            break;
        wait_a_moment(l);
        struct buf full = l->waiting;
        int64_t lost = l->lost;
        l->waiting = l->taken;
        l->taken = full;
        l->lost = 0;
        bool last =
            l->stopping; /* what comes now is written, what cannot be written is not tried for ever */
        pthread_mutex_unlock(&l->lock);
        write_taken(l, lost);
        pthread_mutex_lock(&l->lock);
        if (last)
            break;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static bool start_thread(struct logfiles *l, struct error *err)
{
    pthread_attr_t attr;
    pthread_condattr_t clock;
    sigset_t all, before;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->more, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    /* Signals are the loop's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&l->thread, &attr, writer, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    l->started = failed == 0;
    return l->started || err_sys(err, failed, "cannot start the thread of the log files");
}

struct logfiles *logfiles_new(const char *dir, struct error *err)
{
    struct logfiles *l = new (struct logfiles);
    if (!l) {
        err_set(err, ERR_NOMEM, "no memory for the log files");
        return NULL;
    }
    l->fd = -1;
    l->waiting = l->taken = BUF(WAITING_MAX);
    l->dir = mem_strndup(dir, strlen(dir));
    if (!start_thread(l, err) || !l->dir) {
        if (!l->dir)
            err_set(err, ERR_NOMEM, "no memory for the log files");
        logfiles_free(l);
        return NULL;
    }
    log_tap(tap, l);
    return l;
}

void logfiles_free(struct logfiles *l)
{
    if (!l)
        return;
    log_tap(NULL, NULL);
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stopping = true;
        pthread_cond_broadcast(&l->more);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->more);
    pthread_mutex_destroy(&l->lock);
    close_file(l);
    for (size_t i = 0; i < CACHED; i++)
        mem_free(l->lines[i]);
    buf_free(&l->waiting);
    buf_free(&l->taken);
    mem_free(l->dir);
    mem_free(l);
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

json_t *logfiles_read(struct logfiles *l, int64_t start_page, int64_t start_offset)
{
    auto_buf text = BUF(CACHED * (LINE_CHARS * 4 + 64));
    pthread_mutex_lock(&l->lock);
    int64_t end = l->count;
    /* Whole pages are forgotten, so that a page is 20 lines or the last one. */
    int64_t last_page = end > 0 ? (end - 1) / PAGE_LINES : 0;
    int64_t first_page = last_page >= PAGES ? last_page - PAGES + 1 : 0;
    int64_t from = first_page * PAGE_LINES;
    if (start_page > last_page) {
        from = end;
    } else if (start_page >= first_page) {
        int64_t offset = start_offset < 0            ? 0
                         : start_offset > PAGE_LINES ? PAGE_LINES
                                                     : start_offset;
        from = start_page * PAGE_LINES + offset;
    }
    for (int64_t i = from; i < end; i++) {
        const char *line = l->lines[i % CACHED];
        buf_z(&text, line ? line : "");
        buf_c(&text, '\n');
    }
    pthread_mutex_unlock(&l->lock);
    return json_pack("{s:o,s:I,s:I}", "logs", json_strn(buf_view(&text)), "end_page_number",
                     (json_int_t)last_page, "end_offset",
                     (json_int_t)(end - last_page * PAGE_LINES));
}

/* ---- retention ------------------------------------------------------------------------------------------------------------- */

/* langbot-YYYY-MM-DD.log with or without .N behind it. */
static bool log_name(const char *name, char date[11])
{
    static const char form[] = "langbot-dddd-dd-dd.log";
    size_t i = 0;
    for (; form[i]; i++) {
        bool digit = name[i] >= '0' && name[i] <= '9';
        if (form[i] == 'd' ? i > 7 && !digit : name[i] != form[i])
            return false;
    }
    memcpy(date, name + 8, 10);
    date[10] = 0;
    if (!name[i])
        return true;
    if (name[i++] != '.' || !name[i])
        return false;
    for (; name[i]; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
    }
    return true;
}

bool logfiles_is_old(const char *name, int64_t now_us, int64_t keep_days, char date[11])
{
    char oldest_kept[11];
    struct tm tm = {0};
    /* A name that is no day of the calendar is not ours to remove. */
    if (!log_name(name, date) || !strptime(date, "%Y-%m-%d", &tm))
        return false;
    day_of(now_us, (int)(keep_days - 1), oldest_kept);
    return strcmp(date, oldest_kept) < 0;
}

int64_t logfiles_prune(const char *dir, int64_t keep_days)
{
    int64_t removed = 0;
    char date[11];
    if (keep_days < 1 || keep_days > 100000)
        return 0;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (logfiles_is_old(e->d_name, time_wall_us(), keep_days, date) &&
            unlinkat(dirfd(d), e->d_name, 0) == 0)
            removed++;
    }
    closedir(d);
    return removed;
}
