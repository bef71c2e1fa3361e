/* Command line: parley serve | box | migrate | doctor | version. */
#include "app/app.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
    "usage: parley COMMAND [--data DIR] [--debug] [--log-json]\n"
    "\n"
    "  serve     serves panel and API (see config.yaml in the data directory)\n"
    "            [--standalone-runtime] [--standalone-box]: those runtimes are processes of their own\n"
    "  box       the sandbox runtime, a process of its own; parley box --help\n"
    "  migrate   brings the database to the newest schema and says what it holds; --check: only says it\n"
    "  doctor    says what is missing on this machine and what is enforced\n"
    "  version   prints the version\n"
    "\n"
    "  --data DIR   data directory (default: LANGBOT_DATA_ROOT, else ./data)\n";

static int refuse(const char *fmt, const char *what)
{
    fprintf(stderr, fmt, what);
    fprintf(stderr, "\n%s", usage);
    return 2;
}

static bool flag(const char *arg, const char *name, bool *out)
{
    if (strcmp(arg, name) != 0)
        return false;
    *out = true;
    return true;
}

static const char *default_data(void)
{
    const char *root = getenv("LANGBOT_DATA_ROOT");
    struct str s = str_trim(str_c(root));
    return s.n ? root : "data";
}

static int run(const char *command, const struct app_options *o, bool check)
{
    if (strcmp(command, "serve") == 0)
        return app_serve(o);
    if (strcmp(command, "migrate") == 0)
        return app_migrate(o, check);
    if (strcmp(command, "doctor") == 0)
        return app_doctor(o);
    return refuse("parley: there is no command %s", command);
}

int main(int argc, char **argv)
{
    /* One arena for all threads: the others only borrow memory for moments, and each arena of the C library would keep some. */
    mallopt(M_ARENA_MAX, 2);
    base_init();
    if (argc > 1 && strcmp(argv[1], "box") == 0)
        return app_box(argc - 2, argv + 2);
    struct app_options o = {.data_dir = default_data()};
    const char *command = NULL, *debug = getenv("DEBUG");
    bool check = false;
    o.debug = debug && (strcmp(debug, "1") == 0 || str_ieqz(str_c(debug), "true"));
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (flag(a, "--debug", &o.debug) || flag(a, "--log-json", &o.json_logs) ||
            flag(a, "--standalone-runtime", &o.standalone_runtime) ||
            flag(a, "--standalone-box", &o.standalone_box) || flag(a, "--check", &check))
            continue;
        if (strcmp(a, "--data") == 0) {
            if (++i == argc || !argv[i][0])
                return refuse("parley: %s needs a directory", a);
            o.data_dir = argv[i];
        } else if (strncmp(a, "--data=", 7) == 0 && a[7]) {
            o.data_dir = a + 7;
        } else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        } else if (a[0] == '-' || command) {
            return refuse("parley: unknown argument %s", a);
        } else {
            command = a;
        }
    }
    if (!command)
        return refuse("parley: %s", "a command is needed");
    if (strcmp(command, "version") == 0) {
        printf("parley %s\n", PARLEY_VERSION);
        return 0;
    }
    return run(command, &o, check);
}
