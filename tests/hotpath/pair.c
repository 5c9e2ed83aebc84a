/* COUNT pairs of malloc and free of SIZE bytes, all alike, for counting instructions: pair SIZE COUNT [DEPTH]. DEPTH blocks
 * are allocated before they are freed, the last one first. */
#include <stdlib.h>

enum { DEEPEST = 1024 };

int main(int count, char **arguments) {
    if (count != 3 && count != 4) return 2;
    void *volatile block[DEEPEST];
    size_t size = strtoull(arguments[1], NULL, 10), depth = count == 4 ? strtoull(arguments[3], NULL, 10) : 1;
    if (depth < 1 || depth > DEEPEST) return 2;
    for (size_t turns = strtoull(arguments[2], NULL, 10) / depth; turns > 0; turns--) {
        for (size_t i = 0; i < depth; i++) block[i] = malloc(size);
        for (size_t i = depth; i > 0; i--) free(block[i - 1]);
    }
    return 0;
}
