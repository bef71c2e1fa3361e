/* Uploads and their images. http-api.md §7. */
#include "api/api_private.h"
#include "api/routes.h"

static struct str owner_of(const struct http_request *r)
{
    const struct principal *p = api_principal(r);
    if (p->kind == PRINCIPAL_ACCOUNT)
        return str_fmt(r->arena, "account:%s", p->account);
    return p->global_key ? S("api-key:global-oss-api-key")
                         : str_fmt(r->arena, "api-key:%s", p->api_key);
}

static struct str suffix_of(struct str name)
{
    for (size_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == '.')
            return i < name.n ? str_sub(name, i - 1, name.n) : S("");
    return S("");
}

/* The part `file` of the form; false: answered softly. */
static bool file_part(struct http_request *r, const char *none, struct http_part *out)
{
    struct http_part *parts = NULL;
    size_t n = 0;
    struct error err = {0};
    if (multipart_parse(r->arena, http_header_get(r, "Content-Type"), r->body, &parts, &n, &err)) {
        for (size_t i = 0; i < n; i++) {
            if (str_eqz(parts[i].name, "file") && parts[i].filename.p) {
                *out = parts[i];
                return true;
            }
        }
    }
    api_soft(r, 400, none);
    return false;
}

static void store(struct http_request *r, const struct http_part *part, const char *type,
                  struct str suffix, const char *answer_key)
{
    struct error err = {0};
    struct str key;
    if (objects_put(api_of(r)->objects, api_scope(r), type, owner_of(r), suffix, part->data,
                    r->arena, &key, &err))
        api_ok(r, json_pack("{s:o}", answer_key, json_strn(key)));
    else
        api_error(r, &err);
}

static bool name_ok(struct http_request *r, struct str name)
{
    if (str_chr(name, '/') < 0 && str_chr(name, '\\') < 0)
        return true;
    api_soft(r, 400, "File name contains invalid characters");
    return false;
}

static void image_post(struct http_request *r)
{
    static const char *const allowed[] = {".jpg", ".jpeg", ".png", ".gif", ".webp"};
    struct http_part part;
    if (!file_part(r, "No image file provided", &part))
        return;
    if (part.data.n > 10u << 20) {
        api_soft(r, 400, "Image size exceeds 10MB limit.");
        return;
    }
    if (!name_ok(r, part.filename))
        return;
    struct str suffix = str_lower(r->arena, suffix_of(part.filename));
    if (suffix.n == 0) {
        api_soft(r, 400, "Invalid image file: no file extension");
        return;
    }
    for (size_t i = 0; i < array_len(allowed); i++) {
        if (str_eqz(suffix, allowed[i])) {
            store(r, &part, "upload_image", suffix, "file_key");
            return;
        }
    }
    api_soft(r, 400, "Invalid image format. Allowed formats: jpg, jpeg, png, gif, webp");
}

static void document_post(struct http_request *r)
{
    struct http_part part;
    if (!file_part(r, "No file provided", &part) || !name_ok(r, part.filename))
        return;
    if (part.data.n > 10u << 20) {
        api_soft(r, 400,
                 "File size exceeds 10MB limit. Please split large files into smaller parts.");
        return;
    }
    store(r, &part, "upload_document", suffix_of(part.filename), "file_id");
}

static void image_get(struct http_request *r)
{
    static const char *const types[] = {"upload_image", "bot_log", NULL};
    struct error err = {0};
    struct str data, key = http_param(r, 0);
    if (!objects_get(api_of(r)->objects, api_scope(r), key, types, r->arena, &data, &err)) {
        http_answer_static(
            r, err.code == ERR_NOT_FOUND || err.code == ERR_UNAVAILABLE ? 404 : err_http(&err),
            "text/plain", "", 0);
        return;
    }
    const char *mime = mime_of_path(key);
    bool picture = strncmp(mime, "image/", 6) == 0;
    http_answer_header(r, "X-Content-Type-Options", S("nosniff"));
    /* An SVG may hold scripts; none is stored, and none would run. */
    http_answer_header(r, "Content-Security-Policy", S("default-src 'none'; sandbox"));
    http_answer_static(r, 200, picture ? mime : "image/jpeg", data.p, data.n);
}

const struct http_route routes_file[] = {
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/files/image/{key:path}",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = image_get,
     .summary = "A stored image of the caller's workspace"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/files/images",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = image_post,
     .body = HTTP_BODY_MULTIPART,
     .summary = "Stores an image"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/files/documents",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = document_post,
     .body = HTTP_BODY_MULTIPART,
     .summary = "Stores a document"},
    {.pattern = NULL},
};
