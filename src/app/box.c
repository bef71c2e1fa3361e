/* `parley box`: its own command line (box.md §0.1). */
#include "app/app.h"
#include "box/box.h"

#include <stdio.h>

enum { STANDARD_PORT = 5410 };

static const char usage[] =
    "usage: parley box [-s] [--host HOST] [--ws-control-port PORT] [--debug] [--log-json]\n"
    "\n"
    "  -s, --stdio-control       control over standard input and output\n"
    "  --host HOST               address to listen at (default: 0.0.0.0 with a control token,\n"
    "                            else and with -s 127.0.0.1)\n"
    "  --ws-control-port PORT    port (default: 5410)\n";

static int refuse(const char *fmt, const char *what)
{
    fprintf(stderr, fmt, what);
    fprintf(stderr, "\n%s", usage);
    return 2;
}

/* The value of "--name VALUE" or "--name=VALUE"; NULL: the argument is another, or has none. */
static const char *value_of(const char *name, int argc, char **argv, int *i)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return !argv[*i][n] && *i + 1 < argc ? argv[++*i] : NULL;
}

int app_box(int argc, char **argv)
{
    struct box_options o = {.port = STANDARD_PORT};
    for (int i = 0; i < argc; i++) {
        const char *value;
        int64_t port;
        if (strcmp(argv[i], "-s") == 0 || strcmp(argv[i], "--stdio-control") == 0) {
            o.stdio = true;
        } else if (strcmp(argv[i], "--debug") == 0) {
            o.debug = true;
        } else if (strcmp(argv[i], "--log-json") == 0) {
            o.json_logs = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        } else if ((value = value_of("--host", argc, argv, &i))) {
            o.host = value;
        } else if ((value = value_of("--ws-control-port", argc, argv, &i))) {
            if (!str_to_i64(str_c(value), &port) || port < 0 || port > 65535)
                return refuse("parley box: %s is no port", value);
            o.port = (uint16_t)port;
        } else {
            return refuse("parley box: unknown argument %s", argv[i]);
        }
    }
    return box_run(&o);
}
