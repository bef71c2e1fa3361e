#include "support/pg_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BIN "/usr/lib/postgresql/15/bin/"

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The server refuses to run as root. */
static void become_user(void)
{
    const struct passwd *pw = getuid() == 0 ? getpwnam("postgres") : NULL;
    if (getuid() == 0 &&
        (!pw || setgroups(0, NULL) != 0 || setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0)) {
        _exit(126);
    }
}

static pid_t start(const char *const *argv, const char *log)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    become_user();
    prctl(PR_SET_PDEATHSIG, SIGINT);
    if (getppid() != parent) {
        _exit(126);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    if (chdir("/") != 0) {
        _exit(126);
    }
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool run(const char *const *argv, const char *log)
{
    int status = -1;
    pid_t pid = start(argv, log);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *log_of(const struct pg_server *s, char *out, size_t size)
{
    snprintf(out, size, "%s/log", s->dir);
    return out;
}

bool pg_server_sql(const struct pg_server *s, const char *db, const char *sql)
{
    char log[128];
    const char *argv[] = {BIN "psql", "-X",   "-q", "-v",       "ON_ERROR_STOP=1",
                          "-h",       s->dir, "-U", "postgres", "-d",
                          db,         "-c",   sql,  NULL};
    return run(argv, log_of(s, log, sizeof(log)));
}

bool pg_server_start(struct pg_server *s)
{
    *s = (struct pg_server){.pid = -1};
    if (access(BIN "initdb", X_OK) != 0 || access(BIN "postgres", X_OK) != 0) {
        s->skip = "no PostgreSQL server is installed";
        return false;
    }
    if (getuid() == 0 && !getpwnam("postgres")) {
        s->skip = "root cannot run PostgreSQL and there is no user postgres";
        return false;
    }
    snprintf(s->dir, sizeof(s->dir), "/tmp/parley-pg-XXXXXX");
    if (!mkdtemp(s->dir)) {
        return false;
    }
    const struct passwd *pw = getuid() == 0 ? getpwnam("postgres") : NULL;
    if (pw && chown(s->dir, pw->pw_uid, pw->pw_gid) != 0) {
        return false;
    }
    char data[128], log[128];
    snprintf(data, sizeof(data), "%s/data", s->dir);
    log_of(s, log, sizeof(log));
    const char *init[] = {BIN "initdb", "-D",         data,        "-A",
                          "trust",      "-U",         "postgres",  "-E",
                          "UTF8",       "--locale=C", "--no-sync", "--no-instructions",
                          NULL};
    const char *serve[] = {BIN "postgres",
                           "-D",
                           data,
                           "-k",
                           s->dir,
                           "-c",
                           "listen_addresses=",
                           "-c",
                           "fsync=off",
                           "-c",
                           "full_page_writes=off",
                           "-c",
                           "max_connections=60",
                           "-c",
                           "shared_buffers=16MB",
                           "-c",
                           "autovacuum=off",
                           NULL};
    if (!run(init, log)) {
        return false;
    }
    s->pid = start(serve, log);
    bool up = false;
    for (int i = 0; i < 200 && !up; i++) {
        struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
        nanosleep(&pause, NULL);
        up = pg_server_sql(s, "postgres", "SELECT 1");
    }
    return up && pg_server_sql(s, "postgres", "CREATE ROLE app LOGIN NOSUPERUSER NOBYPASSRLS") &&
           pg_server_sql(s, "postgres", "CREATE DATABASE app OWNER app") &&
           pg_server_sql(s, "app", "ALTER SCHEMA public OWNER TO app");
}

void pg_server_stop(struct pg_server *s)
{
    if (s->pid > 0) {
        int status;
        kill(s->pid, SIGQUIT);
        while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (s->dir[0]) {
        remove_tree(s->dir);
    }
    s->pid = -1;
}
