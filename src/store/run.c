#include "store/run.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/chunk.h"
#include "store/hints.h"
#include "store/limit.h"
#include "store/purge.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

/* ── The chunks of a run ─────────────────────────────────────────────────────────────────────────────────────────── */

/* The part of a run that is in one chunk. */
typedef struct {
    size_t chunk;
    uint64_t mask;
    unsigned slots;
} part;

/* The part that begins at that slot, of a run that ends before `end`. */
static part part_of(size_t slot, size_t end) {
    size_t most = end - slot;
    unsigned place = slot % FH_CHUNK_SLOTS, n = FH_CHUNK_SLOTS - place;
    FH_ASSERT(slot < end);
    if (n > most) n = (unsigned)most;
    return (part){slot / FH_CHUNK_SLOTS, fh_run_mask(place, n), n};
}

/* Free slots at the beginning of a chunk, and at its end. 0 of a chunk that there is not. */
static unsigned free_below(size_t chunk) {
    uint64_t used = chunk < fh_window_chunks() ? ~fh_load(&fh_chunk_at(chunk)->free) : ~UINT64_C(0);
    return used ? fh_lowest_bit(used) : FH_CHUNK_SLOTS;
}
static unsigned free_above(size_t chunk) {
    uint64_t used = chunk < fh_window_chunks() ? ~fh_load(&fh_chunk_at(chunk)->free) : ~UINT64_C(0);
    return used ? FH_CHUNK_SLOTS - 1 - fh_highest_bit(used) : FH_CHUNK_SLOTS;
}

/* ── Claim ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Claims exactly these slots, or none of them. */
static bool claim_exactly(size_t slot, size_t n) {
    size_t end = slot + n;
    for (size_t at = slot; at < end;) {
        part p = part_of(at, end);
        if (p.chunk >= fh_window_chunks() || !fh_chunk_claim_exactly(p.chunk, p.mask)) {
            for (size_t back = slot; back < at;) {
                part claimed = part_of(back, at);
                fh_chunk_release(claimed.chunk, claimed.mask);
                fh_event_came_back();
                back += claimed.slots;
            }
            return false;
        }
        at += p.slots;
    }
    return true;
}

/* Bookkeeping for slots that this thread has just claimed, `held` of them in place of others that count already. True if all of
 * them read as zero. */
static bool account(size_t slot, size_t n, size_t held) {
    fh_chunk_weight sum = {0, 0, 0};
    for (size_t at = slot; at < slot + n;) {
        part p = part_of(at, slot + n);
        fh_chunk_weigh(p.chunk, p.mask, &sum);
        at += p.slots;
    }
    FH_ASSERT(sum.slots == n);
    fh_event_claimed(n - held, sum.dirty, sum.purged);
    return sum.dirty == 0;
}

/* A free run that begins with the first slot of a chunk may begin in the chunk before. Claims n slots from its true beginning
 * on; FH_NONE if it begins here. */
static size_t claim_over_border(size_t chunk, unsigned n) {
    unsigned before = chunk ? free_above(chunk - 1) : 0;
    if (before >= n) return FH_NONE; /* it has room for itself */
    size_t slot = chunk * FH_CHUNK_SLOTS - before;
    return before && claim_exactly(slot, n) ? slot : FH_NONE;
}

/* Claims in this chunk. FH_NONE: it has no such run (any more). A slab is aligned to its length, so it is in one chunk. */
static size_t claim_in(size_t chunk, unsigned n, unsigned align, bool bare) {
    uint64_t free = fh_load(&fh_chunk_at(chunk)->free);
    if (n > 1 && align == 1 && free & 1 && free_below(chunk) >= n) {
        size_t slot = claim_over_border(chunk, n);
        if (slot != FH_NONE) {
            fh_thp_begin(chunk * FH_CHUNK_SLOTS, (unsigned)(slot + n - chunk * FH_CHUNK_SLOTS), free, true);
            return slot;
        }
    }
    unsigned place = fh_chunk_claim_fit(chunk, n, align, bare, &free);
    if (place == FH_CHUNK_SLOTS) return FH_NONE;
    size_t slot = chunk * FH_CHUNK_SLOTS + place;
    fh_thp_begin(slot, n, free, n > 1);
    return slot;
}

/* Claims in a chunk that there is; FH_NONE if none has so long a run. */
static size_t claim_in_one(unsigned partition, unsigned n, unsigned align) {
    /* A chunk with n + align − 1 free slots in a row fits for sure; one with fewer may. It is tried once, so that an aligned
     * run of exactly n slots is not passed over. Most buckets are empty: a search in each took half of the time of a new slab. */
    const unsigned first = FH_HINT_LENGTH + fh_chunk_bucket_of(n), end = FH_HINT_LENGTH + FH_LENGTHS;
    for (unsigned hint = first; (hint = fh_hint_first(hint, end)) < end; hint++) {
        unsigned bucket = hint - FH_HINT_LENGTH;
        unsigned length = fh_chunk_length_of(bucket);
        bool sure = length >= n + align - 1 || length == FH_CHUNK_SLOTS;
        for (;;) {
            size_t chunk = fh_hint_find_in(partition, hint, 1);
            if (chunk == FH_NONE) break;
            size_t slot = claim_in(chunk, n, align, false);
            if (slot != FH_NONE) return slot;
            if (fh_chunk_length(fh_load(&fh_chunk_at(chunk)->free)) != bucket) {
                fh_chunk_leave_bucket(chunk, bucket);
            } else if (!sure) {
                break;
            }
        }
    }
    return FH_NONE;
}

/* Claims a slab of n slots without memory behind them; FH_NONE if that is not found at once, in the first chunk of each bucket.
 * A huge page has memory behind all of its slots, or would get it. */
static size_t claim_bare(unsigned n) {
    const unsigned end = FH_HINT_LENGTH + FH_LENGTHS;
    for (unsigned hint = FH_HINT_LENGTH + fh_chunk_bucket_of(n); (hint = fh_hint_first(hint, end)) < end; hint++) {
        size_t chunk = fh_hint_find_in(0, hint, 1);
        if (chunk == FH_NONE || fh_thp_is_huge(chunk)) continue;
        size_t slot = claim_in(chunk, n, n, true);
        if (slot != FH_NONE) return slot;
    }
    return FH_NONE;
}

/* ── Over several chunks ─────────────────────────────────────────────────────────────────────────────────────────── */

/* What is looked for: n slots, the first of which is `phase` more than a multiple of `align`. `bare`: a slab, see run.h. */
typedef struct {
    size_t n, align, phase;
    unsigned partition;
    bool bare;
} wish;

/* Free slots at the end of the heap, no more than are wanted. */
static size_t free_at_end(size_t wanted) {
    size_t free = 0;
    for (size_t chunk = fh_window_chunks(); chunk-- > 0 && free < wanted;) {
        unsigned here = free_above(chunk);
        free += here;
        if (here < FH_CHUNK_SLOTS) break;
    }
    return free;
}

/* The first slot from this one on at which it may begin. */
static size_t aligned_from(size_t begin, const wish *w) {
    return fh_round_up(begin + w->align - w->phase, w->align) - w->align + w->phase;
}

static size_t find_at_end(const wish *w) {
    size_t end = fh_window_chunks() * FH_CHUNK_SLOTS, slot = aligned_from(end - free_at_end(w->n + w->align - 1), w);
    return slot < end && end - slot >= w->n ? slot : FH_NONE;
}

/* The first slot of the free run over the border below this chunk, if it has what is wished for; else FH_NONE. *end: the
 * slot up to which the run was followed. */
static size_t fit_over_border(size_t chunk, const wish *w, size_t *end) {
    size_t border = chunk * FH_CHUNK_SLOTS, begin = border - (chunk ? free_above(chunk - 1) : 0);
    size_t slot = aligned_from(begin, w);
    FH_ASSERT(slot >= begin && slot - begin < w->align);
    for (*end = border; *end % FH_CHUNK_SLOTS == 0 && *end < slot + w->n;) {
        unsigned more = free_below(*end / FH_CHUNK_SLOTS);
        *end += more;
        if (more < FH_CHUNK_SLOTS) break;
    }
    return *end >= slot + w->n ? slot : FH_NONE;
}

/* Chunks of a region whose longest free run has at least so many slots, as bits. */
static uint64_t chunks_with(size_t region, size_t slots) {
    uint64_t chunks = 0;
    for (unsigned bucket = fh_chunk_bucket_of((unsigned)slots); bucket < FH_LENGTHS; bucket++)
        chunks |= fh_load_acquire(&fh_region_at(region)->hints.hint[FH_HINT_LENGTH + bucket]);
    return chunks;
}

/* The lowest that is found beginning with chunks that have a free run of `longest` slots, at most `most` of them. */
static size_t find_beside(const wish *w, size_t longest, size_t most) {
    size_t chunks = fh_window_chunks();
    for (size_t from = 0; from < chunks && most > 0; most--) {
        size_t region = from / FH_REGION_CHUNKS, end;
        uint64_t left = chunks_with(region, longest) & ~fh_low_mask(from % FH_REGION_CHUNKS);
        if (fh_partition_of_slot(from * FH_CHUNK_SLOTS) != w->partition) left = 0;
        from = left ? region * FH_REGION_CHUNKS + fh_lowest_bit(left) : (region + 1) * FH_REGION_CHUNKS;
        if (!left || from >= chunks) continue;
        size_t slot = fit_over_border(from, w, &end);
        if (slot == FH_NONE && end / FH_CHUNK_SLOTS <= from) slot = fit_over_border(from + 1, w, &end);
        if (slot != FH_NONE) return slot;
        from = end / FH_CHUNK_SLOTS > from ? end / FH_CHUNK_SLOTS : from + 1;
    }
    return FH_NONE;
}

/* So many places are tried in vain, at some 20 to 40 ns each. The run at the end of the heap is always found, or no new chunks
 * would ever do. */
#define BORDERS_MOST 64u
#define WHOLE_MOST 512u

/* Of a run over one border the longer part has half of it at least. Any other has a whole chunk. */
static size_t find_over_borders(const wish *w) {
    size_t slot = FH_NONE;
    if (w->n < 2 * FH_CHUNK_SLOTS - 1) slot = find_beside(w, w->n / 2 + w->n % 2, BORDERS_MOST);
    if (slot == FH_NONE) slot = find_beside(w, FH_CHUNK_SLOTS, WHOLE_MOST);
    return slot != FH_NONE || w->partition ? slot : find_at_end(w);
}

static size_t claim_over_borders(const wish *w) {
    for (;;) {
        size_t slot = find_over_borders(w);
        if (slot == FH_NONE || claim_exactly(slot, w->n)) return slot;
    }
}

/* ── New chunks ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t chunks_for(size_t slots) {
    return (slots + FH_CHUNK_SLOTS - 1) / FH_CHUNK_SLOTS;
}

/* Shows chunks that were just started to all threads. */
static void open_chunks(size_t first, size_t n, size_t slots) {
    fh_purpose purpose = slots <= FH_CHUNK_SLOTS / 2           ? FH_FOR_SLABS
                         : fh_thp_is_long_filled(first, slots) ? FH_FOR_FILLED
                                                               : FH_FOR_LONG;
    for (size_t chunk = first; chunk < first + n; chunk++) {
        fh_thp_begin_chunk(chunk, purpose);
        fh_chunk_open(chunk);
    }
    fh_event_came_back();
    fh_event_chunk(first + n - 1);
}

/* New chunks, open to all threads, with which there are n free slots in a row. False: the OS has no more memory.
 *
 * The thread that brings them does not keep their first slots, but searches again like all others. While one thread waits in
 * the kernel for a chunk, others find no free run either and bring one each. When each took from its own, a thousand
 * threads that began at once took 195 chunks and, a huge page for each, 400 MiB. Now all go to the lowest, and the others
 * are address space that was never touched. */
static bool bring_chunks(size_t n, const wish *w, size_t *first) {
    size_t end = fh_window_chunks(), at_end = n > 1 && !w->partition ? free_at_end(n) : 0;
    size_t chunks = chunks_for(n > at_end ? n - at_end : 1);
    if (at_end && FH_UNLIKELY(fh_load(&fh_window.lost) != 0) && fh_system_counts_addresses()) {
        /* What is free there is of use only to what comes behind it, and not to chunks that were lost elsewhere. */
        *first = end;
        if (!fh_window_take_chunks_behind(end, chunks)) return fh_window_chunks() != end;
    } else {
        *first = fh_window_take_chunks_in(w->partition, chunks);
        if (*first == FH_NONE) return false;
    }
    open_chunks(*first, chunks, n);
    return true;
}

/* A partition's heap has no end at which a run is always found, so what is long is claimed where the chunks were brought. */
static size_t claim_brought(size_t chunk, const wish *w) {
    size_t slot = aligned_from(chunk * FH_CHUNK_SLOTS, w);
    return claim_exactly(slot, w->n) ? slot : FH_NONE;
}

/* The lowest place that is free, or would be with the chunks that were lost. */
static size_t find_with_lost(const wish *w) {
    size_t begin = 0, chunks = fh_window_chunks();
    for (size_t chunk = 0; chunk <= chunks; chunk++) {
        bool ours = chunk < chunks && fh_partition_of_slot(chunk * FH_CHUNK_SLOTS) == w->partition;
        if (ours && (fh_window_is_lost(chunk) || free_below(chunk) == FH_CHUNK_SLOTS)) continue;
        size_t slot = aligned_from(begin, w), end = chunk * FH_CHUNK_SLOTS + (ours ? free_below(chunk) : 0);
        if (slot < end && end - slot >= w->n) return slot;
        begin = (chunk + 1) * FH_CHUNK_SLOTS - (ours ? free_above(chunk) : 0);
    }
    return FH_NONE;
}

/* True if all slots from this one up to `end` are free, or of chunks that were lost. */
static bool may_bring(size_t slot, size_t end) {
    for (size_t at = slot; at < end;) {
        part p = part_of(at, end);
        if (!fh_window_is_lost(p.chunk) && p.mask & ~fh_load(&fh_chunk_at(p.chunk)->free)) return false;
        at += p.slots;
    }
    return true;
}

/* Brings the chunks that are missing for slots from this one up to `end`, if all others of them are free: those that were lost,
 * and those behind the last one. They are open to all threads, as in bring_chunks. */
static bool bring_missing(size_t slot, size_t end) {
    size_t chunks = fh_window_chunks(), there = chunks * FH_CHUNK_SLOTS;
    if (slot > there || !may_bring(slot, end < there ? end : there)) return false;
    for (size_t chunk = slot / FH_CHUNK_SLOTS; chunk < chunks && chunk * FH_CHUNK_SLOTS < end; chunk++) {
        if (!fh_window_is_lost(chunk)) continue;
        if (!fh_window_take_lost(chunk)) return false;
        open_chunks(chunk, 1, SIZE_MAX);
    }
    if (end <= there) return true;
    size_t n = chunks_for(end - there);
    if (!fh_window_take_chunks_behind(chunks, n)) return false;
    open_chunks(chunks, n, SIZE_MAX);
    return true;
}

/* Where chunks were dropped, because memory was refused, what is free beside them is of use with them. Only where address space
 * counts is that worth a walk over all chunks. */
static size_t claim_with_lost(const wish *w) {
    if (FH_LIKELY(fh_load(&fh_window.lost) == 0) || w->partition || !fh_system_counts_addresses()) return FH_NONE;
    size_t slot = find_with_lost(w);
    return slot != FH_NONE && bring_missing(slot, slot + w->n) && claim_exactly(slot, w->n) ? slot : FH_NONE;
}

/* A small heap has one chunk more for it. Once address space was refused it is not worth that, nor a piece of what is free in a row. */
static size_t claim_bare_or_bring(const wish *w) {
    size_t first;
    if (fh_load(&fh_order.watch) & FH_WATCH_ADDRESSES) return FH_NONE;
    size_t slot = claim_bare((unsigned)w->n);
    if (slot != FH_NONE || fh_window_chunks() >= FH_YOUNG_CHUNKS) return slot;
    return bring_chunks(w->n, w, &first) ? claim_bare((unsigned)w->n) : FH_NONE;
}

static size_t claim(const wish *w) {
    bool small = w->n <= FH_CHUNK_SLOTS && w->align <= FH_CHUNK_SLOTS && w->phase == 0;
    /* A slab, which is aligned to its length, is never over a border; nor is what fits into any new chunk. */
    bool inside = small && w->n <= w->align;
    size_t slot = w->bare ? claim_bare_or_bring(w) : FH_NONE;
    if (slot != FH_NONE) return slot;
    for (size_t first;;) {
        slot = small ? claim_in_one(w->partition, (unsigned)w->n, (unsigned)w->align) : FH_NONE;
        if (slot == FH_NONE && !inside) slot = claim_over_borders(w);
        if (slot == FH_NONE && !inside) slot = claim_with_lost(w);
        if (slot != FH_NONE || !bring_chunks(inside ? w->n : w->n + w->align - 1, w, &first)) return slot;
        if (w->partition && !inside) slot = claim_brought(first, w);
        if (slot != FH_NONE) return slot;
    }
}

static size_t claim_counted(const wish *w, size_t held, bool *clean) {
    size_t n = w->n, align = w->align, bytes = (n - held) * FH_SLOT_SIZE;
    FH_ASSERT(n >= 1 && held <= n && fh_is_power_of_two(align) && w->phase < align);
    if (n > FH_WINDOW_SLOTS || align > FH_WINDOW_SLOTS) return FH_NONE;
    fh_run_settle();
    bool limited = fh_limit_is_set() && bytes != 0;
    if (limited && !fh_limit_admit(bytes, n - held == 1)) return FH_NONE;
    size_t slot = claim(w);
    if (slot != FH_NONE) *clean = account(slot, n, held);
    if (limited) fh_limit_done(bytes);
    return slot;
}

/* ── The kept run ────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_run_set_over(size_t slot, size_t n, bool over) {
    FH_ASSERT(n >= 1);
    size_t first = slot / FH_CHUNK_SLOTS, last = (slot + n - 1) / FH_CHUNK_SLOTS;
    /* release: the block's record before it is found here. */
    for (size_t chunk = first + 1; chunk <= last; chunk++)
        fh_store_release(&fh_chunk_at(chunk)->over, over ? slot + 1 : 0);
}

/* What was in the word, which is the caller's now. */
static void release_kept(uint64_t kept) {
    size_t slot = (uint32_t)kept, n = (size_t)(kept >> 32);
    FH_ASSERT(fh_state_run_slots(fh_load(&fh_slab_at(slot)->state)) == n && fh_load(&fh_slab_at(slot)->pages) == 0);
    fh_run_set_over(slot, n, false);
    fh_store_release(&fh_slab_at(slot)->state, 0); /* release: as in large.c */
    fh_run_release(slot, n, true);
}

void fh_run_keep(size_t slot, size_t n) {
    FH_ASSERT(n >= 1 && slot < FH_WINDOW_SLOTS);
    /* acq_rel: the block's last use before the next thread has it; and of the one before likewise. */
    uint64_t before = fh_swap_acq_rel(&fh_counts.kept, (uint64_t)n << 32 | slot);
    if (FH_UNLIKELY(before != 0)) release_kept(before);
    fh_event_kept(n);
    fh_event_came_back();
}

size_t fh_run_take_kept(size_t n, size_t align, size_t phase) {
    uint64_t kept = fh_load(&fh_counts.kept);
    size_t slot = (uint32_t)kept;
    if (kept >> 32 != n || (slot & (align - 1)) != phase || fh_limit_is_set()) return FH_NONE;
    /* acq_rel: as in fh_run_keep. */
    if (!fh_cas_acq_rel(&fh_counts.kept, &kept, 0)) return FH_NONE;
    fh_event_taken_again(n);
    return slot;
}

void fh_run_settle(void) {
    if (FH_LIKELY(fh_load(&fh_counts.kept) == 0)) return;
    uint64_t kept = fh_swap_acq_rel(&fh_counts.kept, 0); /* acq_rel: as in fh_run_keep */
    if (kept) release_kept(kept);
}

/* ── Claim, with the books ───────────────────────────────────────────────────────────────────────────────────────── */

size_t fh_run_claim_for(size_t n, size_t held, size_t align, size_t phase, bool *clean) {
    return claim_counted(&(wish){n, align, phase, 0, false}, held, clean);
}

size_t fh_run_claim(size_t n, size_t align, size_t phase, bool *clean) {
    return fh_run_claim_for(n, 0, align, phase, clean);
}

size_t fh_run_claim_bare(size_t n, bool *clean) {
    return claim_counted(&(wish){n, n, 0, 0, true}, 0, clean);
}

size_t fh_run_claim_in(unsigned partition, size_t n, size_t behind, size_t align, size_t phase, bool *clean) {
    return claim_counted(&(wish){n + behind, align, phase, partition, false}, behind, clean);
}

bool fh_run_is_free(size_t slot) {
    size_t chunk = slot / FH_CHUNK_SLOTS;
    return chunk < fh_window_chunks() && fh_load(&fh_chunk_at(chunk)->free) >> slot % FH_CHUNK_SLOTS & 1;
}

static bool extend(size_t slot, size_t n, bool bring, bool *clean) {
    fh_run_settle();
    bool limited = fh_limit_is_set();
    FH_ASSERT(n >= 1);
    if (limited && !fh_limit_admit(n * FH_SLOT_SIZE, false)) return false;
    bool done = (!bring || bring_missing(slot, slot + n)) && claim_exactly(slot, n);
    if (done) *clean = account(slot, n, 0);
    if (limited) fh_limit_done(n * FH_SLOT_SIZE);
    return done;
}

bool fh_run_extend(size_t slot, size_t n, bool *clean) {
    return extend(slot, n, false, clean);
}

bool fh_run_extend_bringing(size_t slot, size_t n, bool *clean) {
    return extend(slot, n, true, clean);
}

/* ── Release ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void release(size_t slot, size_t n, bool dirty, bool counted) {
    size_t end = slot + n;
    FH_ASSERT(n >= 1 && end <= fh_window_chunks() * FH_CHUNK_SLOTS);
    for (size_t at = slot; at < end;) {
        part p = part_of(at, end);
        fh_chunk_note(p.chunk, p.mask, dirty);
        at += p.slots;
    }
    /* Admitted to nobody before it is free and may be purged: else both would have memory, and be more than a limit allows. */
    bool limited = fh_limit_is_set();
    if (limited) fh_limit_hold(n * FH_SLOT_SIZE);
    fh_event_released(slot, n, dirty, counted);
    for (size_t at = slot; at < end;) {
        part p = part_of(at, end);
        fh_chunk_release(p.chunk, p.mask);
        at += p.slots;
    }
    if (limited) fh_limit_done(n * FH_SLOT_SIZE);
    if (limited) fh_set_due(FH_DUE_LIMIT); /* with what is in use, what is free now may be more than it allows */
    fh_event_came_back();
}

void fh_run_release(size_t slot, size_t n, bool dirty) {
    release(slot, n, dirty, true);
}

void fh_run_release_held(size_t slot, size_t n, bool dirty) {
    release(slot, n, dirty, false);
}

/* A chunk of which the caller has all. False: the OS did not take it, and it is free again. */
static bool drop_chunk(size_t index) {
    account(index * FH_CHUNK_SLOTS, FH_CHUNK_SLOTS, 0);
    fh_and_acq_rel(&fh_chunk_at(index)->dirty, 0);
    fh_and_acq_rel(&fh_chunk_at(index)->used, 0);
    fh_purge_forget_moved(index);
    fh_event_dropped(FH_CHUNK_SLOTS);
    if (fh_window_drop_chunk(index)) return true;
    fh_chunk_release(index, FH_CHUNK_ALL);
    return false;
}

/* From the end of the heap downwards. A hole that begins here is one more mapping, and one that grows is not. */
size_t fh_run_drop_free_chunks(void) {
    size_t dropped = 0, holes = 0;
    bool above = false; /* the chunk above is a hole */
    fh_run_settle();
    for (size_t index = fh_window_chunks(); index-- > 0;) {
        bool hole = fh_window_misses(index);
        /* One that was never started, or is dropped already, has no free slots. */
        if (!hole && (above || holes < FH_HOLES_MOST) && fh_load(&fh_chunk_at(index)->free) == FH_CHUNK_ALL &&
            fh_chunk_claim_exactly(index, FH_CHUNK_ALL) && drop_chunk(index)) {
            dropped += FH_CHUNK_SIZE;
            hole = true;
        }
        holes += hole && !above;
        above = hole;
    }
    return dropped;
}
