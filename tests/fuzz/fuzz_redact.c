/* Masked secrets: the first line is what is stored, the second what somebody sends. What was masked is masked already, and sent
 * back it is the stored value again; anything else is taken or refused with a reason. */
#include "tenant/tenant.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        ready = true;
    }
    struct error err = {0};
    struct str rest = str_n((const char *)data, size), line;
    auto_json stored = str_split(&rest, '\n', &line) ? json_parse_words(line, &err) : NULL;
    if (!stored)
        return 0;
    static const enum redact_rules rules[] = {REDACT_FULL, REDACT_MCP, REDACT_PLUGIN};
    auto_json sent = str_split(&rest, '\n', &line) ? json_parse_words(line, &err) : NULL;
    for (size_t i = 0; i < array_len(rules); i++) {
        auto_json masked = redact_with(stored, rules[i]);
        auto_json twice = redact_with(masked, rules[i]);
        auto_json back = redact_restore_with(masked, stored, rules[i], &err);
        check(masked && json_equal(masked, twice));
        check(json_equal(back, stored));
        if (!sent)
            continue;
        struct error why = {0};
        auto_json kept = redact_restore_with(sent, stored, rules[i], &why);
        check(kept || why.msg[0]);
    }
    auto_json leaves = redact_leaves(stored);
    check(leaves != NULL);
    return 0;
}
