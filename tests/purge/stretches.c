/* Which pages of a slab are free, beside what is found by asking each block of each page: random slabs of all classes, with pages of
 * 4, 16 and 64 KiB, of which some have no memory. */
#include "store/stretch.h"

#include "../support/check.h"

enum { SLABS = 60000, MOST_PAGES = 256 };

static uint64_t seed = 1;

/* Free blocks come in runs, short ones or long ones. */
static void fill(uint64_t *words, unsigned blocks) {
    size_t share = random_below(&seed, 11), longest = random_below(&seed, 3) ? 8 : 300;
    for (unsigned i = 0; i < blocks;) {
        bool free = random_below(&seed, 10) < share;
        for (size_t run = 1 + random_below(&seed, longest); run > 0 && i < blocks; run--, i++) {
            if (free) words[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
}

/* So do pages with memory. The kernel does not say what is in the other bits. */
static void fill_resident(unsigned char *resident, unsigned pages) {
    size_t longest = random_below(&seed, 2) ? 3 : 40;
    for (unsigned i = 0; i < pages;) {
        bool has = random_below(&seed, 2);
        for (size_t run = 1 + random_below(&seed, longest); run > 0 && i < pages; run--, i++)
            resident[i] = (unsigned char)(random_below(&seed, 128) << 1 | has);
    }
}

static bool is_free(const fh_paged *p, const uint64_t *words, unsigned page) {
    size_t bytes = (size_t)1 << p->shift, size = fh_class_size(p->c);
    for (size_t i = page * bytes / size; i <= ((page + 1) * bytes - 1) / size; i++) {
        if (i >= p->bump || !(words[i / 64] >> i % 64 & 1)) return false;
    }
    return true;
}

/* Returns how many pages were found. */
static unsigned compare(const fh_paged *p, unsigned pages) {
    uint64_t words[FH_SLAB_WORDS] = {0};
    unsigned char resident[MOST_PAGES], found[MOST_PAGES] = {0};
    const unsigned char *asked = random_below(&seed, 2) ? resident : NULL;
    unsigned last = 0, sum = 0;
    fill(words, p->bump);
    unsigned with_memory = 0, from = (unsigned)random_below(&seed, pages);
    fill_resident(resident, pages);
    for (unsigned i = from; i < pages; i++) with_memory += resident[i] & 1;
    CHECK(fh_pages_resident(resident + from, pages - from) == with_memory, "pages %u to %u: %u have memory", from,
          pages, with_memory);
    for (fh_stretch s = {0, 0}; fh_next_stretch(p, words, asked, &s); last = s.end) {
        CHECK(s.page >= last && s.page < s.end && s.end <= pages, "class %u: pages %u to %u after %u of %u", p->c,
              s.page, s.end, last, pages);
        fh_blocks b = fh_blocks_on(p, s);
        for (unsigned w = b.first / 64; w <= b.last / 64; w++)
            CHECK((words[w] & fh_bits_of(b, w)) == fh_bits_of(b, w), "class %u: a block on page %u is not free", p->c,
                  s.page);
        for (unsigned page = s.page; page < s.end; page++) found[page] = 1;
    }
    for (unsigned page = 0; page < pages; page++) {
        bool wanted = is_free(p, words, page) && (!asked || resident[page] & 1);
        CHECK(found[page] == wanted, "class %u, %u blocks, page %u of %u: %s", p->c, p->bump, page, pages,
              wanted ? "free and not found" : "found and not free");
        sum += wanted;
    }
    return sum;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < SLABS; i++) {
        unsigned c = 1 + (unsigned)random_below(&seed, FH_SMALL_LAST), blocks = fh_class_table[c].blocks;
        fh_paged p = {.c = c, .bump = blocks, .shift = (const unsigned[]){12, 14, 16}[random_below(&seed, 3)]};
        if (random_below(&seed, 2)) p.bump = 1 + (unsigned)random_below(&seed, blocks);
        sum += compare(&p, fh_class_table[c].slots * FH_SLOT_SIZE >> p.shift);
    }
    printf("%u slabs, %u free pages\n", SLABS, sum);
    CHECK(sum > SLABS, "hardly any page was free");
    return 0;
}
