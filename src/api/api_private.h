/* Private to api/: the request context, authentication, answers. */
#ifndef PARLEY_API_PRIVATE_H
#define PARLEY_API_PRIVATE_H

#include "api/api.h"

/* Bodies of routes that need no login: nobody unknown makes the server hold or parse much. */
enum { API_OPEN_BODY_MAX = 64 << 10 };

/* What the gate leaves in http_request.user; in the request's arena. */
struct api_ctx {
    struct api *api;
    bool authenticated;
    unsigned long failures; /* mem_failures() at the beginning */
    struct principal principal;
};

struct api_private {
    struct map tokens;       /* "<token>|<selector>" → struct cached; bounded */
    struct task_sem hashing; /* one password hash at a time (http-api.md §1.8) */
    int64_t reset_window_us; /* recovery: fixed window of 15 minutes */
    int reset_used;
    struct map attempts; /* failed logins by account and by address */
    struct metric *requests, *latency, *logins;
    json_t *openapi;  /* made at the first request */
    struct map memos; /* memo.c; bounded by bytes */
    size_t memo_bytes;
    struct map oauth_states; /* SHA-256 of a state → struct oauth_state (space.c); bounded */
};

/* http-api.md §1.4. Fills ctx->principal; false: err holds status, code and text for the client. */
bool auth_request(struct api *a, struct http_request *r, enum auth_kind kind, struct api_ctx *ctx,
                  struct error *err) warn_unused;
/* A user token and a selector outside a request (WebSocket chats): as `user` routes. */
bool auth_user(struct api *a, struct arena *arena, struct str token, struct str selector,
               struct principal *out, struct error *err) warn_unused;
/* Account of a token without a workspace. */
bool auth_account(struct api *a, struct arena *arena, struct str token, struct principal *out,
                  struct error *err) warn_unused;
/* Fresh JWT for an account row (raw). */
struct str auth_token(struct api *a, struct arena *arena, const json_t *account, struct error *err);
void auth_cache_free(struct api *a);

/* Password work on a worker, one at a time: a second one gets ERR_CAPACITY 429 blocking_work_capacity_exceeded at once. */
bool api_hash(struct api *a, struct str password, char phc[256], struct error *err) warn_unused;
bool api_verify(struct api *a, const char *phc, struct str password, bool *right,
                struct error *err) warn_unused;
/* Login, invitation and embed limiter: false (429 answered by the caller) when `key` has failed too often in the last minutes. */
bool api_may_try(struct api *a, struct str key);
void api_tried(struct api *a, struct str key, bool failed);

/* Path parameter as a C string in the arena. */
const char *api_param(const struct http_request *r, size_t i);
/* Path parameter as the id of a row: a number that an id can be (the columns have 32 bits). */
bool api_param_id(const struct http_request *r, size_t i, int64_t *out);
/* Integer query value; absent: fallback; no number: 400 answered, false. */
bool api_query_int(struct http_request *r, const char *key, int64_t fallback, int64_t *out);
/* The declared fields of a route with fields_late: false: 400 answered. */
bool api_fields(struct http_request *r);

/* include_secret: absent or true shows what the caller may see, false hides it; it never grants. False: 400 answered. */
bool api_secrets(struct http_request *r, bool *shown);
/* chat.c, shared with the widget: an error frame; "person" or "group"; the first frame within 10 s if it is `authenticate` (new reference). */
struct ws *chat_accept(struct http_request *r);
void chat_refuse(struct ws *ws, const char *text);
bool chat_type(struct str name, enum launcher *out);
json_t *chat_first_frame(struct ws *ws);

/* memo.c: answers that are kept as text, for reads that come often. Such an answer may be made of nothing but rows of one change
 * group, the configuration, the path, what the caller may see, and the text `of`, which says the rest (a state of the process, say).
 * Only where an unchanged counter means unchanged rows (db_cacheable). */
struct api_memo {
    unsigned group;
    uint64_t version;
    struct str key;
};
/* True: answered. Otherwise read the rows now and answer with api_memo_ok, which takes `data` over. */
bool api_memo_find(struct http_request *r, unsigned group, const char *of, struct api_memo *m);
void api_memo_ok(struct http_request *r, const struct api_memo *m, json_t *data);
void api_memos_free(struct api *a);

void space_states_free(struct api *a);

/* static.c: files of the panel. */
void api_static(struct http_request *r, struct api *a);
json_t *openapi_document(void);

#endif
