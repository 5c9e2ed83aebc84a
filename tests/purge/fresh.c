/* The end of a slab that was never handed out has memory where something else was before: a long block, or the same huge page. It is
 * free memory like any other, so malloc_trim(0) returns it. Of a huge page that it has to split for that, free slots may stay: one of them
 * at most here.
 *
 *     dirty   long blocks fill two thirds of a small heap and are freed; then come slabs of many sizes, of each more than one. One block
 *             of each slab stays
 *     huge    the same behind 64 MiB of blocks, so that the slabs are on huge pages
 *
 * Afterwards the ends are in use as any blocks: all are allocated, written, checked and freed. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum {
    SMALLEST = 9 << 10,
    LARGEST = 64 << 10,
    BUFFERS = 40,
    BUFFER = 256 << 10,
    SIZES = 32,
    EACH = 160,
    LIVE = 64 << 20
};

static void *fill(size_t size, int value) {
    char *block = t_malloc(size);
    CHECK(block, "malloc(%zu): NULL", size);
    memset(block, value, size);
    return block;
}

static void use_buffers(void) {
    void *buffer[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) buffer[i] = fill(BUFFER, 1);
    for (int i = 0; i < BUFFERS; i++) t_free(buffer[i]);
}

/* Of each size enough blocks for the last slab to have just begun; all but the last are freed. Returns what is left of them. */
static size_t begin_slabs(void **last, size_t *sizes) {
    size_t payload = 0, n = 0;
    for (size_t size = SMALLEST; size <= LARGEST; size += size / 8, n++) {
        void *first[EACH];
        CHECK(n < SIZES, "more sizes than %d", SIZES);
        size_t slab = size <= 16 << 10 ? 256 << 10 : size <= 32 << 10 ? 512 << 10 : 1 << 20, count = slab / size + 1;
        for (size_t i = 0; i < count; i++) first[i] = fill(size, (int)n);
        last[n] = first[count - 1];
        for (size_t i = 0; i + 1 < count; i++) t_free(first[i]);
        sizes[n] = size;
        payload += size;
    }
    sizes[n] = 0;
    return payload;
}

static void use_all(void **last, const size_t *sizes) {
    for (size_t n = 0; sizes[n]; n++) {
        unsigned char *block[EACH];
        for (size_t i = 0; i < EACH; i++) block[i] = fill(sizes[n], (int)i);
        for (size_t i = 0; i < EACH; i++) {
            CHECK(block[i][0] == (unsigned char)i && block[i][sizes[n] - 1] == (unsigned char)i,
                  "another block wrote here");
            t_free(block[i]);
        }
        const unsigned char *kept = last[n];
        CHECK(kept[0] == n && kept[sizes[n] - 1] == n, "a live block of %zu bytes lost its contents", sizes[n]);
        t_free(last[n]);
    }
}

int main(int argc, char **argv) {
    bool huge = argc > 1 && strcmp(argv[1], "huge") == 0;
    static void *last[SIZES], *live[LIVE / BUFFER];
    static size_t sizes[SIZES + 1];
    size_t begin = resident_bytes(), payload = 0, blocks = huge ? LIVE / BUFFER : 0;
    for (size_t i = 0; i < blocks; i++) live[i] = fill(BUFFER, 1);
    payload += blocks * BUFFER;
    use_buffers();
    payload += begin_slabs(last, sizes);
    size_t full = resident_bytes() - begin;
    t_malloc_trim(0);
    size_t left = resident_bytes() - begin, most = payload + payload / 64 + (5 << 19);
    printf("%zu KiB resident; %zu KiB after malloc_trim, %zu of them blocks; at most %zu\n", full >> 10, left >> 10,
           payload >> 10, most >> 10);
    CHECK(left >= payload, "%zu KiB of blocks have %zu KiB", payload >> 10, left >> 10);
    CHECK(left <= most, "%zu KiB stayed, of which %zu are blocks", left >> 10, payload >> 10);
    use_all(last, sizes);
    for (size_t i = 0; i < blocks; i++) t_free(live[i]);
    puts("ok");
    return 0;
}
