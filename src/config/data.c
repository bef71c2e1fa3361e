/* data: the data directory and its small files: instance id, secret key, sensitive words (persistence-and-ops.md §6.3, §7). */
#include "config/config_private.h"
#include "crypto/crypto.h"
#include "task/task.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LABEL_MAX 65536
#define WORDS_MAX ((size_t)4 << 20)

static bool no_memory(struct error *err)
{
    return err_set(err, ERR_NOMEM, "out of memory");
}

static bool make_directory(const char *path, struct error *err)
{
    struct stat st;
    if (task_sys_mkdir(path, 0755) == 0) {
        return true;
    }
    if (errno == EEXIST && stat(path, &st) == 0) {
        return S_ISDIR(st.st_mode) || err_sys(err, ENOTDIR, "%s", path);
    }
    return err_sys(err, errno, "%s", path);
}

/* mkdir -p */
static bool make_path(const char *path, struct error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (!n || n >= sizeof(part)) {
        return err_sys(err, n ? ENAMETOOLONG : EINVAL, "data directory");
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            if (!make_directory(part, err)) {
                return false;
            }
        }
    }
    return true;
}

bool data_directories(struct config *c, const char *data_dir, struct error *err)
{
    static const char *const below[] = {"metadata", "logs", "labels", "temp", "storage"};
    char real[PATH_MAX], path[PATH_MAX];
    if (!make_path(data_dir, err)) {
        return false;
    }
    if (!realpath(data_dir, real)) {
        return err_sys(err, errno, "%s", data_dir);
    }
    for (size_t i = 0; i < array_len(below); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", real, below[i]) >= (int)sizeof(path)) {
            return err_sys(err, ENAMETOOLONG, "%s", data_dir);
        }
        if (!make_directory(path, err)) {
            return false;
        }
    }
    c->data_dir = mem_strndup(real, strlen(real));
    return c->data_dir || no_memory(err);
}

/* Indented by four, text kept as text. */
static bool write_json(struct writes *w, const char *path, const json_t *j, bool durable,
                       struct error *err)
{
    auto_mem char *text = json_dump_z(j, JSON_INDENT(4));
    return text ? writes_add(w, path, str_c(text), 0644, durable, err) : no_memory(err);
}

/* The object in a JSON file; *missing when there is no file (then NULL without an error). */
static json_t *read_object(struct arena *a, const char *path, size_t max, bool *missing,
                           struct error *err)
{
    struct str text;
    *missing = false;
    if (!config_read_file(a, path, max, &text, err)) {
        *missing = err->code == ERR_NOT_FOUND;
        return NULL;
    }
    auto_json j = json_parse(text, err);
    if (!j) {
        err_wrap(err, "%s", path);
        return NULL;
    }
    if (!json_is_object(j)) {
        err_set(err, ERR_INVALID, "%s: not a JSON object", path);
        return NULL;
    }
    return steal(j);
}

/* ---- instance ----------------------------------------------------------------------------------------------------- */

bool data_instance_id_set(struct config *c, struct str id, const char *where, struct error *err)
{
    id = str_trim(id);
    if (!id.n || id.n >= sizeof(c->instance_id) || str_chr(id, '\0') >= 0) {
        return err_set(err, ERR_INVALID, "%s: the instance id must have 1 to %zu bytes", where,
                       sizeof(c->instance_id) - 1);
    }
    memcpy(c->instance_id, id.p, id.n);
    c->instance_id[id.n] = '\0';
    return true;
}

static json_t *new_label(void)
{
    char id[UUID_SIZE];
    uuid4(id);
    return json_pack("{s:s+, s:I}", "instance_id", "instance_", id, "instance_create_ts",
                     (json_int_t)(time_wall_us() / 1000000));
}

bool data_instance(struct config *c, struct writes *w, struct error *err)
{
    auto_arena a = arena_new(LABEL_MAX * 4);
    const char *path = a ? config_path(c, a, "labels/instance_id.json") : "";
    bool missing = false, changed;
    if (!a || !*path) {
        return no_memory(err);
    }
    auto_json label = read_object(a, path, LABEL_MAX, &missing, err);
    if (!label && !missing) {
        return false;
    }
    changed = missing;
    if (!label) {
        label = new_label();
    }
    if (!label) {
        return no_memory(err);
    }
    if (json_i_or(label, "instance_create_ts", 0) <= 0) {
        changed = true;
        if (!json_set(label, "instance_create_ts", json_integer(time_wall_us() / 1000000))) {
            return no_memory(err);
        }
    }
    c->instance_created = json_i_or(label, "instance_create_ts", 0);
    /* An id that is set wins, but the file is made all the same: it is there when the setting goes away. */
    struct str set = str_trim(str_c(config_str(c, "system.instance_id")));
    if (!data_instance_id_set(c, set.n ? set : json_s(label, "instance_id"),
                              set.n ? "system.instance_id" : path, err)) {
        return false;
    }
    return !changed || write_json(w, path, label, true, err);
}

/* ---- secret key --------------------------------------------------------------------------------------------------- */

static bool key_of_text(struct arena *a, struct str text, unsigned char key[32])
{
    struct error ignored;
    struct str raw;
    text = str_trim(text);
    if (text.n == 64 && hex_decode(text, key)) {
        return true;
    }
    if (!base64_decode(a, text, 64, &raw, &ignored) || raw.n != 32) {
        return false;
    }
    memcpy(key, raw.p, 32);
    return true;
}

bool data_secret_key(struct config *c, const char *from_env, struct writes *w, struct error *err)
{
    auto_arena a = arena_new(LABEL_MAX * 4);
    struct str text;
    if (!a) {
        return no_memory(err);
    }
    if (from_env && *from_env) {
        return key_of_text(a, str_c(from_env), c->secret_key) ||
               err_set(err, arena_failed(a) ? ERR_NOMEM : ERR_INVALID,
                       "PARLEY_SECRET_KEY must be 32 bytes in base64 or hexadecimal");
    }
    if (!w) {
        crypto_random(c->secret_key, sizeof(c->secret_key));
        return true;
    }
    const char *path = config_path(c, a, "labels/secret.key");
    if (!*path) {
        return no_memory(err);
    }
    if (config_read_file(a, path, LABEL_MAX, &text, err)) {
        return key_of_text(a, text, c->secret_key) ||
               err_set(err, arena_failed(a) ? ERR_NOMEM : ERR_INVALID,
                       "%s must hold 32 bytes in base64 or hexadecimal", path);
    }
    if (err->code != ERR_NOT_FOUND) {
        return false;
    }
    crypto_random(c->secret_key, sizeof(c->secret_key));
    text = base64_encode(a, str_n((const char *)c->secret_key, sizeof(c->secret_key)));
    text = text.p ? str_fmt(a, STR_FMT "\n", STR_ARG(text)) : text;
    return text.p ? writes_add(w, path, text, 0600, true, err) : no_memory(err);
}

/* ---- sensitive words ---------------------------------------------------------------------------------------------- */

static json_t *default_words(void)
{
    return json_pack("{s:s, s:s, s:s, s:[]}", "explanation",
                     "mask replaces each character of a sensitive word; mask_word, when it is not "
                     "empty, replaces the whole word; words are regular expressions",
                     "mask", "*", "mask_word", "", "words");
}

bool data_default_words(struct config *c, struct error *err)
{
    c->words = default_words();
    return c->words || no_memory(err);
}

/* As read_object; an empty file counts as none: it is not waited for when it is made, so a power cut may leave it empty. */
static json_t *read_words(struct arena *a, const char *path, bool *missing, struct error *err)
{
    struct stat st;
    *missing = stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
    return *missing ? NULL : read_object(a, path, WORDS_MAX, missing, err);
}

bool data_sensitive_words(struct config *c, struct writes *w, struct error *err)
{
    static const char *const keys[] = {"mask", "mask_word", "words"};
    auto_arena a = arena_new(WORDS_MAX * 2);
    const char *path = a ? config_path(c, a, "metadata/sensitive-words.json") : "";
    bool missing = false, changed = false;
    auto_json whole = default_words();
    if (!a || !*path || !whole) {
        return no_memory(err);
    }
    auto_json words = read_words(a, path, &missing, err);
    if (!words && !missing) {
        return false;
    }
    if (!words) {
        changed = true;
        words = json_incref(whole);
    }
    for (size_t i = 0; i < array_len(keys); i++) {
        json_t *value = json_object_get(whole, keys[i]);
        if (!json_object_get(words, keys[i])) {
            changed = true;
            if (json_object_set(words, keys[i], value) != 0) {
                return no_memory(err);
            }
        } else if (json_typeof(json_object_get(words, keys[i])) != json_typeof(value)) {
            return err_set(err, ERR_INVALID, "%s: %s must be a %s", path, keys[i],
                           json_is_array(value) ? "list" : "text");
        }
    }
    if (changed && !write_json(w, path, words, false, err)) {
        return false;
    }
    c->words = steal(words);
    return true;
}
