#include "observe/fields.h"

#include "observe/profile.h"

#define AT(name) offsetof(fh_profile_figures, name)
#define BYTES(group, name, metric, help)                                                                               \
    { group, false, AT(name), #name, metric, "bytes", help }
#define NUMBER(group, name, help)                                                                                      \
    { group, false, AT(name), #name, #name, NULL, help }
#define COUNTER(name, metric, unit, help)                                                                              \
    { FH_FIELD_COUNTERS, true, AT(name), #name, metric, unit, help }

const fh_field fh_fields[] = {
    BYTES(FH_FIELD_HEAP, live_bytes, "live_bytes", "Blocks of up to 2 MiB that the program holds."),
    NUMBER(FH_FIELD_HEAP, live_blocks, "Blocks of up to 2 MiB that the program holds."),
    BYTES(FH_FIELD_HEAP, cached_bytes, "cached_bytes", "Free blocks at hand for threads: in magazines and depots."),
    BYTES(FH_FIELD_HEAP, thread_cached_bytes, "thread_cached_bytes",
          "Of the cached bytes, those in threads' own magazines."),
    BYTES(FH_FIELD_HEAP, free_bytes, "free_bytes", "Free blocks in slabs that are in use."),
    BYTES(FH_FIELD_HEAP, purged_in_slabs_bytes, "purged_in_slabs_bytes",
          "Of the free bytes, whole pages that were given back to the system."),
    BYTES(FH_FIELD_HEAP, fresh_bytes, "fresh_bytes", "Parts of slabs that were never handed out; mostly not resident."),
    BYTES(FH_FIELD_HEAP, dirty_bytes, "dirty_bytes", "Free slots that still have memory behind them."),
    BYTES(FH_FIELD_HEAP, purged_bytes, "unbacked_bytes", "Free slots without memory: given back, or never used."),
    BYTES(FH_FIELD_HEAP, huge_bytes, "huge_bytes", "Live blocks above 2 MiB, each with a mapping of its own."),
    NUMBER(FH_FIELD_HEAP, huge_blocks, "Live blocks above 2 MiB."),
    BYTES(FH_FIELD_HEAP, huge_cached_bytes, "huge_cached_bytes", "Freed mappings kept for the next request."),
    BYTES(FH_FIELD_HEAP, metadata_bytes, "metadata_bytes", "Records about the heap, magazines and thread caches."),
    BYTES(FH_FIELD_HEAP, observer_bytes, "observer_bytes", "Private memory of the observer."),
    BYTES(FH_FIELD_HEAP, mapped_bytes, "mapped_bytes", "Address space in use by chunks and huge blocks."),
    BYTES(FH_FIELD_HEAP, resident_bytes, "process_resident_bytes", "Memory of the whole process, as the system says."),
    NUMBER(FH_FIELD_HEAP, chunks, "Chunks of 4 MiB taken from the system."),
    NUMBER(FH_FIELD_HEAP, free_chunks, "Of the chunks, those in which nothing is in use."),
    NUMBER(FH_FIELD_HEAP, huge_page_chunks, "Chunks for which huge pages were asked for."),
    NUMBER(FH_FIELD_HEAP, threads, "Threads that have a cache."),

    BYTES(FH_FIELD_LIMITS, limit_soft, "limit_soft_bytes", "The program's own soft limit; 0 is none."),
    BYTES(FH_FIELD_LIMITS, limit_hard, "limit_hard_bytes", "The program's own hard limit; 0 is none."),
    BYTES(FH_FIELD_LIMITS, limit_in_use, "limit_in_use_bytes",
          "What counts against the limits: in use, or free with memory."),
    BYTES(FH_FIELD_LIMITS, group_limit, "group_limit_bytes", "The control group's limit that is nearest; 0 is none."),
    BYTES(FH_FIELD_LIMITS, group_used, "group_used_bytes",
          "What that control group uses, without what can be dropped."),

    COUNTER(limit_refusals, "limit_refusals", NULL, "Claims that the hard limit refused."),
    COUNTER(refills, "refills", NULL, "Magazines filled for threads."),
    COUNTER(flushes, "flushes", NULL, "Magazines of threads emptied."),
    COUNTER(from_depot, "from_depot", NULL, "Of the refills, those by a whole magazine of the depot."),
    COUNTER(to_depot, "to_depot", NULL, "Of the flushes, those of a whole magazine to the depot."),
    COUNTER(purge_calls, "purge_calls", NULL, "Calls of the system that gave memory back."),
    COUNTER(purged_total_bytes, "given_back_bytes", "bytes", "Bytes of the ranges given back by these calls."),
    COUNTER(system_maps, "system_maps", NULL, "Calls of the system that made or changed a mapping."),
    COUNTER(system_unmaps, "system_unmaps", NULL, "Calls of the system that ended a mapping."),
};
const size_t fh_fields_count = sizeof fh_fields / sizeof fh_fields[0];

#define ROW(name, help)                                                                                                \
    { FH_FIELD_HEAP, false, offsetof(fh_profile_row, name), #name, "class_" #name, NULL, help }

const fh_field fh_row_fields[] = {
    ROW(slabs, "Slabs of the size class in use, or runs of that length."),
    ROW(slots, "Slots of 64 KiB that they take."),
    ROW(room, "Blocks that fit into them."),
    ROW(made, "Blocks of them handed out at least once."),
    ROW(free, "Free blocks in them."),
    ROW(cached, "Free blocks at hand for threads."),
    ROW(live, "Blocks that the program holds."),
    ROW(sampled, "Of the live blocks, those that are sampled."),
};
const size_t fh_row_fields_count = sizeof fh_row_fields / sizeof fh_row_fields[0];

const char *fh_field_purge_name(uint64_t mode) {
    static const char *const names[] = {"budget", "eager", "lazy", "background"};
    return mode < sizeof names / sizeof names[0] ? names[mode] : "unknown";
}

const char *fh_field_thp_name(uint64_t mode) {
    static const char *const names[] = {"auto", "never", "always"};
    return mode < sizeof names / sizeof names[0] ? names[mode] : "unknown";
}
