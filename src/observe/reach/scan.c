#include "observe/reach/scan.h"

#include "base/classes.h"
#include "observe/class_use.h"
#include "observe/profile_words.h"
#include "store/depot.h"
#include "store/guarded.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/window.h"
#include "system/inspect.h"
#include "system/system.h"

#include <string.h>

/* Blocks that were reached and whose contents were not searched yet. When there is no room for one more, everything that
 * was reached is searched again once the others are done: slower, and never wrong. */
#define STACK_MOST ((size_t)1 << 20)
#define NOTHING 0xFFu   /* in back[]: no slab and no large block, */
#define BY_RECORD 0xFEu /* or a large block has a part of the slot: fh_large_around says which */
#define PAGES_AT_ONCE 256u

typedef struct {
    uintptr_t begin, end;
} range;

typedef struct {
    uintptr_t begin;
    size_t size;
    bool reached;
} huge_block;

/*     a word w ──▶ in the window?  slot = (w − base) / 64 KiB, head = slot − back[slot], block = offset / size of the class
 *                                  reached: bit `block` of reached[head]
 *              ──▶ else:           the huge block around it, by binary search; reached: its flag */
struct fh_reach {
    size_t slots;
    uint8_t *back;                      /* how many slots before it the slab or run begins */
    uint64_t (*reached)[FH_SLAB_WORDS]; /* of the slot where it begins */
    huge_block *huge;                   /* ascending */
    size_t huge_count, huge_room;
    uintptr_t huge_low, huge_high;
    range *stack;
    size_t depth;
    bool overflown;
    range own[8]; /* mappings of the scan itself */
    unsigned owns;
    uint64_t root_bytes, block_bytes, skipped_bytes;
    uint64_t reached_bytes, told; /* blocks that were reached; bytes searched when that was last told */
    fh_profile_scan *answer;
    _Alignas(8) char buffer[FH_MAPPINGS_BYTES];
};

static void *map(fh_reach *r, size_t bytes) {
    void *p = fh_system_map(bytes, fh_system_page_size());
    if (p && r) r->own[r->owns++] = (range){(uintptr_t)p, (uintptr_t)p + fh_round_up(bytes, fh_system_page_size())};
    return p;
}

/* ── What is free ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block in a cache is free, though the heap's words do not say so: here they are made to. This is the scan's own copy of
 * them. */
static void set_free(const fh_reach *r, unsigned c, const void *block) {
    if (!fh_in_window(block)) return;
    size_t slot = fh_slot_of(block);
    if (slot >= r->slots || r->back[slot] == NOTHING) return;
    if (fh_class_is_run(c)) {
        fh_store(&fh_slab_at(slot)->pages, 0);
        return;
    }
    if (r->back[slot] == BY_RECORD) return;
    slot -= r->back[slot];
    fh_slab *slab = fh_slab_at(slot);
    uint64_t state = fh_load(&slab->state);
    bool borrowed = fh_state_kind(state) == FH_CLASS_BORROWED;
    if (!borrowed && fh_state_kind(state) != c) return;
    unsigned i = fh_block_index(fh_state_class(state), (size_t)((const char *)block - fh_slot_address(slot)));
    unsigned units = borrowed ? fh_holes_parts(slab, i % fh_state_bump(state)) : 1;
    fh_or_release(&slab->free[i / 64 % FH_SLAB_WORDS], fh_run_mask(i % 64, units));
}

static void set_magazine_free(const fh_reach *r, unsigned c, const fh_magazine *m, size_t count) {
    const size_t most = ((size_t)64 << (FH_MAGAZINE_SIZES - 1)) / sizeof(void *);
    if (!m || !fh_in_window(m) || count > most) return;
    for (size_t i = 0; i < count; i++) set_free(r, c, m->block[i]);
}

/* A thread that was in the middle of a change may show a magazine twice, or not at all: some blocks too many or too few count
 * as free. What is read stays inside of magazines. */
static void set_thread_free(const fh_reach *r, const fh_thread *t) {
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_rack *rack = &t->rack[c];
        size_t loaded = rack->loaded ? (size_t)(t->bin[c].top - rack->loaded->block) : 0;
        set_magazine_free(r, c, rack->loaded, loaded);
        if (rack->previous && fh_in_window(rack->previous))
            set_magazine_free(r, c, rack->previous, rack->previous->count);
    }
}

static void set_threads_free(const fh_reach *r, size_t slot, unsigned made) {
    for (unsigned i = 0; i < made; i++) {
        const fh_thread *t = (const fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
        uint64_t life = fh_load(&t->state);
        if (life == FH_THREAD_LIVE || life == FH_THREAD_BUSY || life == FH_THREAD_PARKED) set_thread_free(r, t);
    }
}

static void set_caches_free(fh_reach *r) {
    uint64_t state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE && slot < r->slots; slot++) {
        if (fh_state_kind(state) == FH_CLASS_THREAD) set_threads_free(r, slot, fh_state_bump(state));
    }
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_magazine *m;
        while ((m = fh_depot_get(c, 0, NULL)) != NULL) set_magazine_free(r, c, m, m->count);
    }
}

/* ── Beginning ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_large(uint64_t state) {
    return fh_state_kind(state) == FH_KIND_RUN || fh_state_kind(state) == FH_CLASS_EDGE;
}

static bool is_huge(size_t slot, size_t *size) {
    size_t slots;
    return fh_large_in(slot, size, &slots) && *size > FH_PROFILE_HUGE;
}

static size_t count_huge(void) {
    size_t count = 0, size;
    uint64_t state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++)
        count += is_large(state) && is_huge(slot, &size);
    return count;
}

static void note_huge(fh_reach *r, uintptr_t begin, size_t size) {
    if (r->huge_count == r->huge_room) return;
    r->huge[r->huge_count++] = (huge_block){begin, size, false};
    if (r->huge_count == 1) r->huge_low = begin;
    r->huge_high = begin + size;
}

/* The slots of the large block that begins in this one. A huge one has an entry in a list instead. */
static void mark_large(fh_reach *r, size_t slot) {
    size_t size, slots;
    if (is_huge(slot, &size)) {
        note_huge(r, (uintptr_t)fh_slot_address(slot), size);
    } else if (fh_large_in(slot, &size, &slots)) {
        memset(&r->back[slot], BY_RECORD, slots < r->slots - slot ? slots : r->slots - slot);
    }
}

/* How far each slot is from the first one of its slab. */
static void find_heads(fh_reach *r) {
    uint64_t state;
    memset(r->back, NOTHING, r->slots);
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE && slot < r->slots; slot++) {
        unsigned kind = fh_state_class(state);
        if (is_large(state)) {
            mark_large(r, slot);
        } else if (kind < FH_CLASSES) {
            for (unsigned i = 0; i < fh_class_table[kind].slots && slot + i < r->slots; i++)
                r->back[slot + i] = (uint8_t)i;
        }
    }
}

fh_reach *fh_reach_begin(fh_profile_scan *answer) {
    fh_reach *r = map(NULL, sizeof *r);
    if (!r) return NULL;
    r->answer = answer;
    r->own[r->owns++] = (range){(uintptr_t)r, (uintptr_t)r + sizeof *r};
    r->slots = fh_window_chunks() * FH_CHUNK_SLOTS;
    r->huge_room = count_huge() + 1;
    r->back = map(r, r->slots + 1);
    r->reached = map(r, (r->slots + 1) * sizeof r->reached[0]);
    r->huge = map(r, r->huge_room * sizeof r->huge[0]);
    r->stack = map(r, STACK_MOST * sizeof r->stack[0]);
    if (!r->back || !r->reached || !r->huge || !r->stack) return NULL;
    find_heads(r);
    set_caches_free(r);
    return r;
}

/* ── One word ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A live block, and where it is noted that it was reached. */
typedef struct {
    uintptr_t begin;
    size_t size;
    uint64_t *word;
    uint64_t bits; /* of the word: one, or several of a guest block */
    bool *flag;    /* of a huge block, which has no bit */
} found;

static bool find_large(const fh_reach *r, uintptr_t address, found *f) {
    const void *begin = fh_large_around((const void *)address); // NOLINT(performance-no-int-to-ptr)
    if (!begin) return false;
    f->begin = (uintptr_t)begin;
    f->size = fh_large_size(begin);
    f->word = &r->reached[fh_slot_of(begin)][0];
    f->bits = 1;
    return true;
}

static bool find_in_window(const fh_reach *r, uintptr_t address, found *f) {
    size_t slot = fh_slot_of((const void *)address);
    if (slot >= r->slots || r->back[slot] == NOTHING) return false;
    if (r->back[slot] == BY_RECORD) return find_large(r, address, f);
    slot -= r->back[slot];
    const fh_slab *slab = fh_slab_at(slot);
    uint64_t state = fh_load(&slab->state);
    unsigned kind = fh_state_class(state), i = 0, units = 1;
    uintptr_t begin = (uintptr_t)fh_slot_address(slot);
    /* The allocator's own are no blocks of the program. */
    if (kind >= FH_CLASSES || fh_statistics_use(kind) == FH_PROFILE_USE_OWN) return false;
    i = fh_block_index(kind, address - begin);
    if (i >= fh_state_bump(state) || (fh_load(&slab->free[i / 64]) >> i % 64 & 1)) return false;
    f->size = fh_class_size(kind);
    if (fh_state_kind(state) == FH_CLASS_BORROWED) {
        while (fh_holes_is_joined(slab, i)) i--;
        units = fh_holes_parts(slab, i);
    }
    f->begin = begin + i * f->size;
    f->size *= units;
    f->word = &r->reached[slot][i / 64];
    f->bits = fh_run_mask(i % 64, units);
    return true;
}

static bool find_huge(const fh_reach *r, uintptr_t address, found *f) {
    size_t low = 0, high = r->huge_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->huge[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || address - r->huge[low - 1].begin >= r->huge[low - 1].size) return false;
    f->begin = r->huge[low - 1].begin;
    f->size = r->huge[low - 1].size;
    f->flag = &r->huge[low - 1].reached;
    return true;
}

static bool find(const fh_reach *r, uintptr_t address, found *f) {
    f->flag = NULL;
    if (fh_in_window((const void *)address) && find_in_window(r, address, f)) return true;
    return address - r->huge_low < r->huge_high - r->huge_low && find_huge(r, address, f);
}

static bool is_reached(const found *f) {
    return f->flag ? *f->flag : (*f->word & f->bits) != 0;
}

static void push(fh_reach *r, const found *f) {
    if (r->depth == STACK_MOST) {
        r->overflown = true;
        return;
    }
    r->stack[r->depth++] = (range){f->begin, f->begin + f->size};
}

static inline void reach(fh_reach *r, uintptr_t word) {
    found f;
    if (!find(r, word, &f) || is_reached(&f)) return;
    if (f.flag) {
        *f.flag = true;
    } else {
        *f.word |= f.bits;
    }
    r->reached_bytes += f.size;
    push(r, &f);
}

/* relaxed: nothing is read through them. */
static void tell(fh_reach *r) {
    uint64_t searched = r->root_bytes + r->block_bytes;
    if (searched - r->told < FH_MIB) return;
    r->told = searched;
    fh_store(fh_profile_word(&r->answer->searched_so_far), searched);
    fh_store(fh_profile_word(&r->answer->reached_so_far), r->reached_bytes);
}

/* ── Ranges ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Not seen by sanitizers: it reads whatever there is. */
__attribute__((no_sanitize("address", "thread"))) static void search(fh_reach *r, uintptr_t begin, uintptr_t end) {
    for (uintptr_t at = fh_round_up(begin, sizeof(uintptr_t)); at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
        reach(r, *(const volatile uintptr_t *)at);
    }
}

/* The same for what may be large and nearly empty: only pages with contents. */
static uint64_t search_pages(fh_reach *r, uintptr_t begin, uintptr_t end) {
    unsigned char has[PAGES_AT_ONCE];
    size_t page = fh_system_page_size();
    uint64_t searched = 0;
    for (uintptr_t at = begin; at < end;) {
        uintptr_t first = at & ~(page - 1);
        size_t pages = fh_round_up(end - first, page) / page;
        size_t known = fh_snapshot_contents(first, pages < PAGES_AT_ONCE ? pages : PAGES_AT_ONCE, has);
        size_t step = known ? known : 1;
        for (size_t i = 0; i < step; i++) {
            uintptr_t from = first + i * page, to = from + page;
            if (from < at) from = at;
            if (to > end) to = end;
            if (known && !has[i]) continue;
            /* To the kernel a guard has contents. */
            if (fh_in_guards((const void *)from) && !fh_system_readable(from, to))
                continue; // NOLINT(performance-no-int-to-ptr)
            search(r, from, to);
            searched += to - from;
        }
        at = first + step * page;
    }
    return searched;
}

#define LARGE (128 * FH_KIB)

static void search_block(fh_reach *r, range b) {
    if (b.end - b.begin < LARGE) {
        search(r, b.begin, b.end);
        r->block_bytes += b.end - b.begin;
    } else {
        r->block_bytes += search_pages(r, b.begin, b.end);
    }
    tell(r);
}

static void drain(fh_reach *r) {
    while (r->depth > 0) search_block(r, r->stack[--r->depth]);
}

/* Everything that was reached, once more. */
static void search_again(fh_reach *r) {
    r->overflown = false;
    for (size_t slot = 0; slot < r->slots; slot++) {
        size_t size, slots;
        if (r->back[slot] == BY_RECORD && r->reached[slot][0] & 1) {
            uintptr_t begin = (uintptr_t)fh_large_in(slot, &size, &slots);
            search_block(r, (range){begin, begin + size});
            drain(r);
        }
        if (r->back[slot] != 0) continue;
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        size = fh_class_size(fh_state_class(state));
        for (unsigned i = 0; i < FH_SLAB_WORDS * 64; i++) {
            if (!(r->reached[slot][i / 64] >> i % 64 & 1)) continue;
            uintptr_t begin = (uintptr_t)fh_slot_address(slot) + i * size;
            search_block(r, (range){begin, begin + size});
            drain(r);
        }
    }
    for (size_t i = 0; i < r->huge_count; i++) {
        const huge_block *b = &r->huge[i];
        if (b->reached) search_block(r, (range){b->begin, b->begin + b->size});
        drain(r);
    }
}

/* ── Roots ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_in(uintptr_t at, uintptr_t begin, uintptr_t end, range *around) {
    if (at < begin || at >= end) {
        /* The nearest one that begins behind it. */
        if (begin > at && begin < around->begin) *around = (range){begin, end};
        return false;
    }
    *around = (range){begin, end};
    return true;
}

/* The heap itself, its metadata and the scan's own memory are no roots. True if `at` is in such a range; *around is that
 * one, else the next one behind. */
static bool is_no_root(const fh_reach *r, uintptr_t at, range *around) {
    uintptr_t base = fh_window_base();
    found f;
    *around = (range){UINTPTR_MAX, UINTPTR_MAX};
    if (is_in(at, base - FH_CLASS_MAP_SIZE, base + FH_WINDOW_SIZE, around)) return true;
    for (unsigned i = 0; i < r->owns; i++) {
        if (is_in(at, r->own[i].begin, r->own[i].end, around)) return true;
    }
    for (size_t i = 0; i * FH_REGION_SLOTS < r->slots; i++) {
        uintptr_t region = (uintptr_t)fh_region_at(i);
        if (region && is_in(at, region, region + sizeof(fh_region), around)) return true;
    }
    for (size_t i = 0; i * FH_RECORDS_SLOTS < r->slots; i++) {
        uintptr_t records = (uintptr_t)fh_records_at(i);
        if (records && is_in(at, records, records + sizeof(fh_records), around)) return true;
    }
    if (find_huge(r, at, &f)) {
        *around = (range){f.begin, f.begin + f.size};
        return true;
    }
    for (size_t i = 0; i < r->huge_count; i++) {
        if (r->huge[i].begin <= at) continue;
        (void)is_in(at, r->huge[i].begin, r->huge[i].begin + r->huge[i].size, around);
        break;
    }
    return false;
}

static void search_root(fh_reach *r, uintptr_t begin, uintptr_t end) {
    for (uintptr_t at = begin; at < end;) {
        range around;
        if (is_no_root(r, at, &around)) {
            at = around.end;
            continue;
        }
        uintptr_t stop = around.begin < end ? around.begin : end;
        r->root_bytes += search_pages(r, at, stop);
        drain(r);
        at = stop;
    }
}

/* A program may forbid itself to read parts of its blocks (guard pages); a copy may read them. */
static void allow(const fh_reach *r, const fh_mapping *line) {
    found f;
    bool heap = fh_in_window((const void *)line->begin) ? fh_slot_of((const void *)line->begin) < r->slots
                                                        : find_huge(r, line->begin, &f);
    if (heap) fh_snapshot_make_readable(line->begin, line->end);
}

bool fh_reach_follow(fh_reach *r, uintptr_t stack) {
    /* Twice, as what is not readable must be so before anything is followed. */
    for (unsigned pass = 0; pass < 2; pass++) {
        fh_mapping line;
        fh_mappings *list = fh_system_mappings_open(r->buffer, sizeof r->buffer);
        if (!list) return false;
        while (fh_system_mappings_next(list, &line)) {
            if (pass == 0) {
                if (!line.readable) allow(r, &line);
            } else if (line.readable && line.writable && line.shared) {
                r->skipped_bytes += line.end - line.begin;
            } else if (line.readable && line.writable) {
                bool here = stack >= line.begin && stack < line.end;
                search_root(r, here ? stack : line.begin, line.end);
            }
        }
        if (!fh_system_mappings_close(list)) return false;
    }
    while (r->overflown) search_again(r);
    return true;
}

/* ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_reach_reached(const fh_reach *r, uintptr_t address, bool *live) {
    found f;
    *live = find(r, address, &f);
    return *live && is_reached(&f);
}

static void add(fh_profile_scan *answer, uint64_t reached, uint64_t all, uint64_t size) {
    answer->reachable_blocks += reached;
    answer->reachable_bytes += reached * size;
    answer->unreachable_blocks += all - reached;
    answer->unreachable_bytes += (all - reached) * size;
}

static void count_slab(const fh_reach *r, size_t slot, unsigned c, uint64_t state, fh_profile_scan *answer) {
    unsigned made = fh_state_bump(state);
    uint64_t reached = 0, live = 0;
    for (unsigned w = 0; w * 64 < made; w++) {
        unsigned here = made - w * 64 < 64 ? made - w * 64 : 64;
        live += fh_count_bits(~fh_load(&fh_slab_at(slot)->free[w]) & fh_low_mask(here));
        reached += fh_count_bits(r->reached[slot][w]);
    }
    answer->row[c].reachable += reached;
    answer->row[c].unreachable += live - reached;
    add(answer, reached, live, fh_class_size(c));
}

static void count_large(const fh_reach *r, size_t slot, fh_profile_scan *answer) {
    size_t bytes, slots;
    if (!fh_large_in(slot, &bytes, &slots)) return;
    unsigned c = bytes > FH_SLOT_SIZE && bytes <= FH_RUN_CACHED_MAX ? fh_class_run(bytes) : FH_FIGURES_LARGE;
    uint64_t reached = r->reached[slot][0] & 1;
    answer->row[c].reachable += reached;
    answer->row[c].unreachable += 1 - reached;
    add(answer, reached, 1, bytes);
}

void fh_reach_count(const fh_reach *r, fh_profile_scan *answer) {
    uint64_t state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE && slot < r->slots; slot++) {
        unsigned kind = fh_state_class(state);
        if (r->back[slot] == BY_RECORD) {
            count_large(r, slot, answer);
        } else if (kind < FH_CLASSES && r->back[slot] == 0 && fh_statistics_use(kind) != FH_PROFILE_USE_OWN) {
            count_slab(r, slot, kind, state, answer);
        }
    }
    for (size_t i = 0; i < r->huge_count; i++) {
        answer->huge_reachable += r->huge[i].reached;
        answer->huge_unreachable += !r->huge[i].reached;
        add(answer, r->huge[i].reached, 1, r->huge[i].size);
    }
    answer->root_bytes = r->root_bytes;
    answer->block_bytes = r->block_bytes;
    answer->skipped_bytes = r->skipped_bytes;
}
