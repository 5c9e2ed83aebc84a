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

/* Resident pages that this process shares with no other. */
static inline size_t private_bytes(void) {
    return smaps_bytes("\nPrivate_Clean:") + smaps_bytes("\nPrivate_Dirty:");
}

/* Resident bytes as the kernel counts them. Unlike smaps_rollup, no page counts twice while another thread moves it. */
static inline size_t counted_resident_bytes(void) {
    char text[256];
    int file = open("/proc/self/statm", O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* The mappings of this process: lines of /proc/self/maps. */
static inline size_t mapping_count(void) {
    char text[16384];
    size_t count = 0;
    int file = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(file, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < got; i++) count += text[i] == '\n';
    }
    close(file);
    return count;
}

/* A setting of the kernel that is one number, or `otherwise`. */
static inline size_t kernel_number(const char *path, size_t otherwise) {
    char text[64];
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? strtoull(text, NULL, 10) : otherwise;
}

/* The kernel's setting for huge pages is this word: "always", "madvise" or "never". */
static inline int huge_pages_are(const char *word) {
    char text[64] = "", wanted[16] = "[";
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    strcat(strncat(wanted, word, sizeof wanted - 3), "]");
    return length > 0 ? strstr(text, wanted) != NULL : strcmp(word, "never") == 0;
}

#endif
