/* metrics: counters, gauges and histograms as Prometheus text.
 *
 * One table for the process, under one lock: a count may come from a worker as well as from the loop, and the lock is held for a
 * look-up and an addition only. Want of memory loses a count, never a request. */
#include "ops/ops.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define METRICS_MAX 512
#define SERIES_MAX  1000 /* label values of one metric */
#define LABEL_MAX   128  /* bytes of one label value */

/* Upper bounds in seconds, from a cached answer to a model's long reply. */
static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,   1,      2.5,   5,    10,    30,   60,  120};

struct series {
    struct list node;
    double value;                        /* of a histogram: the sum */
    uint64_t count;                      /* of a histogram */
    uint64_t buckets[array_len(bounds)]; /* not cumulated */
    char label[];                        /* NUL-terminated */
};

struct metric {
    struct list node;
    enum metric_kind kind;
    char *name, *help, *label; /* label NULL: one series */
    struct map by_label;
    struct list series; /* in order of their first use */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list metrics;
static size_t metric_count;

static struct series *series_new(struct metric *m, struct str label)
{
    struct series *s = mem_alloc(sizeof(*s) + label.n + 1);
    if (!s || !map_put(&m->by_label, label, s)) {
        mem_free(s);
        return NULL;
    }
    memcpy(s->label, label.n ? label.p : "", label.n);
    list_push(&m->series, &s->node);
    return s;
}

static void metric_free(struct metric *m)
{
    struct list *node;
    while ((node = list_pop(&m->series))) {
        mem_free(container_of(node, struct series, node));
    }
    map_free(&m->by_label);
    mem_free(m->name);
    mem_free(m->help);
    mem_free(m->label);
    mem_free(m);
}

static bool name_ok(const char *name)
{
    size_t n = name ? strlen(name) : 0;
    if (!n || n > 200 || (name[0] >= '0' && name[0] <= '9')) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_')) {
            return false;
        }
    }
    return true;
}

static struct metric *find(const char *name)
{
    list_each(it, &metrics)
    {
        struct metric *m = container_of(it, struct metric, node);
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    return NULL;
}

static struct metric *make(enum metric_kind kind, const char *name, const char *help,
                           const char *label)
{
    struct metric *m = new (struct metric);
    if (!m) {
        return NULL;
    }
    m->kind = kind;
    m->by_label.max = SERIES_MAX + 1; /* "other" has its place */
    list_init(&m->series);
    m->name = mem_strndup(name, strlen(name));
    m->help = mem_strndup(help, strlen(help));
    m->label = label ? mem_strndup(label, strlen(label)) : NULL;
    if (!m->name || !m->help || (label && !m->label) || (!label && !series_new(m, S("")))) {
        metric_free(m);
        return NULL;
    }
    return m;
}

struct metric *metric_new(enum metric_kind kind, const char *name, const char *help,
                          const char *label)
{
    if (!name_ok(name) || (label && !name_ok(label))) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (!metrics.next) {
        list_init(&metrics);
    }
    struct metric *m = find(name);
    if (m) {
        bool same =
            m->kind == kind && !m->label == !label && (!label || strcmp(m->label, label) == 0);
        m = same ? m : NULL;
    } else if (metric_count < METRICS_MAX && (m = make(kind, name, help, label))) {
        list_push(&metrics, &m->node);
        metric_count++;
    }
    pthread_mutex_unlock(&lock);
    return m;
}

/* The series of a label value; past the bound that of "other". NULL when memory ends. */
static struct series *series_of(struct metric *m, const char *value)
{
    struct str label = m->label ? str_c(value) : S("");
    if (label.n > LABEL_MAX) {
        label.n = utf8_border(label.p, LABEL_MAX);
    }
    if (!utf8_valid(label)) {
        label = S("invalid");
    }
    struct series *s = map_get(&m->by_label, label);
    if (s) {
        return s;
    }
    if (m->by_label.n >= SERIES_MAX) {
        label = S("other");
        s = map_get(&m->by_label, label);
    }
    return s ? s : series_new(m, label);
}

enum change { ADD, SET, OBSERVE };

static void observe(struct series *s, double seconds)
{
    size_t i = 0;
    while (i < array_len(bounds) && seconds > bounds[i]) {
        i++;
    }
    if (i < array_len(bounds)) {
        s->buckets[i]++;
    }
    s->count++;
    s->value += seconds;
}

static void change(struct metric *m, const char *label_value, double v, enum change how)
{
    /* A metric that could not be made counts nothing. */
    if (!m || !isfinite(v) || (m->kind == METRIC_HISTOGRAM) != (how == OBSERVE) ||
        (m->kind == METRIC_COUNTER && (v < 0 || how == SET))) {
        return;
    }
    pthread_mutex_lock(&lock);
    struct series *s = series_of(m, label_value);
    if (s && how == OBSERVE) {
        observe(s, v < 0 ? 0 : v);
    } else if (s) {
        s->value = how == SET ? v : s->value + v;
    }
    pthread_mutex_unlock(&lock);
}

void metric_add(struct metric *m, const char *label_value, double v)
{
    change(m, label_value, v, ADD);
}

void metric_set(struct metric *m, const char *label_value, double v)
{
    change(m, label_value, v, SET);
}

void metric_observe(struct metric *m, const char *label_value, double seconds)
{
    change(m, label_value, seconds, OBSERVE);
}

/* ---- exposition format 0.0.4 -------------------------------------------------------------------------------------- */

static void put_escaped(struct buf *b, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\\') {
            buf_z(b, "\\\\");
        } else if (*text == '\n') {
            buf_z(b, "\\n");
        } else if (*text == '"' && quotes) {
            buf_z(b, "\\\"");
        } else {
            buf_c(b, *text);
        }
    }
}

static void put_number(struct buf *b, double v)
{
    char text[40];
    snprintf(text, sizeof(text), "%.15g", v);
    if (strtod(text, NULL) != v) {
        snprintf(text, sizeof(text), "%.17g", v);
    }
    buf_z(b, text);
}

/* name[suffix]{label="value",le="bound"}, then a blank */
static void put_name(struct buf *b, const struct metric *m, const char *suffix,
                     const struct series *s, const char *le)
{
    buf_fmt(b, "%s%s", m->name, suffix);
    if (m->label || le) {
        buf_c(b, '{');
        if (m->label) {
            buf_fmt(b, "%s=\"", m->label);
            put_escaped(b, s->label, true);
            buf_c(b, '"');
        }
        if (le) {
            buf_fmt(b, "%sle=\"%s\"", m->label ? "," : "", le);
        }
        buf_c(b, '}');
    }
    buf_c(b, ' ');
}

static void put_histogram(struct buf *b, const struct metric *m, const struct series *s)
{
    uint64_t below = 0;
    for (size_t i = 0; i < array_len(bounds); i++) {
        char le[32];
        snprintf(le, sizeof(le), "%g", bounds[i]);
        below += s->buckets[i];
        put_name(b, m, "_bucket", s, le);
        buf_fmt(b, "%llu\n", (unsigned long long)below);
    }
    put_name(b, m, "_bucket", s, "+Inf");
    buf_fmt(b, "%llu\n", (unsigned long long)s->count);
    put_name(b, m, "_sum", s, NULL);
    put_number(b, s->value);
    buf_c(b, '\n');
    put_name(b, m, "_count", s, NULL);
    buf_fmt(b, "%llu\n", (unsigned long long)s->count);
}

static void put_metric(struct buf *b, const struct metric *m)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    buf_fmt(b, "# HELP %s ", m->name);
    put_escaped(b, m->help, false);
    buf_fmt(b, "\n# TYPE %s %s\n", m->name, kinds[m->kind]);
    list_each(it, &m->series)
    {
        const struct series *s = container_of(it, struct series, node);
        if (m->kind == METRIC_HISTOGRAM) {
            put_histogram(b, m, s);
        } else {
            put_name(b, m, "", s, NULL);
            put_number(b, s->value);
            buf_c(b, '\n');
        }
    }
}

bool metrics_text(struct buf *out)
{
    pthread_mutex_lock(&lock);
    list_each(it, &metrics)
    {
        put_metric(out, container_of(it, struct metric, node));
    }
    pthread_mutex_unlock(&lock);
    return !out->failed;
}

void metrics_end(void)
{
    struct list *node;
    pthread_mutex_lock(&lock);
    while (metrics.next && (node = list_pop(&metrics))) {
        metric_free(container_of(node, struct metric, node));
    }
    metric_count = 0;
    pthread_mutex_unlock(&lock);
}
