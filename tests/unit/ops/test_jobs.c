/* Tasks of users. persistence-and-ops.md §8.4, http-api.md §6 */
#include "ops/lab.h"

/* What a task of these tests does, told by its argument; freed by it. */
struct plan {
    struct task_cond *until; /* waits for it when not NULL */
    const char *fail;
    json_t *result;
    int lines;
    const char *line;
};

static json_t *work(struct job *j, void *arg, struct error *err)
{
    struct plan *p = arg;
    for (int i = 0; i < p->lines; i++)
        job_log(j, NULL, "%s", p->line);
    if (p->until && !task_cond_wait(p->until, err)) {
        json_decref(p->result);
        return NULL;
    }
    if (p->fail) {
        err_set(err, ERR_UPSTREAM, "%s", p->fail);
        return NULL;
    }
    job_log(j, "finishing", "almost %d", 1);
    job_meta(j, "step", json_integer(2));
    return p->result ? p->result : json_null();
}

static int64_t begin(struct lab *l, const struct scope *s, const char *kind, struct plan *p)
{
    struct error err = {0};
    struct job *j;
    MUST(j = job_start(l->jobs, s, kind, "name-1", "Label 1", work, p, &err));
    return job_id(j);
}

static void settle(void)
{
    for (int i = 0; i < 20; i++)
        task_yield();
}

static size_t listed(struct lab *l, const char *type, const char *kind)
{
    auto_json j = jobs_list(l->jobs, &l->scope, type, kind, false);
    return json_array_size(json_object_get(j, "tasks"));
}

FIBER_TEST(ids_rise_from_zero_and_a_task_is_told_whole)
{
    struct lab l;
    struct task_cond go = {{0}};
    lab_open(&l, NULL);
    struct plan p = {.until = &go,
                     .result = json_pack("{s:i}", "answer", 42),
                     .lines = 1,
                     .line = "first words"};
    CHECK(begin(&l, &l.scope, "plugin-install", &p) == 0);
    settle();
    auto_json running = jobs_get(l.jobs, &l.scope, 0, false);
    CHECK(running);
    CHECK(strcmp(json_z(running, "task_type"), "user") == 0 &&
          strcmp(json_z(running, "kind"), "plugin-install") == 0);
    CHECK(strcmp(json_z(running, "name"), "name-1") == 0 &&
          strcmp(json_z(running, "label"), "Label 1") == 0);
    CHECK(strcmp(json_z(running, "workspace_uuid"), l.scope.workspace) == 0);
    CHECK(json_i_or(running, "placement_generation", -1) == l.scope.generation);
    CHECK(json_is_array(json_object_get(running, "scopes")) &&
          json_is_real(json_object_get(running, "created_at")));
    CHECK(strcmp(json_string_value(json_at(running, "task_context.current_action")), "default") ==
          0);
    struct str log = json_sv(json_at(running, "task_context.log"));
    CHECK(str_ends(log, S(" | default | first words\n")) &&
          log.n == strlen("2026-01-01 00:00:00 | default | first words\n"));
    CHECK(json_is_false(json_at(running, "runtime.done")));
    CHECK(strcmp(json_string_value(json_at(running, "runtime.state")), "PENDING") == 0);
    CHECK(json_is_null(json_at(running, "runtime.exception")) &&
          json_is_null(json_at(running, "runtime.result")));
    CHECK(json_is_null(json_at(running, "runtime.exception_traceback")));

    task_cond_notify_all(&go);
    settle();
    auto_json done = jobs_get(l.jobs, &l.scope, 0, false);
    CHECK(json_is_true(json_at(done, "runtime.done")));
    CHECK(strcmp(json_string_value(json_at(done, "runtime.state")), "FINISHED") == 0);
    CHECK(json_i_or(json_at(done, "runtime.result"), "answer", 0) == 42);
    CHECK(strcmp(json_string_value(json_at(done, "task_context.current_action")), "finishing") ==
          0);
    CHECK(json_i_or(json_at(done, "task_context.metadata"), "step", 0) == 2);

    struct plan next = {0};
    CHECK(begin(&l, &l.scope, "other", &next) == 1);
    settle();
    auto_json list = jobs_list(l.jobs, &l.scope, NULL, NULL, false);
    CHECK(json_i_or(list, "id_index", -1) == 2 &&
          json_array_size(json_object_get(list, "tasks")) == 2);
    CHECK(listed(&l, "user", "other") == 1 && listed(&l, "user", "") == 2 &&
          listed(&l, "", "no such") == 0 && listed(&l, "system", NULL) == 0);
    auto_json stats = jobs_stats(l.jobs);
    CHECK(json_i_or(stats, "total", -1) == 2 && json_i_or(stats, "running", -1) == 0 &&
          json_i_or(stats, "completed", -1) == 2 && json_i_or(stats, "id_index", -1) == 2);
    CHECK(!jobs_get(l.jobs, &l.scope, 7, false) && !jobs_get(l.jobs, &l.scope, -1, false));
    lab_close(&l);
}

FIBER_TEST(keys_are_told_less)
{
    struct lab l;
    lab_open(&l, NULL);
    struct plan bad = {.fail = "the secret reason"}, good = {.result = json_string("fine")};
    begin(&l, &l.scope, "a", &bad);
    begin(&l, &l.scope, "b", &good);
    settle();
    auto_json list = jobs_list(l.jobs, &l.scope, NULL, NULL, true);
    CHECK(!json_object_get(list, "id_index"));
    auto_buf text = BUF(64 << 10);
    CHECK(json_put(&text, list));
    CHECK(str_find(buf_view(&text), S("secret")) < 0 && str_find(buf_view(&text), S("Label")) < 0);
    const json_t *failed = json_array_get(json_object_get(list, "tasks"), 0),
                 *fine = json_array_get(json_object_get(list, "tasks"), 1);
    CHECK(json_object_size(failed) == 7 && json_object_size(fine) == 7);
    CHECK(strcmp(json_z(failed, "status"), "failed") == 0 &&
          strcmp(json_z(fine, "status"), "succeeded") == 0);
    CHECK(strcmp(json_string_value(json_at(failed, "error.type")), "task_failed") == 0);
    CHECK(strcmp(json_string_value(json_at(failed, "error.message")), "Task execution failed") ==
          0);
    CHECK(json_is_null(json_object_get(failed, "result")) &&
          json_is_null(json_object_get(fine, "error")));
    CHECK(strcmp(json_z(fine, "result"), "fine") == 0);
    /* People learn the reason. */
    auto_json whole = jobs_get(l.jobs, &l.scope, 0, false);
    CHECK(strcmp(json_string_value(json_at(whole, "runtime.exception")), "the secret reason") == 0);
    lab_close(&l);
}

FIBER_TEST(other_workspaces_and_generations_see_nothing)
{
    struct lab l;
    lab_open(&l, NULL);
    struct scope other = l.scope, later = l.scope;
    uuid4(other.workspace);
    later.generation++;
    struct plan p = {0};
    begin(&l, &l.scope, "a", &p);
    settle();
    CHECK(!jobs_get(l.jobs, &other, 0, false) && !jobs_get(l.jobs, &later, 0, false) &&
          !jobs_get(l.jobs, &other, 0, true));
    auto_json list = jobs_list(l.jobs, &other, NULL, NULL, false);
    CHECK(json_array_size(json_object_get(list, "tasks")) == 0);
    lab_close(&l);
}

FIBER_TEST(limits_of_running_tasks)
{
    static const char *const settings[] = {
        "SYSTEM__TASK_RETENTION__MAX_ACTIVE_USER_TASKS=3",
        "SYSTEM__TASK_RETENTION__MAX_ACTIVE_USER_TASKS_PER_WORKSPACE=2", NULL};
    struct lab l;
    struct error err = {0};
    struct task_cond go = {{0}};
    lab_open(&l, settings);
    struct scope other = l.scope;
    uuid4(other.workspace);
    struct plan p = {.until = &go};
    begin(&l, &l.scope, "a", &p);
    begin(&l, &l.scope, "a", &p);
    CHECK(!job_start(l.jobs, &l.scope, "a", "n", "l", work, &p, &err));
    CHECK(err.code == ERR_CAPACITY && err_http(&err) == 429 &&
          strcmp(err.tag, "task_capacity_exceeded") == 0);
    begin(&l, &other, "a", &p);
    CHECK(!job_start(l.jobs, &other, "a", "n", "l", work, &p, &err));
    CHECK(err_http(&err) == 429 && strcmp(err.tag, "task_capacity_exceeded") == 0);
    settle();
    task_cond_notify_all(&go);
    settle();
    struct plan quick = {0};
    CHECK(begin(&l, &l.scope, "a", &quick) == 3); /* what was refused took no id */
    lab_close(&l);
}

FIBER_TEST(finished_tasks_are_forgotten_oldest_first)
{
    static const char *const settings[] = {"SYSTEM__TASK_RETENTION__COMPLETED_LIMIT=3", NULL};
    struct lab l;
    struct task_cond go = {{0}};
    lab_open(&l, settings);
    struct plan waits = {.until = &go}, p = {0};
    begin(&l, &l.scope, "waits", &waits);
    for (int i = 0; i < 6; i++) {
        begin(&l, &l.scope, "quick", &p);
        settle();
    }
    CHECK(listed(&l, NULL, "quick") == 3 && listed(&l, NULL, "waits") == 1);
    CHECK(!jobs_get(l.jobs, &l.scope, 3, false));
    auto_json kept = jobs_get(l.jobs, &l.scope, 4, false);
    CHECK(kept);
    task_cond_notify_all(&go);
    settle();
    CHECK(listed(&l, NULL, "waits") == 0 && listed(&l, NULL, NULL) == 3); /* it was the oldest */
    lab_close(&l);
}

FIBER_TEST(an_overlong_log_loses_its_head)
{
    static const char *const settings[] = {"SYSTEM__TASK_RETENTION__MAX_LOG_CHARS=2000", NULL};
    struct lab l;
    lab_open(&l, settings);
    struct plan p = {.lines = 300, .line = "größer 日本"};
    begin(&l, &l.scope, "a", &p);
    settle();
    auto_json j = jobs_get(l.jobs, &l.scope, 0, false);
    struct str log = json_sv(json_at(j, "task_context.log"));
    CHECK(str_starts(log, S("[older task output truncated]\n")));
    CHECK(utf8_valid(log) && utf8_count(log) <= 2000 && utf8_count(log) > 1500);
    CHECK(str_ends(log, S(" | finishing | almost 1\n")));
    ptrdiff_t second = str_find(str_sub(log, 5, log.n), S("[older"));
    CHECK(second < 0);
    lab_close(&l);
}

FIBER_TEST(the_end_of_the_service_cancels)
{
    struct lab l;
    struct task_cond never = {{0}};
    lab_open(&l, NULL);
    struct plan p = {.until = &never, .result = NULL};
    begin(&l, &l.scope, "a", &p);
    settle();
    task_group_cancel(l.group);
    settle();
    auto_json whole = jobs_get(l.jobs, &l.scope, 0, false);
    auto_json less = jobs_get(l.jobs, &l.scope, 0, true);
    CHECK(strcmp(json_string_value(json_at(whole, "runtime.state")), "CANCELLED") == 0 &&
          json_is_true(json_at(whole, "runtime.done")));
    CHECK(strcmp(json_z(less, "status"), "cancelled") == 0);
    CHECK(strcmp(json_string_value(json_at(less, "error.type")), "task_cancelled") == 0);
    CHECK(strcmp(json_string_value(json_at(less, "error.message")), "Task was cancelled") == 0);
    struct error err = {0};
    CHECK(!job_start(l.jobs, &l.scope, "a", "n", "l", work, &p, &err) && err.code == ERR_CANCELED);
    lab_close(&l);
}

/* Whichever allocation fails: an error or NULL, and nothing is lost or left behind (in_fiber counts). */
FIBER_TEST(want_of_memory)
{
    struct lab l;
    lab_open(&l, NULL);
    struct plan p = {.lines = 1, .line = "words"};
    int64_t started = 0;
    for (long n = 1; n < 60; n++) {
        struct error err = {0};
        mem_fail_after(n, false);
        struct job *j = job_start(l.jobs, &l.scope, "a", "n", "l", work, &p, &err);
        started += j != NULL;
        settle();
        json_t *list = jobs_list(l.jobs, &l.scope, NULL, NULL, false);
        json_t *less = jobs_list(l.jobs, &l.scope, NULL, NULL, true);
        json_t *one = jobs_get(l.jobs, &l.scope, 0, n % 2);
        json_t *stats = jobs_stats(l.jobs);
        mem_fail_after(0, false);
        CHECK(j || err.code == ERR_NOMEM);
        json_decref(list);
        json_decref(less);
        json_decref(one);
        json_decref(stats);
    }
    CHECK(started > 10);
    auto_json stats = jobs_stats(l.jobs);
    CHECK(json_i_or(stats, "id_index", -1) == started && json_i_or(stats, "running", -1) == 0);
    lab_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_rise_from_zero_and_a_task_is_told_whole),
        cmocka_unit_test(keys_are_told_less),
        cmocka_unit_test(other_workspaces_and_generations_see_nothing),
        cmocka_unit_test(limits_of_running_tasks),
        cmocka_unit_test(finished_tasks_are_forgotten_oldest_first),
        cmocka_unit_test(an_overlong_log_loses_its_head),
        cmocka_unit_test(the_end_of_the_service_cancels),
        cmocka_unit_test(want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
