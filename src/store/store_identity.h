/* Part of store.h: accounts, workspaces, memberships, invitations, API keys. tenancy.md §2–§6, http-api.md §1.5–1.7, §3–5. */
#ifndef PARLEY_STORE_IDENTITY_H
#define PARLEY_STORE_IDENTITY_H

/* The account of a token: by uuid, else by normalized e-mail. Raw row; ERR_NOT_FOUND. */
json_t *account_find(const struct store *st, const char *uuid, const char *normalized_email,
                     struct error *err);
bool account_any(const struct store *st, bool *any, struct error *err) warn_unused;
/* First account (tenancy.md §5): one transaction; ERR_CONFLICT tag "registration_closed" when one exists. `password_phc` made before.
 * Gives the account row; *scope_out the singleton's scope. */
json_t *account_create_first(const struct store *st, struct str email, const char *password_phc,
                             struct scope *scope_out, struct error *err);
/* Sets the hash and raises projection_revision by one (README decision: every earlier token ends). New revision in *revision. */
bool account_set_password(const struct store *st, const char *account_uuid, const char *phc,
                          int64_t *revision, struct error *err) warn_unused;
/* {initialized, password_login_enabled, space_login_enabled} over active accounts. */
json_t *account_flags(const struct store *st, struct error *err);
/* Resolution of a user request (tenancy.md §4 steps 3–4): workspace active, same instance, active membership. Fills scope, role,
 * permissions, membership. ERR_NOT_FOUND tag resource_not_found otherwise. */
bool identity_resolve(const struct store *st, const char *account_uuid, const char *workspace_uuid,
                      struct principal *out, struct error *err) warn_unused;
/* {workspaces:[{workspace,membership,permissions,placement_generation,plan_name}]} of §4 bootstrap. */
json_t *identity_bootstrap(const struct store *st, const char *account_uuid, struct error *err);
/* {workspace, membership, permissions, placement_generation, plan_name} of the principal. */
json_t *identity_current(const struct store *st, const struct principal *p, struct error *err);
/* API key by hash (http-api.md §1.7 check order 3–5): active, not expired; stamps last_used_at. expires_us of `out` is the key's.
 * ERR_UNAUTHORIZED. */
bool identity_api_key(const struct store *st, const char *key_hash, struct principal *out,
                      struct error *err) warn_unused;
/* All active bindings of the instance into the fence (start-up). */
bool identity_load_fence(const struct store *st, struct fence *f, struct error *err) warn_unused;
/* Members (http-api.md §4). */
json_t *members_list(const struct store *st, const struct scope *scope, struct error *err);
json_t *member_set_role(const struct store *st, const struct principal *actor, const char *account,
                        struct str role, struct error *err);
bool member_remove(const struct store *st, const struct principal *actor, const char *account,
                   struct error *err) warn_unused;
/* Invitations (tenancy.md §6). token_hash: sha-256 hex. */
json_t *invitation_create(const struct store *st, const struct principal *actor, struct str email,
                          struct str role, const char *token_hash, struct error *err);
json_t *invitations_pending(const struct store *st, const struct scope *scope, struct error *err);
json_t *invitation_revoke(const struct store *st, const struct principal *actor, const char *uuid,
                          struct error *err);
json_t *invitation_inspect(const struct store *st, const char *token_hash,
                           struct error *err); /* {invitation, workspace} */
/* Registers and accepts in one transaction; {workspace_uuid}. ERR_CONFLICT tag account_exists_login_required … */
json_t *invitation_register(const struct store *st, const char *token_hash, struct str email,
                            const char *phc, struct error *err);
bool invitations_expire(const struct store *st, const struct scope *scope, int64_t *removed,
                        struct error *err) warn_unused;
/* workspace_metadata values; NULL value deletes. */
json_t *workspace_meta_get(const struct store *st, const struct scope *scope, const char *key,
                           struct error *err); /* string or null */
bool workspace_meta_set(const struct store *st, const struct scope *scope, const char *key,
                        const char *value, struct error *err) warn_unused;

#endif
