#include "heap/callbacks.h"

#include "cache/thread.h"
#include "heap/valid.h"
#include "system/system.h"

/* The process's generation is above an address. */
#define ADDRESS_BITS 48u

/* `heap` is read and written by the thread that has the entry. */
static struct {
    fh_word thread; /* 0, or one of a process that was forked: free */
    fh_word heap;
} in_callbacks[FH_CALLBACKS_MOST];

static uint64_t this_thread(void) {
    return fh_thread_generation() << ADDRESS_BITS | fh_heap_this_thread();
}

/* The entry that the thread has now; FH_CALLBACKS_MOST: there is none. */
static unsigned enter(const fh_heap *h) {
    uint64_t generation = fh_thread_generation();
    unsigned i = 0;
    for (; i < FH_CALLBACKS_MOST; i++) {
        uint64_t seen = fh_load(&in_callbacks[i].thread);
        if (seen && seen >> ADDRESS_BITS == generation) continue;
        if (fh_cas_acquire(&in_callbacks[i].thread, &seen, this_thread())) break;
    }
    if (i < FH_CALLBACKS_MOST) fh_store(&in_callbacks[i].heap, (uintptr_t)h);
    return i;
}

static void leave(unsigned i) {
    fh_store(&in_callbacks[i].heap, 0);
    fh_store_release(&in_callbacks[i].thread, 0); /* release: the 0 above, before the next one's heap */
}

bool fh_callback_runs(const fh_heap *h) {
    for (unsigned i = 0; i < FH_CALLBACKS_MOST; i++)
        if (fh_load(&in_callbacks[i].thread) == this_thread() && fh_load(&in_callbacks[i].heap) == (uintptr_t)h)
            return true;
    return false;
}

void *fh_callback_get(const fh_heap *h, size_t size) {
    unsigned entry = fh_callback_runs(h) ? FH_CALLBACKS_MOST : enter(h);
    if (entry == FH_CALLBACKS_MOST) return NULL;
    void *p = h->source.get(h->source.arg, size, fh_system_page_size());
    leave(entry);
    return p;
}

void fh_callback_purge(const fh_heap *h, char *p, size_t size) {
    size_t page = fh_system_page_size(), before = fh_round_up((uintptr_t)p, page) - (uintptr_t)p;
    if (!h->source.purge || size < before + page || fh_callback_runs(h)) return;
    unsigned entry = enter(h);
    if (entry == FH_CALLBACKS_MOST) return;
    h->source.purge(h->source.arg, p + before, (size - before) / page * page);
    leave(entry);
}

/* It must be told, also where the table is full. */
void fh_callback_give_back(const fh_heap *h, void *p, size_t size) {
    unsigned entry = enter(h);
    h->source.give_back(h->source.arg, p, size);
    if (entry < FH_CALLBACKS_MOST) leave(entry);
}
