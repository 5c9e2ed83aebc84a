/* The names of freehold/defrag.h. What is worth moving is judged in reclaim/defrag.c. */
#include "freehold/defrag.h"

#include "api/calls.h"
#include "cache/thread.h"
#include "reclaim/defrag.h"

size_t fh_defrag_worth(const void *const *p, size_t n, unsigned char *worth) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += worth[i] = fh_defrag_pays(p[i]);
    return sum;
}

void *fh_defrag_malloc(size_t size) {
    return fh_defrag_take(size);
}

void fh_defrag_free(void *p) {
    if (!fh_defrag_give(p)) fh_release(p);
    fh_thread_safe_point(FH_AFTER_FREE);
}
