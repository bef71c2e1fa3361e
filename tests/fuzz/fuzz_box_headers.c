/* The headers of a handshake: whoever is let in has the token, the instance and a placement that is current. The input is one
 * header value a line: token, instance, workspace, generation. */
#include "box/server.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOKEN "0123456789abcdef0123456789abcdef"

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void one(struct str in)
{
    static const char *const names[] = {"X-LangBot-Box-Control-Token", "X-LangBot-Instance-Id",
                                        "X-LangBot-Workspace-Id", "X-LangBot-Placement-Generation"};
    struct runtime rt = {.fence_max = 10};
    struct error err;
    struct http_header h[4];
    size_t n = 0;
    struct str line;
    char token[] = TOKEN, instance[] = "instance";
    while (n < 4 && str_split(&in, '\n', &line)) {
        h[n] = (struct http_header){str_c(names[n]), line};
        n++;
    }
    struct http_request r = {.headers = h, .header_count = n, .arena = arena_new(1 << 16)};
    rt.token = token;
    rt.trusted = instance;
    struct place *p = place_of(&rt, "w", true, &err);
    must(p);
    p->generation = 12;
    int64_t generation = 0;
    bool control = handshake_control(&rt, &r);
    struct place *found = handshake_relay(&rt, &r, &generation);
    must(!control || (n >= 2 && str_eqz(h[0].value, TOKEN) && str_eqz(h[1].value, "instance")));
    must(!found || (control && found == p && generation == 12 &&
                    str_eqz(str_trim(h[2].value), "w") && str_eqz(h[3].value, "12")));
    for (size_t i = 0; i < n; i++) {
        must(!token_ok(h[i].value) || (h[i].value.n >= 32 && str_chr(h[i].value, ' ') < 0));
        must(!canonical_generation(h[i].value, &generation) || generation >= 1);
        must(!instance_ok(h[i].value) || h[i].value.n <= 128);
    }
    mem_free(p);
    map_free(&rt.places);
    arena_free(r.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    long blocks = mem_live();
    one(str_n((const char *)data, size));
    must(mem_live() == blocks);
    return 0;
}
