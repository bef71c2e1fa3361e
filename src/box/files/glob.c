/* The tool glob. box.md §10.8. */
#include "box/files/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct hit {
    int64_t ns;
    char *path; /* below the start; owned */
};

struct glob {
    struct str pattern;
    struct hit best[BOX_FILE_GLOB_MATCHES]; /* the newest so far, in no order */
    size_t n, oldest;
    int64_t total;
    bool no_memory;
};

/* Newest first, then the greater path. */
static int order(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return -strcmp(x->path, y->path);
}

static bool visit(void *arg, int dir, const char *name, struct str rel, const struct stat *st)
{
    struct glob *g = arg;
    if (!files_match(g->pattern, rel))
        return true;
    g->total++;
    struct hit h = {(int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                    mem_strndup(rel.p, rel.n)};
    g->no_memory = !h.path;
    if (g->no_memory)
        return false;
    if (g->n < array_len(g->best)) {
        g->best[g->n++] = h;
    } else if (order(&h, &g->best[g->oldest]) < 0) {
        mem_free(g->best[g->oldest].path);
        g->best[g->oldest] = h;
    } else {
        mem_free(h.path);
        return true;
    }
    g->oldest = 0;
    for (size_t i = 1; g->n == array_len(g->best) && i < g->n; i++)
        if (order(&g->best[i], &g->best[g->oldest]) > 0)
            g->oldest = i;
    return true;
}

static json_t *result_of(struct glob *g, const struct files_path *p, bool cut, struct error *err)
{
    qsort(g->best, g->n, sizeof *g->best, order);
    auto_json matches = json_array();
    auto_buf preview = BUF(BOX_FILE_OUTPUT_MAX);
    auto_buf one = BUF(65536);
    bool full = false;
    for (size_t i = 0; i < g->n && !full; i++) {
        buf_clear(&one);
        buf_fmt(&one, "%s/", p->full);
        files_utf8(&one, str_c(g->best[i].path), true);
        full = one.failed || preview.n + one.n + (i > 0) > BOX_FILE_OUTPUT_MAX;
        if (full)
            break;
        if (i > 0)
            buf_c(&preview, '\n');
        buf_str(&preview, buf_view(&one));
        json_array_append_new(matches, json_strn(buf_view(&one)));
    }
    const char *by = cut                                ? "scan"
                     : full                             ? "bytes"
                     : g->total > BOX_FILE_GLOB_MATCHES ? "matches"
                                                        : NULL;
    return files_done(json_pack("{s:b,s:O,s:o,s:I,s:b,s:o}", "ok", 1, "matches", matches, "preview",
                                json_strn(buf_view(&preview)), "total", (json_int_t)g->total,
                                "truncated", by != NULL, "truncated_by",
                                by ? json_string(by) : json_null()),
                      err);
}

json_t *files_glob(int root, struct arena *a, const json_t *args, struct error *err)
{
    struct files_path p;
    struct glob g = {.pattern = json_s(args, "pattern")};
    if (!files_path(a, json_object_get(args, "path"), FILES_ROOT, &p, err))
        return NULL;
    if (g.pattern.n == 0)
        return files_failed(err, "pattern must be a string that is not empty");
    auto_fd fd = files_open(root, &p, O_RDONLY | O_DIRECTORY, err);
    if (fd < 0)
        return err->code == ERR_NOT_FOUND
                   ? files_failed(err, "Path is not a directory: %s", p.given)
                   : NULL;
    /* A pattern for the whole path means the place that it names. */
    struct str start = str_fmt(a, "%s/", p.full);
    if (str_starts(g.pattern, start))
        g.pattern = str_sub(g.pattern, start.n, g.pattern.n);
    struct files_walk w = {.visit = visit, .arg = &g};
    json_t *result = NULL;
    if (g.pattern.n > 0 && g.pattern.p[0] == '/')
        result = result_of(&g, &p, false, err); /* of another place: nothing here is called so */
    else if (files_walk(fd, &w, err) && !g.no_memory)
        result = result_of(&g, &p, w.cut, err);
    for (size_t i = 0; i < g.n; i++)
        mem_free(g.best[i].path);
    return result;
}
