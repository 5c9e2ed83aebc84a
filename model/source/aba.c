/* The negative control: the linked stack with a plain compare-and-swap that the old allocators had. Its pop reads the next
 * pointer of a node that another thread may pop, use and push again in the meantime; the model must find that. */
#include "base/atomic.h"

/* Nodes are numbered from 1; 0 is the end. */
static fh_word head, next[8];

void fh_model_aba_push(uint64_t node) {
    uint64_t seen = fh_load_acquire(&head);
    do {
        fh_store(&next[node], seen);
    } while (!fh_cas_acq_rel(&head, &seen, node));
}

uint64_t fh_model_aba_pop(void) {
    uint64_t seen = fh_load_acquire(&head);
    while (seen) {
        uint64_t after = fh_load(&next[seen]);
        if (fh_cas_acq_rel(&head, &seen, after)) break;
    }
    return seen;
}
