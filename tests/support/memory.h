/* What the kernel says of this process's memory.  smaps_rollup is exact; statm lags behind by design. */
#ifndef FREEHOLD_TESTS_MEMORY_H
#define FREEHOLD_TESTS_MEMORY_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of /proc/self/smaps_rollup in bytes: "Rss:", "Private_Dirty:", ...  Read without stdio, whose buffer
 * would be a block of the allocator that is being measured. */
static inline size_t smaps_bytes(const char *name) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

static inline size_t resident_bytes(void) {
    return smaps_bytes("\nRss:");
}

#endif
