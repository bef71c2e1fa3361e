/* Private to app/. */
#ifndef PARLEY_APP_PRIVATE_H
#define PARLEY_APP_PRIVATE_H

#include "app/app.h"
#include "config/config.h"
#include "store/store.h"

/* Why an empty SQLite file cannot be that of a first start: a sign that the data directory was in use, as part of a sentence, in the
 * arena. NULL: there is no such file, or it is not empty, or nothing says so. */
const char *app_database_lost(const struct config *c, struct arena *a, const char *path);

/* Opens the configured database (not yet migrated) and fills key and instance. */
bool app_open_store(const struct config *c, struct store *out, struct error *err) warn_unused;

#endif
