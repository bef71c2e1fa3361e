/* Private to agent/: the runners by name. */
#ifndef PARLEY_AGENT_PRIVATE_H
#define PARLEY_AGENT_PRIVATE_H

#include "agent/agent.h"

extern const struct runner runner_local; /* local.c */

#endif
