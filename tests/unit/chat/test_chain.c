/* Message chains, events and LLM messages: what goes in and what comes out, as tables. pipeline.md §1–§3. */
#include "chat/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

static json_t *parse(const char *text)
{
    struct error err = {0};
    json_t *j = json_parse_words(str_c(text), &err);
    if (!j)
        fail_msg("%s: %s", text, err.msg);
    return j;
}

static void equal(const json_t *got, const char *want, const char *what)
{
    auto_json w = parse(want);
    if (json_equal(got, w))
        return;
    char *text = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);
    print_error("%s\n gives %s\n not   %s\n", what, text, want);
    mem_free(text);
    fail();
}

static const struct {
    const char *in, *out; /* out NULL: refused, with `why` in the message */
    const char *why;
} decodings[] = {
    {"[]", "[]", NULL},
    {"[{\"type\":\"Plain\",\"text\":\"hi\"}]", "[{\"type\":\"Plain\",\"text\":\"hi\"}]", NULL},
    {"[{\"type\":\"Plain\",\"text\":\"hi\",\"x\":1}]", "[{\"type\":\"Plain\",\"text\":\"hi\"}]",
     NULL},
    {"[{\"type\":\"At\",\"target\":7}]", "[{\"type\":\"At\",\"target\":7,\"display\":\"\"}]", NULL},
    {"[{\"type\":\"At\",\"target\":\"b\",\"display\":null}]",
     "[{\"type\":\"At\",\"target\":\"b\",\"display\":null}]", NULL},
    {"[{\"type\":\"AtAll\"}]", "[{\"type\":\"AtAll\"}]", NULL},
    {"[{\"type\":\"Source\",\"id\":\"m1\",\"timestamp\":1700000000}]",
     "[{\"type\":\"Source\",\"id\":\"m1\",\"timestamp\":1700000000}]", NULL},
    {"[{\"type\":\"Source\",\"id\":5,\"time\":1700000000.9}]",
     "[{\"type\":\"Source\",\"id\":5,\"timestamp\":1700000000}]", NULL},
    {"[{\"type\":\"Source\",\"id\":5,\"time\":1e300}]",
     "[{\"type\":\"Source\",\"id\":5,\"timestamp\":0}]", NULL},
    {"[{\"type\":\"Image\",\"url\":\"http://x/a.png\"}]",
     "[{\"type\":\"Image\",\"image_id\":\"\",\"url\":\"http://x/a.png\",\"path\":\"\",\"base64\":\"\"}]",
     NULL},
    {"[{\"type\":\"Voice\",\"length\":3,\"url\":null}]",
     "[{\"type\":\"Voice\",\"voice_id\":\"\",\"url\":null,\"path\":\"\",\"base64\":\"\",\"length\":3}]",
     NULL},
    {"[{\"type\":\"File\",\"name\":\"a.txt\"}]",
     "[{\"type\":\"File\",\"id\":\"\",\"name\":\"a.txt\",\"size\":0,\"url\":\"\",\"path\":\"\",\"base64\":\"\"}]",
     NULL},
    {"[{\"type\":\"File\",\"file_name\":\"w.doc\"}]",
     "[{\"type\":\"File\",\"file_id\":\"\",\"file_name\":\"w.doc\",\"file_size\":0,\"file_path\":\"\",\"file_base64\":\"\"}]",
     NULL},
    {"[{\"type\":\"WeChatFile\",\"file_id\":\"1\"}]",
     "[{\"type\":\"File\",\"file_id\":\"1\",\"file_name\":\"\",\"file_size\":0,\"file_path\":\"\",\"file_base64\":\"\"}]",
     NULL},
    {"[{\"type\":\"Face\",\"face_id\":3}]",
     "[{\"type\":\"Face\",\"face_type\":\"face\",\"face_id\":3,\"face_name\":\"\"}]", NULL},
    {"[{\"type\":\"Unknown\"}]", "[{\"type\":\"Unknown\",\"text\":\"\"}]", NULL},
    {"[{\"type\":\"Quote\",\"origin\":[{\"type\":\"Nope\"}]}]",
     "[{\"type\":\"Quote\",\"id\":null,\"group_id\":null,\"sender_id\":null,\"target_id\":null,\"origin\":[{\"type\":\"Unknown\",\"text\":"
     "\"Unknown component type: Nope\"}]}]",
     NULL},
    {"[{\"type\":\"Forward\"}]",
     "[{\"type\":\"Forward\",\"display\":{\"title\":\"Chat history of the group\",\"brief\":\"[Chat history]\",\"source\":\"Chat history\","
     "\"preview\":[],\"summary\":\"View x forwarded messages\"},\"node_list\":[]}]",
     NULL},
    {"[{\"type\":\"Forward\",\"display\":{\"title\":\"T\"},\"node_list\":[{\"sender_id\":1,\"message_chain\":[{\"type\":\"Plain\",\"text\":"
     "\"n\"}]}]}]",
     "[{\"type\":\"Forward\",\"display\":{\"title\":\"T\",\"brief\":\"[Chat history]\",\"source\":\"Chat history\",\"preview\":[],\"summary\":"
     "\"View x forwarded messages\"},\"node_list\":[{\"sender_id\":1,\"sender_name\":\"\",\"message_chain\":[{\"type\":\"Plain\",\"text\":"
     "\"n\"}],\"message_id\":0}]}]",
     NULL},
    {"[{\"type\":\"WeChatLink\",\"link_title\":\"t\"}]",
     "[{\"type\":\"WeChatLink\",\"link_title\":\"t\",\"link_desc\":\"\",\"link_url\":\"\",\"link_thumb_url\":\"\"}]",
     NULL},
    {"[{\"type\":\"WeChatEmoji\",\"emoji_md5\":\"m\",\"emoji_size\":2}]",
     "[{\"type\":\"WeChatEmoji\",\"emoji_md5\":\"m\",\"emoji_size\":2}]", NULL},
    {"[{\"type\":\"WeChatAppMsg\",\"app_msg\":\"a\"}]",
     "[{\"type\":\"WeChatAppMsg\",\"app_msg\":\"a\"}]", NULL},
    {"[{\"type\":\"WeChatForwardLink\",\"xml_data\":\"<x/>\"}]",
     "[{\"type\":\"WeChatForwardLink\",\"xml_data\":\"<x/>\"}]", NULL},
    {"[{\"type\":\"Poll\",\"x\":1}]",
     "[{\"type\":\"Unknown\",\"text\":\"Unknown component type: Poll\"}]", NULL},
    {"[7]", "[{\"type\":\"Unknown\",\"text\":\"Invalid component data: 7\"}]", NULL},
    {"[{\"x\":1}]", "[{\"type\":\"Unknown\",\"text\":\"Invalid component data: {\\\"x\\\":1}\"}]",
     NULL},
    {"[{\"type\":5}]",
     "[{\"type\":\"Unknown\",\"text\":\"Invalid component data: {\\\"type\\\":5}\"}]", NULL},
    /* wrongly typed fields of known types */
    {"{}", NULL, "array"},
    {"[{\"type\":\"Plain\"}]", NULL, "message[0].text"},
    {"[{\"type\":\"Plain\",\"text\":\"a\"},{\"type\":\"Plain\",\"text\":1}]", NULL,
     "message[1].text"},
    {"[{\"type\":\"At\"}]", NULL, "target"},
    {"[{\"type\":\"At\",\"target\":null}]", NULL, "target"},
    {"[{\"type\":\"At\",\"target\":1.5}]", NULL, "target"},
    {"[{\"type\":\"Image\",\"base64\":1}]", NULL, "base64"},
    {"[{\"type\":\"Voice\",\"length\":\"3\"}]", NULL, "length"},
    {"[{\"type\":\"File\",\"size\":null}]", NULL, "size"},
    {"[{\"type\":\"Quote\"}]", NULL, "origin"},
    {"[{\"type\":\"Quote\",\"origin\":[{\"type\":\"Plain\"}]}]", NULL, "text"},
    {"[{\"type\":\"Source\"}]", NULL, "id"},
    {"[{\"type\":\"Source\",\"id\":1,\"timestamp\":\"x\"}]", NULL, "timestamp"},
    {"[{\"type\":\"Forward\",\"display\":7}]", NULL, "display"},
    {"[{\"type\":\"Forward\",\"node_list\":[1]}]", NULL, "node_list[0]"},
    {"[{\"type\":\"Forward\",\"node_list\":{}}]", NULL, "node_list"},
};

static void decode_table(void **state)
{
    for (size_t i = 0; i < array_len(decodings); i++) {
        struct error err = {0};
        auto_json in = parse(decodings[i].in);
        auto_json out = chain_decode(in, &err);
        if (!decodings[i].out) {
            if (out || err.code != ERR_INVALID || !strstr(err.msg, decodings[i].why))
                fail_msg("%s: %s", decodings[i].in, out ? "accepted" : err.msg);
            continue;
        }
        if (!out)
            fail_msg("%s: %s", decodings[i].in, err.msg);
        equal(out, decodings[i].out, decodings[i].in);
        /* What we write we read back as the same. */
        auto_json again = chain_decode(out, &err);
        assert_true(json_equal(out, again));
    }
}

static json_t *nested(int depth)
{
    json_t *j = chain_of_text(S("x"));
    for (int i = 0; i < depth; i++)
        j = json_pack("[{s:s,s:o}]", "type", "Quote", "origin", j);
    return j;
}

static void decode_limits(void **state)
{
    struct error err = {0};
    auto_json eight = nested(8);
    auto_json nine = nested(9);
    auto_json got = chain_decode(eight, &err);
    assert_non_null(got);
    assert_null(chain_decode(nine, &err));
    assert_int_equal(err.code, ERR_INVALID);
    auto_json many = json_array();
    for (int i = 0; i < 1000; i++)
        json_array_append_new(many, comp_plain(S("a")));
    auto_json thousand = chain_decode(many, &err);
    assert_int_equal(json_array_size(thousand), 1000);
    json_array_append_new(many, comp_plain(S("a")));
    assert_null(chain_decode(many, &err));
    /* A long name is cut between characters. */
    auto_json odd = json_array();
    auto_buf name = BUF(4096);
    for (int i = 0; i < 300; i++)
        buf_z(&name, "é");
    json_array_append_new(odd, json_pack("{s:o}", "type", json_strn(buf_view(&name))));
    auto_json unknown = chain_decode(odd, &err);
    assert_true(utf8_valid(json_s(json_array_get(unknown, 0), "text")));
}

static const struct {
    const char *chain, *text, *plain, *exported;
} texts[] = {
    {"[]", "", "", ""},
    {"[{\"type\":\"Source\",\"id\":1},{\"type\":\"Plain\",\"text\":\"a\"},{\"type\":\"Plain\",\"text\":\"b\"}]",
     "ab", "ab", "ab"},
    {"[{\"type\":\"At\",\"target\":\"bot\",\"display\":\"\"},{\"type\":\"Plain\",\"text\":\" hi\"}]",
     "@bot hi", " hi", "@bot hi"},
    {"[{\"type\":\"At\",\"target\":5,\"display\":\"Bo\"},{\"type\":\"AtAll\"}]", "@Bo@All", "",
     "@Bo@All"},
    {"[{\"type\":\"At\",\"target\":5}]", "@5", "", "@5"},
    {"[{\"type\":\"Image\"},{\"type\":\"Voice\",\"length\":4},{\"type\":\"File\",\"name\":\"n\"},{\"type\":\"Forward\"}]",
     "[Image][Voice][File]n[Chat history]", "", "[Image][Voice 4s][File: n][Forward]"},
    {"[{\"type\":\"Unknown\",\"text\":\"u\"}]", "Unknown Message: u", "", "[Unknown]"},
    {"[{\"type\":\"Face\",\"face_name\":\"smile\"}]", "[表情]smile", "", "[Face]"},
    {"[{\"type\":\"Face\",\"face_type\":\"dice\",\"face_id\":6,\"face_name\":\"d\"}]",
     "[表情]6点的d", "", "[Face]"},
    {"[{\"type\":\"Face\",\"face_type\":\"rps\",\"face_id\":2,\"face_name\":\"r\"}]",
     "[表情]r(剪刀)", "", "[Face]"},
    {"[{\"type\":\"WeChatFile\",\"file_name\":\"w\"}]", "[文件]w", "", NULL},
    {"[{\"type\":\"WeChatForwardLink\",\"xml_data\":\"<x/>\"}]", "<x/>", "", NULL},
    {"[{\"type\":\"WeChatAppMsg\",\"app_msg\":\"m\"}]", "m", "", NULL},
    {"[{\"type\":\"Quote\",\"origin\":[{\"type\":\"Plain\",\"text\":\"q\"}]},{\"type\":\"Plain\",\"text\":\"a\"}]",
     NULL, "a", NULL},
};

static void text_table(void **state)
{
    for (size_t i = 0; i < array_len(texts); i++) {
        struct error err = {0};
        auto_arena a = arena_new(1 << 20);
        auto_json in = parse(texts[i].chain);
        auto_json chain = chain_decode(in, &err);
        struct str text = chain_text(a, chain), plain = chain_plain_text(a, chain),
                   out = chain_export_text(a, chain);
        if (texts[i].text && !str_eqz(text, texts[i].text))
            fail_msg("%s: text " STR_FMT, texts[i].chain, STR_ARG(text));
        if (!str_eqz(plain, texts[i].plain))
            fail_msg("%s: plain text " STR_FMT, texts[i].chain, STR_ARG(plain));
        if (texts[i].exported && !str_eqz(out, texts[i].exported))
            fail_msg("%s: export " STR_FMT, texts[i].chain, STR_ARG(out));
    }
}

static void searches(void **state)
{
    static const char *const words[] = {"Plain", "Source", NULL};
    auto_json chain = parse("[{\"type\":\"Source\",\"id\":1},{\"type\":\"Plain\",\"text\":\"a\"}]");
    assert_true(chain_only(chain, words));
    assert_true(chain_has(chain, "Source"));
    assert_false(chain_has(chain, "Image"));
    assert_string_equal(json_z(chain_find(chain, "Plain"), "text"), "a");
    json_array_append_new(chain, comp_image("http://x", NULL));
    assert_false(chain_only(chain, words));
    struct str mime, data;
    assert_true(data_uri_split(S("data:image/png;base64,AAEC"), &mime, &data));
    assert_true(str_eqz(mime, "image/png") && str_eqz(data, "AAEC"));
    assert_true(data_uri_split(S("data:a/b;charset=x;base64,"), &mime, &data));
    assert_true(str_eqz(mime, "a/b") && data.n == 0);
    assert_false(data_uri_split(S("data:image/png,AAEC"), &mime, &data));
    assert_false(data_uri_split(S("AAEC"), &mime, &data));
}

static void payloads_go(void **state)
{
    auto_json chain = parse(
        "[{\"type\":\"Image\",\"base64\":\"data:x;base64,AA\",\"url\":\"u\"},{\"type\":\"Quote\",\"origin\":[{\"type\":\"File\","
        "\"base64\":\"B\"}]},{\"type\":\"Forward\",\"node_list\":[{\"message_chain\":[{\"type\":\"Voice\",\"base64\":\"C\"}]}]},"
        "{\"type\":\"File\",\"file_base64\":\"D\"},{\"type\":\"Plain\",\"text\":\"t\"}]");
    chain_strip_base64(chain);
    equal(
        chain,
        "[{\"type\":\"Image\",\"base64\":\"\",\"url\":\"u\"},{\"type\":\"Quote\",\"origin\":[{\"type\":\"File\",\"base64\":\"\"}]},{\"type\":"
        "\"Forward\",\"node_list\":[{\"message_chain\":[{\"type\":\"Voice\",\"base64\":\"\"}]}]},{\"type\":\"File\",\"file_base64\":\"\"},"
        "{\"type\":\"Plain\",\"text\":\"t\"}]",
        "strip");
}

/* Wherever a payload may be: chain_bare must see it, or it would be kept; without one there is no copy. */
static void bare_chains(void **state)
{
    static const char *const loaded[] = {
        "[{\"type\":\"Image\",\"base64\":\"A\"}]",
        "[{\"type\":\"Image\",\"base64\":\"\\u0000A\"}]",
        "[{\"type\":\"File\",\"file_base64\":\"A\"}]",
        "[{\"type\":\"Quote\",\"origin\":[{\"type\":\"File\",\"file_base64\":\"A\"}]}]",
        "[{\"type\":\"Forward\",\"node_list\":[{\"message_chain\":[]},{\"message_chain\":[{\"type\":\"Voice\",\"base64\":\"A\"}]}]}]",
    };
    for (size_t i = 0; i < array_len(loaded); i++) {
        auto_json chain = parse(loaded[i]);
        auto_json stripped = json_deep_copy(chain);
        auto_json bare = chain_bare(chain);
        chain_strip_base64(stripped);
        char *text = json_dump_z(bare, JSON_COMPACT);
        assert_true(text && bare != chain && json_equal(bare, stripped));
        assert_true(str_find(str_c(text), S("A")) < 0);
        mem_free(text);
    }
    auto_json plain = parse("[{\"type\":\"Plain\",\"text\":\"A\"}]");
    auto_json same = chain_bare(plain);
    assert_ptr_equal(same, plain);
}

static void events_round(void **state)
{
    struct error err = {0};
    auto_arena a = arena_new(1 << 20);
    auto_json chain = chain_of_text(S("hi"));
    struct chat_event person = {.launcher = LAUNCHER_PERSON,
                                .sender_id = "u1",
                                .sender_name = "Ann",
                                .chain = chain,
                                .time = 12.5};
    auto_json j = event_to_json(&person);
    equal(
        j,
        "{\"type\":\"FriendMessage\",\"sender\":{\"id\":\"u1\",\"nickname\":\"Ann\",\"remark\":\"\"},\"message_chain\":[{\"type\":\"Plain\","
        "\"text\":\"hi\"}],\"time\":12.5}",
        "friend");
    struct chat_event back;
    assert_true(event_of_json(a, j, &back, &err));
    assert_string_equal(back.sender_id, "u1");
    assert_string_equal(back.sender_name, "Ann");
    assert_true(back.launcher == LAUNCHER_PERSON && back.time == 12.5 &&
                json_equal(back.chain, chain));
    struct chat_event group = {.launcher = LAUNCHER_GROUP,
                               .sender_id = "u1",
                               .group_id = "g",
                               .group_name = "Grp",
                               .chain = chain};
    auto_json g = event_to_json(&group);
    assert_true(event_of_json(a, g, &back, &err));
    assert_string_equal(back.group_id, "g");
    assert_string_equal(back.group_name, "Grp");
    assert_string_equal(back.sender_name, "");
    assert_string_equal(json_z(json_object_get(g, "sender"), "permission"), "MEMBER");
    auto_json numbers = parse(
        "{\"type\":\"GroupMessage\",\"sender\":{\"id\":7,\"group\":{\"id\":8}},\"message_chain\":[]}");
    assert_true(event_of_json(a, numbers, &back, &err));
    assert_string_equal(back.sender_id, "7");
    assert_string_equal(back.group_id, "8");
    auto_json other = parse("{\"type\":\"FeedbackEvent\"}");
    assert_false(event_of_json(a, other, &back, &err));
    auto_json bad = parse("{\"type\":\"FriendMessage\",\"message_chain\":[{\"type\":\"Plain\"}]}");
    assert_false(event_of_json(a, bad, &back, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

static const struct {
    const char *message, *prefix, *chain;
} contents[] = {
    {"{\"role\":\"assistant\",\"content\":null}", NULL, "null"},
    {"{\"role\":\"assistant\"}", NULL, "null"},
    {"{\"content\":\"a\"}", NULL, "[{\"type\":\"Plain\",\"text\":\"a\"}]"},
    {"{\"content\":\"a\"}", "[bot] ", "[{\"type\":\"Plain\",\"text\":\"[bot] a\"}]"},
    {"{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":null},{\"type\":\"file_base64\",\"file_base64\":\"x\"}]}",
     NULL, "[{\"type\":\"Plain\",\"text\":\"a\"}]"},
    {"{\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x\"}},{\"type\":\"image_url\",\"image_url\":{\"url\":"
     "\"data:x\"}}]}",
     "p ",
     "[{\"type\":\"Plain\",\"text\":\"p \"},{\"type\":\"Image\",\"image_id\":\"\",\"url\":\"http://x\",\"path\":\"\",\"base64\":\"\"}]"},
    {"{\"content\":[{\"type\":\"image_base64\",\"image_base64\":\"data:i;base64,A\"},{\"type\":\"text\",\"text\":\"t\"}]}",
     "p ",
     "[{\"type\":\"Image\",\"image_id\":\"\",\"url\":\"\",\"path\":\"\",\"base64\":\"data:i;base64,A\"},{\"type\":\"Plain\",\"text\":\"p t\"}]"},
    {"{\"content\":[{\"type\":\"file_url\",\"file_url\":\"http://f\",\"file_name\":\"n\"}]}", NULL,
     "[{\"type\":\"File\",\"id\":\"\",\"name\":\"n\",\"size\":0,\"url\":\"http://f\",\"path\":\"\",\"base64\":\"\"}]"},
};

static void content_table(void **state)
{
    for (size_t i = 0; i < array_len(contents); i++) {
        auto_json m = parse(contents[i].message);
        auto_json chain = llm_content_chain(m, contents[i].prefix);
        auto_json want = json_loads(contents[i].chain, JSON_DECODE_ANY, NULL);
        if (!json_equal(chain, want))
            equal(chain, contents[i].chain, contents[i].message);
    }
    /* Text is shared, not copied. */
    auto_json said = llm_message("assistant", S("word"));
    auto_json shared = llm_content_chain(said, NULL);
    assert_ptr_equal(json_object_get(json_array_get(shared, 0), "text"),
                     json_object_get(said, "content"));
    auto_arena a = arena_new(4096);
    auto_json parts = parse(
        "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\"},{\"type\":\"text\",\"text\":\"b\"}]}");
    assert_true(str_eqz(llm_content_text(a, parts), "ab"));
}

/* Whatever allocation fails: a result or an error, and nothing is lost. */
static void without_memory(void **state)
{
    auto_json in = parse(
        "[{\"type\":\"Quote\",\"origin\":[{\"type\":\"Image\"}]},{\"type\":\"Forward\",\"node_list\":[{\"message_chain\":[{\"type\":"
        "\"Plain\",\"text\":\"x\"}]}]},{\"type\":\"Nope\"},3,{\"type\":\"Source\",\"id\":1}]");
    auto_json m = parse(
        "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"file_url\",\"file_url\":\"f\"}]}");
    long live = mem_live();
    bool done = false;
    for (long n = 1; !done && n < 5000; n++) {
        struct error err = {0};
        mem_fail_after(n, false);
        json_t *chain = chain_decode(in, &err);
        bool told = chain || err.code != ERR_NONE;
        json_t *content = llm_content_chain(m, "p");
        auto_arena a = arena_new(1 << 16);
        struct chat_event e = {.launcher = LAUNCHER_GROUP,
                               .sender_id = "u",
                               .group_id = "g",
                               .chain = chain ? chain : in};
        json_t *event = event_to_json(&e);
        struct chat_event back;
        bool ok = a && event && event_of_json(a, event, &back, &err);
        done = ok && chain && content && !arena_failed(a);
        mem_fail_after(0, false);
        json_decref(event);
        json_decref(content);
        json_decref(chain);
        arena_free(steal(a));
        assert_true(told);
        assert_int_equal(mem_live(), live);
    }
    assert_true(done);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_table),   cmocka_unit_test(decode_limits),
        cmocka_unit_test(text_table),     cmocka_unit_test(searches),
        cmocka_unit_test(payloads_go),    cmocka_unit_test(bare_chains),
        cmocka_unit_test(events_round),   cmocka_unit_test(content_table),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("chat/chain", tests, NULL, NULL);
}
