/* Stretches of pages inside a slab of which all blocks are free: pure functions of its bits. A page may have parts of two blocks,
 * and a block may be longer than a page. So neither is gone through one by one where the other is longer: what a stretch begins
 * and ends with is looked for in the bits.
 *
 * Thread-safety and progress: functions of their arguments, wait-free. */
#ifndef FH_STORE_STRETCH_H
#define FH_STORE_STRETCH_H

#include "base/assert.h"
#include "base/bits.h"
#include "base/classes.h"

#include <string.h>

/* What is to be known of a slab for it. */
typedef struct {
    unsigned c;     /* its class */
    unsigned bump;  /* blocks that were handed out once; those beyond count as not free */
    unsigned shift; /* a page has 1 << shift bytes */
} fh_paged;

/* The first block of `from` … end − 1 that is set, or that is not; `end`: there is none. */
static inline unsigned fh_next_block(const uint64_t *words, unsigned from, unsigned end, bool set) {
    if (from >= end) return end;
    const uint64_t flip = set ? 0 : ~UINT64_C(0);
    unsigned w = from / 64;
    uint64_t bits = (words[w] ^ flip) & ~UINT64_C(0) << from % 64;
    while (!bits) {
        if (++w * 64 >= end) return end;
        bits = words[w] ^ flip;
    }
    unsigned i = w * 64 + fh_lowest_bit(bits);
    return i < end ? i : end;
}

/* Pages `page` … end − 1 of a slab. */
typedef struct {
    unsigned page, end;
} fh_stretch;

/* The first page of which no part was ever handed out. */
static inline unsigned fh_pages_behind(const fh_paged *p) {
    return (unsigned)((p->bump * fh_class_size(p->c) + ((size_t)1 << p->shift) - 1) >> p->shift);
}

/* resident[] has a byte for each page, of which only the lowest bit says something: eight are looked at together, the first one in the
 * lowest byte. */
#define FH_EIGHT_PAGES UINT64_C(0x0101010101010101)

static inline uint64_t fh_eight_pages(const unsigned char *resident) {
    uint64_t eight;
    memcpy(&eight, resident, sizeof eight);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    eight = __builtin_bswap64(eight);
#endif
    return eight & FH_EIGHT_PAGES;
}

/* How many of n pages have memory. */
static inline unsigned fh_pages_resident(const unsigned char *resident, size_t n) {
    unsigned sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) sum += fh_count_bits(fh_eight_pages(resident + i));
    for (; i < n; i++) sum += resident[i] & 1;
    return sum;
}

/* The first page of `page` … end − 1 that has memory, or that has none; `end`: there is none. NULL: all have memory. */
static inline unsigned fh_next_page(const unsigned char *resident, unsigned page, unsigned end, bool with_memory) {
    if (!resident) return with_memory ? page : end;
    const uint64_t others = with_memory ? 0 : FH_EIGHT_PAGES;
    for (; page + 8 <= end; page += 8) {
        uint64_t found = fh_eight_pages(resident + page) ^ others;
        if (found) return page + fh_lowest_bit(found) / 8;
    }
    while (page < end && (resident[page] & 1) != with_memory) page++;
    return page;
}

/* The next pages on which all blocks are set in words[], and which have memory (NULL: or may have). Blocks may be longer than
 * pages, and a page may have parts of two. Cost: some instructions for each page with memory, or each run of blocks where these are
 * longer; eight pages without memory are one step. */
static inline bool fh_next_stretch(const fh_paged *p, const uint64_t *words, const unsigned char *resident,
                                   fh_stretch *s) {
    size_t size = fh_class_size(p->c);
    unsigned pages = (unsigned)(p->bump * size >> p->shift); /* behind them are blocks that were never handed out */
    for (unsigned page = s->end; (page = fh_next_page(resident, page, pages, true)) < pages;) {
        unsigned first = fh_block_index(p->c, (size_t)page << p->shift),
                 end = fh_next_block(words, first, p->bump, false);
        unsigned until = (unsigned)(end * size >> p->shift);
        if (until > page) {
            *s = (fh_stretch){page, fh_next_page(resident, page, until, false)};
            return true;
        }
        size_t next = fh_next_block(words, end, p->bump, true) * size;
        unsigned begin = (unsigned)((next + ((size_t)1 << p->shift) - 1) >> p->shift);
        FH_ASSERT(begin > page); /* block `end` is not set, and begins behind the beginning of this page */
        page = begin;
    }
    return false;
}

/* The blocks on those pages, be it in part. */
typedef struct {
    unsigned first, last;
} fh_blocks;

static inline fh_blocks fh_blocks_on(const fh_paged *p, fh_stretch s) {
    FH_ASSERT(s.page < s.end);
    return (fh_blocks){fh_block_index(p->c, (size_t)s.page << p->shift),
                       fh_block_index(p->c, ((size_t)s.end << p->shift) - 1)};
}

/* These blocks as bits of word w, which has one of them. */
static inline uint64_t fh_bits_of(fh_blocks b, unsigned w) {
    unsigned from = w == b.first / 64 ? b.first % 64 : 0, to = w == b.last / 64 ? b.last % 64 : 63;
    FH_ASSERT(b.first <= b.last && w >= b.first / 64 && w <= b.last / 64);
    return fh_run_mask(from, to - from + 1);
}

#endif
