/* Contexts, generations, INIT, the choice of a backend (box.md §14 C, D; S8 #4, §13.3 #1). */
#include "box/rig.h"

#include <sys/stat.h>
#include <unistd.h>

static struct rig l;

static void host_fails(const char *action, json_t *data, const char *text)
{
    struct error err;
    json_t *got = rig_host(&l, action, data, &err);
    if (got || !strstr(err.msg, text)) {
        fprintf(stderr, "%s: wanted \"%s\", got \"%s\"\n", action, text, got ? "success" : err.msg);
        abort();
    }
}

FIBER_TEST(test_tenant_actions_need_a_context)
{
    static const char *const actions[] = {"box_status",
                                          "box_exec",
                                          "box_create_session",
                                          "box_get_session",
                                          "box_get_sessions",
                                          "box_delete_session",
                                          "box_start_managed_process",
                                          "box_get_managed_process",
                                          "box_stop_managed_process"};
    struct error err;
    rig_open(&l, "fake", NULL);
    for (size_t i = 0; i < array_len(actions); i++)
        host_fails(actions[i], json_object(),
                   "PermissionError: Box tenant action requires a trusted Workspace context");
    host_fails("box_nothing", json_object(), "ValueError: Action box_nothing not found");
    host_fails("__heartbeat", json_object(), "ValueError: Action __heartbeat not found");
    auto_json foreign = json_pack("{s:s,s:s}", "instance_uuid", "other", "workspace_uuid", "w");
    static const char *const hosts[] = {"__ping", "box_init", "box_status", "box_shutdown",
                                        "__file_chunk"};
    for (size_t i = 0; i < array_len(hosts); i++) {
        json_t *got = rpc_call(l.rpc, hosts[i], json_object(), foreign, 0, &err);
        CHECK(!got && strncmp(err.msg, "PermissionError: ", 17) == 0);
    }
    json_t *got = rig_call(&l, "__ping", json_object(), &err);
    CHECK(got);
    json_decref(got);
    CHECK(fake.started == 0);
    rig_close(&l);
}

FIBER_TEST(test_workspaces_never_meet)
{
    struct error err;
    char first[256];
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", spec("twin", ""));
    snprintf(first, sizeof(first), "%s", fake.last_id);
    l.workspace = "other";
    rig_ok(&l, "box_create_session", spec("twin", ""));
    CHECK(strcmp(first, fake.last_id) != 0 && rig_sessions(&l) == 1);
    rig_fails(&l, "box_get_session", spec(first, ""), "BoxSessionNotFoundError");
    rig_fails(&l, "box_delete_session", spec(first, ""), "BoxSessionNotFoundError");
    json_t *got = rig_call(&l, "box_get_session", spec("twin", ""), &err);
    MUST(got);
    CHECK(strcmp(json_z(got, "session_id"), "twin") == 0);
    json_decref(got);
    rig_close(&l);
}

FIBER_TEST(test_generation_retires_what_is_older)
{
    rig_open(&l, "fake", NULL);
    rig_ok(&l, "box_create_session", json_pack("{s:s,s:b}", "session_id", "s", "persistent", 1));
    l.workspace = "other";
    rig_ok(&l, "box_create_session", spec("stays", ""));
    l.workspace = "workspace";
    l.generation = 10;
    CHECK(rig_sessions(&l) == 0 && fake.live == 1);
    l.generation = 9;
    rig_fails(&l, "box_status", json_object(), "PermissionError: Stale Box placement generation");
    rig_fails(&l, "box_exec", spec("s", "x"), "Stale");
    l.generation = 11;
    rig_fails(&l, "box_exec", json_object(),
              "BoxValidationError"); /* fenced before it is looked at */
    l.generation = 10;
    rig_fails(&l, "box_status", json_object(), "Stale");
    rig_close(&l);
}

/* §13.3 #1: whoever is overtaken hears it at once, and leaves nothing behind. */
FIBER_TEST(test_overtaken_calls_are_answered)
{
    struct later running[3], making;
    rig_open(&l, "fake", NULL);
    fake.hold_exec = true;
    for (int i = 0; i < 3; i++)
        rig_later(&l, &running[i], "box_exec", spec("s", "x"));
    while (!fake.execs)
        task_yield();
    fake.start_ms = 50;
    rig_later(&l, &making, "box_create_session", spec("late", ""));
    while (!fake.starting)
        task_yield();
    l.generation = 2;
    rig_ok(&l, "box_status", json_object());
    CHECK(fake.live == 0);
    for (int i = 0; i < 3; i++)
        CHECK(!rig_wait(&running[i]) &&
              strcmp(running[i].err.msg, "PermissionError: Stale Box placement generation") == 0);
    CHECK(!rig_wait(&making) && strstr(making.err.msg, "Stale"));
    CHECK(fake.live == 0 && rig_sessions(&l) == 0 && l.rt.creating == 0);
    rig_close(&l);
}

FIBER_TEST(test_fence_is_bounded)
{
    rig_open_bare(&l);
    l.rt.fence_max = 2;
    rig_ok(&l, "box_status", json_object());
    l.workspace = "two";
    rig_ok(&l, "box_status", json_object());
    l.workspace = "three";
    rig_fails(&l, "box_status", json_object(), "fence capacity reached");
    l.workspace = "two";
    l.generation = 7;
    rig_ok(&l, "box_status", json_object());
    rig_close(&l);
}

/* ---- INIT ---------------------------------------------------------------------------------------- */

FIBER_TEST(test_s8_4_nothing_runs_before_init)
{
    rig_open_bare(&l);
    rig_fails(&l, "box_exec", spec("s", "x"),
              "BoxRuntimeUnavailableError: Box runtime is not configured");
    rig_init(&l, "fake", NULL);
    rig_ok(&l, "box_exec", spec("s", "x"));
    rig_close(&l);
}

FIBER_TEST(test_limits)
{
    static const char *const wrong[] = {"true", "\"5\"", "5.0", "null", "-1", "5001", "[]"};
    struct error err;
    rig_open(&l, "fake", json_pack("{s:{s:i}}", "limits", "max_sessions", 7));
    for (size_t i = 0; i < array_len(wrong); i++) {
        json_t *value = json_parse(str_c(wrong[i]), &err);
        host_fails(
            "box_init",
            json_pack("{s:{s:i,s:o}}", "limits", "max_managed_processes", 3, "max_sessions", value),
            "ValueError: box.limits.max_sessions");
        CHECK(l.rt.conf->limits.max_sessions == 7 && l.rt.conf->limits.max_managed_processes == 64);
    }
    host_fails("box_init", json_pack("{s:[i]}", "limits", 1), "ValueError: box.limits");
    json_decref(rig_host(&l, "box_init", json_object(), &err));
    CHECK(l.rt.conf->limits.max_sessions == 7); /* what is in force stays */
    json_decref(rig_host(&l, "box_init",
                         json_pack("{s:{s:i}}", "limits", "max_managed_processes", 9), &err));
    CHECK(l.rt.conf->limits.max_sessions == 7 && l.rt.conf->limits.max_managed_processes == 9);
    rig_close(&l);
}

static json_t *local(const char *root, const char *workspace, const char *roots)
{
    return json_pack("{s:{s:s,s:s,s:s}}", "local", "host_root", root, "default_workspace",
                     workspace, "allowed_mount_roots", roots);
}

FIBER_TEST(test_default_workspace)
{
    struct error err;
    struct stat st;
    char path[256], root[200], away[200];
    rig_open(&l, "fake", NULL);
    snprintf(path, sizeof(path), "%s/box/default", l.root);
    CHECK(strcmp(l.rt.conf->workspace, path) == 0 && stat(path, &st) == 0);
    snprintf(root, sizeof(root), "%s/second", l.root);
    json_decref(rig_host(&l, "box_init", local(root, "one/two", root), &err));
    snprintf(path, sizeof(path), "%s/one/two", root);
    CHECK(stat(path, &st) == 0 && strcmp(l.rt.conf->workspace, path) == 0);
    snprintf(away, sizeof(away), "%s/away", l.root);
    host_fails("box_init", local(root, away, root), "allowed_mount_roots");
    host_fails("box_init", local(root, "../away", root), "BoxValidationError");
    CHECK(stat(away, &st) != 0 && strcmp(l.rt.conf->workspace, path) == 0);
    CHECK(mkdir(away, 0700) == 0);
    snprintf(path, sizeof(path), "%s/link", root);
    CHECK(symlink(away, path) == 0);
    host_fails("box_init", local(root, "link/in", root), "BoxValidationError");
    host_fails("box_init", local("", away, ""), "BoxValidationError");
    CHECK(rmdir(away) == 0);
    rig_close(&l);
}

/* A relative root is relative to the working directory. */
FIBER_TEST(test_relative_root)
{
    struct error err;
    char had[512], path[256];
    rig_open(&l, "fake", NULL);
    CHECK(getcwd(had, sizeof(had)) && chdir(l.root) == 0);
    json_decref(rig_host(&l, "box_init", local("./relative", "", " /nowhere , relative "), &err));
    snprintf(path, sizeof(path), "%s/relative/default", l.root);
    CHECK(l.rt.conf->workspace && strcmp(l.rt.conf->workspace, path) == 0);
    CHECK(chdir(had) == 0);
    rig_close(&l);
}

/* ---- backends -------------------------------------------------------------------------------------- */

FIBER_TEST(test_choice)
{
    struct error err;
    rig_open(&l, "nothing", NULL);
    rig_fails(&l, "box_exec", spec("s", "x"), "BoxBackendUnavailableError");
    json_t *info = rig_host(&l, "box_get_backend_info", json_object(), &err);
    CHECK(info && json_is_null(json_object_get(info, "name")) &&
          !json_b_or(info, "available", true));
    json_decref(info);
    rig_init(&l, "fake", NULL); /* none was in use: chosen anew */
    rig_ok(&l, "box_create_session", spec("s", ""));
    CHECK(fake.cleaned == 1);
    rig_init(&l, "nothing", NULL); /* one is in use: stays */
    rig_ok(&l, "box_exec", spec("s", "x"));
    CHECK(l.rt.chosen && strcmp(l.rt.chosen->b->name, "fake") == 0);
    rig_close(&l);
}

/* The state of the backend is seen both ways without a restart. */
FIBER_TEST(test_self_heal)
{
    struct error err;
    rig_open(&l, "fake", NULL);
    fake.unavailable = true;
    if (l.rt.chosen)
        l.rt.chosen->probed_us = 0;
    json_t *info = rig_host(&l, "box_get_backend_info", json_object(), &err);
    CHECK(!json_b_or(info, "available", true));
    json_decref(info);
    rig_fails(&l, "box_exec", spec("s", "x"), "BoxBackendUnavailableError");
    fake.unavailable = false;
    time_shift_us(2 * PROBE_BAD_MS * 1000, 2 * PROBE_BAD_MS * 1000);
    rig_ok(&l, "box_exec", spec("s", "x"));
    size_t probes = fake.probes;
    for (int i = 0; i < 20; i++)
        rig_ok(&l, "box_exec", spec("s", "x"));
    CHECK(fake.probes == probes); /* not for every command */
    rig_close(&l);
}

/* §13.3 #17: files of a directory that only the runtime sees, without a program inside. */
FIBER_TEST(test_files)
{
    struct error err;
    char place[128];
    rig_open(&l, "fake", NULL);
    snprintf(place, sizeof(place), "%s/mounts/files", l.root);
    rig_ok(&l, "box_file",
           json_pack("{s:s,s:s,s:{s:s,s:s}}", "host_path", place, "tool", "write", "args", "path",
                     "/workspace/a/b.txt", "content", "hello"));
    json_t *got = rig_call(&l, "box_file",
                           json_pack("{s:s,s:s,s:{s:s}}", "host_path", place, "tool", "read",
                                     "args", "path", "/workspace/a/b.txt"),
                           &err);
    MUST(got);
    CHECK(strcmp(json_z_or(got, "content", ""), "hello") == 0);
    json_decref(got);
    rig_fails(&l, "box_file",
              json_pack("{s:s,s:s,s:{s:s}}", "host_path", "/etc", "tool", "read", "args", "path",
                        "/workspace/passwd"),
              "BoxValidationError: host_path");
    rig_fails(&l, "box_file",
              json_pack("{s:s,s:s,s:{}}", "host_path", place, "tool", "exec", "args"),
              "BoxValidationError");
    CHECK(fake.started == 0);
    rig_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tenant_actions_need_a_context),
                                       cmocka_unit_test(test_workspaces_never_meet),
                                       cmocka_unit_test(test_generation_retires_what_is_older),
                                       cmocka_unit_test(test_overtaken_calls_are_answered),
                                       cmocka_unit_test(test_fence_is_bounded),
                                       cmocka_unit_test(test_s8_4_nothing_runs_before_init),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_default_workspace),
                                       cmocka_unit_test(test_relative_root),
                                       cmocka_unit_test(test_choice),
                                       cmocka_unit_test(test_self_heal),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
