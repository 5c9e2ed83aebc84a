/* COUNT pairs of malloc and free of SIZE bytes, all alike, for counting instructions: pair SIZE COUNT. */
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    size_t size = strtoull(arguments[1], NULL, 10);
    for (size_t pairs = strtoull(arguments[2], NULL, 10); pairs > 0; pairs--) {
        void *volatile block = malloc(size);
        free(block);
    }
    return 0;
}
