/* The seam to the operating system: what every port has to provide, one function for each thing that is asked. linux*.c
 * answers on Linux; another system is another set of files, chosen by the build. What only observation needs is in
 * inspect.h, and a port may leave that to stubs.
 *
 * For all of it:
 *
 *   Memory     Nothing here allocates from the heap, except where a comment says that the C library may.
 *   Blocking   Nothing here waits for another thread, except fh_system_wait and the C library's own heap. A call may take as long as the kernel takes.
 *   Threads    Any thread, any time, also in a signal handler, except where a comment says otherwise.
 *   errno      Kept. The functions that get memory may leave any value: they are marked "sets errno".
 *   Cancelling None is a cancellation point: a thread cancelled in the middle of malloc would leave its cache half changed.
 *   Sizes      Addresses and sizes are multiples of the page size where nothing else is said. `align` is a power of two. */
#ifndef FH_SYSTEM_SYSTEM_H
#define FH_SYSTEM_SYSTEM_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a page, a power of two, at least 4 KiB; the same for the life of the process. */
size_t fh_system_page_size(void);

/* ── Sandboxes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A program may install a filter of system calls, after which any call that the filter does not know ends it. From this
 * call on the kernel is asked for nothing that glibc's malloc does not ask for too: memory, its purging, the monotonic
 * clock. No file is opened. What would need more says that there is nothing; each function's comment says what that is.
 * What is asked once is asked now. For ever; not undone. */
void fh_system_restrict(void);
bool fh_system_is_restricted(void);

/* ── Address space ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* A place in the address space, a multiple of `align`, where `size` bytes are likely to stay free: neither the kernel by
 * itself nor programs usually map there. fh_system_place takes it piece by piece. Another one in each process, unless
 * randomness was turned off for it, and for each attempt: 0, 1, 2 … NULL: none found. Sets errno. */
void *fh_system_find_place(size_t size, size_t align, unsigned attempt);

/* Maps fresh zeroed memory exactly there. Returns 0, or ENOMEM, or EEXIST when something else is mapped in the range, which
 * is left as it is; then nothing is mapped. Sets errno. */
int fh_system_place(void *p, size_t size);

/* The same without memory: no other mapping can be there, and reading and writing fault. */
int fh_system_block(void *p, size_t size);

/* True if all of these pages are mapped, or the kernel may not be asked. A few microseconds at most for a range in few
 * mappings. */
bool fh_system_is_mapped(void *p, size_t size);

/* ── Mappings of their own ───────────────────────────────────────────────────────────────────────────────────────── */

/* Fresh zeroed memory at a multiple of `align`. Any size, which is rounded up to pages. NULL: no memory, or a size
 * of 0. Sets errno. */
void *fh_system_map(size_t size, size_t align);

/* The size is the one that was mapped, rounded up to pages, or that of whole pages within. No other thread may use the pages.
 * False: they stay as they are, because to cut a mapping in two would be one too many. */
bool fh_system_unmap(void *p, size_t size);

/* ── Moving ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef enum {
    FH_MOVED,     /* the place has the contents; where they were there is no memory, and it reads as zero */
    FH_NOT_MOVED, /* the contents are where they were: what a port without such a call always says. The place may have
                    * a part of them too */
    FH_PLACE_LOST, /* the contents are where they were, but the place cannot be mapped any more: not to be touched again */
} fh_move;

/* Moves pages (not their bytes) to a place that is writable and has no memory. Both are the caller's. */
fh_move fh_system_move(void *p, size_t size, void *place);

/* Maps pages afresh: their memory returns to the OS as by fh_system_purge, and a mapping of their own is joined with its
 * neighbours. Advice about huge pages is forgotten. False: it was purged alone. */
bool fh_system_renew(void *p, size_t size);

/* ── Purging and huge pages ──────────────────────────────────────────────────────────────────────────────────────── */

/* Returns the memory of pages to the OS. They stay writable and read as zero from then on, even if it could not be
 * done. */
void fh_system_purge(void *p, size_t size);

/* The same for many pieces at once. Where the kernel has a call for that it costs a third for each, and a fifteenth while other
 * threads of the program run: all CPUs forget the addresses together, and not for each piece. */
typedef struct {
    void *p;
    size_t size;
} fh_piece;

void fh_system_purge_pieces(const fh_piece *pieces, unsigned n);

/* The same as fh_system_purge for pages that are all zero already, and that others may read meanwhile. It may be that nothing is done. */
void fh_system_forget_zeroes(void *p, size_t size);

/* For each page of a range, in the lowest bit of a byte, whether it has memory. False: the kernel does not say. */
bool fh_system_resident(void *p, size_t size, unsigned char *pages);

/* A hint about huge pages for a range. May do nothing. */
void fh_system_huge_pages(void *p, size_t size, bool wanted);

/* What the kernel is to do otherwise with pages, as bits: leave them out of core dumps, put them on huge pages, name them in
 * the list of mappings. It keeps that for mappings, so a range may become one of its own. */
#define FH_TRAIT_NO_DUMP 1u
#define FH_TRAIT_HUGE 2u
#define FH_TRAIT_NAMED 4u

/* 0; or no trait is set, because of: ENOTSUP: the kernel does not leave pages out of dumps, or may not be asked; ENOMEM. The other
 * two are hints, and may do nothing. The name is "freehold:NAME", or "freehold" if `name` is empty or NULL. */
int fh_system_set_traits(void *p, size_t size, unsigned traits, const char *name);

/* These pages have none of these traits any more, and no memory, as by fh_system_renew. */
void fh_system_clear_traits(void *p, size_t size, unsigned traits);

/* Gives memory to all of these pages, and leaves what is in them. False: there is not enough; some may have it. Where the
 * kernel has no call for it the pages are written to, and what fails then ends the process. */
bool fh_system_populate(void *p, size_t size);

/* True when huge pages come without being asked for (the kernel's setting is "always"). Asked once. */
bool fh_system_huge_pages_always(void);

/* Makes one huge page of what is in memory of this place, which is as long as one and so aligned. What is not in memory reads as zero, and
 * has memory then. False: the kernel does not, or its setting forbids huge pages. *nanoseconds: of CPU time, as of fh_system_touch. */
bool fh_system_gather(void *p, size_t size, uint64_t *nanoseconds);

/* Writes a zero to the first byte of a page that reads as zero, so that it has memory. Returns the nanoseconds of
 * CPU time that it took: what other threads did meanwhile does not count. 0 if there is no such clock. */
uint64_t fh_system_touch(void *p);

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* True when the kernel counts every writable page as used (strict overcommit): then nothing is mapped ahead. Asked
 * once. */
bool fh_system_counts_every_page(void);

/* The limit of the memory control group that the process is in, and how much of it is used, without what the kernel
 * can drop (cached files). Of several groups, one in the other, the one that is nearest to its limit. False: no
 * limit. Reads files of the kernel. Needs 3 KiB of stack. */
bool fh_system_group_memory(size_t *limit, size_t *used);

/* Of the last ten seconds, in how much some thread of the own control group waited for memory, in hundredths of a
 * percent. 0 if the kernel does not say. Reads files of the kernel. Needs 3 KiB of stack. */
unsigned fh_system_group_stall(void);

/* Bytes of the last request that the kernel had no memory or no address space for; 0: it has refused none. */
uint64_t fh_system_refused_bytes(void);

#define FH_NO_LIMIT UINT64_MAX

/* What can make the kernel refuse, as it is at this moment. limits.h finds the one that is met. */
typedef struct {
    uint64_t address_limit, address_used; /* of the process: all that is mapped */
    uint64_t data_limit, data_used;       /* of the process: what is private and writable */
    uint64_t commit_limit, commit_used;   /* of the whole machine; counts only where every page counts */
    uint64_t mappings_limit, mappings;    /* how many mappings the process may have, and has */
    uint64_t machine_bytes;               /* memory and swap together; 0: not known */
    uint64_t overcommit;                  /* 0: the kernel guesses, 1: it grants everything, 2: it counts every page */
} fh_system_limits;

/* A limit that the kernel does not have is FH_NO_LIMIT. Reads a few files of the kernel, and all of the list of
 * mappings: some ms when there are many. Needs 2 KiB of stack. */
void fh_system_limits_now(fh_system_limits *limits);

/* No program can have more bytes than this, whatever it frees: the smaller of the two limits of the process, or
 * FH_NO_LIMIT. Keeps errno. Cost: two system calls. */
uint64_t fh_system_most_bytes(void);

/* True if the kernel refuses `size` bytes in one piece, because they are more than memory and swap of the machine together
 * (vm.overcommit_memory 0). It is asked only where that may be so. Needs a file once. Keeps errno where it answers false. */
bool fh_system_refuses(size_t size);

/* True if address space is refused when there is too much of it, touched or not: by a limit of the process, or by strict
 * overcommit. Then none is taken ahead. Cost: two system calls. */
bool fh_system_counts_addresses(void);

/* ── The process ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The number of the calling process. Asked of the kernel each time, because a fork changes it. */
uint64_t fh_system_pid(void);

/* The value of an environment variable. NULL: there is none, or the program runs with more rights than its caller
 * (setuid), or the C library has not set up the environment yet; then *ready is false. */
const char *fh_system_environment(const char *name, bool *ready);

/* 64 random bits, of the kernel. */
uint64_t fh_system_random(void);

/* Writes to a file descriptor, as much as it takes; errors are ignored. May block as write does. */
void fh_system_write(int fd, const char *text, size_t length);

/* Notes which file is standard error. Called once, at the start. */
void fh_system_note_messages(void);

/* True if descriptor 2 is still that file, or a device such as a terminal, or a log, which is appended to. A program may have
 * closed it, and have its data under that number now. Also true where the kernel may not be asked. */
bool fh_system_has_messages(void);

/* Ends the process abnormally, with SIGABRT where there are signals. */
_Noreturn void fh_system_abort(void);

/* ── The C library's own heap ────────────────────────────────────────────────────────────────────────────────────── */

/* A library may have been loaded in such a way that it has the C library's malloc, and hand us its blocks. Only the drop-in
 * that is loaded has these; elsewhere they are NULL. A port without such libraries leaves them out.
 *
 * The bytes that the block at p of that heap holds. 0: it is no such block, as far as can be seen; the check is strict, and
 * costs some hundred ns. The other two may wait, as that heap has locks. */
size_t fh_system_libc_usable(const void *p) __attribute__((weak, visibility("hidden")));
void fh_system_libc_free(void *p) __attribute__((weak, visibility("hidden")));
void *fh_system_libc_realloc(void *p, size_t n) __attribute__((weak, visibility("hidden")));

static inline bool fh_libc_has(const void *p) {
    return fh_system_libc_usable && fh_system_libc_usable(p) != 0;
}

/* True in a program that is to keep the C library's malloc although this library is in it. Only the library for a whole system
 * has this (libfreehold-global.so); elsewhere it is NULL. Keeps errno. The first call reads a file. */
bool fh_system_stands_aside(void) __attribute__((weak, visibility("hidden")));

/* ── Time and CPUs ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* A 64-bit counter of nanoseconds that never goes back; the same for all processes of the machine. */
uint64_t fh_system_nanoseconds(void);

/* The CPU time of this process, all its threads together. A system call. A child of a fork begins with 0. */
uint64_t fh_system_cpu_nanoseconds(void);

/* The first one in units of 2^30 ns: about a second, without a division. */
static inline uint64_t fh_system_seconds(void) {
    return fh_system_nanoseconds() >> 30;
}

/* Threads of this process; 0: the kernel does not say. */
unsigned fh_system_threads(void);

/* The CPUs that this process may use at a time, at least 1: by its mask, and by the quota of its control groups. */
unsigned fh_system_processors(void);

/* A small number for the CPU that the caller runs on, dense within the process where the kernel says so (mm_cid). A
 * hint: it may change at any time. A few nanoseconds. */
unsigned fh_system_cpu_hint(void);

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Calls `exit_of_thread` with `value` when the calling thread ends. May be called again by a thread for which it has
 * already been called. The C library may allocate, so the allocator may be entered again. Sets errno. False if the
 * kernel gives no such service. */
bool fh_system_at_thread_exit(void (*exit_of_thread)(void *), void *value);

/* Calls `child` in the child after each fork, in the thread that forked. The C library may allocate, and takes a
 * lock of its own: to be called once, when the process starts. Sets errno. */
void fh_system_at_fork(void (*child)(void));

/* Makes a thread of the library's own, which calls run(). All signals are blocked in it; no thread waits for its
 * end. The C library allocates, so nothing may be held. Not in a signal handler. False: the kernel has none to give. */
bool fh_system_thread_start(void (*run)(void));

/* Waits while the lower half of the word is `value`, for `nanoseconds` at most (0: for ever). May return earlier,
 * without reason or because of fh_system_wake. The one function that waits. */
void fh_system_wait(const fh_word *word, uint64_t value, uint64_t nanoseconds);

/* Wakes a thread that waits for the word to change. */
void fh_system_wake(fh_word *word);

#endif
