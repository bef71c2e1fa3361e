/* Grant-enforced mode (box.md §14 E). */
#include "box/rig.h"

#include <sys/stat.h>
#include <unistd.h>

static struct rig l;

/* A runtime that enforces grants, with a backend that passes for the one that is required. */
static struct box_backend strict_backend;

static void open_strict(json_t *admission)
{
    json_t *policy = json_pack("{s:b}", "required", 1);
    if (admission)
        json_object_update(policy, admission);
    json_decref(admission);
    strict_backend = box_backend_fake;
    strict_backend.name = "nsjail";
    rig_open_bare(&l);
    fake.strict_ok = true;
    l.rt.own = &strict_backend;
    rig_init(&l, "nsjail", json_pack("{s:o}", "admission", policy));
}

static const char *later_by(int64_t seconds)
{
    static char out[ISO_SIZE];
    return iso_time(time_wall_us() + seconds * 1000000, out);
}

static json_t *grant(int revision, int generation, int sessions, int64_t ttl)
{
    return json_pack("{s:s,s:s,s:i,s:i,s:s,s:i,s:i}", "instance_uuid", "instance", "workspace_uuid",
                     l.workspace, "execution_generation", generation, "entitlement_revision",
                     revision, "expires_at", later_by(ttl), "max_sessions", sessions,
                     "max_managed_processes", 0);
}

static void granted(int revision, int generation, int sessions, int64_t ttl)
{
    struct error err;
    json_t *got = rig_host(&l, "box_upsert_sandbox_admission_grant",
                           grant(revision, generation, sessions, ttl), &err);
    MUST(got);
    json_decref(got);
}

static void refused(json_t *data, const char *text)
{
    struct error err;
    json_t *got = rig_host(&l, "box_upsert_sandbox_admission_grant", data, &err);
    if (got || !strstr(err.msg, text)) {
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", text, got ? "success" : err.msg);
        abort();
    }
}

static json_t *revocation(int revision)
{
    return json_pack("{s:s,s:s,s:i}", "instance_uuid", "instance", "workspace_uuid", l.workspace,
                     "entitlement_revision", revision);
}

FIBER_TEST(test_fail_closed)
{
    open_strict(NULL);
    rig_fails(&l, "box_exec", spec("x", "ls"),
              "BoxAdmissionError: There is no sandbox admission grant");
    granted(1, 1, 0, 100);
    rig_fails(&l, "box_exec", spec("x", "ls"), "allows no session");
    granted(2, 1, 1, 100);
    rig_ok(&l, "box_exec", spec("x", "ls"));
    l.generation = 2;
    rig_fails(&l, "box_exec", spec("x", "ls"), "another execution generation");
    l.generation = 1;
    rig_ok(&l, "box_exec", spec("x", "ls"));
    rig_ok(&l, "box_status", json_object());
    rig_close(&l);
}

FIBER_TEST(test_one_persistent_offline_session)
{
    struct later x[6];
    char path[256];
    open_strict(NULL);
    granted(1, 1, 1, 200);
    fake.start_ms = 20;
    for (int i = 0; i < 6; i++) {
        char id[8];
        snprintf(id, sizeof(id), "s%d", i);
        rig_later(&l, &x[i], "box_exec", spec(id, "ls"));
    }
    for (int i = 0; i < 6; i++) {
        json_t *got = rig_wait(&x[i]);
        CHECK(got && strcmp(json_z(got, "session_id"), "global") == 0);
        json_decref(got);
    }
    CHECK(fake.started == 1 && !fake.last_network && fake.last_persistent);
    char ns[NS_SIZE];
    place_namespace("instance", l.workspace, ns);
    snprintf(path, sizeof(path), "%s/box/default/tenants/%s", l.root, ns);
    CHECK(strcmp(fake.last_host, path) == 0);
    l.workspace = "other";
    granted(1, 1, 1, 200);
    rig_ok(&l, "box_exec", spec("s", "ls"));
    CHECK(fake.started == 2 && strcmp(fake.last_host, path) != 0);
    rig_close(&l);
}

FIBER_TEST(test_what_a_grant_does_not_allow)
{
    char place[128];
    open_strict(NULL);
    granted(1, 1, 1, 200);
    snprintf(place, sizeof(place), "%s/mounts", l.root);
    rig_fails(&l, "box_exec",
              json_pack("{s:s,s:s,s:s}", "session_id", "s", "cmd", "x", "network", "on"),
              "BoxAdmissionError: network");
    rig_fails(&l, "box_exec",
              json_pack("{s:s,s:s,s:s}", "session_id", "s", "cmd", "x", "host_path", place),
              "BoxAdmissionError: host_path");
    rig_fails(&l, "box_exec",
              json_pack("{s:s,s:s,s:s}", "session_id", "s", "cmd", "x", "mount_path", "/data"),
              "BoxAdmissionError: mount_path");
    rig_fails(&l, "box_exec",
              json_pack("{s:s,s:s,s:s}", "session_id", "s", "cmd", "x", "workdir", "/tmp"),
              "BoxAdmissionError: workdir");
    rig_fails(&l, "box_exec",
              json_pack("{s:s,s:s,s:[{s:s,s:s,s:s}]}", "session_id", "s", "cmd", "x",
                        "extra_mounts", "host_path", place, "mount_path", "/workspace/x", "mode",
                        "rw"),
              "BoxAdmissionError: extra_mounts");
    CHECK(fake.started == 0);
    rig_ok(&l, "box_exec",
           json_pack("{s:s,s:s,s:[{s:s,s:s,s:s}]}", "session_id", "s", "cmd", "x", "extra_mounts",
                     "host_path", place, "mount_path", "/workspace/x", "mode", "ro"));
    CHECK(fake.last_extra == 1);
    rig_fails(&l, "box_get_session", spec("s", ""), "Managed sandbox session_id is runtime-owned");
    rig_fails(&l, "box_start_managed_process",
              json_pack("{s:s,s:{s:s}}", "session_id", "global", "spec", "command", "ls"),
              "BoxAdmissionError: managed processes");
    rig_ok(&l, "box_get_session", spec("global", ""));
    rig_close(&l);
}

FIBER_TEST(test_rising_only)
{
    struct error err;
    open_strict(NULL);
    granted(5, 5, 1, 100);
    refused(grant(4, 5, 1, 100), "revision is stale");
    refused(grant(6, 4, 1, 100), "generation is stale");
    refused(grant(5, 5, 0, 100), "must not change");
    refused(grant(6, 5, 2, 100), "exceeds the policy");
    refused(grant(6, 5, 1, 301), "lives longer");
    refused(grant(6, 5, 1, -1), "has expired");
    json_t *got = rig_host(&l, "box_upsert_sandbox_admission_grant", grant(5, 5, 1, 50), &err);
    MUST(got); /* a shorter renewal leaves the longer in force */
    int64_t at;
    CHECK(time_parse(json_s(got, "expires_at"), &at) && at > time_wall_us() + 80 * 1000000LL);
    json_decref(got);
    l.generation = 4; /* the fence moved with the grant */
    rig_fails(&l, "box_status", json_object(), "Stale");
    got = rig_host(&l, "box_revoke_sandbox_admission_grant", revocation(4), &err);
    CHECK(!got && strstr(err.msg, "stale"));
    json_decref(rig_host(&l, "box_revoke_sandbox_admission_grant", revocation(5), &err));
    refused(grant(5, 5, 1, 100), "was revoked");
    granted(6, 5, 1, 100);
    rig_close(&l);
}

FIBER_TEST(test_end_of_a_grant_ends_the_session)
{
    struct error err;
    open_strict(NULL);
    granted(1, 1, 1, 100);
    rig_ok(&l, "box_exec", spec("s", "ls"));
    json_decref(rig_host(&l, "box_revoke_sandbox_admission_grant", revocation(1), &err));
    CHECK(fake.live == 0);
    granted(2, 1, 1, 100);
    rig_ok(&l, "box_exec", spec("s", "ls"));
    rig_pass(101);
    CHECK(fake.live == 0); /* persistent as it was */
    rig_fails(&l, "box_exec", spec("s", "ls"), "BoxAdmissionError");
    granted(3, 1, 1, 100);
    rig_ok(&l, "box_exec", spec("s", "ls"));
    granted(4, 2, 1, 100); /* another generation */
    CHECK(fake.live == 0);
    rig_close(&l);
}

/* The heap stays bounded by the grants, whatever number of renewals there were. */
FIBER_TEST(test_heap_is_bounded)
{
    open_strict(NULL);
    for (int i = 1; i <= 5000; i++)
        granted(i, 1, 1, 100 + i % 150);
    CHECK(l.rt.admission.heap_n <= 2 + 1024 + 1 && l.rt.admission.grants == 1);
    rig_pass(400);
    CHECK(l.rt.admission.grants == 0 && l.rt.admission.heap_n == 0);
    rig_close(&l);
}

FIBER_TEST(test_records_are_bounded)
{
    struct error err;
    open_strict(NULL);
    json_decref(rig_host(&l, "box_init",
                         json_pack("{s:{s:i}}", "limits", "max_admission_records", 2), &err));
    granted(1, 1, 1, 100);
    l.workspace = "two";
    json_decref(rig_host(&l, "box_revoke_sandbox_admission_grant", revocation(1), &err));
    l.workspace = "three";
    refused(grant(1, 1, 1, 100), "capacity");
    json_t *got = rig_host(&l, "box_revoke_sandbox_admission_grant", revocation(1), &err);
    CHECK(!got && strstr(err.msg, "capacity"));
    l.workspace = "two"; /* a renewal is not blocked */
    granted(2, 1, 1, 100);
    rig_close(&l);
}

/* Each check that fails blocks, and is named. */
FIBER_TEST(test_readiness)
{
    struct error err;
    open_strict(json_pack("{s:i}", "readiness_cache_sec", 0));
    granted(1, 1, 1, 200);
    for (int i = 0; i < BOX_CHECK_REQUIRED_COUNT; i++) {
        bool storage = i >= BOX_CHECK_HARD_WORKSPACE_QUOTA;
        fake.missing[i] = true;
        time_shift_us(0, 1000);
        rig_fails(&l, "box_exec", spec("s", "ls"), box_check_name((enum box_check)i));
        json_t *got = rig_host(&l, "box_health", json_object(), &err);
        CHECK(!got &&
              strcmp(err.msg, "BoxReadinessError: managed sandbox isolation is not ready") == 0);
        l.rt.soft_storage = true;
        time_shift_us(0, 1000);
        json_t *info = rig_host(&l, "box_get_backend_info", json_object(), &err);
        CHECK(info && json_b_or(info, "available", !storage) == storage);
        CHECK(json_b_or(json_object_get(info, "readiness"), "unsafe_soft_storage_limits", false));
        json_decref(info);
        l.rt.soft_storage = false;
        fake.missing[i] = false;
    }
    time_shift_us(0, 1000);
    rig_ok(&l, "box_exec", spec("s", "ls"));
    rig_close(&l);
}

FIBER_TEST(test_policy)
{
    static const char *const wrong[] = {"[]",
                                        "\"on\"",
                                        "{\"required\":\"maybe\"}",
                                        "{\"required\":false,\"plan\":\"pro\"}",
                                        "{\"max_sessions\":2}",
                                        "{\"max_sessions\":true}",
                                        "{\"max_managed_processes\":1}",
                                        "{\"logical_session_id\":\"x\"}",
                                        "{\"required_backend\":\"docker\"}",
                                        "{\"memory_mb\":31}",
                                        "{\"cpus\":true}",
                                        "{\"cpus\":0}",
                                        "{\"max_grant_ttl_sec\":0}",
                                        "{\"pids_limit\":1.0}",
                                        "{\"readiness_cache_sec\":-1}"};
    struct error err;
    for (size_t i = 0; i < array_len(wrong); i++) {
        rig_open(&l, "fake", NULL);
        rig_ok(&l, "box_exec", spec("s", "ls"));
        json_decref(rig_host(&l, "box_init",
                             json_pack("{s:o}", "admission", json_parse(str_c(wrong[i]), &err)),
                             &err));
        rig_fails(&l, "box_exec", spec("s", "ls"), "BoxReadinessError");
        CHECK(l.rt.conf->policy.required && *l.rt.conf->policy_error);
        rig_close(&l);
    }
}

FIBER_TEST(test_cannot_be_switched_off)
{
    struct error err;
    open_strict(NULL);
    granted(1, 1, 1, 100);
    json_decref(rig_host(&l, "box_init", json_pack("{s:{s:b}}", "admission", "required", 0), &err));
    rig_fails(&l, "box_exec", spec("s", "ls"), "BoxReadinessError");
    CHECK(strstr(l.rt.conf->policy_error, "cannot be disabled without restarting"));
    refused(grant(2, 1, 1, 100), "BoxReadinessError");
    rig_close(&l);
}

FIBER_TEST(test_off)
{
    rig_open(&l, "fake", NULL);
    refused(grant(1, 1, 1, 100), "BoxAdmissionError: Sandbox admission enforcement is not enabled");
    refused(json_object(), "BoxValidationError");
    json_t *naive = grant(1, 1, 1, 100);
    json_set(naive, "expires_at", json_string("2099-01-01T00:00:00"));
    refused(naive, "expires_at");
    json_t *truth = grant(1, 1, 1, 100);
    json_set(truth, "max_sessions", json_true());
    refused(truth, "max_sessions");
    rig_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fail_closed),
                                       cmocka_unit_test(test_one_persistent_offline_session),
                                       cmocka_unit_test(test_what_a_grant_does_not_allow),
                                       cmocka_unit_test(test_rising_only),
                                       cmocka_unit_test(test_end_of_a_grant_ends_the_session),
                                       cmocka_unit_test(test_heap_is_bounded),
                                       cmocka_unit_test(test_records_are_bounded),
                                       cmocka_unit_test(test_readiness),
                                       cmocka_unit_test(test_policy),
                                       cmocka_unit_test(test_cannot_be_switched_off),
                                       cmocka_unit_test(test_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
