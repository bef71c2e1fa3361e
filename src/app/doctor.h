/* Private to app/: the findings of `parley doctor`. */
#ifndef PARLEY_APP_DOCTOR_H
#define PARLEY_APP_DOCTOR_H

#include "base/base.h"

/* Note: nothing to do, but worth knowing. Missing: Parley cannot work so. */
enum doctor_state { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_WARN, DOCTOR_MISSING, DOCTOR_STATES };
struct doctor {
    int count[DOCTOR_STATES];
    bool serving; /* a running server holds the database */
    size_t heard_n;
    char heard[20][300]; /* warnings of the settings */
};
/* One line on standard output. */
void doctor_say(struct doctor *d, enum doctor_state state, const char *what, const char *fmt, ...)
    printf_like(4, 5);
/* What the kernel offers for a sandbox. This version starts none, so nothing of it is missing. */
void doctor_kernel(struct doctor *d);

#endif
