/* Allocates, and says whether the kernel considers it to run with more rights than its caller; see setuid.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
    free(malloc(1000));
    printf("secure=%lu\n", getauxval(AT_SECURE));
    return 0;
}
