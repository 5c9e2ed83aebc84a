#include "heap/scope.h"

#include "base/assert.h"
#include "cache/alloc.h"
#include "cache/observed.h"

#include <errno.h>

/* A plain block, of the thread's cache. */
struct fh_scope {
    fh_scope *outer;
    fh_heap *heap;
};

/* ── The count of a heap's open scopes ───────────────────────────────────────────────────────────────────────────── */

/* generation 32 bits │ scopes 32. Relaxed: it answers a question of misuse, and nothing is read because of it. */
static uint32_t open_now(uint64_t word) {
    return (uint32_t)(word >> 32) == (uint32_t)fh_thread_generation() ? (uint32_t)word : 0;
}

static void count(fh_heap *h, int32_t by) {
    uint64_t word = fh_load(&h->scopes), then;
    do {
        then = fh_thread_generation() << 32 | (uint32_t)(open_now(word) + (uint32_t)by);
    } while (!fh_cas_relaxed(&h->scopes, &word, then));
}

bool fh_scope_is_open(const fh_heap *h) {
    return open_now(fh_load(&h->scopes)) != 0;
}

/* ── Scopes of a thread ──────────────────────────────────────────────────────────────────────────────────────────── */

fh_heap *fh_scope_heap(void) {
    const fh_scope *s = fh_own()->scope;
    return s ? s->heap : NULL;
}

bool fh_scope_enter(fh_heap *h) {
    bool clean;
    fh_scope *s = fh_alloc_unobserved(FH_MIN_ALIGN, sizeof *s, &clean);
    fh_thread *t = fh_thread_enter();
    fh_thread_leave(t);
    if (!s || !t) {
        fh_release_unchecked("fh_heap_enter", s);
        errno = ENOMEM;
        return false;
    }
    *s = (fh_scope){t->scope, h};
    count(h, 1);
    t->scope = s;
    fh_thread_scope(t);
    return true;
}

static void leave(fh_thread *t) {
    fh_scope *s = t->scope;
    t->scope = s->outer;
    count(s->heap, -1);
    if (!t->scope) fh_thread_scope(t);
    fh_release_unchecked("fh_heap_leave", s);
}

bool fh_scope_leave(void) {
    fh_thread *t = fh_own();
    if (!t->scope) return false;
    leave(t);
    return true;
}

void fh_scope_thread_ends(void) {
    fh_thread *t = fh_own();
    while (t->scope) leave(t);
}

void fh_scope_forked(void) {
    for (const fh_scope *s = fh_own()->scope; s; s = s->outer) count(s->heap, 1);
}
