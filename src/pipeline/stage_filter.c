/* PreContentFilterStage and PostContentFilterStage: ignore rules and sensitive words. pipeline.md §7.3. */
#include "pipeline/engine.h"

struct filter_job {
    const json_t *ignore_prefix, *ignore_regexp; /* NULL on the way out */
    const json_t *words;                         /* NULL: not checked */
    struct str mask, mask_word, subject;
    struct arena *arena;
    bool ignored, masked, broken;
    struct str replaced;
};

/* Runs on a worker: patterns may be slow. The arena is the query's; its fiber waits meanwhile. */
static void filter_work(void *arg)
{
    struct filter_job *j = arg;
    const char *why = NULL;
    j->replaced = j->subject;
    if (json_array_size(j->ignore_regexp) > 0) {
        enum regex_answer a = regex_any(j->ignore_regexp, j->subject, REGEX_SEARCH, &why);
        if (a != REGEX_NO) {
            j->ignored = true;
            return;
        }
    }
    if (json_array_size(j->words) == 0)
        return;
    switch (regex_mask(j->words, j->subject, j->mask, j->mask_word, j->arena, &j->replaced)) {
    case REGEX_YES: j->masked = true; break;
    case REGEX_REJECTED: j->broken = true; break;
    case REGEX_NO: break;
    }
}

static bool ignored_by_prefix(const json_t *prefixes, struct str text)
{
    size_t i;
    json_t *p;
    json_array_foreach (prefixes, i, p) {
        if (json_string_length(p) > 0 && str_starts(text, json_sv(p)))
            return true;
    }
    return false;
}

static bool run_filters(struct run *r, struct filter_job *j, bool pre, struct error *err)
{
    const json_t *sensitive = config_sensitive_words(r->engine->config);
    if (conf_bool(r->pipe->config, "safety.content-filter.check-sensitive-words", false)) {
        j->words = json_object_get(sensitive, "words");
        j->mask = json_s(sensitive, "mask");
        j->mask_word = json_s(sensitive, "mask_word");
    }
    if (pre) {
        if (ignored_by_prefix(conf_at(r, "trigger.ignore-rules.prefix"), j->subject)) {
            j->ignored = true;
            return true;
        }
        j->ignore_regexp = conf_at(r, "trigger.ignore-rules.regexp");
    }
    j->arena = r->query->arena;
    j->replaced = j->subject;
    if (json_array_size(j->ignore_regexp) == 0 && json_array_size(j->words) == 0)
        return true;
    return task_work(filter_work, j, err);
}

static json_t *notice(struct run *r, const char *text)
{
    return arena_json(r->query->arena, json_string(text));
}

static bool pre(struct run *r, struct stage_result *out, struct error *err)
{
    static const char *const texts[] = {"Plain", "Source", NULL};
    struct query *q = r->query;
    if (!chain_only(q->chain, texts) ||
        strcmp(conf_str(r->pipe->config, "safety.content-filter.scope", "all"), "output-msg") == 0)
        return true;
    struct filter_job j = {.subject = str_trim(chain_text(q->arena, q->chain))};
    if (j.subject.n == 0)
        return true;
    if (!run_filters(r, &j, true, err))
        return false;
    if (j.ignored || j.masked || j.broken) {
        out->verdict = STAGE_INTERRUPT;
        if (j.masked)
            out->user_notice = notice(r, "消息中存在不合适的内容, 请修改");
        else if (j.broken)
            out->user_notice = notice(r, "内容检查规则执行失败，请联系管理员");
        out->console_notice = j.ignored ? "message ignored by an ignore rule"
                                        : "message refused by the content filter";
        return true;
    }
    /* Reply ids live in the event's chain: the query's becomes plain text. */
    q->chain = arena_json(q->arena, chain_of_text(j.replaced));
    return q->chain || err_set(err, ERR_NOMEM, "out of memory");
}

static bool post(struct run *r, struct stage_result *out, struct error *err)
{
    /* Streams are filtered at their final text: a part may cut a word in two (spec Q: the reference never filters them). */
    if (r->response_is_chain || !r->response || (r->is_chunk && !r->is_final) ||
        strcmp(conf_str(r->pipe->config, "safety.content-filter.scope", "all"), "income-msg") == 0)
        return true;
    json_t *content = json_object_get(r->response, "content");
    if (!json_is_string(content) || json_string_length(content) == 0)
        return true;
    /* What has been streamed stays as it was shown, its last blank too. */
    struct filter_job j = {.subject = r->is_chunk ? json_sv(content) : str_trim(json_sv(content))};
    if (!run_filters(r, &j, false, err))
        return false;
    if (j.broken) {
        out->verdict = STAGE_INTERRUPT;
        out->user_notice = notice(r, "内容检查规则执行失败，请联系管理员");
        return true;
    }
    if (str_eq(j.replaced, json_sv(content)))
        return true;
    json_t *filtered = json_copy(r->response), *all = r->query->responses;
    if (!filtered || !json_set(filtered, "content", json_strn(j.replaced))) {
        json_decref(filtered);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    /* The history keeps what the user saw. */
    size_t n = json_array_size(all);
    if (n > 0 && json_array_get(all, n - 1) == r->response)
        json_array_set(all, n - 1, filtered);
    run_keep(&r->response, filtered);
    return true;
}

const struct stage stage_pre_filter = {.name = "PreContentFilterStage", .process = pre};
const struct stage stage_post_filter = {.name = "PostContentFilterStage", .process = post};
