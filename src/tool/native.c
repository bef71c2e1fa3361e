/* The tools that work in the sandbox: exec, read, write, edit, glob, grep. box.md §10. */
#include "tool/tool_private.h"

#include <unistd.h>

static const char *const names[] = {"exec", "read", "write", "edit", "glob", "grep"};

static void *open_native(struct tools *t, struct error *err)
{
    return t;
}

static bool available(const struct tools *t, const struct scope *s, char why[256])
{
    const struct box_service *box = t->opts.box;
    why[0] = '\0';
    return box && box->available(box->self, s, why);
}

static bool list(void *own, struct catalogue *c, const struct tool_ask *ask, struct error *err)
{
    char why[256];
    if (!available(own, &ask->scope, why))
        return true;
    auto_json all = native_declarations();
    size_t i;
    json_t *d;
    json_array_foreach (all, i, d) {
        struct tool t = {.source = &tool_source_native,
                         .name = json_z_or(d, "name", ""),
                         .description = json_z_or(d, "description", ""),
                         .human_desc = json_z_or(d, "human_desc", ""),
                         .parameters = json_object_get(d, "parameters"),
                         .owner_name = "LangBot"};
        if (!catalogue_add(c, &t))
            return err_set(err, ERR_NOMEM, "out of memory");
    }
    return all || err_set(err, ERR_NOMEM, "out of memory");
}

static bool reserves(struct str name)
{
    for (size_t i = 0; i < array_len(names); i++)
        if (str_eqz(name, names[i]))
            return true;
    return false;
}

static json_t *unavailable(struct str name, const char *why)
{
    char text[512];
    snprintf(text, sizeof text,
             "The sandbox is not available%s%s. Commands and files cannot be used now; an "
             "administrator can configure a Box backend.",
             *why ? ": " : "", why);
    return json_pack("{s:b,s:s,s:o,s:o}", "ok", 0, "code", "sandbox_unavailable", "tool",
                     json_strn(name), "message", json_strn(str_c(text)));
}

static json_t *missing(void *own, const struct tool_ask *ask, struct str name)
{
    char why[256];
    available(own, &ask->scope, why);
    return unavailable(name, why);
}

static json_t *call(void *own, const struct tool_call *c, struct error *err)
{
    struct tools *t = own;
    char why[256];
    /* Asked again: much may have happened since the list was made. */
    if (!available(t, &c->query->scope, why))
        return unavailable(str_c(c->tool->name), why);
    if (strcmp(c->tool->name, "exec") == 0)
        return native_exec(t, c, err);
    for (int i = 0; i < BOX_FILE_TOOLS; i++)
        if (strcmp(c->tool->name, box_file_tool_name((enum box_file_tool)i)) == 0)
            return native_file(t, c, (enum box_file_tool)i, err);
    err_set(err, ERR_NOT_FOUND, "Tool not found: %s", c->tool->name);
    return NULL;
}

const struct tool_source tool_source_native = {
    .name = "native",
    .shown = "builtin",
    .rank = 0,
    .detail = 0,
    .audited = true,
    .open = open_native,
    .list = list,
    .call = call,
    .reserves = reserves,
    .missing = missing,
};

/* ---- files ---------------------------------------------------------------------------------------------- */

struct file_job {
    int root;
    enum box_file_tool tool;
    const json_t *args;
    json_t *result;
    struct error err;
};

static void file_work(void *arg)
{
    struct file_job *j = arg;
    j->result = box_file_run(j->root, j->tool, j->args, &j->err);
}

static json_t *on_worker(int root, enum box_file_tool tool, const json_t *args, struct error *err)
{
    struct file_job j = {.root = root, .tool = tool, .args = args};
    if (!task_work(file_work, &j, err))
        return NULL;
    *err = j.err;
    return j.result;
}

/* Packages of skills are at paths of their own (§10.4), and no skill can be there yet. */
static bool no_skill(struct arena *a, const json_t *path, struct error *err)
{
    const char *below = box_file_place(a, path);
    struct str rest = str_c(below), first;
    if (!below || !str_split(&rest, '/', &first) || !str_eqz(first, ".skills"))
        return true;
    struct str name = STR_NONE;
    if (!rest.p || !str_split(&rest, '/', &name) || name.n == 0)
        return err_set(err, ERR_INVALID, "Name a skill: /workspace/.skills/<name>/...");
    return err_set(err, ERR_INVALID,
                   "Skill \"" STR_FMT "\" is not there. Activated skills: none. Visible skills: "
                   "none.",
                   STR_ARG(str_sub(name, 0, 100)));
}

static bool may_write(const struct box_service *box, const struct tool_call *c,
                      enum box_file_tool tool, struct error *err)
{
    const char *key = tool == BOX_FILE_WRITE ? "content" : "new_string";
    return (tool != BOX_FILE_WRITE && tool != BOX_FILE_EDIT) || !box->may_write ||
           box->may_write(box->self, c->query, (int64_t)json_s(c->arguments, key).n, err);
}

json_t *native_file(struct tools *t, const struct tool_call *c, enum box_file_tool tool,
                    struct error *err)
{
    const struct box_service *box = t->opts.box;
    struct query *q = c->query;
    struct str told = box_file_summary(q->arena, tool, c->arguments);
    log_info("tool", "tool invoked tool=%s query=%lld " STR_FMT, c->tool->name, (long long)q->id,
             STR_ARG(told));
    if (!no_skill(q->arena, json_object_get(c->arguments, "path"), err) ||
        !may_write(box, c, tool, err))
        return NULL;
    auto_fd root = box->workspace ? box->workspace(box->self, q, err) : -1;
    if (root >= 0)
        return on_worker(root, tool, c->arguments, err);
    if (box->workspace && err->code != ERR_NOT_FOUND)
        return NULL;
    if (box->file)
        return box->file(box->self, q, tool, c->arguments, err);
    err_set(err, ERR_UNAVAILABLE, "No host workspace configured for file operations.");
    return NULL;
}
