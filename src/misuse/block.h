/* A checked block: what option check puts around the bytes that the program asked for.
 *
 *     begin            header           p                 p + n        p + n + guard
 *       │ (aligned only) │ 32 bytes       │ the program's    │ 8 to 23 bytes │
 *       │ marker ─ ─ ─ ─▶│ … canary       │ n bytes          │ FH_GUARD_BYTE │
 *
 * The header ends where the block begins, so the canary is the first that an underrun meets. One that skips it is met by
 * the seal: without that, a size that the program wrote would be believed. A block whose alignment is
 * above 32 begins at begin + alignment; a marker at begin then leads a walk over the heap to the header.
 *
 * The word `state`, which alone two threads may change at once:
 *
 *     LIVE ──▶ FREED   compare-and-swap, acq_rel: of two frees one gets it, the other one reports. It carries the stack of
 *                      the free, so that the loser finds it there
 *     FREED ─▶ GONE    by the thread that took the block out of the quarantine, which owns it
 *     any ──▶ LIVE     by the thread that was given the memory, release: all else of the header is before it
 *
 * Size, stack, seal and canary are written before LIVE and never after; only realloc in place, whose caller owns the block,
 * writes the size and the seal again. */
#ifndef FH_MISUSE_BLOCK_H
#define FH_MISUSE_BLOCK_H

#include "base/atomic.h"
#include "base/hooks.h"
#include "base/types.h"
#include "store/window.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    fh_word state; /* kind 8 bits │ family 8 │ log2 of the alignment 8 │ rounded up 8 │ stack of the free 32 */
    uint64_t size; /* bytes that were asked for; of a marker: bytes to the header */
    uint32_t allocated; /* stack of the allocation, 0: not known */
    uint32_t seal;      /* fh_checked_seal_of the size, the stack and the alignment; of a marker: not used */
    uint64_t canary;    /* fh_checked_canary of this address */
} fh_checked;

_Static_assert(sizeof(fh_checked) == 1 << 5, "the header of a checked block");

/* Values that memory will not have by chance, as the canary must fit too. */
typedef enum {
    FH_CHECKED_LIVE = 0xA1,
    FH_CHECKED_FREED = 0xB2,
    FH_CHECKED_GONE = 0xC3,
    FH_CHECKED_MARKER = 0xD4
} fh_checked_kind;

/* In the state: the caller was told a size that is larger than what he asked for (fh_malloc_at_least), and may free with either. */
#define FH_CHECKED_ROUNDED (UINT64_C(1) << 24)

#define FH_GUARD_LEAST 8u
#define FH_GUARD_BYTE 0xEE /* behind a block */
#define FH_FRESH_BYTE 0xAF /* in a block that was allocated and not written yet */
#define FH_FREED_BYTE 0xDF /* in a block that is free */

/* Of a longer block the two ends are filled, or memory that a program never touches would become resident. With ends of
 * 2 KiB, too, a program whose blocks are rarely long took 5 to 9 % more time: each byte is written twice, and read when it is cold. */
#define FH_FILL_WHOLE ((size_t)4 * 1024)
#define FH_FILL_END ((size_t)512)

/* Another one in each process; set once, before the first checked block. */
extern uint64_t fh_checked_secret FH_HIDDEN;

static inline uint64_t fh_checked_canary(const void *header) {
    return ((uint64_t)(uintptr_t)header ^ fh_checked_secret) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline fh_checked_kind fh_checked_kind_of(uint64_t state) {
    return (fh_checked_kind)(state & 0xFF);
}
static inline unsigned fh_checked_family_of(uint64_t state) {
    return (unsigned)(state >> 8) & 0xFF;
}
static inline unsigned fh_checked_align_of(uint64_t state) {
    return (unsigned)(state >> 16) & 0xFF;
}
static inline uint32_t fh_checked_freed_of(uint64_t state) {
    return (uint32_t)(state >> 32);
}
static inline uint64_t fh_checked_state(fh_checked_kind kind, unsigned family, unsigned align_log, uint32_t freed) {
    return (uint64_t)kind | (uint64_t)family << 8 | (uint64_t)align_log << 16 | (uint64_t)freed << 32;
}

static inline char *fh_checked_block(const fh_checked *h) {
    return (char *)(uintptr_t)(h + 1);
}

/* Bytes from begin to the header of a block of that alignment. */
static inline size_t fh_checked_offset(unsigned align_log) {
    return FH_LIKELY(align_log <= 5) ? 0 : ((size_t)1 << align_log % 64) - sizeof(fh_checked);
}
static inline char *fh_checked_begin(const fh_checked *h) {
    return (char *)(uintptr_t)h - fh_checked_offset(fh_checked_align_of(fh_load(&h->state)));
}

/* Not for secrecy: a stray write must not hit upon it. */
static inline uint32_t fh_checked_seal_of(size_t size, uint32_t allocated, unsigned align_log) {
    return ~((uint32_t)(size * UINT64_C(0x9E3779B97F4A7C15) >> 32) ^ allocated ^ align_log);
}

/* Is what the header says what was written there? Of a block that no other thread is giving a new header. */
static inline bool fh_checked_is_sealed(const fh_checked *h, uint64_t state) {
    return h->seal == fh_checked_seal_of(h->size, h->allocated, fh_checked_align_of(state));
}

/* Bytes behind a block of n bytes, down to the next multiple of 16. */
static inline size_t fh_checked_guard(size_t n) {
    return ((n + FH_GUARD_LEAST + FH_MIN_ALIGN - 1) & ~(size_t)(FH_MIN_ALIGN - 1)) - n;
}

/* A slot with a class byte is in use, and so are all its bytes: a slab's are its own, and a run's are mapped. */
static inline bool fh_checked_is_header(const fh_checked *h) {
    return h->canary == fh_checked_canary(h);
}

/* The header of the checked block at p, in whatever state. NULL: p is none's beginning. Reads only memory of the window that is
 * in use; wait-free. Cost: 16 instructions where the class byte says that there is one in the same slot; else the store is
 * asked. */
fh_checked *fh_checked_at_slowly(const void *p);

static inline fh_checked *fh_checked_at(const void *p) {
    uintptr_t address = (uintptr_t)p;
    fh_checked *h = (fh_checked *)(address - sizeof *h); // NOLINT(performance-no-int-to-ptr)
    bool near = fh_class_at(p) != FH_CLASS_SPECIAL && address % FH_SLOT_SIZE >= sizeof *h;
    if (FH_UNLIKELY(!near || address % FH_MIN_ALIGN)) return fh_checked_at_slowly(p);
    return FH_LIKELY(fh_checked_is_header(h)) ? h : NULL;
}

/* The checked block that p points into or just beside, for messages; NULL: none. */
fh_checked *fh_checked_around(const void *p);

/* The one whose memory begins at `begin`, which is a block of the store; NULL: it is no checked one. */
fh_checked *fh_checked_in(const void *begin, size_t size);

/* True if what is at h is the header of a live block except for its canary: an underrun has met it. */
bool fh_checked_was_header(const fh_checked *h);

/* Where the header is, or was, of a block of the store that begins there: behind a marker, or at the beginning itself. */
const fh_checked *fh_checked_header_in(const void *begin, size_t size);

/* The kinds that a header has had may all be old: memory that is in no block's use any more keeps what was in it, and parts of it may
 * have been another block's since. So these tell what the program wrote from what is left over.
 *
 * A live block's header that was written to, but not in its state; and one that was written to in its state alone. */
bool fh_checked_is_written_live(const fh_checked *h, uint64_t state);
bool fh_checked_is_written_state(const fh_checked *h, uint64_t state);

/* Of a canary that is damaged the byte that is nearest to the block. */
const char *fh_checked_before(const fh_checked *h);

/* ── Fill ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Most blocks are short, and each is filled twice and compared once. So these are done here, 16 bytes at a time. Nothing needs to
 * be done by the byte, because behind a block there are at least 8 bytes of guard, up to a multiple of 16 from its beginning. */
#define FH_FILL_HERE ((size_t)512)

typedef uint64_t fh_bytes16 __attribute__((vector_size(16)));

static inline fh_bytes16 fh_bytes16_of(unsigned char byte) {
    uint64_t word = byte * UINT64_C(0x0101010101010101);
    return (fh_bytes16){word, word};
}
static inline fh_bytes16 fh_bytes16_at(const void *p) {
    fh_bytes16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* 16 bytes that are 0xFF where they are among the first n ≤ 16, and 0. */
static inline fh_bytes16 fh_bytes16_first(size_t n) {
    static const unsigned char ones[32] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                           0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    return fh_bytes16_at(ones + 16 - n);
}

/* Three words that overlap are any 8 to 23 bytes: at the beginning, in the middle, and at the end. */
static inline void fh_guard_fill(char *behind, size_t guard) {
    const uint64_t word = FH_GUARD_BYTE * UINT64_C(0x0101010101010101);
    memcpy(behind, &word, sizeof word);
    memcpy(behind + (guard - sizeof word) / 2, &word, sizeof word);
    memcpy(behind + guard - sizeof word, &word, sizeof word);
}
static inline bool fh_guard_is_whole(const char *behind, size_t guard) {
    const uint64_t word = FH_GUARD_BYTE * UINT64_C(0x0101010101010101);
    uint64_t a, b, c;
    memcpy(&a, behind, sizeof a);
    memcpy(&b, behind + (guard - sizeof b) / 2, sizeof b);
    memcpy(&c, behind + guard - sizeof c, sizeof c);
    return ((a ^ word) | (b ^ word) | (c ^ word)) == 0;
}

/* Fills n bytes, or both ends of them (FH_FILL_WHOLE). */
void fh_checked_fill_long(char *p, size_t n, int byte);

static inline void fh_bytes16_put(char *p, fh_bytes16 v) {
    memcpy(p, &v, sizeof v);
}

/* Fills the n bytes of a block, and its guard. */
static inline void fh_checked_fill(char *p, size_t n, unsigned char byte) {
    if (FH_LIKELY(n <= FH_FILL_HERE)) {
        const fh_bytes16 v = fh_bytes16_of(byte);
        char *end = p + fh_round_up(n, sizeof v), *at = p;
        for (; end - at > (ptrdiff_t)(2 * sizeof v); at += 2 * sizeof v) {
            fh_bytes16_put(at, v);
            fh_bytes16_put(at + sizeof v, v);
            __asm__("" : "+r"(at)); /* or gcc takes the loop for a memset, and `rep stos` begins slowly */
        }
        /* The last 32, or what there is. Of no bytes the guard, which has 16 then. */
        fh_bytes16_put(at, v);
        fh_bytes16_put(end - at > (ptrdiff_t)sizeof v ? at + sizeof v : at, v);
    } else {
        fh_checked_fill_long(p, n, byte);
    }
    fh_guard_fill(p + n, fh_checked_guard(n));
}

/* The first of these bytes that is no longer as it was filled, n if there is none. */
size_t fh_checked_changed(const char *p, size_t n, int byte);

/* True if the n bytes of a block are as they were filled. */
static inline bool fh_checked_is_filled(const char *p, size_t n, unsigned char byte) {
    if (FH_UNLIKELY(n > FH_FILL_HERE)) return fh_checked_changed(p, n, byte) == n;
    const fh_bytes16 v = fh_bytes16_of(byte);
    fh_bytes16 other = {0, 0}, more = {0, 0};
    const char *end = p + n;
    for (; end - p >= (ptrdiff_t)(2 * sizeof v); p += 2 * sizeof v) {
        other |= fh_bytes16_at(p) ^ v;
        more |= fh_bytes16_at(p + sizeof v) ^ v;
    }
    /* What is left are 0 to 31 bytes: the first 16 of them if there are so many, and the rest. */
    size_t left = (size_t)(end - p);
    fh_bytes16 first = fh_bytes16_first(left < sizeof v ? left : sizeof v);
    other |= more | ((fh_bytes16_at(p) ^ v) & first);
    p = left > sizeof v ? p + sizeof v : p;
    left = (size_t)(end - p);
    other |= (fh_bytes16_at(p) ^ v) & fh_bytes16_first(left);
    return (other[0] | other[1]) == 0;
}

/* What is wrong with the bytes around a block, and of a free one in it. */
typedef enum { FH_DAMAGE_NONE, FH_DAMAGE_BEFORE, FH_DAMAGE_BEHIND, FH_DAMAGE_INSIDE } fh_damage;

/* *at: the first byte that was changed; NULL: one of the header's, and it is not known which. A block in quarantine is looked at
 * inside too. */
fh_damage fh_checked_damage(const fh_checked *h, bool freed, const char **at);

/* The same question without the answer's details. */
__attribute__((always_inline)) static inline bool fh_checked_is_whole(const fh_checked *h, bool freed) {
    const char *p = fh_checked_block(h);
    uint64_t state = fh_load(&h->state);
    return fh_checked_is_header(h) && fh_checked_is_sealed(h, state) &&
           (!freed || fh_checked_kind_of(state) == FH_CHECKED_FREED) &&
           fh_guard_is_whole(p + h->size, fh_checked_guard(h->size)) &&
           (!freed || fh_checked_is_filled(p, h->size, FH_FREED_BYTE));
}

#endif
