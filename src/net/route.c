/* Router: a trie over path segments, built once from the route tables. */
#include "net/conn.h"

enum {
    SEGMENTS_MAX = 32,
    METHODS = HTTP_M_OTHER,
    PARAMS_MAX = array_len(((struct http_request *)0)->params)
};

struct route_node {
    struct str literal; /* view into the pattern */
    struct route_node **kids;
    size_t kid_count;
    struct route_node *integer, *any;
    const struct http_route *rest[METHODS];   /* "{x:path}" below this node */
    const struct http_route *routes[METHODS]; /* ending here */
    bool has_rest, has_routes;
};

struct router {
    struct route_node root;
};

static void node_clear(struct route_node *n)
{
    for (size_t i = 0; i < n->kid_count; i++) {
        node_clear(n->kids[i]);
        mem_free(n->kids[i]);
    }
    mem_free(n->kids);
    if (n->integer)
        node_clear(n->integer);
    if (n->any)
        node_clear(n->any);
    mem_free(n->integer);
    mem_free(n->any);
}

void router_free(struct router *rt)
{
    if (!rt)
        return;
    node_clear(&rt->root);
    mem_free(rt);
}

static struct route_node *literal_kid(const struct route_node *n, struct str text)
{
    for (size_t i = 0; i < n->kid_count; i++)
        if (str_eq(n->kids[i]->literal, text))
            return n->kids[i];
    return NULL;
}

/* The child for one segment of a pattern, made if need be. NULL: memory. */
static struct route_node *child(struct route_node *n, struct str segment)
{
    if (str_starts(segment, S("{"))) {
        struct route_node **at = str_ends(segment, S(":int}")) ? &n->integer : &n->any;
        if (!*at)
            *at = new (struct route_node);
        return *at;
    }
    struct route_node *kid = literal_kid(n, segment);
    if (kid)
        return kid;
    struct route_node **kids = mem_realloc(n->kids, (n->kid_count + 1) * sizeof(*kids));
    if (!kids)
        return NULL;
    n->kids = kids;
    kid = new (struct route_node);
    if (!kid)
        return NULL;
    kid->literal = segment;
    kids[n->kid_count++] = kid;
    return kid;
}

static bool segment_ok(struct str s)
{
    bool open = str_chr(s, '{') >= 0, close = str_chr(s, '}') >= 0;
    if (!open && !close)
        return true;
    if (!str_starts(s, S("{")) || !str_ends(s, S("}")) || s.n < 3)
        return false;
    ptrdiff_t colon = str_chr(s, ':');
    return colon < 0 || (colon > 1 && (str_ends(s, S(":int}")) || str_ends(s, S(":path}"))));
}

static bool add(struct router *rt, const struct http_route *route, struct error *err)
{
    struct str rest = str_c(route->pattern), segment;
    struct route_node *n = &rt->root;
    const struct http_route **slot = NULL;
    size_t params = 0, depth = 0;
    if ((unsigned)route->method >= METHODS || !route->handler || !str_starts(rest, S("/")))
        return err_set(err, ERR_INTERNAL, "route %s is malformed", route->pattern);
    rest = str_sub(rest, 1, rest.n);
    while (!slot && str_split(&rest, '/', &segment)) {
        if (!segment_ok(segment) || ++depth > SEGMENTS_MAX)
            return err_set(err, ERR_INTERNAL, "route %s is malformed", route->pattern);
        if (str_starts(segment, S("{")) && ++params > PARAMS_MAX)
            return err_set(err, ERR_INTERNAL, "route %s has too many parameters", route->pattern);
        if (str_ends(segment, S(":path}"))) {
            slot = &n->rest[route->method];
            n->has_rest = true;
        } else if (!(n = child(n, segment))) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    if (!slot) {
        slot = &n->routes[route->method];
        n->has_routes = true;
    } else if (rest.n > 0) {
        return err_set(err, ERR_INTERNAL, "route %s: a path parameter must be last",
                       route->pattern);
    }
    if (*slot)
        return err_set(err, ERR_INTERNAL, "route %s %s collides with %s",
                       http_method_name(route->method), route->pattern, (*slot)->pattern);
    *slot = route;
    return true;
}

struct router *router_new(const struct http_route *const *tables, struct error *err)
{
    struct router *rt = new (struct router);
    if (!rt) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    for (size_t t = 0; tables && tables[t]; t++) {
        for (const struct http_route *r = tables[t]; r->pattern; r++) {
            if (!add(rt, r, err)) {
                router_free(rt);
                return NULL;
            }
        }
    }
    return rt;
}

struct match {
    struct http_request *r;
    struct str segments[SEGMENTS_MAX];    /* decoded */
    struct str remains[SEGMENTS_MAX + 1]; /* from the segment on, raw */
    size_t count; /* may be one more than SEGMENTS_MAX: only remains is there then */
    unsigned method;
};

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0 && s.n <= 18;
}

static bool take(struct match *m, const struct http_route *const *routes, bool any)
{
    const struct http_route *route = m->method < METHODS ? routes[m->method] : NULL;
    if (!route && m->method == HTTP_M_HEAD)
        route = routes[HTTP_M_GET];
    if (!route) {
        m->r->path_known = m->r->path_known || any;
        for (unsigned i = 0; i < METHODS; i++)
            m->r->allowed |= routes[i] ? 1u << i : 0;
        return false;
    }
    m->r->route = route;
    return true;
}

static bool walk(struct match *m, const struct route_node *n, size_t i);

static bool walk_param(struct match *m, const struct route_node *n, size_t i)
{
    struct http_request *r = m->r;
    if (!n)
        return false;
    r->params[r->param_count++] = m->segments[i];
    if (walk(m, n, i + 1))
        return true;
    r->param_count--;
    return false;
}

/* Literals, then integers, then any segment, then the rest. As deep as the longest pattern. */
static bool walk(struct match *m, const struct route_node *n, size_t i)
{
    struct http_request *r = m->r;
    if (i == m->count)
        return take(m, n->routes, n->has_routes);
    if (i < SEGMENTS_MAX) {
        struct str s = m->segments[i];
        const struct route_node *kid = literal_kid(n, s);
        if (kid && walk(m, kid, i + 1))
            return true;
        if (n->integer && all_digits(s) && walk_param(m, n->integer, i))
            return true;
        if (s.n > 0 && walk_param(m, n->any, i))
            return true;
    }
    if (!n->has_rest || m->remains[i].n == 0 || !take(m, n->rest, true))
        return false;
    r->params[r->param_count++] = m->remains[i];
    return true;
}

static bool decode(struct arena *a, struct str *s)
{
    if (str_chr(*s, '%') >= 0)
        *s = url_decode(a, *s, false);
    return s->p != NULL;
}

bool router_match(const struct router *rt, struct http_request *r)
{
    struct match m;
    m.r = r;
    m.count = 0;
    m.method = r->method;
    struct str rest =
        str_starts(r->raw_path, S("/")) ? str_sub(r->raw_path, 1, r->raw_path.n) : r->raw_path;
    const char *end = rest.p + rest.n;
    for (;;) {
        m.remains[m.count] = str_n(rest.p, (size_t)(end - rest.p));
        if (m.count == SEGMENTS_MAX) {
            m.count++;
            break;
        }
        ptrdiff_t slash = str_chr(rest, '/');
        struct str segment = slash < 0 ? rest : str_sub(rest, 0, (size_t)slash);
        if (!decode(r->arena, &segment))
            return false;
        m.segments[m.count++] = segment;
        if (slash < 0)
            break;
        rest = str_sub(rest, (size_t)slash + 1, rest.n);
    }
    if (!walk(&m, &rt->root, 0)) {
        r->param_count = 0;
        return true;
    }
    r->path_known = true;
    /* What "{x:path}" took is still raw. */
    return r->param_count == 0 || decode(r->arena, &r->params[r->param_count - 1]);
}
