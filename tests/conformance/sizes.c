/* Every size: aligned as its type may need, as large as asked, not much larger, and nobody else's.
 *
 * A ring of live blocks stands between allocation and free, each filled to the last usable byte, so that
 * two blocks which overlap are found when the older one is looked at again. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>

enum { RING = 64 };

struct held {
    void *block;
    size_t size;   /* what was asked */
    size_t usable; /* what it holds: filled to the last byte, see fill() */
    uint64_t key;
};

static struct held ring[RING];
static uint64_t counter;

/* malloc promises the alignment of the largest type that fits: 16 from 16 bytes on, less below. */
static size_t needed_alignment(size_t size) {
    size_t alignment = 1;
    while (alignment < 16 && alignment * 2 <= size) {
        alignment *= 2;
    }
    return alignment;
}

/* Blocks in holes that other sizes have left are up to a quarter larger than their class. A stress build
 * finds such holes in a heap of 4 MiB. In a normal one, which looks from 32 MiB on, this program meets none. */
#ifdef FH_STRESS
enum { IN_HOLES = 1 };
#else
enum { IN_HOLES = 0 };
#endif

/* How much Freehold may give beyond what was asked: an eighth and one step up to 64 KiB; from there on whole
 * slots of 64 KiB; above 1 MiB pages of 4 KiB. */
static size_t largest_usable(size_t size) {
    if (size <= 65536) {
        size_t class_size = size + size / 8 + 16;
        return IN_HOLES ? class_size + class_size / 4 : class_size;
    }
    return size + (size > ((size_t)1 << 20) ? 4095 : 65535);
}

/* A block is filled whole up to 256 KiB and at both its ends above: neighbours meet at the ends, and
 * sixty-four blocks of 64 MiB would only test the machine's patience. */
enum { WHOLE = 256 << 10, END = 64 << 10 };

static void fill(const struct held *slot) {
    if (slot->usable <= WHOLE) {
        pattern_fill(slot->block, slot->usable, slot->key);
    } else {
        pattern_fill(slot->block, END, slot->key);
        pattern_fill((char *)slot->block + slot->usable - END, END, ~slot->key);
    }
}

static long changed(const struct held *slot) {
    if (slot->usable <= WHOLE) {
        return pattern_wrong(slot->block, slot->usable, slot->key);
    }
    long wrong = pattern_wrong(slot->block, END, slot->key);
    if (wrong < 0) {
        wrong = pattern_wrong((char *)slot->block + slot->usable - END, END, ~slot->key);
        wrong = wrong < 0 ? wrong : (long)slot->usable - END + wrong;
    }
    return wrong;
}

static void release(struct held *slot) {
    if (!slot->block) {
        return;
    }
    long wrong = changed(slot);
    CHECK(wrong < 0, "block of %zu bytes (usable %zu) changed at byte %ld while it was held", slot->size, slot->usable,
          wrong);
    if (slot->size % 3 == 1) {
        t_free_sized(slot->block, slot->size);
    } else {
        t_free(slot->block);
    }
    slot->block = NULL;
}

static void try_size(size_t size) {
    errno = 0;
    void *block = t_malloc(opaque(size));
    CHECK(block, "malloc(%zu) returned NULL, errno %d", size, errno);
    size_t usable = t_usable_size(block);
    CHECK(usable >= size, "usable size %zu of a block of %zu", usable, size);
    CHECK((uintptr_t)block % needed_alignment(size) == 0, "malloc(%zu) = %p: not aligned", size, block);
    if (t_is_freehold()) {
        CHECK(usable <= largest_usable(size), "malloc(%zu) gave %zu bytes: too much", size, usable);
    }
    struct held *slot = &ring[counter % RING];
    release(slot);
    *slot = (struct held){block, size, usable, ++counter * UINT64_C(0xd6e8feb86659fd93)};
    fill(slot);
}

static void around(size_t centre) {
    static const int offsets[] = {-4097, -4096, -65, -64, -17, -16, -15, -1, 0, 1, 15, 16, 17, 64, 4096, 4097};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        try_size(centre + (size_t)offsets[i]);
    }
}

/* A block that grew into a mapping that was there, four times as large and more, still has the size that was asked for. */
static void grown_into_what_was_there(void) {
    const size_t mib = (size_t)1 << 20;
    t_free(t_malloc(opaque(12 * mib)));
    void *block = t_malloc(opaque(2 * mib + 200000));
    CHECK(block, "no memory");
    block = t_realloc(block, opaque(2 * mib + 400000));
    CHECK(block, "no memory");
    t_free_sized(block, 2 * mib + 400000);
}

int main(void) {
    grown_into_what_was_there();
    for (size_t size = 0; size <= 70000; size++) {
        try_size(size);
    }
    for (size_t size = 70000; size <= (size_t)64 << 20; size += size / 23 + 1) {
        try_size(size);
    }
    for (int power = 13; power <= 26; power++) {
        around((size_t)1 << power);
        around((size_t)3 << (power - 1));
    }
    for (int i = 0; i < RING; i++) {
        release(&ring[i]);
    }
    /* Much more than memory is touched nowhere: address space alone must do. */
    char *giant = t_malloc((size_t)3 << 30);
    CHECK(giant, "malloc(3 GiB) returned NULL");
    giant[0] = giant[((size_t)3 << 30) - 1] = 1;
    t_free(giant);
    printf("%llu blocks, every size to 70,000 and on to 64 MiB\n", (unsigned long long)counter);
    return 0;
}
