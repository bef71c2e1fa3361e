/* YAML of anybody: it is read or refused, what is read can be written and read again, and a change in place means what it should.
 * The first line, when it has a '=', is a variable of the environment. */
#include "config/config_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void change_and_compare(struct arena *a, struct str text, const struct yaml_node *root,
                               const json_t *old)
{
    struct error err;
    struct str out;
    bool kept;
    json_t *wanted = json_deep_copy(old);
    check(wanted != NULL);
    const char *key;
    json_t *value;
    size_t i = 0;
    void *next;
    json_object_foreach_safe (wanted, next, key, value) {
        if (i++ % 2 == 0 && !json_is_object(value)) {
            json_object_set_new(wanted, key,
                                json_array_size(value) ? json_pack("[s]", "x") : json_integer(7));
        } else if (json_is_object(value)) {
            json_object_set_new(value, "added", json_pack("{s:b}", "k", 1));
        }
    }
    json_object_set_new(wanted, "new", json_string("a: b"));
    check(yaml_update(a, text, root, old, wanted, &out, &kept, &err));
    json_t *again = config_yaml_to_json(out, "again", &err);
    check(again && json_equal(again, wanted));
    json_decref(again);
    json_decref(wanted);
}

/* The template is large: it is read once, and a whole configuration is made of one input in 64 only. */
static const json_t *defaults(void)
{
    static struct config *c;
    if (!c) {
        static const char *const none[] = {NULL};
        struct error err;
        base_init();
        log_setup(LOG_ERROR, false, -1);
        c = config_of_text(S(""), none, &err);
        check(c != NULL);
    }
    return c->defaults;
}

static void apply(const json_t *given, const char *const *env, bool fill)
{
    struct error err = {0};
    auto_json own = given ? json_deep_copy(given) : json_object();
    check(!fill || backfill(own, defaults(), &err) || err.msg[0]);
    err = (struct error){0};
    check(env_apply(own, defaults(), env, &err) || err.msg[0]);
    check(json_is_object(own));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {.code = ERR_NONE};
    struct str text = str_n((const char *)data, size), rest = text, line;
    defaults();
    auto_arena a = arena_new((size_t)1 << 30);
    check(a != NULL);
    const char *env[] = {NULL, NULL};
    if (size && str_split(&rest, '\n', &line) && str_chr(line, '=') >= 0) {
        env[0] = str_z(a, line);
        text = rest.p ? rest : S("");
    }
    if (size % 64 == 0) {
        struct config *c = config_of_text(text, env, &err);
        check(c || err.msg[0]);
        config_free(c);
    }
    struct yaml_node *root = yaml_parse(a, text, "fuzz", &err);
    auto_json j = root ? yaml_json(root, "fuzz", &err) : NULL;
    check(j || err.msg[0]);
    if (env[0])
        apply(json_is_object(j) ? j : NULL, env, size % 16 == 0);
    if (json_is_object(j))
        change_and_compare(a, text, root, j);
    return 0;
}
