/* A program that does next to nothing, and prints its private dirty memory in KiB (trivial.sh). With an argument it prints how many KiB
 * of the library's code are resident, and how many there are (mapped.sh). */
#include "../support/memory.h"

#include <stdio.h>

/* Of the mapping of the library that is code. Read without stdio, as in memory.h. */
static void look_at_code(size_t *resident, size_t *all) {
    static char text[65536];
    size_t length = 0;
    int file = open("/proc/self/smaps", O_RDONLY);
    for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
    close(file);
    text[length] = 0;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = strchr(line, '\n'), *name = strstr(line, "/libfreehold"), *code = strstr(line, " r-xp ");
        if (!end || !name || name > end || !code || code > name) continue;
        *all = strtoull(strstr(end, "\nSize:") + 6, NULL, 10);
        *resident = strtoull(strstr(end, "\nRss:") + 5, NULL, 10);
        return;
    }
}

int main(int count, char **arguments) {
    (void)arguments;
    char *volatile block = malloc(100);
    memset(block, 1, 100);
    size_t dirty = smaps_bytes("\nPrivate_Dirty:"), resident = 0, all = 0;
    free(block);
    if (count > 1) look_at_code(&resident, &all);
    char text[64];
    int length = count > 1 ? snprintf(text, sizeof text, "%zu %zu\n", resident, all)
                           : snprintf(text, sizeof text, "%zu\n", dirty / 1024);
    return write(1, text, (size_t)length) != length;
}
