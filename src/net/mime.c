/* Media types by file name. */
#include "net/net.h"

const char *mime_of_path(struct str path)
{
    static const struct {
        const char *suffix, *type;
    } table[] = {
        {"html", "text/html; charset=utf-8"},
        {"htm", "text/html; charset=utf-8"},
        {"js", "text/javascript; charset=utf-8"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"css", "text/css; charset=utf-8"},
        {"json", "application/json"},
        {"map", "application/json"},
        {"svg", "image/svg+xml"},
        {"png", "image/png"},
        {"jpg", "image/jpeg"},
        {"jpeg", "image/jpeg"},
        {"gif", "image/gif"},
        {"webp", "image/webp"},
        {"avif", "image/avif"},
        {"bmp", "image/bmp"},
        {"ico", "image/vnd.microsoft.icon"},
        {"txt", "text/plain; charset=utf-8"},
        {"log", "text/plain; charset=utf-8"},
        {"md", "text/markdown; charset=utf-8"},
        {"csv", "text/csv; charset=utf-8"},
        {"xml", "application/xml"},
        {"yaml", "application/yaml"},
        {"yml", "application/yaml"},
        {"pdf", "application/pdf"},
        {"zip", "application/zip"},
        {"gz", "application/gzip"},
        {"tar", "application/x-tar"},
        {"wasm", "application/wasm"},
        {"woff", "font/woff"},
        {"woff2", "font/woff2"},
        {"ttf", "font/ttf"},
        {"otf", "font/otf"},
        {"webmanifest", "application/manifest+json"},
        {"mp3", "audio/mpeg"},
        {"wav", "audio/x-wav"},
        {"ogg", "audio/ogg"},
        {"opus", "audio/opus"},
        {"m4a", "audio/mp4"},
        {"amr", "audio/amr"},
        {"flac", "audio/flac"},
        {"mp4", "video/mp4"},
        {"webm", "video/webm"},
        {"mov", "video/quicktime"},
        {"doc", "application/msword"},
        {"xls", "application/vnd.ms-excel"},
        {"ppt", "application/vnd.ms-powerpoint"},
        {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    };

    size_t at = path.n;
    while (at > 0 && path.p[at - 1] != '.' && path.p[at - 1] != '/')
        at--;
    if (at > 0 && path.p[at - 1] == '.') {
        struct str suffix = str_sub(path, at, path.n);
        for (size_t i = 0; i < array_len(table); i++) {
            if (str_ieqz(suffix, table[i].suffix))
                return table[i].type;
        }
    }
    return "application/octet-stream";
}
