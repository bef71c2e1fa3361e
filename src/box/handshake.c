/* handshake: token, instance and placement of whoever connects (box.md §2.1, §2.3). Nothing of a
 * refused one is logged: only counted. */
#include "box/server.h"

enum { TOKEN_MIN = 32, WORKSPACE_MAX = 256, INSTANCE_MAX = 128 };

bool token_ok(struct str token)
{
    for (size_t i = 0; i < token.n; i++)
        if ((unsigned char)token.p[i] <= ' ' || token.p[i] == 0x7f)
            return false;
    return token.n >= TOKEN_MIN;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool instance_ok(struct str s)
{
    if (s.n == 0 || s.n > INSTANCE_MAX || !is_word(s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_word(s.p[i]) && !(s.p[i] && strchr("._:-", s.p[i])))
            return false;
    return true;
}

bool canonical_generation(struct str s, int64_t *out)
{
    if (s.n == 0 || s.p[0] < '1' || s.p[0] > '9')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return str_to_i64(s, out);
}

static bool peer_ok(const struct runtime *rt, const struct http_request *r)
{
    struct str token = http_header_get(r, "X-LangBot-Box-Control-Token");
    return (!rt->token || const_time_eq(token, str_c(rt->token))) &&
           instance_ok(http_header_get(r, "X-LangBot-Instance-Id"));
}

bool handshake_control(struct runtime *rt, const struct http_request *r)
{
    struct str instance = http_header_get(r, "X-LangBot-Instance-Id");
    if (!peer_ok(rt, r))
        return false;
    if (rt->trusted)
        return str_eqz(instance, rt->trusted);
    rt->trusted = mem_strndup(instance.p, instance.n);
    /* Without a token nobody has proved anything: such a pin lasts as long as it is used. */
    rt->trusted_fixed = rt->token != NULL;
    return rt->trusted != NULL;
}

void control_opened(struct runtime *rt)
{
    rt->controls++;
}

void control_refused(struct runtime *rt)
{
    if (rt->controls > 0 || rt->trusted_fixed || rt->sessions + rt->creating + rt->closing > 0)
        return;
    mem_free(rt->trusted);
    rt->trusted = NULL;
}

void control_closed(struct runtime *rt)
{
    rt->controls--;
    control_refused(rt);
}

struct place *handshake_relay(struct runtime *rt, const struct http_request *r, int64_t *generation)
{
    struct error ignored;
    struct str workspace = str_trim(http_header_get(r, "X-LangBot-Workspace-Id"));
    if (!peer_ok(rt, r) || !rt->trusted ||
        !str_eqz(http_header_get(r, "X-LangBot-Instance-Id"), rt->trusted) || workspace.n == 0 ||
        utf8_count(workspace) > WORKSPACE_MAX || memchr(workspace.p, '\0', workspace.n) ||
        !canonical_generation(http_header_get(r, "X-LangBot-Placement-Generation"), generation))
        return NULL;
    struct place *p = place_of(rt, str_z(r->arena, workspace), false, &ignored);
    return p && p->generation == *generation ? p : NULL;
}

void handshake_refuse(struct runtime *rt, struct http_request *r)
{
    rt->refused++;
    http_answer(r, 401, "text/plain", S("Unauthorized"));
}
