/* Everything below a directory, in order of names, without recursion: one descriptor for each level, the depth bounded. No
 * link is followed. box.md §10.8. */
#include "box/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { REL_MAX = 32768 };

struct level {
    int fd;
    char *text; /* names, one behind the other */
    const char **names;
    size_t n, at;
    size_t rel; /* length of the path before its names */
};

static const char *const skipped[] = {".git", "node_modules", "__pycache__", ".venv",
                                      "venv", ".tox",         "dist",        "build"};

static bool skip(const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    for (size_t i = 0; i < array_len(skipped); i++)
        if (strcmp(name, skipped[i]) == 0)
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of a directory; *budget goes down by one for each. False: memory. */
static bool read_names(struct level *l, int64_t *budget, bool *cut)
{
    auto_buf text = BUF((size_t)BOX_FILE_SCAN_MAX * 256);
    int own = dup(l->fd);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    if (!d) {
        if (own >= 0)
            close(own);
        return true; /* unreadable ones are passed over */
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (skip(e->d_name))
            continue;
        if (*budget == 0) {
            *cut = true;
            break;
        }
        --*budget;
        buf_add(&text, e->d_name, strlen(e->d_name) + 1);
        l->n++;
    }
    closedir(d);
    l->names = mem_alloc((l->n + 1) * sizeof *l->names);
    if (text.failed || !l->names)
        return false;
    l->text = steal(text.p);
    const char *p = l->text;
    for (size_t i = 0; i < l->n; i++, p += strlen(p) + 1)
        l->names[i] = p;
    qsort(l->names, l->n, sizeof *l->names, by_name);
    return true;
}

static void level_end(struct level *l)
{
    mem_free(l->text);
    mem_free(l->names);
    if (l->fd >= 0)
        close(l->fd);
}

struct walker {
    struct level levels[BOX_FILE_DEPTH_MAX + 1];
    size_t depth; /* levels in use */
    struct buf rel;
    int64_t budget;
};

static bool enter(struct walker *k, struct files_walk *w, int fd, struct error *err)
{
    if (k->depth == array_len(k->levels)) {
        w->cut = true;
        close(fd);
        return true;
    }
    struct level *l = &k->levels[k->depth++];
    *l = (struct level){.fd = fd, .rel = k->rel.n};
    return read_names(l, &k->budget, &w->cut) || err_set(err, ERR_NOMEM, "out of memory");
}

/* The next entry of the deepest level. False: memory, or stopped. */
static bool step(struct walker *k, struct files_walk *w, struct error *err)
{
    struct level *l = &k->levels[k->depth - 1];
    const char *name = l->names[l->at++];
    struct stat st;
    k->rel.n = l->rel;
    if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISLNK(st.st_mode))
        return true;
    if (l->rel + strlen(name) + 2 > REL_MAX) {
        w->cut = true;
        return true;
    }
    if (!buf_z(&k->rel, name))
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!w->visit(w->arg, l->fd, name, buf_view(&k->rel), &st)) {
        w->stopped = true;
        return true;
    }
    if (!S_ISDIR(st.st_mode))
        return true;
    int fd = openat(l->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return true;
    buf_c(&k->rel, '/');
    return enter(k, w, fd, err);
}

bool files_walk(int fd, struct files_walk *w, struct error *err)
{
    struct walker *k = new (struct walker);
    int own = k ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    w->cut = w->stopped = false;
    if (own < 0) {
        mem_free(k);
        return k ? true : err_set(err, ERR_NOMEM, "out of memory");
    }
    k->rel = BUF(REL_MAX);
    k->budget = BOX_FILE_SCAN_MAX;
    bool ok = enter(k, w, own, err);
    while (ok && k->depth > 0 && !w->stopped) {
        struct level *l = &k->levels[k->depth - 1];
        if (l->at < l->n) {
            ok = step(k, w, err);
        } else {
            level_end(l);
            k->depth--;
        }
    }
    while (k->depth > 0)
        level_end(&k->levels[--k->depth]);
    buf_free(&k->rel);
    mem_free(k);
    return ok;
}
