/* What the files of base/ share with each other only. */
#ifndef PARLEY_BASE_PRIVATE_H
#define PARLEY_BASE_PRIVATE_H

#include "base/base.h"

#if defined(__SANITIZE_ADDRESS__)
#define BASE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BASE_ASAN 1
#endif
#endif
#ifndef BASE_ASAN
#define BASE_ASAN 0
#endif

/* As mem_lib_alloc, zeroed. */
void *mem_lib_zeroed(size_t size);
/* As mem_alloc, not zeroed. */
void *mem_raw(size_t size);
/* Counts one allocation against mem_fail_after; true when it has to fail. */
bool mem_must_fail(void);
/* Memory for jansson's token buffer while one text is read by this thread; NULL ends it. jansson 2.14
 * does not notice that the buffer could not grow and then writes behind its end. */
void mem_reserve(char *p, size_t n);
/* Adds to the number of live blocks: a block that waits in a cache is not live. */
void mem_count(long delta);

/* Bytes of the well-formed sequence at p (n >= 1 bytes are there); 0: no sequence starts so; -1:
 * it is cut off by n. */
int utf8_step(const unsigned char *p, size_t n);

/* The value of a text that is plain and valid, as jansson would give it; NULL: jansson has to be asked (or memory ended). */
json_t *json_read(struct str text, bool allow_nul);
/* Bytes at the beginning that are no control character, quotation mark or backslash. Bit 7 of *seen is set if one of them is beyond
 * ASCII. */
size_t json_plain_run(const char *p, size_t n, unsigned char *seen);

/* Formats %s %.*s %c %d %i %u %x %ld %lu %lld %llu %zu and %% without the C library, whose printf costs some hundred instructions
 * for each. False: another conversion, or more than `room` bytes; `out` holds anything then. No NUL is added. */
bool format_plain(char *out, size_t room, size_t *n, const char *fmt, va_list ap) printf_like(4, 0);

#endif
