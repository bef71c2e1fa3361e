/* BoxSpec and process spec from any JSON: what is accepted keeps the promises that backends build on. */
#include "box/runtime.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void path_ok(const char *path)
{
    must(path[0] == '/' && strlen(path) <= BOX_PATH_MAX && !path_has_dots(str_c(path)));
    must(!strstr(path, "//") && (strlen(path) == 1 || path[strlen(path) - 1] != '/'));
}

static void env_ok(const char *const *env)
{
    for (size_t i = 0; env[i]; i++)
        must(strchr(env[i], '=') && env[i][0] != '=');
}

static void check_spec(struct arena *a, const json_t *j)
{
    struct spec s;
    struct error err = {0};
    if (!spec_read(a, j, &s, &err)) {
        must(err.code == ERR_NOMEM || (err.tag && strcmp(err.tag, "BoxValidationError") == 0));
        return;
    }
    must(s.session_id.n > 0 && s.timeout_sec > 0 && s.memory_mb >= 32 && s.pids_limit >= 1 &&
         s.cpus > 0 && s.workspace_quota_mb >= 0);
    path_ok(s.workdir);
    path_ok(s.mount_path);
    env_ok(s.env);
    must(*s.image && (!s.host_path || *s.host_path));
    for (size_t i = 0; i < s.extra_count; i++) {
        path_ok(s.extra[i].mount_path);
        must(s.extra[i].mode != BOX_MOUNT_NONE && *s.extra[i].host_path);
    }
    if (mount_targets_ok(&s, &err))
        for (size_t i = 0; i < s.extra_count; i++)
            must(path_within(s.extra[i].mount_path, s.mount_path));
    const char *id = physical_id(a, "ws-0123456789abcdef01234567", 7, s.session_id);
    must(strlen(id) <= BOX_ID_MAX && physical_is_of(str_c(id), "ws-0123456789abcdef01234567", 7));
    for (const char *p = id; *p; p++)
        must((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
             strchr("_.-", *p));
}

static void check_process(struct arena *a, const json_t *j)
{
    struct process_spec p;
    struct error err = {0};
    if (!process_spec_read(a, j, &p, &err))
        return;
    must(*p.argv[0] && *p.process_id && !strchr(p.process_id, '/') && p.memory_mb >= 0);
    path_ok(p.cwd);
    env_ok(p.env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    struct error err;
    long blocks = mem_live();
    json_t *j = json_parse_words(str_n((const char *)data, size), &err);
    struct arena *a = arena_new(1 << 20);
    if (json_is_object(j)) {
        check_spec(a, j);
        check_process(a, j);
    }
    arena_free(a);
    json_decref(j);
    must(mem_live() == blocks);
    return 0;
}
