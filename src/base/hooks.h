/* The few calls by which a lower layer reaches an upper one. Everything else goes downwards. Each hook is defined exactly
 * once, in the file that its section names; tests/structure/layers.py checks it. */
#ifndef FH_BASE_HOOKS_H
#define FH_BASE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fh_thread;

/* What a call that frees says of the block: a family of functions, and whether a size and an alignment come with it. */
#define FH_SAYS_NOTHING 0u /* free, or realloc */
#define FH_SAYS_NEW 1u     /* operator delete */
#define FH_SAYS_ARRAY 2u   /* operator delete[] */
#define FH_SAYS_FAMILY 3u  /* the bits of the above */
#define FH_SAYS_SIZE 4u
#define FH_SAYS_ALIGN 8u
#define FH_SAYS_ZEROED 16u /* calloc: what is clean stays so */

/* ── Defined in heap/free.c ──────────────────────────────────────────────────────────────────────────────────────── */

/* The same for a block whose slot has that word `quick`, which is not 0 (heap/stripes.h). */
void fh_hook_heap_free_quick(uint64_t quick, void *p);

/* Of a pointer into a slot that a heap of the embedding API has (fh_heap_word). The beginning of the live block that p points
 * to or into, and its bytes; NULL: none is there. */
void *fh_hook_heap_block(const void *p, size_t *size);

/* Frees the block at p, or reports what is wrong with it. `word`: what fh_heap_word says of p, not 0. Keeps errno. */
void fh_hook_heap_free(const char *call, const void *word, void *p);

/* ── Defined in heap/resize.c ────────────────────────────────────────────────────────────────────────────────────── */

/* realloc: a block of the same heap. NULL with errno: the block is as it was. */
void *fh_hook_heap_resize(void *p, size_t n);

/* ── Defined in api/options.c ────────────────────────────────────────────────────────────────────────────────────── */

/* Reads the options from the environment, unless that was done, or the C library has not set it up yet. The first
 * allocation of a process calls it, and a constructor does again, because the first allocation may come before there is an
 * environment. Never waits: a thread that comes while another one reads continues with the defaults. May be entered again
 * from within itself; does not allocate. Any thread. */
void fh_hook_start(void);

/* The program is about to sandbox itself. Unless the option files says otherwise, reads what is read from files for the last
 * time. Any thread. */
void fh_hook_sandbox(void);

/* ── Defined in api/new.c ────────────────────────────────────────────────────────────────────────────────────────── */

/* The calling thread has no bins for a moment, and then others. Weak: only the drop-in has operators. */
void fh_hook_bins_change(void) __attribute__((weak, visibility("hidden")));

/* ── Defined in reclaim/reclaim.c ────────────────────────────────────────────────────────────────────────────────── */

/* The one safe point: the end of a slow path, with nothing held. Called when a due bit is set (store/events.h), and with
 * the refusals always. */
typedef enum {
    FH_AFTER_FREE,           /* nothing of the program may be called */
    FH_AFTER_ALLOC,          /* the program's callback, files, and a new thread are allowed */
    FH_AFTER_REFUSAL,        /* there was no memory for an allocation: what is cached is released */
    FH_AFTER_SECOND_REFUSAL, /* there still is none: the program is asked, and all that is free is purged */
    FH_AFTER_LAST_REFUSAL,   /* nothing has helped */
} fh_safe_point;

/* True after a refusal if trying again may help. */
bool fh_hook_reclaim(fh_safe_point point);

/* The same after an allocation. Something is held: the block at p, which the program does not have yet. It may never get it,
 * because the thread may end in the program's callback. Then fh_hook_thread_ends frees the block. */
void fh_hook_allocated(void *p);

/* The program is about to get NULL for n bytes. Keeps errno. */
void fh_hook_refused(size_t n);

/* The thread whose cache is t ends; or is the only one in the child of a fork. */
void fh_hook_thread_ends(struct fh_thread *t);
void fh_hook_forked(struct fh_thread *t);

/* ── Defined in heap/defer.c ─────────────────────────────────────────────────────────────────────────────────────── */

/* The calling thread ends, and with it what it reads and defers. And in the child of a fork, where all others have. */
void fh_hook_participant_ends(void);
void fh_hook_participants_forked(void);

/* ── Defined in heap/stripes.c ───────────────────────────────────────────────────────────────────────────────────── */

/* The thread whose cache was t has ended: what it kept of heaps is for others. */
void fh_hook_ticket_ends(struct fh_thread *t);

/* ── Defined in observe/metrics.c ────────────────────────────────────────────────────────────────────────────────── */

/* A slow path is taken. Reads the clock if a metrics file is wanted, and sets FH_DUE_METRICS when it is time to write it.
 * Cheap otherwise. Any thread; may be called with a thread's cache half changed. */
void fh_hook_metrics(void);

/* Writes the metrics file, with nothing held. One thread does; the others find it done or being done. Keeps errno. */
void fh_hook_write(void);

/* ── Defined in observe/observe.c ────────────────────────────────────────────────────────────────────────────────── */

/* What the observer does. None of these lets a failure be seen; errno is kept. They are called only while fh_observing is
 * set (cache/observed.h).
 *
 * A slow path of thread t begins, with nothing held: makes the profile file if there is none, follows the control words,
 * writes statistics when they are due. */
void fh_hook_observe(struct fh_thread *t);

/* The block at p, special to free, is about to be freed; it may be sampled (`surely`: it is or was). */
void fh_hook_freed(const void *p, bool surely);

/* The blocks of the heap with that number (fh_heap.number) are about to end with it, or in a reset. */
void fh_hook_heap_cleared(uint32_t number);

/* realloc has changed the block at p, sampled or not, to n bytes where it is. */
void fh_hook_resized(const void *p, size_t n);

/* The pages of the block at p may be moved to another address now, and p become another block's at once: until
 * fh_hook_stayed(p) or fh_hook_moved, the sample is known by the address p + 1. */
void fh_hook_moving(const void *p);
void fh_hook_stayed(const void *p);

/* The program is refused memory: a point for the timeline. */
void fh_hook_observe_refusal(void);

/* In the child, after a fork. */
void fh_hook_observe_fork(void);

/* ── Defined in observe/allocate.c ───────────────────────────────────────────────────────────────────────────────── */

/* In an observed program a sample is due within these n bytes, which are counted already; or the thread is not observed yet.
 * Allocates them, of class c. */
void *fh_hook_alloc(size_t n, unsigned c);

/* Allocates n bytes at a multiple of align in an observed program, and counts them. *clean: the block reads as zero. said: the
 * family of the call (FH_SAYS_…), for a checked program. */
void *fh_hook_alloc_aligned(size_t align, size_t n, bool *clean, unsigned said);

/* A block of a heap (heap/take.h) in an observed program: it may be sampled. */
struct fh_heap;
void *fh_hook_heap_alloc(struct fh_heap *heap, size_t align, size_t n, bool *clean);

/* The block at p has become the one at q, of n bytes, without a copy: freed and allocated again as far as samples go. */
void fh_hook_moved(const void *p, void *q, size_t n);

/* ── Defined in misuse/check.c ───────────────────────────────────────────────────────────────────────────────────── */

/* The calls of a checked program (option check). They are called only while fh_is_checking(); cache/observed.h.
 *
 * A block of n bytes at a multiple of align, for a call of that family. *clean (which may be NULL): it reads as zero. NULL with errno
 * ENOMEM when there is no memory. */
void *fh_hook_checked_alloc(size_t align, size_t n, bool *clean, unsigned said);

/* Checks and frees the block at p. said: FH_SAYS_…, with n and align where it names them. Keeps errno. */
void fh_hook_checked_free(void *p, size_t n, size_t align, unsigned said);

/* realloc: the block moves, always. */
void *fh_hook_checked_resize(void *p, size_t n);

/* ── Defined in misuse/left.c ────────────────────────────────────────────────────────────────────────────────────── */

/* The heap is about to be destroyed, with option heap_left: says what is live in it. Keeps errno. */
void fh_hook_heap_left(struct fh_heap *heap);

/* ── Defined in misuse/guard.c ───────────────────────────────────────────────────────────────────────────────────── */

/* Guarded blocks (option guard). The first is called where the draw has chosen the allocation; the others for pointers into the
 * guards' region (store/guarded.h).
 *
 * A block of n bytes at a multiple of align, which reads as zero. NULL: it is too long for a guard, or there is no room; then the
 * caller allocates as ever. `frame`: as for fh_observe_sampled. */
void *fh_hook_guard(size_t align, size_t n, const void *frame);

/* Frees the block at p, for that call. Reports a pointer that begins no live block. Keeps errno. */
void fh_hook_guard_free(const char *call, void *p);

/* Bytes that were asked for; 0 and a report if p begins no live block. */
size_t fh_hook_guard_usable(const char *call, const void *p);

/* realloc: the block moves, always. */
void *fh_hook_guard_resize(void *p, size_t n);

/* ── Defined in check/verify.c ───────────────────────────────────────────────────────────────────────────────────── */

/* Checked and stress builds only: thread t has left a slow path and holds nothing. Checks its cache, and now and then more. Aborts if
 * something is wrong. */
void fh_hook_left(const struct fh_thread *t);

#endif
