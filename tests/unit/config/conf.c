#include "config/conf.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char conf_dir[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

int conf_setup(void **state)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    snprintf(conf_dir, sizeof(conf_dir), "/tmp/parley-config-XXXXXX");
    return mkdtemp(conf_dir) ? 0 : -1;
}

int conf_teardown(void **state)
{
    log_tap(NULL, NULL);
    mem_fail_after(0, false);
    return nftw(conf_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *conf_at(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/data/%s", conf_dir, name);
    return path;
}

void conf_write(const char *name, const char *text)
{
    char dir[256];
    snprintf(dir, sizeof(dir), "%s/data", conf_dir);
    mkdir(dir, 0755);
    const char *slash = strchr(name, '/');
    if (slash) {
        snprintf(dir, sizeof(dir), "%s/data/%.*s", conf_dir, (int)(slash - name), name);
        mkdir(dir, 0755);
    }
    FILE *f = fopen(conf_at(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

bool conf_exists(const char *name)
{
    return access(conf_at(name), F_OK) == 0;
}

const char *conf_text(const char *name)
{
    static char texts[2][200000];
    static unsigned next;
    char *text = texts[next++ % 2];
    FILE *f = fopen(conf_at(name), "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(texts[0]) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

json_t *conf_yaml(void)
{
    struct error err;
    json_t *j = config_yaml_to_json(str_c(conf_text("config.yaml")), "config.yaml", &err);
    if (!j) {
        fail_msg("%s", err.msg);
    }
    return j;
}

struct config *conf_load(const char *const *env)
{
    struct error err = {.code = ERR_NONE};
    struct config *c = config_load(conf_at(""), env, &err);
    if (!c) {
        fail_msg("%s", err.msg);
    }
    return c;
}

const char *conf_fails(const char *const *env)
{
    static struct error err;
    err = (struct error){.code = ERR_NONE};
    struct config *c = config_load(conf_at(""), env, &err);
    assert_null(c);
    assert_int_not_equal(err.code, ERR_NONE);
    return err.msg;
}
