/* COUNT pairs of malloc and free of SIZE bytes, all alike, for counting instructions: pair SIZE COUNT [DEPTH [usable]]. DEPTH blocks
 * are allocated before they are freed, the last one first. With `usable` each is asked for its size before it is freed. */
#include <malloc.h>
#include <stdlib.h>

enum { DEEPEST = 1024 };

int main(int count, char **arguments) {
    if (count < 3 || count > 5) return 2;
    void *volatile block[DEEPEST];
    size_t size = strtoull(arguments[1], NULL, 10), depth = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    if (depth < 1 || depth > DEEPEST) return 2;
    for (size_t turns = strtoull(arguments[2], NULL, 10) / depth; turns > 0; turns--) {
        for (size_t i = 0; i < depth; i++) block[i] = malloc(size);
        for (size_t i = depth; i > 0 && count == 5; i--)
            if (malloc_usable_size(block[i - 1]) < size) return 1;
        for (size_t i = depth; i > 0; i--) free(block[i - 1]);
    }
    return 0;
}
