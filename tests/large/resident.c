/* What is resident is what was asked for, at every size. For each size a fresh process fills 200 MiB with blocks that it
 * writes whole. Asserted of what became resident, without pages that are shared with other processes:
 *
 *     from 64 KiB on     at most 1.07 of the payload. Just above a size up to 1 MiB the rounding alone is 1.0625: to a page, to
 *                        the next size, or on huge pages to a slot. There it is 1.02 of what the blocks are rounded to
 *     below              at most 1.07 of the usable sizes, which are at most 1.125 of the payload
 *
 * ctest runs it with huge pages on request, always and never. Over the C library's allocator all holds as well. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/processes.h"

static const size_t sizes[] = {129,    200,    1000,    3000,    5000,    9000,    20000,   33000,   40000,   50000,
                               65537,  66000,  70000,   100000,  131073,  135000,  200000,  270000,  300000,  524289,
                               600000, 700000, 1048577, 1100000, 1500000, 2200000, 3300000, 5000000, 9000000, 16000000};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const size_t payload_wanted = (size_t)200 << 20;

struct result {
    size_t blocks, usable, growth, huge;
};

/* In the fresh process. The blocks are chained through themselves, so that a list of them costs nothing. */
static void fill(size_t size) {
    struct result result = {0};
    void **chain = NULL;
    t_free(t_malloc(1));
    size_t before = private_bytes();
    for (size_t bytes = 0; bytes < payload_wanted; bytes += size) {
        void **block = t_malloc(size);
        CHECK(block, "malloc(%zu): NULL", size);
        memset(block, 1, size);
        *block = chain;
        chain = block;
        result.blocks++;
        result.usable += t_usable_size(block);
    }
    size_t after = private_bytes();
    result.growth = after > before ? after - before : 0;
    result.huge = smaps_bytes("\nAnonHugePages:");
    give_result(&result, sizeof result);
}

/* A block of more than 1 MiB has whole slots. */
static double bound_of(size_t size, double usable) {
    size_t slots = (size + 65535) / 65536 * 65536;
    double rounded = size <= (size_t)1 << 20 ? usable : (double)slots / (double)size;
    if (size < 65536) return 1.07 * usable;
    return rounded > 1.06 ? 1.02 * rounded : 1.07;
}

/* Prints a row and returns whether the size is within its bounds. */
static bool judge(size_t size) {
    struct result r;
    run_part("fill", size, &r, sizeof r);
    double payload = (double)(r.blocks * size), usable = (double)r.usable / payload;
    double resident = (double)r.growth / payload, bound = bound_of(size, usable);
    bool good = resident <= bound && (size >= 65536 || usable <= 1.125);
    printf("%9zu %8zu %8.4f %9.4f %7.4f %5.0f %%  %s\n", size, r.blocks, usable, resident, bound,
           100.0 * (double)r.huge / (double)(r.growth ? r.growth : 1), good ? "" : "BEYOND");
    CHECK(resident >= 0.98, "blocks of %zu: %.4f of the payload is resident, so the blocks are not there", size,
          resident);
    return good;
}

int main(int count, char **arguments) {
    if (count > 2) {
        fill(strtoull(arguments[2], NULL, 10));
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    const char *options = getenv("FREEHOLD");
    if (options && strstr(options, "thp=always") && huge_pages_are("never")) skip_test("the kernel has no huge pages");
    printf("     size   blocks   usable  resident   bound  on huge pages\n");
    int beyond = 0;
    for (int i = 0; i < SIZES; i++) beyond += !judge(sizes[i]);
    CHECK(beyond == 0, "%d of %d sizes are beyond their bounds", beyond, SIZES);
    return 0;
}
