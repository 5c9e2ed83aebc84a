/* The table of size classes, written out by the preprocessor from the rule of types.h.
 *
 * Slots of a slab: as few as keep the waste at its tail below 4 % and give at least 8 blocks. Measured and rejected:
 * four classes a doubling (+2.4 % memory in big heaps, −14 % with 64 threads of little each, equal time). */
#include "base/classes.h"

#define ROW(bytes, n)                                                                                                  \
    {                                                                                                                  \
        .size = (bytes), .blocks = (n)*FH_SLOT_SIZE / (bytes), .slots = (n),                                           \
        .hint_at = (uint8_t)((n)*FH_SLOT_SIZE / (bytes) >= 128 ? 8 : ((n)*FH_SLOT_SIZE / (bytes) + 15) / 16),          \
        .reciprocal = ((UINT64_C(1) << 40) + (bytes)-1) / (bytes)                                                      \
    }

/* Eight classes of one doubling: base + base/8 … 2 · base. */
#define EIGHT(base, a, b, c, d, e, f, g, h)                                                                            \
    ROW((base) / 8 * 9, a), ROW((base) / 8 * 10, b), ROW((base) / 8 * 11, c), ROW((base) / 8 * 12, d),                 \
        ROW((base) / 8 * 13, e), ROW((base) / 8 * 14, f), ROW((base) / 8 * 15, g), ROW((base)*2, h)

/* Eight classes of 16-byte steps. */
#define FINE(first)                                                                                                    \
    ROW((first)*16, 1), ROW((first)*16 + 16, 1), ROW((first)*16 + 32, 1), ROW((first)*16 + 48, 1),                     \
        ROW((first)*16 + 64, 1), ROW((first)*16 + 80, 1), ROW((first)*16 + 96, 1), ROW((first)*16 + 112, 1)

/* A large block of so many pages; sixteen of them. */
#define LARGE(pages)                                                                                                   \
    { .size = (pages)*4096u, .blocks = 1 }
#define SIXTEEN(step)                                                                                                  \
    LARGE(17 * (step)), LARGE(18 * (step)), LARGE(19 * (step)), LARGE(20 * (step)), LARGE(21 * (step)),                \
        LARGE(22 * (step)), LARGE(23 * (step)), LARGE(24 * (step)), LARGE(25 * (step)), LARGE(26 * (step)),            \
        LARGE(27 * (step)), LARGE(28 * (step)), LARGE(29 * (step)), LARGE(30 * (step)), LARGE(31 * (step)),            \
        LARGE(32 * (step))

const fh_class_info fh_class_table[FH_CLASSES] = {
    {.size = 0},
    FINE(1),
    FINE(9),
    FINE(17),
    FINE(25),
    FINE(33),
    FINE(41),
    FINE(49),
    FINE(57),
    EIGHT(1024, 1, 1, 1, 1, 1, 1, 1, 1),
    EIGHT(2048, 1, 1, 1, 1, 1, 1, 1, 1),
    EIGHT(4096, 1, 2, 2, 2, 2, 1, 2, 1),
    EIGHT(8192, 2, 4, 4, 4, 4, 4, 4, 2),
    EIGHT(16384, 4, 8, 8, 8, 8, 4, 8, 4),
    EIGHT(32768, 8, 16, 16, 16, 16, 8, 16, 8),
    SIXTEEN(1),
    SIXTEEN(2),
    SIXTEEN(4),
    SIXTEEN(8),
    ROW(64, 1),
    ROW(128, 1),
    ROW(256, 1),
    ROW(512, 1),
    ROW(1024, 1),
    ROW(2048, 1),
    ROW(4096, 1),
    ROW((FH_THREAD_SIZE + FH_THREAD_PAGE - 1) / FH_THREAD_PAGE * FH_THREAD_PAGE, 1),
    ROW(64, 1),
    ROW(128, 1),
    ROW(256, 1),
    ROW(512, 1),
    ROW(1024, 1),
    ROW(2048, 1),
    ROW(4096, 1),
    ROW(8192, 1),
    ROW(16384, 1),
    ROW(32768, 1),
    ROW(65536, 1),
    {.size = 0},
    ROW(4096, 1),
};

_Static_assert(64 << (FH_MAGAZINE_SIZES - 1) == 4096, "the magazine rows above");
_Static_assert(FH_CLASS_MAGAZINE + FH_MAGAZINE_SIZES == FH_CLASS_THREAD && FH_CLASS_THREAD + 1 == FH_CLASS_SAMPLE,
               "row order");
_Static_assert(FH_SAMPLE_LAST + 1 == FH_CLASS_BORROWED && FH_CLASS_BORROWED + 1 == FH_CLASS_EDGE, "row order");
_Static_assert(FH_RUN_FIRST == FH_SMALL_LAST + 1 && FH_RUN_LAST + 1 == FH_CLASS_MAGAZINE, "row order");
