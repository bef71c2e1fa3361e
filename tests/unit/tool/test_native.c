/* The native tools over a sandbox service by script: exposure, policy, exec, files, audit. box.md §9.12, §10, §13 (S2, S8), §14 I;
 * tools-mcp-skills.md part A. */
#include "task/task.h"
#include "tool/tool.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a Box service by script --------------------------------------------------------------------------------------------- */

static struct {
    bool up;
    bool remote,
        without_file; /* the workspace is not on this host; the runtime can do nothing there */
    int root;
    size_t asked, execs, files;
    json_t *payload; /* of the last exec */
    json_t *result;  /* of the next exec; NULL: fails */
    const char *quota;
    enum box_file_tool file_tool;
} box;

static bool box_available(void *self, const struct scope *s, char why[256])
{
    box.asked++;
    if (!box.up && why)
        snprintf(why, 256, "no backend");
    return box.up;
}

static json_t *box_exec(void *self, struct query *q, const json_t *payload, const json_t *mounts,
                        struct error *err)
{
    box.execs++;
    json_decref(box.payload);
    box.payload = json_deep_copy(payload);
    if (!box.result)
        err_set(err, ERR_INVALID, "BoxValidationError: cmd must not be empty");
    return json_deep_copy(box.result);
}

static int box_workspace(void *self, const struct query *q, struct error *err)
{
    if (!box.remote)
        return fcntl(box.root, F_DUPFD_CLOEXEC, 0);
    err_set(err, ERR_NOT_FOUND, "not here");
    return -1;
}

static json_t *box_file(void *self, struct query *q, enum box_file_tool tool, const json_t *args,
                        struct error *err)
{
    box.files++;
    box.file_tool = tool;
    return json_pack("{s:b}", "ok", 1);
}

static bool box_may_write(void *self, const struct query *q, int64_t bytes, struct error *err)
{
    return !box.quota || err_set(err, ERR_INVALID, "%s (%lld)", box.quota, (long long)bytes);
}

static const char *box_key(void *self, struct query *q)
{
    return q->uuid;
}

static struct box_service service = {.available = box_available,
                                     .exec = box_exec,
                                     .workspace = box_workspace,
                                     .may_write = box_may_write,
                                     .outbox_key = box_key};

/* ---- a second source, whose names clash ------------------------------------------------------------------------------------ */

static struct {
    const char *names[8];
    const char *owner, *owner_id;
    char called[64];
    bool broken;
} other;
extern const struct tool_source tool_source_native;

static bool other_list(void *own, struct catalogue *c, const struct tool_ask *ask,
                       struct error *err)
{
    extern const struct tool_source source_other;
    if (other.broken)
        return err_set(err, ERR_UNAVAILABLE, "not connected");
    for (size_t i = 0; other.names[i]; i++) {
        struct tool t = {.source = &source_other,
                         .name = other.names[i],
                         .description = "other",
                         .owner_name = other.owner,
                         .owner_id = other.owner_id};
        if (!catalogue_add(c, &t))
            return false;
    }
    return true;
}

static json_t *other_call(void *own, const struct tool_call *c, struct error *err)
{
    snprintf(other.called, sizeof other.called, "%s", c->tool->name);
    return json_string("other");
}

const struct tool_source source_other = {
    .name = "plugin", .shown = "plugin", .rank = 1, .list = other_list, .call = other_call};
const struct tool_source *const tool_sources[] = {&tool_source_native, &source_other, NULL};

/* ---- a query ---------------------------------------------------------------------------------------------------------------- */

static struct {
    char dir[64];
    struct store store;
    struct arena *arena;
    struct query query;
    struct tools *tools;
    struct catalogue *catalogue;
    json_t *config;
    struct tool_outcome out;
    struct error err;
} lab;

static void use(const char *config)
{
    struct error bad = {0};
    auto_buf text = BUF(4096);
    for (const char *p = config; *p; p++)
        buf_c(&text, *p == '\'' ? '"' : *p);
    json_decref(lab.config);
    lab.config = json_pack("{s:{s:o}}", "ai", "local-agent", json_parse(buf_view(&text), &bad));
    assert_non_null(lab.config);
    lab.query.config = lab.config;
}

static void catalogue(void)
{
    struct tool_ask ask = {.scope = lab.query.scope, .query = &lab.query};
    lab.catalogue = catalogue_new(lab.tools, &ask, lab.arena, &lab.err);
    assert_non_null(lab.catalogue);
}

static const char *names(void)
{
    static char out[512];
    size_t n = 0;
    struct tool_policy p = tool_policy_of(lab.query.config);
    auto_json offer = catalogue_offer(lab.catalogue, &p);
    size_t i;
    json_t *t;
    out[0] = '\0';
    json_array_foreach (offer, i, t)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", json_z(t, "name"));
    return out;
}

/* Calls a tool; the result stays in lab.out until the next call. Single quotes stand for double ones. */
static bool call(const char *name, const char *args)
{
    struct error bad = {0};
    auto_buf text = BUF(1 << 20);
    for (const char *p = args; *p; p++)
        buf_c(&text, *p == '\'' ? '"' : *p);
    auto_json parsed = json_parse_words(buf_view(&text), &bad);
    if (!parsed)
        fail_msg("%s", bad.msg);
    json_decref(lab.out.result);
    return tools_call(lab.tools, lab.catalogue, &lab.query, str_c(name), parsed, &lab.out,
                      &lab.err);
}

static void begin(bool audited)
{
    struct error err = {0};
    char database[128], work[128];
    snprintf(lab.dir, sizeof lab.dir, "/tmp/parley-native-XXXXXX");
    assert_non_null(mkdtemp(lab.dir));
    snprintf(work, sizeof work, "%s/work", lab.dir);
    snprintf(database, sizeof database, "%s/a.db", lab.dir);
    assert_int_equal(mkdir(work, 0777), 0);
    box.root = open(work, O_PATH | O_DIRECTORY | O_CLOEXEC);
    box.up = true;
    box.remote = box.without_file = false;
    service.file = box_file;
    box.asked = box.execs = box.files = 0;
    box.quota = NULL;
    lab.arena = arena_new(16 << 20);
    lab.query = (struct query){.arena = lab.arena,
                               .id = 7,
                               .uuid = "0b8a4c0e-5555-4555-8555-000000000005",
                               .bot_uuid = "bot",
                               .pipeline_uuid = "pipe",
                               .launcher_id = "ann",
                               .event = {.sender_id = "ann"},
                               .monitor_id = "message"};
    memset(&other, 0, sizeof other);
    if (audited) {
        struct db_opts o = {.kind = DB_SQLITE, .path = database};
        lab.store.db = db_open(&o, &err);
        if (!lab.store.db)
            fail_msg("%s", err.msg);
        snprintf(lab.query.scope.instance, sizeof lab.query.scope.instance, "instance");
        snprintf(lab.query.scope.workspace, sizeof lab.query.scope.workspace, "%s",
                 "0b8a4c0e-1111-4111-8111-000000000001");
        lab.query.scope.generation = 1;
        auto_json row =
            json_pack("{s:s,s:s,s:s}", "instance_uuid", "instance", "name", "W", "slug", "w");
        if (!db_migrate(lab.store.db, NULL, &err))
            fail_msg("%s", err.msg);
        auto_json stored =
            store_do_insert(&lab.store, &table_workspaces, &lab.query.scope, row, &err);
        if (!stored)
            fail_msg("%s", err.msg);
    }
    struct tools_opts o = {.box = &service, .store = audited ? &lab.store : NULL};
    lab.tools = tools_new(&o, &err);
    assert_non_null(lab.tools);
    use("{}");
    catalogue();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static void finish(bool audited)
{
    json_decref(steal(lab.out.result));
    json_decref(steal(lab.config));
    json_decref(steal(box.payload));
    json_decref(steal(box.result));
    tools_free(lab.tools);
    arena_free(lab.arena);
    if (audited)
        db_close(lab.store.db);
    close(box.root);
    nftw(lab.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void (*body)(void);
static bool with_audit;

static int in_fiber(void *arg)
{
    begin(with_audit);
    body();
    finish(with_audit);
    return 0;
}

static void run(void (*fn)(void), bool audited)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    body = fn;
    with_audit = audited;
    assert_int_equal(task_run(in_fiber, NULL), 0);
}
#define TEST(name)                 \
    static void name##_body(void); \
    static void name(void **state) \
    {                              \
        run(name##_body, false);   \
    }                              \
    static void name##_body(void)
#define AUDITED(name)              \
    static void name##_body(void); \
    static void name(void **state) \
    {                              \
        run(name##_body, true);    \
    }                              \
    static void name##_body(void)

/* ---- exposure ----------------------------------------------------------------------------------------------------------------- */

TEST(six_tools_in_order)
{
    assert_string_equal(names(), "exec read write edit glob grep");
    for (size_t i = 0; i < catalogue_count(lab.catalogue); i++) {
        const struct tool *t = catalogue_at(lab.catalogue, i);
        assert_true(json_is_false(json_object_get(t->parameters, "additionalProperties")));
        assert_true(json_array_size(json_object_get(t->parameters, "required")) > 0);
        assert_true(*t->description && *t->human_desc);
    }
    auto_json rows = catalogue_rows(lab.catalogue);
    const json_t *row = json_array_get(json_object_get(rows, "tools"), 0);
    assert_string_equal(json_z(row, "source"), "builtin");
    assert_string_equal(json_z(row, "source_name"), "LangBot");
    assert_null(json_object_get(row, "source_id"));
    auto_json one = catalogue_row(lab.catalogue, S("grep"));
    assert_int_equal(json_object_size(one), 4);
    assert_null(catalogue_row(lab.catalogue, S("none")));
}

/* Hidden while Box is down, back without a restart; a direct call says why. */
TEST(hidden_while_the_sandbox_is_down)
{
    box.up = false;
    catalogue();
    assert_string_equal(names(), "");
    assert_true(call("exec", "{'command':'touch x'}"));
    assert_true(json_is_false(json_object_get(lab.out.result, "ok")));
    assert_string_equal(json_z(lab.out.result, "code"), "sandbox_unavailable");
    assert_string_equal(json_z(lab.out.result, "tool"), "exec");
    assert_non_null(strstr(json_z(lab.out.result, "message"), "no backend"));
    assert_string_equal(lab.out.source, "native");
    assert_int_equal(box.execs, 0);
    box.up = true;
    catalogue();
    assert_string_equal(names(), "exec read write edit glob grep");
}

/* Lost between the list and the call. */
TEST(asked_again_at_the_call)
{
    box.up = false;
    assert_true(call("read", "{'path':'/workspace'}"));
    assert_string_equal(json_z(lab.out.result, "code"), "sandbox_unavailable");
    assert_false(call("nothing", "{}"));
    assert_string_equal(lab.err.msg, "Tool not found: nothing");
    assert_null(lab.out.source);
}

TEST(guidance)
{
    struct tool_policy p = tool_policy_of(lab.query.config);
    struct str told = tools_guidance(lab.tools, lab.catalogue, &p, &lab.query);
    assert_true(str_find(told, S("/workspace/outbox/0b8a4c0e-5555-4555-8555-000000000005/")) > 0);
    use("{'denied-tools':['exec']}");
    p = tool_policy_of(lab.query.config);
    assert_int_equal(tools_guidance(lab.tools, lab.catalogue, &p, &lab.query).n, 0);
    service.outbox_key = NULL;
    use("{}");
    p = tool_policy_of(lab.query.config);
    told = tools_guidance(lab.tools, lab.catalogue, &p, &lab.query);
    assert_true(told.n > 0 && str_find(told, S("outbox")) < 0);
    service.outbox_key = box_key;
}

/* ---- policy (S2) ---------------------------------------------------------------------------------------------------------------- */

TEST(S2_denied_tools_are_neither_listed_nor_run)
{
    use("{'denied-tools':['exec','write']}");
    assert_string_equal(names(), "read edit glob grep");
    assert_false(call("exec", "{'command':'true'}"));
    assert_int_equal(lab.err.code, ERR_DENIED);
    assert_true(lab.out.refused);
    assert_string_equal(lab.err.msg, "The tool exec is not allowed here.");
    assert_int_equal(box.execs, 0);
    assert_false(call("write", "{'path':'/workspace/f','content':'x'}"));
    assert_true(call("read", "{'path':'/workspace'}"));
}

TEST(S2_deny_beats_allow)
{
    use("{'enable-all-tools':false,'tools':['exec','read'],'denied-tools':['exec']}");
    assert_string_equal(names(), "read");
    assert_false(call("exec", "{'command':'true'}"));
    use("{'enable-all-tools':true,'tools':['read'],'denied-tools':[]}");
    assert_string_equal(names(), "exec read write edit glob grep");
    use("{'enable-all-tools':false,'tools':'exec'}");
    assert_string_equal(names(), "");
    /* What is no list denies everything. */
    use("{'denied-tools':'exec'}");
    assert_string_equal(names(), "");
    assert_false(call("read", "{'path':'/workspace'}"));
}

TEST(S2_denied_even_while_it_is_down)
{
    use("{'denied-tools':['exec']}");
    box.up = false;
    catalogue();
    assert_false(call("exec", "{'command':'true'}"));
    assert_true(lab.out.refused);
}

/* ---- names (S8 #16) --------------------------------------------------------------------------------------------------------------- */

TEST(S8_16_both_tools_of_one_name_can_be_called)
{
    other.names[0] = "exec";
    other.names[1] = "own";
    other.owner = "some one/thing";
    catalogue();
    assert_string_equal(names(), "exec read write edit glob grep some_one_thing__exec own");
    box.result = json_pack("{s:s,s:s}", "stdout", "out", "stderr", "");
    assert_true(call("exec", "{'command':'true'}"));
    assert_int_equal(box.execs, 1);
    assert_true(call("some_one_thing__exec", "{}"));
    assert_string_equal(other.called, "exec");
    assert_int_equal(box.execs, 1);
    auto_json rows = catalogue_rows(lab.catalogue);
    const json_t *row = json_array_get(json_object_get(rows, "tools"), 6);
    assert_string_equal(json_z(row, "name"), "exec");
    assert_string_equal(json_z(row, "call_name"), "some_one_thing__exec");
    assert_true(json_is_true(json_object_get(row, "name_clash")));
    /* A denied name is denied whoever has it; an allowed one only for its holder. */
    use("{'denied-tools':['exec']}");
    assert_string_equal(names(), "read write edit glob grep own");
    assert_false(call("some_one_thing__exec", "{}"));
    use("{'enable-all-tools':false,'tools':['exec']}");
    assert_string_equal(names(), "exec");
}

/* A foreign `exec` does not become the plain one because the sandbox is down. */
TEST(S8_16_native_names_stay_reserved)
{
    other.names[0] = "exec";
    other.owner = "thing";
    box.up = false;
    catalogue();
    assert_string_equal(names(), "thing__exec");
    assert_true(call("exec", "{}"));
    assert_string_equal(json_z(lab.out.result, "code"), "sandbox_unavailable");
}

TEST(twins_of_one_source)
{
    static char longest[80];
    memset(longest, 'n', 70);
    other.names[0] = other.names[1] = other.names[2] = "same";
    other.names[3] = other.names[4] = longest;
    other.owner = "thing";
    other.owner_id = "id";
    catalogue();
    assert_string_equal(
        names() + strlen("exec read write edit glob grep same "),
        z_fmt(lab.arena, "thing__same thing__same_2 %s %.2s__%.60s", longest, "thing", longest));
    auto_json rows = catalogue_rows(lab.catalogue);
    assert_string_equal(json_z(json_array_get(json_object_get(rows, "tools"), 7), "source_id"),
                        "id");
}

TEST(broken_source_takes_no_other_with_it)
{
    other.broken = true;
    catalogue();
    assert_string_equal(names(), "exec read write edit glob grep");
}

/* ---- exec --------------------------------------------------------------------------------------------------------------------------- */

static json_t *output(const char *out, const char *err)
{
    return json_pack("{s:s,s:s,s:s,s:b,s:i,s:s,s:s,s:b,s:b,s:i}", "session_id", "person_ann",
                     "backend", "jail", "status", "completed", "ok", 1, "exit_code", 0, "stdout",
                     out, "stderr", err, "stdout_truncated", 0, "stderr_truncated", 0,
                     "duration_ms", 3);
}

static const char *preview(json_t *result)
{
    json_decref(box.result);
    box.result = result;
    assert_true(call("exec", "{'command':'x'}"));
    return json_z(lab.out.result, "preview");
}

TEST(exec_previews)
{
    assert_string_equal(preview(output("out", "err")), "stdout:\nout\n\nstderr:\nerr");
    assert_string_equal(preview(output("only", "")), "only");
    assert_string_equal(preview(output("", "only")), "only");
    assert_string_equal(preview(output("", "")), "");
    assert_true(json_is_false(json_object_get(lab.out.result, "truncated")));
    assert_null(json_object_get(lab.out.result, "truncated_by"));
    assert_int_equal(json_object_size(lab.out.result), 12);
}

TEST(exec_bounds)
{
    static char big[60001];
    memset(big, 'x', 60000);
    preview(output(big, "small"));
    assert_int_equal(json_s(lab.out.result, "stdout").n, 51200);
    assert_true(json_is_true(json_object_get(lab.out.result, "stdout_truncated")));
    assert_true(json_is_false(json_object_get(lab.out.result, "stderr_truncated")));
    assert_true(json_is_true(json_object_get(lab.out.result, "truncated")));
    assert_int_equal(json_s(lab.out.result, "preview").n, 51200);
    assert_string_equal(json_z(lab.out.result, "truncated_by"), "bytes");
    /* A flag of the service stays, without a cut of ours. */
    json_t *r = output("short", "");
    json_set(r, "stdout_truncated", json_true());
    preview(r);
    assert_true(json_is_true(json_object_get(lab.out.result, "truncated")));
    assert_null(json_object_get(lab.out.result, "truncated_by"));
}

TEST(exec_hands_on_what_the_model_may_set)
{
    box.result = output("", "");
    assert_true(call("exec", "{'command':'c','workdir':'/workspace/a','timeout_sec':'9','env':"
                             "{'A':'b'},'description':'d','session_id':'x','network':'on',"
                             "'host_path':'/etc','memory_mb':9}"));
    auto_json want = json_pack("{s:s,s:s,s:s,s:{s:s}}", "cmd", "c", "workdir", "/workspace/a",
                               "timeout_sec", "9", "env", "A", "b");
    assert_true(json_equal(box.payload, want));
    static const char *const blank[] = {"''", "'  '", "null"};
    for (size_t i = 0; i < array_len(blank); i++) {
        char args[64];
        snprintf(args, sizeof args, "{'command':'c','workdir':%s}", blank[i]);
        assert_true(call("exec", args));
        assert_string_equal(json_z(box.payload, "workdir"), "/workspace");
    }
    size_t before = box.execs;
    assert_false(call("exec", "{'workdir':'/workspace'}"));
    assert_string_equal(lab.err.msg, "command must be a string");
    assert_false(call("exec", "{'command':'c','workdir':5}"));
    assert_int_equal(box.execs, before);
    json_decref(steal(box.result));
    assert_false(call("exec", "{'command':' '}"));
    assert_non_null(strstr(lab.err.msg, "cmd must not be empty"));
}

TEST(packages_of_skills_are_closed)
{
    box.result = output("", "");
    assert_false(call("exec", "{'command':'ls','workdir':'/workspace/.skills/demo/x'}"));
    assert_string_equal(lab.err.msg,
                        "Skill \"demo\" must be activated before exec can run in its package.");
    assert_false(call("exec", "{'command':'cat /workspace/.skills/a_b-1/SKILL.md'}"));
    assert_non_null(strstr(lab.err.msg, "\"a_b-1\""));
    assert_int_equal(box.execs, 0);
    assert_false(call("read", "{'path':'/workspace/.skills/demo/SKILL.md'}"));
    assert_non_null(strstr(lab.err.msg, "Visible skills: none"));
    assert_false(call("glob", "{'pattern':'*','path':'/workspace/x/../.skills'}"));
    assert_non_null(strstr(lab.err.msg, "Name a skill"));
    assert_true(call("glob", "{'pattern':'*','path':'/workspace'}"));
}

/* ---- files ---------------------------------------------------------------------------------------------------------------------------- */

TEST(files_of_the_workspace)
{
    assert_true(call("write", "{'path':'/workspace/d/f','content':'one\\ntwo\\n'}"));
    assert_true(call("edit", "{'path':'/workspace/d/f','old_string':'two','new_string':'2'}"));
    assert_true(call("read", "{'path':'/workspace/d/f'}"));
    assert_string_equal(json_z(lab.out.result, "content"), "one\n2");
    assert_true(call("glob", "{'pattern':'f'}"));
    assert_string_equal(json_z(lab.out.result, "preview"), "/workspace/d/f");
    assert_true(call("grep", "{'pattern':'2'}"));
    assert_int_equal(json_i_or(lab.out.result, "total", 0), 1);
    assert_false(call("read", "{'path':'/etc/passwd'}"));
    assert_string_equal(lab.err.msg, "Path escapes the workspace boundary.");
}

TEST(quota_is_asked_before_writing)
{
    box.quota = "workspace quota exceeded";
    assert_false(call("write", "{'path':'/workspace/f','content':'12345'}"));
    assert_string_equal(lab.err.msg, "workspace quota exceeded (5)");
    assert_false(call("edit", "{'path':'/workspace/f','old_string':'a','new_string':'bc'}"));
    assert_string_equal(lab.err.msg, "workspace quota exceeded (2)");
    assert_true(call("read", "{'path':'/workspace'}"));
    assert_string_equal(json_z(lab.out.result, "content"), "");
}

TEST(files_elsewhere)
{
    box.remote = true;
    assert_true(call("grep", "{'pattern':'x'}"));
    assert_int_equal(box.files, 1);
    assert_int_equal(box.file_tool, BOX_FILE_GREP);
    service.file = NULL;
    assert_false(call("grep", "{'pattern':'x'}"));
    assert_string_equal(lab.err.msg, "No host workspace configured for file operations.");
}

/* ---- audit ------------------------------------------------------------------------------------------------------------------------------ */

static json_t *records(size_t n)
{
    assert_true(
        db_drain(lab.store.db, &lab.err)); /* the end of a call is written behind its answer */
    json_t *rows = audit_list(&lab.store, &lab.query.scope, NULL, -1, 0, &lab.err);
    assert_int_equal(json_array_size(rows), n);
    return rows;
}

static const json_t *record_of(const json_t *rows, const char *tool)
{
    size_t i;
    json_t *r;
    json_array_foreach (rows, i, r) {
        if (strcmp(json_z(r, "tool_name"), tool) == 0)
            return r;
    }
    return NULL;
}

AUDITED(each_call_leaves_a_record)
{
    char digest[65];
    box.result = output("out", "");
    json_set(box.result, "exit_code", json_integer(3));
    json_set(box.result, "ok", json_false());
    assert_true(call("exec", "{'command':'do it','env':{'KEY':'secret-value'}}"));
    assert_true(call("write", "{'path':'/workspace/f','content':'secret words'}"));
    assert_false(call("read", "{'path':'/etc/passwd'}"));
    auto_json rows = records(3);
    char *all = json_dump_z(rows, 0);
    assert_null(strstr(all, "secret"));
    mem_free(all);
    const json_t *r = record_of(rows, "exec");
    assert_string_equal(json_z(r, "decision"), "allowed");
    assert_string_equal(json_z(r, "status"), "failed");
    assert_string_equal(json_z(r, "detail"), "do it\nenv: KEY");
    sha256_hex(S("do it"), digest);
    assert_string_equal(json_z(r, "detail_sha256"), digest);
    assert_string_equal(json_z(r, "session_id"), "person_ann");
    assert_string_equal(json_z(r, "box_session_id"), "person_ann");
    assert_string_equal(json_z(r, "user_id"), "ann");
    assert_string_equal(json_z(r, "query_id"), "7");
    assert_string_equal(json_z(r, "pipeline_id"), "pipe");
    assert_int_equal(json_i_or(r, "exit_code", 0), 3);
    assert_int_equal(json_i_or(r, "bytes", 0), 3);
    r = record_of(rows, "write");
    assert_string_equal(json_z(r, "status"), "success");
    assert_string_equal(json_z(r, "detail"), "path=\"/workspace/f\" content_bytes=12");
    assert_int_equal(json_i_or(r, "bytes", 0), 12);
    r = record_of(rows, "read");
    assert_string_equal(json_z(r, "status"), "error");
    assert_string_equal(json_z(r, "error_message"), "Path escapes the workspace boundary.");
}

AUDITED(S2_refused_calls_are_audited)
{
    use("{'denied-tools':['exec']}");
    assert_false(call("exec", "{'command':'forged'}"));
    auto_json rows = records(1);
    const json_t *r = json_array_get(rows, 0);
    assert_string_equal(json_z(r, "decision"), "refused");
    assert_string_equal(json_z(r, "status"), "refused");
    assert_string_equal(json_z(r, "detail"), "forged");
    auto_json refused = audit_list(&lab.store, &lab.query.scope, "refused", 10, 0, &lab.err);
    assert_int_equal(json_array_size(refused), 1);
    auto_json allowed = audit_list(&lab.store, &lab.query.scope, "allowed", 10, 0, &lab.err);
    assert_int_equal(json_array_size(allowed), 0);
}

/* What cannot be recorded is not done. */
AUDITED(no_record_no_deed)
{
    box.result = output("", "");
    snprintf(lab.query.scope.workspace, sizeof lab.query.scope.workspace, "%s",
             "0b8a4c0e-9999-4999-8999-000000000009"); /* no such workspace: the row is refused */
    assert_false(call("exec", "{'command':'x'}"));
    assert_non_null(strstr(lab.err.msg, "could not be recorded"));
    assert_int_equal(box.execs, 0);
}

AUDITED(old_records_go)
{
    box.result = output("", "");
    assert_true(call("exec", "{'command':'old'}"));
    json_decref(records(1));
    time_shift_us(INT64_C(10) * 86400 * 1000000, 0);
    assert_true(call("exec", "{'command':'new'}"));
    int64_t removed = 0;
    assert_true(audit_prune(&lab.store, &lab.query.scope, 5 * 86400, 1000, &removed, &lab.err));
    assert_int_equal(removed, 1);
    auto_json rows = records(1);
    assert_string_equal(json_z(json_array_get(rows, 0), "detail"), "new");
    time_shift_us(0, 0);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------------------ */

static void result_texts(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"ok\":true,\"a\":\"\xC3\xA9\"}", "{\"ok\":true,\"a\":\"\xC3\xA9\"}"},
        {"\"text\"", "\"text\""},
        {"[1,2]", "[1,2]"},
        {"[]", "[]"},
        {"[{\"type\":\"other\"}]", "[{\"type\":\"other\"}]"},
        {"[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]", "a\nb"},
        {"[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x\"}}]", "[Image](http://x)"},
        {"[{\"type\":\"file_base64\",\"file_base64\":\"x\"}]", "[File](base64)"},
        {"[{\"type\":\"file_url\",\"file_url\":\"http://y\"}]", "[File](http://y)"},
    };
    base_init();
    for (size_t i = 0; i < array_len(cases); i++) {
        struct error err;
        auto_json j = json_parse(str_c(cases[i].json), &err);
        auto_buf b = BUF(1024);
        assert_true(tool_result_text(j, &b));
        assert_string_equal(buf_cstr(&b), cases[i].text);
    }
}

static void preferences(void **state)
{
    base_init();
    auto_json p =
        json_pack("{s:b,s:[s],s:b,s:[s],s:b}", "enable_all_mcp_servers", 0, "mcp_servers", "a",
                  "enable_all_skills", 1, "skills", "b", "mcp_resource_agent_read_enabled", 0);
    struct tool_ask ask = {0};
    tool_ask_bind(&ask, p);
    assert_int_equal(json_array_size(ask.mcp_servers), 1);
    assert_null(ask.skills);
    assert_null(ask.plugins);
    assert_false(ask.mcp_resources);
    ask = (struct tool_ask){0};
    tool_ask_bind(&ask, NULL);
    assert_true(!ask.mcp_servers && ask.mcp_resources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_tools_in_order),
        cmocka_unit_test(hidden_while_the_sandbox_is_down),
        cmocka_unit_test(asked_again_at_the_call),
        cmocka_unit_test(guidance),
        cmocka_unit_test(S2_denied_tools_are_neither_listed_nor_run),
        cmocka_unit_test(S2_deny_beats_allow),
        cmocka_unit_test(S2_denied_even_while_it_is_down),
        cmocka_unit_test(S8_16_both_tools_of_one_name_can_be_called),
        cmocka_unit_test(S8_16_native_names_stay_reserved),
        cmocka_unit_test(twins_of_one_source),
        cmocka_unit_test(broken_source_takes_no_other_with_it),
        cmocka_unit_test(exec_previews),
        cmocka_unit_test(exec_bounds),
        cmocka_unit_test(exec_hands_on_what_the_model_may_set),
        cmocka_unit_test(packages_of_skills_are_closed),
        cmocka_unit_test(files_of_the_workspace),
        cmocka_unit_test(quota_is_asked_before_writing),
        cmocka_unit_test(files_elsewhere),
        cmocka_unit_test(each_call_leaves_a_record),
        cmocka_unit_test(S2_refused_calls_are_audited),
        cmocka_unit_test(no_record_no_deed),
        cmocka_unit_test(old_records_go),
        cmocka_unit_test(result_texts),
        cmocka_unit_test(preferences),
    };
    return cmocka_run_group_tests_name("tool/native", tests, NULL, NULL);
}
