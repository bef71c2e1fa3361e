/* map: open addressing with linear probing over a power of two of slots, at most 3/4 in use
 * (tombstones included). */
#include "base/base_private.h"

struct map_slot {
    char *key; /* NULL: never used; TOMB: deleted */
    size_t key_n;
    uint64_t hash;
    void *value;
};

enum { FIRST_SLOTS = 8 };

static char tomb_mark;
#define TOMB (&tomb_mark)

/* The slot that holds `key`, else NULL. */
static struct map_slot *find(const struct map *m, struct str key, uint64_t hash)
{
    if (m->cap == 0) {
        return NULL;
    }
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct map_slot *s = &m->slots[i];
        if (!s->key) {
            return NULL;
        }
        if (s->key != TOMB && s->hash == hash && str_eq(str_n(s->key, s->key_n), key)) {
            return s;
        }
    }
}

/* A free slot for a key that is not there. */
static struct map_slot *vacant(struct map_slot *slots, size_t cap, uint64_t hash)
{
    size_t i = hash & (cap - 1);
    while (slots[i].key && slots[i].key != TOMB) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

/* New slots with room for one entry more; drops the tombstones. */
static bool rebuild(struct map *m)
{
    size_t cap = FIRST_SLOTS;
    while (m->n + 1 > cap / 2) {
        if (cap > SIZE_MAX / 2 / sizeof(struct map_slot)) {
            return false;
        }
        cap *= 2;
    }
    struct map_slot *slots = mem_alloc(cap * sizeof(*slots));
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].key && m->slots[i].key != TOMB) {
            *vacant(slots, cap, m->slots[i].hash) = m->slots[i];
        }
    }
    mem_free(m->slots);
    m->slots = slots;
    m->cap = cap;
    m->tombs = 0;
    return true;
}

void *map_get(const struct map *m, struct str key)
{
    if (m->n == 0) {
        return NULL;
    }
    struct map_slot *s = find(m, key, str_hash(key));
    return s ? s->value : NULL;
}

bool map_put(struct map *m, struct str key, void *value)
{
    uint64_t hash = str_hash(key);
    struct map_slot *s = find(m, key, hash);
    if (s) {
        s->value = value;
        return true;
    }
    if (m->max && m->n >= m->max) {
        return false;
    }
    if (m->n + m->tombs + 1 > m->cap / 4 * 3 && !rebuild(m)) {
        return false;
    }
    char *copy = mem_strndup(key.p, key.n);
    if (!copy) {
        return false;
    }
    s = vacant(m->slots, m->cap, hash);
    if (s->key == TOMB) {
        m->tombs--;
    }
    *s = (struct map_slot){.key = copy, .key_n = key.n, .hash = hash, .value = value};
    m->n++;
    return true;
}

void *map_del(struct map *m, struct str key)
{
    struct map_slot *s = find(m, key, str_hash(key));
    if (!s) {
        return NULL;
    }
    void *value = s->value;
    mem_free(s->key);
    /* Without an entry behind it the probe chain ends here anyway. */
    size_t after = ((size_t)(s - m->slots) + 1) & (m->cap - 1);
    bool last = !m->slots[after].key;
    *s = (struct map_slot){.key = last ? NULL : TOMB};
    m->tombs += !last;
    m->n--;
    return value;
}

bool map_next(const struct map *m, size_t *pos, struct str *key, void **value)
{
    while (*pos < m->cap) {
        const struct map_slot *s = &m->slots[(*pos)++];
        if (s->key && s->key != TOMB) {
            *key = str_n(s->key, s->key_n);
            *value = s->value;
            return true;
        }
    }
    return false;
}

void map_free(struct map *m)
{
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].key != TOMB) {
            mem_free(m->slots[i].key);
        }
    }
    mem_free(m->slots);
    *m = (struct map){.max = m->max};
}
