/* What the files of config/ share with each other only. */
#ifndef PARLEY_CONFIG_PRIVATE_H
#define PARLEY_CONFIG_PRIVATE_H

#include "config/config.h"
#include "config/yaml.h"

struct config {
    char *data_dir;   /* absolute, without a slash at its end */
    json_t *own;      /* what the file and the environment say */
    json_t *defaults; /* the template */
    json_t *values;   /* own over defaults */
    json_t *texts;    /* dotted path -> text, for numbers where a text is wanted */
    json_t *words;    /* sensitive words */
    char instance_id[256];
    int64_t instance_created;
    unsigned char secret_key[32];
};

/* env.c: §6.2 on `own`, typed by `defaults` where `own` has no value. Names of variables are logged, never values. */
bool env_apply(json_t *own, const json_t *defaults, const char *const *environ_list,
               struct error *err) warn_unused;
/* Value of a variable in the list, NULL if absent. */
const char *env_get(const char *const *environ_list, const char *name);
/* env.c: the typed leaves of §6 that `own` lacks, from `defaults`. ERR_INVALID "<dotted path> must be a mapping". */
bool backfill(json_t *own, const json_t *defaults, struct error *err) warn_unused;

/* files.c: files that are replaced together. All are written before the first is waited for, and each directory is waited for
 * once: a start on a slow disk is made of such waits. Zeroed is empty. */
struct write_job {
    char *path, *content; /* owned */
    size_t size;
    int mode;
    bool durable; /* false: may be lost or empty after a power cut */
    char *temp;   /* owned; NULL when there is no such file (any more) */
    int fd;
};
struct writes {
    struct write_job jobs[4];
    size_t n;
};
/* Copies. A link is followed: what it points to is replaced. */
bool writes_add(struct writes *w, const char *path, struct str content, int mode, bool durable,
                struct error *err) warn_unused;
/* On failure each file is the old or the new one, and no other is left. */
bool writes_run(struct writes *w, struct error *err) warn_unused;
void writes_free(struct writes *w);

/* data.c: the files below the data directory (§6.3, §7). All fill fields of c; what must be written goes to w. */
bool data_directories(struct config *c, const char *data_dir, struct error *err) warn_unused;
bool data_instance(struct config *c, struct writes *w, struct error *err) warn_unused;
/* w NULL: nothing on the disk. */
bool data_secret_key(struct config *c, const char *from_env, struct writes *w,
                     struct error *err) warn_unused;
bool data_sensitive_words(struct config *c, struct writes *w, struct error *err) warn_unused;
bool data_default_words(struct config *c, struct error *err) warn_unused;
bool data_instance_id_set(struct config *c, struct str id, const char *where,
                          struct error *err) warn_unused;

#endif
