/* Shared by the files of model/. Not for anybody else. */
#ifndef PARLEY_MODEL_PRIVATE_H
#define PARLEY_MODEL_PRIVATE_H

#include "model/model.h"

struct provider {
    long refs;
    const char *uuid, *requester, *base_url; /* base_url without slashes at its end */
    const char *family;                      /* the manifest's litellm_provider, or NULL */
    const struct requester *wire;
    const char **keys; /* normalised: no blanks, no doubles (§1.5) */
    size_t key_count;
    struct arena *arena; /* holds all of this */
};
struct model {
    long refs;
    enum model_kind kind;
    struct provider *provider; /* one reference */
    const char *uuid, *name;
    const char *level;       /* stored reasoning level; "provider_default" if none */
    const json_t *abilities; /* array or NULL; in `row` */
    const json_t *extra_args;
    json_t *row;
    bool orphan_close; /* this model was seen to end a thought that it had not begun (think.c) */
    struct arena *arena;
};
/* From rows as stored (secrets in clear); new reference. ERR_NOT_FOUND "Requester … not found". */
struct provider *provider_of_row(const json_t *row, struct error *err);
void provider_unref(struct provider *p); /* NULL is fine */
/* Takes its own reference of `p`. */
struct model *model_of_row(enum model_kind kind, const json_t *row, struct provider *p,
                           struct error *err);

/* ---- models.c -------------------------------------------------------------------------------- */
struct models {
    const struct store *store;
    const struct config *config;
    struct map cache[3]; /* by kind: "<workspace>/<generation>/<uuid>" to a struct model */
    uint64_t version;    /* of the rows that the cache was made from */
};
const struct table *models_table(enum model_kind kind);
/* As a stored row looks to a caller: without secrets where `secrets` is false. Takes over `row`. */
json_t *models_shown(json_t *row, bool secrets);

/* ---- rows_provider.c ------------------------------------------------------------------------- */
/* Keys as of §1.5: new array; ERR_INVALID for "***" without a stored key at its place (`stored`:
 * the old array or NULL). */
json_t *provider_keys(const json_t *given, const json_t *stored, struct error *err);

/* ---- catalogue.c: metadata/requesters and metadata/models.yaml ------------------------------- */
const json_t *catalogue_models(void); /* borrowed; NULL when memory ended */
void catalogue_free(void);            /* for leak checks; loaded again when needed */
/* Rules of models.yaml (its head comment says how they match); `level` NULL where rules have
 * none. */
const json_t *catalogue_rule(const char *path, const char *family, const char *level,
                             const char *name);
/* Lower case of what follows the last '/' (`whole`: of all); cut at `size` - 1 bytes. */
const char *catalogue_name(const char *model_name, bool whole, char *out, size_t size);

/* ---- reasoning.c ----------------------------------------------------------------------------- */
/* "kimi", "qwen" …, NULL: none is known. Borrowed from the catalogue. */
const char *reasoning_family(const char *requester, const char *model_name);
/* Arguments of a level as a new object ({} for the default). ERR_INVALID: unknown or unsupported
 * level, or raw arguments in one of the extra_args (either may be NULL). */
json_t *reasoning_args(const struct model *m, const char *level, const json_t *extra,
                       const json_t *call_extra, struct error *err);
/* The field of an earlier assistant message that the family wants back, or NULL. */
const char *reasoning_replay(const char *family);

/* ---- think.c: removes thoughts from text (§6.4) ---------------------------------------------- */
struct think {
    struct buf held;  /* not decided yet: leading text, or what may be the start of a tag */
    struct buf space; /* white space that is dropped if nothing follows */
    size_t scanned;   /* bytes of `held` that hold no tag */
    int pair;         /* of the open block */
    bool inside;      /* in a block */
    bool decided;     /* no orphan close tag is waited for any more */
    bool loose;       /* decided by length alone: no tag has been seen yet */
    size_t hold;      /* bytes of leading text to wait for an orphan close tag */
    bool started;     /* visible text has been given out */
    bool orphan;      /* a thought without its open tag was found */
    bool late;        /* … after its text had been given out */
    size_t late_at;   /* bytes of visible text given out until then, wrong ones */
    size_t given;
};
/* Bytes of leading text held back for an orphan close tag, and of a model that has sent one. SIZE_MAX: to the end. */
enum { THINK_HOLD = 1024, THINK_HOLD_LONG = 8192 };
void think_init(struct think *t, size_t hold);
void think_free(struct think *t);
/* Appends visible text to `out`. False when a buffer is full. */
bool think_feed(struct think *t, struct str text, struct buf *out) warn_unused;
bool think_end(struct think *t, struct buf *out) warn_unused;
/* All at once; `out` gets the trimmed rest. */
bool think_strip(struct str text, struct buf *out) warn_unused;

/* ---- wire.c: one request to a provider: keys in turn, repeats, errors in the words of §6.5 */
struct wire {
    const struct provider *provider;
    const char *method, *url;
    struct str body;             /* "" for GET */
    const json_t *extra_headers; /* object or NULL */
    const char *accept;          /* media type or NULL */
    int64_t until_us;            /* time_mono_us() by which the headers must be there */
    int timeout_ms;              /* silence between two reads, and the limit until the headers */
    bool trickles;               /* the answer comes little by little */
    bool one_try;                /* no other key, no repeat */
    bool plain;                  /* error texts without the prefix of §6.5: scan, rerank */
    int status;                  /* of the last answer, 0: none came */
    struct arena *arena;
};
enum { WIRE_TIMEOUT_MS = 120000, WIRE_BODY_MAX = 10 * 1024 * 1024, WIRE_ERROR_MAX = 64 * 1024 };
/* An answer with status 2xx whose body is still to be read; NULL with the categorised error.
 * With `plain`: NULL and err as of net/, or status >= 300 with its text in err->msg. */
struct http_stream *wire_open(struct wire *w, struct error *err);
/* Reads the rest, at most `max` bytes, into the arena, and closes the stream. */
bool wire_body(struct wire *w, struct http_stream *s, size_t max, struct str *out,
               struct error *err) warn_unused;
/* Both, and parses it as a JSON object: new reference. */
json_t *wire_json(struct wire *w, struct error *err);
/* Sets `err` from an error object of a body ({error:{message,code,type}} and its relatives).
 * Returns false. */
bool wire_refused(const struct wire *w, int status, struct str body, struct error *err);
/* Puts a transport or parser error into the words of §6.5; leaves ERR_CANCELED and ERR_NOMEM
 * alone. Returns false. */
bool wire_failed(const struct wire *w, struct error *err);
/* base_url + "/" + path; the manifest's default where the provider has none. NULL: ERR_INVALID. */
const char *wire_url(struct arena *a, const struct provider *p, const char *path,
                     struct error *err);

/* ---- openai_quick.c -------------------------------------------------------------------------- */
/* An event that brings a few words and nothing else: one choice, no usage, no end. */
struct quick_delta {
    struct str role, content; /* "" if there is none */
};
/* The reader of one stream. */
struct quick {
    struct buf frame;   /* of the event before: all but its words … */
    size_t before;      /* … which stood behind so many of these bytes */
    struct buf decoded; /* words that held escapes */
};
void openai_quick_init(struct quick *q);
void openai_quick_free(struct quick *q);
/* False: the event is something else, or malformed, and has to be read in full. True: reading it in
 * full would give exactly `out`, which is valid until the next call. `text` without blanks around
 * it. */
bool openai_quick(struct quick *q, struct str text, struct quick_delta *out) warn_unused;

/* ---- openai_body.c --------------------------------------------------------------------------- */
/* The JSON text of a chat request in `out`, and the caller's extra_headers (borrowed) if any. */
bool openai_body(const struct model *m, const struct llm_request *req, bool stream, struct buf *out,
                 const json_t **extra_headers, struct error *err) warn_unused;
/* Adds extra args to a body: extra_headers to *headers, extra_body's members to the top. */
bool openai_extra(json_t *body, const json_t *extra, const json_t **headers,
                  struct error *err) warn_unused;
const char *openai_name(const struct model *m); /* without the family's prefix */
/* Usage as of §6.2; *out stays unknown for no object. */
void openai_usage(const json_t *usage, struct llm_usage *out);
/* A whole answer's JSON. */
bool openai_answer(const json_t *body, bool remove_think, struct llm_answer *out,
                   struct error *err) warn_unused;

/* What every requester's `struct llm_stream` starts with. */
struct stream_head {
    const struct requester *via;
};

/* ---- openai.c, openai_stream.c, openai_more.c: the parts of the requester -------------------- */
bool openai_chat(struct model *m, const struct llm_request *req, struct llm_answer *out,
                 struct error *err) warn_unused;
struct llm_stream *openai_open(struct model *m, const struct llm_request *req, struct error *err);
bool openai_next(struct llm_stream *s, struct llm_delta *d, struct error *err) warn_unused;
bool openai_stream_answer(struct llm_stream *s, struct llm_answer *out,
                          struct error *err) warn_unused;
void openai_close(struct llm_stream *s);
bool openai_embed(struct model *m, const json_t *texts, const json_t *extra_args, json_t **vectors,
                  struct llm_usage *usage, struct error *err) warn_unused;
bool openai_rerank(struct model *m, struct str query, const json_t *documents,
                   const json_t *extra_args, json_t **scores, struct error *err) warn_unused;
json_t *openai_scan(struct provider *p, const char *type, struct error *err);
extern const struct requester requester_openai;
extern const struct requester requester_unbuilt; /* of providers that this version cannot use */

#endif
