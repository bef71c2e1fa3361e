/* The instance: what it is, the wizard, tasks, logs, storage, statistics. http-api.md §6. */
#include "api/api_private.h"
#include "api/mail.h"
#include "api/routes.h"

/* ---- info -------------------------------------------------------------------------------------------------------------------------- */

static json_t *limitation(const struct config *c)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:s}", "max_bots",
                     (json_int_t)config_int(c, "system.limitation.max_bots"), "max_pipelines",
                     (json_int_t)config_int(c, "system.limitation.max_pipelines"), "max_extensions",
                     (json_int_t)config_int(c, "system.limitation.max_extensions"),
                     "max_knowledge_bases",
                     (json_int_t)config_int(c, "system.limitation.max_knowledge_bases"),
                     "force_box_session_id_template",
                     config_str(c, "system.limitation.force_box_session_id_template"));
}

/* The wizard's state for a caller whose token is good; anything else leaves the default (§6). */
static void add_wizard(struct http_request *r, json_t *out)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct principal p;
    struct str given = http_header_get(r, "Authorization"),
               token = str_istarts(given, S("Bearer ")) ? str_trim(str_sub(given, 7, given.n))
                                                        : STR_NONE;
    json_set(out, "wizard_status", json_string("none"));
    json_set(out, "wizard_progress", json_null());
    if (token.n == 0 ||
        !auth_user(a, r->arena, token, http_header_get(r, "X-Workspace-Id"), &p, &err))
        return;
    auto_json status = workspace_meta_get(a->store, &p.scope, "wizard_status", &err);
    auto_json progress = workspace_meta_get(a->store, &p.scope, "wizard_progress", &err);
    if (json_is_string(status))
        json_object_set(out, "wizard_status", status);
    json_t *parsed = json_is_string(progress) ? json_parse(json_sv(progress), &err) : NULL;
    if (parsed)
        json_set(out, "wizard_progress", parsed);
}

static void info(struct http_request *r)
{
    struct api *a = api_of(r);
    const struct config *c = a->config;
    const char *provider = mail_provider(c);
    json_t *out = json_pack(
        "{s:s,s:b,s:s,s:b,s:s,s:b,s:b,s:b,s:o,s:o,s:{s:b,s:o}}", "version", "v" PARLEY_VERSION,
        "debug", (int)a->debug, "edition", "community", "enable_marketplace",
        (int)config_bool(c, "plugin.enable_marketplace"), "cloud_service_url",
        config_str(c, "space.url"), "allow_modify_login_info",
        (int)config_bool(c, "system.allow_modify_login_info"), "disable_models_service",
        (int)config_bool(c, "space.disable_models_service"), "mcp_stdio_enabled",
        (int)config_bool(c, "mcp.stdio.enabled"), "limitation", limitation(c), "outbound_ips",
        config_list(c, "system.outbound_ips"), "invitation_delivery", "enabled", provider != NULL,
        "provider", provider ? json_string(provider) : json_null());
    add_wizard(r, out);
    api_ok(r, out);
}

static void context(struct http_request *r)
{
    const struct principal *p = api_principal(r);
    api_ok(r, json_pack("{s:s,s:s,s:s,s:o}", "instance_uuid", api_of(r)->store->instance,
                        "workspace_uuid", p->scope.workspace, "api_key_id",
                        p->global_key ? "global-oss-api-key" : p->api_key, "permissions",
                        permset_json(p->permissions)));
}

/* §6.1: what this program does. Each group names its operations. */
static const struct {
    const char *group, *operations;
} capabilities_of[] = {
    {"bot", "list,get,create,update,delete"},
    {"pipeline", "list,get,create,update,delete,copy"},
    {"task", "list,get"},
    {"knowledge_base", "list,get,create,update,delete,retrieve"},
    {"knowledge_base.file", "list,store,delete"},
    {"file.document", "upload"},
    {"plugin.install", "github,marketplace,local"},
    {"plugin", "upgrade,get,list,logs,delete"},
    {"plugin.config", "get,update"},
    {"provider", "list,get,create,update,delete,scan_models"},
    {"model.llm", "list,get,create,update,delete,test"},
    {"model.embedding", "list,get,create,update,delete,test"},
    {"model.rerank", "list,get,create,update,delete,test"},
    {"skill", "list,get,create,update,delete,preview"},
    {"skill.files", "list,read,write"},
    {"skill.install", "github,upload"},
    {"mcp_server",
     "list,get,create,update,delete,resources,resource_templates,resource_read,logs,test"},
};

static void capabilities(struct http_request *r)
{
    json_t *ops = json_object();
    for (size_t i = 0; i < array_len(capabilities_of); i++) {
        struct str rest = str_c(capabilities_of[i].operations), op;
        while (str_split(&rest, ',', &op))
            json_set(ops, z_fmt(r->arena, "%s." STR_FMT, capabilities_of[i].group, STR_ARG(op)),
                     json_pack("{s:b}", "supported", 1));
    }
    api_ok(r, json_pack("{s:i,s:o}", "schema_version", 1, "operations", ops));
}

/* ---- wizard -------------------------------------------------------------------------------------------------------------------------- */

static void wizard_completed(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    const json_t *given = json_object_get(r->json, "status");
    const char *status =
        given ? (json_is_string(given) ? json_string_value(given) : "") : "completed";
    if (strcmp(status, "skipped") != 0 && strcmp(status, "completed") != 0) {
        static const char text[] = "{\"code\":400,\"msg\":\"status must be skipped or completed\"}";
        http_answer_static(r, 400, "application/json", text, sizeof text - 1);
        return;
    }
    if (workspace_meta_set(a->store, api_scope(r), "wizard_status", status, &err) &&
        workspace_meta_set(a->store, api_scope(r), "wizard_progress", NULL, &err))
        api_ok(r, json_object());
    else
        api_error(r, &err);
}

static void wizard_progress(struct http_request *r)
{
    struct error err = {0};
    if (!json_is_object(r->json)) {
        api_fail(r, 400, NULL, "the body must be a JSON object");
        return;
    }
    struct str text = json_text(r->arena, r->json);
    if (text.n > 64 << 10) {
        api_fail(r, 400, NULL, "the progress may have at most 65536 bytes");
        return;
    }
    if (workspace_meta_set(api_of(r)->store, api_scope(r), "wizard_progress", str_z(r->arena, text),
                           &err))
        api_ok(r, json_object());
    else
        api_error(r, &err);
}

/* ---- tasks, logs, storage, statistics ------------------------------------------------------------------------------------------------ */

static bool by_key(const struct http_request *r)
{
    return api_principal(r)->kind == PRINCIPAL_API_KEY;
}

static void tasks(struct http_request *r)
{
    struct str type = http_query(r, "type"), kind = http_query(r, "kind");
    api_ok(r, jobs_list(api_of(r)->jobs, api_scope(r), type.n ? str_z(r->arena, type) : NULL,
                        kind.n ? str_z(r->arena, kind) : NULL, by_key(r)));
}

static void task(struct http_request *r)
{
    int64_t id = -1;
    json_t *j = str_to_i64(http_param(r, 0), &id)
                    ? jobs_get(api_of(r)->jobs, api_scope(r), id, by_key(r))
                    : NULL;
    static const char text[] = "{\"code\":404,\"msg\":\"Task not found\"}";
    if (j)
        api_ok(r, j);
    else
        http_answer_static(r, 404, "application/json", text, sizeof text - 1);
}

static void storage(struct http_request *r)
{
    struct error err = {0};
    json_t *j = storage_analysis(api_of(r)->ops, api_scope(r), &err);
    if (j)
        api_ok(r, j);
    else
        api_error(r, &err);
}

static void logs(struct http_request *r)
{
    int64_t page, offset;
    if (api_query_int(r, "start_page_number", 0, &page) &&
        api_query_int(r, "start_offset", 0, &offset))
        api_ok(r, logfiles_read(api_of(r)->logs, page, offset));
}

static void stats(struct http_request *r)
{
    struct error err = {0};
    json_t *j = engine_basic_stats(api_of(r)->engine, api_scope(r), &err);
    if (j)
        api_ok(r, j);
    else
        api_error(r, &err);
}

static void survey_pending(struct http_request *r)
{
    /* No survey is ever fetched: nothing is sent to anybody without the operator's wish. */
    api_ok(r, json_pack("{s:n}", "survey"));
}

static void survey_off(struct http_request *r)
{
    struct str id = json_s(r->json, "survey_id");
    if (id.n == 0)
        api_soft(r, 1, "survey_id required");
    else
        api_soft(r, 3, "Surveys are not available");
}

/* §6.2: the limits are told before that there is nowhere to send it to. */
enum { FEEDBACK_MAX = 5000, ATTACHMENTS_MAX = 3, ATTACHMENT_MAX = 1 << 20 };

/* False: an image of more than a MiB or no base64. What is no image is passed over. */
static bool attachment_fits(struct http_request *r, const json_t *a)
{
    struct str url = json_s(a, "data_url"), data;
    struct error err = {0};
    ptrdiff_t comma = str_chr(url, ',');
    if (!str_starts(url, S("data:image/")))
        return true;
    return comma >= 0 && base64_decode(r->arena, str_sub(url, (size_t)comma + 1, url.n),
                                       ATTACHMENT_MAX, &data, &err);
}

static void survey_feedback(struct http_request *r)
{
    struct str content = str_trim(json_s(r->json, "content"));
    const json_t *list = json_object_get(r->json, "attachments");
    size_t i;
    json_t *a;
    if (content.n == 0) {
        api_soft(r, 1, "content required");
        return;
    }
    if (utf8_count(content) > FEEDBACK_MAX) {
        api_soft(r, 2, "content may have at most 5000 characters");
        return;
    }
    if (list && !json_is_null(list) && !json_is_array(list)) {
        api_soft(r, 3, "attachments must be a list");
        return;
    }
    if (json_array_size(list) > ATTACHMENTS_MAX) {
        api_soft(r, 4, "at most 3 attachments can be sent");
        return;
    }
    json_array_foreach (list, i, a) {
        if (!attachment_fits(r, a)) {
            api_soft(r, 5, "an attachment may have at most 1 MiB");
            return;
        }
    }
    api_soft(r, 7, "Surveys are not available");
}

#define P "/api/v1/system"
const struct http_route routes_system[] = {
    {.method = HTTP_M_GET,
     .pattern = P "/info",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = info,
     .summary = "The instance"},
    {.method = HTTP_M_GET,
     .pattern = P "/context",
     .auth = AUTH_KEY,
     .permission = PERM_NONE,
     .handler = context,
     .summary = "What an API key is"},
    {.method = HTTP_M_GET,
     .pattern = P "/capabilities",
     .auth = AUTH_KEY,
     .permission = PERM_NONE,
     .handler = capabilities,
     .summary = "Operations of this API"},
    {.method = HTTP_M_POST,
     .pattern = P "/wizard/completed",
     .auth = AUTH_USER,
     .permission = PERM_WORKSPACE_UPDATE,
     .handler = wizard_completed,
     .body = HTTP_BODY_JSON_LENIENT,
     .summary = "Ends the wizard"},
    {.method = HTTP_M_PUT,
     .pattern = P "/wizard/progress",
     .auth = AUTH_USER,
     .permission = PERM_WORKSPACE_UPDATE,
     .handler = wizard_progress,
     .body = HTTP_BODY_JSON,
     .summary = "Keeps the wizard's progress"},
    {.method = HTTP_M_GET,
     .pattern = P "/tasks",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = tasks,
     .query = "type,kind",
     .summary = "Background tasks"},
    {.method = HTTP_M_GET,
     .pattern = P "/tasks/{id}",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = task,
     .summary = "One task"},
    {.method = HTTP_M_GET,
     .pattern = P "/storage-analysis",
     .auth = AUTH_USER,
     .permission = PERM_AUDIT_VIEW,
     .handler = storage,
     .summary = "What takes how much room"},
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/logs",
     .auth = AUTH_USER,
     .permission = PERM_AUDIT_VIEW,
     .handler = logs,
     .query = "start_page_number,start_offset",
     .summary = "The log"},
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/stats/basic",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = stats,
     .summary = "Counts of sessions, conversations and queries"},
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/survey/pending",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = survey_pending,
     .summary = "Survey to show"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/survey/respond",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = survey_off,
     .body = HTTP_BODY_JSON,
     .summary = "Answers a survey"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/survey/dismiss",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = survey_off,
     .body = HTTP_BODY_JSON,
     .summary = "Dismisses a survey"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/survey/feedback",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = survey_feedback,
     .body = HTTP_BODY_JSON,
     .summary = "Sends feedback on the program"},
    {.pattern = NULL},
};
