/* yaml: what the files of config/ share with each other: YAML as a tree that knows where each value stands in the text,
 * and changes to that text which leave the rest of it alone. */
#ifndef PARLEY_CONFIG_YAML_H
#define PARLEY_CONFIG_YAML_H

#include "config/config.h"

#define YAML_TEXT_MAX  ((size_t)1 << 20)
#define YAML_DEPTH_MAX 60 /* below JSON_DEPTH_MAX: what we read must be writable as JSON */

enum yaml_kind { YAML_SCALAR, YAML_SEQ, YAML_MAP, YAML_ALIAS };
enum yaml_style { YAML_PLAIN, YAML_QUOTED, YAML_BLOCK }; /* of a scalar */

struct yaml_node {
    enum yaml_kind kind;
    enum yaml_style style;
    bool flow;       /* container in [] or {} */
    bool open;       /* its end has not been read yet */
    bool marked;     /* from and to mean something: not for an absent value */
    struct str text; /* of a scalar */
    struct str tag;  /* full form; empty: none */
    size_t from,
        to; /* bytes in the text: a scalar with its quotes, a container from its first to its last child
                           * (block) or with its brackets (flow) */
    int line, column;         /* of `from`, the first is 1 and 0 */
    struct yaml_node *target; /* of an alias */
    struct yaml_node *key;    /* of a value in a mapping */
    struct yaml_node *first, *last, *next;
    size_t count;
};

/* Parses one document; `name` is for messages "name: line N: …". Nodes live in `a`. NULL: ERR_INVALID, ERR_TOO_LARGE or
 * ERR_NOMEM. Duplicate keys are found by yaml_json. */
struct yaml_node *yaml_parse(struct arena *a, struct str text, const char *name, struct error *err);
/* Scalars by YAML 1.1's rules as the original reads them (yes/no/on/off are booleans), merge keys applied, aliases
 * followed up to a bound. New reference. */
json_t *yaml_json(const struct yaml_node *root, const char *name, struct error *err);
/* The value of `key` in a mapping, NULL if there is none. Aliases and merge keys are not followed. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* Appends `value` as a block document: four blanks for each level. */
void yaml_render(struct buf *b, const json_t *value);
/* Makes `text` (parsed as `root`, meaning `old`) mean `wanted`, which has at least the keys of `old`: only the changed
 * values and the new keys are touched. When that cannot be done (aliases, unusual layouts) the document is written
 * anew and its comments are lost; *kept says which. */
bool yaml_update(struct arena *a, struct str text, const struct yaml_node *root, const json_t *old,
                 const json_t *wanted, struct str *out, bool *kept, struct error *err) warn_unused;

#endif
