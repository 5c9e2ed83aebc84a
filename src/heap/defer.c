#include "heap/defer.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "base/text.h"
#include "cache/alloc.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "heap/scope.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* A batch is a block of 4 KiB. */
#define BATCH_BLOCKS 508u
#define SLOTS 4096u
#define SEARCHED                                                                                                       \
    64u /* slots that a thread looks at for each batch that it hands in: the queue empties faster than it fills */
#define ROOM_ONCE ((size_t)256 * FH_KIB) /* between two looks at the bound, at most */
#define NAME 16u

typedef struct batch {
    struct batch *next; /* of those that found no slot */
    uint64_t stamp;     /* the epoch that each reader has to reach */
    uint64_t bytes;
    uint64_t count;
    void *block[BATCH_BLOCKS];
} batch;

_Static_assert(sizeof(batch) == 4096, "a batch is a block without rounding");

/* A thread that reads or defers. Records are never freed: others walk them.
 *     taken  1 while a thread has it. Claimed by compare-and-swap
 *     seen   0: offline or no reader; else the epoch when it passed last */
typedef struct participant {
    fh_word taken;
    fh_word seen;
    fh_word reported; /* the `seen` that a message named it with: once each */
    struct participant *next;
    batch *open;
    fh_deferring *hit; /* of the thread that has it: where the open batch's next block goes. NULL: of none */
    batch *kept;       /* batches of others that it could not put back, because all slots were taken */
    size_t cursor;
    uint64_t stays; /* `seen` while it is offline does not say whether it is a reader: 1 if so */
    fh_word name[NAME / sizeof(uint64_t)];
    fh_word thread; /* the OS's number of a reader's thread */
} participant;

static fh_word participants; /* participant*, the newest; grows only */
static fh_word epoch;        /* of the last batch that was stamped; 0 at first, readers see it as 1 more */
static fh_word backlog;      /* bytes in batches that are stamped */
static fh_word slots;        /* fh_word[SLOTS], each a batch* or 0; mapped for the first participant */

/* The calling thread's, or NULL. It is in the thread's cache: a library that is loaded late gets a few bytes of static TLS. */
static participant *own(void) {
    return fh_own()->participant;
}

static participant *next_of(const participant *r) {
    return r ? r->next : (participant *)(uintptr_t)fh_load_acquire(&participants);
}

/* ── Participants ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block for this file. It is of no heap, though the thread be in the scope of one: that may end before, and others look at it. */
static void *alloc_own(size_t n) {
    bool clean;
    void *p = fh_alloc_cached(n);
    return p ? p : fh_alloc_unobserved(FH_MIN_ALIGN, n, &clean);
}

static void release_own(void *p) {
    if (!fh_release_cached(p)) fh_release_unchecked("fh_defer_free", p);
}

/* True if no thread has it; then the caller has it from now on. acq_rel: what its last thread left in it. */
static bool claim_record(participant *r) {
    uint64_t free = 0;
    return !fh_load(&r->taken) && fh_cas_acq_rel(&r->taken, &free, 1);
}

/* release: for the next thread that claims it. */
static void leave_record(participant *r) {
    fh_store_release(&r->taken, 0);
}

static participant *take_record(void) {
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        if (claim_record(r)) return r;
    }
    participant *r = alloc_own(sizeof *r);
    if (!r) return NULL;
    memset(r, 0, sizeof *r);
    fh_store(&r->taken, 1);
    uint64_t newest = fh_load(&participants);
    do {
        r->next = (participant *)(uintptr_t)newest;
    } while (!fh_cas_acq_rel(&participants, &newest, (uint64_t)(uintptr_t)r));
    return r;
}

/* Of the thread that has a record. acquire: nothing but zeros, which the mapping is. */
static fh_word *queue(void) {
    return (fh_word *)(uintptr_t)fh_load_acquire(&slots);
}

static bool make_queue(void) {
    uint64_t none = 0, bytes = SLOTS * sizeof(fh_word);
    if (fh_load(&slots)) return true;
    void *p = fh_system_map(bytes, fh_system_page_size());
    if (p && !fh_cas_acq_rel(&slots, &none, (uint64_t)(uintptr_t)p)) fh_system_unmap(p, bytes);
    return fh_load(&slots) != 0;
}

/* Counts what the hits have put into the open batch. */
static void count_hits(participant *r) {
    fh_deferring *d = r->hit;
    if (!d) return;
    if (r->open) {
        r->open->count = (uint64_t)(d->top - r->open->block);
        r->open->bytes += d->given - d->room;
    }
    d->given = d->room;
}

/* Hits go into b from now on, but none before the bound was looked at. NULL: none. */
static void set_open(participant *r, batch *b) {
    fh_deferring *d = r->hit;
    r->open = b;
    d->top = b ? b->block + b->count : NULL;
    d->end = b ? b->block + BATCH_BLOCKS : NULL;
}

static void set_room(participant *r, size_t room) {
    r->hit->room = r->hit->given = room;
    r->hit->slots = fh_load(&fh_class_slots);
}

static participant *join(void) {
    participant *r = own();
    if (FH_LIKELY(r != NULL)) return r;
    if (!make_queue()) return NULL;
    /* A thread without a cache would end unnoticed. */
    fh_thread *t = fh_thread_enter();
    fh_thread_leave(t);
    if (!t) return NULL;
    r = take_record();
    if (!r) return NULL;
    r->hit = &t->deferring;
    set_open(r, r->open); /* its last thread's, in the child of a fork */
    return t->participant = r;
}

/* The epoch as a reader notes it: never 0. */
static uint64_t now(void) {
    return fh_load_acquire(&epoch) + 1;
}

/* Comes online. acq_rel and the fence: the word is there before anything is read; see defer.h. */
static void online(participant *r) {
    fh_swap_acq_rel(&r->seen, now());
    fh_fence_after_rmw();
}

bool fh_reader_begin(const char *name) {
    participant *r = join();
    if (!r) {
        errno = ENOMEM;
        return false;
    }
    uint64_t words[NAME / sizeof(uint64_t)] = {0};
    for (size_t i = 0; name && i < NAME - 1 && name[i]; i++) ((char *)words)[i] = name[i];
    for (size_t i = 0; i < NAME / sizeof(uint64_t); i++) fh_store(&r->name[i], words[i]);
    fh_store(&r->thread, fh_system_thread_number());
    r->stays = 1;
    online(r);
    return true;
}

void fh_reader_end(void) {
    participant *r = own();
    if (!r) return;
    r->stays = 0;
    fh_store_release(&r->seen, 0); /* release: what it read is over */
}

void fh_reader_pass(void) {
    /* release: what it read before is over; acquire, in now(): what it reads later is not older than the epoch. */
    participant *r = own();
    if (r && fh_load(&r->seen)) fh_store_release(&r->seen, now());
}

void fh_reader_leave(void) {
    participant *r = own();
    if (r) fh_store_release(&r->seen, 0);
}

void fh_reader_return(void) {
    participant *r = own();
    if (r && r->stays && !fh_load(&r->seen)) online(r);
}

/* ── What may be freed ───────────────────────────────────────────────────────────────────────────────────────────── */

/* The least that a reader online has seen, and at most what it would see now: of what is stamped later the walk says nothing,
 * because its readers may have come after it. *who is the reader that is furthest behind; NULL: none is online. */
static uint64_t least_seen(participant **who) {
    /* acq_rel and the fence: a reader that is not seen here comes online later, and finds no block of the batches up to this epoch. */
    uint64_t least = fh_add_acq_rel(&epoch, 0) + 1;
    fh_fence_after_rmw();
    *who = NULL;
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        uint64_t seen = fh_load_acquire(&r->seen); /* acquire: pairs with the reader's release */
        if (seen == 0) continue;
        if (seen < least || !*who) *who = r;
        if (seen < least) least = seen;
    }
    return least;
}

static bool is_ripe(const batch *b, uint64_t least) {
    return b->stamp < least; /* readers note the epoch + 1 */
}

static void free_batch(batch *b) {
    fh_release_batch(b->block, b->count);
    fh_sub_release(&backlog, b->bytes);
    release_own(b);
}

/* Puts a batch into a free slot. False: all of them are taken. release: its content. */
static bool put(batch *b, size_t from) {
    for (size_t i = 0; i < SLOTS; i++) {
        fh_word *slot = &queue()[(from + i) % SLOTS];
        uint64_t none = 0;
        if (!fh_load(slot) && fh_cas_acq_rel(slot, &none, (uint64_t)(uintptr_t)b)) return true;
    }
    return false;
}

static void keep(participant *r, batch *b) {
    b->next = r->kept;
    r->kept = b;
}

/* What is not ripe goes back to a slot, or is kept until there is one. */
static void free_or_put(participant *r, batch *b, uint64_t least, size_t at) {
    if (is_ripe(b, least)) {
        free_batch(b);
    } else if (!put(b, at)) {
        keep(r, b);
    }
}

/* Looks into the next n slots. A batch is taken out before it is looked at, so that no other thread can free it meanwhile. */
static void free_ripe(participant *r, size_t n) {
    participant *last;
    uint64_t least = least_seen(&last);
    for (batch *b = r->kept, *next = r->kept = NULL; b; b = next) {
        next = b->next;
        free_or_put(r, b, least, r->cursor);
    }
    for (; n > 0; n--) {
        size_t at = r->cursor++ % SLOTS;
        fh_word *slot = &queue()[at];
        if (!fh_load(slot)) continue;
        batch *b = (batch *)(uintptr_t)fh_swap_acq_rel(slot, 0);
        if (b) free_or_put(r, b, least, at);
    }
}

/* acq_rel and the fence: the blocks were unlinked before, and readers are looked for after. */
uint64_t fh_defer_stamp(void) {
    uint64_t stamp = fh_add_acq_rel(&epoch, 1) + 1;
    fh_fence_after_rmw();
    return stamp;
}

bool fh_defer_has_passed(uint64_t stamp) {
    participant *last;
    return stamp < least_seen(&last);
}

static void give_stamp(batch *b) {
    b->stamp = fh_defer_stamp();
    fh_add_relaxed(&backlog, b->bytes);
}

/* Stamps the open batch and puts it into the queue. False: there is no slot. */
static bool hand_in(participant *r) {
    count_hits(r);
    batch *b = r->open;
    if (!b || b->count == 0) return true;
    give_stamp(b);
    set_open(r, NULL); /* first: in the child of a fork the batch is not both in a slot and open */
    if (put(b, r->cursor + SEARCHED)) return true;
    set_open(r, b);
    fh_sub_release(&backlog, b->bytes);
    return false;
}

/* What threads that are gone have left in their records becomes the caller's: batches that found no slot and, in the child of a fork,
 * open ones. In the child of another fork a batch is in one record at most: it is out of the one before it is in the other. */
static void adopt_left(participant *mine) {
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        if (r == mine || !claim_record(r)) continue;
        batch *kept = r->kept, *open = r->open, *next;
        r->kept = r->open = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        for (; kept; kept = next) {
            next = kept->next;
            keep(mine, kept);
        }
        if (open && open->count) {
            give_stamp(open);
            keep(mine, open);
        } else if (open) {
            release_own(open);
        }
        leave_record(r);
    }
}

/* One line for each time that a reader holds back a full backlog. */
static void report_stalled(void) {
    participant *r;
    uint64_t seen = least_seen(&r);
    if (!r || seen >= now() || fh_load(&r->reported) == seen) return;
    fh_store(&r->reported, seen);
    uint64_t name[NAME / sizeof(uint64_t)];
    for (size_t i = 0; i < NAME / sizeof(uint64_t); i++) name[i] = fh_load(&r->name[i]);
    char buffer[256];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: deferred free: ");
    fh_text_size(&t, fh_load(&backlog));
    fh_text_string(&t, " wait for reader \"");
    fh_text_string(&t, (const char *)name);
    fh_text_string(&t, "\" of thread ");
    fh_text_number(&t, fh_load(&r->thread));
    fh_text_string(&t, ", which last passed ");
    fh_text_number(&t, now() - seen);
    fh_text_string(&t, " epochs ago; nothing is freed early\n");
    fh_system_write(2, buffer, fh_text_length(&t));
}

/* Bytes that the backlog has room for, beside what waits. */
static size_t room_left(const participant *r) {
    uint64_t most = FH_SETTING(defer), held = fh_load(&backlog) + (r->open ? r->open->bytes : 0);
    return most > held ? (size_t)(most - held) : 0;
}

/* True if the open batch has so much that other threads are to know of it. Under a high bound that is more, so that there are slots
 * enough. */
static bool is_heavy(const participant *r) {
    size_t most = FH_SETTING(defer), from = most / (SLOTS / 4);
    return r->open && r->open->bytes >= (from > ROOM_ONCE ? from : ROOM_ONCE);
}

/* Lets the open batch grow by `bytes` and a little more, if need be after all that can be freed was. */
static bool make_room(participant *r, size_t bytes) {
    if (room_left(r) < bytes) {
        (void)hand_in(r);
        free_ripe(r, SLOTS);
    } else if (is_heavy(r)) {
        (void)hand_in(r);
        free_ripe(r, SEARCHED);
    }
    size_t left = room_left(r), room = bytes > ROOM_ONCE ? bytes : ROOM_ONCE;
    set_room(r, left < room ? left : room);
    if (bytes <= left) return true;
    errno = EAGAIN;
    return false;
}

/* A batch with room for one more block. */
static bool make_open(participant *r) {
    if (r->open && r->open->count == BATCH_BLOCKS) {
        if (!hand_in(r)) {
            free_ripe(r, SLOTS);
            if (!hand_in(r)) {
                errno = EAGAIN;
                return false;
            }
        }
        free_ripe(r, SEARCHED);
    }
    if (r->open) return r->open->count < BATCH_BLOCKS;
    batch *b = alloc_own(sizeof *b);
    if (!b) return false;
    b->bytes = b->count = 0;
    set_open(r, b);
    return true;
}

/* p cannot wait. It need not where no reader is: one that comes later does not find it. */
static bool free_at_once(void *p) {
    participant *any;
    (void)least_seen(&any);
    if (any) return false;
    fh_release(p);
    return true;
}

bool fh_defer(void *p, size_t bytes) {
    int error = errno;
    participant *r = join();
    if (!r) {
        errno = ENOMEM;
        return false;
    }
    count_hits(r);
    if (make_room(r, bytes) && make_open(r) && fh_defer_hit(r->hit, p, bytes)) return true;
    if (free_at_once(p)) {
        errno = error;
        return true;
    }
    if (errno == EAGAIN) report_stalled();
    return false;
}

size_t fh_deferred_bytes(void) {
    participant *r = own();
    if (r) count_hits(r);
    return (size_t)fh_load(&backlog) + (r && r->open ? (size_t)r->open->bytes : 0);
}

size_t fh_defer_waiting(void) {
    return (size_t)fh_load(&backlog);
}

size_t fh_defer_flush(void) {
    participant *r = join();
    if (r) {
        (void)hand_in(r);
        adopt_left(r);
        fh_reader_pass(); /* after the stamp, or the caller would hold back its own */
        free_ripe(r, SLOTS);
    }
    return fh_deferred_bytes();
}

void fh_defer_safepoint(void) {
    if (!join()) return;
    (void)hand_in(own());
    adopt_left(own());
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        uint64_t seen = fh_load_acquire(&r->seen);
        /* The reader is stopped; if it goes offline all the same, its own word stays. */
        if (seen) (void)fh_cas_acq_rel(&r->seen, &seen, now());
    }
    free_ripe(own(), SLOTS);
}

/* ── The end of a thread, and fork ───────────────────────────────────────────────────────────────────────────────── */

/* A thread that ends while it is a reader holds nothing any more. What finds no slot stays in the record (adopt_left). */
void fh_hook_participant_ends(void) {
    fh_scope_thread_ends();
    participant *r = own();
    if (!r) return;
    fh_reader_end();
    (void)hand_in(r);
    free_ripe(r, SEARCHED);
    fh_own()->participant = NULL;
    *r->hit = (fh_deferring){0};
    r->hit = NULL;
    leave_record(r);
}

/* Its thread is not there, and may have been anywhere: where it was about to change batches there is nothing to count. */
static void count_hits_of_gone(participant *r) {
    if (!r->open || !r->hit) return;
    uintptr_t at = (uintptr_t)r->hit->top - (uintptr_t)r->open->block;
    if (at <= sizeof r->open->block) count_hits(r);
}

/* The other threads are not there: none of them reads. Their open batches wait in their records (adopt_left). One that had
 * just taken a batch out of its slot has it for good: its blocks are lost, which is a leak of one batch. */
void fh_hook_participants_forked(void) {
    fh_scope_forked();
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        if (r == own()) {
            if (r->stays) fh_store(&r->thread, fh_system_thread_number()); /* another one than in the parent */
            continue;
        }
        count_hits_of_gone(r);
        r->hit = NULL;
        r->stays = 0;
        fh_store(&r->seen, 0);
        fh_store(&r->taken, 0);
    }
    uint64_t bytes = 0;
    for (size_t i = 0; queue() && i < SLOTS; i++) {
        const batch *b = (const batch *)(uintptr_t)fh_load(&queue()[i]);
        if (b) bytes += b->bytes;
    }
    for (participant *r = NULL; (r = next_of(r)) != NULL;) {
        for (const batch *b = r->kept; b; b = b->next) bytes += b->bytes;
    }
    fh_store(&backlog, bytes);
}
