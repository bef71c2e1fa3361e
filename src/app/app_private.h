/* Private to app/. */
#ifndef PARLEY_APP_PRIVATE_H
#define PARLEY_APP_PRIVATE_H

#include "app/app.h"
#include "config/config.h"
#include "store/store.h"

/* Opens the configured database (not yet migrated) and fills key and instance. */
bool app_open_store(const struct config *c, struct store *out, struct error *err) warn_unused;

#endif
