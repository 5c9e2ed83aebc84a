/* A program that does next to nothing, and prints its private dirty memory in KiB: see trivial.sh. */
#include "../support/memory.h"

#include <stdio.h>

int main(void) {
    char *volatile block = malloc(100);
    memset(block, 1, 100);
    size_t dirty = smaps_bytes("\nPrivate_Dirty:");
    free(block);
    char text[32];
    int length = snprintf(text, sizeof text, "%zu\n", dirty / 1024);
    return write(1, text, (size_t)length) != length;
}
