#include "store/thp.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/tuning.h"
#include "store/events.h"
#include "store/stretch.h"
#include "store/window.h"
#include "system/system.h"

#define ADVISED_SHIFT 2
#define ADVISED (UINT64_C(3) << ADVISED_SHIFT)
#define ASKED_SHIFT 4

/* At most FH_ADVISED_CHUNKS. */
static fh_word advised_chunks;

bool fh_thp_is_near(void) {
    size_t used = fh_used_bytes(), young = (size_t)fh_load(&fh_order.thp_first_chunk);
    if (young > FH_YOUNG_CHUNKS) return false; /* no huge page is wanted */
    return used < young * FH_CHUNK_SIZE && used >= young * (FH_CHUNK_SIZE - FH_CHUNK_SIZE / 4);
}

bool fh_thp_is_young(void) {
    return fh_used_bytes() < FH_YOUNG_CHUNKS * FH_CHUNK_SIZE;
}

bool fh_thp_is_huge(size_t chunk) {
    return fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->huge) >> chunk % FH_REGION_CHUNKS & 1;
}

/* True if so many halves that begin now are to do without. Relaxed: of two threads that count down at once one is lost,
 * which costs one huge page too many or too few. */
static bool pass_over(unsigned halves) {
    uint64_t skip = fh_load(&fh_order.thp_skip);
    if (FH_LIKELY(skip == 0)) return false;
    fh_cas_relaxed(&fh_order.thp_skip, &skip, skip > halves ? skip - halves : 0);
    return true;
}

/* ── Halves that are split ───────────────────────────────────────────────────────────────────────────────────────── */

bool fh_thp_is_split(size_t index, unsigned half) {
    FH_ASSERT(half < 2);
    return fh_load(&fh_chunk_at(index)->split) & UINT64_C(1) << half;
}

bool fh_thp_split(size_t index, unsigned half, size_t free) {
    if (!fh_thp_is_split(index, half)) {
        if (free < fh_load(&fh_order.thp_split_bytes)) return false;
        fh_or_acq_rel(&fh_chunk_at(index)->split, UINT64_C(1) << half);
    }
    fh_event_split();
    return true;
}

static void advise(size_t chunk, unsigned half, bool wanted) {
    size_t slot = chunk * FH_CHUNK_SLOTS + half * FH_CHUNK_SLOTS / 2;
    fh_system_huge_pages(fh_slot_address(slot), FH_HUGE_PAGE, wanted);
}

void fh_thp_keep_split(size_t index, unsigned half) {
    fh_chunk *chunk = fh_chunk_at(index);
    FH_ASSERT(half < 2);
    uint64_t bit = UINT64_C(1) << (ADVISED_SHIFT + half), asked = UINT64_C(1) << (ASKED_SHIFT + half);
    uint64_t seen = fh_load(&chunk->split);
    if (seen & asked) fh_and_acq_rel(&chunk->split, ~asked); /* it will have less memory than it had */
    if (seen & bit || !fh_thp_is_huge(index)) return;
    if (!(seen & ADVISED) && fh_load(&advised_chunks) >= FH_ADVISED_CHUNKS) return;
    fh_add_relaxed(&advised_chunks, 1); /* before the bit: who clears that subtracts */
    uint64_t before = fh_or_acq_rel(&chunk->split, bit);
    if (before & ADVISED) fh_sub_relaxed(&advised_chunks, 1);
    if (!(before & bit)) advise(index, half, false);
}

void fh_thp_keep_slots_split(size_t first_slot, size_t last_slot) {
    for (size_t half = first_slot / (FH_CHUNK_SLOTS / 2); half <= last_slot / (FH_CHUNK_SLOTS / 2); half++)
        fh_thp_keep_split(half / 2, half % 2);
}

/* These halves, as bits 0 and 1, are whole again. Returns those about which the kernel was advised. */
static uint64_t forget_split(size_t index, uint64_t halves) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bits = halves | halves << ADVISED_SHIFT | halves << ASKED_SHIFT,
             before = fh_and_acq_rel(&chunk->split, ~bits);
    if (before & ADVISED && !(before & ADVISED & ~bits)) {
        uint64_t chunks = fh_sub_relaxed(&advised_chunks, 1);
        FH_ASSERT(chunks >= 1);
    }
    return before >> ADVISED_SHIFT & halves;
}

void fh_thp_join(size_t index, uint64_t halves) {
    if (FH_LIKELY(!fh_load(&fh_chunk_at(index)->split)) || !halves) return;
    uint64_t advised = forget_split(index, halves);
    for (unsigned half = 0; half < 2; half++) {
        if (advised >> half & 1) advise(index, half, true);
    }
}

void fh_thp_renewed(size_t slot, size_t n) {
    for (size_t end = slot + n, next; slot < end; slot = next) {
        next = (slot / (FH_CHUNK_SLOTS / 2) + 1) * (FH_CHUNK_SLOTS / 2);
        if (next > end) next = end;
        size_t chunk = slot / FH_CHUNK_SLOTS;
        unsigned half = slot % FH_CHUNK_SLOTS >= FH_CHUNK_SLOTS / 2;
        /* A half that was split keeps small pages until it is purged whole; that is said again then. */
        if (fh_thp_is_huge(chunk) && !(fh_load(&fh_chunk_at(chunk)->split) >> half & 1))
            fh_system_huge_pages(fh_slot_address(slot), (next - slot) * FH_SLOT_SIZE, true);
    }
}

/* ── Chunks and halves that begin ────────────────────────────────────────────────────────────────────────────────── */

/* Writes the chunk's bit; with it the caller advises the kernel. */
static void note_huge(size_t chunk, bool huge) {
    fh_word *word = &fh_region_at(chunk / FH_REGION_CHUNKS)->huge;
    uint64_t bit = UINT64_C(1) << chunk % FH_REGION_CHUNKS;
    if (((fh_load(word) & bit) != 0) != huge) huge ? fh_or_release(word, bit) : fh_and_acq_rel(word, ~bit);
}

/* Pages of these slots of a chunk, and how many of them have memory; both are added. False: the kernel does not say. */
static bool count_pages(size_t chunk, uint64_t slots, size_t *all, size_t *resident) {
    unsigned char pages[FH_CHUNK_SIZE / (4 * FH_KIB)]; /* they are no smaller */
    size_t per_slot = FH_SLOT_SIZE / fh_system_page_size();
    if (!fh_system_resident(fh_slot_address(chunk * FH_CHUNK_SLOTS), FH_CHUNK_SIZE, pages)) return false;
    for (; slots; slots &= slots - 1) {
        const unsigned char *of_slot = pages + fh_lowest_bit(slots) * per_slot;
        *all += per_slot;
        *resident += fh_pages_resident(of_slot, per_slot);
    }
    return true;
}

bool fh_thp_is_filled(size_t chunk) {
    size_t all = 0, resident = 0;
    return !count_pages(chunk, FH_CHUNK_ALL, &all, &resident) || resident >= all - all / 4;
}

/* Chunks before one that are asked whether the program touches what it has. */
#define NEIGHBOURS 4u

/* Of what was claimed of the chunks just before this one, as far as they are on small pages, so many quarters have memory. Where
 * the neighbours are on huge pages nothing is known, and it is four. If the kernel does not say it is `unknown`. Cost: a system
 * call a chunk. */
static size_t touched_quarters(size_t chunk, size_t unknown) {
    size_t claimed = 0, resident = 0;
    for (size_t i = chunk > NEIGHBOURS ? chunk - NEIGHBOURS : 0; i < chunk; i++) {
        if (!fh_region_at(i / FH_REGION_CHUNKS) || fh_thp_is_huge(i) || fh_window_misses(i)) continue;
        uint64_t used = ~fh_load(&fh_chunk_at(i)->free); /* all, of one that another thread begins at this moment */
        if (!count_pages(i, used, &claimed, &resident)) return unknown;
    }
    return claimed ? 4 * resident / claimed : 4;
}

/* True if half of what slabs have was not handed out once, their ends, and slabs are a quarter of the heap. Cost: a load for
 * each slot in use. */
static bool is_sparse(void) {
    size_t slabs = 0, untouched = 0;
    uint64_t state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        unsigned c = fh_state_class(state);
        if (fh_state_kind(state) == FH_KIND_RUN || c == FH_CLASS_EDGE) continue;
        slabs += fh_class_table[c].slots * FH_SLOT_SIZE;
        untouched += fh_class_table[c].slots * FH_SLOT_SIZE - fh_state_bump(state) * fh_class_size(c);
    }
    return untouched > slabs / 2 && slabs > fh_used_bytes() / 4;
}

/* First slots of heaps of the embedding API. Relaxed: a figure to steer by. */
static fh_word heaps;

void fh_thp_count_heap(int change) {
    fh_add_relaxed(&heaps, (uint64_t)(int64_t)change);
}

const fh_word *fh_thp_heaps(void) {
    return &heaps;
}

static bool heaps_dominate(void) {
    return fh_load(&heaps) * FH_SLOT_SIZE > fh_used_bytes() / 2;
}

/* Chunks that the heap has had when this one came. */
static size_t age_of(size_t index) {
    unsigned partition = fh_partition_of_slot(index * FH_CHUNK_SLOTS);
    if (FH_LIKELY(!partition)) return index;
    /* Blocks are anywhere in their slabs, and there are guards between these. */
    if (partition & FH_PARTITION_HARDENED) return 0;
    return fh_used_bytes() / FH_CHUNK_SIZE; /* its number says how many regions there are */
}

static bool is_old_enough(size_t index) {
    size_t first = (size_t)fh_load(&fh_order.thp_first_chunk), age = age_of(index);
    if (first == 0) return true;
    if (age < first || heaps_dominate()) return false;
    /* Huge pages would make all of it resident. */
    return (age >= FH_SPARSE_CHUNKS || !is_sparse()) && touched_quarters(index, 4) >= 2;
}

/* A young heap of which most is written may be dense a chunk later, and the policy has to know by then. */
static bool is_dense(size_t index) {
    if (index >= FH_YOUNG_CHUNKS || index + 1 < FH_DENSE_CHUNKS) return false;
    if (fh_load(&fh_order.thp_first_chunk) != FH_YOUNG_CHUNKS || heaps_dominate()) return false;
    size_t quarters = touched_quarters(index, 0);
    if (quarters >= 2) fh_event_dense();
    return quarters >= 3 && index >= fh_load(&fh_order.thp_dense_chunk);
}

typedef enum { AS_IT_LIKES, ADVISED_HUGE, ADVISED_SMALL } advice;

/* Chunks before a long block's that are asked whether the program fills such blocks. Where all of them are huge nothing could be known,
 * so one in that many stays on small pages. */
#define LONG_NEIGHBOURS 8u

/* So much longer than a block that was filled may one be of which the same is believed: what is far longer is of another kind, and
 * often a table that is filled here and there. */
#define LONG_TIMES 4u

/* Slots of the block that is over the first slot of this chunk. 0: none is, or one that shares slots with others. It may be freed at this
 * moment, and is a neighbour all the same. */
static size_t slots_over(size_t chunk) {
    uint64_t over = fh_load_acquire(&fh_chunk_at(chunk)->over); /* its record */
    uint64_t state = over ? fh_load(&fh_slab_at((size_t)over - 1)->state) : 0;
    return fh_state_kind(state) == FH_KIND_RUN ? fh_state_run_slots(state) : 0;
}

bool fh_thp_is_long_filled(size_t chunk, size_t slots) {
    size_t claimed = 0, resident = 0, end = chunk > LONG_NEIGHBOURS ? chunk - LONG_NEIGHBOURS : 0;
    for (size_t i = chunk; i-- > end && claimed == 0;) {
        if (!fh_region_at(i / FH_REGION_CHUNKS) || fh_thp_is_huge(i) || fh_window_misses(i)) continue;
        /* Of slabs nothing is concluded. */
        if (slots_over(i) < slots / LONG_TIMES + 1) continue;
        if (!count_pages(i, ~fh_load(&fh_chunk_at(i)->free), &claimed, &resident)) return false;
    }
    return claimed && resident >= claimed - claimed / 8;
}

/* What is advised about a chunk that begins: what is wanted, or the same as for the last one when that differed too often. Of
 * two threads at once one may be counted once too few. */
static advice next_advice(advice wanted) {
    static fh_word last, turns;
    uint64_t before = fh_load(&last);
    if (before == wanted) return wanted;
    if (fh_load(&turns) >= FH_ADVICE_TURNS) return (advice)before;
    fh_add_relaxed(&turns, 1);
    fh_store(&last, wanted);
    return wanted;
}

void fh_thp_begin_chunk(size_t chunk, fh_purpose purpose) {
    if (FH_UNLIKELY(fh_load(&fh_chunk_at(chunk)->split))) forget_split(chunk, 3);
    FH_ASSERT_COSTLY(fh_load(&fh_chunk_at(chunk)->free) == 0);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    bool always = fh_system_huge_pages_always(), forced = fh_load(&fh_order.thp_first_chunk) == 0;
    bool for_slabs = purpose == FH_FOR_SLABS;
    bool filled = for_slabs || forced || (purpose == FH_FOR_FILLED && chunk % LONG_NEIGHBOURS != 0);
    bool wanted = filled && (is_old_enough(chunk) || (for_slabs && is_dense(chunk))) && !pass_over(2);
    /* Where the kernel gives them unasked, a large block has them, unless the program wants none at all. */
    bool unasked = always && !for_slabs && fh_load(&fh_order.thp_first_chunk) <= FH_YOUNG_CHUNKS;
    advice now = next_advice(wanted ? ADVISED_HUGE : always && !unasked ? ADVISED_SMALL : AS_IT_LIKES);
    note_huge(chunk, now == ADVISED_HUGE || (always && now == AS_IT_LIKES));
    if (now != AS_IT_LIKES) fh_system_huge_pages(p, FH_CHUNK_SIZE, now == ADVISED_HUGE);
}

/* Times that chunks were advised apart from their neighbours: up to two mappings each. */
static fh_word proven;

/* These chunks were unproven, and are the caller's in whole or in part. */
static void prove(size_t chunk, size_t n) {
    if (fh_add_relaxed(&proven, 1) >= FH_PROVEN_MOST) return;
    for (size_t i = chunk; i < chunk + n; i++) note_huge(i, true);
    fh_system_huge_pages(fh_slot_address(chunk * FH_CHUNK_SLOTS), n * FH_CHUNK_SIZE, true);
}

void fh_thp_fill(size_t slot, size_t n) {
    /* Also the chunk that it has grown into from below: it will fill that next. */
    size_t chunk = (slot + FH_CHUNK_SLOTS - 1) / FH_CHUNK_SLOTS, end = (slot + n + FH_CHUNK_SLOTS - 1) / FH_CHUNK_SLOTS;
    size_t first = (size_t)fh_load(&fh_order.thp_first_chunk);
    if (n < FH_CHUNK_SLOTS || first > FH_YOUNG_CHUNKS) return;
    while (chunk < end && age_of(chunk) < first) chunk++;
    while (chunk < end) {
        size_t begin = chunk;
        while (chunk < end && !fh_thp_is_huge(chunk)) chunk++;
        if (chunk > begin) prove(begin, chunk - begin);
        while (chunk < end && fh_thp_is_huge(chunk)) chunk++;
    }
}

void fh_thp_again(size_t chunk) {
    if (!fh_thp_is_huge(chunk) && is_old_enough(chunk) && !pass_over(2)) prove(chunk, 1);
}

/* A large block may be memory that the program never touches, and a touch gives it a huge page: one in sixteen is touched while these
 * are quick, and each that is asked for while they are slow. */
#define LARGE_TOUCHED 16u

static bool is_to_be_timed(bool large) {
    static fh_word begun[2];
    uint64_t one_in = fh_load(&fh_order.thp_timed);
    if (large) one_in = fh_load(&fh_counts.touch_ns) >= FH_HUGE_TOUCH_SLOW ? 1 : LARGE_TOUCHED;
    return one_in <= 1 || fh_add_relaxed(&begun[large], 1) % one_in == 0;
}

/* After so many refusals in a row the kernel is asked once in so many times: it may have no such call. */
#define REFUSED_MOST 4u
#define ASKED_ONE_IN 64u

/* True if a quarter of it at most has memory. */
static bool has_little_memory(size_t index, unsigned half) {
    size_t all = 0, resident = 0;
    return count_pages(index, fh_low_mask(FH_CHUNK_SLOTS / 2) << half * FH_CHUNK_SLOTS / 2, &all, &resident) &&
           resident <= all / 4;
}

/* This half stays on small pages until it is purged again. */
static void leave_split(size_t index, unsigned half) {
    fh_thp_keep_split(index, half);
    uint64_t before = fh_or_acq_rel(&fh_chunk_at(index)->split, (UINT64_C(1) | UINT64_C(1) << ASKED_SHIFT) << half);
    FH_ASSERT(before >> (ASKED_SHIFT + 2) == 0);
}

/* Puts the half on one huge page, with what is in use there. */
static void gather(size_t index, unsigned half) {
    static fh_word refused;
    uint64_t nanoseconds = 0;
    if (fh_load(&refused) >= REFUSED_MOST && fh_add_relaxed(&refused, 1) % ASKED_ONE_IN != 0) return;
    if (pass_over(1)) return;
    fh_thp_join(index, UINT64_C(1) << half);
    char *p = fh_slot_address(index * FH_CHUNK_SLOTS + half * FH_CHUNK_SLOTS / 2);
    if (!fh_system_gather(p, FH_HUGE_PAGE, &nanoseconds)) {
        fh_add_relaxed(&refused, 1);
        leave_split(index, half);
        return;
    }
    fh_store(&refused, 0);
    fh_event_gathered(FH_HUGE_PAGE / 2); /* so what comes ahead is twice the growth at most */
    if (fh_load(&fh_order.thp_timed)) fh_event_touched(nanoseconds);
}

void fh_thp_refill(size_t slot) {
    size_t index = slot / FH_CHUNK_SLOTS;
    fh_chunk *chunk = fh_chunk_at(index);
    unsigned half = slot % FH_CHUNK_SLOTS >= FH_CHUNK_SLOTS / 2;
    uint64_t split = fh_load(&chunk->split), asked = UINT64_C(1) << (ASKED_SHIFT + half);
    if (FH_LIKELY(!(split >> half & 1)) || split & asked) return;
    if (!fh_thp_is_huge(index) || fh_load(&fh_order.thp_first_chunk) > FH_YOUNG_CHUNKS) return;
    /* Pages that a heap of the embedding API has purged must not come again: its limit counts them. */
    if (fh_load(&heaps) || !fh_has_grown()) return;
    if (fh_or_acq_rel(&chunk->split, asked) & asked) return;
    if (has_little_memory(index, half)) gather(index, half);
}

/* The caller has claimed `slot` of half of a chunk that was all free, and without memory. */
static void begin_half(size_t slot, bool large) {
    size_t index = slot / FH_CHUNK_SLOTS;
    fh_chunk *chunk = fh_chunk_at(index);
    unsigned half = slot % FH_CHUNK_SLOTS >= FH_CHUNK_SLOTS / 2;
    if (!fh_thp_is_huge(index) || fh_load(&chunk->split) >> half & 1) return;
    if (!fh_load(&fh_order.thp_timed)) return;
    if (heaps_dominate() || pass_over(1)) {
        leave_split(index, half);
    } else if (is_to_be_timed(large)) {
        fh_event_touched(fh_system_touch(fh_slot_address(slot)));
    }
}

void fh_thp_begin(size_t slot, unsigned n, uint64_t free, bool large) {
    size_t index = slot / FH_CHUNK_SLOTS;
    unsigned place = slot % FH_CHUNK_SLOTS, middle = FH_CHUNK_SLOTS / 2;
    const uint64_t low = fh_low_mask(middle);
    FH_ASSERT(n >= 1 && place + n <= FH_CHUNK_SLOTS);
    if (FH_LIKELY((free & low) != low && (free & ~low) != ~low)) return;
    uint64_t clean = free & ~fh_load(&fh_chunk_at(index)->dirty);
    if (!large && clean == FH_CHUNK_ALL) fh_thp_again(index);
    if (place < middle && (clean & low) == low) begin_half(slot, large);
    if (place + n > middle && (clean & ~low) == ~low) begin_half(place < middle ? slot - place + middle : slot, large);
}
