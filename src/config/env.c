/* env: settings given by the environment, and the typed leaves that older files lack (persistence-and-ops.md §6, §6.2). */
#include "config/config_private.h"

#include <ctype.h>

#define PARTS_MAX      32
#define NAME_MAX_BYTES 512
#define ITEMS_MAX      10000

static bool no_memory(struct error *err)
{
    return err_set(err, ERR_NOMEM, "out of memory");
}

const char *env_get(const char *const *list, const char *name)
{
    size_t n = strlen(name);
    for (; list && *list; list++) {
        if (strncmp(*list, name, n) == 0 && (*list)[n] == '=') {
            return *list + n + 1;
        }
    }
    return NULL;
}

/* Upper-case with "__" in it and no empty part. Parts are lower-cased into `text` and pointed to by `parts`. */
static size_t name_parts(struct str name, char *text, const char **parts)
{
    bool letter = false;
    size_t n = 0;
    if (name.n >= NAME_MAX_BYTES || str_find(name, S("__")) < 0) {
        return 0;
    }
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] >= 'a' && name.p[i] <= 'z') {
            return 0;
        }
        letter = letter || (name.p[i] >= 'A' && name.p[i] <= 'Z');
        text[i] = (char)tolower((unsigned char)name.p[i]);
    }
    text[name.n] = '\0';
    for (char *at = text;;) {
        char *end = strstr(at, "__");
        if (n == PARTS_MAX || end == at || !*at) {
            return 0;
        }
        parts[n++] = at;
        if (!end) {
            return letter ? n : 0;
        }
        *end = '\0';
        at = end + 2;
    }
}

static bool truth(struct str s)
{
    return str_ieqz(s, "true") || str_eqz(s, "1") || str_ieqz(s, "yes") || str_ieqz(s, "on");
}

/* `text` in the type of `model` (NULL: a text); a number that is none stays a text. New reference. */
static json_t *typed(struct str text, const json_t *model)
{
    int64_t i;
    double f;
    if (json_is_boolean(model)) {
        return json_boolean(truth(text));
    }
    if (json_is_integer(model) && str_to_i64(str_trim(text), &i)) {
        return json_integer(i);
    }
    if (json_is_real(model) && str_to_f64(str_trim(text), &f)) {
        json_t *j = json_real(f); /* NULL for infinities, which JSON has not */
        if (j) {
            return j;
        }
    }
    return json_strn(text);
}

static json_t *typed_list(struct str text, const json_t *old, const json_t *template)
{
    const json_t *model = json_array_get(old, 0);
    auto_json list = json_array();
    struct str rest = text, part;
    if (!model) {
        model = json_array_get(template, 0);
    }
    while (list && str_split(&rest, ',', &part)) {
        part = str_trim(part);
        if (part.n && (json_array_size(list) >= ITEMS_MAX ||
                       json_array_append_new(list, typed(part, model)) != 0)) {
            return NULL;
        }
    }
    return steal(list);
}

/* The value that decides the type: the template's where the file has none or only a text. */
static const json_t *model_of(const json_t *old, const json_t *template)
{
    bool silent = !old || json_is_null(old) || json_is_string(old);
    return silent && template && !json_is_null(template) ? template : old;
}

/* The mapping that holds the leaf, made where it is missing; NULL when a value stands in the way or memory ends. */
static json_t *walk(json_t *own, const json_t **template, const char **parts, size_t n)
{
    json_t *at = own;
    const json_t *t = *template;
    /* First without writing: what the template has no mapping for must not become one half-way. */
    for (size_t i = 0; i < n; i++) {
        json_t *next = at ? json_object_get(at, parts[i]) : NULL;
        t = json_object_get(t, parts[i]);
        if (next ? !json_is_object(next) : t && !json_is_object(t)) {
            return NULL;
        }
        at = next;
    }
    *template = t;
    at = own;
    for (size_t i = 0; i < n; i++) {
        json_t *next = json_object_get(at, parts[i]);
        if (!next) {
            next = json_object();
            if (!json_set(at, parts[i], next)) {
                return NULL;
            }
        }
        at = next;
    }
    return at;
}

static bool apply_one(json_t *own, const json_t *defaults, struct str name, struct str value,
                      struct error *err)
{
    char text[NAME_MAX_BYTES];
    const char *parts[PARTS_MAX];
    size_t n = name_parts(name, text, parts);
    if (!n) {
        return true;
    }
    if (!utf8_valid(value) || !utf8_valid(name)) {
        log_warn("config", "environment variable is not UTF-8 and was ignored variable=" STR_FMT,
                 STR_ARG(name));
        return true;
    }
    const json_t *t = defaults;
    json_t *in = walk(own, &t, parts, n - 1);
    if (!in) {
        return true;
    }
    const char *leaf = parts[n - 1];
    const json_t *old = json_object_get(in, leaf), *template = json_object_get(t, leaf);
    const json_t *model = model_of(old, template);
    if (json_is_object(old) || json_is_object(model)) {
        return true;
    }
    json_t *j = json_is_array(model) ? typed_list(value, old, template) : typed(value, model);
    if (!j || !json_set(in, leaf, j)) {
        return no_memory(err);
    }
    log_info("config", "setting taken from the environment variable=" STR_FMT, STR_ARG(name));
    return true;
}

bool env_apply(json_t *own, const json_t *defaults, const char *const *list, struct error *err)
{
    for (; list && *list; list++) {
        const char *eq = strchr(*list, '=');
        if (eq &&
            !apply_one(own, defaults, str_n(*list, (size_t)(eq - *list)), str_c(eq + 1), err)) {
            return false;
        }
    }
    return true;
}

/* ---- typed leaves ------------------------------------------------------------------------------------------------- */

/* "*" at the end: every leaf that the template has there. */
static const char *const typed_leaves[] = {
    "cloud.directory.*",
    "database.postgresql.pool_size",
    "database.postgresql.max_overflow",
    "database.postgresql.pool_timeout_seconds",
    "database.postgresql.pool_recycle_seconds",
    "database.postgresql.statement_timeout_ms",
    "database.postgresql.lock_timeout_ms",
    "database.postgresql.idle_in_transaction_session_timeout_ms",
    "system.blocking_executor.*",
    "plugin.connect_timeout_seconds",
    "plugin.worker.*",
    "mcp.stdio.enabled",
    "monitoring.query_limits.*",
    "monitoring.auto_cleanup.max_batches_per_table_per_run",
    "storage.max_object_read_bytes",
    "storage.cleanup.max_files_per_run",
    "webhooks.*",
    "box.limits.max_workspace_entries",
};

static bool fill(json_t *in, const char *key, const json_t *value, struct error *err)
{
    if (!value || json_object_get(in, key)) {
        return true;
    }
    return json_set(in, key, json_deep_copy(value)) || no_memory(err);
}

static bool fill_path(json_t *own, const json_t *defaults, struct str path, struct error *err)
{
    struct str rest = path, part;
    json_t *at = own;
    const json_t *t = defaults;
    while (str_split(&rest, '.', &part)) {
        char key[64];
        if (part.n >= sizeof(key)) {
            return err_set(err, ERR_INTERNAL, "a typed leaf has a long name");
        }
        memcpy(key, part.p, part.n);
        key[part.n] = '\0';
        if (str_eqz(part, "*")) {
            void *it = json_object_iter((json_t *)(uintptr_t)t);
            for (; it; it = json_object_iter_next((json_t *)(uintptr_t)t, it)) {
                if (!fill(at, json_object_iter_key(it), json_object_iter_value(it), err)) {
                    return false;
                }
            }
            return true;
        }
        t = json_object_get(t, key);
        if (!rest.p) {
            return fill(at, key, t, err);
        }
        json_t *next = json_object_get(at, key);
        if (!next) {
            next = json_object();
            if (!json_set(at, key, next)) {
                return no_memory(err);
            }
        }
        if (!json_is_object(next)) {
            return err_set(err, ERR_INVALID, STR_FMT " must be a mapping",
                           (int)(part.p + part.n - path.p), path.p);
        }
        at = next;
    }
    return true;
}

bool backfill(json_t *own, const json_t *defaults, struct error *err)
{
    for (size_t i = 0; i < array_len(typed_leaves); i++) {
        if (!fill_path(own, defaults, str_c(typed_leaves[i]), err)) {
            return false;
        }
    }
    return true;
}
