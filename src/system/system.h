/* What the allocator asks of the operating system: one function for each thing. linux.c (and one file for each other
 * system, chosen by the build) answers. Nothing here allocates; what may block is only the kernel itself. */
#ifndef FH_SYSTEM_SYSTEM_H
#define FH_SYSTEM_SYSTEM_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a page, a power of two, the same for the life of the process. */
size_t fh_system_page_size(void);

/* Address space without memory behind it: reading and writing fault. NULL if the system has none to give. */
void *fh_system_reserve(size_t size);

/* Makes reserved pages readable: they read as zero and cost nothing until fh_system_enable. False on failure. */
bool fh_system_make_readable(void *p, size_t size);

/* Makes reserved pages readable and writable; they read as zero at first. Idempotent. False: no memory. */
bool fh_system_enable(void *p, size_t size);

/* The opposite: the memory goes back, the address space stays reserved, and nothing counts it as writable any more. */
void fh_system_disable(void *p, size_t size);

/* Like fh_system_enable, for address space that was not reserved: maps exactly there.
 * Returns 0, or ENOMEM, or EEXIST when something else lies there. */
int fh_system_place(void *p, size_t size);

/* A place in the address space, a multiple of align, where at this moment `size` bytes are free for fh_system_place to
 * take piece by piece; different in each process. */
void *fh_system_find_place(size_t size, size_t align);

/* Fresh zeroed memory at a multiple of align (a power of two), or NULL. */
void *fh_system_map(size_t size, size_t align);
void fh_system_unmap(void *p, size_t size);

/* Grows or shrinks a mapping made by fh_system_map where it is. NULL: not possible, nothing changed. */
void *fh_system_resize_in_place(void *p, size_t old_size, size_t new_size);

/* Address space without memory at a multiple of align, and the move of a mapping's pages (not their bytes) onto it. When
 * the move fails nothing has changed, and the place is gone. */
void *fh_system_reserve_aligned(size_t size, size_t align);
bool fh_system_move(void *p, size_t old_size, size_t new_size, void *place);

/* Gives the memory behind whole pages back; they read as zero from then on. */
void fh_system_purge(void *p, size_t size);

/* How often the above have asked the kernel so far: for mappings and for leave to write to them, for their end, and for
 * pages to go back; and the bytes of the last. The child of a fork goes on counting from where its parent was. */
typedef struct {
    uint64_t maps, unmaps, purges, purged_bytes;
} fh_system_calls;
fh_system_calls fh_system_calls_made(void);

/* For each page of a range, in the lowest bit of a byte, whether it has memory. False: the system does not say. */
bool fh_system_resident(void *p, size_t size, unsigned char *pages);

/* Hints about huge pages for a range. */
void fh_system_huge_pages(void *p, size_t size, bool wanted);

/* Writes a zero to the first byte of a page that reads as zero, so that it has memory. The nanoseconds of processor time that
 * it took: what other threads did meanwhile does not count. */
uint64_t fh_system_touch(void *p);

/* True when huge pages come without being asked for (the system's setting is "always"). */
bool fh_system_huge_pages_always(void);

/* True when the system counts every writable page as used (strict overcommit): then nothing is mapped ahead. */
bool fh_system_counts_every_page(void);

/* Writes to a file descriptor, as much as it takes; errors are ignored, errno is kept. */
void fh_system_write(int fd, const char *text, size_t length);

/* Output for the very end of a process, when the program may have closed its own descriptor. keep makes a second one for
 * the same file, closed on exec; kept returns it, or `fd` if there is none or the program has closed or reused it. */
void fh_system_keep_output(int fd);
int fh_system_kept_output(int fd);

/* Bytes of memory that the process has in use, all of it and not only the heap; 0 if the system does not say. */
size_t fh_system_resident_bytes(void);

/* The limit of the memory control group that the process lives in and how much of it is used, not counting what the kernel
 * can drop (cached files). Of several groups, one in the other, the one that is nearest to its limit. False: no limit. */
bool fh_system_group_memory(size_t *limit, size_t *used);

/* Wakes a thread that waits for the word to change (system/thread.h). Never waits itself. */
void fh_system_wake(fh_word *word);

/* Of the last ten seconds, in how much some thread of the own control group waited for memory, in hundredths of a percent
 * (PSI, version 2 of control groups only); 0 if the system does not say. */
unsigned fh_system_group_stall(void);

/* How many processors' worth of time the control groups allow, rounded up; 0: any number. */
unsigned fh_system_group_processors(void);

/* The value of an environment variable, or NULL; also NULL for programs that run with more rights than their caller
 * (setuid), or before the C library has set up the environment (then *ready is false). */
const char *fh_system_environment(const char *name, bool *ready);

/* A 64-bit counter of nanoseconds that never goes back. */
uint64_t fh_system_nanoseconds(void);

/* The same in units of 2^30 ns, which is a second for whoever only wants to know whether one has gone by: no division. */
static inline uint64_t fh_system_seconds(void) {
    return fh_system_nanoseconds() >> 30;
}

/* Threads of this process, 0 if the system does not say. */
unsigned fh_system_threads(void);

/* Ends the process abnormally, with SIGABRT. */
_Noreturn void fh_system_abort(void);

/* The processors that this process may run on at a time: by its mask, and by the quota of its control groups. */
unsigned fh_system_processors(void);

/* A small number for the processor that the caller runs on, dense within the process where the kernel says so (mm_cid).
 * A hint: it may change at any time. A few nanoseconds. */
unsigned fh_system_cpu_hint(void);

/* Calls `exit_of_thread` with `value` when the calling thread ends. May be called again by a thread for which it has
 * already been called. False if the system gives no such service. */
bool fh_system_at_thread_exit(void (*exit_of_thread)(void *), void *value);

/* Calls `child` in the child after each fork, in the thread that forked. */
void fh_system_at_fork(void (*child)(void));

#endif
