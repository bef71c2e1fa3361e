/* The sources of tools in the order of lists: one line adds one. */
#include "tool/tool_private.h"

const struct tool_source *const tool_sources[] = {
    &tool_source_native,
    NULL,
};
