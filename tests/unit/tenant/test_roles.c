/* The permission matrix, principals, scopes, the fence and quotas (tenancy.md §3-§5, §7, §8.3). */
#include "tenant/tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define WS_A "6f1cfd5c-9f5c-4fcb-9f3a-7a6f7d2d8a11"
#define WS_B "0a3c1b9e-54d7-4f4e-8b1d-2a9d3c6b7e10"

static int setup(void **state)
{
    base_init();
    return 0;
}

/* As the table of §3 stands: owner, admin, developer, operator, viewer, support-admin. */
static const struct {
    enum permission p;
    const char *name, *who;
} wanted[] = {
    {PERM_WORKSPACE_VIEW, "workspace.view", "yyyyyy"},
    {PERM_WORKSPACE_UPDATE, "workspace.update", "yy---y"},
    {PERM_WORKSPACE_DELETE, "workspace.delete", "y----y"},
    {PERM_MEMBER_VIEW, "member.view", "yyyyy-"},
    {PERM_MEMBER_INVITE, "member.invite", "yy----"},
    {PERM_MEMBER_UPDATE_ROLE, "member.update_role", "yy----"},
    {PERM_MEMBER_REMOVE, "member.remove", "yy----"},
    {PERM_RESOURCE_VIEW, "resource.view", "yyyyyy"},
    {PERM_RESOURCE_MANAGE, "resource.manage", "yyy--y"},
    {PERM_RUNTIME_OPERATE, "runtime.operate", "yyyy-y"},
    {PERM_PROVIDER_SECRET_MANAGE, "provider_secret.manage", "yyy--y"},
    {PERM_API_KEY_MANAGE, "api_key.manage", "yy---y"},
    {PERM_AUDIT_VIEW, "audit.view", "yy---y"},
    {PERM_DATA_EXPORT, "data.export", "yy---y"},
    {PERM_BILLING_LINK_MANAGE, "billing_link.manage", "y----y"},
};

static void test_matrix(void **state)
{
    enum permission p;
    assert_int_equal(array_len(wanted), PERM_COUNT);
    for (size_t i = 0; i < array_len(wanted); i++) {
        assert_string_equal(permission_name(wanted[i].p), wanted[i].name);
        assert_true(permission_of(str_c(wanted[i].name), &p));
        assert_int_equal(p, wanted[i].p);
        for (unsigned r = 0; r <= ROLE_COUNT; r++) {
            permset set =
                r < ROLE_COUNT ? role_permissions((enum role)r) : support_admin_permissions();
            assert_int_equal((set & PERM_BIT(wanted[i].p)) != 0, wanted[i].who[r] == 'y');
        }
    }
    assert_int_equal(role_permissions(ROLE_OWNER), PERM_ALL);
    assert_int_equal(role_permissions(ROLE_COUNT), 0);
    assert_false(permission_of(S("resource"), &p));
    assert_string_equal(permission_name(PERM_NONE), "");
}

static void test_role_names(void **state)
{
    static const char *const names[] = {"owner", "admin", "developer", "operator", "viewer"};
    enum role r;
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        assert_string_equal(role_name((enum role)i), names[i]);
        assert_true(role_of(str_c(names[i]), &r));
        assert_int_equal(r, i);
    }
    assert_false(role_of(S("Owner"), &r));
    assert_false(role_of(S(""), &r));
    assert_string_equal(role_name(ROLE_COUNT), "");
}

static void test_sets_as_json(void **state)
{
    auto_json all = permset_json(PERM_ALL);
    assert_int_equal(json_array_size(all), PERM_COUNT);
    for (size_t i = 1; i < PERM_COUNT; i++) {
        assert_true(strcmp(json_string_value(json_array_get(all, i - 1)),
                           json_string_value(json_array_get(all, i))) < 0);
    }
    assert_int_equal(permset_of_json(all), PERM_ALL);
    auto_json none = permset_json(0);
    assert_int_equal(json_array_size(none), 0);
    auto_json some = json_pack("[s, s, s, i, n]", "audit.view", "no.such", "resource.view", 5);
    assert_int_equal(permset_of_json(some),
                     PERM_BIT(PERM_AUDIT_VIEW) | PERM_BIT(PERM_RESOURCE_VIEW));
    auto_json star = json_pack("[s, s]", "audit.view", "*");
    assert_int_equal(permset_of_json(star), PERM_ALL);
    assert_int_equal(permset_of_json(NULL), 0);
    for (long nth = 1; nth < 40; nth++) {
        long before = mem_live();
        mem_fail_after(nth, true);
        json_t *j = permset_json(PERM_ALL);
        mem_fail_after(0, false);
        json_decref(j);
        assert_int_equal(mem_live(), before);
    }
}

static void test_principals(void **state)
{
    struct error err;
    struct principal p = {.kind = PRINCIPAL_ACCOUNT, .permissions = role_permissions(ROLE_VIEWER)};
    assert_true(principal_may(&p, PERM_RESOURCE_VIEW, &err));
    assert_false(principal_may(&p, PERM_RESOURCE_MANAGE, &err));
    assert_int_equal(err.code, ERR_DENIED);
    assert_int_equal(err_http(&err), 403);
    assert_string_equal(err.tag, "permission_denied");
    assert_string_equal(err.msg, "Missing Workspace permission: resource.manage");
    assert_true(principal_has(&p, PERM_NONE));
    p.kind = PRINCIPAL_PUBLIC_BOT;
    assert_false(principal_may(&p, PERM_NONE, &err));
    assert_false(principal_has(&p, PERM_COUNT));
}

static void test_singleton(void **state)
{
    struct error err;
    char a[UUID_SIZE], b[UUID_SIZE];
    assert_true(tenant_singleton_uuid(S("instance_" WS_A), a, &err));
    assert_string_equal(a, WS_A);
    assert_true(tenant_singleton_uuid(S(" 6F1CFD5C9F5C4FCB9F3A7A6F7D2D8A11 "), a, &err));
    assert_string_equal(a, WS_A);
    assert_true(tenant_singleton_uuid(S("my house"), a, &err));
    assert_true(uuid5("8ea04f29-8528-4cc3-bb28-30a838c89d76", S("my house"), b));
    assert_string_equal(a, b);
    assert_true(tenant_singleton_uuid(S("instance_x "), a, &err));
    assert_true(uuid5("8ea04f29-8528-4cc3-bb28-30a838c89d76", S("instance_x"), b));
    assert_string_equal(a, b);
    assert_false(tenant_singleton_uuid(S("  "), a, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

static void test_scopes(void **state)
{
    struct scope s = {.instance = "i", .workspace = WS_A, .generation = 1}, other = s;
    assert_true(scope_valid(&s));
    assert_true(scope_eq(&s, &other));
    other.generation = 2;
    assert_false(scope_eq(&s, &other));
    other = s;
    other.workspace[0] = '7';
    assert_false(scope_eq(&s, &other));
    other.workspace[0] = 'x';
    assert_false(scope_valid(&other));
    other = s;
    other.instance[0] = '\0';
    assert_false(scope_valid(&other));
    other = s;
    other.generation = 0;
    assert_false(scope_valid(&other));
    struct db_scope d = scope_db(&s);
    assert_int_equal(d.kind, DB_SCOPE_WORKSPACE);
    assert_ptr_equal(d.value, s.workspace);
}

static void test_fence(void **state)
{
    struct error err;
    struct scope s, again;
    size_t pos = 0;
    struct fence *f = fence_new("inst");
    assert_false(fence_singleton(f, &s, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_false(fence_scope(f, WS_A, &s, &err));
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_true(fence_set(f, WS_A, 1, true, &err));
    assert_true(fence_singleton(f, &s, &err));
    assert_string_equal(s.workspace, WS_A);
    assert_string_equal(s.instance, "inst");
    assert_int_equal(s.generation, 1);
    assert_true(scope_valid(&s));
    assert_true(fence_check(f, &s, &err));
    assert_true(fence_scope(f, WS_A, &again, &err));
    assert_true(scope_eq(&s, &again));

    /* A cutover: what was begun before it must not go on. */
    uint64_t changes = fence_changes(f);
    assert_true(fence_set(f, WS_A, 2, true, &err));
    assert_true(fence_changes(f) > changes);
    assert_false(fence_check(f, &s, &err));
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_false(fence_set(f, WS_A, 1, true, &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    s.generation = 2;
    assert_true(fence_check(f, &s, &err));
    changes = fence_changes(f);
    assert_true(fence_set(f, WS_A, 2, false, &err));
    assert_true(fence_changes(f) > changes);
    assert_false(fence_check(f, &s, &err));
    assert_false(fence_scope(f, WS_A, &again, &err));
    assert_false(fence_next(f, &pos, &again));
    assert_true(fence_set(f, WS_A, 2, true, &err));

    snprintf(s.instance, sizeof(s.instance), "other");
    assert_false(fence_check(f, &s, &err));
    snprintf(s.instance, sizeof(s.instance), "inst");
    snprintf(s.workspace, sizeof(s.workspace), WS_B);
    assert_false(fence_check(f, &s, &err));
    assert_true(fence_set(f, WS_B, 7, true, &err));
    assert_false(fence_singleton(f, &again, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    pos = 0;
    assert_true(fence_next(f, &pos, &again));
    assert_true(fence_next(f, &pos, &again));
    assert_false(fence_next(f, &pos, &again));
    assert_false(fence_set(f, "x", 1, true, &err));
    assert_false(fence_set(f, WS_A, 0, true, &err));
    fence_free(f);
    assert_null(fence_new(""));
}

static void test_fence_limits(void **state)
{
    struct error err;
    char id[UUID_SIZE];
    long before = mem_live();
    struct fence *f = fence_new("inst");
    size_t n = 0;
    while (uuid4(id), fence_set(f, id, 1, true, &err)) {
        assert_true(++n < 100000);
    }
    assert_int_equal(err.code, ERR_CAPACITY);
    assert_true(n >= 5000);
    fence_free(f);
    for (long nth = 1; nth < 8; nth++) {
        mem_fail_after(nth, true);
        f = fence_new("inst");
        if (f && !fence_set(f, WS_A, 1, true, &err)) {
            assert_int_equal(err.code, ERR_NOMEM);
        }
        mem_fail_after(0, false);
        fence_free(f);
    }
    assert_int_equal(mem_live(), before);
}

static void test_quota(void **state)
{
    struct error err;
    assert_true(quota_check("bots", -1, 1000000, &err));
    assert_true(quota_check("bots", 2, 1, &err));
    assert_false(quota_check("bots", 2, 2, &err));
    assert_string_equal(err.msg, "Maximum number of bots (2) reached");
    assert_string_equal(err.tag, "workspace_quota_exceeded");
    assert_int_equal(err_http(&err), 409);
    assert_false(quota_check("knowledge bases", 0, 0, &err));
    assert_string_equal(err.msg, "Maximum number of knowledge bases (0) reached");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),       cmocka_unit_test(test_role_names),
        cmocka_unit_test(test_sets_as_json), cmocka_unit_test(test_principals),
        cmocka_unit_test(test_singleton),    cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_fence),        cmocka_unit_test(test_fence_limits),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
