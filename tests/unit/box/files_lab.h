/* A directory of its own as the workspace of the file tools, and short ways to call and to look. */
#ifndef TESTS_BOX_FILES_LAB_H
#define TESTS_BOX_FILES_LAB_H

#include "box/files/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

extern char lab_dir[64]; /* the workspace on the host */
extern int lab_root;

int lab_begin(void **state);
int lab_end(void **state);
/* Writes a file below the workspace, with its directories. */
void lab_put(const char *name, const void *data, size_t n);
#define lab_text(name, z) lab_put((name), (z), strlen(z))
/* Reads it back into a static buffer, NUL-terminated; "(none)" if it is not there. */
const char *lab_get(const char *name);
const char *lab_path(const char *name); /* of the host; static */
/* The result object of a call with JSON arguments (single quotes stand for double ones); new reference, or NULL with lab_err. */
json_t *lab_call(enum box_file_tool t, const char *args);
extern struct error lab_err;
/* The call raises an error that has these words. */
void lab_raises(enum box_file_tool t, const char *args, const char *words);
/* The call gives {ok:false, error}. */
void lab_fails(enum box_file_tool t, const char *args, const char *error);

#endif
