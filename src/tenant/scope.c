/* scope: the workspace as an argument, the identity of the singleton, quotas. */
#include "tenant/tenant.h"

bool scope_valid(const struct scope *s)
{
    return s->instance[0] && s->generation > 0 && uuid_is_canonical(str_c(s->workspace));
}

bool scope_eq(const struct scope *a, const struct scope *b)
{
    return a->generation == b->generation && strcmp(a->workspace, b->workspace) == 0 &&
           strcmp(a->instance, b->instance) == 0;
}

struct db_scope scope_db(const struct scope *s)
{
    return (struct db_scope){.kind = DB_SCOPE_WORKSPACE, .value = s->workspace};
}

bool tenant_singleton_uuid(struct str instance_id, char out[UUID_SIZE], struct error *err)
{
    struct str id = str_trim(instance_id), rest = id;
    if (!id.n) {
        return err_set(err, ERR_INVALID, "the instance id is empty");
    }
    if (str_starts(id, S("instance_"))) {
        rest = str_sub(id, sizeof("instance_") - 1, id.n);
    }
    return uuid_parse(rest, out) || uuid5("8ea04f29-8528-4cc3-bb28-30a838c89d76", id, out) ||
           err_set(err, ERR_NOMEM, "out of memory");
}

bool quota_check(const char *resource, int64_t limit, int64_t count, struct error *err)
{
    if (limit < 0 || count < limit) {
        return true;
    }
    return err_tag(err, ERR_CONFLICT, 409, "workspace_quota_exceeded",
                   "Maximum number of %s (%lld) reached", resource, (long long)limit);
}
