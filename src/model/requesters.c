/* The wire protocols by name, and the calls that go through them. One line adds one. */
#include "model/model_private.h"

const struct requester *const requesters[] = {
    &requester_openai,
    NULL,
};

/* A list of models is asked for in the same way everywhere. */
const struct requester requester_unbuilt = {.family = "unbuilt", .scan = openai_scan};

void llm_answer_free(struct llm_answer *a)
{
    json_decref(a->message);
    json_decref(a->usage.raw);
    *a = (struct llm_answer){0};
}

static bool lacks(const struct model *m, const char *what, struct error *err)
{
    if (m->provider->wire == &requester_unbuilt)
        return err_set(err, ERR_INVALID, "The requester %s is not available in this version",
                       m->provider->requester);
    return err_set(err, ERR_INVALID, "%s does not support %s", m->provider->requester, what);
}

bool llm_invoke(struct model *m, const struct llm_request *req, struct llm_answer *out,
                struct error *err)
{
    const struct requester *r = m->provider->wire;
    return r->chat ? r->chat(m, req, out, err) : lacks(m, "LLM inference", err);
}

struct llm_stream *llm_open(struct model *m, const struct llm_request *req, struct error *err)
{
    const struct requester *r = m->provider->wire;
    if (r->chat_open)
        return r->chat_open(m, req, err);
    lacks(m, "LLM inference", err);
    return NULL;
}

static const struct requester *via(const struct llm_stream *s)
{
    return ((const struct stream_head *)(const void *)s)->via;
}

bool llm_next(struct llm_stream *s, struct llm_delta *d, struct error *err)
{
    return via(s)->chat_next(s, d, err);
}

bool llm_stream_answer(struct llm_stream *s, struct llm_answer *out, struct error *err)
{
    return via(s)->chat_answer(s, out, err);
}

void llm_close(struct llm_stream *s)
{
    if (s)
        via(s)->chat_close(s);
}

bool embed_invoke(struct model *m, const json_t *texts, const json_t *extra_args, json_t **vectors,
                  struct llm_usage *usage, struct error *err)
{
    const struct requester *r = m->provider->wire;
    return r->embed ? r->embed(m, texts, extra_args, vectors, usage, err)
                    : lacks(m, "embeddings", err);
}

bool rerank_invoke(struct model *m, struct str query, const json_t *documents,
                   const json_t *extra_args, json_t **scores, struct error *err)
{
    const struct requester *r = m->provider->wire;
    return r->rerank ? r->rerank(m, query, documents, extra_args, scores, err)
                     : lacks(m, "rerank", err);
}
