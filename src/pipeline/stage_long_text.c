/* LongTextProcessStage: long answers as a forwarded message or a picture. pipeline.md §7.9. */
#include "pipeline/engine.h"

#include <unistd.h>

static json_t *forward(struct run *r, struct str text)
{
    const char *self = bot_account_id(r->bot);
    auto_buf preview = BUF(64u << 20);
    buf_z(&preview, "User: ");
    buf_str(&preview, text);
    json_t *node = json_pack("{s:s,s:s,s:o,s:i}", "sender_id", self, "sender_name", "User",
                             "message_chain", chain_of_text(text), "message_id", 0);
    json_t *display =
        json_pack("{s:s,s:s,s:s,s:[o],s:s}", "title", "Group chat history", "brief",
                  "[Chat history]", "source", "Chat history", "preview",
                  json_strn(buf_view(&preview)), "summary", "View 1 forwarded message");
    return json_pack("[{s:s,s:o,s:[o]}]", "type", "Forward", "display", display, "node_list", node);
}

struct picture_job {
    struct str text;
    const char *font;
    struct arena *arena;
    struct str uri;
    bool ok;
    char why[200];
};

static void picture_work(void *arg)
{
    struct picture_job *j = arg;
    j->ok = long_text_picture(j->text, j->font, j->arena, &j->uri, j->why);
}

static json_t *picture(struct run *r, struct str text, struct error *err)
{
    const char *font = conf_str(r->pipe->config, "output.long-text-processing.font-path", "");
    struct picture_job j = {.text = text, .font = font, .arena = r->query->arena};
    if (!*font || access(font, R_OK) != 0)
        return forward(r, text);
    if (!task_work(picture_work, &j, err))
        return NULL;
    if (!j.ok) {
        log_warn("query", "a long answer is forwarded as text, no picture could be made: %s",
                 j.why);
        return forward(r, text);
    }
    json_t *image = comp_image(NULL, str_z(r->query->arena, j.uri));
    return image ? json_pack("[o]", image) : NULL;
}

static bool process(struct run *r, struct stage_result *out, struct error *err)
{
    (void)out;
    static const char *const plain[] = {"Plain", NULL};
    /* The parts of a stream stay text: only the whole answer is worth a picture or a forward. */
    if (r->is_chunk && !r->is_final)
        return true;
    const char *strategy =
        conf_str(r->pipe->config, "output.long-text-processing.strategy", "none");
    if (strcmp(strategy, "none") == 0 || !r->out_chain || json_array_size(r->out_chain) == 0 ||
        !chain_only(r->out_chain, plain))
        return true;
    struct str text = chain_text(r->query->arena, r->out_chain);
    if ((int64_t)utf8_count(text) <=
        conf_int(r->pipe->config, "output.long-text-processing.threshold", 1000))
        return true;
    json_t *chain;
    if (strcmp(strategy, "forward") == 0)
        chain = forward(r, text);
    else if (strcmp(strategy, "image") == 0)
        chain = picture(r, text, err);
    else
        return err_set(err, ERR_INVALID, "output.long-text-processing.strategy %s is unknown",
                       strategy);
    if (chain) {
        run_keep(&r->out_chain, chain);
        return true;
    }
    return err->code ? false : err_set(err, ERR_NOMEM, "out of memory");
}

const struct stage stage_long_text = {.name = "LongTextProcessStage", .process = process};
