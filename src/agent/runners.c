/* The runners: one line adds one. */
#include "agent/agent_private.h"

const struct runner *const runners[] = {
    &runner_local,
    NULL,
};

const struct runner *runner_find(const char *name)
{
    for (const struct runner *const *r = runners; *r; r++)
        if (strcmp((*r)->name, name) == 0)
            return *r;
    return NULL;
}
