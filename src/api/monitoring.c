/* Monitoring. http-api.md §16. */
#include "api/api_private.h"
#include "api/routes.h"

#define API "/api/v1/monitoring"

struct limits {
    int64_t page, offset, export_rows, detail, buckets;
};

static struct limits limits_of(const struct api *a)
{
    const struct config *c = a->config;
    return (struct limits){
        .page = config_int_in(c, "monitoring.query_limits.page_rows", 1, 5000),
        .offset = config_int_in(c, "monitoring.query_limits.max_offset", 0, 10000000),
        .export_rows = config_int_in(c, "monitoring.query_limits.export_rows", 1, 50000),
        .detail = config_int_in(c, "monitoring.query_limits.detail_rows", 1, 10000),
        .buckets = config_int_in(c, "monitoring.query_limits.timeseries_buckets", 1, 10000),
    };
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static json_t *many(struct http_request *r, const char *key)
{
    json_t *list = json_array();
    size_t n = query_count(r->query, key);
    for (size_t i = 0; i < n && i < 90; i++)
        json_array_append_new(list, json_strn(query_nth(r->arena, r->query, key, i)));
    return arena_json(r->arena, list);
}

static bool time_query(struct http_request *r, const char *key, int64_t *out)
{
    struct str v = http_query(r, key);
    *out = 0;
    if (v.n == 0 || time_parse(v, out))
        return true;
    api_fail(r, 400, NULL, "%s must be an ISO 8601 time", key);
    return false;
}

/* The common filters. What was recorded but not yet written is written first, so that nobody reads the past. False: answered. */
static bool filter_of(struct http_request *r, int64_t default_limit, struct monitor_filter *f,
                      int64_t *limit, int64_t *offset)
{
    struct error err = {0};
    struct limits l = limits_of(api_of(r));
    *f = (struct monitor_filter){.active = -1};
    if (!api_query_int(r, "limit", default_limit, limit) ||
        !api_query_int(r, "offset", 0, offset) || !time_query(r, "startTime", &f->from_us) ||
        !time_query(r, "endTime", &f->to_us))
        return false;
    f->bots = many(r, "botId");
    f->pipelines = many(r, "pipelineId");
    f->sessions = many(r, "sessionId");
    f->limit = clamp(*limit, 1, l.page);
    f->offset = clamp(*offset, 0, l.offset);
    if (engine_flush(api_of(r)->engine, &err))
        return true;
    api_error(r, &err);
    return false;
}

static void answer(struct http_request *r, json_t *value, const struct error *err)
{
    if (value)
        api_ok(r, value);
    else
        api_error(r, err);
}

static void overview(struct http_request *r)
{
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset;
    if (filter_of(r, 100, &f, &limit, &offset))
        answer(r, monitor_overview(api_of(r)->store, api_scope(r), &f, &err), &err);
}

static void tokens(struct http_request *r)
{
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset;
    if (filter_of(r, 100, &f, &limit, &offset))
        answer(r,
               monitor_tokens(api_of(r)->store, api_scope(r), &f,
                              str_eqz(http_query(r, "bucket"), "day"), limits_of(api_of(r)).buckets,
                              &err),
               &err);
}

/* The lists: last part of the path, key of the rows, table. */
static const struct listing {
    const char *path, *key;
    const struct table *table;
} listings[] = {
    {API "/messages", "messages", &table_mon_messages},
    {API "/llm-calls", "llm_calls", &table_mon_llm_calls},
    {API "/tool-calls", "tool_calls", &table_mon_tool_calls},
    {API "/embedding-calls", "embedding_calls", &table_mon_embedding_calls},
    {API "/sessions", "sessions", &table_mon_sessions},
    {API "/errors", "errors", &table_mon_errors},
    {API "/feedback", "feedback", &table_mon_feedback},
};

static void list(struct http_request *r)
{
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset, type;
    const struct listing *l = listings;
    while (strcmp(l->path, r->route->pattern) != 0)
        l++;
    if (!filter_of(r, 100, &f, &limit, &offset) || !api_query_int(r, "feedbackType", 0, &type))
        return;
    struct str active = http_query(r, "isActive"), base = http_query(r, "knowledgeBaseId");
    f.active = active.n ? str_ieqz(active, "true") : -1;
    f.feedback_type = (int)type;
    f.knowledge_base = base.n ? str_z(r->arena, base) : NULL;
    auto_json got = monitor_list(api_of(r)->store, api_scope(r), l->table, &f, &err);
    if (!got) {
        api_error(r, &err);
        return;
    }
    api_ok(r, json_pack("{s:O,s:O,s:I,s:I}", l->key, json_object_get(got, "rows"), "total",
                        json_object_get(got, "total"), "limit", (json_int_t)limit, "offset",
                        (json_int_t)offset));
}

static void data(struct http_request *r)
{
    static const struct {
        const char *key;
        const struct table *table;
    } all[] = {{"messages", &table_mon_messages},    {"llmCalls", &table_mon_llm_calls},
               {"toolCalls", &table_mon_tool_calls}, {"embeddingCalls", &table_mon_embedding_calls},
               {"sessions", &table_mon_sessions},    {"errors", &table_mon_errors}};
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset;
    if (!filter_of(r, 50, &f, &limit, &offset))
        return;
    json_t *over = monitor_overview(api_of(r)->store, api_scope(r), &f, &err);
    if (!over) {
        api_error(r, &err);
        return;
    }
    auto_json out = json_pack("{s:o,s:{}}", "overview", over, "totalCount");
    for (size_t i = 0; i < array_len(all); i++) {
        auto_json got = monitor_list(api_of(r)->store, api_scope(r), all[i].table, &f, &err);
        if (!got) {
            api_error(r, &err);
            return;
        }
        json_object_set(out, all[i].key, json_object_get(got, "rows"));
        json_object_set(json_object_get(out, "totalCount"), all[i].key,
                        json_object_get(got, "total"));
    }
    api_ok(r, json_incref(out));
}

static void session(struct http_request *r)
{
    struct error err = {0};
    if (engine_flush(api_of(r)->engine, &err))
        answer(r,
               monitor_session_analysis(api_of(r)->store, api_scope(r), api_param(r, 0),
                                        limits_of(api_of(r)).detail, &err),
               &err);
    else
        api_error(r, &err);
}

static void message(struct http_request *r)
{
    struct error err = {0};
    if (!engine_flush(api_of(r)->engine, &err)) {
        api_error(r, &err);
        return;
    }
    json_t *out = monitor_message_details(api_of(r)->store, api_scope(r), api_param(r, 0),
                                          limits_of(api_of(r)).detail, &err);
    if (!out && err.code == ERR_NOT_FOUND) {
        auto_buf b = BUF(4096);
        auto_json body = json_pack("{s:i,s:s}", "code", 404, "msg", err.msg);
        json_put(&b, body);
        http_answer(r, 404, "application/json", buf_view(&b));
        return;
    }
    answer(r, out, &err);
}

static void feedback_stats(struct http_request *r)
{
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset;
    if (filter_of(r, 100, &f, &limit, &offset))
        answer(r, monitor_feedback_stats(api_of(r)->store, api_scope(r), &f, &err), &err);
}

/* ---- export ---------------------------------------------------------------------------------------------------------------------- */

static const struct sheet {
    const char *type;
    const struct table *table;
    const char *columns; /* comma-separated, in order */
} sheets[] = {
    {"messages", &table_mon_messages,
     "id,timestamp,bot_id,bot_name,pipeline_id,pipeline_name,runner_name,message_content,message_text,session_id,status,level,platform,user_id"},
    {"llm-calls", &table_mon_llm_calls,
     "id,timestamp,model_name,input_tokens,output_tokens,total_tokens,duration_ms,cost,status,bot_id,bot_name,pipeline_id,pipeline_name,session_id,"
     "message_id,error_message"},
    {"embedding-calls", &table_mon_embedding_calls,
     "id,timestamp,model_name,prompt_tokens,total_tokens,duration_ms,input_count,status,error_message,knowledge_base_id,query_text,session_id,"
     "message_id,call_type"},
    {"errors", &table_mon_errors,
     "id,timestamp,error_type,error_message,bot_id,bot_name,pipeline_id,pipeline_name,session_id,message_id,stack_trace"},
    {"sessions", &table_mon_sessions,
     "session_id,bot_id,bot_name,pipeline_id,pipeline_name,message_count,start_time,last_activity,is_active,platform,user_id"},
    {"feedback", &table_mon_feedback,
     "id,timestamp,feedback_id,feedback_type,feedback_content,inaccurate_reasons,bot_id,bot_name,pipeline_id,pipeline_name,session_id,message_id,"
     "stream_id,user_id,platform"},
};

/* "@Name …" with nothing in it that makes a spreadsheet call, link or refer. */
static bool is_mention(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr("(|!=*+", s.p[i]))
            return false;
    return s.n > 0 && s.p[0] == '@';
}

static void put_field(struct buf *b, struct str s)
{
    /* A leading = + - @ would be run as a formula by a spreadsheet: an apostrophe makes it text. Numbers stay numbers. */
    double number;
    bool formula = s.n && strchr("=+-@\t\r", s.p[0]) && !str_to_f64(s, &number) && !is_mention(s);
    bool quote = str_chr(s, ',') >= 0 || str_chr(s, '"') >= 0 || str_chr(s, '\n') >= 0 ||
                 str_chr(s, '\r') >= 0;
    if (quote)
        buf_c(b, '"');
    if (formula)
        buf_c(b, '\'');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            buf_c(b, '"');
        buf_c(b, s.p[i]);
    }
    if (quote)
        buf_c(b, '"');
}

static struct str cell(struct http_request *r, const json_t *row, const char *column)
{
    if (strcmp(column, "duration_ms") == 0)
        column = "duration";
    if (strcmp(column, "message_text") == 0) {
        struct error err = {0};
        auto_json chain = json_parse_words(json_s(row, "message_content"), &err);
        return json_is_array(chain) ? str_dup(r->arena, chain_export_text(r->arena, chain))
                                    : json_s(row, "message_content");
    }
    const json_t *v = json_object_get(row, column);
    int64_t us;
    if (strcmp(column, "feedback_type") == 0)
        return json_integer_value(v) == 1 ? S("like") : S("dislike");
    bool is_time = strcmp(column, "timestamp") == 0 || strcmp(column, "start_time") == 0 ||
                   strcmp(column, "last_activity") == 0;
    if (is_time && time_parse(json_sv(v), &us)) {
        char text[TIME_ISO_SIZE];
        return str_dup(r->arena, str_sub(str_c(time_sql(us, text)), 0, 19));
    }
    if (json_is_string(v))
        return json_sv(v);
    if (json_is_integer(v))
        return str_fmt(r->arena, "%lld", (long long)json_integer_value(v));
    if (json_is_real(v))
        return str_fmt(r->arena, "%.10g", json_real_value(v));
    return json_is_boolean(v) ? (json_is_true(v) ? S("True") : S("False")) : S("");
}

static void put_sheet(struct http_request *r, const struct sheet *s, const json_t *rows,
                      struct buf *b)
{
    size_t i;
    json_t *row;
    buf_z(b, "\xEF\xBB\xBF");
    buf_z(b, s->columns);
    buf_c(b, '\n');
    json_array_foreach (rows, i, row) {
        struct str rest = str_c(s->columns), column;
        for (bool first = true; str_split(&rest, ',', &column); first = false) {
            if (!first)
                buf_c(b, ',');
            put_field(b, cell(r, row, str_z(r->arena, column)));
        }
        buf_c(b, '\n');
    }
}

static void export(struct http_request *r)
{
    struct error err = {0};
    struct monitor_filter f;
    int64_t limit, offset;
    struct str asked = http_query(r, "type"), type = asked.n ? asked : S("messages");
    const struct sheet *s = NULL;
    for (size_t i = 0; i < array_len(sheets); i++)
        if (str_eqz(type, sheets[i].type))
            s = &sheets[i];
    if (!s) {
        auto_buf b = BUF(4096);
        buf_z(
            &b,
            "{\"code\":400,\"msg\":\"type must be one of messages, llm-calls, embedding-calls, errors, sessions, feedback\"}");
        http_answer(r, 400, "application/json", buf_view(&b));
        return;
    }
    if (!filter_of(r, 100000, &f, &limit, &offset))
        return;
    f.limit = clamp(limit, 1, limits_of(api_of(r)).export_rows);
    auto_json got = monitor_list(api_of(r)->store, api_scope(r), s->table, &f, &err);
    auto_buf b = BUF(256u << 20);
    if (!got) {
        api_error(r, &err);
        return;
    }
    put_sheet(r, s, json_object_get(got, "rows"), &b);
    if (b.failed || arena_failed(r->arena)) {
        api_fail(r, 413, NULL, "the export is too large; narrow it by startTime and endTime");
        return;
    }
    http_answer_header(r, "Content-Disposition",
                       str_fmt(r->arena, "attachment; filename=\"monitoring-%s-%lld.csv\"", s->type,
                               (long long)(time_wall_us() / 1000000)));
    http_answer(r, 200, "text/csv; charset=utf-8", buf_view(&b));
}

#define COMMON "botId*,pipelineId*,startTime,endTime,limit,offset"
#define VIEW   .method = HTTP_M_GET, .auth = AUTH_USER, .permission = PERM_RESOURCE_VIEW
const struct http_route routes_monitoring[] = {
    {VIEW, .pattern = API "/overview", .handler = overview, .query = COMMON, .summary = "Totals"},
    {VIEW, .pattern = API "/token-statistics", .handler = tokens, .query = COMMON ",bucket",
     .summary = "Tokens by model and time"},
    {VIEW, .pattern = API "/messages", .handler = list, .query = COMMON ",sessionId*",
     .summary = "Messages"},
    {VIEW, .pattern = API "/llm-calls", .handler = list, .query = COMMON, .summary = "Model calls"},
    {VIEW, .pattern = API "/tool-calls", .handler = list, .query = COMMON ",sessionId*",
     .summary = "Tool calls"},
    {VIEW, .pattern = API "/embedding-calls", .handler = list, .query = COMMON ",knowledgeBaseId",
     .summary = "Embedding calls"},
    {VIEW, .pattern = API "/sessions", .handler = list, .query = COMMON ",isActive",
     .summary = "Sessions"},
    {VIEW, .pattern = API "/errors", .handler = list, .query = COMMON, .summary = "Errors"},
    {VIEW, .pattern = API "/data", .handler = data, .query = COMMON,
     .summary = "Everything for the dashboard at once"},
    {VIEW, .pattern = API "/sessions/{id}/analysis", .handler = session, .summary = "One session"},
    {VIEW, .pattern = API "/messages/{id}/details", .handler = message, .summary = "One message"},
    {VIEW, .pattern = API "/feedback/stats", .handler = feedback_stats, .query = COMMON,
     .summary = "Likes and dislikes"},
    {VIEW, .pattern = API "/feedback", .handler = list, .query = COMMON ",feedbackType",
     .summary = "Feedback"},
    {.method = HTTP_M_GET,
     .auth = AUTH_USER,
     .permission = PERM_DATA_EXPORT,
     .pattern = API "/export",
     .handler = export,
     .query = COMMON ",type",
     .summary = "CSV file"},
    {.pattern = NULL},
};
