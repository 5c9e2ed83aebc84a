#include "heap/regions.h"

#include "heap/callbacks.h"
#include "heap/given.h"
#include "heap/quota.h"
#include "store/window.h"
#include "system/system.h"

#define REGION_FIRST ((size_t)1 << 20)

static fh_given *newest(const fh_heap *h) {
    return (fh_given *)(uintptr_t)fh_load_acquire(&h->regions);
}

/* A region of that many bytes, before others see it. The program gets back what is of no use. */
static fh_given *get_region(fh_heap *h, size_t bytes) {
    void *p = fh_callback_get(h, bytes);
    if (!p) return NULL;
    bool may = (uintptr_t)p % fh_system_page_size() == 0 && fh_given_may(p, bytes);
    fh_given *g = may ? fh_given_begin(h, p, bytes) : NULL;
    if (!g) fh_callback_give_back(h, p, bytes);
    return g;
}

static fh_given *get_charged(fh_heap *h, size_t bytes, fh_heap **full) {
    fh_quota_passed passed;
    *full = fh_quota_charge(h, bytes, &passed);
    if (*full) return NULL;
    fh_given *g = get_region(h, bytes);
    if (g) fh_quota_tell(h, bytes, passed);
    if (g) return g;
    fh_quota_return(h, bytes);
    *full = h;
    return NULL;
}

/* Release: its header, before it is found. */
static void show(fh_heap *h, fh_given *g) {
    uint64_t head = fh_load(&h->regions);
    do {
        fh_given_link(g, (fh_given *)(uintptr_t)head);
    } while (!fh_cas_acq_rel(&h->regions, &head, (uintptr_t)g));
}

void *fh_regions_take(fh_heap *h, size_t align, size_t n, fh_heap **full) {
    *full = NULL;
    if (n > FH_WINDOW_SIZE || align > FH_WINDOW_SIZE) return NULL;
    for (fh_given *g = newest(h); g; g = fh_given_next(g)) {
        void *p = fh_given_take(g, align, n);
        if (p) return p;
    }
    size_t least = fh_given_bytes_for(align, n), wanted = (size_t)fh_load(&h->charged) - FH_SLOT_SIZE;
    if (wanted < REGION_FIRST) wanted = REGION_FIRST;
    fh_given *g = NULL;
    for (; !g && wanted > least; wanted = fh_round_up(wanted / 2, FH_SLOT_SIZE)) g = get_charged(h, wanted, full);
    if (!g) g = get_charged(h, least, full);
    if (!g) return NULL;
    void *p = fh_given_take(g, align, n); /* before others see it */
    show(h, g);
    return p;
}

void fh_regions_each(const fh_heap *h, fh_heap_seen *see, void *arg) {
    for (fh_given *g = newest(h); g; g = fh_given_next(g)) fh_given_each(g, see, arg);
}

size_t fh_regions_resident(const fh_heap *h) {
    size_t sum = 0;
    for (fh_given *g = newest(h); g; g = fh_given_next(g)) sum += fh_given_resident(g);
    return sum;
}

size_t fh_regions_end(fh_heap *h) {
    size_t sum = 0, bytes;
    fh_given *g = newest(h), *next;
    fh_store(&h->regions, 0);
    for (; g; g = next) {
        next = fh_given_next(g);
        fh_given_end(g);
        void *memory = fh_given_memory(g, &bytes);
        fh_callback_give_back(h, memory, bytes);
        sum += bytes;
    }
    return sum;
}
