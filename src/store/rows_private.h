/* What the files of store/ share about columns and values. */
#ifndef PARLEY_STORE_ROWS_PRIVATE_H
#define PARLEY_STORE_ROWS_PRIVATE_H

#include "store/store.h"

/* NULL when the table has no such column. */
const struct column *column_find(const struct table *t, const char *name);
/* The workspace column; NULL for a table that belongs to the instance. */
const struct column *column_scope(const struct table *t);
/* Type and limits of one submitted value. ERR_INVALID names field and limit. */
bool column_check(const struct column *c, const json_t *value, struct error *err) warn_unused;
/* A submitted value as it is bound; sealed where the column says so. Texts live in `a` or in `value`. */
bool column_bind(struct arena *a, const struct store *st, const struct table *t,
                 const struct column *c, const json_t *value, struct db_val *out,
                 struct error *err) warn_unused;
/* A cell as JSON (new reference); NULL with an error. */
json_t *column_json(struct arena *a, const struct store *st, const struct table *t,
                    const struct column *c, const struct db_val *v, struct error *err);

#endif
