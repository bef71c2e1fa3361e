/* What the files of ops/ share with each other only. */
#ifndef PARLEY_OPS_PRIVATE_H
#define PARLEY_OPS_PRIVATE_H

#include "ops/ops.h"

/* True for the name of a log file that is older than `keep_days` days (today is the first of them); its day in `date`
 * ("YYYY-MM-DD"). `now_us`: wall clock. persistence-and-ops.md §10. */
bool logfiles_is_old(const char *name, int64_t now_us, int64_t keep_days, char date[11]);

/* What one run of the maintenance loop does; all of it must be due to be done. */
enum { MAINTAIN_MONITORING = 1, MAINTAIN_STORAGE = 2, MAINTAIN_HOURLY = 4 };
/* One run of the named parts over all active workspaces. A failure in one workspace is a warning. */
void maintenance_pass(const struct ops_env *env, unsigned parts);

#endif
