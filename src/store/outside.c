#include "store/outside.h"

/* A place is taken by `owned` from 0 to TAKEN. It is shown when the address is there, after the bounds. */
#define TAKEN 1u

typedef struct {
    fh_word owned;
    fh_word begin, end;
} entry;

static entry entries[FH_OUTSIDE_MOST];
fh_word fh_outside_entries;

static void raise_to(uint64_t n) {
    uint64_t now = fh_load(&fh_outside_entries);
    while (now < n && !fh_cas_relaxed(&fh_outside_entries, &now, n)) {
    }
}

bool fh_outside_add(const void *memory, size_t bytes, const void *owned) {
    for (unsigned i = 0; i < FH_OUTSIDE_MOST; i++) {
        uint64_t none = 0;
        if (fh_load(&entries[i].owned) || !fh_cas_acquire(&entries[i].owned, &none, TAKEN)) continue;
        fh_store(&entries[i].begin, (uintptr_t)memory);
        fh_store(&entries[i].end, (uintptr_t)memory + bytes);
        /* release: the bounds and what is owned, before it is found. */
        fh_store_release(&entries[i].owned, (uintptr_t)owned);
        raise_to(i + 1);
        return true;
    }
    return false;
}

void fh_outside_drop(const void *owned) {
    uint64_t most = fh_load(&fh_outside_entries);
    for (unsigned i = 0; i < most; i++) {
        /* release: what was read there, before another one takes the place. */
        if (fh_load(&entries[i].owned) == (uintptr_t)owned) fh_store_release(&entries[i].owned, 0);
    }
}

/* Acquire: what was written before it was shown. */
static uintptr_t owned_of(const entry *e, uintptr_t from, uintptr_t to) {
    uint64_t owned = fh_load_acquire(&e->owned);
    if (owned <= TAKEN || from >= fh_load(&e->end) || to <= fh_load(&e->begin)) return 0;
    return (uintptr_t)owned;
}

bool fh_outside_overlaps(const void *memory, size_t bytes) {
    uint64_t most = fh_load(&fh_outside_entries);
    for (unsigned i = 0; i < most; i++)
        if (owned_of(&entries[i], (uintptr_t)memory, (uintptr_t)memory + bytes)) return true;
    return false;
}

uintptr_t fh_outside_find(const void *p) {
    uint64_t most = fh_load(&fh_outside_entries);
    for (unsigned i = 0; i < most; i++) {
        uintptr_t owned = owned_of(&entries[i], (uintptr_t)p, (uintptr_t)p + 1);
        if (owned) return owned;
    }
    return 0;
}
