/* The profile file: the file through which an observed program shows its heap. The library writes it. The command
 * `freehold` (tools/profile-file) reads it, and writes the control words only.
 *
 *     ┌────────┬─────────┬─────────┬──────────┬─────────┬───────── … ─┬──────── … ─┬──────── … ─┬────── … ─┐
 *     │ header │ control │  stats  │ timeline │ modules │ nodes       │ sites      │ samples    │ heaps    │
 *     └────────┴─────────┴─────────┴──────────┴─────────┴───────── … ─┴──────── … ─┴──────── … ─┴────── … ─┘
 *      4 KiB    4 KiB     fh_profile_section[] of the header says where each begins; the last four grow by extents
 *
 * Where: FREEHOLD=observe=1 makes /dev/shm/freehold-PID (0600; the directory by FREEHOLD=page=DIR), a memfd of the name
 * "freehold-profile" if there is no such directory or no room in it. It is removed when the program ends by itself, unless
 * page=DIR was given; `freehold run` does that, so what it holds survives exit, SIGKILL and the end of memory. Where no
 * directory has room, `freehold run` holds memfds of that name: page=/proc/PID/fd/N, and the numbers that follow.
 *
 * Every number is little-endian and naturally aligned. Each extent is allocated in the file before the library touches
 * it, so that a full file system is an error and not SIGBUS. Words marked (atomic) change while one reads: each is right
 * by itself. A reader checks every offset, count and index before it uses it: the writer may have died in the middle.
 *
 * A new field goes into a reserved place or changes FH_PROFILE_LAYOUT. Layout 1 had no checks of samples, sites, points,
 * sections, marks and the interval. The command still reads it.
 *
 * The command's structures and constants are generated from this header when the command is built. It has to stay simple
 * for that: constants, enumerations, and structures of whole numbers and characters. Anything else is an error of that
 * build, with file and line. Names and help texts are beside it in observe/contract.def. */
#ifndef FH_OBSERVE_PROFILE_H
#define FH_OBSERVE_PROFILE_H

#include <stdint.h>

#define FH_PROFILE_MAGIC UINT64_C(0x444C4F4845455246) /* "FREEHOLD" */
#define FH_PROFILE_LAYOUT 2u
#define FH_PROFILE_EXTENTS 24u /* of a section: extent k holds first << k entries, so that an index is never moved */
#define FH_PROFILE_CLASSES 200u

/* Where the file is: DIRECTORY/PREFIX and the process's number, or a memfd. */
#define FH_PROFILE_DIRECTORY "/dev/shm"
#define FH_PROFILE_PREFIX "freehold-"
#define FH_PROFILE_MEMFD "freehold-profile"

/* What a reader cannot compare with anything else has a check word: a file may lie on a disk that lost blocks, or be of a
 * program that overwrote it. Over 64-bit words w, h = (h ^ w) · FACTOR from h = 0; the check is h | 1. 0: none was made. */
#define FH_PROFILE_CHECK_FACTOR UINT64_C(0x9E3779B97F4A7C15)

/* ── Header ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef enum {
    FH_PROFILE_STATISTICS, /* one fh_profile_statistics */
    FH_PROFILE_TIMELINE,   /* fh_profile_point, a ring */
    FH_PROFILE_MODULES,    /* fh_profile_module */
    FH_PROFILE_NODES,      /* fh_profile_node; entry 0 is the root of all stacks */
    FH_PROFILE_SITES,      /* fh_profile_site; entry 0 is not used */
    FH_PROFILE_SAMPLES,    /* fh_profile_sample; a slot may be empty */
    FH_PROFILE_HEAPS,      /* fh_profile_heap; entry 0 is not used. Files of before have no such section */
    FH_PROFILE_SECTIONS
} fh_profile_section_kind;

typedef struct {
    uint32_t entry_bytes;
    uint32_t first;   /* entries of extent 0; extent k has first << k */
    uint64_t used;    /* (atomic) entries handed out, in order. Of the timeline: points ever written */
    uint64_t dropped; /* (atomic) entries that there was no room for */
    uint64_t extent[FH_PROFILE_EXTENTS]; /* (atomic) file offset of extent k, 0: not there. Appear in order */
} fh_profile_section;

typedef enum { FH_PROFILE_STATE_BEGUN, FH_PROFILE_STATE_LIVE, FH_PROFILE_STATE_ENDED } fh_profile_state;

typedef struct {
    uint64_t magic;
    uint32_t layout;       /* FH_PROFILE_LAYOUT */
    uint32_t header_bytes; /* sizeof(fh_profile_header) */
    uint64_t state; /* (atomic) fh_profile_state; ENDED: the program ended by itself and the statistics are its last */
    uint64_t pid;
    uint64_t parent_pid;
    uint64_t begun_unix_ns;
    uint64_t begun_ns;                   /* on the monotonic clock, like all times below */
    uint64_t process_start;              /* field 22 of /proc/PID/stat, in ticks since boot: tells a re-used pid */
    uint64_t window_begin, window_bytes; /* address range of all blocks; 0 until it is known */
    uint64_t metadata_bytes;             /* bytes of this file that have memory: the profiler's own */
    uint64_t inherited; /* 1: forked from an observed program; blocks of before are not in the samples */
    uint64_t check; /* of pid … process_start, inherited, and page_size … options: see FH_PROFILE_CHECK_FACTOR */
    uint64_t window_check;   /* of window_begin and window_bytes */
    uint64_t ended_check;    /* of pid, written before state ENDED */
    uint64_t metadata_again; /* (atomic) added to as metadata_bytes is: they differ only while a thread adds to both */
    uint64_t sections_check; /* of each section: entry_bytes + (first << 32), then extent[0] */
    uint64_t reserved[2];
    uint64_t file_bytes; /* (atomic) */
    uint32_t page_size, cpus;
    char version[32];  /* FH_VERSION of the library */
    char program[512]; /* /proc/self/exe, zero-terminated, cut if need be; behind it the words of the command line, each
                        * terminated, as far as there is room: they tell by which name a program or a script was started */
    char options[512]; /* FREEHOLD=… as it was */
    fh_profile_section section[FH_PROFILE_SECTIONS];
} fh_profile_header;

/* ── Control: written by the command, polled by the library with a relaxed load in a slow path ───────────────────── */

#define FH_PROFILE_CONTROL_OFFSET UINT64_C(4096)
#define FH_PROFILE_INTERVAL_AS_STARTED (~UINT64_C(0))

typedef struct {
    uint64_t wanted_interval; /* (atomic) T in bytes; 0: stop sampling, or INTERVAL_AS_STARTED */
    uint64_t mark;            /* (atomic) epoch: a new sample is born in it. The command adds 1 to set a mark */
    uint64_t refresh;         /* (atomic) the command adds 1: new statistics are wanted as soon as possible */
    uint64_t record;          /* (atomic) reserved for recording */
    uint64_t scan;            /* (atomic) the command adds 1: what can be reached? The answer is in fh_profile_scan */
    uint64_t mark_again;      /* (atomic) the command adds 1 here too: equal to `mark` */
    uint64_t interval_again;  /* (atomic) written by the library after `interval`: its complement */
    uint64_t reserved[9];
    /* The library's answers */
    uint64_t interval;      /* (atomic) T in force */
    uint64_t refreshed;     /* (atomic) the last `refresh` that was answered */
    uint64_t taken;         /* (atomic) samples taken */
    uint64_t lost_samples;  /* (atomic) not entered, for want of room: profiles are short by so many */
    uint64_t lost_stacks;   /* (atomic) entered, but under the root: no room for the stack */
    uint64_t short_stacks;  /* (atomic) stacks whose walk ended early: no frame pointer and no unwind table */
    uint64_t unknown_frees; /* (atomic) frees of sampled blocks that have no sample (inherited, or lost) */
    /* Peak of the samples' live bytes: see fh_profile_site.peak_of */
    uint64_t live_bytes;  /* (atomic) Σ weights of the live samples */
    uint64_t peak_bytes;  /* (atomic) highest live_bytes */
    uint64_t peak_number; /* (atomic) grows with each new peak; its bytes, in this version */
    uint64_t peak_ns;     /* (atomic) when */
} fh_profile_control;

/* ── Records: where the allocator's own are in the program's memory ──────────────────────────────────────────────── */

/* A program that stands still takes no statistics. The command then reads these records in its memory, as a debugger may,
 * and counts by itself. Addresses are the program's; offsets are bytes within the structures of src/base/types.h. */
#define FH_PROFILE_RECORDS_OFFSET (FH_PROFILE_CONTROL_OFFSET + 512)
#define FH_PROFILE_RECORDS_VERSION UINT64_C(1) /* changes with any structure or number that is counted by */
#define FH_PROFILE_HEAPS_VERSION UINT64_C(4)   /* the same for the structures of heaps (src/heap/types.h) */

typedef struct {
    uint64_t version;         /* (atomic) FH_PROFILE_RECORDS_VERSION, written last; 0: not known yet */
    uint64_t check;           /* of what follows */
    uint64_t chunks;          /* address of the number of chunks that were taken */
    uint64_t regions, pieces; /* addresses of the tables of fh_region and fh_records, whose entries are addresses */
    uint64_t classes;         /* address of the table of size classes */
    uint64_t depots, shards;  /* address of the depots, and how many there are */
    uint64_t region_lost, region_foreign, region_chunk;
    uint64_t pieces_slab;
    uint64_t depot_bytes, depot_slot;
    uint64_t thread_bytes, thread_bin, thread_rack, thread_state, rack_bytes;
    uint64_t hints_bytes;   /* sizeof(fh_chunk_hints) */
    uint64_t heaps_version; /* FH_PROFILE_HEAPS_VERSION; 0: a library that does not say where heaps are */
    uint64_t heaps;         /* address of the number of heaps that the program has (freehold/heap.h) */
    uint64_t reserved[1];
} fh_profile_records;

/* ── Reachability: which blocks can the program still find? ──────────────────────────────────────────────────────── */

/* The answer to control.scan, made by a fork of the program that looks through its frozen copy and ends. It is given at
 * the program's next slow path, so a program that sleeps does not answer: until `number` has followed, the command waits,
 * and says so. What only a register of another thread pointed to at that moment counts as not reachable: a verdict is for
 * blocks that have some age, or that two scans agree about. Shared memory of the program is not searched. */
#define FH_PROFILE_SCAN_OFFSET (FH_PROFILE_CONTROL_OFFSET + 1024)
#define FH_PROFILE_BODY_OFFSET (FH_PROFILE_CONTROL_OFFSET + 8192) /* the sections */

typedef enum {
    FH_PROFILE_SCAN_NONE,
    FH_PROFILE_SCAN_RUNNING,
    FH_PROFILE_SCAN_DONE,
    FH_PROFILE_SCAN_FAILED, /* `error` says why: what fork said, ENOMEM of the scan itself, or EINTR: it was killed */
} fh_profile_scan_state;

typedef struct {
    uint64_t reachable, unreachable; /* blocks of the class, as in statistics.row */
} fh_profile_scan_row;

typedef struct {
    uint64_t number;                  /* (atomic) control.scan as it was when this one began */
    uint64_t state;                   /* (atomic) fh_profile_scan_state; DONE is written last, after all that follows */
    uint64_t begun_ns;                /* (atomic) when the copy was frozen */
    uint64_t fork_ns;                 /* (atomic) how long the program's thread was held up */
    uint64_t scan_ns;                 /* how long the scan took, in its own process */
    uint64_t pid;                     /* (atomic) of the scanning process */
    uint64_t error;                   /* (atomic) errno */
    uint64_t root_bytes, block_bytes; /* looked through: variables, stacks …; reached blocks */
    uint64_t skipped_bytes;           /* shared writable mappings, not looked through */
    uint64_t reachable_blocks, reachable_bytes;      /* all live blocks, sampled or not; bytes as in the size class */
    uint64_t unreachable_blocks, unreachable_bytes;  /* not in a variable, nor in a reachable block */
    uint64_t huge_reachable, huge_unreachable;       /* blocks above 2 MiB (of the above) */
    uint64_t samples_reachable, samples_unreachable; /* live samples that got a verdict */
    /* (atomic) Of a scan that is under way, every MiB or so: bytes looked through, and of blocks that were reached. */
    uint64_t searched_so_far, reached_so_far;
    uint64_t
        check; /* of number, begun_ns and scan_ns, then root_bytes … samples_unreachable and the rows; before DONE */
    uint64_t fork_check; /* of fork_ns */
    uint64_t reserved[10];
    fh_profile_scan_row row[FH_PROFILE_CLASSES];
} fh_profile_scan;

/* ── Fault: a guard was touched (option guard) ───────────────────────────────────────────────────────────────────── */

/* The first touch of a guard, written in the signal handler of the thread that did: usually the last that the program did.
 * The addresses of stacks are as in a sample's: return addresses, and of the touch itself the instruction + 1. */
#define FH_PROFILE_FAULT_OFFSET (FH_PROFILE_CONTROL_OFFSET + 5120)
#define FH_PROFILE_FAULT_FRAMES 32u
#define FH_PROFILE_FAULT_BEGUN UINT64_C(1)
#define FH_PROFILE_FAULT_WRITTEN UINT64_C(2)

typedef enum {
    FH_PROFILE_FAULT_GUARD,          /* no block is known there */
    FH_PROFILE_FAULT_USE_AFTER_FREE, /* in a block that was freed */
    FH_PROFILE_FAULT_OVERFLOW,       /* behind a block */
    FH_PROFILE_FAULT_UNDERFLOW,      /* before a block */
} fh_profile_fault_kind;

typedef enum {
    FH_PROFILE_ACCESS_UNKNOWN,
    FH_PROFILE_ACCESS_READ,
    FH_PROFILE_ACCESS_WRITE,
    FH_PROFILE_ACCESS_EXECUTE,
} fh_profile_access;

typedef struct {
    uint64_t
        written; /* (atomic) 0: there was none; FAULT_BEGUN: it is being written; FAULT_WRITTEN: all of it is there */
    uint64_t check;       /* of what follows */
    uint64_t ns;          /* when */
    uint64_t address;     /* what was touched */
    uint64_t access;      /* fh_profile_access */
    uint64_t kind;        /* fh_profile_fault_kind */
    uint64_t signal;      /* the number of the signal */
    uint64_t thread;      /* the kernel's number of the thread */
    uint64_t block, size; /* the block that was meant, and its size as it was asked for */
    uint64_t is_free;     /* 1: the block was freed before */
    uint64_t allocated_frames, freed_frames, touched_frames; /* of these there are so many: */
    uint64_t allocated[FH_PROFILE_FAULT_FRAMES];
    uint64_t freed[FH_PROFILE_FAULT_FRAMES];
    uint64_t touched[FH_PROFILE_FAULT_FRAMES];
} fh_profile_fault;

/* ── Statistics: what the heap holds, under a sequence lock ─────────────────────────────────────────────────────────── */

/* Whose blocks a size class has. A reader asks the row and not the number of the class: numbers may change. */
typedef enum {
    FH_PROFILE_USE_NONE,    /* the row counts nothing */
    FH_PROFILE_USE_PROGRAM, /* the program's */
    FH_PROFILE_USE_SAMPLES, /* the program's blocks that are sampled: they lie apart */
    FH_PROFILE_USE_OWN,     /* the allocator's: magazines and thread caches */
    FH_PROFILE_USE_EDGES    /* free pages between large blocks, and the slots of all of these */
} fh_profile_use;

/* Blocks above this many bytes are counted for themselves, and are in no row. */
#define FH_PROFILE_HUGE ((uint64_t)2 << 20)

/* One size class, by its number in src/base/types.h. Class 0 is the row of runs above 1 MiB. Equation (standing still): made = live + cached + free ≤ room.
 * requested is an estimate out of the live samples' sizes (the tool makes it), so it is not here. */
typedef struct {
    uint64_t size, slabs, slots, room, made, free, cached, live;
    uint64_t sampled;      /* of live: in slots for samples; in the rows of these classes only */
    uint64_t occupancy[4]; /* slabs that are below 1/4, 1/2, 3/4, 4/4 live */
    uint64_t class_use;    /* fh_profile_use */
    uint64_t reserved[2];
} fh_profile_row;

typedef struct {
    uint64_t sequence; /* (atomic) odd while being written: read it, copy, read it again; 0: no statistics yet */
    uint64_t taken_ns; /* when */
    uint64_t cost_ns;  /* how long it took to collect */
    uint64_t rows;     /* entries of row[] that count */
    /* Bytes, of memory that the allocator has from the OS. Equation: slots of slabs and runs in use, in bytes
     * = live + huge + cached + free + fresh. */
    uint64_t live_bytes; /* blocks of up to 2 MiB that the program holds, at the size of their class */
    uint64_t live_blocks;
    uint64_t cached_bytes;            /* in magazines of threads, and in the depot */
    uint64_t thread_cached_bytes;     /* of these: in threads' magazines */
    uint64_t free_bytes;              /* free blocks in slabs that are in use */
    uint64_t fresh_bytes;             /* parts of slabs and runs that were never allocated: usually not resident */
    uint64_t purged_in_slabs_bytes;   /* of free_bytes: pages inside slabs that were returned to the OS */
    uint64_t dirty_bytes;             /* free slots that still have memory behind them: waiting to be purged */
    uint64_t purged_bytes;            /* free slots without memory: purged, or never used */
    uint64_t huge_bytes, huge_blocks; /* blocks above FH_PROFILE_HUGE, at what the program may use of them */
    uint64_t metadata_bytes; /* records about the heap, magazines and thread caches: those that were written to */
    uint64_t observer_bytes; /* private memory of the observer (the profile file is counted in the header) */
    uint64_t mapped_bytes;   /* address space in use by chunks */
    uint64_t chunks, free_chunks;
    uint64_t huge_page_chunks; /* chunks that were advised to use huge pages */
    uint64_t threads;
    uint64_t limit_soft, limit_hard, limit_in_use, limit_refusals; /* fh_limit_set and limit=; 0: none */
    uint64_t group_limit, group_used;                              /* of the container (control group); 0: none */
    uint64_t resident_bytes;                         /* of the whole process, as the kernel said then; 0: not said */
    uint64_t refills, flushes, from_depot, to_depot; /* slow paths */
    uint64_t purge_calls, purged_total_bytes, system_maps, system_unmaps; /* system calls so far */
    uint64_t purge_mode, thp_mode; /* fh_purge_mode and fh_thp_mode of base/settings.h */
    /* By the kernel, at that time, and only in the profile file: pages that are in memory of free slots, and of room in slots
     * in use that no block has ever had. They count if `measured` is 1. */
    uint64_t measured, resident_free_bytes, resident_fresh_bytes;
    /* And of slots of sampled blocks, live ones and free ones, the pages without memory: such a slot is up to twice as
     * large as its block. They are part of live_bytes and free_bytes. */
    uint64_t absent_live_bytes, absent_free_bytes;
    uint64_t check; /* of taken_ns … absent_free_bytes, and of as many rows as count */
    /* Blocks that the program holds between guards (option guard), in none of the sums above: their number, their bytes as they
     * were asked for, and the pages that they have to themselves. */
    uint64_t guarded_blocks, guarded_bytes, guarded_page_bytes;
    /* Bytes of blocks that wait for their deferred free, which are live until then, and the most that may wait. */
    uint64_t deferred_bytes, deferred_most;
    /* By the kernel too, if `measured` is 1: of other blocks of up to FH_PROFILE_HUGE bytes, those that the program holds and
     * those in caches, what lies on pages without memory. They are part of live_bytes and cached_bytes. */
    uint64_t absent_held_bytes, absent_cached_bytes;
    uint64_t reserved[3];
    fh_profile_row row[FH_PROFILE_CLASSES];
} fh_profile_statistics;

/* A ring of points, one each time statistics are taken: point n is entry n mod capacity. */
typedef struct {
    uint64_t ns; /* 0: never written */
    uint64_t resident_bytes, live_bytes, cached_bytes, free_bytes, dirty_bytes, huge_bytes;
    uint64_t check; /* (atomic) of all before it; 0 while they are written */
} fh_profile_point;

/* ── Modules: files with code, so that addresses can be named when the process is gone ───────────────────────────── */

typedef struct {
    uint64_t begin, end; /* addresses of the executable part */
    uint64_t bias;       /* address = bias + address in the file's symbol table */
    /* (atomic) When it was found to be gone; 0: still there. Its lower 16 bits are the upper ones of the check of the others
     * above them, then begin; a check of 0 is 1. Of layout 1 the word is the time. */
    uint64_t unloaded_ns;
    uint32_t build_id_bytes;
    uint8_t build_id[36];
    char path[944]; /* zero-terminated */
    uint64_t check; /* of begin, end and bias, then build_id_bytes … path */
} fh_profile_module;

/* ── Stacks: a tree of return addresses, each path kept once ─────────────────────────────────────────────────────── */

#define FH_PROFILE_NODE_CUT 1u /* flag: the walk ended here, and not at the thread's beginning */
#define FH_PROFILE_NODE_CHECK_SHIFT                                                                                    \
    1u /* the other 31 bits of the flags: the upper ones of the check of address, then
                                          parent + (cut << 32); 0: none was made */

typedef struct {
    uint64_t address; /* return address (symbolise address − 1); 0 of the root */
    uint32_t parent;  /* the caller's node: smaller than this node's own number. 0: outermost */
    uint32_t flags;   /* FH_PROFILE_NODE_CUT, and the check */
} fh_profile_node;

/* The name of heaps (freehold/heap.h) of which blocks were sampled. Heaps with one name, below parents of one name, share an
 * entry: a program may make and destroy them without end. */
#define FH_PROFILE_HEAP_NAME 48u
#define FH_PROFILE_HEAPS_MOST 4096u
#define FH_PROFILE_HEAP_NO_ROOM 0xFFFFFFFFu

typedef struct {
    uint32_t parent; /* entry of the parent's name, smaller than its own; 0: it has none */
    uint32_t reserved;
    char name[FH_PROFILE_HEAP_NAME]; /* zero-terminated */
    uint64_t check;                  /* of all before it; written last */
} fh_profile_heap;

/* A call site: a node that allocated, in heaps of one name or in none. All sums are weighted: a sample of s bytes stands for s/P bytes and 1/P blocks,
 * P = 1 − exp(−s/T), and 1 if T is 1. Bytes are whole, blocks in 1/256, variances (Σ s²(1−P)/P², the error bar) in units of 2^16 bytes².
 *     equation: live = allocated − freed */
#define FH_PROFILE_BLOCK_UNIT 256u
#define FH_PROFILE_VARIANCE_SHIFT 16u
#define FH_PROFILE_AGES 16u

typedef struct {
    uint32_t node;
    uint32_t heap; /* entry of the heaps' names, or FH_PROFILE_HEAP_NO_ROOM; 0: plain blocks */
    uint64_t allocated_samples, allocated_bytes, allocated_blocks,
        allocated_variance;                                            /* (atomic) since the beginning */
    uint64_t freed_samples, freed_bytes, freed_blocks, freed_variance; /* (atomic) */
    uint64_t first_ns, last_ns;                                        /* (atomic) of its samples */
    /* The site's share of the peak, without a walk over all sites at each new peak: before a site's live sum changes and
     * peak_of is not control.peak_number, the sum of before is kept as peak_bytes, and peak_of follows. So
     *     bytes at the peak = peak_of == control.peak_number ? peak_bytes : allocated_bytes − freed_bytes */
    uint64_t peak_of, peak_bytes, peak_blocks;
    /* Of freed blocks (weighted, bytes) by the age at which they were freed: below 1 µs, 4 µs, 16 µs … 4^14 µs, and the
     * rest; what realloc took off a block counts too. Equation: their sum = freed_bytes */
    uint64_t freed_at_age[FH_PROFILE_AGES];
    uint64_t place_check; /* of node + (heap << 32) */
    uint64_t first_check; /* of first_ns, by the thread that wrote it */
    uint64_t reserved[4];
} fh_profile_site;

/* A block that lives and was sampled. Found by its address: entry (hash of the address) and those that follow it, within
 * 32, in each extent. */
#define FH_PROFILE_SAMPLE_EMPTY UINT64_C(0)   /* the address in a place without a sample */
#define FH_PROFILE_SAMPLE_WRITING UINT64_C(1) /* the address while the entry is being written */
#define FH_PROFILE_PLAIN_BITS 48u             /* of `interval` and `drawn`: what is above them is a check */

typedef struct {
    uint64_t address;  /* (atomic) written last */
    uint64_t size;     /* (atomic) as requested; realloc in place changes it */
    uint64_t interval; /* T in force when it was drawn, and half of the check */
    uint64_t born_ns;
    uint32_t site;
    uint32_t thread; /* the kernel's number of the thread */
    uint32_t mark;   /* control.mark when it was born */
    uint32_t heap;   /* number of the heap that the block is of, which no other heap of the process has; 0: none */
    /* The size with which it was drawn: P = 1 − exp(−drawn/interval), and it stands for size/P bytes and 1/P blocks. It
     * differs from `size` when realloc changed a small block where it is. 0: as `size`.
     * Above FH_PROFILE_PLAIN_BITS is a check of interval … heap, this size, and address >> 4; in a place without a sample, of
     * `size` and `reached` in place of the address. Its upper 16 bits are here, the next 16 in `interval`. */
    uint64_t drawn;
    /* (atomic) The verdict of a scan (fh_profile_scan): 2 · number of the scan + 1 if the block could be reached from the program's
     * variables. It counts only if the number is that of the last scan and born_ns is before the scan's begun_ns. The upper 32
     * bits are those of the check of born_ns and the lower ones, which are 0 before any scan.
     * In a place without a sample: when its last sample was freed, on the clock of born_ns. The other words are that sample's
     * until the place is used again. So a reader knows what a program held before it freed everything at its end. */
    uint64_t reached;
} fh_profile_sample;

_Static_assert(sizeof(fh_profile_section) == 216, "layout");
_Static_assert(sizeof(fh_profile_header) <= FH_PROFILE_CONTROL_OFFSET, "the header fits in front of the control words");
_Static_assert(sizeof(fh_profile_control) <= 512 && sizeof(fh_profile_records) <= 512,
               "the control words and the addresses of records fit in front of the scan's answer");
_Static_assert(sizeof(fh_profile_scan) == 256 + sizeof(fh_profile_scan_row) * FH_PROFILE_CLASSES &&
                   sizeof(fh_profile_scan) <= FH_PROFILE_BODY_OFFSET - FH_PROFILE_SCAN_OFFSET,
               "layout");
_Static_assert(FH_PROFILE_SCAN_OFFSET + sizeof(fh_profile_scan) <= FH_PROFILE_FAULT_OFFSET &&
                   FH_PROFILE_FAULT_OFFSET + sizeof(fh_profile_fault) <= FH_PROFILE_BODY_OFFSET,
               "layout");
_Static_assert(sizeof(fh_profile_row) == 128, "layout");
_Static_assert(sizeof(fh_profile_point) == 64, "layout");
_Static_assert(sizeof(fh_profile_module) == 1024, "layout");
_Static_assert(sizeof(fh_profile_node) == 16, "layout");
_Static_assert(sizeof(fh_profile_site) == 256 + 32, "layout");
_Static_assert(sizeof(fh_profile_sample) == 64, "layout");
_Static_assert(sizeof(fh_profile_heap) == 64, "layout");

#endif
