/* Freehold: a memory allocator for programs with many threads. The public C interface; C99 and later, C++98 and later.
 *
 * The drop-in library (libfreehold) takes over malloc and its family and needs no header. This one names the same
 * functions with the prefix fh_, in both libraries. libfreehold-embed has *only* these names: a program can use it for
 * some of its memory and leave malloc alone.
 *
 * What holds for every function here:
 *   Sizes        are in bytes. A request above PTRDIFF_MAX fails.
 *   Alignment    every block begins at a multiple of 16; the aligned calls give what they are asked for.
 *   Errors       NULL, with errno set: ENOMEM no memory, or more than there can be; EINVAL an argument makes no sense.
 *   Threads      all functions may be called by any thread at any time, also from destructors of thread-local objects,
 *                from atexit handlers, before main, and in the child of a fork. A block may be freed by any thread.
 *                None takes a lock; a thread that is stopped inside one never stops another. Not async-signal-safe.
 *   Cost         "hit" below is the usual case: a pop or push in the calling thread's cache, 13 to 24 instructions, no
 *                atomic one, no system call. Every 6th to 500th call, by how much the thread uses that size, is slower
 *                and moves many blocks at once.
 *   Misuse       a pointer that did not come from here, points into a block, or was freed before, is reported on stderr
 *                in one line that names the call and the pointer, and ends the process (option on_error). Foreign
 *                pointers are found at once. A block that the same thread frees twice in a row, or resizes just after
 *                it freed it, is found in the second call (option double_free); with other frees in between usually.
 *                From another thread, and for pointers into a block, nothing is promised before the cache that the
 *                block is in is flushed (in fh_thread_flush and fh_malloc_trim; an ended thread's cache may wait for
 *                the next thread). A block that was handed out again in between is live: its free is no mistake that
 *                can be seen. Builds with FREEHOLD_CHECKED find at once what the thread itself has cached.
 *
 * Blocks of the fh_ functions belong to fh_free. In the drop-in library fh_free is free. */
#ifndef FREEHOLD_FREEHOLD_H
#define FREEHOLD_FREEHOLD_H

#include <stddef.h>
#include <stdio.h>

#define FH_VERSION "0.1.0"
#define FH_VERSION_MAJOR 0
#define FH_VERSION_MINOR 1
#define FH_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define FH_API __attribute__((visibility("default")))
#define FH_API_MALLOC __attribute__((malloc, warn_unused_result))
#define FH_API_SIZE(n) __attribute__((alloc_size(n)))
#define FH_API_PRODUCT(a, b) __attribute__((alloc_size(a, b)))
#else
#define FH_API
#define FH_API_MALLOC
#define FH_API_SIZE(n)
#define FH_API_PRODUCT(a, b)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ── Allocating and freeing ──────────────────────────────────────────────────────────────────────────────────────── */

/* A block of at least `size` bytes, not initialised. Of 0 bytes: a block of its own that can be freed. Hit: up to 1 MiB.
 * Sizes go in steps of 16 bytes to 1 KiB, in eight steps a doubling to 64 KiB, and in sixteen to 1 MiB. Above that they are
 * whole pages of 4 KiB. Above 1 MiB a call takes some 0.3 µs. */
FH_API void *fh_malloc(size_t size) FH_API_MALLOC FH_API_SIZE(1);

/* A block of count × size bytes that reads as zero; ENOMEM when the product overflows. As fh_malloc. Up to 64 KiB it is always
 * written. Above that, memory fresh from the OS is not, and whole pages are returned to the OS instead of being written. */
FH_API void *fh_calloc(size_t count, size_t size) FH_API_MALLOC FH_API_PRODUCT(1, 2);

/* The block at p with `size` bytes, here or elsewhere; what fits of its content is kept. p NULL: as fh_malloc. size 0:
 * frees p and returns NULL, as glibc does. On failure the block at p is as it was. Stays in place within its size step, and
 * above 64 KiB also where the memory behind it is free. From 2 MiB on it may move by its pages instead of its bytes. What
 * grows beyond 1 MiB and has to move gets address space to grow into, half as much again, unless there is a limit. */
FH_API void *fh_realloc(void *p, size_t size) __attribute__((warn_unused_result)) FH_API_SIZE(2);

/* The same of count × size bytes; ENOMEM when the product overflows. Idea: OpenBSD. */
FH_API void *fh_reallocarray(void *p, size_t count, size_t size) __attribute__((warn_unused_result))
FH_API_PRODUCT(2, 3);

/* Frees the block at p. NULL: does nothing. Keeps errno. Hit: up to 1 MiB; neither the block nor any metadata but one
 * byte for 64 KiB is read. */
FH_API void fh_free(void *p);

/* The same, for a caller who knows the size that was asked for (C23); with a checked build a wrong one is reported. The
 * second form is for blocks of the aligned calls. */
FH_API void fh_free_sized(void *p, size_t size);
FH_API void fh_free_aligned_sized(void *p, size_t alignment, size_t size);

/* ── Aligned ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block at a multiple of `alignment`, which is a power of two, else EINVAL (C11 and POSIX). Hit: alignments up to
 * 64 KiB cost what the next larger size costs that is a multiple of it, if that is at most 64 KiB; up to 1 MiB those of at
 * most 4 KiB do. All others come out of no cache. */
FH_API void *fh_aligned_alloc(size_t alignment, size_t size) FH_API_MALLOC FH_API_SIZE(2);

/* The same through *p; returns the error (0, EINVAL, ENOMEM) and leaves errno alone. EINVAL also when the alignment is
 * no multiple of sizeof(void *). On failure *p is as it was. */
FH_API int fh_posix_memalign(void **p, size_t alignment, size_t size);

/* The older names. memalign rounds the alignment up to a power of two, as glibc does; valloc aligns to a page, and
 * pvalloc also rounds the size up to whole pages. */
FH_API void *fh_memalign(size_t alignment, size_t size) FH_API_MALLOC FH_API_SIZE(2);
FH_API void *fh_valloc(size_t size) FH_API_MALLOC FH_API_SIZE(1);
FH_API void *fh_pvalloc(size_t size) FH_API_MALLOC;

/* Bytes that the block at p holds: what was asked for or up to an eighth more; up to two fifths where it lies in a hole
 * that blocks of another size have left. All of them may be used. With option check exactly what was asked for. 0 for NULL. */
FH_API size_t fh_malloc_usable_size(void *p);

/* ── Sizes that fit, and many at once ────────────────────────────────────────────────────────────────────────────── */

/* The bytes that a request of `size` bytes gets: asking for all of them costs nothing. At most an eighth more above 128 bytes.
 * 16 for 0. A size that there cannot be is returned as it is. Pure arithmetic, some 10 instructions. */
FH_API size_t fh_good_size(size_t size);

/* A block of at least `size` bytes; *got says how many it has, fh_good_size(size), and all of them may be used. Otherwise as
 * fh_malloc. On failure *got is as it was. `size` and *got are both right for fh_free_sized. */
FH_API void *fh_malloc_at_least(size_t size, size_t *got) FH_API_MALLOC;

/* fh_malloc for an object of a type that the token stands for: FH_TYPE_DATA, FH_TYPE_POINTERS if it holds pointers, or what
 * clang's __builtin_infer_alloc_token gives. Blocks with pointers are in address space of their own for as long as the process
 * lives. None of them shares a slab with a block without, nor has an address that one has had or will have. fh_realloc keeps a block
 * on its side. Freed by fh_free. Blocks with pointers are in no cache: some 1,600 instructions for the pair, where
 * fh_malloc and fh_free take 37. With option check, and in a heap's scope, there is no difference. Option tokens: how many there are. */
FH_API void *fh_malloc_type(size_t size, size_t token) FH_API_MALLOC FH_API_SIZE(1);
#define FH_TYPE_DATA ((size_t)0)
#define FH_TYPE_POINTERS ((size_t)1)

/* Makes the block at p at least `size` bytes where it is, or leaves it alone: nothing is copied, and p stays. 1: it has them
 * now. 0: it has not, or p is NULL. Keeps errno. Up to 64 KiB a block has what fh_malloc_usable_size says; a larger one grows
 * where the memory behind it is free. With option check a block never grows, and a heap's block does not either. Not fast: some 100
 * instructions. */
FH_API int fh_try_grow(void *p, size_t size);

/* `count` blocks of `size` bytes each, as by fh_malloc, into blocks[0 … count - 1]. Returns how many there are: fewer than
 * `count` when there is no memory for more, with errno ENOMEM. Each is a block of its own and may be freed by itself. Cost: up
 * to 1 MiB some 6 instructions a block, beside what one call costs. */
FH_API size_t fh_malloc_batch(size_t size, size_t count, void **blocks);

/* Frees blocks[0 … count - 1], of any sizes, as fh_free does each. NULL among them does nothing. Keeps errno. Cost: some 14
 * instructions a block where neighbours in the array are of one size. A double free is looked for as in fh_free. */
FH_API void fh_free_batch(void *const *blocks, size_t count);

/* ── Returning memory ────────────────────────────────────────────────────────────────────────────────────────────── */

/* Flushes the calling thread's cache, then returns the memory of everything free to the OS, except
 * `keep` bytes. Returns 1 if memory went back, else 0. Cost: some system calls, 0.1 µs a page that goes back. What other
 * threads have in their caches stays there: of blocks up to 32 KiB some 2 MiB each. Of longer ones all threads have an eighth
 * of what is in use, or 4 MiB, but each may have 512 KiB, and none has more than 2 MiB. Idea: glibc's
 * malloc_trim. */
FH_API int fh_malloc_trim(size_t keep);

/* Hands everything that the calling thread's cache holds to the other threads. For a thread that is going to be idle for
 * long; one that ends does so by itself. */
FH_API void fh_thread_flush(void);

/* ── Checking ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* For a program that runs with option check, without which both return 0. Is the block at p live, and are the bytes before and
 * behind it as they were? 0: yes, or p is NULL. 1: no, and a report on stderr says what is wrong. Never ends the process, so a
 * debugger may call it. */
FH_API int fh_check(const void *p);

/* The same of all live blocks: how many are damaged. A report each. Cost: some 10 ns a block, 300 when there are other threads.
 * A checked program does it by itself when it ends. */
FH_API size_t fh_heap_check(void);

/* ── Options ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Sets an option, as FREEHOLD=key=value,… in the environment does at start. 0, or -1 with errno EINVAL and a message on
 * stderr that names the valid keys or values. Takes effect at once, for all threads, not retroactively.
 *     verbose    0 1                    at start: print the version, what is active, and each option that is not the default
 *     stats      0 1                    at exit: print the table of fh_stats_print on stderr
 *     on_error   abort report           what follows the message about a misuse: the end, or ignoring the call
 *     double_free   call flush          where a second free is found: in the call, or when its magazine is flushed; for a
 *                                       thread from its next slow call on
 *     purge      budget eager lazy background   when free memory returns to the OS; background: by a thread too
 *     thp        auto never always      whether huge pages are asked for
 *     limit      0, or 64m, 2g, …       bytes that the heap may have at most; see fh_limit_set
 *     on_oom     auto silent report     when the program gets NULL for want of memory: one line on stderr that says which
 *                                       limit was met, once for each; auto: not for a block larger than the machine
 *     files      auto start live        until when the kernel's files are read, after which no call is made that glibc's malloc
 *                                       does not make; auto: until the program sandboxes itself (prctl), which only the
 *                                       drop-in sees. With fh_option_set, start means now
 *     deepbind   drop keep              what becomes of dlopen's flag RTLD_DEEPBIND (drop-in only), which gives a library the
 *                                       C library's malloc
 *     metrics    a path without comma   the file that fh_stats_metrics is written to at exit, and before that at most once
 *                                       a second by a thread that happens to be in a slow path; %p is the process's number. What is
 *                                       no file (a device) is not replaced, and a link not followed
 *     observe    0 1                    sample allocations, and show them and the heap in a profile file, which the command reads
 *     sample     512k, 4m, …            mean bytes between two samples; 0: none, the heap's figures only
 *     page       a path without comma   the directory of the profile file, which then stays when the program ends; else /dev/shm
 *     flight     0, 64m, 1g, …          bytes of records, from 1m on: the program's last calls of the allocator are kept in a file in
 *                                       /dev/shm, or where page says, for after a crash; see docs/recording.md. At start only
 *     check      0 1 2                  find misuse at the call, as docs/misuse.md says: fill, guards, quarantine, call stacks.
 *                                       2: and verify the heap now and then. At start, while there is one thread
 *     fail       7, every:1000, …       allocations that fail on purpose: the 7th; each 1,000th; after:64m, all after 64 MiB;
 *                                       site:HASH, all of one call stack. Turns check on. At start only
 *     fail_log   a path without comma   the file that sites, failures and what is live at exit are appended to. The same
 *     guard      0, 1000, …             one allocation in so many has guards around it: an overrun or a use after free faults,
 *                                       and is explained. At most 1048576; guard alone: 1000. From 100 on guards take a
 *                                       hundredth of the CPU time at most
 *     harden     0 1 zero               random places, delayed re-use, gaps between sizes; zero: and freed blocks are zeroed. At
 *                                       start only; docs/hardening.md
 *     tokens     0, 2, …                what clang's -falloc-token-max had, if it was given; see fh_malloc_type
 *     quarantine  8m, 0, …              with check or guard: bytes of freed blocks that wait before they are used again
 *     defer      64m, 1m, …             the most bytes that may wait for a deferred free (freehold/defer.h)
 *     heap_left  0 1                    what is live in a heap when it is destroyed is written to stderr (freehold/heap.h)
 * FREEHOLD=help prints this list at start. The environment is not read by programs that run with more rights than their
 * caller. */
FH_API int fh_option_set(const char *key, const char *value);

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Limits what all blocks of the process may take, in bytes of the 64 KiB slots that they are in; 0 means none.
 *
 *     soft   passed: the callback is called after the allocation that did so, and again for each further 32nd. After a realloc
 *            that moved the pages of a large block, the next call that leaves the thread's cache calls it
 *     hard   met: caches are emptied, the callback is called, the allocation is tried once more; then it returns NULL with
 *            ENOMEM (operator new throws). From the first refusal on small blocks may use a reserve (a 16th, at most
 *            4 MiB), so that the program can deal with it. What is freed can be allocated again. A block that
 *            can never fit below the limit is refused at once, without the callback.
 *
 * The callback gets the bytes in use and the limit in question. It runs in the thread that allocated, with nothing of the
 * allocator's held: it may free and allocate, but must not leave by longjmp or an exception. A thread may end in it: the
 * block of the call is freed, and a block that was to be resized is as it was. Not in a call on a heap or in its scope
 * (freehold/heap.h): what it was about to take would count for the heap, and checked builds would not let the heap end. As
 * glibc's header tells the compiler that malloc calls nothing of the caller's file, what the callback changes must be
 * volatile or atomic if that file reads it. One thread at a time is in
 * it. May be called again at any time; a hard limit below what is in use refuses until enough was freed.
 * The records about the heap (1 % of it) are not counted. 0, or -1 with errno EINVAL if soft exceeds hard, or if hard is
 * less than 1 MiB. */
FH_API int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit));

/* ── Seeing ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* FH_VERSION of the library that is really there. */
FH_API const char *fh_version(void);

/* Writes a table for people to the file descriptor: what each size class and the caches hold, and all memory. Walks
 * the whole heap (some ms for 10 GiB) without stopping anybody, so that figures of a running program are a little off.
 * Allocates nothing. 0, or -1 with errno EINVAL for a negative descriptor. */
FH_API int fh_stats_print(int fd);

/* The same figures for programs, as JSON (one object, in UTF-8). Writes at most `size` bytes to the buffer, a terminating
 * zero among them, and returns the length that the whole text has without it: it is complete if that is less than `size`,
 * and a buffer of 0 bytes finds out what is needed. 32 KiB are enough for most heaps, 64 KiB for any. Allocates nothing.
 * Returns 0 with errno ENOMEM when the OS has no memory for the figures. Cost: as fh_stats_print.
 *
 *     { "schema": 1,            grows when a member goes or changes its meaning; new ones may come at any time
 *       "version": "0.1.0",     of the library
 *       "taken_ns": n,          when, on the monotonic clock; "cost_ns": how long it took
 *       "options": {"purge": "budget", "thp": "auto"},
 *       "heap":     {…},        what there is at this moment, in bytes (…_bytes) or as a number
 *       "limits":   {…},        the program's own and the control group's, in bytes; 0 is none
 *       "counters": {…},        what was done so far
 *       "classes":  [ {"size": 64, "use": "program", "slabs": n, "slots": n, "room": n, "made": n, "free": n,
 *                      "cached": n, "live": n, "sampled": n, "occupancy": [n, n, n, n]}, … ] }
 *
 * A class is left out while it has no slab; "use": the program's blocks, its blocks that are "samples" of the
 * observer, or the allocator's "own"; "edges": the slots of all large blocks of up to 1 MiB, and the free pages
 * between these. "size" 0 is the row of blocks of 1 to 2 MiB, which differ in size.
 * occupancy: slabs of which less than 1/4, 1/2, 3/4, and more of the blocks are out. All numbers are whole, below 2^63.
 * docs/statistics.md says what each of them means, and which equations hold. */
FH_API size_t fh_stats_json(char *buffer, size_t size);

/* The same as OpenMetrics text (also read as Prometheus' text form), in families that begin with freehold_. The option
 * metrics=FILE has it written to a file. */
FH_API size_t fh_stats_metrics(char *buffer, size_t size);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* glibc's calls for the same figures. The fields have glibc's names; what they mean here is said beside them. The first
 * form's fields are as large as an int can be when the true figure is larger. */
struct fh_mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct fh_mallinfo2 {
    size_t arena;    /* bytes of memory of blocks of up to 2 MiB, and of what is free: uordblks + fsmblks + fordblks */
    size_t ordblks;  /* free blocks, in slabs and in caches */
    size_t smblks;   /* free blocks in caches of threads and in the depot */
    size_t hblks;    /* blocks above 2 MiB */
    size_t hblkhd;   /* bytes of them */
    size_t usmblks;  /* 0 */
    size_t fsmblks;  /* bytes in caches */
    size_t uordblks; /* bytes of blocks that the program holds, without those above 2 MiB */
    size_t fordblks; /* bytes free elsewhere: in slabs, and slots that still have memory */
    size_t keepcost; /* bytes that malloc_trim(0) would return without looking into caches and slabs */
};
FH_API struct fh_mallinfo fh_mallinfo(void);
FH_API struct fh_mallinfo2 fh_mallinfo2(void);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Writes the figures as XML, in the elements that glibc uses and one a size class. `options` must be 0. Returns 0, or
 * EINVAL. */
FH_API int fh_malloc_info(int options, FILE *stream);

/* fh_stats_print(2). */
FH_API void fh_malloc_stats(void);

/* Checks the allocator's own records, all of them: each slab, chunk, depot, cache and counter against the equations that
 * they keep. For tests, and for a program that suspects an overwritten heap. Returns the number of violated equations, 0
 * for a heap that is whole, and prints the first 100 to stderr, one line each: the equation's name, the place, and what was
 * found there. Changes nothing and allocates no block; keeps errno.
 *
 * The heap must be at rest: while another thread is inside the allocator, the answer is a guess. Threads that wait for
 * something else may exist. In the child of a fork the answer counts only if the parent had one thread. With the option
 * purge=background the allocator's own thread may be at work too.
 * Cost: reads all metadata, 1 % of the heap, some ms for a GiB; and maps 1/128 of the heap for the time of the call. */
FH_API size_t fh_verify(void);

/* glibc's tuning knobs. M_PERTURB: freed blocks are filled with that byte, new ones with its complement; 0 ends it. Other threads
 * follow with their next slow path, and nothing is sampled meanwhile. The variable MALLOC_PERTURB_ does the same. The other knobs
 * that exist have no effect: each is about a mechanism that Freehold does not have, or does by itself. 1; 0 for unknown ones. */
FH_API int fh_mallopt(int parameter, int value);

#ifdef __cplusplus
}
#endif

#endif
