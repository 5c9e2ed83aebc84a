#include "heap/quota.h"

#include "base/assert.h"
#include "cache/thread.h"

/* *passed: its soft limit is passed by it. */
static bool charge_one(fh_heap *h, size_t bytes, bool *passed) {
    uint64_t seen = fh_load(&h->charged);
    do {
        uint64_t hard = fh_load(&h->hard);
        if (hard && (bytes > hard || seen > hard - bytes)) {
            fh_add_relaxed(&h->refusals, 1);
            return false;
        }
    } while (!fh_cas_relaxed(&h->charged, &seen, seen + bytes));
    /* What was there before is known here alone. Later others may have charged too, and each would leave it to the other one. */
    uint64_t soft = fh_load(&h->soft);
    *passed = soft && seen <= soft && seen + bytes > soft;
    return true;
}

static void raise_peak(fh_heap *h) {
    uint64_t now = fh_load(&h->charged), peak = fh_load(&h->peak);
    while (now > peak && !fh_cas_relaxed(&h->peak, &peak, now)) {
    }
}

fh_heap *fh_quota_charge(fh_heap *h, size_t bytes, fh_quota_passed *passed) {
    unsigned depth = 0;
    *passed = 0;
    for (fh_heap *at = h; at; at = at->parent) {
        bool this_one;
        if (charge_one(at, bytes, &this_one)) {
            if (FH_UNLIKELY(this_one)) *passed |= UINT64_C(1) << depth % 64;
            depth++;
            continue;
        }
        for (fh_heap *back = h; back != at; back = back->parent) fh_sub_relaxed(&back->charged, bytes);
        return at;
    }
    for (fh_heap *at = h; at; at = at->parent) raise_peak(at);
    return NULL;
}

void fh_quota_return(fh_heap *h, size_t bytes) {
    for (fh_heap *at = h; at; at = at->parent) {
        uint64_t before = fh_sub_relaxed(&at->charged, bytes);
        FH_ASSERT(before >= bytes);
    }
}

/* In the child of a fork a callback that another thread was in does not run. 1 more, because 0 says that none does. */
static uint64_t asks_now(void) {
    return fh_thread_generation() + 1;
}

bool fh_quota_asks(const fh_heap *h) {
    return fh_load(&h->asking) == asks_now();
}

bool fh_quota_ask(fh_heap *h, size_t wanted, bool hard) {
    uint64_t seen = fh_load(&h->asking), now = asks_now();
    /* acquire and release: what the callback writes is seen by the next call of it. */
    if (!h->asked || seen == now || !fh_cas_acquire(&h->asking, &seen, now)) return false;
    bool again = h->asked(h, wanted, hard, h->arg) != 0;
    fh_store_release(&h->asking, 0);
    return again;
}

void fh_quota_tell(fh_heap *h, size_t bytes, fh_quota_passed passed) {
    unsigned depth = 0;
    for (fh_heap *at = h; at && FH_UNLIKELY(passed); at = at->parent, depth++)
        if (passed >> depth % 64 & 1) (void)fh_quota_ask(at, bytes, false);
}

bool fh_quota_has_room(const fh_heap *h, size_t bytes) {
    for (; h; h = h->parent) {
        uint64_t hard = fh_load(&h->hard), charged = fh_load(&h->charged);
        if (hard && (charged > hard || hard - charged < bytes)) return false;
    }
    return true;
}
