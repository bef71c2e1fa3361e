/* The quick reader of stream events: whatever it takes, of one event or after others, the full parser reads as the same words. */
#include "model/model_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(struct quick *q, struct str text)
{
    struct quick_delta d;
    struct error err;
    if (!openai_quick(q, text, &d))
        return;
    auto_json j = json_parse_words(text, &err);
    const json_t *choice = json_array_get(json_object_get(j, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta"), *error = json_object_get(j, "error");
    if (!json_is_object(j) || json_is_object(error) || json_is_string(error) ||
        json_is_object(json_object_get(j, "usage")) || json_s(choice, "finish_reason").n > 0 ||
        json_array_size(json_object_get(delta, "tool_calls")) > 0 ||
        json_array_size(json_object_get(delta, "content")) > 0 ||
        json_s(delta, "reasoning_content").n > 0 || json_s(delta, "reasoning").n > 0 ||
        !str_eq(json_s(delta, "role"), d.role) || !str_eq(json_s(delta, "content"), d.content))
        abort();
}

/* Lines are the events of one stream. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = str_n((const char *)data, size), line;
    struct quick q;
    openai_quick_init(&q);
    while (str_split(&rest, '\n', &line))
        compare(&q, str_trim(line));
    openai_quick_free(&q);
    return 0;
}
