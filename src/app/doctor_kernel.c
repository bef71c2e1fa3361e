/* What the kernel offers for a sandbox: told by `parley doctor`, not used by anything yet. */
#include "app/doctor.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a file with one number; -1 if there is none. */
static long long number_in(const char *path)
{
    char text[64];
    FILE *f = fopen(path, "re");
    long long n = f && fgets(text, sizeof text, f) ? strtoll(text, NULL, 10) : -1;
    if (f)
        fclose(f);
    return n;
}

static void user_namespaces(struct doctor *d)
{
    long long max = number_in("/proc/sys/user/max_user_namespaces"),
              debian = number_in("/proc/sys/kernel/unprivileged_userns_clone");
    long long apparmor = number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if (max < 0)
        doctor_say(d, DOCTOR_NOTE, "user namespaces", "the kernel has none (not used yet)");
    else if (max == 0 || debian == 0 || apparmor == 1)
        doctor_say(d, DOCTOR_NOTE, "user namespaces",
                   "are switched off for ordinary users (not used yet)");
    else
        doctor_say(d, DOCTOR_NOTE, "user namespaces",
                   "are allowed by the kernel's settings (not used yet)");
}

static void control_groups(struct doctor *d)
{
    struct statfs fs;
    if (statfs("/sys/fs/cgroup", &fs) != 0)
        doctor_say(d, DOCTOR_NOTE, "control groups", "are not mounted (not used yet)");
    else
        doctor_say(d, DOCTOR_NOTE, "control groups", "version %d%s (not used yet)",
                   fs.f_type == CGROUP2_SUPER_MAGIC ? 2 : 1,
                   access("/sys/fs/cgroup", W_OK) == 0 ? ", writable" : ", not writable here");
}

static void landlock(struct doctor *d)
{
#ifdef SYS_landlock_create_ruleset
    enum { VERSION = 1 }; /* LANDLOCK_CREATE_RULESET_VERSION: only asks */
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION);
#else
    long abi = -1;
#endif
    if (abi > 0)
        doctor_say(d, DOCTOR_NOTE, "Landlock", "ABI %ld (not used yet)", abi);
    else
        doctor_say(d, DOCTOR_NOTE, "Landlock", "is not there or switched off (not used yet)");
}

static void seccomp(struct doctor *d)
{
    if (access("/proc/sys/kernel/seccomp/actions_avail", R_OK) == 0)
        doctor_say(d, DOCTOR_NOTE, "seccomp", "filters are there (not used yet)");
    else
        doctor_say(d, DOCTOR_NOTE, "seccomp", "%s (not used yet)",
                   prctl(PR_GET_SECCOMP) >= 0 ? "is there, filters cannot be told"
                                              : "is not there");
}

void doctor_kernel(struct doctor *d)
{
    user_namespaces(d);
    control_groups(d);
    landlock(d);
    seccomp(d);
}
