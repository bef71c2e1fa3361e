/* tenant: scope, roles and permissions, principals, the generation fence, quotas. tenancy.md §1–5, §7, §12. No SQL here. */
#ifndef PARLEY_TENANT_H
#define PARLEY_TENANT_H

#include "base/base.h"
#include "crypto/crypto.h"
#include "db/db.h"

/* Where tenant data is read or written. Passed by value or const pointer; never stored globally. */
struct scope {
    char instance[256];
    char workspace[UUID_SIZE];
    int64_t generation; /* > 0 */
};
bool scope_valid(const struct scope *s);
bool scope_eq(const struct scope *a, const struct scope *b);
struct db_scope scope_db(const struct scope *s); /* value points into s */

/* tenancy.md §3. Bits of a permission set. */
enum permission {
    PERM_WORKSPACE_VIEW,
    PERM_WORKSPACE_UPDATE,
    PERM_WORKSPACE_DELETE,
    PERM_MEMBER_VIEW,
    PERM_MEMBER_INVITE,
    PERM_MEMBER_UPDATE_ROLE,
    PERM_MEMBER_REMOVE,
    PERM_RESOURCE_VIEW,
    PERM_RESOURCE_MANAGE,
    PERM_RUNTIME_OPERATE,
    PERM_PROVIDER_SECRET_MANAGE,
    PERM_API_KEY_MANAGE,
    PERM_AUDIT_VIEW,
    PERM_DATA_EXPORT,
    PERM_BILLING_LINK_MANAGE,
    PERM_COUNT,
    PERM_NONE = 255, /* any authenticated member */
};
typedef uint32_t permset; /* bit mask; a plain integer, not a struct */
#define PERM_BIT(p) ((permset)1 << (p))
#define PERM_ALL    ((PERM_BIT(PERM_COUNT)) - 1)
const char *permission_name(enum permission p); /* "resource.view" */
bool permission_of(struct str name, enum permission *out);
enum role { ROLE_OWNER, ROLE_ADMIN, ROLE_DEVELOPER, ROLE_OPERATOR, ROLE_VIEWER, ROLE_COUNT };
bool role_of(struct str name, enum role *out);
const char *role_name(enum role r);
permset role_permissions(enum role r);
permset support_admin_permissions(void);
json_t *permset_json(permset set); /* sorted array of names */
/* Stored scope list of an API key ("*" = all). Unknown names are ignored. */
permset permset_of_json(const json_t *list);

enum principal_kind {
    PRINCIPAL_ACCOUNT,
    PRINCIPAL_API_KEY,
    PRINCIPAL_SUPPORT_ADMIN,
    PRINCIPAL_SYSTEM,
    PRINCIPAL_PUBLIC_BOT
};
/* Who acts, where, with what (tenancy.md §4 RequestContext). Lives in the request's arena. */
struct principal {
    enum principal_kind kind;
    struct scope scope; /* empty workspace for account-only routes */
    permset permissions;
    char account[UUID_SIZE]; /* "" if none */
    char api_key
        [UUID_SIZE]; /* "global-oss-api-key" does not fit a UUID: kind API_KEY with empty api_key and global_key */
    bool global_key;
    char membership[UUID_SIZE];
    enum role role;
    int64_t membership_revision, account_revision;
    int64_t expires_us; /* of the credential, wall clock; 0: none */
    const char *email;  /* arena; account principals */
};
/* ERR_DENIED 403 "permission_denied" with the text of §3. */
bool principal_may(const struct principal *p, enum permission perm, struct error *err) warn_unused;
bool principal_has(const struct principal *p, enum permission perm);

/* Workspace uuid of the singleton from the instance id (§5). ERR_INVALID for an empty id. */
bool tenant_singleton_uuid(struct str instance_id, char out[UUID_SIZE],
                           struct error *err) warn_unused;

/* Generation fence (§7): the process-wide table of active bindings. Loaded by app/ from the database; one entry in OSS. */
struct fence;
struct fence *fence_new(const char *instance);
void fence_free(struct fence *f);
bool fence_set(struct fence *f, const char *workspace, int64_t generation, bool active,
               struct error *err) warn_unused;
/* Grows with each change of the table: what was allowed at a number is allowed while it stands. */
uint64_t fence_changes(const struct fence *f);
/* True if `s` is still what may run: same instance, workspace active and unfenced, same generation. ERR_UNAVAILABLE otherwise. */
bool fence_check(const struct fence *f, const struct scope *s, struct error *err) warn_unused;
bool fence_scope(const struct fence *f, const char *workspace, struct scope *out,
                 struct error *err) warn_unused;
/* The only local workspace, or ERR_NOT_FOUND (none yet: before the first account). */
bool fence_singleton(const struct fence *f, struct scope *out, struct error *err) warn_unused;
bool fence_next(const struct fence *f, size_t *pos,
                struct scope *out); /* active ones, for background jobs */

/* `count` already used of `limit` (< 0: unlimited): ERR_CONFLICT 409 workspace_quota_exceeded
 * "Maximum number of <resource> (<n>) reached" when one more does not fit. */
bool quota_check(const char *resource, int64_t limit, int64_t count, struct error *err) warn_unused;

/* Secret redaction (http-api.md §15). Masked deep copy; new reference. */
json_t *redact(const json_t *value);
bool redact_is_secret_key(struct str key);
/* Takes "***" leaves of `submitted` from `stored` at the same path; new reference or NULL with ERR_INVALID
 * "Masked secret has no existing value (<path>)". */
json_t *redact_restore(const json_t *submitted, const json_t *stored, struct error *err);
json_t *redact_leaves(
    const json_t *value); /* every non-empty leaf masked (under a sensitive key) */
/* The rules differ by what is shown (§15): plugins and MCP servers know fewer names, plugins no addresses. */
enum redact_rules { REDACT_FULL, REDACT_MCP, REDACT_PLUGIN };
json_t *redact_with(const json_t *value, enum redact_rules rules);
json_t *redact_restore_with(const json_t *submitted, const json_t *stored, enum redact_rules rules,
                            struct error *err);

#endif
