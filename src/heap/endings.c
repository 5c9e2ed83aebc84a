#include "heap/endings.h"

#include "base/settings.h"
#include "heap/free.h"
#include "heap/take.h"

typedef struct ending {
    struct ending *before;
    void (*fn)(void *arg);
    void *arg;
} ending;

bool fh_ending_add(fh_heap *h, void (*fn)(void *arg), void *arg) {
    bool clean;
    ending *e = fh_heap_take(h, FH_MIN_ALIGN, sizeof *e, &clean);
    if (!e) return false;
    e->fn = fn;
    e->arg = arg;
    uint64_t head = fh_load(&h->endings);
    do {
        e->before = (ending *)(uintptr_t)head;
        /* release: the node, before the thread that takes the list reads it. */
    } while (!fh_cas_acq_rel(&h->endings, &head, (uintptr_t)e));
    return true;
}

void fh_endings_run(fh_heap *h) {
    ending *e;
    while ((e = (ending *)(uintptr_t)fh_swap_acq_rel(&h->endings, 0)) != NULL) {
        for (ending *before; e; e = before) {
            before = e->before;
            e->fn(e->arg);
            /* Else it goes with the heap, but here it would be one of the blocks that are left. */
            if (FH_UNLIKELY(FH_SETTING(heap_left))) fh_heap_give(NULL, fh_owned_at(e), e);
        }
    }
}
