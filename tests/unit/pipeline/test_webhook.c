/* Outbound message webhooks: what they are told, what they may decide, how many may be under way. pipeline.md §4.3. */
#include "pipeline/lab.h"
#include "support/fake_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct fake_peer peer;
static atomic_int open_now, most_open, slow_ms;
static const char *answers[8]; /* by path "/0" … "/7"; NULL: no HTTP at all */

static void serve(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn))
        return;
    int now = atomic_fetch_add(&open_now, 1) + 1;
    if (now > atomic_load(&most_open))
        atomic_store(&most_open, now);
    const char *request = peer_request();
    int which = request[6] >= '0' && request[6] <= '7' ? request[6] - '0' : 0;
    if (atomic_load(&slow_ms))
        peer_wait_closed(conn, atomic_load(&slow_ms));
    if (answers[which] && strncmp(answers[which], "HTTP", 4) == 0)
        peer_send(conn, answers[which]);
    else if (answers[which])
        peer_answer(conn, answers[which]);
    atomic_fetch_sub(&open_now, 1);
}

static void hook(struct lab *l, int which, bool enabled)
{
    char url[128], path[16], name[16];
    struct error err = {0};
    snprintf(path, sizeof path, "/%d", which);
    snprintf(name, sizeof name, "w%d", which);
    auto_json row = json_pack("{s:s,s:s,s:b}", "name", name, "url",
                              fake_peer_url(&peer, path, url, sizeof url), "enabled", (int)enabled);
    auto_json made = store_do_insert(&l->store, &table_webhooks, &l->scope, row, &err);
    if (!lab_check(l, made != NULL, "a webhook is made", __FILE__, __LINE__))
        print_error("%s\n", err.msg);
}

static void begin(void)
{
    memset(answers, 0, sizeof answers);
    atomic_store(&slow_ms, 0);
    atomic_store(&most_open, 0);
    fake_peer_start(&peer, serve);
}

static void told_body(struct lab *l)
{
    struct accepted out;
    struct error err;
    answers[0] = "{\"ok\":true}";
    hook(l, 0, true);
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .group = "g", .text = "hi"}, &out,
                        &err) &&
                 !out.discarded);
    const char *body = strstr(peer.last, "\r\n\r\n");
    auto_json j = body ? json_parse(str_c(body + 4), &err) : NULL;
    check_text(l, json_z_or(j, "event_type", ""), "bot.group_message");
    check(l, uuid_is_v4(json_s(j, "uuid")));
    const json_t *d = json_object_get(j, "data");
    check_text(l, json_z_or(d, "bot_uuid", ""), LAB_BOT);
    check_text(l, json_z_or(d, "adapter_name", ""), "LabAdapter");
    check_text(l, json_z_or(json_object_get(d, "group"), "id", ""), "g");
    check_text(l, json_z_or(json_object_get(d, "sender"), "id", ""), "ann");
    check(l, json_array_size(json_object_get(d, "message")) == 1 &&
                 json_f_or(d, "timestamp", 0) == 1700000000);
    check(l, strstr(peer.last, "Content-Type: application/json") != NULL);
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi"}, &out, &err));
    body = strstr(peer.last, "\r\n\r\n");
    auto_json p = body ? json_parse(str_c(body + 4), &err) : NULL;
    check_text(l, json_z_or(p, "event_type", ""), "bot.person_message");
    check(l, p && !json_object_get(json_object_get(p, "data"), "group"));
    lab_idle(l);
}

/* Only a JSON object with exactly true counts; everything else is ignored. */
static void skipping_body(struct lab *l)
{
    static const struct {
        const char *answer;
        bool skips;
    } cases[] = {
        {"{\"skip_pipeline\":true}", true},
        {"{\"skip_pipeline\":\"true\"}", false},
        {"{\"skip_pipeline\":1}", false},
        {"[true]", false},
        {"nonsense", false},
        {"HTTP/1.1 500 No\r\nContent-Length: 22\r\n\r\n{\"skip_pipeline\":true}", false},
        {"HTTP/1.1 302 Away\r\nLocation: /1\r\nContent-Length: 0\r\n\r\n", false},
        {NULL, false},
    };
    hook(l, 0, true);
    hook(l, 1, false); /* not asked */
    answers[1] = "{\"skip_pipeline\":true}";
    for (size_t i = 0; i < array_len(cases); i++) {
        struct accepted out;
        struct error err;
        answers[0] = cases[i].answer;
        check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi"}, &out, &err));
        if (!lab_check(l, out.discarded == cases[i].skips, "skip", __FILE__, __LINE__))
            print_error("  case %zu\n", i);
        lab_idle(l);
    }
    check(l, l->runs == array_len(cases) - 1);
    hook(l, 2, true); /* any one of several decides; a change of the table counts at once */
    answers[0] = "{}";
    answers[2] = "{\"skip_pipeline\":true}";
    struct accepted out;
    struct error err;
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi"}, &out, &err) &&
                 out.discarded);
}

static void push(void *arg)
{
    struct lab *l = arg;
    struct accepted out;
    struct error err;
    if (lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi"}, &out, &err))
        lab_check(l, !out.discarded, "not skipped", __FILE__, __LINE__);
}

static void limited_body(struct lab *l)
{
    struct error err = {0};
    for (int i = 0; i < 5; i++) {
        hook(l, i, true);
        answers[i] = "{}";
    }
    atomic_store(&slow_ms, 200);
    int before = atomic_load(&peer.requests);
    struct task_group *g = task_group_new(NULL, "pushes");
    check(l, task_spawn(g, "push", push, l, &err) && task_spawn(g, "push", push, l, &err));
    check(l, task_group_wait(g, &err));
    check(l, atomic_load(&most_open) <= 2);
    check(l, atomic_load(&peer.requests) - before ==
                 2); /* the others were left out, not made to wait */
    atomic_store(&slow_ms, 0);
    push(l); /* the slots are free again */
    check(l, atomic_load(&peer.requests) - before == 4);
    /* cancelling ends the calls and frees their slots */
    atomic_store(&slow_ms, 3000);
    struct task_group *c = task_group_new(NULL, "cancelled");
    check(l, task_spawn(c, "push", push, l, &err));
    lab_sleep(100);
    int64_t start = time_mono_us();
    task_group_free(c);
    check(l, time_mono_us() - start < 1000000);
    atomic_store(&slow_ms, 0);
    lab_sleep(50);
    before = atomic_load(&peer.requests);
    push(l);
    check(l, atomic_load(&peer.requests) - before == 2);
    task_group_free(g);
    lab_idle(l);
}

static void told(void **state)
{
    begin();
    lab_run(told_body);
    fake_peer_stop(&peer);
}

static void skipping(void **state)
{
    begin();
    lab_run(skipping_body);
    fake_peer_stop(&peer);
}

static void limited(void **state)
{
    begin();
    lab_run_with(limited_body, "webhooks: {max_inflight_requests: 2}");
    fake_peer_stop(&peer);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(told), cmocka_unit_test(skipping),
                                       cmocka_unit_test(limited)};
    return cmocka_run_group_tests_name("pipeline/webhook", tests, NULL, NULL);
}
