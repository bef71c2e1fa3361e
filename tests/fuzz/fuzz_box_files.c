/* Paths, patterns and texts of the file tools. A path never leads outside; a pattern matches what a plain reading of its rules
 * matches; text that was made valid is. Input: two texts, apart by a NUL. */
#include "box/files/files.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SMALL = 16 };

/* By the rules, without cleverness: stars, question marks, characters. No classes. */
static bool plainly(struct str p, struct str s)
{
    if (p.n == 0)
        return s.n == 0;
    if (p.p[0] == '*')
        return plainly(str_sub(p, 1, p.n), s) || (s.n > 0 && plainly(p, str_sub(s, 1, s.n)));
    return s.n > 0 && (p.p[0] == '?' || p.p[0] == s.p[0]) &&
           plainly(str_sub(p, 1, p.n), str_sub(s, 1, s.n));
}

static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80 || s.p[i] == '[')
            return false;
    return true;
}

static void path(struct str text)
{
    auto_arena a = arena_new(1 << 20);
    auto_json value = json_strn(text);
    struct files_path p;
    struct error err;
    if (!files_path(a, value, NULL, &p, &err))
        return;
    struct str rest = str_c(p.below), part;
    if (strncmp(p.full, FILES_ROOT, strlen(FILES_ROOT)) != 0 || p.below[0] == '/')
        abort();
    while (rest.n > 0 && str_split(&rest, '/', &part))
        if (part.n == 0 || str_eq(part, S(".")) || str_eq(part, S("..")))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str all = str_n((const char *)data, size), pattern = STR_NONE;
    if (size > 4096 || !str_split(&all, '\0', &pattern))
        return 0;
    struct str name = all.p ? all : S("");
    bool got = files_match_name(pattern, name);
    if (pattern.n <= SMALL && name.n <= SMALL && is_plain(pattern) && is_plain(name) &&
        got != plainly(pattern, name))
        abort();
    /* Without a slash in either, a path is a name. */
    if (pattern.n > 0 && name.n > 0 && str_chr(pattern, '/') < 0 && str_chr(name, '/') < 0 &&
        !str_eq(pattern, S(".")) && !str_eq(name, S(".")) && !str_eq(pattern, S("**")) &&
        files_match(pattern, name) != got)
        abort();
    files_match(pattern, name);
    path(pattern);
    path(name);
    auto_buf clean = BUF(1 << 16), less = BUF(1 << 16);
    if (!files_utf8(&clean, name, true) || !files_utf8(&less, name, false) ||
        !utf8_valid(buf_view(&clean)) || !utf8_valid(buf_view(&less)) || less.n > name.n ||
        (utf8_valid(name) && !str_eq(buf_view(&clean), name)))
        abort();
    return 0;
}
