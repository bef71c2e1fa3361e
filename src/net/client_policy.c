/* Where an outgoing call may go: private and special addresses (IANA special-purpose
 * registries), the operator's allow-list, and which hosts are spoken to without the proxy. */
#include "net/client_private.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static struct {
    struct policy_cidr *list;
    size_t count;
} allowed;

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool prefix_matches(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    if (memcmp(a, b, bits / 8) != 0)
        return false;
    if (bits % 8 == 0)
        return true;
    uint8_t mask = (uint8_t)(0xff << (8 - bits % 8));
    return (a[bits / 8] & mask) == (b[bits / 8] & mask);
}

/* Any numeric form that a resolver would take without DNS, "127.1" and "0x7f000001" included, as
 * 16 bytes. */
static bool numeric(const char *text, uint8_t out[16])
{
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (!inet_aton(text, &v4))
        return false;
    memcpy(out, mapped, 12);
    memcpy(out + 12, &v4, 4);
    return true;
}

bool policy_cidr_parse(struct str text, struct policy_cidr *out)
{
    char address[64];

    text = str_trim(text);
    ptrdiff_t slash = str_chr(text, '/');
    struct str host = slash < 0 ? text : str_n(text.p, (size_t)slash);
    if (host.n == 0 || host.n >= sizeof(address))
        return false;
    memcpy(address, host.p, host.n);
    address[host.n] = '\0';
    bool v6 = strchr(address, ':') != NULL;
    struct in_addr v4;
    if (v6 ? inet_pton(AF_INET6, address, out->bits) != 1 : inet_pton(AF_INET, address, &v4) != 1)
        return false;
    if (!v6) {
        memcpy(out->bits, mapped, 12);
        memcpy(out->bits + 12, &v4, 4);
    }
    int64_t prefix = v6 ? 128 : 32;
    if (slash >= 0) {
        int64_t given;
        if (!str_to_i64(str_sub(text, (size_t)slash + 1, text.n), &given) || given < 0 ||
            given > prefix)
            return false;
        prefix = given;
    }
    out->prefix = (unsigned)(v6 ? prefix : prefix + 96);
    return true;
}

void policy_allow(struct policy_cidr *list, size_t count)
{
    mem_free(allowed.list);
    allowed.list = list;
    allowed.count = count;
}

static bool v4_special(const uint8_t *p)
{
    static const struct {
        uint8_t net[4];
        unsigned bits;
    } table[] = {
        {{0, 0, 0, 0}, 8},      {{10, 0, 0, 0}, 8},     {{100, 64, 0, 0}, 10},
        {{127, 0, 0, 0}, 8},    {{169, 254, 0, 0}, 16}, {{172, 16, 0, 0}, 12},
        {{192, 0, 0, 0}, 24},   {{192, 0, 2, 0}, 24},   {{192, 88, 99, 0}, 24},
        {{192, 168, 0, 0}, 16}, {{198, 18, 0, 0}, 15},  {{198, 51, 100, 0}, 24},
        {{203, 0, 113, 0}, 24}, {{224, 0, 0, 0}, 4},    {{240, 0, 0, 0}, 4},
    };
    for (size_t i = 0; i < array_len(table); i++) {
        if (prefix_matches(p, table[i].net, table[i].bits))
            return true;
    }
    return false;
}

static bool special(const uint8_t p[16])
{
    static const uint8_t zero[12], nat64[12] = {0, 0x64, 0xff, 0x9b};

    /* Forms that carry an IPv4 address lead to that address. */
    if (memcmp(p, mapped, 12) == 0 || memcmp(p, zero, 12) == 0 || memcmp(p, nat64, 12) == 0)
        return v4_special(p + 12);
    if (p[0] == 0x20 && p[1] == 0x02)
        return v4_special(p + 2);
    if ((p[0] & 0xe0) != 0x20) /* outside 2000::/3: local, link, multicast, reserved */
        return true;
    if (p[0] == 0x20 && p[1] == 0x01 && (p[2] < 2 || (p[2] == 0x0d && p[3] == 0xb8)))
        return true; /* 2001::/23 (Teredo and other protocol assignments), 2001:db8::/32 */
    return p[0] == 0x3f && p[1] == 0xff && (p[2] & 0xf0) == 0; /* 3fff::/20 */
}

static bool refused(const uint8_t p[16])
{
    if (!special(p))
        return false;
    for (size_t i = 0; i < allowed.count; i++) {
        if (prefix_matches(p, allowed.list[i].bits, allowed.list[i].prefix))
            return false;
    }
    return true;
}

bool policy_refuses(const struct sockaddr *address)
{
    uint8_t p[16];
    if (address->sa_family == AF_INET) {
        memcpy(p, mapped, 12);
        memcpy(p + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(p, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    } else {
        return true;
    }
    return refused(p);
}

bool net_refuses(const struct sockaddr *address)
{
    return policy_refuses(address);
}

bool policy_refuses_text(const char *text)
{
    uint8_t p[16];
    return !numeric(text, p) || refused(p);
}

static const char *host_copy(struct str host, char *out, size_t size)
{
    size_t n = host.n < size - 1 ? host.n : size - 1;
    memcpy(out, host.p, n);
    out[n] = '\0';
    return out;
}

static bool is_localhost(struct str host)
{
    if (host.n > 0 && host.p[host.n - 1] == '.')
        host.n--;
    return str_ieqz(host, "localhost") ||
           (host.n > 10 && str_ieqz(str_sub(host, host.n - 10, 10), ".localhost"));
}

bool policy_refuses_host(struct str host)
{
    char text[256];
    uint8_t p[16];
    if (numeric(host_copy(host, text, sizeof(text)), p))
        return refused(p);
    return is_localhost(host) && policy_refuses_text("127.0.0.1");
}

bool policy_is_loopback(struct str host)
{
    static const uint8_t one[16] = {[15] = 1};
    char text[256];
    uint8_t p[16];
    if (!numeric(host_copy(host, text, sizeof(text)), p))
        return is_localhost(host);
    return memcmp(p, one, 16) == 0 || (memcmp(p, mapped, 12) == 0 && p[12] == 127);
}

bool policy_no_proxy(const char *list, struct str host)
{
    char text[256];
    uint8_t p[16];
    struct str rest = str_c(list), entry;
    bool literal = numeric(host_copy(host, text, sizeof(text)), p);
    while (str_split(&rest, ',', &entry)) {
        struct policy_cidr cidr;
        entry = str_trim(entry);
        if (str_eq(entry, S("*")))
            return true;
        if (literal) {
            if (policy_cidr_parse(entry, &cidr) && prefix_matches(p, cidr.bits, cidr.prefix))
                return true;
            continue;
        }
        if (entry.n > 0 && entry.p[0] == '.')
            entry = str_sub(entry, 1, entry.n);
        if (entry.n == 0 || entry.n > host.n)
            continue;
        struct str tail = str_sub(host, host.n - entry.n, entry.n);
        bool border = tail.n == host.n || host.p[host.n - entry.n - 1] == '.';
        if (border && str_istarts(tail, entry))
            return true;
    }
    return false;
}
