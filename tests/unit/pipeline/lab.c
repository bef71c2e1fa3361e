#include "pipeline/lab.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct lab *the_lab;

bool lab_check(struct lab *l, bool ok, const char *what, const char *file, int line)
{
    if (!ok) {
        l->failures++;
        print_error("%s:%d: %s\n", file, line, what);
    }
    return ok;
}

void lab_check_text(struct lab *l, const char *got, const char *want, const char *file, int line)
{
    if (!lab_check(l, strcmp(got, want) == 0, "texts differ", file, line))
        print_error("  got  %.500s\n  want %s\n", got, want);
}

void lab_sleep(int64_t ms)
{
    struct error err = {0};
    if (!task_sleep_ms(ms, &err))
        print_error("%s\n", err.msg);
}

/* ---- platform/ ------------------------------------------------------------------------------------------------------- */

struct bot *platform_bot(struct platform *p, const struct scope *s, const char *uuid)
{
    for (size_t i = 0; i < the_lab->bot_n; i++) {
        struct bot *b = &the_lab->bots[i];
        if (!b->gone && strcmp(b->uuid, uuid) == 0 && scope_eq(&b->scope, s))
            return b;
    }
    return NULL;
}

struct bot *platform_proxy_bot(struct platform *p, const struct scope *s, struct error *err)
{
    err_set(err, ERR_NOT_FOUND, "no proxy here");
    return NULL;
}

const char *bot_uuid(const struct bot *b)
{
    return b->uuid;
}

const char *bot_name(const struct bot *b)
{
    return json_z_or(b->row, "name", "");
}

const struct scope *bot_scope(const struct bot *b)
{
    return &b->scope;
}

const struct adapter *bot_adapter(const struct bot *b)
{
    return &b->lab->adapter;
}

void *bot_instance(const struct bot *b)
{
    return b->gone ? NULL : b->lab;
}

const json_t *bot_row(const struct bot *b)
{
    return b->row;
}

const char *bot_account_id(const struct bot *b)
{
    return "thebot";
}

const char *bot_default_pipeline(const struct bot *b)
{
    return json_z_or(b->row, "use_pipeline_uuid", "");
}

const json_t *bot_rules(const struct bot *b)
{
    return json_object_get(b->row, "pipeline_routing_rules");
}

bool bot_streams(const struct bot *b)
{
    return b->lab->adapter.streaming;
}

void bot_log(struct bot *b, enum log_level level, const json_t *images, const char *session,
             const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->lab->log, sizeof b->lab->log, fmt, ap);
    va_end(ap);
}

bool bot_card(struct bot *b, const struct reply *r, struct error *err)
{
    b->lab->cards++;
    return true;
}

void bot_activity(struct bot *b, const struct reply *r, const json_t *call)
{
    struct lab *l = b->lab;
    if (l->activity_n < array_len(l->activity))
        l->activity[l->activity_n++] = json_deep_copy(call);
}

static void copy(char *out, const char *z)
{
    snprintf(out, 64, "%s", z ? z : "");
}

enum reply_result bot_reply(struct bot *b, const struct reply *r, struct error *err)
{
    struct lab *l = b->lab;
    if (l->n == array_len(l->parts))
        return REPLY_SENT;
    struct lab_part *p = &l->parts[l->n++];
    auto_arena a = arena_new(16 << 20);
    struct str text = chain_text(a, r->chain);
    *p = (struct lab_part){.text = mem_strndup(text.p, text.n),
                           .chain = json_deep_copy(r->chain),
                           .is_chunk = r->is_chunk,
                           .is_final = r->is_final,
                           .tool_calls = r->tool_calls,
                           .tools = json_array_size(r->tools),
                           .quote = r->quote_origin,
                           .number = r->number};
    copy(p->delivery, r->delivery_id);
    copy(p->message, r->message_id);
    copy(p->response, r->response_id);
    copy(p->launcher, r->launcher_id);
    copy(p->sender, r->event->sender_id);
    task_cond_notify_all(&l->came);
    if (b->gone || l->fail_part == l->n) {
        err_set(err, ERR_UPSTREAM, "the peer refused");
        return REPLY_FAILED;
    }
    return l->answer;
}

static enum reply_result redeliver(void *instance, const json_t *row, struct error *err)
{
    struct lab *l = instance;
    l->redelivered++;
    return REPLY_SENT;
}

/* ---- model/ ------------------------------------------------------------------------------------------------------------- */

struct model *models_get(struct models *m, const struct scope *s, enum model_kind k,
                         const char *uuid, struct error *err)
{
    char word[64];
    snprintf(word, sizeof word, " %.60s ", uuid);
    if (the_lab->models && strstr(the_lab->models, word))
        return (struct model *)(void *)the_lab;
    err_set(err, ERR_NOT_FOUND, "LLM model %s not found", uuid);
    return NULL;
}

void model_unref(struct model *m) {}

const char *model_name(const struct model *m)
{
    return "modelname";
}

bool model_can(const struct model *m, const char *ability)
{
    return strcmp(ability, "vision") == 0 && the_lab->model_vision;
}

/* ---- agent/ --------------------------------------------------------------------------------------------------------------- */

static void keep(json_t **slot, const json_t *value)
{
    json_decref(*slot);
    *slot = json_deep_copy(value);
}

static bool give(const struct agent_run *r, struct str text, bool chunk, bool final, int64_t number,
                 struct error *err)
{
    auto_json m = llm_message("assistant", text);
    struct agent_output o = {
        .message = m, .is_chunk = chunk, .is_final = final, .sequence = number};
    return r->emit(r->arg, &o, err);
}

static bool echo(struct lab *l, const struct agent_run *r, struct error *err)
{
    struct query *q = r->query;
    struct str text =
        str_fmt(q->arena, "echo: " STR_FMT, STR_ARG(json_s(q->variables, "user_message_text")));
    if (!r->stream)
        return give(r, text, false, true, 1, err);
    return give(r, S("echo"), true, false, 1, err) && give(r, text, true, false, 2, err) &&
           give(r, text, true, true, 3, err);
}

static bool run(const struct agent_run *r, struct error *err)
{
    struct lab *l = the_lab;
    struct query *q = r->query;
    struct str text = json_s(q->variables, "user_message_text");
    if (l->runs < array_len(l->order))
        snprintf(l->order[l->runs], sizeof l->order[0], STR_FMT, (int)(text.n < 31 ? text.n : 31),
                 text.p ? text.p : "");
    l->runs++;
    if (++l->running > l->most_running)
        l->most_running = l->running;
    keep(&l->prompt, q->prompt);
    keep(&l->messages, q->messages);
    keep(&l->user, q->user_message);
    keep(&l->variables, q->variables);
    task_cond_notify_all(&l->ran);
    bool ok = !l->run_ms || task_sleep_ms(l->run_ms, err);
    while (ok && l->hold)
        ok = task_cond_wait(&l->go, err);
    ok = ok && (l->run ? l->run(l, r, err) : echo(l, r, err));
    l->running--;
    return ok;
}

static const struct runner fake = {.name = "local-agent", .run = run};

const struct runner *runner_find(const char *name)
{
    return strcmp(name, "local-agent") == 0 || strcmp(name, "dify-service-api") == 0 ? &fake : NULL;
}

/* ---- messages ----------------------------------------------------------------------------------------------------------------- */

struct bot *lab_bot(struct lab *l, size_t i)
{
    return &l->bots[i];
}

bool lab_accept(struct lab *l, const struct lab_say *s, struct accepted *out, struct error *err)
{
    struct error bad = {0};
    auto_json chain =
        s->chain ? json_parse_words(str_c(s->chain), &bad) : chain_of_text(str_c(s->text));
    struct chat_event ev = {.launcher = s->group ? LAUNCHER_GROUP : LAUNCHER_PERSON,
                            .sender_id = s->sender,
                            .sender_name = "Ann",
                            .group_id = s->group ? s->group : "",
                            .group_name = s->group ? "The group" : "",
                            .chain = chain,
                            .time = 1700000000};
    struct accept_opts o = {.dedupe_key = s->key,
                            .pipeline = s->pipeline,
                            .message_id = s->id,
                            .no_stream = s->no_stream,
                            .ephemeral = s->ephemeral};
    struct platform_host h = engine_host(l->engine);
    *err = (struct error){0};
    return h.accept(h.arg, s->bot ? s->bot : &l->bots[0], &ev, &o, out, err);
}

static bool say(struct lab *l, const struct lab_say *s)
{
    struct accepted out;
    struct error err;
    bool ok = lab_accept(l, s, &out, &err);
    if (!ok)
        print_error("not accepted: %s\n", err.msg);
    return ok;
}

bool lab_say(struct lab *l, const char *sender, const char *group, const char *text)
{
    return say(l, &(struct lab_say){.sender = sender, .group = group, .text = text});
}

bool lab_chain(struct lab *l, const char *sender, const char *group, const char *chain)
{
    return say(l, &(struct lab_say){.sender = sender, .group = group, .chain = chain});
}

static bool wait_for(struct task_cond *c, const size_t *value, size_t n)
{
    struct error err = {0};
    struct task_deadline d;
    task_deadline_push(&d, 5000);
    while (*value < n && task_cond_wait(c, &err))
        ;
    task_deadline_pop(&d);
    return *value >= n;
}

bool lab_wait(struct lab *l, size_t parts)
{
    return wait_for(&l->came, &l->n, parts);
}

bool lab_runs(struct lab *l, size_t runs)
{
    return wait_for(&l->ran, &l->runs, runs);
}

void lab_idle(struct lab *l)
{
    struct error err = {0};
    int tries = 0;
    struct engine_stats s;
    do {
        lab_sleep(2);
        engine_stats_get(l->engine, &s);
    } while ((s.queued || s.running) && ++tries < 2500);
    check(l, tries < 2500);
    check(l, engine_flush(l->engine, &err) && db_drain(l->store.db, &err));
}

void lab_release(struct lab *l)
{
    l->hold = false;
    task_cond_notify_all(&l->go);
}

const char *lab_text(const struct lab *l, size_t i)
{
    return i < l->n && l->parts[i].text ? l->parts[i].text : "";
}

void lab_clear(struct lab *l)
{
    for (size_t i = 0; i < l->n; i++) {
        mem_free(l->parts[i].text);
        json_decref(l->parts[i].chain);
    }
    for (size_t i = 0; i < l->activity_n; i++)
        json_decref(l->activity[i]);
    l->activity_n = 0;
    l->n = l->cards = l->runs = l->most_running = 0;
}

const char *lab_ask(struct lab *l, const char *patch, const char *group, const char *text)
{
    lab_clear(l);
    lab_pipe(l, LAB_PIPE, patch);
    lab_say(l, "ann", group, text);
    lab_idle(l);
    return lab_text(l, 0);
}

/* ---- the database ----------------------------------------------------------------------------------------------------------- */

struct ask {
    const char *sql;
    char *out;
    size_t size;
};

static bool do_ask(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *a = arg;
    struct db_rows rows;
    if (!db_query_text(tx, a->sql, NULL, 0, &rows, err))
        return false;
    const struct db_val *v = rows.n ? db_at(&rows, 0, 0) : NULL;
    if (v && v->type == DB_INT)
        snprintf(a->out, a->size, "%lld", (long long)v->i);
    else if (v && v->type == DB_TEXT)
        snprintf(a->out, a->size, STR_FMT, (int)(v->s.n < a->size ? v->s.n : a->size - 1), v->s.p);
    return true;
}

const char *lab_value(struct lab *l, const char *sql, char *out, size_t size)
{
    struct error err = {0};
    struct ask a = {sql, out, size};
    out[0] = '\0';
    if (!db_read(l->store.db, scope_db(&l->scope), do_ask, &a, &err))
        print_error("%s: %s\n", sql, err.msg);
    return out;
}

int64_t lab_count(struct lab *l, const char *sql)
{
    char text[32];
    return strtoll(lab_value(l, sql, text, sizeof text), NULL, 10);
}

static void merge(json_t *into, const json_t *from)
{
    const char *k;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)from, k, v) {
        json_t *old = json_object_get(into, k);
        if (json_is_object(old) && json_is_object(v))
            merge(old, v);
        else
            json_object_set(into, k, v);
    }
}

void lab_pipe(struct lab *l, const char *uuid, const char *patch)
{
    struct error err = {0};
    auto_json more = json_parse_words(str_c(patch), &err);
    if (!more)
        print_error("%s: %s\n", patch, err.msg);
    auto_json config = json_deep_copy(pipeline_default_config());
    merge(config, more);
    struct store_eq key = EQ_Z("uuid", uuid);
    auto_json change = json_pack("{s:O}", "config", config);
    if (store_do_update(&l->store, &table_pipelines, &l->scope, &key, 1, change, true, &err))
        return;
    auto_json row = json_pack("{s:s,s:s,s:s,s:O,s:[],s:s}", "uuid", uuid, "name", "Pipe",
                              "description", "", "config", config, "stages", "for_version", "1");
    err = (struct error){0};
    auto_json made = store_do_insert(&l->store, &table_pipelines, &l->scope, row, &err);
    if (!lab_check(l, made != NULL, "a pipeline is made", __FILE__, __LINE__))
        print_error("%s\n", err.msg);
}

/* ---- life --------------------------------------------------------------------------------------------------------------------- */

static bool start(struct lab *l, struct error *err)
{
    struct engine_opts o = {
        .store = &l->store, .config = l->config, .fence = l->fence, .group = l->group};
    l->engine = engine_new(&o, err);
    return l->engine && engine_start(l->engine, err);
}

static void stop(struct lab *l, int64_t grace_ms)
{
    if (l->engine)
        engine_stop(l->engine, grace_ms);
    engine_free(l->engine);
    l->engine = NULL;
}

void lab_restart(struct lab *l)
{
    struct error err = {0};
    stop(l, 0);
    if (!lab_check(l, db_drain(l->store.db, &err) && start(l, &err), "the engine starts again",
                   __FILE__, __LINE__))
        print_error("%s\n", err.msg);
}

static void add_bot(struct lab *l, const struct scope *s, const char *uuid)
{
    struct bot *b = &l->bots[l->bot_n++];
    b->lab = l;
    b->scope = *s;
    snprintf(b->uuid, sizeof b->uuid, "%s", uuid);
    b->row = json_pack("{s:s,s:s,s:s,s:[]}", "name", "Bot", "use_pipeline_uuid", LAB_PIPE,
                       "use_pipeline_name", "Pipe", "pipeline_routing_rules");
}

static struct scope scope_of(const char *workspace)
{
    struct scope s = {.generation = 1};
    snprintf(s.instance, sizeof s.instance, "lab");
    snprintf(s.workspace, sizeof s.workspace, "%s", workspace);
    return s;
}

static bool open_all(struct lab *l, struct error *err)
{
    char path[128];
    snprintf(path, sizeof path, "%s/a.db", l->dir);
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct http_client_opts client = {0};
    l->scope = scope_of("0b8a4c0e-2222-4222-8222-000000000002");
    l->scope2 = scope_of("0b8a4c0e-2222-4222-8222-000000000003");
    l->adapter =
        (struct adapter){.name = "lab", .class_name = "LabAdapter", .redeliver = redeliver};
    l->answer = REPLY_SENT;
    l->fence = fence_new("lab");
    l->config = config_of_text(str_c(l->yaml), NULL, err);
    l->group = task_group_new(NULL, "lab");
    if (!l->config || !fence_set(l->fence, l->scope.workspace, 1, true, err) ||
        !fence_set(l->fence, l->scope2.workspace, 1, true, err) || !http_client_init(&client, err))
        return false;
    l->store.db = db_open(&o, err);
    if (!l->store.db || !db_migrate(l->store.db, NULL, err) ||
        !db_foreign_keys(l->store.db, false, err))
        return false;
    add_bot(l, &l->scope, LAB_BOT);
    add_bot(l, &l->scope, LAB_OTHER);
    add_bot(l, &l->scope2, LAB_BOT);
    lab_pipe(l, LAB_PIPE, "{}");
    return start(l, err);
}

static void close_all(struct lab *l)
{
    stop(l, 200);
    lab_clear(l);
    for (size_t i = 0; i < l->bot_n; i++)
        json_decref(l->bots[i].row);
    json_decref(l->prompt);
    json_decref(l->messages);
    json_decref(l->user);
    json_decref(l->variables);
    task_group_free(l->group);
    db_close(l->store.db);
    http_client_end();
    config_free(l->config);
    fence_free(l->fence);
}

struct job {
    struct lab *lab;
    void (*body)(struct lab *l);
};

static int in_fiber(void *arg)
{
    struct job *j = arg;
    struct error err = {0};
    if (open_all(j->lab, &err)) {
        j->body(j->lab);
    } else {
        print_error("%s\n", err.msg);
        j->lab->failures++;
    }
    close_all(j->lab);
    return 0;
}

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char name[400];
    while (d && (e = readdir(d))) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || unlink(name) == 0)
            continue;
        remove_dir(name);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

void lab_run_with(void (*body)(struct lab *l), const char *yaml)
{
    struct lab *l = new (struct lab);
    struct job j = {l, body};
    l->yaml = yaml;
    the_lab = l;
    snprintf(l->dir, sizeof l->dir, "/tmp/parley-pipe-XXXXXX");
    assert_non_null(mkdtemp(l->dir));
    pipeline_metadata(); /* made once for the process */
    pipeline_default_config();
    long live = mem_live();
    task_run(in_fiber, &j);
    remove_dir(l->dir);
    long left = mem_live() - live;
    int failures = l->failures;
    the_lab = NULL;
    mem_free(l);
    assert_int_equal(failures, 0);
    assert_int_equal(left, 0);
}

void lab_run(void (*body)(struct lab *l))
{
    lab_run_with(body, "{}");
}
