/* Connection parameters from the configuration. No error tells any part of a DSN. */
#include "db/pg_private.h"

#include <stdio.h>

static bool set(struct pg_params *p, const char *key, struct str value, struct error *err)
{
    size_t at = 0;
    while (at < p->n && strcmp(p->keys[at], key) != 0) {
        at++;
    }
    if (at == PG_PARAMS_MAX) {
        return err_set(err, ERR_INVALID, "too many connection parameters");
    }
    char *copy = mem_strndup(value.p, value.n);
    char *name = at == p->n ? mem_strndup(key, strlen(key)) : p->keys[at];
    if (!copy || !name) {
        mem_free(copy);
        if (at == p->n) {
            mem_free(name);
        }
        return err_set(err, ERR_NOMEM, "no memory for the connection parameters");
    }
    mem_free(p->values[at]);
    p->keys[at] = name;
    p->values[at] = copy;
    p->n += at == p->n;
    return true;
}

void pg_params_free(struct pg_params *p)
{
    for (size_t i = 0; i < p->n; i++) {
        mem_free(p->keys[i]);
        mem_free(p->values[i]);
    }
    *p = (struct pg_params){.n = 0};
}

static const char *get(const struct pg_params *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->keys[i], key) == 0) {
            return p->values[i];
        }
    }
    return NULL;
}

/* The driver of the other product calls it `ssl`; libpq's name is sslmode. */
static const char *ssl_mode(struct str ssl)
{
    static const char *const modes[] = {"disable", "allow",     "prefer",
                                        "require", "verify-ca", "verify-full"};
    for (size_t i = 0; i < array_len(modes); i++) {
        if (str_ieqz(ssl, modes[i])) {
            return modes[i];
        }
    }
    if (str_ieqz(ssl, "true") || str_ieqz(ssl, "1")) {
        return "require";
    }
    return str_ieqz(ssl, "false") || str_ieqz(ssl, "0") ? "disable" : NULL;
}

/* Cuts `ssl=` out of the query; the rest is left for libpq. */
static bool take_ssl(struct str *query, struct buf *rest, struct str *ssl, struct error *err)
{
    bool mode = false;
    *ssl = STR_NONE;
    for (struct str part; str_split(query, '&', &part);) {
        if (str_starts(part, S("ssl="))) {
            *ssl = str_sub(part, 4, part.n);
            continue;
        }
        mode = mode || str_starts(part, S("sslmode="));
        buf_fmt(rest, "%c" STR_FMT, strchr(buf_cstr(rest), '?') ? '&' : '?', STR_ARG(part));
    }
    if (ssl->p && mode) {
        return err_set(err, ERR_INVALID, "database.postgresql.url names both ssl and sslmode");
    }
    return true;
}

static bool from_url(struct pg_params *p, struct str url, struct error *err)
{
    static const struct {
        struct str scheme;
    } schemes[] = {{S("postgresql+asyncpg://")}, {S("postgresql://")}, {S("postgres://")}};
    size_t cut = 0;
    for (size_t i = 0; i < array_len(schemes) && cut == 0; i++) {
        cut = str_starts(url, schemes[i].scheme) ? schemes[i].scheme.n : 0;
    }
    if (cut == 0) {
        return err_set(
            err, ERR_INVALID,
            "database.postgresql.url must begin with postgresql:// or postgresql+asyncpg://");
    }
    auto_buf plain = BUF(16384);
    struct str rest = str_sub(url, cut, url.n), ssl = STR_NONE;
    ptrdiff_t question = str_chr(rest, '?');
    struct str query = question >= 0 ? str_sub(rest, (size_t)question + 1, rest.n) : STR_NONE;
    buf_fmt(&plain, "postgresql://" STR_FMT,
            STR_ARG(question >= 0 ? str_sub(rest, 0, (size_t)question) : rest));
    if (question >= 0 && !take_ssl(&query, &plain, &ssl, err)) {
        return false;
    }
    PQconninfoOption *options = plain.failed ? NULL : PQconninfoParse(buf_cstr(&plain), NULL);
    if (!options) {
        return err_set(err, ERR_INVALID, "database.postgresql.url is not a valid PostgreSQL URL");
    }
    bool ok = true;
    for (PQconninfoOption *o = options; ok && o->keyword; o++) {
        ok = !o->val || set(p, o->keyword, str_c(o->val), err);
    }
    PQconninfoFree(options);
    if (ok && ssl.p) {
        const char *mode = ssl_mode(ssl);
        ok = mode
                 ? set(p, "sslmode", str_c(mode), err)
                 : err_set(err, ERR_INVALID, "database.postgresql.url has an unknown value of ssl");
    }
    return ok;
}

static bool from_parts(struct pg_params *p, const struct db_opts *o, struct error *err)
{
    char port[16] = "";
    if (o->port < 0 || o->port > 65535) {
        return err_set(err, ERR_INVALID, "database.postgresql.port must be 1 to 65535");
    }
    if (o->port) {
        snprintf(port, sizeof(port), "%d", o->port);
    }
    return (!o->host || set(p, "host", str_c(o->host), err)) &&
           (!o->port || set(p, "port", str_c(port), err)) &&
           (!o->user || set(p, "user", str_c(o->user), err)) &&
           (!o->password || set(p, "password", str_c(o->password), err)) &&
           (!o->database || set(p, "dbname", str_c(o->database), err));
}

bool pg_params_make(struct pg_params *p, const struct db_opts *opts, struct error *err)
{
    *p = (struct pg_params){.n = 0};
    bool ok =
        opts->url && opts->url[0] ? from_url(p, str_c(opts->url), err) : from_parts(p, opts, err);
    auto_buf options = BUF(8192);
    if (ok) {
        const char *given = get(p, "options");
        buf_fmt(
            &options,
            "%s%s-c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex -c client_min_messages=warning",
            given ? given : "", given ? " " : "");
        ok = !options.failed ? true
                             : err_set(err, ERR_INVALID, "the connection options are too long");
    }
    ok = ok && set(p, "options", buf_view(&options), err) &&
         set(p, "client_encoding", S("UTF8"), err) &&
         (get(p, "connect_timeout") || set(p, "connect_timeout", S("10"), err)) &&
         (get(p, "application_name") || set(p, "application_name", S("parley"), err));
    if (!ok) {
        pg_params_free(p);
    }
    return ok;
}
