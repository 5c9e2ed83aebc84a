#include "observe/residency.h"

#include "base/bits.h"
#include "base/classes.h"
#include "observe/class_use.h"
#include "store/chunk.h"
#include "store/edge.h"
#include "store/large.h"
#include "store/pages.h"
#include "store/window.h"
#include "system/system.h"

/* Pages of 4 KiB in a chunk. Where pages are larger, fewer of these bytes are used. */
#define CHUNK_PAGES (FH_CHUNK_SIZE / (4 * FH_KIB))
/* Chunks of the room behind a block that are looked at. More room than that has hardly any memory. */
#define CHUNKS_BEYOND 16u

/* A chunk, and which of its pages have memory. */
typedef struct {
    size_t first; /* its first slot */
    size_t page;  /* bytes of a page */
    unsigned char pages[CHUNK_PAGES];
} chunk_pages;

/* Bytes that are in memory of those from `begin` to `end` in the chunk. Only whole pages count. */
static uint64_t resident(const chunk_pages *c, size_t begin, size_t end) {
    uint64_t bytes = 0;
    if (end > FH_CHUNK_SIZE) end = FH_CHUNK_SIZE;
    for (size_t page = (begin + c->page - 1) / c->page; (page + 1) * c->page <= end; page++)
        if (c->pages[page] & 1) bytes += c->page;
    return bytes;
}

/* Bytes in memory between `begin`, where the last block ends, and the end of its page. A slab of each class has one such piece:
 * together they are hundreds of KiB. */
static uint64_t resident_tail(const chunk_pages *c, size_t begin) {
    size_t page = begin / c->page;
    if (begin % c->page == 0 || begin >= FH_CHUNK_SIZE || !(c->pages[page] & 1)) return 0;
    return (page + 1) * c->page - begin;
}

/* As `resident`, of what begins in this chunk and may end in another one. */
static uint64_t resident_room(const chunk_pages *c, size_t begin, size_t end) {
    uint64_t bytes = resident(c, begin, end);
    size_t chunk = begin / FH_CHUNK_SIZE ? begin / FH_CHUNK_SIZE : 1, last = chunk + CHUNKS_BEYOND;
    for (; chunk * FH_CHUNK_SIZE < end && chunk < last; chunk++) {
        chunk_pages next = {.first = c->first + chunk * FH_CHUNK_SLOTS, .page = c->page};
        if (!fh_system_resident(fh_slot_address(next.first), FH_CHUNK_SIZE, next.pages)) break;
        size_t before = chunk * FH_CHUNK_SIZE;
        bytes += resident(&next, begin > before ? begin - before : 0, end - before);
    }
    return bytes;
}

/* Bytes between two places in the chunk, or from the first one into those behind it, that lie on pages without memory. A page
 * that something before them is on too does not count. */
static uint64_t absent(const chunk_pages *c, size_t begin, size_t end) {
    begin = fh_round_up(begin, c->page);
    if (end <= begin) return 0;
    size_t last = end / c->page * c->page;
    uint64_t bytes = last - begin - resident_room(c, begin, last);
    bool ends_without = last < end && last < FH_CHUNK_SIZE && !(c->pages[last / c->page] & 1);
    return bytes + (ends_without ? end - last : 0);
}

/* Of blocks of a row that are not free. Which ones are in a cache is not looked up: they are alike. */
static void add_absent_used(fh_profile_statistics *f, unsigned kind, uint64_t bytes) {
    const fh_profile_row *row = &f->row[kind];
    uint64_t used = row->live + row->cached, cached = used ? bytes * row->cached / used : 0;
    f->absent_cached_bytes += cached;
    f->absent_held_bytes += bytes - cached;
}

/* Those of a slab: pages whose blocks are all free count as free. Those that were purged have been counted. */
static void add_absent_in_slab(fh_profile_statistics *f, const chunk_pages *c, size_t slot, unsigned kind,
                               unsigned made) {
    size_t begin = (slot - c->first) * FH_SLOT_SIZE;
    uint64_t bytes = absent(c, begin, begin + made * fh_class_size(kind)), free = 0;
    if (bytes == 0 || fh_statistics_use(kind) != FH_PROFILE_USE_PROGRAM) return;
    if (kind <= FH_SMALL_LAST) free = fh_pages_missing(slot, kind, made, c->pages + begin / c->page) * c->page;
    if (free > bytes) free = bytes;
    if (!fh_pages_were_purged()) f->absent_free_bytes += free;
    add_absent_used(f, kind, bytes - free);
}

/* The large block that begins in a slot, if one does. Those above FH_PROFILE_HUGE are left to the reader. */
static void add_absent_of_large(fh_profile_statistics *f, const chunk_pages *c, size_t slot) {
    size_t used, slots;
    const char *block = fh_large_in(slot, &used, &slots);
    if (!block || used > slots * FH_SLOT_SIZE || used > FH_PROFILE_HUGE) return;
    size_t begin = (size_t)(block - fh_slot_address(c->first));
    bool cacheable = used > FH_SLOT_SIZE && used <= FH_RUN_CACHED_MAX;
    add_absent_used(f, cacheable ? fh_class_run(used) : FH_FIGURES_LARGE, absent(c, begin, begin + used));
}

/* The free pages of an edge that no block has written to. Those that one has are counted as free. */
static uint64_t resident_gaps(const chunk_pages *c, size_t slot) {
    uint64_t clean = fh_load(&fh_slab_at(slot)->clean) & fh_edge_free(slot), bytes = 0;
    size_t begin = (slot - c->first) * FH_SLOT_SIZE;
    for (size_t i = 0; i < FH_SLOT_PAGES; i++)
        if (clean >> i & 1 && c->pages[(begin + i * FH_PAGE) / c->page] & 1) bytes += FH_PAGE;
    return bytes;
}

/* Slots of sampled blocks that are larger than a page: those of their pages that have no memory. */
static void add_absent(fh_profile_statistics *f, const chunk_pages *c, size_t slot, unsigned kind, unsigned made) {
    size_t size = fh_class_size(kind), begin = (slot - c->first) * FH_SLOT_SIZE;
    if (size < c->page) return;
    for (unsigned i = 0; i < made; i++) {
        uint64_t absent = size - resident_room(c, begin + i * size, begin + (i + 1) * size);
        bool free = fh_load(&fh_slab_at(slot)->free[i / 64]) >> i % 64 & 1;
        *(free ? &f->absent_free_bytes : &f->absent_live_bytes) += absent;
    }
}

/* Of the slot, or of the slots of what begins there, the room that no block has had. *slots: how many these are. */
static uint64_t resident_fresh(fh_profile_statistics *f, const chunk_pages *c, size_t slot, size_t *slots) {
    uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
    unsigned kind = fh_state_class(state);
    size_t begin = (slot - c->first) * FH_SLOT_SIZE, used = 0, touched;
    *slots = 1;
    if (kind == FH_CLASS_EDGE || kind == FH_KIND_RUN) add_absent_of_large(f, c, slot);
    if (kind == FH_CLASS_EDGE) return resident_gaps(c, slot);
    if (kind == FH_KIND_RUN) {
        *slots = fh_state_run_slots(state);
        if (!fh_large_in(slot, &used, &touched)) return 0; /* it was freed while it was read */
    } else if (kind < FH_CLASSES) {
        unsigned made = fh_state_bump(state), room = fh_class_table[kind].blocks;
        *slots = fh_class_table[kind].slots;
        if (made > room) made = room;
        used = made * fh_class_size(kind);
        if (kind >= FH_CLASS_SAMPLE && kind <= FH_SAMPLE_LAST) add_absent(f, c, slot, kind, made);
        add_absent_in_slab(f, c, slot, kind, made);
    } else {
        return 0;
    }
    if (*slots == 0) *slots = 1;
    begin += used;
    return resident_tail(c, begin) + resident_room(c, begin, begin - used + *slots * FH_SLOT_SIZE);
}

/* False: the kernel does not say. */
static bool measure_chunk(fh_profile_statistics *f, const fh_chunk *chunk, size_t number) {
    chunk_pages c = {.first = number * FH_CHUNK_SLOTS, .page = fh_system_page_size()};
    size_t i = fh_chunk_first_own(number) - c.first, slots;
    if (i >= FH_CHUNK_SLOTS) return true; /* all of it is in the middle of a block */
    if (!fh_system_resident(fh_slot_address(c.first), FH_CHUNK_SIZE, c.pages)) return false;
    uint64_t free = fh_load(&chunk->free);
    for (; i < FH_CHUNK_SLOTS; i += slots) {
        slots = 1;
        if (free >> i & 1) {
            f->resident_free_bytes += resident(&c, i * FH_SLOT_SIZE, (i + 1) * FH_SLOT_SIZE);
        } else {
            f->resident_fresh_bytes += resident_fresh(f, &c, c.first + i, &slots);
        }
    }
    return true;
}

void fh_residency_measure(fh_profile_statistics *f) {
    bool told = true;
    f->resident_free_bytes = f->resident_fresh_bytes = 0;
    f->absent_live_bytes = f->absent_free_bytes = 0;
    f->absent_held_bytes = f->absent_cached_bytes = 0;
    for (size_t number = 0; number < fh_window_chunks(); number++) {
        const fh_region *region = fh_region_at(number / FH_REGION_CHUNKS);
        if (!region || fh_window_misses(number)) continue;
        told = measure_chunk(f, &region->chunk[number % FH_REGION_CHUNKS], number) && told;
    }
    f->measured = told;
}
