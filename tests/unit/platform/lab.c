#include "platform/lab.h"

#include "support/pg_server.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct lab *the_lab; /* route handlers have no argument */

void lab_check(struct lab *l, bool ok, const char *what, const char *file, int line)
{
    if (ok)
        return;
    l->failures++;
    print_error("%s:%d: %s\n", file, line, what);
}

void lab_pause(int64_t ms)
{
    struct error err = {0};
    if (!task_sleep_ms(ms, &err))
        print_error("%s\n", err.msg);
}

/* ---- the callback service ---------------------------------------------------------------------------------------------- */

static void copy_header(const struct http_request *r, const char *name, char *out, size_t size)
{
    struct str v = http_header_get(r, name);
    snprintf(out, size, STR_FMT, STR_ARG(v));
}

static void on_callback(struct http_request *r)
{
    struct lab *l = the_lab;
    struct lab_answer a = l->answers[l->answer_at];
    struct error err = {0};
    if (l->got_n == array_len(l->got)) {
        http_answer(r, 500, NULL, S(""));
        return;
    }
    if (l->answer_at + 1 < l->answer_count)
        l->answer_at++;
    struct lab_callback *c = &l->got[l->got_n++];
    snprintf(c->path, sizeof c->path, STR_FMT, STR_ARG(r->path));
    copy_header(r, "X-LB-Timestamp", c->timestamp, sizeof c->timestamp);
    copy_header(r, "X-LB-Signature", c->signature, sizeof c->signature);
    c->body = mem_strndup(r->body.p, r->body.n);
    c->json = json_parse_words(r->body, &err);
    c->status = a.status;
    c->came_us = time_mono_us();
    task_cond_notify_all(&l->came);
    if (++l->open_now > l->most_open)
        l->most_open = l->open_now;
    if (a.delay_ms)
        lab_pause(a.delay_ms);
    l->open_now--;
    c->done_us = time_mono_us();
    http_answer(r, a.status, "application/json", S("{}"));
}

static void on_webhook(struct http_request *r)
{
    platform_webhook(the_lab->platform, r, http_param(r, 0),
                     r->param_count > 1 ? http_param(r, 1) : STR_NONE);
}

static const struct http_route routes[] = {
    {.method = HTTP_M_POST, .pattern = "/cb", .handler = on_callback, .body = HTTP_BODY_RAW},
    {.method = HTTP_M_POST,
     .pattern = "/bots/{uuid}",
     .handler = on_webhook,
     .body = HTTP_BODY_RAW,
     .body_max = 4 << 20},
    {.method = HTTP_M_GET, .pattern = "/bots/{uuid}", .handler = on_webhook},
    {.method = HTTP_M_GET, .pattern = "/bots/{uuid}/{rest:path}", .handler = on_webhook},
    {.method = HTTP_M_POST,
     .pattern = "/bots/{uuid}/{rest:path}",
     .handler = on_webhook,
     .body = HTTP_BODY_RAW,
     .body_max = 4 << 20},
    {.pattern = NULL},
};
static const struct http_route *const tables[] = {routes, NULL};

bool lab_wait(struct lab *l, size_t n)
{
    struct error err = {0};
    struct task_deadline d;
    task_deadline_push(&d, 5000);
    while (l->got_n < n && task_cond_wait(&l->came, &err))
        ;
    task_deadline_pop(&d);
    return l->got_n >= n;
}

int64_t lab_sequence(const struct lab *l, size_t i)
{
    return json_i_or(l->got[i].json, "sequence", -1);
}

const char *lab_text(const struct lab *l, size_t i)
{
    return json_z_or(json_array_get(json_object_get(l->got[i].json, "message"), 0), "text", "");
}

/* ---- the host ------------------------------------------------------------------------------------------------------------ */

static bool host_accept(void *arg, struct bot *b, struct chat_event *e, const struct accept_opts *o,
                        struct accepted *out, struct error *err)
{
    struct lab *l = arg;
    if (l->accept_ms)
        lab_pause(l->accept_ms);
    if (l->refuse)
        return err_tag(err, l->refuse, 0, "overloaded", "refused by the test");
    l->accepted_n++;
    json_decref(l->last_event);
    l->last_event = event_to_json(e);
    snprintf(l->last_id, sizeof l->last_id, "%s", o->message_id);
    snprintf(l->last_key, sizeof l->last_key, "%s", o->dedupe_key ? o->dedupe_key : "");
    l->last_ephemeral = o->ephemeral;
    snprintf(out->id, sizeof out->id, "%s", o->message_id);
    out->duplicate = l->duplicate;
    out->discarded = l->discard;
    return true;
}

static bool host_reset(void *arg, struct bot *b, enum launcher launcher, const char *id,
                       bool *removed, struct error *err)
{
    struct lab *l = arg;
    snprintf(l->reset_id, sizeof l->reset_id, "%s", id);
    l->reset_launcher = launcher;
    *removed = l->had_session;
    l->had_session = false;
    return true;
}

/* ---- the bot --------------------------------------------------------------------------------------------------------------- */

bool lab_load(struct lab *l, bool enable, json_t *more, struct error *err)
{
    char url[96];
    snprintf(url, sizeof url, "%s/cb", l->url);
    auto_json config = json_pack("{s:s,s:s,s:s}", "inbound_secret", LAB_SECRET, "outbound_secret",
                                 "outbound", "callback_url", url);
    json_object_update(config, more);
    json_decref(more);
    auto_json row = json_pack("{s:s,s:s,s:s,s:O,s:b}", "uuid", LAB_BOT, "name", "Lab", "adapter",
                              "http_bot", "adapter_config", config, "enable", (int)enable);
    return platform_load(l->platform, &l->scope, row, err);
}

struct bot *lab_bot(struct lab *l)
{
    return platform_bot(l->platform, &l->scope, LAB_BOT);
}

void lab_sign(struct str body, const char *secret, int64_t at, char ts[32], char signature[80])
{
    char head[40];
    unsigned char mac[32];
    snprintf(ts, 32, "%lld", (long long)at);
    int n = snprintf(head, sizeof head, "%s.", ts);
    hmac_sha256_2(str_c(secret), str_n(head, (size_t)n), body, mac);
    memcpy(signature, "sha256=", 8);
    hex_encode(mac, sizeof mac, signature + 7);
}

int lab_raw(struct lab *l, const char *method, const char *path, const struct http_header *headers,
            size_t n, struct str body, json_t **answer)
{
    struct error err = {0};
    auto_arena a = arena_new(8 << 20);
    struct http_result res = {0};
    char url[512];
    snprintf(url, sizeof url, "%s%s", l->url, path);
    struct http_call call = {.method = method,
                             .url = url,
                             .headers = headers,
                             .header_count = n,
                             .body = body,
                             .total_ms = 20000};
    if (answer)
        *answer = NULL;
    if (!http_fetch(a, &call, &res, &err)) {
        print_error("%s\n", err.msg);
        return -1;
    }
    if (answer && res.body.n)
        *answer = json_parse_words(res.body, &err);
    return res.status;
}

int lab_post(struct lab *l, const char *sub, const char *body, const char *secret, const char *key,
             json_t **answer)
{
    char ts[32], signature[80], path[128];
    struct http_header headers[3];
    size_t n = 0;
    if (secret) {
        lab_sign(str_c(body), secret, time_wall_us() / 1000000, ts, signature);
        headers[n++] = (struct http_header){S("x-lb-timestamp"), str_c(ts)};
        headers[n++] = (struct http_header){S("X-LB-Signature"), str_c(signature)};
    }
    if (key)
        headers[n++] = (struct http_header){S("X-LB-Idempotency-Key"), str_c(key)};
    snprintf(path, sizeof path, "/bots/" LAB_BOT "%s", sub);
    return lab_raw(l, "POST", path, headers, n, str_c(body), answer);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

struct insert {
    struct lab *l;
    struct delivery d;
};

static bool do_insert(struct db_tx *tx, void *arg, struct error *err)
{
    struct insert *i = arg;
    return ledger_reply(tx, &i->l->scope, &i->d, err);
}

enum reply_result lab_reply(struct lab *l, const struct lab_part *p)
{
    struct error err = {0};
    struct bot *b = lab_bot(l);
    auto_json chain = chain_of_text(str_c(p->text));
    auto_json incoming = json_pack("[o]", comp_source(p->message, 1));
    struct chat_event e = {.launcher = p->group ? LAUNCHER_GROUP : LAUNCHER_PERSON,
                           .sender_id = p->session,
                           .group_id = p->group ? p->session : "",
                           .chain = incoming};
    struct reply r = {.message_id = p->message,
                      .turn_id = p->turn,
                      .delivery_id = p->kept ? p->delivery : NULL,
                      .response_id = p->response,
                      .event = &e,
                      .launcher_id = p->session,
                      .chain = chain,
                      .is_chunk = p->chunk,
                      .is_final = p->final,
                      .tool_calls = p->tool_calls};
    if (p->kept) {
        auto_json payload = bot_adapter(b)->delivery_payload(bot_instance(b), &r);
        auto_buf text = BUF(1 << 20);
        json_put(&text, payload);
        struct insert i = {l,
                           {.id = p->delivery,
                            .bot = LAB_BOT,
                            .message_id = p->message,
                            .session_key = p->session,
                            .number = 1,
                            .is_final = true,
                            .payload = buf_view(&text)}};
        if (!db_write(l->db, scope_db(&l->scope), do_insert, &i, &err))
            print_error("ledger: %s\n", err.msg);
    }
    enum reply_result res = bot_reply(b, &r, &err);
    if (res == REPLY_FAILED)
        print_error("reply: %s\n", err.msg);
    return res;
}

struct tally {
    const char *state;
    int64_t n;
};

static bool do_tally(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "SELECT count(*) FROM parley_deliveries WHERE state = ?"};
    struct tally *t = arg;
    struct db_rows rows;
    struct db_val v[] = {DB_V_Z(t->state)};
    if (!db_query(tx, &sql, v, 1, &rows, err))
        return false;
    t->n = db_at(&rows, 0, 0)->i;
    return true;
}

int64_t lab_deliveries(struct lab *l, const char *state)
{
    struct error err = {0};
    struct tally t = {state, -1};
    if (!db_drain(l->db, &err) || !db_read(l->db, scope_db(&l->scope), do_tally, &t, &err))
        print_error("%s\n", err.msg);
    return t.n;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------ */

static void start(struct lab *l)
{
    struct error err = {0};
    struct platform_opts o = {
        .store = &l->store,
        .config = l->config,
        .fence = l->fence,
        .objects = l->objects,
        .host = {.accept = host_accept, .reset_session = host_reset, .arg = l},
        .group = l->group,
    };
    l->platform = platform_new(&o, &err);
    check(l, l->platform && lab_load(l, true, NULL, &err));
    if (err.code)
        print_error("%s\n", err.msg);
}

void lab_restart(struct lab *l, bool polite)
{
    struct error err = {0};
    if (polite)
        platform_stop(l->platform);
    platform_free(l->platform);
    start(l);
    check(l, db_drain(l->db, &err));
    auto_json rows = ledger_open_deliveries(&l->store, &l->scope, 0, 100, &err);
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row) {
        struct bot *b = lab_bot(l);
        check(l, bot_adapter(b)->redeliver(bot_instance(b), row, &err) == REPLY_QUEUED);
    }
}

static bool open_all(struct lab *l, struct error *err)
{
    char path[128], storage[128];
    snprintf(path, sizeof path, "%s/a.db", l->dir);
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct http_client_opts client = {0};
    struct http_server_opts server = {.host = "127.0.0.1", .tables = tables};
    snprintf(l->scope.instance, sizeof l->scope.instance, "lab");
    snprintf(l->scope.workspace, sizeof l->scope.workspace, "0b8a4c0e-2222-4222-8222-000000000002");
    l->scope.generation = 1;
    snprintf(l->store.instance, sizeof l->store.instance, "lab");
    snprintf(storage, sizeof storage, "%s/storage", l->dir);
    l->fence = fence_new("lab");
    l->config = config_of_text(S("{}"), NULL, err);
    l->group = task_group_new(NULL, "lab");
    if (!l->config || !fence_set(l->fence, l->scope.workspace, 1, true, err) ||
        !http_client_init(&client, err))
        return false;
    l->server = http_server_new(&server, err);
    if (!l->server)
        return false;
    snprintf(l->url, sizeof l->url, "http://127.0.0.1:%u", http_server_port(l->server));
    l->store.db = l->db = db_open(&o, err);
    if (!l->db || !db_migrate(l->db, NULL, err) || !db_foreign_keys(l->db, false, err))
        return false;
    if (mkdir(storage, 0700) != 0)
        return err_set(err, ERR_IO, "storage");
    l->objects = objects_new(storage, 10 << 20, "lab", l->fence, err);
    return l->objects != NULL;
}

static void close_all(struct lab *l)
{
    platform_free(l->platform);
    if (l->server)
        http_server_stop(l->server, 100);
    http_client_end();
    task_group_free(l->group);
    db_close(l->db);
    objects_free(l->objects);
    config_free(l->config);
    fence_free(l->fence);
    json_decref(l->last_event);
    for (size_t i = 0; i < l->got_n; i++) {
        mem_free(l->got[i].body);
        json_decref(l->got[i].json);
    }
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
        start(j->lab);
        j->body(j->lab);
    } else {
        print_error("%s\n", err.msg);
        j->lab->failures++;
    }
    close_all(j->lab);
    return j->lab->failures;
}

void lab_run(void (*body)(struct lab *l))
{
    struct lab *l = calloc(1, sizeof *l);
    assert_non_null(l);
    base_init();
    log_setup(getenv("LAB_LOG") ? LOG_DEBUG : LOG_ERROR + 1, false, 2);
    snprintf(l->dir, sizeof l->dir, "/tmp/parley-platform-XXXXXX");
    assert_non_null(mkdtemp(l->dir));
    l->answers[0] = (struct lab_answer){200, 0};
    l->answer_count = 1;
    the_lab = l;
    struct job j = {l, body};
    long before = mem_live();
    int failures = task_run(in_fiber, &j);
    if (mem_live() != before) {
        print_error("%ld blocks are left\n", mem_live() - before);
        failures++;
    }
    remove_tree(l->dir);
    free(l);
    assert_int_equal(failures, 0);
}
