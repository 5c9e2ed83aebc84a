/* A few blocks of every size, as an interpreter has when it has started: each size has a slab, and most of the slab is not
 * touched. The heap's addresses are several chunks, but it pays for what it touches, and not for huge pages: at most an eighth
 * and 1.5 MiB above the payload. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum { LARGEST = 65536, EACH = 3 };

int main(void) {
    size_t before = counted_resident_bytes(), payload = 0, count = 0;
    for (size_t size = 16; size <= LARGEST; size += size < 1024 ? 16 : size / 8) {
        for (int i = 0; i < EACH; i++, count++) {
            char *block = t_malloc(size);
            CHECK(block, "malloc(%zu): NULL", size);
            memset(block, 1, size);
            payload += size;
        }
    }
    size_t grown = counted_resident_bytes() - before, most = payload + payload / 8 + ((size_t)3 << 19);
    printf("%zu blocks of %zu KiB: %zu KiB resident, at most %zu\n", count, payload >> 10, grown >> 10, most >> 10);
    CHECK(grown >= payload, "%zu bytes were written, and %zu are resident", payload, grown);
    CHECK(grown <= most, "%zu KiB of blocks have %zu KiB resident", payload >> 10, grown >> 10);
    puts("ok");
    return 0;
}
