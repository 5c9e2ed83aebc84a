/* mallopt's M_PERTURB and its variable MALLOC_PERTURB_: new blocks are filled with the complement of a byte, freed ones with the
 * byte. glibc does not fill what its thread cache hands out, so it is not asked the same.  perturb [set] */
#include "../support/check.h"

#include <malloc.h>
#include <pthread.h>

#ifdef T_EMBED
#include <freehold/freehold.h>
#define malloc fh_malloc
#define calloc fh_calloc
#define realloc fh_realloc
#define free fh_free
#define aligned_alloc fh_aligned_alloc
#define mallopt fh_mallopt
#endif

#define BYTE 0xA5

static void is_filled(const unsigned char *p, size_t from, size_t to, unsigned byte, const char *what) {
    for (size_t i = from; i < to; i++)
        CHECK(p[i] == byte, "%s: byte %zu of %zu is %02x, not %02x", what, i, to, p[i], byte);
}

static void blocks(void) {
    static const size_t sizes[] = {1, 100, 1000, 5000, 60000, 300000, 3u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        for (unsigned turn = 0; turn < 3; turn++) {
            unsigned char *p = malloc(n), *zero = calloc(1, n), *aligned = aligned_alloc(64, n);
            CHECK(p && zero && aligned, "no memory");
            is_filled(p, 0, n, BYTE ^ 0xFF, "malloc");
            is_filled(zero, 0, n, 0, "calloc");
            is_filled(aligned, 0, n, BYTE ^ 0xFF, "aligned_alloc");
            memset(p, 1, n);
            p = realloc(p, 2 * n);
            CHECK(p != NULL, "no memory");
            is_filled(p, 0, n, 1, "realloc");
            free(zero);
            free(aligned);
            free(p);
        }
    }
    /* What is freed is filled as far as an allocator does not need it for its own list. To read it is what this test is about. */
    unsigned char *volatile freed = malloc(1000);
    free(malloc(1000));
    unsigned char *p = freed;
    memset(p, 1, 1000);
    free(p);
    is_filled(freed, 32, 1000, BYTE, "free");
}

static void *thread(void *none) {
    blocks();
    return none;
}

int main(int argc, char **argv) {
    (void)argv;
    free(malloc(100));
    /* Without an argument the variable says it. */
    if (argc > 1) CHECK(mallopt(M_PERTURB, BYTE) == 1, "mallopt does not know M_PERTURB");
    blocks();
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0, "no thread");
    pthread_join(other, NULL);
    CHECK(mallopt(M_PERTURB, 0) == 1, "mallopt does not switch it off");
    unsigned char *p = malloc(100);
    memset(p, 7, 100);
    free(p);
    return 0;
}
