/* A program that does next to nothing, and prints its private dirty memory in KiB (trivial.sh). With an argument it prints how many KiB
 * of the library's code are resident, how many there are, and how many of all that is the library's (mapped.sh). */
#include "../support/memory.h"

#include <stdbool.h>
#include <stdio.h>

/* Of the mapping of the library that is code, and of all of them: what has no name and follows one is its zeroed memory. Read
 * without stdio, as in memory.h. */
static void look_at_library(size_t *resident, size_t *all, size_t *whole) {
    static char text[65536];
    size_t length = 0;
    int file = open("/proc/self/smaps", O_RDONLY);
    for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
    close(file);
    text[length] = 0;
    unsigned long long from = 0, to = 0, before = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char access[8], name[256] = "";
        if (sscanf(line, "%llx-%llx %7s %*s %*s %*s%255[^\n]", &from, &to, access, name) < 3) continue;
        bool named = strstr(name, "/libfreehold") != NULL;
        if (!named && (from != before || strchr(name, '/') || strchr(name, '['))) continue;
        before = to;
        size_t kib = strtoull(strstr(end, "\nRss:") + 5, NULL, 10);
        *whole += kib;
        if (strncmp(access, "r-xp", 4) != 0) continue;
        *all = (size_t)(to - from) / 1024;
        *resident = kib;
    }
}

int main(int count, char **arguments) {
    (void)arguments;
    char *volatile block = malloc(100);
    memset(block, 1, 100);
    size_t dirty = smaps_bytes("\nPrivate_Dirty:"), resident = 0, all = 0, whole = 0;
    free(block);
    if (count > 1) look_at_library(&resident, &all, &whole);
    char text[96];
    int length = count > 1 ? snprintf(text, sizeof text, "%zu %zu %zu\n", resident, all, whole)
                           : snprintf(text, sizeof text, "%zu\n", dirty / 1024);
    return write(1, text, (size_t)length) != length;
}
