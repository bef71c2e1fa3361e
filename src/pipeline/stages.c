/* The stages in the order of pipeline.md §6.1: one line adds one. */
#include "pipeline/engine.h"

const struct stage *const stages[] = {
    &stage_group_respond,
    &stage_ban,
    &stage_pre_filter,
    &stage_preprocess,
    &stage_truncate,
    &stage_rate_require,
    &stage_process,
    &stage_rate_release,
    &stage_post_filter,
    &stage_wrap,
    &stage_long_text,
    &stage_send,
    NULL,
};
