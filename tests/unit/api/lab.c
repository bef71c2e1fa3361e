#include "api/lab.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

bool lab_check(struct lab *l, bool ok, const char *what, const char *file, int line)
{
    if (!ok) {
        l->failures++;
        print_error("%s:%d: %s\n  last answer: %.300s\n", file, line, what, l->text);
    }
    return ok;
}

/* ---- calls ----------------------------------------------------------------------------------------------------------- */

/* Blocking, on a worker: it allocates nothing on the loop's thread. */
struct exchange {
    uint16_t port;
    char out[20 << 10], in[80 << 10];
    size_t out_n, in_n;
};

static void exchange(void *arg)
{
    struct exchange *x = arg;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(x->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval most = {.tv_sec = 30};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, x->out, x->out_n, MSG_NOSIGNAL) == (ssize_t)x->out_n) {
        ssize_t n;
        while (x->in_n < sizeof x->in - 1 &&
               (n = recv(fd, x->in + x->in_n, sizeof x->in - 1 - x->in_n, 0)) > 0)
            x->in_n += (size_t)n;
    }
    x->in[x->in_n] = '\0';
    close(fd);
}

int lab_call_failing(struct lab *l, long nth, const char *method, const char *path,
                     const char *headers, const char *body)
{
    static struct exchange x;
    struct error err = {0};
    char own[2100];
    snprintf(own, sizeof own, "Authorization: Bearer %s\r\n", l->token);
    x.port = http_server_port(l->server);
    x.in_n = 0;
    x.out_n = (size_t)snprintf(
        x.out, sizeof x.out,
        "%s %s HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n%sContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        method, path, headers ? headers : own, body ? strlen(body) : 0, body ? body : "");
    json_decref(l->answer);
    l->answer = NULL;
    l->text[0] = '\0';
    if (!check(l, x.out_n < sizeof x.out))
        return 0;
    mem_fail_after(nth, false);
    bool ok = task_work(exchange, &x, &err);
    mem_fail_after(0, false);
    const char *end = strstr(x.in, "\r\n\r\n");
    if (!ok || !end || strncmp(x.in, "HTTP/1.1 ", 9) != 0)
        return 0;
    snprintf(l->text, sizeof l->text, "%s", end + 4);
    l->answer = json_parse(str_c(l->text), &err);
    return atoi(x.in + 9);
}

int lab_call(struct lab *l, const char *method, const char *path, const char *headers,
             const char *body)
{
    return lab_call_failing(l, 0, method, path, headers, body);
}

const json_t *lab_data(const struct lab *l)
{
    return json_object_get(l->answer, "data");
}

const char *lab_code(const struct lab *l)
{
    return json_z_or(l->answer, "code", "");
}

const char *lab_msg(const struct lab *l)
{
    return json_z_or(l->answer, "msg", "");
}

/* ---- the database ---------------------------------------------------------------------------------------------------- */

static bool run_sql(struct db_tx *tx, void *arg, struct error *err)
{
    db_touch(tx, GROUP_IDENTITY);
    return db_script(tx, arg, err);
}

void lab_sql(struct lab *l, const char *sql)
{
    struct error err = {0};
    char text[2048];
    snprintf(text, sizeof text, "%s", sql);
    if (!check(l, db_write(l->store.db, scope_db(&l->scope), run_sql, text, &err)))
        print_error("%s\n", err.msg);
}

struct ask {
    const char *sql;
    int64_t value;
};

static bool do_ask(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *a = arg;
    struct db_rows rows;
    if (!db_query_text(tx, a->sql, NULL, 0, &rows, err))
        return false;
    a->value = rows.n ? db_at(&rows, 0, 0)->i : -1;
    return true;
}

int64_t lab_count(struct lab *l, const char *sql)
{
    struct error err = {0};
    struct ask a = {sql, -1};
    check(l, db_read(l->store.db, scope_db(&l->scope), do_ask, &a, &err));
    return a.value;
}

struct arm {
    long nth;
    unsigned long failures;
};
static unsigned long failures_before[2];

static bool do_arm(struct db_tx *tx, void *arg, struct error *err)
{
    struct arm *a = arg;
    mem_fail_after(a->nth, false);
    a->failures = mem_failures();
    return true;
}

static bool on_thread(struct lab *l, enum lab_thread which, struct arm *a)
{
    struct error err = {0};
    struct db_scope none = {.kind = DB_SCOPE_NONE};
    return (which == LAB_WRITER ? db_write : db_read)(l->store.db, none, do_arm, a, &err);
}

void lab_arm(struct lab *l, enum lab_thread which, long nth)
{
    struct arm a = {.nth = nth};
    check(l, on_thread(l, which, &a));
    failures_before[which] = a.failures;
}

bool lab_disarm(struct lab *l, enum lab_thread which)
{
    struct arm a = {0};
    while (!on_thread(l, which, &a)) /* what was armed may hit this call */
        ;
    return a.failures != failures_before[which];
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static bool open_store(struct lab *l, const char *const *env, struct error *err)
{
    char data[80], path[120];
    static const char *const nothing[] = {NULL};
    snprintf(data, sizeof data, "%s/data", l->dir);
    l->config = config_load(data, env ? env : nothing, err);
    if (!l->config)
        return false;
    snprintf(path, sizeof path, "%s/a.db", l->dir);
    struct db_opts o = {.kind = DB_SQLITE, .path = path, .readers = 1};
    snprintf(l->store.instance, sizeof l->store.instance, "%s", config_instance_id(l->config));
    memcpy(l->store.key.k, config_secret_key(l->config), sizeof l->store.key.k);
    l->store.db = db_open(&o, err);
    if (!l->store.db || !store_start(&l->store, err))
        return false;
    l->fence = fence_new(l->store.instance);
    snprintf(path, sizeof path, "%s/storage", data);
    l->objects = objects_new(path, 1 << 20, l->store.instance, l->fence, err);
    snprintf(path, sizeof path, "%s/logs", data);
    l->logs = logfiles_new(path, err);
    return l->objects && l->logs;
}

static bool open_engine(struct lab *l, struct error *err)
{
    struct http_client_opts client = {0};
    l->group = task_group_new(NULL, "lab");
    l->models = http_client_init(&client, err) ? models_new(&l->store, l->config, err) : NULL;
    struct engine_opts e = {.store = &l->store,
                            .config = l->config,
                            .fence = l->fence,
                            .models = l->models,
                            .group = l->group};
    l->engine = l->models ? engine_new(&e, err) : NULL;
    if (!l->engine)
        return false;
    struct platform_opts p = {.store = &l->store,
                              .config = l->config,
                              .fence = l->fence,
                              .objects = l->objects,
                              .host = engine_host(l->engine),
                              .group = l->group};
    l->platform = platform_new(&p, err);
    if (!l->platform)
        return false;
    engine_attach(l->engine, l->platform);
    return platform_start(l->platform, err) && engine_start(l->engine, err);
}

static bool open_api(struct lab *l, struct error *err)
{
    struct http_server_opts o;
    l->jobs = jobs_new(l->config, l->group);
    l->ops = (struct ops_env){.store = &l->store,
                              .config = l->config,
                              .fence = l->fence,
                              .jobs = l->jobs,
                              .objects = l->objects,
                              .logs = l->logs};
    l->api = (struct api){.store = &l->store,
                          .config = l->config,
                          .fence = l->fence,
                          .models = l->models,
                          .engine = l->engine,
                          .platform = l->platform,
                          .jobs = l->jobs,
                          .objects = l->objects,
                          .logs = l->logs,
                          .ops = &l->ops};
    if (!api_init(&l->api, err))
        return false;
    api_server_opts(&l->api, &o);
    o.host = "127.0.0.1";
    o.port = 0;
    l->server = l->api.server = http_server_new(&o, err);
    return l->server != NULL;
}

/* argon2id of LAB_PASSWORD with the least memory and time: a test checks it often. */
static const char cheap[] =
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$kgPwZ9DAehBT966hqnz1RvMedn9cKCTI012WUoxq9i8";

static bool open_account(struct lab *l, struct error *err)
{
    auto_arena a = arena_new(64 << 10);
    auto_json account = account_create_first(&l->store, S(LAB_USER), cheap, &l->scope, err);
    if (!account || !fence_set(l->fence, l->scope.workspace, l->scope.generation, true, err))
        return false;
    snprintf(l->account, sizeof l->account, "%s", json_z_or(account, "uuid", ""));
    struct str token = auth_token(&l->api, a, account, err);
    snprintf(l->token, sizeof l->token, STR_FMT, STR_ARG(token));
    return token.p != NULL;
}

static void close_all(struct lab *l)
{
    if (l->server)
        http_server_stop(l->server, 1000);
    if (l->engine)
        engine_stop(l->engine, 200);
    if (l->platform)
        platform_stop(l->platform);
    if (l->jobs)
        jobs_free(l->jobs);
    api_end(&l->api);
    engine_free(l->engine);
    if (l->platform)
        platform_free(l->platform);
    models_free(l->models);
    task_group_free(l->group);
    http_client_end();
    db_close(l->store.db);
    objects_free(l->objects);
    fence_free(l->fence);
    logfiles_free(l->logs);
    config_free(l->config);
    metrics_end();
    json_decref(l->answer);
}

struct job {
    struct lab *lab;
    void (*body)(struct lab *l);
    const char *const *env;
};

static int in_fiber(void *arg)
{
    struct job *j = arg;
    struct error err = {0};
    if (open_store(j->lab, j->env, &err) && open_engine(j->lab, &err) && open_api(j->lab, &err) &&
        open_account(j->lab, &err)) {
        j->body(j->lab);
    } else {
        print_error("%s\n", err.msg);
        j->lab->failures++;
    }
    close_all(j->lab);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

void lab_run_with(void (*body)(struct lab *l), const char *const *env)
{
    struct lab *l = calloc(1, sizeof *l);
    assert_non_null(l);
    base_init();
    log_setup(getenv("LAB_LOG") ? LOG_DEBUG : LOG_ERROR + 1, false, 2);
    /* Hundreds of commits: in memory where there is such a place. */
    snprintf(l->dir, sizeof l->dir, "/dev/shm/parley-api-XXXXXX");
    if (!mkdtemp(l->dir)) {
        snprintf(l->dir, sizeof l->dir, "/tmp/parley-api-XXXXXX");
        assert_non_null(mkdtemp(l->dir));
    }
    pipeline_metadata(); /* made once for the process */
    pipeline_default_config();
    struct job j = {l, body, env};
    long before = mem_live();
    task_run(in_fiber, &j);
    long left = mem_live() - before;
    int failures = l->failures;
    nftw(l->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(l);
    assert_int_equal(failures, 0);
    assert_int_equal(left, 0);
}

void lab_run(void (*body)(struct lab *l))
{
    lab_run_with(body, NULL);
}
