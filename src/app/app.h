/* app: the composition root: command line, start and stop order. */
#ifndef PARLEY_APP_H
#define PARLEY_APP_H

#include "base/base.h"

struct app_options {
    const char *data_dir; /* absolute or relative to the working directory */
    bool debug, json_logs;
    bool standalone_runtime,
        standalone_box; /* plugin and Box runtimes are somebody else's processes */
};
/* Each returns the exit status. */
int app_serve(const struct app_options *o);
int app_migrate(const struct app_options *o, bool check_only);
int app_doctor(const struct app_options *o);
/* The arguments behind `parley box`. */
int app_box(int argc, char **argv);

#endif
