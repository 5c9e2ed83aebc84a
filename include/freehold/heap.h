/* Freehold: heaps of your own. A heap is a place for blocks, with a name, an account and a limit, and it ends as a whole.
 *
 * What holds for every function here, beside what freehold.h says:
 *   Sizes        are in bytes. Accounts and limits count what a heap has taken: 64 KiB for the heap itself, then 64 KiB to
 *                1 MiB at a time for blocks of one size, and whole steps of 64 KiB for a block above 64 KiB. So a limit is on
 *                what may be resident. A heap's account has those of all heaps below it too.
 *   Alignment    every block begins at a multiple of 16; fh_heap_aligned_alloc gives what it is asked for.
 *   Scopes       between fh_heap_enter and fh_heap_leave a thread's malloc, calloc, realloc and operator new come from a heap.
 *   Frames       a private heap has blocks that end together, back to a mark, at five instructions each.
 *   Errors       NULL, or -1, with errno set. ENOMEM: no memory, or a limit is met: that of the heap or of one above it.
 *   Memory       comes from the system, or is given by the caller and then never from elsewhere.
 *   Threads      all functions may be called by any thread at any time and take no lock, with two exceptions. While
 *                fh_heap_reset or fh_heap_destroy runs, no other call may use that heap or its blocks, and all earlier ones must
 *                have returned. And a private heap (FH_HEAP_PRIVATE) and its blocks are used by the thread that made it alone.
 *   Fork         the child has all heaps with their blocks, and may use, reset and destroy them, also those that other threads of
 *                its parent were using. What such a thread was just taking may count as taken until the heap ends, and as long as
 *                those above it are there.
 *   Freeing      fh_free, and in the drop-in library free and operator delete, find the heap by themselves. So do realloc
 *                and malloc_usable_size.
 *   Cost         a block takes some ten to thirty nanoseconds. Blocks of heaps are not cached by threads. The profiler samples
 *                them with the heap's name, except frames and the cells of pools.
 *   Misuse       a heap that does not exist (any more), freeing what is free already, or a pointer into a block: one line on
 *                stderr, and the process ends (option on_error). A block that is freed after its heap was destroyed is found
 *                unless its memory is in use again, and so is a call that asks a destroyed heap for a block. Builds with
 *                FREEHOLD_CHECKED also find a private heap that another thread uses, and check the heap in every call.
 *   Ends         In builds with FREEHOLD_CHECKED a call on a heap, a free and a realloc that overlap its reset or destroy are
 *                reported, by the one or by the other. With on_error=report the one that reports does nothing: fh_heap_reset and
 *                fh_heap_destroy answer -1 with EBUSY, free returns, and the others fail with EINVAL. The last 16 destroyed heaps
 *                are known by name there, except those with FH_HEAP_NO_DUMP, HUGE or NAMED. A use of one of them, or of a block from its first 64 KiB, is reported as that. In
 *                release builds such an overlap is not found, and its outcome is undefined. Not looked at: cells of pools, and
 *                fh_frame_malloc while it hits. */
#ifndef FREEHOLD_HEAP_H
#define FREEHOLD_HEAP_H

#include "freehold/freehold.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fh_heap fh_heap;

/* fh_heap_options.flags. One thread makes and uses the heap. There is no atomic instruction in a call that allocates, frees or
 * reallocates a block of up to 64 KiB, nor in one for frames, as long as the heap has room. What it takes from the process is
 * counted and shared as ever: pieces of 64 KiB to 1 MiB, blocks above 64 KiB, its beginning and its end. */
#define FH_HEAP_PRIVATE 1u

/* Type-stable memory: a block that is free is at most used again for a block of its own size class, and keeps its pages and what
 * was written to it until then. So a reader without a lock may look at a block that is being freed, and check afterwards
 * whether it is still the one that was meant. That is over at the heap's reset and destroy, for which readers of
 * freehold/defer.h count: these fail with EAGAIN until each of them has passed a quiescent point since the first call. The
 * caller of it has passed. No other call is on the heap from the first one on.
 * What such a heap has taken stays with it until then, also at its limit. A free block above 64 KiB is used again for as many
 * steps of 64 KiB alone. Cost of such a block: a look at all blocks above 64 KiB that the heap has taken.
 * EINVAL: together with FH_HEAP_PRIVATE, memory or pages. */
#define FH_HEAP_TYPE_STABLE 2u

/* What the kernel does with the heap's memory, the heap itself included:
 *   NO_DUMP    it is left out of core dumps (VmFlags "dd" in /proc/PID/smaps). Copies that the program makes are not.
 *   POPULATE   it has pages from the moment that the heap takes it, and not from the first write to each page.
 *   HUGE       it is on huge pages where the kernel grants them ("hg").
 *   NAMED      /proc/PID/maps says [anon:freehold:NAME], if the kernel has names (5.17 and CONFIG_ANON_VMA_NAME). What it
 *              does not print is "_".
 * NO_DUMP, HUGE and NAMED are kept by the kernel for mappings. So such a heap begins with 2 MiB of address space of its own, and goes
 * on with 2 to 64 MiB, an eighth of what it has; a block above 1 MiB is a mapping too. What counts for limits is as ever, and
 * 64 KiB for each such piece. With HUGE up to 2 MiB of each piece may be resident beyond that. The memory is the heap's until its
 * reset or destroy, and is as all other memory afterwards. A process has 8,192 such pieces at a time, so that it does not run
 * out of mappings. HUGE and NAMED are hints.
 * Errors: fh_heap_new: ENOTSUP: the kernel does not leave memory out of dumps, or the program has a filter of system calls;
 * EINVAL: together with given memory. Later: ENOMEM, also where a piece is needed and there are too many, or a page of a
 * populated heap cannot be had. Cost: up to five system calls for each piece, at its begin and end together. */
#define FH_HEAP_NO_DUMP 4u
#define FH_HEAP_POPULATE 8u
#define FH_HEAP_HUGE 16u
#define FH_HEAP_NAMED 32u

/* Each block keeps what was asked for. So malloc_usable_size and fh_heap_walk say that, and fh_heap_stats_below counts it. A block is
 * 16 bytes longer for it; one of more than 64 KiB, less 16 bytes, may be a step of 64 KiB longer, and has memory behind its end. It
 * takes about twice the time. A frame's segments are what counts of frames. */
#define FH_HEAP_SIZES 64u

/* A bounded heap, for audio, control and game loops. fh_heap_malloc, fh_heap_aligned_alloc and fh_free take at most 2,000 instructions
 * each, whatever other threads do, in release builds. They make no system call, and no page fault: all of hard_limit, 256 KiB to
 * 16 GiB, is taken, charged and given pages when the heap is made. Nothing comes from elsewhere afterwards, and it goes back at destroy. A calloc and a
 * realloc add what it takes to clear or copy the block.
 *   Sizes    16-byte steps up to 128 bytes, then four a doubling up to 32 KiB, then whole steps of 64 KiB up to 1 MiB. A longer block, or one that is
 *            more aligned, fails with ENOMEM. Blocks of a size are in slabs of 64 KiB, so small heaps are for few sizes. A slab is used for
 *            another size once all of it is free. One part in a hundred, and 64 to 128 KiB, are for bookkeeping.
 *   ENOMEM   there is no room. Or other threads have taken, within this one call, what it was about to take, several times. A block
 *            above 32 KiB is also refused if the heap is in such pieces that none is found in time.
 *   Threads  any. The call that frees may be another thread's. A thread's first call of all may do more, as it makes the thread known: make
 *            it before the loop.
 *   fork     the child has the same heap, but its pages are copied at the first write to each, which is a page fault.
 * Its blocks are not sampled by the profiler, and no tool that watches memory is told of them. Walks and fh_heap_stats are not bounded. A
 * page that is swapped out is a fault: mlock what you must not lose.
 * EINVAL: no hard_limit, or another one than above; together with a soft limit, a callback, memory, pages, or a flag other than
 * FH_HEAP_POPULATE. And fh_heap_limit of such a heap. ENOMEM at fh_heap_new also if a limit of its parent is in the way. */
#define FH_HEAP_BOUNDED 128u

/* A limit is met: `hard` is 1 if a call is about to fail for it, and 0 if the soft limit was passed, which is told once each
 * time. A heap that is made below counts too. The callback may free blocks and set limits. It returns other than 0 if trying again
 * may help; it is asked 16 times at most for one call. What it allocates from the heap that is full fails at once, without another
 * callback. One thread at a time is in it: another one that is refused there meanwhile fails at once, and one that passes the soft limit
 * is not told. A reset or destroy of that heap fails there with EBUSY, and is reported by builds with FREEHOLD_CHECKED. It must return: not by longjmp or an exception, and its thread must
 * not end in it, unlike in fh_limit_set's. In the child of a fork that is made in it no callback counts as running: the child may
 * be asked again, and should go on to exec or _exit. */
typedef int (*fh_heap_callback)(fh_heap *heap, size_t wanted, int hard, void *arg);

/* Memory of the program, for fh_heap_options.pages. The callbacks are called by the threads that use the heap, by two at a time too.
 *   get        gives `size` bytes, whole steps of 64 KiB, at a multiple of `alignment`, a page. Their content does not
 *              matter. NULL: there is none.
 *   purge      these pages are in a freed block of 64 KiB or more, and their content is not needed any more. The heap may
 *              write to them at any time later. NULL: it is not told.
 *   give_back  memory of one get is not the heap's any more: at its reset or destroy, or because it was of no use.
 * Each must return, as fh_heap_callback must. It may use other heaps, and free blocks of this one. What it allocates from its own heap comes from the memory that is
 * there, and fails with ENOMEM where another get were needed. A plain malloc in a scope of the heap is such an allocation too. A
 * reset or destroy of that heap fails there with EBUSY; builds with FREEHOLD_CHECKED report it. */
typedef struct fh_heap_pages {
    void *(*get)(void *arg, size_t size, size_t alignment);
    void (*purge)(void *arg, void *p, size_t size);
    void (*give_back)(void *arg, void *p, size_t size);
    void *arg;
} fh_heap_pages;

/* All zero is a plain heap. */
typedef struct fh_heap_options {
    const char *name;  /* copied, 47 bytes of it */
    fh_heap *parent;   /* whose account and limits this heap is under as well; NULL: none */
    size_t soft_limit; /* bytes; 0: none */
    size_t hard_limit; /* bytes; 0: none. Never passed */
    fh_heap_callback callback;
    void *arg;      /* for the callback */
    unsigned flags; /* FH_HEAP_… */
    void *memory;   /* where all blocks are, in place of the system's: see below. NULL: none */
    size_t memory_size;
    const fh_heap_pages *pages; /* where all blocks are, in place of the system's: see below. Copied. NULL: none */
    void *reserved;             /* 0 */
} fh_heap_options;

/* A heap; options may be NULL.
 * With `memory` all of its blocks are there: in a static array, a mapping that processes share, or huge pages. It has 4 KiB at
 * least, and is not of Freehold. When it is full the callback is asked, and then the call fails: nothing comes from elsewhere. One
 * part in forty is for bitmaps. A block above 1 KiB takes whole KiB. Accounts have 64 KiB for such a heap, and it has no limits. The
 * program gets the memory back when the heap is destroyed. 64 heaps can have given memory at a time. In a shared mapping the
 * child of a fork goes on with the same heap as its parent, unless it is private.
 * With `pages` all blocks are in memory that the program's callbacks give, and nothing comes from elsewhere. The heap asks for 1 MiB
 * at first, then for as much as it has, and if that is refused for half of it, and so on, down to what the block needs. That memory counts for limits. What `get`
 * gives with another alignment, in Freehold's own memory, or as a part of what a heap has, goes back by `give_back`, and the call fails
 * with ENOMEM. So does the 65th piece, of all heaps over given memory and pages together. The rest is as with `memory`.
 * Errors: ENOMEM; EINVAL: a flag that there is not, a hard limit below 64 KiB, a soft limit above the hard one, memory that
 * is too small, is another heap's, or comes with a limit, or pages without get or give_back, with memory, or with a flag for
 * pages. Cost: under a microsecond. */
FH_API fh_heap *fh_heap_new(const fh_heap_options *options);

/* As malloc, calloc, aligned_alloc and realloc, out of the heap. realloc of a block of another heap, or of none, moves it to
 * this one. To 0 bytes it frees the block and returns NULL. */
FH_API void *fh_heap_malloc(fh_heap *heap, size_t size) FH_API_MALLOC FH_API_SIZE(2);
FH_API void *fh_heap_calloc(fh_heap *heap, size_t count, size_t size) FH_API_MALLOC FH_API_PRODUCT(2, 3);
FH_API void *fh_heap_aligned_alloc(fh_heap *heap, size_t alignment, size_t size) FH_API_MALLOC FH_API_SIZE(3);
FH_API void *fh_heap_realloc(fh_heap *heap, void *p, size_t size) FH_API_SIZE(3);

/* The heap that the block at p is of; NULL: none. p may point anywhere. Cost: a few loads. */
FH_API fh_heap *fh_heap_of(const void *p);

/* The name that the heap was given, or "". */
FH_API const char *fh_heap_name(const fh_heap *heap);

/* Frees all blocks at once. The heap stays, with its limits. EBUSY: a thread is in a scope of it or in its callback. EAGAIN: it is
 * type-stable, and a reader has not passed yet; nothing was done. Cost: some 0.3 us for each 64 KiB to 1 MiB taken, however many
 * blocks are in it. */
FH_API int fh_heap_reset(fh_heap *heap);

/* The same, and the heap ends. EBUSY: heaps whose parent it is are still there, or a thread is in a scope of it or in its callback;
 * nothing was done.
 * EAGAIN: as above.
 * NULL is allowed. With option heap_left=1 it says on stderr what is live: blocks, bytes, what is resident, and the call sites of those
 * that were sampled. */
FH_API int fh_heap_destroy(fh_heap *heap);

/* fn(arg) is called once when the heap is reset or destroyed, before its blocks go: the newest first. It may use the heap, and
 * it must not reset or destroy it, nor leave a scope of it or a heap below it. Takes 32 bytes of the heap, 48 with FH_HEAP_SIZES.
 * -1 with ENOMEM: it will not be called. */
FH_API int fh_heap_on_destroy(fh_heap *heap, void (*fn)(void *arg), void *arg);

/* ── Frames, on private heaps ────────────────────────────────────────────────────────────────────────────────────── */

/* A mark is where a heap's frames are now. What fh_frame_malloc gives later is released back to it, all at once. Frame blocks are
 * not freed one by one: fh_free of one is found as a pointer into a block. Blocks of fh_heap_malloc stay as they are. Marks are
 * a stack: with a mark all later ones end. A reset ends all of them. */
typedef struct fh_heap_mark {
    void *segment;
    char *next;
} fh_heap_mark;

/* Cost: two loads. */
FH_API fh_heap_mark fh_mark(fh_heap *heap);

/* Errors: EINVAL: the mark is of another heap, or was released already; nothing is done. Found for the newest ones for sure, and for
 * others unless their place is a frame again. Cost: some ten instructions, and a free for each segment (4 to 256 KiB). */
FH_API int fh_release_to(fh_heap *heap, fh_heap_mark mark);

/* What the inline function below does not have room for. Errors: ENOMEM; EINVAL: the heap is not private. */
FH_API void *fh_frame_more(fh_heap *heap, size_t size) FH_API_SIZE(2);

/* The beginning of a heap, for that function alone. Another layout would be another version of the library. */
struct fh_heap_frames {
    void *own[2];
    char *next, *end;
};

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what follows is C */
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif
/* A block that ends with its frame, at a multiple of 16. Cost: five instructions if the size is a constant, nine else. */
static inline void *fh_frame_malloc(fh_heap *heap, size_t size) {
    struct fh_heap_frames *f = (struct fh_heap_frames *)(void *)heap;
    char *p = f->next;
    /* A size above the room is not rounded, so that it cannot become small by that. */
    if (!(__builtin_constant_p(size) && size <= 4096) && size > (size_t)(f->end - p)) return fh_frame_more(heap, size);
    char *next = p + ((size + (size == 0) + 15) & ~(size_t)15);
    if (__builtin_expect(next > f->end, 0)) return fh_frame_more(heap, size);
    f->next = next;
    return p;
}
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ── Scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* From now on malloc, calloc, realloc, the aligned calls, their fh_ names and operator new of the calling thread take from the
 * heap. Scopes may be nested; the innermost counts. realloc of a block of no heap moves it to the heap when it is copied; one
 * of another heap stays of that. Freeing is as ever. Other threads pay nothing.
 * Errors: ENOMEM; EINVAL: the heap is private to another thread. A thread that ends leaves its scopes. In the child of a fork the
 * scopes of the thread that forked are open, and those of others are not. Cost: two allocations' worth. */
FH_API int fh_heap_enter(fh_heap *heap);

/* Back to what was before. EINVAL: the thread is in no scope. */
FH_API int fh_heap_leave(void);

/* The heap of the innermost scope, or NULL. */
FH_API fh_heap *fh_heap_entered(void);

/* ── Walks, limits and figures ───────────────────────────────────────────────────────────────────────────────────── */

/* Calls fn for every live block, whichever thread allocated it. A block that another thread allocates or frees meanwhile is
 * met or not. fn may free blocks, which are not met any more. Met are also what fh_heap_on_destroy has taken, the segments of
 * frames, and a pool and its pages. fn leaves these alone. */
FH_API int fh_heap_walk(fh_heap *heap, void (*fn)(void *block, size_t size, void *arg), void *arg);

/* Changes the limits; 0: none. A hard limit below what the heap has is allowed: nothing more is taken until there is less. When a heap is
 * refused, each of up to seven other threads that use it and do nothing may keep free blocks of it: 6 KiB of a size up to 3 KiB at most. */
FH_API int fh_heap_limit(fh_heap *heap, size_t soft_limit, size_t hard_limit);

/* What a heap has. Of this heap alone: count, live and resident. With all heaps below it: taken and peak. */
typedef struct fh_heap_figures {
    size_t count;    /* live blocks */
    size_t live;     /* their bytes, with what each block has beyond what was asked for */
    size_t resident; /* bytes that have memory behind them, as the kernel says */
    size_t taken;    /* bytes that count for limits */
    size_t peak;     /* the most that `taken` was */
    size_t soft_limit, hard_limit;
    size_t refusals; /* times that its hard limit was in the way */
} fh_heap_figures;

/* Cost: a walk over the heap, and a system call for each piece that it took. */
FH_API int fh_heap_stats(fh_heap *heap, fh_heap_figures *figures);

/* What a heap and all heaps below it have together. */
typedef struct fh_heap_totals {
    size_t heaps;     /* of which it is, this one too */
    size_t count;     /* live blocks */
    size_t live;      /* their bytes, with what each block has beyond what was asked for */
    size_t requested; /* what was asked for; of a heap without FH_HEAP_SIZES it is what counts in `live` */
    size_t unknown;   /* bytes of `requested` that are of such heaps: what was asked for there is that or less */
    size_t resident;  /* bytes that have memory behind them, as the kernel says */
    size_t taken;     /* bytes that count for limits */
    size_t peak;      /* the most that `taken` was */
    size_t reserved[4];
} fh_heap_totals;

/* Any thread may ask, also for private heaps of others. None of the heaps may be reset or destroyed meanwhile: the call is on all of them.
 * Those that are made meanwhile are in it or not. Cost: that of fh_heap_stats for each heap, and two loads for each 64 KiB that
 * the process had at its peak. */
FH_API int fh_heap_stats_below(fh_heap *heap, fh_heap_totals *totals);

#ifdef __cplusplus
}
#endif

#endif
