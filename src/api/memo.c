/* Answers that are kept as text until what they were made of changes. */
#include "api/api_private.h"

enum { TEXT_MAX = 32 << 10, ALL_MAX = 1 << 20 };

struct memo {
    uint64_t version;
    size_t n;
    char text[];
};

/* Who asks counts by what it may see: two callers with equal permissions in one workspace get the same. */
static struct str key_of(struct http_request *r, const char *of)
{
    const struct principal *p = api_principal(r);
    struct str parts[] = {str_n((const char *)&p->permissions, sizeof p->permissions),
                          str_n(p->scope.workspace, strlen(p->scope.workspace) + 1),
                          str_n(of, strlen(of) + 1), r->path};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < array_len(parts); i++)
        n += parts[i].n;
    char *key = arena_alloc(r->arena, n);
    for (size_t i = 0; key && i < array_len(parts); i++) {
        memcpy(key + at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    return key ? str_n(key, n) : STR_NONE;
}

bool api_memo_find(struct http_request *r, unsigned group, const char *of, struct api_memo *m)
{
    struct api *a = api_of(r);
    *m = (struct api_memo){.group = group};
    if (!db_cacheable(a->store->db))
        return false;
    m->version = db_version_of(a->store->db, group);
    m->key = key_of(r, of);
    const struct memo *kept = m->key.p ? map_get(&a->p->memos, m->key) : NULL;
    if (!kept || kept->version != m->version)
        return false;
    http_answer(r, 200, "application/json", str_n(kept->text, kept->n));
    return true;
}

static void keep(struct api *a, const struct api_memo *m, struct str text)
{
    if (!m->key.p || text.n > TEXT_MAX || m->version != db_version_of(a->store->db, m->group))
        return;
    struct memo *old = map_get(&a->p->memos, m->key);
    if (a->p->memo_bytes + text.n + m->key.n > ALL_MAX) {
        api_memos_free(a);
        old = NULL;
    }
    struct memo *fresh = mem_alloc(sizeof *fresh + text.n);
    if (!fresh || !map_put(&a->p->memos, m->key, fresh)) {
        mem_free(fresh);
        return;
    }
    fresh->version = m->version;
    fresh->n = text.n;
    memcpy(fresh->text, text.p, text.n);
    a->p->memo_bytes += text.n + (old ? 0 : m->key.n);
    a->p->memo_bytes -= old ? old->n : 0;
    mem_free(old);
}

void api_memo_ok(struct http_request *r, const struct api_memo *m, json_t *data)
{
    auto_buf b = BUF(256u << 20);
    auto_json whole = json_pack("{s:i,s:s,s:o}", "code", 0, "msg", "ok", "data", data);
    if (!whole || !json_put(&b, whole)) {
        struct error err = {0};
        err_set(&err, ERR_NOMEM, "out of memory");
        api_error(r, &err);
        return;
    }
    keep(api_of(r), m, buf_view(&b));
    http_answer(r, 200, "application/json", buf_view(&b));
}

void api_memos_free(struct api *a)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&a->p->memos, &pos, &key, &v))
        mem_free(v);
    map_free(&a->p->memos);
    a->p->memo_bytes = 0;
}
