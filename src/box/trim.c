/* trim: gives back pages of the program and its libraries that were needed for the start only. They are
 * the files' own, so whatever is needed again is read from the page cache. */
#include "box/runtime.h"

#include <stdio.h>
#include <sys/mman.h>

/* One entry of smaps. */
struct mapping {
    uintptr_t from, to;
    bool candidate; /* of a file, not writable */
};

static bool read_head(const char *line, struct mapping *m)
{
    unsigned long from, to, inode;
    char perms[5];
    if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, perms, &inode) != 4)
        return false;
    *m = (struct mapping){from, to, inode != 0 && perms[0] == 'r' && perms[1] != 'w'};
    return true;
}

void box_trim(void *unused)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    struct mapping m = {0};
    char line[512];
    unsigned long kib;
    while (maps && fgets(line, sizeof(line), maps)) {
        if (read_head(line, &m))
            continue;
        /* Relocated pages are private copies that no file has: such a mapping is left alone. */
        if (sscanf(line, "Anonymous: %lu", &kib) == 1 && kib == 0 && m.candidate)
            madvise((void *)m.from, m.to - m.from, MADV_DONTNEED);
    }
    if (maps)
        fclose(maps);
}
