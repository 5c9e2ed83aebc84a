/* The bytes of a checked block: filled as far as the guard and not beyond, and each byte that is changed is noticed, whether it
 * is one of the block's, of its guard, or of its header. For each size up to some more than what is done 16 bytes at a time, at each
 * such place beside a neighbour. */
#include "../support/check.h"

#include "misuse/block.h"

#include <string.h>

#define LONGEST (FH_FILL_HERE + 100)
#define OTHER 0x55

static char memory[sizeof(fh_checked) + LONGEST + 64] __attribute__((aligned(16)));
static fh_checked *const h = (fh_checked *)(void *)memory;

static void begin(size_t n) {
    memset(memory, OTHER, sizeof memory);
    h->size = n;
    fh_store(&h->state, fh_checked_state(FH_CHECKED_FREED, 0, 4, 0));
    h->allocated = 7;
    h->seal = fh_checked_seal_of(n, 7, 4);
    h->canary = fh_checked_canary(h);
}

/* True if all bytes from one place to another are that byte. */
static bool are(const char *from, const char *to, unsigned char byte) {
    while (from < to && (unsigned char)*from == byte) from++;
    return from == to;
}

static void expect(size_t n, unsigned char byte) {
    char *p = fh_checked_block(h), *behind = p + n, *end = behind + fh_checked_guard(n);
    begin(n);
    uint64_t state = fh_load(&h->state);
    fh_checked_fill(p, n, byte);
    CHECK(fh_load(&h->state) == state && h->size == n && fh_checked_is_header(h), "%zu bytes: the header was written",
          n);
    CHECK(are(p, behind, byte), "%zu bytes are not filled", n);
    CHECK(are(behind, end, FH_GUARD_BYTE), "the guard of %zu bytes is not filled", n);
    CHECK(are(end, memory + sizeof memory, OTHER), "%zu bytes: the neighbour was written", n);
}

/* Each byte from `from` to `to` is changed by one bit. */
static void change_each(size_t n, char *from, char *to, bool freed, fh_damage damage) {
    for (char *at = from; at < to; at++) {
        const char *found = NULL;
        *at = (char)(*at ^ (1 << (at - from) % 8));
        CHECK(!fh_checked_is_whole(h, freed), "%zu bytes: a change of byte %td is not noticed", n, at - memory);
        CHECK(fh_checked_damage(h, freed, &found) == damage && found == at, "%zu bytes: byte %td is not named", n,
              at - memory);
        *at = (char)(*at ^ (1 << (at - from) % 8));
    }
}

/* Any byte of the size, the stack or the seal; which one it was is not known. */
static void change_header(size_t n) {
    for (char *at = (char *)&h->size; at < (char *)&h->canary; at++) {
        const char *found = memory;
        *at = (char)(*at ^ 0x21);
        CHECK(!fh_checked_is_whole(h, false) && !fh_checked_is_whole(h, true), "%zu bytes: byte %td is not noticed", n,
              at - memory);
        CHECK(fh_checked_damage(h, false, &found) == FH_DAMAGE_BEFORE && !found, "%zu bytes: byte %td is named", n,
              at - memory);
        *at = (char)(*at ^ 0x21);
    }
}

int main(void) {
    fh_checked_secret = UINT64_C(0x123456789ABCDEF1);
    for (size_t n = 0; n <= LONGEST; n++) {
        char *p = fh_checked_block(h), *behind = p + n, *end = behind + fh_checked_guard(n);
        expect(n, FH_FRESH_BYTE);
        CHECK(fh_checked_is_whole(h, false), "%zu bytes: a live block is not whole", n);
        expect(n, FH_FREED_BYTE);
        CHECK(fh_checked_is_whole(h, true), "%zu bytes: a free block is not whole", n);
        change_each(n, behind, end, false, FH_DAMAGE_BEHIND);
        change_each(n, behind, end, true, FH_DAMAGE_BEHIND);
        change_each(n, p, behind, true, FH_DAMAGE_INSIDE);
        change_each(n, (char *)&h->canary + 7, p, false, FH_DAMAGE_BEFORE);
        change_header(n);
        for (char *at = p; at < behind; at++) *at = OTHER;
        CHECK(fh_checked_is_whole(h, false), "%zu bytes: what the program writes is taken for damage", n);
    }
    return 0;
}
