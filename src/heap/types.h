/* A heap of the embedding API: whole slots, blocks in them as bits, and an account. docs/heaps.md has the reasons.
 *
 *     first slot   ┌────────┬─ units of 16 bytes ─┬───────┬─ units ──────────────────┐
 *                  │ header │                     │ lists │                          │   blocks up to 1 KiB
 *                  └────────┴─────────────────────┴───────┴──────────────────────────┘
 *     extent       ┌────────┬───────┬───────┬─ ─ ─┐
 *                  │ header │ block │ block │     │   blocks of one class, when the units are used up, or above 1 KiB
 *                  └────────┴───────┴───────┴─ ─ ─┘
 *     large block  above 64 KiB: a large block of the store, and an fh_node of the heap that says where it is
 *     stripes      what threads keep of a heap that has grown, in a slot of its own (stripes.h)
 *     bounded      all that a heap with bounded calls will ever have (bounded.h)
 *     span         of heaps whose pages the kernel treats otherwise: a large block that all of these come from (span.h)
 *
 * To the store all of them are large blocks, or parts of a span. So the walks over memory (statistics, leaks, fh_verify) need to know nothing of heaps.
 * The word fh_slab.heap of each slot leads to the fh_owned that its memory begins with: that is how free finds the heap.
 *
 *     a block of units     free ──(compare-and-swap on `free`)──▶ claimed ──(`last` made right, or on `first`)──▶ live
 *                          live ──(and on `first`: one thread wins)──▶ mine ──(or on `free`)──▶ free
 *     a block of an extent free ──(compare-and-swap on a word)──▶ claimed ──(its byte: 1)──▶ live ──(its byte: 0)──▶ claimed
 *                          claimed ──(or on that word: one thread wins)──▶ free, or it waits in a stripe for the next call
 *     an extent            in use ──(all of its bits claimed)──▶ retired: purged and not charged
 *                          retired ──(popped from a stack: one thread has it)──▶ being charged ──▶ in use, or retired again
 *
 * An extent stays its heap's and its class's until the heap is reset or destroyed. So a thread that was stopped with the address
 * of one finds there what it expects.
 *
 * Thread-safety: any thread, except on a private heap. Reset and destroy: no other call on the heap at the time. Progress:
 * lock-free, except what the kernel and the program's callback do. */
#ifndef FH_HEAP_TYPES_H
#define FH_HEAP_TYPES_H

#include "base/settings.h"
#include "base/types.h"

typedef struct fh_heap fh_heap;
typedef struct fh_segment fh_segment;
typedef struct fh_given fh_given;
typedef struct fh_bounded fh_bounded;

typedef enum {
    FH_OWNED_UNITS = 1,
    FH_OWNED_EXTENT,
    FH_OWNED_LARGE,
    FH_OWNED_GIVEN,
    FH_OWNED_STRIPES,
    FH_OWNED_BOUNDED
} fh_owned_kind;

/* What fh_slab.heap leads to. Written before it is shown, and the same until the memory is released. */
typedef struct {
    fh_heap *heap;
    uint64_t kind;
} fh_owned;

#define FH_HEAP_LISTS (FH_SMALL_LAST + 1u) /* one a class; list 0 has the nodes of large blocks */

/* The stacks of stacks.h. */
typedef enum { FH_STACK_OPEN, FH_STACK_IDLE, FH_STACKS } fh_stack_kind;

/* Blocks of one class. Block i is i times its size from the beginning, so that it is as aligned as its size. The first ones are
 * where the header is, and no blocks. Behind the bits is a byte for each block: 1 = the program has it. It is changed by who has
 * the block, and is never 1 while the bit is set. Of nodes it stays 0. */
typedef struct fh_extent {
    fh_owned owned;
    struct fh_extent *next; /* of the same list; written before it is shown */
    uint32_t c, list, blocks, words;
    fh_word from;             /* hint: the word in which a block was found last */
    fh_word has;              /* 1 = it is on the open stack, or on its way there */
    fh_word retired;          /* 0 in use, 1 retired, 2 being charged, or no longer */
    uint64_t begin;           /* the first block that is not under the header */
    uint64_t out;             /* bytes from here to those of the blocks */
    fh_word below[FH_STACKS]; /* while it is on a stack: the slot of the one below it, plus 1; 0: none */
    fh_word free[];           /* bit = this block is free */
} fh_extent;

/* A large block. In an extent of its own kind, so that all of a heap's are found there. */
typedef struct {
    fh_owned owned;
    fh_word block; /* 0 before it is there, and after */
    fh_word size;  /* written while `block` is 0 */
    fh_word idle;  /* type-stable: the block while it is free; else 0 */
} fh_node;

/* Slots of the store that are all of one heap: 2 to 64 MiB, at a multiple of 2 MiB. The first one is the heap's first slot, or has
 * this header alone. */
#define FH_SPAN_WORDS 16u
typedef struct fh_heap_span {
    struct fh_heap_span *next; /* the one before; written before it is shown */
    size_t slots;
    fh_word free[FH_SPAN_WORDS]; /* bit = this slot is free, and reads as zero */
} fh_heap_span;

#define FH_HEAP_NAME 48u
/* As freehold/heap.h has them, */
#define FH_HEAP_IS_PRIVATE 1u
#define FH_HEAP_IS_STABLE 2u /* type-stable: its blocks are in extents alone, and these are never retired */
#define FH_HEAP_IS_NO_DUMP 4u
#define FH_HEAP_IS_POPULATED 8u
#define FH_HEAP_IS_HUGE 16u
#define FH_HEAP_IS_NAMED 32u
#define FH_HEAP_IS_SIZED 64u    /* each block has a word that says how much was asked for (told.h) */
#define FH_HEAP_IS_BOUNDED 128u /* its blocks are in memory that is there from its beginning (bounded.h) */
/* and those of its own. */
#define FH_HEAP_IS_APART (1u << 16) /* one of the rare kinds: over given memory, bounded, told, or sized */
#define FH_HEAP_IS_TOLD (1u << 17)  /* a tool that watches memory is told of its blocks (told.h) */
#define FH_HEAP_IS_PAGED (1u << 18) /* over memory from callbacks of the program (regions.h); also apart */
#define FH_HEAP_IS_GONE (1u << 19)  /* release builds: it was destroyed; also apart, so that nothing is handed out */
/* Its slots are in spans (span.h). */
#define FH_HEAP_HAS_SPANS (FH_HEAP_IS_NO_DUMP | FH_HEAP_IS_HUGE | FH_HEAP_IS_NAMED)
#define FH_HEAP_OVER UINT64_C(1)
/* A heap with less room than this has no use for stripes: they might have all of it. */
#define FH_STRIPES_ROOM ((size_t)4 << 20)
#define FH_UNIT_WORDS FH_SLAB_WORDS
#define FH_UNITS_MOST ((size_t)1024) /* bytes of a block of units: those of one word */

/* true: something was freed, try again. */
typedef int fh_heap_asked(fh_heap *heap, size_t wanted, int hard, void *arg);

/* What a walk calls for each live block. */
typedef void fh_heap_seen(void *block, size_t size, void *arg);

/* Where the memory of a paged heap comes from; `purge` may be NULL. */
typedef struct {
    void *(*get)(void *arg, size_t size, size_t alignment);
    void (*purge)(void *arg, void *p, size_t size);
    void (*give_back)(void *arg, void *p, size_t size);
    void *arg;
} fh_heap_source;

struct fh_heap {      // NOLINT(clang-analyzer-optin.performance.Padding): see `list`
    fh_owned owned;   /* itself */
    char *next, *end; /* private: the frames of the newest segment. freehold/heap.h knows where these two are */
    fh_heap *parent;
    uint64_t flags;
    fh_word striped;  /* its stripes; 0: it has none, or they are not to be used now */
    fh_word stripes;  /* the same while there are any (stripes.h) */
    fh_word charged;  /* bytes of slots, of this heap and those below it */
    fh_word peak;     /* the most that was */
    fh_word soft;     /* 0: none */
    fh_word hard;     /* 0: none. At every moment:  charged ≤ hard, unless it was lowered below */
    fh_word children; /* heaps whose parent this is */
    fh_word asking;   /* the process's generation, plus 1: the callback is running */
    fh_word refusals;
    fh_word thread;              /* private: the one that made it, and in which process */
    fh_word from;                /* hint: the word of units to begin with */
    fh_word grown;               /* hint: 1 = units were looked for in vain, and none was freed since */
    fh_word scopes;              /* threads in a scope of this heap, with their generation (scope.h) */
    fh_word number;              /* of all heaps of the process, once a block was sampled; 0: none was */
    fh_word sampled;             /* bits of the addresses of which blocks were sampled (fh_sampled_bit) */
    fh_word endings;             /* callbacks for its end, the newest first (endings.h) */
    fh_segment *segment, *spare; /* private: the newest one of its frames, and one that is kept (frames.h) */
    fh_given *given;             /* the memory that the program gave for its blocks (given.h); NULL: the store has it */
    size_t memory_size;          /* bytes of that */
    char name[FH_HEAP_NAME];
    fh_word free[FH_UNIT_WORDS];  /* bit = this unit is free */
    fh_word first[FH_UNIT_WORDS]; /* bit = a live block begins here */
    fh_word last[FH_UNIT_WORDS];  /*       … ends here. Bits of units that are in no block say nothing */
    fh_heap_asked *asked;
    void *arg;
    /* A page further on, which a heap that does not grow never touches. */
    _Alignas(4096) fh_word list[FH_HEAP_LISTS]; /* fh_extent*, the newest first */
    fh_word stack[FH_STACKS][FH_HEAP_LISTS];    /* of extents with free blocks, and of retired ones (stacks.h) */
    fh_word ending; /* checked builds: 0, the thread that resets or destroys it (use.h), or FH_HEAP_OVER */
    fh_word spans;  /* fh_heap_span*, the newest first. Not written if it has none: this page is not touched then */
    fh_heap_source source; /* paged: whose memory */
    fh_word regions;       /* fh_given*, the newest first */
    fh_heap_span span;     /* the first one, if it has any */
    uint64_t grace; /* type-stable: the stamp that readers have to pass before it ends; 0: none yet. Else not written */
    fh_bounded *bounded; /* of a bounded heap; else not written */
};

/* The bit of a block's address in the word `sampled`: where it is 0, free has nothing to tell the observer. */
static inline uint64_t fh_sampled_bit(const void *p) {
    return UINT64_C(1) << (((uintptr_t)p >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 58);
}

/* Of a checked build: the heap was destroyed, and its header is kept (use.h). Acquire: what was done to it by then. */
static inline bool fh_heap_is_over(const fh_heap *h) {
    return FH_CHECKED && fh_load_acquire(&h->ending) == FH_HEAP_OVER;
}

static inline bool fh_heap_is_private(const fh_heap *h) {
    return h->flags & FH_HEAP_IS_PRIVATE;
}

static inline bool fh_heap_is_stable(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & FH_HEAP_IS_STABLE) != 0);
}

static inline bool fh_heap_is_bounded(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & FH_HEAP_IS_BOUNDED) != 0);
}

static inline bool fh_heap_has_spans(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & FH_HEAP_HAS_SPANS) != 0);
}

static inline bool fh_heap_is_paged(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & FH_HEAP_IS_PAGED) != 0);
}

/* Its blocks have a word that says what was asked for. */
static inline bool fh_heap_keeps_sizes(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & (FH_HEAP_IS_TOLD | FH_HEAP_IS_SIZED)) != 0);
}

static inline bool fh_heap_is_told(const fh_heap *h) {
    return FH_UNLIKELY((h->flags & FH_HEAP_IS_TOLD) != 0);
}

#endif
