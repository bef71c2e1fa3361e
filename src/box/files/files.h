/* Private to box/files: file operations below a pinned directory. box.md §10.4 to §10.9. */
#ifndef PARLEY_BOX_FILES_H
#define PARLEY_BOX_FILES_H

#include "box/box.h"
#include "crypto/crypto.h"

#include <sys/stat.h>

/* ---- paths ---------------------------------------------------------------------------------- */
#define FILES_ROOT "/workspace"
/* The path as the model gave it, and what it means below the root. */
struct files_path {
    const char *given; /* for messages; arena */
    const char *full;  /* "/workspace/a/b" */
    const char *below; /* "a/b"; "" is the root itself */
};
/* `..` is resolved by the letter. `value` NULL or null: `fallback`. ERR_INVALID: outside, no
 * string, a NUL in it, too long. */
bool files_path(struct arena *a, const json_t *value, const char *fallback, struct files_path *out,
                struct error *err) warn_unused;
/* Opens without following any link; flags get O_CLOEXEC, O_NONBLOCK and O_NOCTTY. -1: ERR_NOT_FOUND for what
 * is missing or has a file in the middle, ERR_INVALID for a link, else raised. */
int files_open(int root, const struct files_path *p, int flags, struct error *err);
/* The directory that holds it, as an O_PATH descriptor, and the last component. `make`: missing
 * directories are made. ERR_INVALID for the root itself. */
int files_open_parent(int root, const struct files_path *p, bool make, const char **name,
                      struct error *err);
/* Opens `name` (one component) in `dir`; errors as files_open. */
int files_open_at(int dir, const char *name, const struct files_path *p, int flags, mode_t mode,
                  struct error *err);
/* What is made belongs to whom the directory belongs, as far as we may: the sandbox is to be able to
 * change it. */
void files_adopt(int dir, int made);
bool files_is_dir(int fd);
/* Component by component even where openat2 exists; for tests. */
extern bool files_without_openat2;

/* ---- arguments and results -------------------------------------------------------------------- */
/* Numbers that are none or out of range are no error (§10.2): also text and reals are read. */
int64_t files_int(const json_t *args, const char *key, int64_t fallback, int64_t lo, int64_t hi);
bool files_is(const json_t *args, const char *key, const char *word);
/* {ok:false, error}; NULL with err when memory ends. */
json_t *files_failed(struct error *err, const char *fmt, ...) printf_like(2, 3);
json_t *files_not_found(const struct files_path *p, struct error *err);
/* The object, or NULL and ERR_NOMEM. */
json_t *files_done(json_t *result, struct error *err);
/* Appends the text with what is no UTF-8 replaced by U+FFFD, or left out. False: full. */
bool files_utf8(struct buf *out, struct str bytes, bool replace);

/* ---- lines ------------------------------------------------------------------------------------ */
enum files_line { LINE_TEXT, LINE_LONG, LINE_END, LINE_FAILED };
/* Reads a file line by line; \n, \r and \r\n end one. */
struct files_lines {
    int fd;
    char *chunk; /* owned */
    size_t at, n;
    int64_t read; /* bytes so far */
    bool eof, skip_lf;
};
bool files_lines_open(struct files_lines *l, int fd, struct error *err) warn_unused;
void files_lines_close(struct files_lines *l); /* the descriptor stays the caller's */
/* The next line without its end, in `line` (NULL: only passed over). `ended`: there was an end.
 * LINE_LONG: `line` was full; the rest of the line is still to come. */
enum files_line files_next_line(struct files_lines *l, struct buf *line, bool *ended);
bool files_more(struct files_lines *l); /* another line follows */

/* ---- patterns and walks ------------------------------------------------------------------------ */
/* §10.8: right-anchored by components; each component "**" may also stand for none. */
bool files_match(struct str pattern, struct str path);
bool files_match_name(struct str pattern, struct str name);

struct files_walk {
    /* For each entry that is no link and not skipped. `rel` is below the start. False: stop. */
    bool (*visit)(void *arg, int dir, const char *name, struct str rel, const struct stat *st);
    void *arg;
    bool cut;     /* out: not everything was looked at */
    bool stopped; /* out: by visit */
};
/* Walks everything below `fd` (readable; borrowed), names in order. False: memory. */
bool files_walk(int fd, struct files_walk *w, struct error *err) warn_unused;

/* ---- the operations ------------------------------------------------------------------------------ */
json_t *files_read(int root, struct arena *a, const json_t *args, struct error *err);
json_t *files_write(int root, struct arena *a, const json_t *args, struct error *err);
json_t *files_edit(int root, struct arena *a, const json_t *args, struct error *err);
json_t *files_glob(int root, struct arena *a, const json_t *args, struct error *err);
json_t *files_grep(int root, struct arena *a, const json_t *args, struct error *err);

#endif
