/* model: providers, models and requesters (one file per wire protocol; one line in requesters.c
 * adds one). providers.md §1–§12. */
#ifndef PARLEY_MODEL_H
#define PARLEY_MODEL_H

#include "base/base.h"
#include "chat/chat.h"
#include "config/config.h"
#include "net/net.h"
#include "store/store.h"
#include "tenant/tenant.h"

enum model_kind { MODEL_LLM, MODEL_EMBEDDING, MODEL_RERANK };

/* A provider row ready for use. Immutable; the key index moves (rotation on 401/429). Reference
 * counted. */
struct provider;
/* A model row with its provider. Immutable; reference counted: what runs keeps its own while the
 * row changes. */
struct model;

struct
    models; /* cache of all of them, keyed by scope and uuid; bounded; filled from the store on demand */
struct models *models_new(const struct store *st, const struct config *cfg, struct error *err);
void models_free(struct models *m);
/* New reference or NULL: ERR_NOT_FOUND "LLM model <uuid> not found" … Waits for the store on a
 * miss. */
struct model *models_get(struct models *m, const struct scope *scope, enum model_kind kind,
                         const char *uuid, struct error *err);
/* Built from rows without being stored (model test with uuid "_", scans). */
struct model *model_of_rows(struct models *m, const struct scope *scope, enum model_kind kind,
                            const json_t *model_row, const json_t *provider_row, struct error *err);
void model_ref(struct model *m);
void model_unref(struct model *m); /* NULL is fine */
void models_forget(struct models *m, const struct scope *scope, const char *provider_or_model_uuid);
void models_counts(const struct models *m, size_t *providers, size_t *llms, size_t *embeddings,
                   size_t *rerankers);

const char *model_name(const struct model *m);
const char *model_uuid(const struct model *m);
bool model_can(const struct model *m, const char *ability); /* "vision", "func_call", "reasoning" */
const char *model_requester(const struct model *m);

/* ---- requester catalogue (metadata/requesters) ----------------------------------------------- */
const json_t *requester_manifest(const char *name); /* borrowed; NULL if unknown */
json_t *requester_list(const char *type);           /* new array of manifests; NULL type: all */
/* Providers may name it: it has a manifest, or it is one that this version cannot use (unbuilt in
 * models.yaml), which is kept but not offered. */
bool requester_known(const char *name);
bool requester_supports(const char *name, enum model_kind kind);
/* Level/ability knowledge (§8): {supported, levels, source[, legacy_levels]}; new reference. */
json_t *reasoning_capabilities(const char *requester, const char *model_name,
                               const json_t *abilities);
/* Normalised reasoning_config or NULL with ERR_INVALID (§8 validation). */
json_t *reasoning_check(const json_t *config, const char *requester, const char *model_name,
                        const json_t *abilities, const json_t *extra_args, struct error *err);

/* ---- chat ------------------------------------------------------------------------------------
 * ------------------------------------- One request. Messages and tools are JSON as of
 * providers.md §15; nothing is modified. */
struct llm_request {
    const json_t *messages;      /* array */
    const json_t *tools;         /* array of {name, description, parameters} or NULL */
    const json_t *extra_args;    /* call-level, or NULL */
    const char *reasoning_level; /* pipeline override; NULL: the model's own stored level */
    bool remove_think;
    int timeout_ms; /* whole request; 0: 120 s */
};
struct llm_usage {
    bool known;
    int64_t input, output, total;
    json_t *raw; /* normalised provider fields; owned; may be NULL */
};
/* One complete answer. message: new reference ({role, content, tool_calls?,
 * provider_specific_fields?}); content never null. */
struct llm_answer {
    json_t *message;
    struct llm_usage usage;
};
void llm_answer_free(struct llm_answer *a);
/* Errors: ERR_UPSTREAM/ERR_TIMEOUT with msg "模型请求失败: …" as of §6.5 (tag names the category:
 * "context_length", "bad_request", "auth", "not_found", "rate_limited", "timeout", "connection",
 * "api", "unknown"). */
bool llm_invoke(struct model *m, const struct llm_request *req, struct llm_answer *out,
                struct error *err) warn_unused;
/* Streaming: next gives a delta; at the end `done`. */
struct llm_delta {
    struct str
        whole; /* visible text of all deltas so far, this one included; until the next call */
    struct str
        text; /* visible text of this delta, think handling applied, valid UTF-8; may be empty; until the next call */
    json_t *
        tool_calls; /* array of fragments {index,id,type,function{name,arguments}} or NULL; borrowed */
    unsigned events; /* of the provider with text that were put together in it */
    bool finish;     /* a finish_reason came with it (more may follow: usage, held-back text) */
    bool done;       /* the stream has ended; text may still hold the rest */
};
struct llm_stream;
struct llm_stream *llm_open(struct model *m, const struct llm_request *req, struct error *err);
bool llm_next(struct llm_stream *s, struct llm_delta *d, struct error *err) warn_unused;
/* After done: the whole message (as in llm_answer) and usage; may be asked once. */
bool llm_stream_answer(struct llm_stream *s, struct llm_answer *out, struct error *err) warn_unused;
void llm_close(struct llm_stream *s); /* aborts if not done; NULL is fine */

/* ---- embeddings, rerank, scan ---------------------------------------------------------------- */
/* vectors: new array of arrays. */
bool embed_invoke(struct model *m, const json_t *texts, const json_t *extra_args, json_t **vectors,
                  struct llm_usage *usage, struct error *err) warn_unused;
/* scores: new array of numbers, one for each document; min-max normalised (§10). */
bool rerank_invoke(struct model *m, struct str query, const json_t *documents,
                   const json_t *extra_args, json_t **scores, struct error *err) warn_unused;
/* {models:[…], debug} without already_added (the caller compares with rows). */
json_t *provider_scan(struct models *m, const struct scope *scope, const json_t *provider_row,
                      const char *type, struct error *err);

/* ---- the interface of a wire protocol -------------------------------------------------------- */
struct requester {
    const char *family; /* "openai" */
    bool (*chat)(struct model *m, const struct llm_request *req, struct llm_answer *out,
                 struct error *err);
    struct llm_stream *(*chat_open)(struct model *m, const struct llm_request *req,
                                    struct error *err);
    bool (*chat_next)(struct llm_stream *s, struct llm_delta *d, struct error *err);
    bool (*chat_answer)(struct llm_stream *s, struct llm_answer *out, struct error *err);
    void (*chat_close)(struct llm_stream *s);
    bool (*embed)(struct model *m, const json_t *texts, const json_t *extra_args, json_t **vectors,
                  struct llm_usage *usage, struct error *err);
    bool (*rerank)(struct model *m, struct str query, const json_t *documents,
                   const json_t *extra_args, json_t **scores, struct error *err);
    json_t *(*scan)(struct provider *p, const char *type, struct error *err);
};
extern const struct requester *const requesters[]; /* NULL-terminated */

/* ---- rows (used by api/): providers and models with their rules (§2.1, §2.2) ----------------- */
/* Lists carry counts; `secrets` false: masked. Each answers the row rules of §2 and forgets the
 * cache after commit. */
json_t *provider_list(struct models *m, const struct scope *s, bool secrets, struct error *err);
json_t *provider_get(struct models *m, const struct scope *s, const char *uuid, bool secrets,
                     struct error *err);
bool provider_create(struct models *m, const struct scope *s, const json_t *body,
                     char uuid[UUID_SIZE], struct error *err) warn_unused;
bool provider_update(struct models *m, const struct scope *s, const char *uuid, const json_t *body,
                     struct error *err) warn_unused;
bool provider_delete(struct models *m, const struct scope *s, const char *uuid, bool cascade,
                     struct error *err) warn_unused;
json_t *model_list(struct models *m, const struct scope *s, enum model_kind k,
                   const char *provider_uuid, bool secrets, struct error *err);
json_t *model_get_row(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                      bool secrets, struct error *err);
bool model_create(struct models *m, const struct scope *s, enum model_kind k, const json_t *body,
                  char uuid[UUID_SIZE], struct error *err) warn_unused;
bool model_update(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                  const json_t *body, struct error *err) warn_unused;
bool model_delete(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                  struct error *err) warn_unused;
bool model_test(struct models *m, const struct scope *s, enum model_kind k,
                const char *uuid_or_underscore, const json_t *body, struct error *err) warn_unused;

#endif
