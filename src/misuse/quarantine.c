#include "misuse/quarantine.h"

#include "base/settings.h"
#include "system/system.h"

#define SLOTS FH_QUARANTINE_SLOTS

static fh_word ring; /* fh_word[SLOTS]; 0: not there. Written once, release */
static fh_word head, tail, bytes;

bool fh_quarantine_start(void) {
    void *p = fh_system_map(SLOTS * sizeof(fh_word), fh_system_page_size());
    fh_store_release(&ring, (uintptr_t)p);
    return p != NULL;
}

/* A slot:  address 48 bits, of which the lowest 4 are 0 │ units of memory 20 bits, over those 4
 *
 * The size is not read from the header again, which a program may overwrite by then. */
#define UNIT ((size_t)64)
#define UNITS_BITS 20u
#define UNITS_MOST (((size_t)1 << UNITS_BITS) - 1)
#define ADDRESS_SHIFT 16u

static uint64_t entry_of(const fh_checked *h, size_t units) {
    return (uint64_t)(uintptr_t)h << ADDRESS_SHIFT | units;
}
static fh_checked *block_of(uint64_t entry) {
    return (fh_checked *)(uintptr_t)(entry >> UNITS_BITS << (UNITS_BITS - ADDRESS_SHIFT));
}
static size_t bytes_of(uint64_t entry) {
    return (entry & UNITS_MOST) * UNIT;
}

static uint64_t swap(uint64_t at, uint64_t entry) {
    fh_word *slots = (fh_word *)(uintptr_t)fh_load_acquire(&ring);
    return fh_swap_acq_rel(&slots[at % SLOTS], entry);
}

static void let_go(uint64_t entry, void (*leave)(fh_checked *h)) {
    if (!entry) return;
    fh_sub_relaxed(&bytes, bytes_of(entry));
    leave(block_of(entry));
}

/* What is at a place that was passed before its entry came: the thread that took the place found nothing there. It is nobody's to
 * take any more, until the ring comes round. The exchange decides who gets it, if that thread looks only now; and if it looked
 * before, what it wrote before that is seen here: `tail`. */
static uint64_t stranded(uint64_t at) {
    return FH_UNLIKELY(fh_load(&tail) > at) ? swap(at, 0) : 0;
}

/* Back among the newest; what it meets there too. */
static void put_back(uint64_t entry) {
    while (entry) {
        uint64_t at = fh_add_relaxed(&head, 1), met = swap(at, entry);
        entry = stranded(at);
        put_back(met);
    }
}

/* The place of the oldest block, for this thread alone. False: there is none. */
static bool take_tail(uint64_t *at) {
    uint64_t seen = fh_load(&tail), end = fh_load(&head);
    while (seen < end) {
        /* What the ring has lapped has left already. */
        uint64_t from = end - seen > SLOTS ? end - SLOTS : seen;
        *at = from;
        /* relaxed: the slot's exchange is what hands the block over. */
        if (fh_cas_relaxed(&tail, &seen, from + 1)) return true;
    }
    return false;
}

__attribute__((noinline)) static size_t purge_middle(const fh_checked *h) {
    size_t page = fh_system_page_size();
    uintptr_t p = (uintptr_t)fh_checked_block(h);
    uintptr_t from = fh_round_up(p + FH_FILL_END, page), to = (p + h->size - FH_FILL_END) & ~(page - 1);
    fh_system_purge((void *)from, to - from); // NOLINT(performance-no-int-to-ptr)
    return 2 * FH_FILL_END + 4 * page;
}

/* The memory that a block keeps from others, of one that is long after its middle was purged. */
static inline size_t memory_of(const fh_checked *h) {
    if (FH_UNLIKELY(h->size > FH_QUARANTINE_WHOLE)) return purge_middle(h);
    size_t offset = fh_checked_offset(fh_checked_align_of(fh_load(&h->state)));
    return offset + sizeof *h + h->size + fh_checked_guard(h->size);
}

/* A block that leaves has been out of the CPU's cache for long. So one that leaves AHEAD blocks later is fetched each time: it comes
 * while the program does something else. A slot may be empty or change; a prefetch never faults. */
#define AHEAD 16u
#define FETCH_MOST ((size_t)24 * FH_CACHE_LINE)
static inline void fetch_ahead(uint64_t at) {
    const fh_word *slots = (const fh_word *)(uintptr_t)fh_load(&ring);
    uint64_t entry = fh_load(&slots[(at + AHEAD) % SLOTS]);
    const char *next = (const char *)block_of(entry), *end = next + bytes_of(entry);
    if (end > next + FETCH_MOST) end = next + FETCH_MOST;
    for (; next < end; next += FH_CACHE_LINE) __builtin_prefetch(next, 1);
}

void fh_quarantine_put(fh_checked *h, void (*leave)(fh_checked *h)) {
    uint64_t limit = FH_SETTING(quarantine), at;
    if (FH_UNLIKELY(limit == 0 || !fh_load(&ring))) {
        leave(h);
        return;
    }
    size_t units = (memory_of(h) + UNIT - 1) / UNIT;
    if (units > UNITS_MOST) units = UNITS_MOST;
    uint64_t used = fh_add_relaxed(&bytes, units * UNIT) + units * UNIT;
    at = fh_add_relaxed(&head, 1);
    let_go(swap(at, entry_of(h, units)), leave);
    let_go(stranded(at), leave);
    for (unsigned i = 0; i < FH_QUARANTINE_LEAVE && used > limit && take_tail(&at); i++) {
        fetch_ahead(at);
        let_go(swap(at, 0), leave);
        used = fh_load(&bytes);
    }
}

void fh_quarantine_drain(void (*leave)(fh_checked *h)) {
    uint64_t at, end = fh_load(&head);
    while (fh_load(&ring) && fh_load(&tail) < end && take_tail(&at)) let_go(swap(at, 0), leave);
}

void fh_quarantine_each(void (*see)(fh_checked *h)) {
    uint64_t end = fh_load(&head), at = fh_load(&tail);
    if (!fh_load(&ring)) return;
    if (end - at > SLOTS) at = end - SLOTS;
    for (; at < end; at++) {
        uint64_t entry = swap(at, 0);
        if (!entry) continue;
        see(block_of(entry));
        /* In the meantime the slot may have got another block, which then takes a place at the head. */
        put_back(swap(at, entry));
        put_back(stranded(at));
    }
}
