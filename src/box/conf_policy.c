/* conf_policy: box.admission. What cannot be understood is never taken for "unrestricted". */
#include "box/conf.h"

#include <stdio.h>

void policy_default(struct box_policy *p)
{
    *p = (struct box_policy){.required_backend = "nsjail",
                             .max_sessions = 1,
                             .max_grant_ttl_sec = 300,
                             .max_timeout_sec = 120,
                             .memory_mb = 512,
                             .pids_limit = 128,
                             .cpus = 1.0,
                             .readiness_cache_sec = 15,
                             .read_only_rootfs = true};
}

static const struct field {
    const char *name;
    size_t at;
    int64_t low, high;
} ints[] = {
    {"max_sessions", offsetof(struct box_policy, max_sessions), 0, 1},
    {"max_managed_processes", offsetof(struct box_policy, max_managed_processes), 0, 0},
    {"max_grant_ttl_sec", offsetof(struct box_policy, max_grant_ttl_sec), 1, 1 << 30},
    {"max_timeout_sec", offsetof(struct box_policy, max_timeout_sec), 1, 7 * 24 * 3600},
    {"memory_mb", offsetof(struct box_policy, memory_mb), 32, 1 << 24},
    {"pids_limit", offsetof(struct box_policy, pids_limit), 1, 1 << 22},
    {"workspace_quota_mb", offsetof(struct box_policy, workspace_quota_mb), 0, 1 << 24},
};

static bool take_int(const char *name, const json_t *value, struct box_policy *p, bool *ok)
{
    for (size_t i = 0; i < array_len(ints); i++) {
        const struct field *f = &ints[i];
        if (strcmp(f->name, name) == 0) {
            *ok = json_is_integer(value) && json_integer_value(value) >= f->low &&
                  json_integer_value(value) <= f->high;
            if (*ok)
                *(int64_t *)(void *)((char *)p + f->at) = json_integer_value(value);
            return true;
        }
    }
    return false;
}

/* False: no member is called so. */
static bool take_other(const char *name, const json_t *value, struct box_policy *p, bool *ok)
{
    struct str text = json_sv(value);
    if (strcmp(name, "required") == 0) {
        *ok = json_is_boolean(value);
        p->required = json_is_true(value);
    } else if (strcmp(name, "read_only_rootfs") == 0) {
        *ok = json_is_boolean(value);
        p->read_only_rootfs = json_is_true(value);
    } else if (strcmp(name, "logical_session_id") == 0) {
        *ok = str_eqz(text, "global");
    } else if (strcmp(name, "required_backend") == 0) {
        /* "jail" is ours: the one that is built in. */
        *ok = str_eqz(text, "nsjail") || str_eqz(text, "jail");
        p->required_backend = str_eqz(text, "jail") ? "jail" : "nsjail";
    } else if (strcmp(name, "cpus") == 0) {
        p->cpus = json_number_value(value);
        *ok = json_is_number(value) && p->cpus > 0 && p->cpus <= 4096;
    } else if (strcmp(name, "readiness_cache_sec") == 0) {
        p->readiness_cache_sec = json_number_value(value);
        *ok = json_is_number(value) && p->readiness_cache_sec >= 0;
    } else {
        return false;
    }
    return true;
}

static bool read_policy(const json_t *raw, struct box_policy *p, char *why, size_t size)
{
    const char *name;
    json_t *value;
    if (!json_is_object(raw)) {
        snprintf(why, size, "box.admission must be an object");
        return false;
    }
    json_object_foreach ((json_t *)(uintptr_t)raw, name, value) {
        bool ok = true;
        if (!take_int(name, value, p, &ok) && !take_other(name, value, p, &ok)) {
            snprintf(why, size, "box.admission has an unknown member \"%.100s\"", name);
            return false;
        }
        if (!ok) {
            snprintf(why, size, "box.admission.%s has a value that it cannot have", name);
            return false;
        }
    }
    return true;
}

void policy_read(const json_t *raw, const struct conf *old, struct conf *out)
{
    struct box_policy read;
    policy_default(&read);
    out->policy_error[0] = '\0';
    if (raw && !read_policy(raw, &read, out->policy_error, sizeof(out->policy_error))) {
        out->policy = old->policy;
        out->policy.required = true;
    } else if (old->policy.required && !read.required) {
        out->policy = old->policy;
        snprintf(out->policy_error, sizeof(out->policy_error),
                 "Sandbox admission enforcement cannot be disabled without restarting");
    } else {
        out->policy = read;
    }
}
