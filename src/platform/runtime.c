/* The bots of the process: loading, replacing, unloading, finding; the public webhook address. platforms.md §1.3, §1.4. */
#include "platform/platform_private.h"
#include "platform/webchat.h"

#include <stdio.h>

#define PROXY_UUID "websocket-proxy-bot"

/* ---- instances -------------------------------------------------------------------------------------------------------------- */

static bool is_disabled(const struct platform *p, const char *adapter)
{
    size_t i;
    json_t *name;
    json_array_foreach (p->disabled, i, name) {
        if (str_eqz(json_sv(name), adapter))
            return true;
    }
    return false;
}

bool platform_adapter_enabled(const struct platform *p, const char *name)
{
    return adapter_find(name) && !is_disabled(p, name);
}

static const struct adapter *adapter_of_row(const struct platform *p, const json_t *row, bool proxy,
                                            struct error *err)
{
    const char *name = json_z_or(row, "adapter", "");
    const struct adapter *a = adapter_find(name);
    if (!a)
        a = adapter_unbuilt(name);
    if (!a || (a->hidden && !proxy) || is_disabled(p, name)) {
        err_set(err, ERR_INVALID, "adapter: \"%.100s\" is not available", name);
        return NULL;
    }
    return a;
}

static struct bot_box *box_open(struct bot *b, const struct adapter *a, const json_t *row,
                                struct error *err)
{
    struct bot_box *box = new (struct bot_box);
    if (!box) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    *box = (struct bot_box){.bot = b, .adapter = a};
    box->config = manifest_config(a, json_object_get(row, "adapter_config"), err);
    if (box->config && !b->checking && !(box->group = task_group_new(b->platform->group, "bot")))
        err_set(err, ERR_NOMEM, "out of memory");
    if (box->config && (b->checking || box->group)) {
        struct adapter_env env = {
            .bot = b, .platform = b->platform, .config = box->config, .group = box->group};
        box->instance = a->open(&env, err);
    }
    if (box->instance)
        return box;
    box_free(box);
    return NULL;
}

static void run_box(void *arg)
{
    struct bot_box *box = arg;
    struct bot *b = box->bot;
    struct error err = {0};
    bool ok = box->adapter->run(box->instance, &err);
    if (b->box != box || err.code == ERR_CANCELED || task_canceled())
        return;
    if (ok) {
        bot_state(b, "stopped");
        return;
    }
    bot_log(b, LOG_ERROR, NULL, NULL, "Exited with error. %s", err.msg);
    bot_state(b, "failed");
}

static void box_start(struct bot_box *box)
{
    struct bot *b = box->bot;
    struct error err = {0};
    if (!b->enabled) {
        bot_state(b, "disabled");
        return;
    }
    bot_state(b, "running");
    if (box->adapter->run && !task_spawn(box->group, "bot", run_box, box, &err)) {
        bot_log(b, LOG_ERROR, NULL, NULL, "Exited with error. %s", err.msg);
        bot_state(b, "failed");
    }
}

/* Ends its fibers; closes it now or when the last caller has left. */
static void box_stop(struct bot_box *box)
{
    struct error err = {0};
    struct task_deadline d;
    task_group_cancel(box->group);
    task_shield(true);
    task_deadline_push(&d, BOT_STOP_MS);
    if (!task_group_wait(box->group, &err))
        log_error("bot", "bot=%s did not stop within %d ms", box->bot->uuid, BOT_STOP_MS);
    task_deadline_pop(&d);
    task_shield(false);
    if (task_group_count(box->group) > 0)
        return; /* its fibers may still use it: left in memory rather than pulled from under them */
    box->retired = true;
    if (box->users == 0)
        box_free(box);
}

/* ---- bots ------------------------------------------------------------------------------------------------------------------- */

static struct str key_of(const struct scope *s, const char *uuid, char *out, size_t size)
{
    int n = snprintf(out, size, "%s|%s", s->workspace, uuid);
    return str_n(out, n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1);
}

static bool is_proxy(const struct bot *b)
{
    return strcmp(b->uuid, PROXY_UUID) == 0;
}

/* Out of the maps, all ended; the memory stays for runs that still hold the pointer. */
static void bot_remove(struct bot *b)
{
    struct platform *p = b->platform;
    char key[160];
    if (b->removed)
        return;
    b->removed = true;
    map_del(&p->bots, key_of(&b->scope, b->uuid, key, sizeof key));
    if (!is_proxy(b)) {
        map_del(&p->by_uuid, str_c(b->uuid));
        p->count--;
    }
    if (p->removed_n == p->removed_cap) {
        size_t cap = p->removed_cap ? p->removed_cap * 2 : 16;
        struct bot **grown = mem_realloc(p->removed, cap * sizeof *grown);
        if (grown) {
            p->removed = grown;
            p->removed_cap = cap;
        }
    }
    if (p->removed_n < p->removed_cap)
        p->removed[p->removed_n++] = b; /* otherwise it is never freed */
    struct bot_box *box = b->box;
    struct bot_keep keep = b->keep;
    b->box = NULL;
    b->keep = (struct bot_keep){0};
    bot_state(b, "stopped");
    bot_log_clear(b);
    if (box)
        box_stop(box);
    if (keep.p)
        keep.end(keep.p);
}

static void bot_free(struct bot *b)
{
    bot_log_free(b);
    if (b->box)
        box_free(b->box);
    if (b->keep.p)
        b->keep.end(b->keep.p);
    for (size_t i = 0; i < BOT_OLD_ROWS; i++)
        json_decref(b->old_rows[i]);
    json_decref(b->row);
    mem_free(b);
}

static void set_row(struct bot *b, json_t *row_stolen)
{
    size_t at = b->old_at++ % BOT_OLD_ROWS;
    json_decref(b->old_rows[at]);
    b->old_rows[at] = b->row;
    b->row = row_stolen;
    b->enabled = json_b_or(row_stolen, "enable", false);
}

static struct bot *bot_new(struct platform *p, const struct scope *s, const char *uuid,
                           struct error *err)
{
    char key[160];
    struct bot *b = new (struct bot);
    if (!b) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    b->platform = p;
    b->scope = *s;
    snprintf(b->uuid, sizeof b->uuid, "%s", uuid);
    if (!map_put(&p->bots, key_of(s, uuid, key, sizeof key), b)) {
        mem_free(b);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (is_proxy(b))
        return b;
    if (map_put(&p->by_uuid, str_c(uuid), b)) {
        p->count++;
        return b;
    }
    map_del(&p->bots, key_of(s, uuid, key, sizeof key));
    mem_free(b);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

/* A workspace whose placement moved on: what ran under older generations ends. Going back is an error. */
static bool fit_generation(struct platform *p, const struct scope *s, struct error *err)
{
    bool again;
    do {
        size_t pos = 0;
        struct str key;
        void *v;
        again = false;
        while (!again && map_next(&p->bots, &pos, &key, &v)) {
            struct bot *b = v;
            if (strcmp(b->scope.workspace, s->workspace) != 0 ||
                b->scope.generation == s->generation)
                continue;
            if (b->scope.generation > s->generation)
                return err_set(err, ERR_CONFLICT, "the workspace has a newer placement generation");
            bot_remove(b); /* waits: the map may have changed */
            again = true;
        }
    } while (again);
    return true;
}

/* The new instance takes the bot's place before the old one ends, so that nothing that comes meanwhile is refused. */
static void bot_swap(struct bot *b, struct bot_box *box)
{
    struct bot_box *old = b->box;
    if (b->keep.p && b->adapter && b->adapter != box->adapter) {
        b->keep.end(b->keep.p);
        b->keep = (struct bot_keep){0};
    }
    b->adapter = box->adapter;
    b->box = box;
    b->last_error[0] = '\0';
    if (old) {
        bot_log_clear(b);
        box_stop(old);
    }
    if (b->box == box)
        box_start(box);
}

static bool load(struct platform *p, const struct scope *s, const json_t *row, bool proxy,
                 struct error *err)
{
    const char *uuid = json_z_or(row, "uuid", "");
    const struct adapter *a = adapter_of_row(p, row, proxy, err);
    if (!a || (p->opts.fence && !fence_check(p->opts.fence, s, err)) || !fit_generation(p, s, err))
        return false;
    if (!*uuid || strlen(uuid) >= sizeof((struct bot *)0)->uuid)
        return err_set(err, ERR_INVALID, "uuid: not a bot's");
    char key[160];
    struct bot *b = map_get(&p->bots, key_of(s, uuid, key, sizeof key));
    const struct bot *other = map_get(&p->by_uuid, str_c(uuid));
    if (other && other != b)
        return err_set(err, ERR_CONFLICT, "bot %s is loaded in another workspace", uuid);
    bool fresh = !b;
    json_t *copy = json_deep_copy(row);
    if (!copy)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (fresh && !(b = bot_new(p, s, uuid, err))) {
        json_decref(copy);
        return false;
    }
    json_t *before = json_incref(b->row);
    if (fresh)
        b->adapter = a;
    set_row(b, copy);
    struct bot_box *box = box_open(b, a, row, err);
    if (!box) {
        if (fresh)
            bot_remove(b);
        else
            set_row(b, before);
        return false;
    }
    json_decref(before);
    bot_swap(b, box);
    return true;
}

bool platform_load(struct platform *p, const struct scope *s, const json_t *row, struct error *err)
{
    return load(p, s, row, false, err);
}

bool platform_check(struct platform *p, const struct scope *s, const json_t *row, struct error *err)
{
    const struct adapter *a = adapter_of_row(p, row, false, err);
    if (!a)
        return false;
    struct bot b = {.platform = p,
                    .scope = *s,
                    .adapter = a,
                    .checking = true,
                    .row = json_incref((json_t *)(uintptr_t)row)};
    b.enabled = json_b_or(row, "enable", false);
    struct bot_box *box = box_open(&b, a, row, err);
    if (box)
        box_free(box);
    json_decref(b.row);
    return box != NULL;
}

void platform_unload(struct platform *p, const struct scope *s, const char *uuid)
{
    struct bot *b = platform_bot(p, s, uuid);
    if (b)
        bot_remove(b);
}

struct bot *platform_bot(struct platform *p, const struct scope *s, const char *uuid)
{
    char key[160];
    struct bot *b = map_get(&p->bots, key_of(s, uuid, key, sizeof key));
    return b && scope_eq(&b->scope, s) ? b : NULL;
}

struct bot *platform_public_bot(struct platform *p, const char *uuid)
{
    struct bot *b = map_get(&p->by_uuid, str_c(uuid));
    struct error ignored = {0};
    return b && (!p->opts.fence || fence_check(p->opts.fence, &b->scope, &ignored)) ? b : NULL;
}

/* ---- the workspace's bot of the debug chat ------------------------------------------------------------------------------------- */

/* The proxy that was used longest ago and has no chat open goes when there are too many. */
static bool make_room(struct platform *p, struct error *err)
{
    int64_t most = config_int_in(p->opts.config, "system.websocket_retention.max_workspace_proxies",
                                 1, 1000000);
    int64_t have = 0;
    struct bot *oldest = NULL;
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&p->bots, &pos, &key, &v)) {
        struct bot *b = v;
        if (!is_proxy(b))
            continue;
        have++;
        if (oldest && b->used_us >= oldest->used_us)
            continue;
        auto_json chats = p->webchat ? webchat_connections(p->webchat, &b->scope, NULL) : NULL;
        if (json_array_size(json_object_get(chats, "connections")) == 0)
            oldest = b;
    }
    if (have < most)
        return true;
    if (!oldest)
        return err_set(err, ERR_CAPACITY,
                       "too many workspaces have an open debug chat (system.websocket_retention."
                       "max_workspace_proxies)");
    bot_remove(oldest);
    return true;
}

struct bot *platform_proxy_bot(struct platform *p, const struct scope *s, struct error *err)
{
    struct bot *b = platform_bot(p, s, PROXY_UUID);
    if (!b) {
        auto_json row = json_pack("{s:s,s:s,s:s,s:{},s:b}", "uuid", PROXY_UUID, "name", "WebSocket",
                                  "adapter", "websocket", "adapter_config", "enable", 1);
        if (!row || !make_room(p, err) || !load(p, s, row, true, err))
            return NULL;
        b = platform_bot(p, s, PROXY_UUID);
        if (!b)
            err_set(err, ERR_UNAVAILABLE, "the debug chat is not available");
    }
    if (b)
        b->used_us = time_mono_us();
    return b;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------- */

struct platform *platform_new(const struct platform_opts *o, struct error *err)
{
    struct platform *p = new (struct platform);
    if (p) {
        p->opts = *o;
        p->disabled = o->config ? config_list(o->config, "system.disabled_adapters") : NULL;
        p->group = task_group_new(o->group, "platform");
    }
    if (p && p->group)
        return p;
    if (p)
        json_decref(p->disabled);
    mem_free(p);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

static bool load_workspace(struct platform *p, const struct scope *s, struct error *err)
{
    auto_json rows =
        store_do_list(p->opts.store, &table_bots, s, NULL, 0, "uuid", -1, 0, true, err);
    if (!rows)
        return false;
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row) {
        struct error why = {0};
        if (!platform_load(p, s, row, &why))
            log_warn("bot", "bot=%s was not loaded: %s", json_z_or(row, "uuid", "?"), why.msg);
    }
    return true;
}

bool platform_start(struct platform *p, struct error *err)
{
    size_t pos = 0;
    struct scope s;
    while (p->opts.fence && fence_next(p->opts.fence, &pos, &s))
        if (!load_workspace(p, &s, err))
            return err_wrap(err, "the bots could not be read");
    return true;
}

static void stop_bot(void *arg)
{
    struct bot *b = arg;
    struct bot_box *box = b->box;
    b->enabled = false;
    if (b->keep.p && b->keep.stop)
        b->keep.stop(b->keep.p, BOT_DRAIN_MS);
    if (box) {
        b->box = NULL;
        box_stop(box);
    }
    bot_state(b, "stopped");
}

void platform_stop(struct platform *p)
{
    struct error err = {0};
    struct task_group *g = task_group_new(NULL, "stopping bots");
    p->stopping = true;
    size_t pos = 0;
    struct str key;
    void *v;
    while (g && map_next(&p->bots, &pos, &key, &v))
        if (!task_spawn(g, "bot stop", stop_bot, v, &err))
            log_warn("bot", "a bot was not stopped: %s", err.msg);
    struct task_deadline d;
    task_deadline_push(&d, BOT_STOP_MS + 1000);
    if (g && !task_group_wait(g, &err))
        log_warn("bot", "some bots did not stop: %s", err.msg);
    task_deadline_pop(&d);
    task_group_free(g);
    task_group_cancel(p->group);
}

void platform_free(struct platform *p)
{
    if (!p)
        return;
    task_group_cancel(p->group);
    struct error err = {0};
    struct task_deadline d;
    task_deadline_push(&d, 5000);
    if (!task_group_wait(p->group, &err))
        log_warn("bot", "some fibers of bots did not end: %s", err.msg);
    task_deadline_pop(&d);
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&p->bots, &pos, &key, &v))
        bot_free(v);
    for (size_t i = 0; i < p->removed_n; i++)
        bot_free(p->removed[i]);
    webchat_free(p->webchat);
    task_group_free(p->group);
    map_free(&p->bots);
    map_free(&p->by_uuid);
    json_decref(p->disabled);
    mem_free(p->removed);
    mem_free(p);
    manifests_free();
}

size_t platform_count(const struct platform *p)
{
    return p->count;
}

struct objects *platform_objects(const struct platform *p)
{
    return p->opts.objects;
}

const struct config *platform_config(const struct platform *p)
{
    return p->opts.config;
}

/* ---- the public address ---------------------------------------------------------------------------------------------------------- */

static void refuse(struct http_request *r, int status, const char *text)
{
    char body[128];
    int n = snprintf(body, sizeof body, "{\"error\":\"%s\"}", text);
    http_answer(r, status, "application/json", str_n(body, (size_t)n));
}

void platform_webhook(struct platform *p, struct http_request *r, struct str uuid,
                      struct str sub_path)
{
    char canonical[UUID_SIZE];
    struct bot *b =
        uuid_parse(uuid, canonical) ? platform_public_bot(p, str_z(r->arena, uuid)) : NULL;
    struct bot_box *box = NULL;
    if (!b)
        refuse(r, 404, "Bot not found");
    else if (!b->enabled)
        refuse(r, 403, "Bot is disabled");
    else if (!b->adapter->webhook || !b->adapter->webhook_request)
        refuse(r, 501, "Adapter does not support unified webhook");
    else if (!(box = bot_enter(b)))
        refuse(r, 404, "Bot not found"); /* it is just going away */
    if (!box)
        return;
    while (sub_path.n && sub_path.p[0] == '/')
        sub_path = str_sub(sub_path, 1, sub_path.n);
    box->adapter->webhook_request(box->instance, r, sub_path);
    bot_leave(box);
}
