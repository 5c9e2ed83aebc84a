// A small workload for the tests of the harness. Between two allocations it spends a fixed amount of work, in the same
// loop that the wasteful shim uses, so that the shim's waste is a known share of the time on any machine.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burn.h"

enum { BLOCKS = 20000, SIZE = 2000 };

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        puts("toy\trounds=3\tquick");
        return 0;
    }
    static unsigned char *block[BLOCKS];
    uint64_t check = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            block[i] = malloc(SIZE);
            memset(block[i], i, SIZE);
            burn(BURN_WORK);
        }
        for (int i = 0; i < BLOCKS; i++) {
            check = check * 31 + block[i][SIZE - 1];
            free(block[i]);
        }
    }
    // Zeroed memory that is not zero is the one mistake of an allocator that changes a result without a crash.
    unsigned char *zero = calloc(100, 10);
    for (int i = 0; i < 1000; i++) {
        check += zero[i];
    }
    free(zero);
    printf("ops %d\ncheck %016llx\nok\n", 3 * BLOCKS, (unsigned long long)check);
    return 0;
}
