/* config: data/config.yaml with every key of persistence-and-ops.md §6, environment overrides, generated values, data directory.
 * Read once at start; values are then constants of the process. */
#ifndef PARLEY_CONFIG_H
#define PARLEY_CONFIG_H

#include "base/base.h"

struct config;
/* Loads (creating from the template asset "metadata/config.yaml" when missing), back-fills the typed leaves of §6, applies the
 * environment (§6.2, typed by the template where the file has no value), generates jwt secret and recovery key, rewrites the file
 * with comments kept (temp file, fsync, rename, mode 0600) only when something changed. `data_dir` is created with the
 * sub-directories of §7. `environ_list`: NULL-terminated "K=V" (tests), NULL: the process's. */
struct config *config_load(const char *data_dir, const char *const *environ_list,
                           struct error *err);
/* As config_load, but nothing on the disk is made or changed: what is missing is made up for this process only (doctor). */
struct config *config_peek(const char *data_dir, const char *const *environ_list,
                           struct error *err);
/* Dotted paths of the file's settings that the template does not know; new array. */
json_t *config_unknown(const struct config *c);
void config_free(struct config *c);
/* Without touching the disk: the template plus overrides (tests, doctor). */
struct config *config_of_text(struct str yaml, const char *const *environ_list, struct error *err);

/* Readers: dotted path. A missing or wrongly typed value gives the template's default (and a warning once). */
const char *config_str(const struct config *c, const char *path);
int64_t config_int(const struct config *c, const char *path); /* numeric strings count */
double config_num(const struct config *c, const char *path);
bool config_bool(const struct config *c, const char *path);
const json_t *config_json(const struct config *c,
                          const char *path); /* borrowed; NULL if absent everywhere */
/* True if the file or the environment gives a value (not null): what comes from the template alone does not count. */
bool config_has(const struct config *c, const char *path);
/* Clamped to lo..hi: out of range or no number → default with a warning (spec: "invalid → default"). */
int64_t config_int_in(const struct config *c, const char *path, int64_t lo, int64_t hi);
/* List of strings, from a list or a comma text (trimmed, empties dropped); new JSON array of strings. */
json_t *config_list(const struct config *c, const char *path);

const char *config_data_dir(const struct config *c); /* absolute */
/* Path below the data directory or, for relative paths of the file such as "data/langbot.db", what they mean (§7): a leading "data/"
 * is the data directory. In the arena. */
const char *config_path(const struct config *c, struct arena *a, const char *path);
const char *config_instance_id(
    const struct config *c); /* §6.3, "instance_<uuid4>" or system.instance_id */
int64_t config_instance_created(const struct config *c);
/* Key for sealing secrets: PARLEY_SECRET_KEY (base64 or hex of 32 bytes) or <data>/labels/secret.key (0600, created). */
const unsigned char *config_secret_key(const struct config *c); /* 32 bytes */
/* data/metadata/sensitive-words.json (§6.3), completed and rewritten at start. Borrowed object {words, mask, mask_word}. */
const json_t *config_sensitive_words(const struct config *c);
/* Whole-file replace: temp file in the same directory, fsync, rename, fsync of the directory. Blocking: worker or start-up. */
bool config_write_file(const char *path, struct str content, int mode,
                       struct error *err) warn_unused;
bool config_read_file(struct arena *a, const char *path, size_t max, struct str *out,
                      struct error *err) warn_unused;
/* YAML text (metadata documents) to JSON; new reference. */
json_t *config_yaml_to_json(struct str yaml, const char *name, struct error *err);

#endif
