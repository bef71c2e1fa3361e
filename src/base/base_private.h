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

#endif
