/* role: the permission matrix of tenancy.md §3, from one table. */
#include "tenant/tenant.h"

enum {
    O = 1 << ROLE_OWNER,
    A = 1 << ROLE_ADMIN,
    D = 1 << ROLE_DEVELOPER,
    P = 1 << ROLE_OPERATOR,
    V = 1 << ROLE_VIEWER,
    SUPPORT = 1 << ROLE_COUNT,
};

/* One row of the matrix: who has it. */
static const struct {
    const char *name;
    unsigned who;
} matrix[PERM_COUNT] = {
    [PERM_WORKSPACE_VIEW] = {"workspace.view", O | A | D | P | V | SUPPORT},
    [PERM_WORKSPACE_UPDATE] = {"workspace.update", O | A | SUPPORT},
    [PERM_WORKSPACE_DELETE] = {"workspace.delete", O | SUPPORT},
    [PERM_MEMBER_VIEW] = {"member.view", O | A | D | P | V},
    [PERM_MEMBER_INVITE] = {"member.invite", O | A},
    [PERM_MEMBER_UPDATE_ROLE] = {"member.update_role", O | A},
    [PERM_MEMBER_REMOVE] = {"member.remove", O | A},
    [PERM_RESOURCE_VIEW] = {"resource.view", O | A | D | P | V | SUPPORT},
    [PERM_RESOURCE_MANAGE] = {"resource.manage", O | A | D | SUPPORT},
    [PERM_RUNTIME_OPERATE] = {"runtime.operate", O | A | D | P | SUPPORT},
    [PERM_PROVIDER_SECRET_MANAGE] = {"provider_secret.manage", O | A | D | SUPPORT},
    [PERM_API_KEY_MANAGE] = {"api_key.manage", O | A | SUPPORT},
    [PERM_AUDIT_VIEW] = {"audit.view", O | A | SUPPORT},
    [PERM_DATA_EXPORT] = {"data.export", O | A | SUPPORT},
    [PERM_BILLING_LINK_MANAGE] = {"billing_link.manage", O | SUPPORT},
};

static const char *const roles[ROLE_COUNT] = {
    [ROLE_OWNER] = "owner",       [ROLE_ADMIN] = "admin",   [ROLE_DEVELOPER] = "developer",
    [ROLE_OPERATOR] = "operator", [ROLE_VIEWER] = "viewer",
};

const char *permission_name(enum permission p)
{
    return p < PERM_COUNT ? matrix[p].name : "";
}

bool permission_of(struct str name, enum permission *out)
{
    for (unsigned p = 0; p < PERM_COUNT; p++) {
        if (str_eqz(name, matrix[p].name)) {
            *out = (enum permission)p;
            return true;
        }
    }
    return false;
}

bool role_of(struct str name, enum role *out)
{
    for (unsigned r = 0; r < ROLE_COUNT; r++) {
        if (str_eqz(name, roles[r])) {
            *out = (enum role)r;
            return true;
        }
    }
    return false;
}

const char *role_name(enum role r)
{
    return r < ROLE_COUNT ? roles[r] : "";
}

static permset column(unsigned who)
{
    permset set = 0;
    for (unsigned p = 0; p < PERM_COUNT; p++) {
        if (matrix[p].who & who) {
            set |= PERM_BIT(p);
        }
    }
    return set;
}

permset role_permissions(enum role r)
{
    return r < ROLE_COUNT ? column(1u << r) : 0;
}

permset support_admin_permissions(void)
{
    return column(SUPPORT);
}

json_t *permset_json(permset set)
{
    auto_json list = json_array();
    /* Selection by name: fifteen at most. */
    for (const char *last = "";;) {
        const char *next = NULL;
        for (unsigned p = 0; p < PERM_COUNT; p++) {
            const char *name = matrix[p].name;
            if ((set & PERM_BIT(p)) && strcmp(name, last) > 0 &&
                (!next || strcmp(name, next) < 0)) {
                next = name;
            }
        }
        if (!next) {
            return steal(list);
        }
        if (!list || json_array_append_new(list, json_string(next)) != 0) {
            return NULL;
        }
        last = next;
    }
}

permset permset_of_json(const json_t *list)
{
    permset set = 0;
    enum permission p;
    const json_t *item;
    size_t i;
    json_array_foreach (list, i, item) {
        struct str name = json_sv(item);
        if (str_eqz(name, "*")) {
            return PERM_ALL;
        }
        if (permission_of(name, &p)) {
            set |= PERM_BIT(p);
        }
    }
    return set;
}

bool principal_has(const struct principal *p, enum permission perm)
{
    if (perm == PERM_NONE) {
        return p->kind != PRINCIPAL_PUBLIC_BOT;
    }
    return perm < PERM_COUNT && (p->permissions & PERM_BIT(perm));
}

bool principal_may(const struct principal *p, enum permission perm, struct error *err)
{
    if (principal_has(p, perm)) {
        return true;
    }
    if (perm >= PERM_COUNT) {
        return err_tag(err, ERR_DENIED, 403, "permission_denied", "Permission denied");
    }
    return err_tag(err, ERR_DENIED, 403, "permission_denied", "Missing Workspace permission: %s",
                   permission_name(perm));
}
