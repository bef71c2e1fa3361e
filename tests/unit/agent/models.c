#include "agent/models.h"

#include <stdio.h>

struct llm_stream {
    struct model *m;
    int at;
    json_t *message; /* by script */
    struct buf all;
};

struct model fast, slow, third;
static struct model *const all_models[] = {&fast, &slow, &third};

void models_reset(void)
{
    for (size_t i = 0; i < array_len(all_models); i++) {
        json_decref(all_models[i]->messages);
        json_decref(all_models[i]->tools);
        *all_models[i] = (struct model){0};
    }
}

bool model_can(const struct model *m, const char *ability)
{
    return m->calls && strcmp(ability, "func_call") == 0;
}

struct model *models_get(struct models *ms, const struct scope *s, enum model_kind kind,
                         const char *uuid, struct error *err)
{
    for (size_t i = 0; i < array_len(all_models); i++) {
        if (all_models[i]->uuid && strcmp(all_models[i]->uuid, uuid) == 0) {
            all_models[i]->refs++;
            return all_models[i];
        }
    }
    err_set(err, ERR_NOT_FOUND, "LLM model %s not found", uuid);
    return NULL;
}

void model_unref(struct model *m)
{
    if (m)
        m->refs--;
}

const char *model_name(const struct model *m)
{
    return m->uuid;
}

static void note(struct model *m, const struct llm_request *r)
{
    snprintf(m->level, sizeof m->level, "%s", r->reasoning_level ? r->reasoning_level : "");
    m->remove_think = r->remove_think;
    json_decref(m->messages);
    m->messages = json_deep_copy(r->messages);
    json_decref(m->tools);
    m->tools = json_deep_copy(r->tools);
}

static json_t *scripted(struct model *m, int n)
{
    return m->script ? m->script(m, n) : NULL;
}

bool llm_invoke(struct model *m, const struct llm_request *r, struct llm_answer *out,
                struct error *err)
{
    m->invoked++;
    note(m, r);
    json_t *made = scripted(m, m->invoked);
    if (json_is_object(made)) {
        *out =
            (struct llm_answer){.message = made, .usage = {.known = true, .input = 3, .output = 4}};
        return true;
    }
    if (!m->answer || json_is_null(made))
        return err_set(err, m->code ? m->code : ERR_UPSTREAM, "%s is down", m->uuid);
    *out = (struct llm_answer){.message = llm_message("assistant", str_c(m->answer)),
                               .usage = {.known = true, .input = 3, .output = 4}};
    return true;
}

void llm_answer_free(struct llm_answer *a)
{
    json_decref(a->message);
    json_decref(a->usage.raw);
}

struct llm_stream *llm_open(struct model *m, const struct llm_request *r, struct error *err)
{
    m->opened++;
    note(m, r);
    auto_json made = scripted(m, m->opened);
    if (m->fail_at == 0 || json_is_null(made)) {
        err_set(err, m->code ? m->code : ERR_UPSTREAM, "%s is down", m->uuid);
        return NULL;
    }
    struct llm_stream *s = new (struct llm_stream);
    *s = (struct llm_stream){.m = m, .all = BUF(8 << 20), .message = steal(made)};
    return s;
}

bool llm_next(struct llm_stream *s, struct llm_delta *d, struct error *err)
{
    struct model *m = s->m;
    if (m->fail_at > 0 && s->at + 1 == m->fail_at)
        return err_set(err, m->code ? m->code : ERR_UPSTREAM, "%s broke off", m->uuid);
    const char *piece = m->pieces[s->at];
    if (s->message)
        piece =
            s->at == 0 && json_s(s->message, "content").n ? json_z(s->message, "content") : NULL;
    *d = (struct llm_delta){.text = str_c(piece), .events = piece ? 8 : 0, .done = piece == NULL};
    if (piece) {
        s->at++;
        buf_z(&s->all, piece);
    }
    d->whole = s->all.n ? buf_view(&s->all) : S("");
    return true;
}

bool llm_stream_answer(struct llm_stream *s, struct llm_answer *out, struct error *err)
{
    json_t *whole =
        s->message ? json_deep_copy(s->message) : llm_message("assistant", buf_view(&s->all));
    *out = (struct llm_answer){.message = whole, .usage = {.known = true, .total = 9}};
    return true;
}

void llm_close(struct llm_stream *s)
{
    buf_free(&s->all);
    json_decref(s->message);
    mem_free(s);
}
