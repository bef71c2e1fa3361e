/* The calls of one reply: run in order, each with a result, whatever becomes of it. providers.md §18.11. */
#include "agent/agent_private.h"

enum { TOLD_BYTES = 65536 };

static struct str cut(struct str s)
{
    return s.n <= TOLD_BYTES ? s : str_n(s.p, utf8_border(s.p, TOLD_BYTES));
}

/* The model's text of the arguments as an object: none and null are none at all, nothing is repaired. */
static json_t *arguments_of(const json_t *function, struct error *err)
{
    const json_t *given = json_object_get(function, "arguments");
    struct str text = str_trim(json_sv(given));
    if (text.n == 0 || str_eq(text, S("null")))
        return json_object();
    if (text.n > TOOL_ARGUMENTS_MAX) {
        err_set(err, ERR_TOO_LARGE, "the arguments are longer than %d bytes", TOOL_ARGUMENTS_MAX);
        return NULL;
    }
    json_t *parsed = json_parse_words(text, err);
    if (parsed && !json_is_object(parsed)) {
        json_decref(parsed);
        err_set(err, ERR_INVALID, "the arguments must be a JSON object");
        return NULL;
    }
    if (!parsed && err->code == ERR_INVALID)
        err_wrap(err, "the arguments are not valid");
    return parsed;
}

/* A run whose model was not thought to call tools has no catalogue until it does. */
static bool need_catalogue(struct turn *t, struct error *err)
{
    if (t->catalogue || !t->run->tools)
        return true;
    t->catalogue = catalogue_new(t->run->tools, &t->run->ask, t->run->query->arena, err);
    return t->catalogue != NULL;
}

struct one {
    struct turn *turn;
    struct agent_tool told;
    struct tool_outcome outcome;
    struct buf text; /* of the result, as the model gets it */
};

static void tell(struct one *o)
{
    const struct agent_run *r = o->turn->run;
    if (r->on_tool)
        r->on_tool(r->arg, &o->told);
}

static bool execute(struct one *o, const json_t *arguments, struct error *err)
{
    struct turn *t = o->turn;
    if (!need_catalogue(t, err))
        return false;
    if (!t->catalogue)
        return err_set(err, ERR_NOT_FOUND, "Tool not found: " STR_FMT,
                       STR_ARG(str_sub(o->told.name, 0, 200)));
    if (!tools_call(t->run->tools, t->catalogue, t->run->query, o->told.name, arguments,
                    &o->outcome, err))
        return false;
    return tool_result_text(o->outcome.result, &o->text) ||
           err_set(err, ERR_TOO_LARGE, "the result is larger than %d bytes", TOOL_RESULT_MAX);
}

/* Runs a call; the text for the model is in o->text. False: the run ends. */
static bool call(struct one *o, const json_t *function, struct error *err)
{
    auto_buf shown = BUF(TOOL_ARGUMENTS_MAX + 16);
    struct error failure = {0};
    auto_json arguments = arguments_of(function, &failure);
    auto_json masked = arguments ? tool_arguments_shown(o->told.name, arguments) : NULL;
    o->told.arguments =
        cut(masked && json_put(&shown, masked) ? buf_view(&shown) : json_s(function, "arguments"));
    tell(o);
    bool ok = arguments && execute(o, arguments, &failure);
    if (failure.code == ERR_CANCELED || failure.code == ERR_NOMEM) {
        *err = failure;
        return false;
    }
    if (!ok) {
        buf_clear(&o->text);
        buf_fmt(&o->text, "err: %s", failure.msg);
    }
    o->told.ended = true;
    o->told.source = o->outcome.source;
    o->told.result = cut(buf_view(&o->text));
    o->told.err = ok ? NULL : &failure;
    o->told.duration_ms = o->outcome.duration_ms;
    tell(o);
    return true;
}

static bool one_call(struct turn *t, const json_t *c, struct error *err)
{
    const json_t *function = json_object_get(c, "function");
    struct one o = {
        .turn = t,
        .told = {.id = json_z_or(c, "id", ""), .name = json_s(function, "name")},
        .text = BUF(TOOL_RESULT_MAX),
    };
    bool ok = call(&o, function, err);
    auto_json message = ok ? json_pack("{s:s,s:o,s:s}", "role", "tool", "content",
                                       json_strn(buf_view(&o.text)), "tool_call_id", o.told.id)
                           : NULL;
    buf_free(&o.text);
    json_decref(o.outcome.result);
    if (!ok)
        return false;
    if (!message || json_array_append(t->messages, message) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    struct agent_output out = {
        .message = message, .is_chunk = t->run->stream, .is_final = true, .sequence = t->sequence};
    return t->run->emit(t->run->arg, &out, err);
}

bool run_calls(struct turn *t, json_t *message, struct error *err)
{
    if (json_array_append(t->messages, message) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(message, "tool_calls"), i, c) {
        if (!one_call(t, c, err))
            return false;
    }
    return true;
}
