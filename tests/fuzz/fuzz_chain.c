/* Message chains, events and LLM messages from outside: refused with a reason, or made whole. What is whole stays the same when it
 * is decoded again, has text in every form, and no payload after it was stripped. */
#include "chat/chat.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_text(struct str s)
{
    check(s.p && utf8_valid(s));
}

static void no_payload(const json_t *chain)
{
    size_t i, k;
    json_t *c, *node;
    json_array_foreach (chain, i, c) {
        check(json_s(c, "base64").n == 0 && json_s(c, "file_base64").n == 0);
        no_payload(json_object_get(c, "origin"));
        json_array_foreach (json_object_get(c, "node_list"), k, node)
            no_payload(json_object_get(node, "message_chain"));
    }
}

static void check_chain(const json_t *chain)
{
    static const char *const types[] = {"Plain", "Source", "Quote", NULL};
    struct error err = {0};
    auto_arena a = arena_new(1 << 20);
    auto_json again = chain_decode(chain, &err);
    check(again && json_equal(again, chain));
    check_text(chain_text(a, chain));
    check_text(chain_plain_text(a, chain));
    check_text(chain_export_text(a, chain));
    const json_t *plain = chain_find(chain, "Plain");
    check(chain_has(chain, "Plain") == (plain != NULL));
    if (chain_only(chain, types))
        check(!chain_has(chain, "At") && !chain_has(chain, "Image"));
    auto_json bare = chain_bare(chain);
    no_payload(bare);
    chain_strip_base64(again);
    check(json_equal(again, bare));
}

static void check_event(const json_t *j)
{
    struct error err = {0};
    struct chat_event e, back;
    auto_arena a = arena_new(1 << 20);
    if (!event_of_json(a, j, &e, &err)) {
        check(err.msg[0]);
        return;
    }
    check_chain(e.chain);
    auto_json stored = event_to_json(&e);
    check(stored && event_of_json(a, stored, &back, &err));
    check(back.launcher == e.launcher && strcmp(back.sender_id, e.sender_id) == 0 &&
          strcmp(back.sender_name, e.sender_name) == 0);
    check(strcmp(back.group_id, e.group_id) == 0 && strcmp(back.group_name, e.group_name) == 0 &&
          json_equal(back.chain, e.chain));
}

static void check_message(const json_t *j, const char *prefix)
{
    struct error err = {0};
    auto_arena a = arena_new(1 << 20);
    auto_json chain = llm_content_chain(j, prefix);
    check_text(llm_content_text(a, j));
    check(chain != NULL);
    if (json_is_null(chain))
        return;
    auto_json decoded = chain_decode(chain, &err);
    check(decoded && json_equal(decoded, chain));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    struct error err = {0};
    auto_json j = json_parse_words(str_n((const char *)data, size), &err);
    if (json_is_array(j)) {
        auto_json chain = chain_decode(j, &err);
        check(chain || err.msg[0]);
        if (chain)
            check_chain(chain);
    } else if (json_is_object(j)) {
        check_event(j);
        check_message(j, NULL);
        check_message(j, "> ");
    }
    return 0;
}
