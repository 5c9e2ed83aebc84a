/* The first calls of a process: from .preinit_array, before any constructor has run, the allocator's own among
 * them; then from constructors of the earliest priority; then main.  Blocks made at each of these hours must live
 * through all the later ones, and be freed there. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

enum { COUNT = 200 };

static void *early[COUNT], *construct[COUNT];
static int hours;

static void make(void **blocks, uint64_t key) {
    for (int i = 0; i < COUNT; i++) {
        size_t size = (size_t)i * (size_t)i * 17;
        blocks[i] = i % 3 == 0 ? t_calloc(1, size) : i % 3 == 1 ? t_memalign(64, size) : t_malloc(size);
        CHECK(blocks[i], "hour %d: %zu bytes: NULL", hours, size);
        pattern_fill(blocks[i], size, key + (uint64_t)i);
    }
    hours++;
}

static void check_and_free(void **blocks, uint64_t key) {
    for (int i = 0; i < COUNT; i++) {
        size_t size = (size_t)i * (size_t)i * 17;
        CHECK(pattern_wrong(blocks[i], size, key + (uint64_t)i) < 0, "a block of an early hour changed");
        t_free(blocks[i]);
    }
}

/* Runs before every constructor of the program.  Shared objects are initialised after it, too. */
static void before_everything(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    make(early, 1000);
}

/* The section is read by the C library at start-up; nothing in the program refers to it. */
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_everything;

__attribute__((constructor(101))) static void first_constructor(void) {
    make(construct, 2000);
}

__attribute__((destructor(101))) static void last_destructor(void) {
    CHECK(hours == 2, "%d of 2 early hours came", hours);
    check_and_free(construct, 2000);
    void *late = t_malloc(100000);
    CHECK(late, "malloc in the last destructor: NULL");
    t_free(late);
}

int main(void) {
    CHECK(hours == 2, "%d of 2 early hours came before main", hours);
    check_and_free(early, 1000);
    puts("allocated before all constructors, freed after main");
    return 0;
}
