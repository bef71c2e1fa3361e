/* Texts and values between db.h and PostgreSQL. Parameters go as text with the type left to the server, so 0 and 1 are
 * good for BOOLEAN columns; results come as text and are told apart by their type. */
#include "db/pg_private.h"

#include "crypto/crypto.h"

#include <stdio.h>

enum {
    T_BOOL = 16,
    T_BYTEA = 17,
    T_INT8 = 20,
    T_INT2 = 21,
    T_INT4 = 23,
    T_OID = 26,
    T_FLOAT4 = 700,
    T_FLOAT8 = 701,
    T_NUMERIC = 1700,
    T_TIMESTAMP = 1114,
    T_TIMESTAMPTZ = 1184,
};

/* The end of a quoted part or comment that starts at p, or p when none does. */
static const char *skip_quoted(const char *p)
{
    if (*p == '\'' || *p == '"') {
        char quote = *p++;
        while (*p && *p != quote) {
            p++;
        }
        return *p ? p + 1 : p;
    }
    if (p[0] == '-' && p[1] == '-') {
        while (*p && *p != '\n') {
            p++;
        }
        return p;
    }
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? end + 2 : p + strlen(p);
    }
    return p;
}

char *pg_rewrite(const char *text, int *params)
{
    auto_buf out = BUF(1 << 20);
    *params = 0;
    for (const char *p = text; *p;) {
        const char *end = skip_quoted(p);
        if (end > p) {
            buf_add(&out, p, (size_t)(end - p));
            p = end;
        } else if (*p == '?') {
            buf_fmt(&out, "$%d", ++*params);
            p++;
        } else {
            buf_c(&out, *p++);
        }
    }
    return out.failed ? NULL : mem_strndup(buf_cstr(&out), out.n);
}

static bool bytea(struct arena *a, struct str text, struct db_val *out)
{
    if (!str_starts(text, S("\\x"))) {
        return false;
    }
    struct str hex = str_sub(text, 2, text.n);
    unsigned char *p = arena_alloc(a, hex.n / 2 + 1);
    if (!p || !hex_decode(hex, p)) {
        return false;
    }
    *out = DB_V_BLOB(str_n((char *)p, hex.n / 2));
    return true;
}

/* "2026-01-02 03:04:05[.f…][+00]" to 26 characters; the session's time zone is UTC. */
static bool timestamp(struct arena *a, struct str text, struct db_val *out)
{
    ptrdiff_t zone = text.n > 19 ? str_chr(str_sub(text, 19, text.n), '+') : -1;
    if (zone >= 0) {
        text.n = 19 + (size_t)zone;
    }
    if (text.n < 19 || text.n > 26) { /* "infinity", years before 1000 or after 9999 */
        *out = DB_V_S(str_dup(a, text));
        return out->s.p != NULL;
    }
    char *p = arena_alloc(a, 27);
    if (!p) {
        return false;
    }
    memcpy(p, "0000-00-00 00:00:00.000000", 26);
    memcpy(p, text.p, text.n);
    *out = DB_V_S(str_n(p, 26));
    return true;
}

bool pg_value(struct arena *a, unsigned type, const char *p, size_t n, struct db_val *out)
{
    struct str text = str_n(p, n);
    switch (type) {
    case T_BOOL: *out = DB_V_B(n > 0 && p[0] == 't'); return true;
    case T_INT2:
    case T_INT4:
    case T_INT8:
    case T_OID: *out = DB_V_I(0); return str_to_i64(text, &out->i);
    case T_FLOAT4:
    case T_FLOAT8:
    case T_NUMERIC: *out = DB_V_F(0); return str_to_f64(text, &out->f);
    case T_BYTEA: return bytea(a, text, out);
    case T_TIMESTAMP:
    case T_TIMESTAMPTZ: return timestamp(a, text, out);
    default: *out = DB_V_S(str_dup(a, text)); return out->s.p != NULL;
    }
}
