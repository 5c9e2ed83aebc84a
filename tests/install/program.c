/* A program as its author would write it, which each of the tests here builds in another way. It allocates from threads and
 * hands blocks from one to another; then it says which version it really has, and whether malloc is Freehold's too.
 *
 *     program VERSION dropin|embed */
#ifdef ONE_FILE
#include "freehold.h"
#else
#include <freehold/freehold.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20000, THREADS = 4 };

static void *blocks[THREADS][BLOCKS];

static void *allocate(void *at) {
    void **mine = at;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)(i % 700) * (i % 50 ? 1 : 100) + 1;
        mine[i] = fh_malloc(size);
        if (mine[i]) memset(mine[i], i, size);
    }
    return NULL;
}

static size_t in_use(void) {
    struct fh_mallinfo2 info = fh_mallinfo2();
    return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    if (argc != 3) return 2;
    for (int t = 0; t < THREADS; t++) {
        if (pthread_create(&thread[t], NULL, allocate, blocks[t])) return 2;
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < BLOCKS; i++) {
            if (!blocks[t][i] || *(unsigned char *)blocks[t][i] != (unsigned char)i) return 3;
            fh_free(blocks[t][i]);
        }
    }
    /* A million bytes of malloc's are the library's exactly when it has taken malloc over. */
    size_t before = in_use();
    void *volatile one = malloc(3000000);
    int taken_over = in_use() >= before + 3000000;
    free(one);
    printf("%s %s\n", fh_version(), taken_over ? "dropin" : "embed");
    if (fh_verify() != 0) return 4;
    return strcmp(fh_version(), argv[1]) == 0 && taken_over == (strcmp(argv[2], "dropin") == 0) ? 0 : 5;
}
