/* Does freehold/fast.h know the library as it is? Each number of the header beside the library's own. When one of these fails, the
 * header follows, and FH_FAST_LAYOUT gets a new number, here and in the names of src/cache/fast.c: a program that was compiled with
 * the old one must not link. */
#include "base/types.h"
#include "base/classes.h"
#include "cache/place.h"
#include "store/window.h"
#include "../support/check.h"

#include <freehold/fast.h>

_Static_assert(sizeof(struct fh_fast_bin) == sizeof(fh_bin) &&
                   offsetof(struct fh_fast_bin, top) == offsetof(fh_bin, top) &&
                   offsetof(struct fh_fast_bin, end) == offsetof(fh_bin, end),
               "a bin");
_Static_assert(FH_FAST_FINE_MAX == FH_FINE_MAX && FH_FAST_SMALL_MAX == FH_SMALL_MAX, "sizes that have a bin");
_Static_assert(FH_FAST_SLOT_SHIFT == FH_SLOT_SHIFT, "a slot");
_Static_assert(FH_FAST_CLASS_MAP == FH_CLASS_MAP_SIZE, "the class map");
_Static_assert(FH_FAST_PLACES == offsetof(fh_thread, last_place) - offsetof(fh_thread, bin), "last places");
_Static_assert(FH_FAST_PLACE_BITS == FH_PLACE_BITS, "how many places");
_Static_assert(offsetof(fh_thread, bin) - offsetof(fh_thread, head) == 16 &&
                   offsetof(fh_row_head, watched_slots) == 0 && offsetof(fh_row_head, unwatched_slots) == 8,
               "the head of a row");

int main(void) {
    struct fh_fast_bin bins[FH_BINS];
    fh_thread *t = calloc(1, FH_THREAD_SIZE);
    CHECK(t != NULL, "no memory");
    for (size_t n = 1; n <= FH_SMALL_MAX; n++) {
        size_t c = (size_t)(fh_fast_bin_of(bins, n) - bins);
        CHECK(c == fh_class_of(n), "a block of %zu bytes: class %zu in fast.h, %u in the library", n, c,
              fh_class_of(n));
    }
    CHECK(fh_fast_bin_of(bins, 0) == bins, "0 bytes have a bin");
    /* The table of last places is the same one. */
    _Alignas(16) void *top[2] = {NULL, NULL}; /* two places of one magazine, both empty */
    for (uintptr_t p = 16; p < 1 << 20; p += 16) {
        uint16_t *entry = fh_last_place(t->bin, fh_place_index((void *)p));
        *entry = (uint16_t)(uintptr_t)(top + 1);
        (void)fh_fast_is_suspect((struct fh_fast_bin *)(void *)t->bin, top, (void *)p);
        CHECK(*entry == (uint16_t)(uintptr_t)top, "block %zx: the place was noted elsewhere", (size_t)p);
    }
    free(t);
    printf("layout %d: %zu sizes, %u places\n", FH_FAST_LAYOUT, (size_t)FH_SMALL_MAX, FH_PLACES);
    return 0;
}
