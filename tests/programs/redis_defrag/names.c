/* The few names of jemalloc that Redis calls, over Freehold. Its active defragmentation asks je_get_defrag_hint of each block, and
 * moves what is worth it by mallocx and dallocx. */
#include "jemalloc/jemalloc.h"

#include <errno.h>
#include <freehold/defrag.h>
#include <stdlib.h>
#include <string.h>

void *mallocx(size_t size, int flags) {
    (void)flags;
    void *p = fh_defrag_malloc(size);
    return p ? p : malloc(size);
}

void dallocx(void *p, int flags) {
    (void)flags;
    fh_defrag_free(p);
}

size_t nallocx(size_t size, int flags) {
    (void)flags;
    return fh_good_size(size);
}

int je_get_defrag_hint(void *p);
int je_get_defrag_hint(void *p) {
    const void *const block = p;
    unsigned char worth;
    return fh_defrag_worth(&block, 1, &worth) == 1;
}

/* "active" is what the blocks' pages have, also between them; what is free as a whole is not active. */
int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size) {
    (void)old_size, (void)new, (void)new_size;
    struct fh_mallinfo2 m = fh_mallinfo2();
    size_t live = m.uordblks + m.hblkhd, all = live + m.fordblks, value;
    if (strcmp(name, "epoch") == 0) return 0;
    if (strcmp(name, "stats.allocated") == 0) {
        value = live;
    } else if (strcmp(name, "stats.active") == 0) {
        value = all - m.keepcost;
    } else if (strcmp(name, "stats.resident") == 0) {
        value = all;
    } else {
        return ENOENT;
    }
    memcpy(old, &value, sizeof value);
    return 0;
}

void malloc_stats_print(void (*write)(void *, const char *), void *arg, const char *options) {
    (void)options;
    write(arg, "see freehold explain\n");
}
