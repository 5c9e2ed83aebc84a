/* COUNT pairs of malloc and free of SIZE bytes, all alike, for counting instructions: pair SIZE COUNT [DEPTH [CALL]]. DEPTH blocks
 * are allocated before they are freed, the last one first. Before that there is one call more for each of them:
 *
 *     usable    malloc_usable_size
 *     resized   a realloc that has nothing to do, as most have in a program that appends a little each time
 *     moved     a realloc to a block of twice the size
 *     aligned   a block at a cache line, and its free
 *     deleted   a malloc, and C++'s delete that says the size */
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void delete_sized(void *p, size_t size) __asm__("_ZdlPvm") __attribute__((weak)); /* the library has it */

enum { DEEPEST = 8192 };

int main(int count, char **arguments) {
    if (count < 3 || count > 5) return 2;
    void *volatile block[DEEPEST];
    size_t size = strtoull(arguments[1], NULL, 10), depth = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    const char *call = count > 4 ? arguments[4] : "";
    bool usable = !strcmp(call, "usable"), resized = !strcmp(call, "resized"), moved = !strcmp(call, "moved");
    bool aligned = !strcmp(call, "aligned"), deleted = !strcmp(call, "deleted") && delete_sized;
    if (depth < 1 || depth > DEEPEST || (count > 4 && !usable && !resized && !moved && !aligned && !deleted)) return 2;
    for (size_t turns = strtoull(arguments[2], NULL, 10) / depth; turns > 0; turns--) {
        for (size_t i = 0; i < depth; i++) block[i] = malloc(size);
        for (size_t i = depth; i > 0 && usable; i--)
            if (malloc_usable_size(block[i - 1]) < size) return 1;
        for (size_t i = depth; i > 0 && resized; i--)
            if (realloc(block[i - 1], size) != block[i - 1]) return 1;
        for (size_t i = depth; i > 0 && moved; i--) block[i - 1] = realloc(block[i - 1], 2 * size);
        for (size_t i = depth; i > 0 && aligned; i--) free(aligned_alloc(64, size));
        for (size_t i = depth; i > 0 && deleted; i--) delete_sized(malloc(size), size);
        for (size_t i = depth; i > 0; i--) free(block[i - 1]);
    }
    return 0;
}
