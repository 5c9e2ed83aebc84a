/* Allocates, and says whether the kernel considers it to run with more rights than its caller; see setuid.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
    char *volatile block = malloc(1000); /* volatile: a compiler may leave out a pair that nobody looks at */
    free(block);
    printf("secure=%lu\n", getauxval(AT_SECURE));
    return 0;
}
