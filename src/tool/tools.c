/* The sources as one: their life, their catalogue for a run. tools-mcp-skills.md A1, A2. */
#include "tool/tool_private.h"

#include <ctype.h>
#include <stdio.h>

struct tools *tools_new(const struct tools_opts *o, struct error *err)
{
    struct tools *t = new (struct tools);
    if (!t) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    t->opts = *o;
    for (; tool_sources[t->opened]; t->opened++) {
        const struct tool_source *s = tool_sources[t->opened];
        if (!s->open)
            continue;
        t->own[t->opened] = s->open(t, err);
        if (!t->own[t->opened]) {
            err_wrap(err, "tools of %s", s->name);
            tools_free(t);
            return NULL;
        }
    }
    return t;
}

void tools_free(struct tools *t)
{
    if (!t)
        return;
    while (t->opened > 0)
        if (tool_sources[--t->opened]->close)
            tool_sources[t->opened]->close(t->own[t->opened]);
    map_free(&t->clashes);
    mem_free(t);
}

const struct tools_opts *tools_opts(const struct tools *t)
{
    return &t->opts;
}

void *tools_own(const struct tools *t, const struct tool_source *s)
{
    for (size_t i = 0; tool_sources[i]; i++)
        if (tool_sources[i] == s)
            return t->own[i];
    return NULL;
}

void tool_ask_bind(struct tool_ask *ask, const json_t *p)
{
    if (!json_b_or(p, "enable_all_mcp_servers", true))
        ask->mcp_servers = json_object_get(p, "mcp_servers");
    if (!json_b_or(p, "enable_all_skills", true))
        ask->skills = json_object_get(p, "skills");
    if (!json_b_or(p, "enable_all_plugins", true))
        ask->plugins = json_object_get(p, "plugins");
    ask->mcp_resources = json_b_or(p, "mcp_resource_agent_read_enabled", true);
}

/* ---- building ------------------------------------------------------------------------------------- */

struct arena *catalogue_arena(const struct catalogue *c)
{
    return c->arena;
}

size_t catalogue_count(const struct catalogue *c)
{
    return c->n;
}

const struct tool *catalogue_at(const struct catalogue *c, size_t i)
{
    return i < c->n ? c->items[i] : NULL;
}

static const char *copy(struct arena *a, const char *z)
{
    return z ? str_z(a, str_c(z)) : "";
}

bool catalogue_add(struct catalogue *c, const struct tool *from)
{
    if (c->n == TOOL_CATALOGUE_MAX) {
        c->full = true;
        return false;
    }
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 16;
        struct tool **items = arena_alloc(c->arena, cap * sizeof *items);
        if (!items)
            return false;
        if (c->n)
            memcpy(items, c->items, c->n * sizeof *items);
        c->items = items;
        c->cap = cap;
    }
    struct tool *t = arena_new_of(c->arena, struct tool);
    if (!t)
        return false;
    *t = *from;
    t->name = copy(c->arena, from->name);
    t->call_name = NULL;
    t->description = copy(c->arena, from->description);
    t->human_desc = copy(c->arena, from->human_desc);
    t->owner_name = copy(c->arena, from->owner_name);
    t->owner_id = from->owner_id ? copy(c->arena, from->owner_id) : NULL;
    t->parameters = arena_json(
        c->arena, from->parameters ? json_incref(from->parameters)
                                   : json_pack("{s:s,s:{}}", "type", "object", "properties"));
    if (arena_failed(c->arena) || !t->parameters)
        return false;
    c->items[c->n++] = t;
    return true;
}

/* ---- names: one for each (S8 #16) ------------------------------------------------------------------ */

static const struct tool *taken(const struct catalogue *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->items[i]->call_name && strcmp(c->items[i]->call_name, name) == 0)
            return c->items[i];
    return NULL;
}

static const struct tool_source *reserved_by(struct str name)
{
    for (size_t i = 0; tool_sources[i]; i++)
        if (tool_sources[i]->reserves && tool_sources[i]->reserves(name))
            return tool_sources[i];
    return NULL;
}

/* "<owner>__<name>" of the characters that every provider takes, with a number where that is taken as well. */
static const char *other_name(const struct catalogue *c, const struct tool *t)
{
    for (int number = 1; number <= TOOL_CATALOGUE_MAX + 1; number++) {
        char end[16] = "", made[TOOL_NAME_MAX + 1];
        if (number > 1)
            snprintf(end, sizeof end, "_%d", number);
        int room = TOOL_NAME_MAX - (int)strlen(end), name = (int)strlen(t->name);
        if (name > room - 4)
            name = room - 4;
        int owner = room - name - 2;
        snprintf(made, sizeof made, "%.*s__%.*s%s", owner, t->owner_name, name, t->name, end);
        for (char *p = made; *p; p++)
            if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
                *p = '_';
        if (!taken(c, made) && !reserved_by(str_c(made)))
            return str_z(c->arena, str_c(made));
    }
    return NULL;
}

static void tell(struct catalogue *c, const struct tool *t)
{
    auto_buf key = BUF(4096);
    buf_fmt(&key, "%s|%s|%s", c->ask.scope.workspace, t->owner_id ? t->owner_id : t->owner_name,
            t->name);
    struct tools *all = c->tools;
    if (key.failed || map_get(&all->clashes, buf_view(&key)) ||
        all->clashes.n >= TOOL_CLASHES_TOLD || !map_put(&all->clashes, buf_view(&key), all))
        return;
    log_warn("tool", "the name of a tool is taken name=%s source=%s owner=\"%s\"; called as %s",
             t->name, t->source->name, t->owner_name, t->call_name);
}

static bool name_one(struct catalogue *c, struct tool *t)
{
    const struct tool_source *keeper = reserved_by(str_c(t->name));
    if (*t->name && (!keeper || keeper == t->source) && !taken(c, t->name)) {
        t->call_name = t->name;
        return true;
    }
    t->call_name = other_name(c, t);
    if (!t->call_name)
        return false;
    tell(c, t);
    return true;
}

static bool name_all(struct catalogue *c)
{
    bool ok = true;
    for (int rank = 0; rank < TOOL_SOURCES_MAX; rank++)
        for (size_t i = 0; ok && i < c->n; i++)
            if (c->items[i]->source->rank == rank)
                ok = name_one(c, c->items[i]);
    return ok && !arena_failed(c->arena);
}

struct catalogue *catalogue_new(struct tools *t, const struct tool_ask *ask, struct arena *a,
                                struct error *err)
{
    struct catalogue *c = arena_new_of(a, struct catalogue);
    if (c)
        *c = (struct catalogue){.arena = a, .tools = t, .ask = *ask};
    for (size_t i = 0; c && i < t->opened; i++) {
        struct error why = {0};
        if (tool_sources[i]->list(t->own[i], c, ask, &why))
            continue;
        if (why.code == ERR_CANCELED) {
            *err = why;
            return NULL;
        }
        log_warn("tool", "tools are left out source=%s: %s", tool_sources[i]->name,
                 c->full ? "there are more than 1024" : why.msg);
    }
    if (c && name_all(c))
        return c;
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

/* ---- looking up ------------------------------------------------------------------------------------- */

const struct tool *catalogue_find(const struct catalogue *c, struct str call_name)
{
    for (size_t i = 0; i < c->n; i++)
        if (str_eqz(call_name, c->items[i]->call_name))
            return c->items[i];
    return NULL;
}

static json_t *bare_row(const struct tool *t)
{
    return json_pack("{s:s,s:s,s:s,s:O}", "name", t->name, "description", t->description,
                     "human_desc", t->human_desc, "parameters", t->parameters);
}

json_t *catalogue_rows(const struct catalogue *c)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const struct tool *t = c->items[i];
        if (t->unlisted)
            continue;
        json_t *row = bare_row(t);
        json_set(row, "source", json_string(t->source->shown));
        json_set(row, "source_name", json_string(t->owner_name));
        if (t->owner_id)
            json_set(row, "source_id", json_string(t->owner_id));
        if (t->call_name != t->name) {
            json_set(row, "call_name", json_string(t->call_name));
            json_set(row, "name_clash", json_true());
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o}", "tools", rows);
}

json_t *catalogue_row(const struct catalogue *c, struct str name)
{
    const struct tool *best = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const struct tool *t = c->items[i];
        if (!t->unlisted && (str_eqz(name, t->name) || str_eqz(name, t->call_name)) &&
            (!best || t->source->detail < best->source->detail))
            best = t;
    }
    return best ? bare_row(best) : NULL;
}

json_t *catalogue_offer(const struct catalogue *c, const struct tool_policy *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const struct tool *t = c->items[i];
        if (!tool_allowed(p, t))
            continue;
        /* Under another name the model is told whose it is. */
        const char *text = t->call_name == t->name ? t->description
                                                   : z_fmt(c->arena, "%s (%s of %s)",
                                                           t->description, t->name, t->owner_name);
        json_array_append_new(list, json_pack("{s:s,s:s,s:O}", "name", t->call_name, "description",
                                              text, "parameters", t->parameters));
    }
    return list;
}

/* ---- policy (S2) ------------------------------------------------------------------------------------- */

struct tool_policy tool_policy_of(const json_t *config)
{
    const json_t *agent = json_at(config, "ai.local-agent");
    const json_t *all = json_object_get(agent, "enable-all-tools"),
                 *named = json_object_get(agent, "tools");
    struct tool_policy p = {.denied = json_object_get(agent, "denied-tools")};
    if (json_is_false(all)) {
        p.allowed = json_is_array(named) ? named : NULL;
        p.none = !p.allowed;
    }
    return p;
}

static bool names(const json_t *list, const char *name)
{
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v) {
        if (str_eqz(json_sv(v), name))
            return true;
    }
    return false;
}

bool tool_allowed(const struct tool_policy *p, const struct tool *t)
{
    /* Something that is no list of names denies everything: a typing error must not open what was closed. */
    if (p->none || (p->denied && !json_is_null(p->denied) && !json_is_array(p->denied)))
        return false;
    if (names(p->denied, t->name) || names(p->denied, t->call_name))
        return false;
    return !p->allowed || names(p->allowed, t->call_name);
}
