/* The OpenAPI document, made from the route tables. */
#include "api/api_private.h"

static const char *const auth_names[] = {"none", "account", "user", "key", "either"};

static const char *type_name(enum http_type t)
{
    switch (t) {
    case HTTP_STR: return "string";
    case HTTP_INT: return "integer";
    case HTTP_NUM: return "number";
    case HTTP_BOOL: return "boolean";
    case HTTP_ARR: return "array";
    case HTTP_OBJ: return "object";
    default: return NULL;
    }
}

static json_t *field_schema(const struct http_field *f)
{
    json_t *s = json_object();
    const char *t = type_name(f->type);
    if (t)
        json_set(s, "type", json_string(t));
    if (f->type == HTTP_STR_OR_ARR)
        json_set(s, "oneOf",
                 json_pack("[{s:s},{s:s,s:{}}]", "type", "string", "type", "array", "items"));
    if (f->type == HTTP_ARR)
        json_set(s, "items", json_object());
    if (f->nullable)
        json_set(s, "nullable", json_true());
    if (f->min || f->max) {
        bool number = f->type == HTTP_INT || f->type == HTTP_NUM;
        json_set(s,
                 number                ? "minimum"
                 : f->type == HTTP_ARR ? "minItems"
                                       : "minLength",
                 json_integer(f->min));
        if (f->max)
            json_set(s,
                     number                ? "maximum"
                     : f->type == HTTP_ARR ? "maxItems"
                                           : "maxLength",
                     json_integer(f->max));
    }
    if (f->one_of) {
        json_t *list = json_array();
        struct str rest = str_c(f->one_of), part;
        while (str_split(&rest, '|', &part))
            json_array_append_new(list, json_strn(part));
        json_set(s, "enum", list);
    }
    if (f->help)
        json_set(s, "description", json_string(f->help));
    return s;
}

static json_t *body_schema(const struct http_field *fields)
{
    json_t *props = json_object(), *required = json_array();
    for (const struct http_field *f = fields; f && f->name; f++) {
        json_set(props, f->name, field_schema(f));
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    json_t *s = json_pack("{s:s,s:o}", "type", "object", "properties", props);
    if (json_array_size(required))
        json_set(s, "required", required);
    else
        json_decref(required);
    return s;
}

static json_t *parameters(const struct http_route *route, struct buf *path)
{
    json_t *list = json_array();
    for (struct str rest = str_c(route->pattern); rest.n;) {
        ptrdiff_t open = str_chr(rest, '{'), close = open < 0 ? -1 : str_chr(rest, '}');
        if (open < 0 || close < open) {
            buf_str(path, rest);
            break;
        }
        struct str name = str_sub(rest, (size_t)open + 1, (size_t)(close - open - 1));
        ptrdiff_t colon = str_chr(name, ':');
        bool integer = colon >= 0 && str_eqz(str_sub(name, (size_t)colon + 1, name.n), "int");
        if (colon >= 0)
            name = str_sub(name, 0, (size_t)colon);
        buf_str(path, str_sub(rest, 0, (size_t)open));
        buf_fmt(path, "{" STR_FMT "}", STR_ARG(name));
        json_array_append_new(list, json_pack("{s:o,s:s,s:b,s:{s:s}}", "name", json_strn(name),
                                              "in", "path", "required", 1, "schema", "type",
                                              integer ? "integer" : "string"));
        rest = str_sub(rest, (size_t)close + 1, rest.n);
    }
    struct str rest = str_c(route->query), part;
    while (route->query && str_split(&rest, ',', &part)) {
        bool many = str_ends(part, S("*"));
        if (many)
            part.n--;
        json_array_append_new(list,
                              json_pack("{s:o,s:s,s:{s:s}}", "name", json_strn(part), "in", "query",
                                        "schema", "type", many ? "array" : "string"));
    }
    return list;
}

static json_t *operation(const struct http_route *route, json_t *params)
{
    json_t *op = json_pack("{s:s,s:o,s:{s:{s:s},s:{s:s}}}", "summary",
                           route->summary ? route->summary : route->pattern, "parameters", params,
                           "responses", "200", "description", "Envelope {code, msg, data}",
                           "default", "description", "Envelope {code, msg} with the reason");
    json_set(op, "x-authentication", json_string(auth_names[route->auth]));
    if (route->permission < PERM_COUNT)
        json_set(op, "x-permission",
                 json_string(permission_name((enum permission)route->permission)));
    if (route->auth == AUTH_KEY)
        json_set(op, "security", json_pack("[{s:[]},{s:[]}]", "ApiKeyAuth", "BearerAuth"));
    else if (route->auth == AUTH_EITHER)
        json_set(op, "security", json_pack("[{s:[]},{s:[]}]", "BearerAuth", "ApiKeyAuth"));
    else if (route->auth != AUTH_NONE)
        json_set(op, "security", json_pack("[{s:[]}]", "BearerAuth"));
    if (route->body == HTTP_BODY_JSON || route->body == HTTP_BODY_JSON_LENIENT)
        json_set(op, "requestBody",
                 json_pack("{s:{s:{s:o}}}", "content", "application/json", "schema",
                           body_schema(route->fields)));
    else if (route->body == HTTP_BODY_MULTIPART)
        json_set(op, "requestBody",
                 json_pack("{s:{s:{s:{s:s}}}}", "content", "multipart/form-data", "schema", "type",
                           "object"));
    return op;
}

static const char *method_key(enum http_method m)
{
    switch (m) {
    case HTTP_M_POST: return "post";
    case HTTP_M_PUT: return "put";
    case HTTP_M_DELETE: return "delete";
    case HTTP_M_PATCH: return "patch";
    default: return "get";
    }
}

json_t *openapi_document(void)
{
    json_t *paths = json_object();
    for (const struct http_route *const *t = api_tables; *t; t++) {
        for (const struct http_route *route = *t; route->pattern; route++) {
            if (route->hidden)
                continue;
            auto_buf path = BUF(4096);
            json_t *params = parameters(route, &path);
            const char *key = buf_cstr(&path);
            json_t *item = json_object_get(paths, key);
            if (!item) {
                json_set(paths, key, json_object());
                item = json_object_get(paths, key);
            }
            json_set(item, method_key(route->method), operation(route, params));
        }
    }
    return json_pack(
        "{s:s,s:{s:s,s:s,s:s},s:o,s:{s:{s:{s:s,s:s,s:s},s:{s:s,s:s}}}}", "openapi", "3.0.3", "info",
        "title", "Parley API", "version", PARLEY_VERSION, "description",
        "Every answer is an envelope {code, msg, data}; code 0 is success. Times are ISO 8601 in UTC without a zone.",
        "paths", paths, "components", "securitySchemes", "ApiKeyAuth", "type", "apiKey", "in",
        "header", "name", "X-API-Key", "BearerAuth", "type", "http", "scheme", "bearer");
}
