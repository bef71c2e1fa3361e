#include "box/jail_lab.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void (*body)(struct lab *lab);
static char skipped[300];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    remove(path);
    return 0;
}

static int run(void *arg)
{
    static unsigned n;
    struct lab lab = {.b = box_backend_find("jail"), .workdir = "/workspace"};
    struct error err = {0};
    char instance[BOX_INSTANCE_SIZE];
    snprintf(instance, sizeof instance, "%06x%06x", (unsigned)getpid() & 0xffffff, ++n);
    snprintf(lab.dir, sizeof lab.dir, "/tmp/jail-test-XXXXXX");
    assert_non_null(mkdtemp(lab.dir));
    snprintf(lab.shared, sizeof lab.shared, "%s/shared", lab.dir);
    assert_int_equal(mkdir(lab.shared, 0755), 0);
    lab.shared_fd = open(lab.shared, O_PATH | O_DIRECTORY | O_CLOEXEC);
    lab.env = (struct box_backend_env){.instance = instance,
                                       .state_dir = lab.dir,
                                       .state_root = lab.dir,
                                       .group = task_group_new(NULL, "jail test")};
    lab.self = lab.b->open(&lab.env, &err);
    assert_non_null(lab.self);
    lab.b->probe(lab.self, lab.dir, &lab.probe);
    if (lab.probe.available)
        body(&lab);
    else
        snprintf(skipped, sizeof skipped, "%s", lab.probe.reason);
    lab.b->close(lab.self);
    task_group_free(lab.env.group);
    assert_int_equal(lab_cgroups(instance), 0);
    close(lab.shared_fd);
    nftw(lab.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

void lab_run(void (*fn)(struct lab *lab))
{
    base_init();
    body = fn;
    *skipped = '\0';
    assert_int_equal(task_run(run, NULL), 0);
    if (*skipped) {
        print_message("skipped: no sandbox here: %s\n", skipped);
        skip();
    }
}

struct box_session_spec lab_spec(struct lab *lab)
{
    return (struct box_session_spec){.id = "test",
                                     .image = BOX_DEFAULT_IMAGE,
                                     .read_only_rootfs = true,
                                     .mount_path = "/workspace",
                                     .cpus = 1,
                                     .memory_mb = 256,
                                     .pids_limit = 64,
                                     .label = "ws-test"};
}

void *lab_start(struct lab *lab, const struct box_session_spec *spec)
{
    struct error err = {0};
    void *s = lab->b->start_session(lab->self, spec, &err);
    if (!s)
        fail_msg("no session: %s", err.msg);
    return s;
}

static void copy_text(char out[800], const struct buf *b)
{
    size_t n = b->n < 799 ? b->n : 799;
    if (n)
        memcpy(out, b->p, n);
    while (n && out[n - 1] == '\n')
        n--;
    out[n] = '\0';
}

struct said lab_exec_ms(struct lab *lab, void *session, const char *cmd, int64_t ms)
{
    const char *env[] = {"TEST=1", NULL};
    struct error err = {0};
    struct box_exec_result r = {0};
    struct box_exec_spec spec = {
        .cmd = cmd, .workdir = lab->workdir, .env = env, .timeout_ms = ms, .capture_max = 1 << 20};
    if (!lab->b->exec(session, &spec, &r, &err))
        fail_msg("exec: %s", err.msg);
    struct said s = {.code = r.exit_code, .timed_out = r.timed_out};
    copy_text(s.out, &r.out.head);
    copy_text(s.err, &r.err.head);
    box_exec_result_free(&r);
    return s;
}

struct said lab_exec(struct lab *lab, void *session, const char *cmd)
{
    return lab_exec_ms(lab, session, cmd, 60000);
}

struct said lab_once(struct lab *lab, const char *cmd)
{
    struct box_mount m = {lab->shared_fd, lab->shared, "/workspace", BOX_MOUNT_RW};
    struct box_session_spec spec = lab_spec(lab);
    spec.primary = &m;
    void *s = lab_start(lab, &spec);
    struct said r = lab_exec(lab, s, cmd);
    lab->b->stop_session(s);
    return r;
}

int lab_processes(const char *text)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int n = 0;
    char path[300], line[4096];
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        int fd = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof line);
        if (fd >= 0)
            close(fd);
        n += got > 0 && memmem(line, (size_t)got, text, strlen(text));
    }
    if (d)
        closedir(d);
    return n;
}

bool lab_gone(const char *text)
{
    struct error err;
    for (int i = 0; i < 500; i++) {
        if (lab_processes(text) == 0)
            return true;
        if (!task_sleep_ms(20, &err))
            return false;
    }
    return false;
}

const char *lab_seconds(void)
{
    static char text[32];
    static unsigned n;
    snprintf(text, sizeof text, "%u.%09u", 1000 + ++n, (unsigned)(time_mono_us() % 999999999));
    return text;
}

static const char *wanted;
static int found;
static int count_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    found += kind == FTW_D && strstr(path + where->base, wanted) != NULL;
    return 0;
}

int lab_cgroups(const char *instance)
{
    char name[64];
    snprintf(name, sizeof name, "parley-jail.%s", instance);
    wanted = name;
    found = 0;
    nftw("/sys/fs/cgroup", count_entry, 16, FTW_PHYS);
    return found;
}
