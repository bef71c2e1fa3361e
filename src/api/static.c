/* Files of the panel from the binary. http-api.md §2. */
#include "api/api_private.h"

#include <zlib.h>

static const struct base_asset *page_of(struct arena *a, struct str path)
{
    const struct base_asset *f = base_asset_find(z_fmt(a, "web" STR_FMT, STR_ARG(path)));
    if (f)
        return f;
    f = base_asset_find(z_fmt(a, "web" STR_FMT ".html", STR_ARG(path)));
    return f ? f : base_asset_find("web/index.html");
}

/* For clients that take no gzip: inflated into the arena. */
static struct str inflated(struct arena *a, const struct base_asset *f)
{
    /* The stream's last four bytes hold its length (RFC 1952). */
    const unsigned char *tail = f->data + f->size - 4;
    size_t n =
        (size_t)tail[0] | (size_t)tail[1] << 8 | (size_t)tail[2] << 16 | (size_t)tail[3] << 24;
    char *out = arena_alloc(a, n + 1);
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)f->data,
                  .avail_in = (unsigned)f->size,
                  .next_out = (unsigned char *)out,
                  .avail_out = (unsigned)n};
    if (!out || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return STR_NONE;
    int rc = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return rc == Z_STREAM_END ? str_n(out, n) : STR_NONE;
}

void api_static(struct http_request *r, struct api *a)
{
    (void)a;
    struct str path = str_eqz(r->path, "/") ? S("/index.html") : r->path;
    const struct base_asset *f = page_of(r->arena, path);
    if (!f) {
        api_fail(r, 404, NULL, "Not found");
        return;
    }
    bool hashed = str_starts(path, S("/assets/")) && str_ends(str_c(f->path), path);
    if (hashed) {
        /* Their names change with their content. */
        http_answer_header(r, "Cache-Control", S("public, max-age=31536000, immutable"));
    } else {
        http_answer_header(r, "Cache-Control", S("no-cache, no-store, must-revalidate"));
        http_answer_header(r, "Pragma", S("no-cache"));
        http_answer_header(r, "Expires", S("0"));
    }
    http_answer_header(r, "X-Content-Type-Options", S("nosniff"));
    /* No other site may lay the panel under its own page and catch clicks. */
    http_answer_header(r, "X-Frame-Options", S("SAMEORIGIN"));
    const char *mime = mime_of_path(str_c(f->path));
    if (f->gzip && str_find(http_header_get(r, "Accept-Encoding"), S("gzip")) < 0) {
        struct str plain = inflated(r->arena, f);
        http_answer(r, plain.p ? 200 : 500, mime, plain.p ? plain : S(""));
        return;
    }
    if (f->gzip) {
        http_answer_header(r, "Content-Encoding", S("gzip"));
        http_answer_header(r, "Vary", S("Accept-Encoding"));
    }
    http_answer_static(r, 200, mime, f->data, f->size);
}
