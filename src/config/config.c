/* config: loading and reading the settings of the instance (persistence-and-ops.md §6). */
#include "config/config_private.h"
#include "crypto/crypto.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMPLATE "metadata/config.yaml"
#define LOAD_MAX ((size_t)256 << 20)

extern char **environ;

static bool no_memory(struct error *err)
{
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- loading ------------------------------------------------------------------------------------------------------ */

static bool template_text(struct str *out, struct error *err)
{
    const struct base_asset *asset = base_asset_find(TEMPLATE);
    if (!asset || asset->gzip) {
        return err_set(err, ERR_INTERNAL, "the built-in " TEMPLATE " is missing");
    }
    *out = str_n((const char *)asset->data, asset->size);
    return true;
}

/* A document that must be a mapping, with its tree. New reference. */
static json_t *mapping(struct arena *a, struct str text, const char *name, struct yaml_node **root,
                       struct error *err)
{
    *root = yaml_parse(a, text, name, err);
    auto_json j = *root ? yaml_json(*root, name, err) : NULL;
    if (!j) {
        return NULL;
    }
    if (json_is_null(j)) {
        err_set(err, ERR_INVALID, "%s: line 1: the file is empty; remove it to have it made anew",
                name);
        return NULL;
    }
    if (!json_is_object(j)) {
        err_set(err, ERR_INVALID, "%s: line %d: %s must be a mapping", name, (*root)->line, name);
        return NULL;
    }
    return steal(j);
}

/* Gives own.system.<path> a generated text when it is absent or empty. */
static bool generate(json_t *own, const char *section, const char *key, const char *value,
                     struct error *err)
{
    json_t *in = json_object_get(own, "system");
    if (section) {
        json_t *sub = json_object_get(in, section);
        if (!sub || json_is_null(sub)) {
            sub = json_object();
            if (!json_set(in, section, sub)) {
                return no_memory(err);
            }
        }
        if (!json_is_object(sub)) {
            return err_set(err, ERR_INVALID, "system.%s must be a mapping", section);
        }
        in = sub;
    }
    const json_t *old = json_object_get(in, key);
    if (old && !json_is_null(old) && !(json_is_string(old) && json_string_length(old) == 0)) {
        return true;
    }
    return json_set(in, key, json_string(value)) || no_memory(err);
}

static bool generate_all(json_t *own, struct error *err)
{
    char secret[33], recovery[9];
    unsigned char random[16];
    crypto_random(random, sizeof(random));
    hex_encode(random, sizeof(random), secret);
    random_text("23456789ABCDEFGHJKLMNPQRSTUVWXYZ", 8, recovery);
    if (!generate(own, "jwt", "secret", secret, err) ||
        !generate(own, NULL, "recovery_key", recovery, err)) {
        return false;
    }
    struct str key = json_s(json_object_get(own, "system"), "recovery_key");
    if (key.p && utf8_count(key) < 8) {
        log_warn("config", "the recovery key is short and easily guessed; set a longer one "
                           "setting=system.recovery_key");
    }
    return true;
}

/* The sandbox's older name of the skill store is read where the newer one says nothing (§6.1 skills.root). */
static bool older_names(struct config *c, struct error *err)
{
    struct str root = json_sv(json_at(c->own, "skills.root"));
    struct str older = json_sv(json_at(c->own, "box.local.skills_root"));
    if (str_trim(root).n || !str_trim(older).n) {
        return true;
    }
    auto_json skills = json_object();
    return (skills && json_set(skills, "root", json_strn(older)) &&
            json_object_set(c->values, "skills", skills) == 0) ||
           no_memory(err);
}

static bool compatible(const json_t *wanted, const json_t *have)
{
    struct str s = json_sv(have);
    double f;
    if (json_is_null(wanted) || json_typeof(wanted) == json_typeof(have)) {
        return true;
    }
    if (json_is_boolean(wanted)) {
        return json_is_boolean(have) || s.p;
    }
    if (json_is_number(wanted)) {
        return json_is_number(have) || (s.p && str_to_f64(str_trim(s), &f));
    }
    return json_is_array(wanted) ? s.p != NULL : json_is_string(wanted) && json_is_number(have);
}

/* Says once what will not be used, and keeps numbers that stand where a text is wanted (a password of digits) as texts. */
static bool check_types(struct config *c, const json_t *defaults, const json_t *own,
                        struct buf *path, struct error *err)
{
    json_t *object = (json_t *)(uintptr_t)defaults;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const json_t *wanted = json_object_iter_value(it);
        const json_t *have = json_object_get(own, json_object_iter_key(it));
        size_t before = path->n;
        if (!have || json_is_null(have)) {
            continue;
        }
        if (!buf_fmt(path, "%s%s", before ? "." : "", json_object_iter_key(it))) {
            return no_memory(err);
        }
        if (!compatible(wanted, have)) {
            log_warn("config", "setting has the wrong type, its default is used setting=%s",
                     buf_cstr(path));
        } else if (json_is_object(wanted)) {
            if (!check_types(c, wanted, have, path, err)) {
                return false;
            }
        } else if (json_is_string(wanted) && json_is_number(have)) {
            auto_mem char *text = json_dump_z(have, JSON_ENCODE_ANY);
            if (!text || !json_set(c->texts, buf_cstr(path), json_string(text))) {
                return no_memory(err);
            }
        }
        path->n = before;
    }
    return true;
}

/* From own and defaults to what the readers look at. */
static bool finish(struct config *c, struct error *err)
{
    auto_buf path = BUF(4096);
    c->values = json_deep_copy(c->defaults);
    c->texts = json_object();
    if (!c->values || !c->texts || json_object_update_recursive(c->values, c->own) != 0) {
        return no_memory(err);
    }
    return older_names(c, err) && check_types(c, c->defaults, c->own, &path, err);
}

/* A file of nothing is one that was lost, not one that says nothing. */
static bool has_text(struct str text, struct error *err)
{
    return str_trim(text).n > 0 ||
           err_set(err, ERR_INVALID,
                   "config.yaml is empty: restore a backup of it, or remove it and the next start "
                   "writes a new one");
}

struct source {
    struct str text;
    struct yaml_node *root;
    json_t *meaning; /* of text */
    bool fresh;      /* there was no file */
};

static bool source_read(struct config *c, struct arena *a, const char *path, struct source *s,
                        struct error *err)
{
    struct str built_in;
    struct yaml_node *root;
    if (!template_text(&built_in, err)) {
        return false;
    }
    c->defaults = mapping(a, built_in, TEMPLATE, &root, err);
    if (!c->defaults) {
        return false;
    }
    if (path && config_read_file(a, path, YAML_TEXT_MAX, &s->text, err)) {
        s->meaning =
            has_text(s->text, err) ? mapping(a, s->text, "config.yaml", &s->root, err) : NULL;
        return s->meaning != NULL;
    }
    if (path && err->code != ERR_NOT_FOUND) {
        return false;
    }
    s->fresh = true;
    s->text = built_in;
    s->root = root;
    s->meaning = json_incref(c->defaults);
    return true;
}

static bool source_write(const struct config *c, struct arena *a, const char *path,
                         const struct source *s, struct writes *w, struct error *err)
{
    struct str text = s->text;
    bool kept = true;
    if (!json_equal(s->meaning, c->own)) {
        if (!yaml_update(a, s->text, s->root, s->meaning, c->own, &text, &kept, err)) {
            return false;
        }
    } else if (!s->fresh) {
        return true;
    }
    if (!kept) {
        log_warn("config",
                 "the layout of the file is unusual, it was written without its comments "
                 "file=%s",
                 path);
    }
    return writes_add(w, path, text, 0600, true, err);
}

static bool load(struct config *c, struct arena *a, const char *data_dir, const char *const *env,
                 struct writes *w, struct error *err)
{
    auto_json meaning = NULL;
    struct source s = {0};
    if (!data_directories(c, data_dir, err)) {
        return false;
    }
    const char *path = config_path(c, a, "config.yaml");
    if (!*path) {
        return no_memory(err);
    }
    bool ok = source_read(c, a, path, &s, err);
    meaning = s.meaning;
    if (!ok) {
        return false;
    }
    c->own = json_deep_copy(meaning);
    if (!c->own) {
        return no_memory(err);
    }
    return backfill(c->own, c->defaults, err) && env_apply(c->own, c->defaults, env, err) &&
           generate_all(c->own, err) && finish(c, err) && source_write(c, a, path, &s, w, err) &&
           data_instance(c, w, err) &&
           data_secret_key(c, env_get(env, "PARLEY_SECRET_KEY"), w, err) &&
           data_sensitive_words(c, w, err) && writes_run(w, err);
}

static const char *const *env_or_process(const char *const *list)
{
    return list ? list : (const char *const *)environ;
}

struct config *config_load(const char *data_dir, const char *const *environ_list, struct error *err)
{
    auto_arena a = arena_new(LOAD_MAX);
    struct config *c = new (struct config);
    if (!a || !c) {
        mem_free(c);
        no_memory(err);
        return NULL;
    }
    struct writes w = {.n = 0};
    bool ok = load(c, a, data_dir, env_or_process(environ_list), &w, err);
    writes_free(&w);
    if (!ok) {
        config_free(c);
        return NULL;
    }
    return c;
}

static bool of_text(struct config *c, struct arena *a, struct str yaml, const char *const *env,
                    struct error *err)
{
    char cwd[PATH_MAX], id[UUID_SIZE], made[64];
    struct yaml_node *root;
    struct source s = {0};
    if (!source_read(c, a, NULL, &s, err)) {
        return false;
    }
    json_decref(s.meaning);
    c->own = str_trim(yaml).n ? mapping(a, yaml, "config.yaml", &root, err)
                              : json_deep_copy(c->defaults);
    if (!c->own) {
        return str_trim(yaml).n ? false : no_memory(err);
    }
    if (!getcwd(cwd, sizeof(cwd))) {
        return err_sys(err, errno, "current directory");
    }
    const char *dir = z_fmt(a, "%s/data", cwd);
    c->data_dir = *dir ? mem_strndup(dir, strlen(dir)) : NULL;
    if (!c->data_dir) {
        return no_memory(err);
    }
    if (!backfill(c->own, c->defaults, err) || !env_apply(c->own, c->defaults, env, err) ||
        !finish(c, err)) {
        return false;
    }
    uuid4(id);
    snprintf(made, sizeof(made), "instance_%s", id);
    struct str set = str_trim(str_c(config_str(c, "system.instance_id")));
    c->instance_created = time_wall_us() / 1000000;
    return data_instance_id_set(c, set.n ? set : str_c(made), "system.instance_id", err) &&
           data_secret_key(c, env_get(env, "PARLEY_SECRET_KEY"), NULL, err) &&
           data_default_words(c, err);
}

struct config *config_of_text(struct str yaml, const char *const *environ_list, struct error *err)
{
    auto_arena a = arena_new(LOAD_MAX);
    struct config *c = new (struct config);
    if (!a || !c) {
        mem_free(c);
        no_memory(err);
        return NULL;
    }
    if (!of_text(c, a, yaml, env_or_process(environ_list), err)) {
        config_free(c);
        return NULL;
    }
    return c;
}

static bool absolute(struct config *c, struct arena *a, const char *data_dir, struct error *err)
{
    char cwd[PATH_MAX];
    if (!getcwd(cwd, sizeof(cwd))) {
        return err_sys(err, errno, "current directory");
    }
    struct str dir =
        data_dir[0] == '/' ? str_fmt(a, "%s", data_dir) : str_fmt(a, "%s/%s", cwd, data_dir);
    while (dir.n > 1 && dir.p[dir.n - 1] == '/') {
        dir.n--;
    }
    char *copy = dir.p ? mem_strndup(dir.p, dir.n) : NULL;
    if (!copy) {
        return no_memory(err);
    }
    mem_free(c->data_dir);
    c->data_dir = copy;
    return true;
}

struct config *config_peek(const char *data_dir, const char *const *environ_list, struct error *err)
{
    auto_arena a = arena_new(LOAD_MAX);
    struct str text = STR_NONE;
    if (!a) {
        no_memory(err);
        return NULL;
    }
    if (config_read_file(a, z_fmt(a, "%s/config.yaml", data_dir), YAML_TEXT_MAX, &text, err)
            ? !has_text(text, err)
            : err->code != ERR_NOT_FOUND) {
        return NULL;
    }
    struct config *c = config_of_text(text, environ_list, err);
    if (c && !absolute(c, a, data_dir, err)) {
        config_free(c);
        return NULL;
    }
    return c;
}

static void unknown_below(const json_t *own, const json_t *known, struct buf *path, json_t *out)
{
    const char *key;
    json_t *value;
    size_t before = path->n;
    json_object_foreach ((json_t *)(uintptr_t)own, key, value) {
        const json_t *expected = json_object_get(known, key);
        buf_fmt(path, "%s%s", before ? "." : "", key);
        if (!expected) {
            json_array_append_new(out, json_strn(buf_view(path)));
        } else if (json_is_object(value) && json_object_size(expected) > 0) {
            unknown_below(value, expected, path, out);
        }
        path->n = before;
    }
}

json_t *config_unknown(const struct config *c)
{
    auto_buf path = BUF(4096);
    json_t *out = json_array();
    unknown_below(c->own, c->defaults, &path, out);
    return out;
}

void config_free(struct config *c)
{
    if (!c) {
        return;
    }
    json_decref(c->own);
    json_decref(c->defaults);
    json_decref(c->values);
    json_decref(c->texts);
    json_decref(c->words);
    mem_free(c->data_dir);
    /* Keys do not stay behind in freed memory. */
    explicit_bzero(c, sizeof(*c));
    mem_free(c);
}

/* ---- readers ------------------------------------------------------------------------------------------------------ */

const json_t *config_json(const struct config *c, const char *path)
{
    return json_at(c->values, path);
}

bool config_has(const struct config *c, const char *path)
{
    const json_t *j = json_at(c->own, path);
    return j && !json_is_null(j);
}

const char *config_str(const struct config *c, const char *path)
{
    const json_t *j = json_at(c->values, path);
    if (json_is_string(j)) {
        return json_string_value(j);
    }
    const char *text = json_string_value(json_object_get(c->texts, path));
    if (!text) {
        text = json_string_value(json_at(c->defaults, path));
    }
    return text ? text : "";
}

/* Integers, whole reals and their texts. */
static bool as_int(const json_t *j, int64_t *out)
{
    double f;
    if (json_is_integer(j)) {
        *out = json_integer_value(j);
        return true;
    }
    if (json_is_string(j)) {
        return str_to_i64(str_trim(json_sv(j)), out);
    }
    f = json_is_real(j) ? json_real_value(j) : 0.5;
    if (!(f >= -9e15 && f <= 9e15) || f != (double)(int64_t)f) {
        return false;
    }
    *out = (int64_t)f;
    return true;
}

int64_t config_int(const struct config *c, const char *path)
{
    int64_t n = 0;
    if (!as_int(json_at(c->values, path), &n)) {
        as_int(json_at(c->defaults, path), &n);
    }
    return n;
}

int64_t config_int_in(const struct config *c, const char *path, int64_t lo, int64_t hi)
{
    int64_t n = 0, standard = 0;
    as_int(json_at(c->defaults, path), &standard);
    if (as_int(json_at(c->values, path), &n) && n >= lo && n <= hi) {
        return n;
    }
    if (standard < lo) {
        standard = lo;
    } else if (standard > hi) {
        standard = hi;
    }
    log_warn("config",
             "setting is out of its bounds %lld..%lld, the default is used setting=%s value=%lld",
             (long long)lo, (long long)hi, path, (long long)standard);
    return standard;
}

double config_num(const struct config *c, const char *path)
{
    const json_t *j = json_at(c->values, path);
    double f;
    if (json_is_number(j)) {
        return json_number_value(j);
    }
    if (json_is_string(j) && str_to_f64(str_trim(json_sv(j)), &f)) {
        return f;
    }
    return json_number_value(json_at(c->defaults, path));
}

bool config_bool(const struct config *c, const char *path)
{
    const json_t *j = json_at(c->values, path);
    struct str s = str_trim(json_sv(j));
    if (json_is_boolean(j)) {
        return json_is_true(j);
    }
    if (str_ieqz(s, "true") || str_eqz(s, "1") || str_ieqz(s, "yes") || str_ieqz(s, "on")) {
        return true;
    }
    if (str_ieqz(s, "false") || str_eqz(s, "0") || str_ieqz(s, "no") || str_ieqz(s, "off")) {
        return false;
    }
    return json_is_true(json_at(c->defaults, path));
}

static bool list_add(json_t *list, struct str item)
{
    item = str_trim(item);
    return !item.n || json_array_append_new(list, json_strn(item)) == 0;
}

json_t *config_list(const struct config *c, const char *path)
{
    const json_t *j = json_at(c->values, path), *item;
    auto_json list = json_array();
    struct str rest, part;
    size_t i;
    if (!json_is_array(j) && !json_is_string(j)) {
        j = json_at(c->defaults, path);
    }
    if (!list) {
        return NULL;
    }
    if (json_is_string(j)) {
        rest = json_sv(j);
        while (str_split(&rest, ',', &part)) {
            if (!list_add(list, part)) {
                return NULL;
            }
        }
    }
    json_array_foreach (j, i, item) {
        auto_mem char *number = json_is_number(item) ? json_dump_z(item, JSON_ENCODE_ANY) : NULL;
        if (!list_add(list, number ? str_c(number) : json_sv(item))) {
            return NULL;
        }
    }
    return steal(list);
}

const char *config_data_dir(const struct config *c)
{
    return c->data_dir;
}

const char *config_path(const struct config *c, struct arena *a, const char *path)
{
    struct str s = str_c(path);
    if (str_starts(s, S("/"))) {
        return str_z(a, s);
    }
    while (str_starts(s, S("./"))) {
        s = str_sub(s, 2, s.n);
    }
    if (str_eqz(s, "data") || str_eqz(s, ".") || !s.n) {
        return str_z(a, str_c(c->data_dir));
    }
    if (str_starts(s, S("data/"))) {
        s = str_sub(s, 5, s.n);
    }
    return z_fmt(a, "%s/" STR_FMT, c->data_dir, STR_ARG(s));
}

const char *config_instance_id(const struct config *c)
{
    return c->instance_id;
}

int64_t config_instance_created(const struct config *c)
{
    return c->instance_created;
}

const unsigned char *config_secret_key(const struct config *c)
{
    return c->secret_key;
}

const json_t *config_sensitive_words(const struct config *c)
{
    return c->words;
}
