#include "observe/records.h"

#include "base/classes.h"
#include "heap/types.h"
#include "observe/profile_words.h"
#include "store/depot.h"
#include "store/thp.h"
#include "store/window.h"

/* What the reader (tools/profile-file/src/recount) takes for granted. Whatever changes here changes
 * FH_PROFILE_RECORDS_VERSION. */
_Static_assert(sizeof(fh_class_info) == 16 && offsetof(fh_class_info, size) == 0 &&
                   offsetof(fh_class_info, blocks) == 4 && offsetof(fh_class_info, slots) == 6,
               "the table of classes");
_Static_assert(sizeof(fh_chunk) == 64 && offsetof(fh_chunk, free) == 0 && offsetof(fh_chunk, dirty) == 8 &&
                   offsetof(fh_chunk, used) == 16 && offsetof(fh_chunk, over) == 32,
               "a chunk");
_Static_assert(sizeof(fh_slab) == 576 && offsetof(fh_slab, state) == 0 && offsetof(fh_slab, free) == 8 &&
                   offsetof(fh_slab, pages) == 520 && offsetof(fh_slab, clean) == 528,
               "a slab");
_Static_assert(offsetof(fh_magazine, count) == 4 && offsetof(fh_magazine, block) == 16, "a magazine");
_Static_assert(sizeof(fh_bin) == 16 && offsetof(fh_bin, top) == 0 && offsetof(fh_rack, loaded) == 0 &&
                   offsetof(fh_rack, previous) == 8,
               "a bin and its rack");
_Static_assert(FH_SLOT_SIZE == 65536 && FH_CHUNK_SLOTS == 64 && FH_RECORDS_CHUNKS == 8, "the sizes of the house");
_Static_assert(FH_REGION_CHUNKS == FH_CHUNK_SLOTS, "chunks of a region");
_Static_assert(FH_SMALL_LAST == 112 && FH_RUN_FIRST == 113 && FH_BINS == 177 && FH_CLASS_THREAD == 184 &&
                   FH_CLASS_SAMPLE == 185 && FH_SAMPLE_LAST == 195 && FH_CLASS_BORROWED == 196 &&
                   FH_CLASS_EDGE == 197 && FH_CLASSES == 198 && FH_KIND_RUN == FH_CLASSES,
               "the numbers of classes and kinds");
_Static_assert(FH_STATE_BUMP_SHIFT == 16 && FH_STATE_KIND_SHIFT == 32 && FH_STATE_OWNER_SHIFT == 48, "a state");

/* And of heaps (tools/profile-file/src/recount/heaps.rs); the memory that is given to one: heap/given.c; a bounded one: heap/bounded.c. Whatever changes here
 * changes FH_PROFILE_HEAPS_VERSION. */
_Static_assert(offsetof(fh_slab, heap) == 67 * 8, "the word of a slot that leads to a heap");
_Static_assert(sizeof(fh_owned) == 16 && FH_OWNED_UNITS == 1 && FH_OWNED_EXTENT == 2 && FH_OWNED_LARGE == 3 &&
                   FH_OWNED_STRIPES == 5 && FH_OWNED_BOUNDED == 6 && FH_HEAP_IS_BOUNDED == 128,
               "what the word leads to");
_Static_assert(offsetof(fh_heap, parent) == 4 * 8 && offsetof(fh_heap, flags) == 5 * 8 &&
                   offsetof(fh_heap, charged) == 8 * 8 && offsetof(fh_heap, peak) == 9 * 8 &&
                   offsetof(fh_heap, soft) == 10 * 8 && offsetof(fh_heap, hard) == 11 * 8 &&
                   offsetof(fh_heap, refusals) == 14 * 8 && offsetof(fh_heap, number) == 19 * 8 &&
                   offsetof(fh_heap, segment) == 22 * 8 && offsetof(fh_heap, given) == 24 * 8 &&
                   offsetof(fh_heap, memory_size) == 25 * 8 && offsetof(fh_heap, name) == 26 * 8 &&
                   FH_HEAP_NAME == 48 && offsetof(fh_heap, free) == 32 * 8 && offsetof(fh_heap, first) == 96 * 8 &&
                   offsetof(fh_heap, last) == 160 * 8 && FH_UNIT_WORDS == 64,
               "a heap");
_Static_assert(offsetof(fh_extent, c) == 3 * 8 && offsetof(fh_extent, words) == 4 * 8 + 4 &&
                   offsetof(fh_extent, retired) == 7 * 8 && offsetof(fh_extent, begin) == 8 * 8 &&
                   offsetof(fh_extent, out) == 9 * 8 && offsetof(fh_extent, free) == 12 * 8,
               "an extent");
_Static_assert(offsetof(fh_node, block) == 2 * 8 && offsetof(fh_node, size) == 3 * 8 && sizeof(fh_node) == 40,
               "a large block's node");

static uint64_t address(const void *p) {
    return (uintptr_t)p;
}

void fh_records_show(fh_profile_header *profile) {
    fh_profile_records *r = (fh_profile_records *)((char *)profile + FH_PROFILE_RECORDS_OFFSET);
    r->chunks = address(&fh_window.next_chunk);
    r->regions = address(fh_window.region);
    r->pieces = address(fh_window.records);
    r->classes = address(fh_class_table);
    r->depots = address(fh_depot_full(0, 0));
    r->shards = FH_SHARDS;
    r->region_lost = offsetof(fh_region, lost);
    r->region_foreign = offsetof(fh_region, foreign);
    r->region_chunk = offsetof(fh_region, chunk);
    r->pieces_slab = offsetof(fh_records, slab);
    r->depot_bytes = sizeof(fh_depots);
    r->depot_slot = offsetof(fh_depots, slot);
    r->thread_bytes = FH_THREAD_SIZE;
    r->thread_bin = offsetof(fh_thread, bin);
    r->thread_rack = offsetof(fh_thread, rack);
    r->thread_state = offsetof(fh_thread, state);
    r->rack_bytes = sizeof(fh_rack);
    r->hints_bytes = sizeof(fh_chunk_hints);
    r->heaps_version = FH_PROFILE_HEAPS_VERSION;
    r->heaps = address(fh_thp_heaps());
    const size_t begin = offsetof(fh_profile_records, chunks);
    r->check = fh_profile_checked(fh_profile_check(0, (const char *)r + begin, sizeof *r - begin));
    fh_store_release(fh_profile_word(&r->version), FH_PROFILE_RECORDS_VERSION); /* release: what was written before */
}
