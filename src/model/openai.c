/* The requester for OpenAI chat completions and all that speak it (§6). */
#include "model/model_private.h"

bool openai_chat(struct model *m, const struct llm_request *req, struct llm_answer *out,
                 struct error *err)
{
    auto_arena a = arena_new(WIRE_BODY_MAX * 2);
    auto_buf body = BUF(64 * 1024 * 1024);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    int timeout = req->timeout_ms > 0 ? req->timeout_ms : WIRE_TIMEOUT_MS;
    struct wire w = {.provider = m->provider,
                     .method = "POST",
                     .accept = "application/json",
                     .timeout_ms = timeout,
                     .until_us = time_mono_us() + (int64_t)timeout * 1000,
                     .body = S(""),
                     .arena = a};
    *out = (struct llm_answer){0};
    w.url = wire_url(a, m->provider, "chat/completions", err);
    if (!w.url || !openai_body(m, req, false, &body, &w.extra_headers, err))
        return wire_failed(&w, err);
    w.body = buf_view(&body);
    auto_json answer = wire_json(&w, err);
    if (!answer)
        return false;
    return openai_answer(answer, req->remove_think, out, err) || wire_failed(&w, err);
}

const struct requester requester_openai = {
    .family = "openai",
    .chat = openai_chat,
    .chat_open = openai_open,
    .chat_next = openai_next,
    .chat_answer = openai_stream_answer,
    .chat_close = openai_close,
    .embed = openai_embed,
    .rerank = openai_rerank,
    .scan = openai_scan,
};
