#include "ops/lab.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static int first(void *arg)
{
    void (**fn)(void) = arg;
    (*fn)();
    return 0;
}

void in_fiber(void (*fn)(void))
{
    long before = mem_live();
    assert_int_equal(task_run(first, &fn), 0);
    assert_int_equal(mem_live(), before);
}

void make_dir(char out[64])
{
    snprintf(out, 64, "/tmp/parley-ops-XXXXXX");
    CHECK(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

void remove_dir(const char *dir)
{
    CHECK(strncmp(dir, "/tmp/parley-ops-", 16) == 0);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *file_text(const char *dir, const char *name)
{
    struct error err = {0};
    struct str text;
    auto_arena a = arena_new(64 << 20);
    CHECK(a);
    return config_read_file(a, z_fmt(a, "%s/%s", dir, name), 32 << 20, &text, &err)
               ? mem_strndup(text.p, text.n)
               : NULL;
}

void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

bool file_there(const char *dir, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

void lab_open(struct lab *l, const char *const *environ_list)
{
    static const char *const nothing[] = {NULL};
    struct error err = {0};
    char data[80], path[96];
    *l = (struct lab){0};
    make_dir(l->dir);
    snprintf(data, sizeof data, "%s/data", l->dir);
    MUST(l->config = config_load(data, environ_list ? environ_list : nothing, &err));
    snprintf(path, sizeof path, "%s/langbot.db", data);
    struct db_opts o = {.kind = DB_SQLITE, .path = path, .readers = 2};
    snprintf(l->st.instance, sizeof l->st.instance, "%s", config_instance_id(l->config));
    memcpy(l->st.key.k, config_secret_key(l->config), sizeof l->st.key.k);
    MUST(l->st.db = db_open(&o, &err));
    MUST(store_start(&l->st, &err));
    auto_json account =
        account_create_first(&l->st, S("first@example.com"), "$argon2id$x", &l->scope, &err);
    MUST(account);
    MUST(l->fence = fence_new(l->st.instance));
    MUST(identity_load_fence(&l->st, l->fence, &err));
    snprintf(path, sizeof path, "%s/storage", data);
    MUST(l->objects = objects_new(path, 1 << 20, l->st.instance, l->fence, &err));
    MUST(l->group = task_group_new(NULL, "lab"));
    MUST(l->jobs = jobs_new(l->config, l->group));
    l->env = (struct ops_env){.store = &l->st,
                              .config = l->config,
                              .fence = l->fence,
                              .jobs = l->jobs,
                              .objects = l->objects};
}

void lab_close(struct lab *l)
{
    jobs_free(l->jobs);
    task_group_free(l->group);
    objects_free(l->objects);
    fence_free(l->fence);
    db_close(l->st.db);
    config_free(l->config);
    remove_dir(l->dir);
}

static bool run_sql(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, arg, err);
}

void lab_sql(struct lab *l, const char *sql)
{
    struct error err = {0};
    char text[2048];
    snprintf(text, sizeof text, "%s", sql);
    MUST(db_write(l->st.db, scope_db(&l->scope), run_sql, text, &err));
}

int64_t lab_count(struct lab *l, const struct table *t)
{
    struct error err = {0};
    int64_t n = -1;
    MUST(store_do_count(&l->st, t, &l->scope, NULL, 0, &n, &err));
    return n;
}
