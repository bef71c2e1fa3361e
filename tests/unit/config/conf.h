/* Helpers of the config tests: a directory of their own, files in it, and settings by path. */
#ifndef TEST_CONF_H
#define TEST_CONF_H

#include "config/config_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

extern char conf_dir[64]; /* fresh for each test, with setup and teardown below */
int conf_setup(void **state);
int conf_teardown(void **state);
const char *conf_at(const char *name); /* path below conf_dir/data; a few at a time */
void conf_write(const char *name, const char *text);
bool conf_exists(const char *name);
json_t *conf_yaml(void);                 /* config.yaml as it lies on disk */
const char *conf_text(const char *name); /* valid until the next two calls */
/* Loads with "K=V" variables, NULL-terminated; must succeed. */
struct config *conf_load(const char *const *env);
/* Must fail; the message. */
const char *conf_fails(const char *const *env);
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_ENV   ((const char *const[]){NULL})

#endif
