/* Linux: what the kernel does otherwise with single mappings, and memory ahead of its use. */
#include "system/system.h"

#include "system/inspect.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* The C libraries are older than some of the kernels they run on. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* With its end. */
#define NAME_MOST 80u

/* The kernel takes what can be printed, without these. */
static bool is_allowed(char c) {
    return c >= ' ' && c <= '~' && !strchr("\\`$[]", c);
}

/* Kernels before 5.17, and many later ones, have no names. */
static void set_name(void *p, size_t size, const char *name) {
    char text[NAME_MOST] = "freehold";
    size_t n = strlen(text);
    if (name && *name) text[n++] = ':';
    for (; name && *name && n < NAME_MOST - 1; name++) text[n++] = is_allowed(*name) ? *name : '_';
    text[n] = 0;
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, size, text);
}

int fh_system_set_traits(void *p, size_t size, unsigned traits, const char *name) {
    if (fh_system_is_restricted()) return traits & FH_TRAIT_NO_DUMP ? ENOTSUP : 0;
    int saved = errno, error = 0;
    if (traits & FH_TRAIT_NO_DUMP && madvise(p, size, MADV_DONTDUMP) != 0) error = errno == EINVAL ? ENOTSUP : ENOMEM;
    if (!error && traits & FH_TRAIT_NAMED) set_name(p, size, name);
    errno = saved;
    if (!error && traits & FH_TRAIT_HUGE) fh_system_huge_pages(p, size, true);
    return error;
}

/* Mapped afresh, pages have no trait. Where that is one mapping too many, the traits are taken back one by one. Not before it: a
 * mapping that gets its neighbours back with its pages in it keeps what sets it apart from the next one (its anon_vma). 8,192
 * pieces left 4,096 mappings in that order, and leave none in this one (2026-11-23, Linux 6.18). */
void fh_system_clear_traits(void *p, size_t size, unsigned traits) {
    if (fh_system_renew(p, size)) return;
    int saved = errno;
    bool may_ask = !fh_system_is_restricted();
    if (traits & FH_TRAIT_NO_DUMP) madvise(p, size, MADV_DODUMP);
    if (traits & FH_TRAIT_NAMED && may_ask) prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, size, NULL);
    if (traits & FH_TRAIT_HUGE && may_ask) madvise(p, size, MADV_NOHUGEPAGE);
    errno = saved;
}

/* The kernel reports pages that cannot be had. Older ones than 5.14 do not know the call, and a program's filter may not either. */
bool fh_system_populate(void *p, size_t size) {
    int saved = errno;
    bool asked = !fh_system_is_restricted();
    int error = asked && madvise(p, size, MADV_POPULATE_WRITE) == 0 ? 0 : asked ? errno : EINVAL;
    errno = saved;
    if (error && error != EINVAL) return false;
    size_t page = fh_system_page_size();
    /* Atomic: what begins there may have a header that other threads read and write. */
    for (size_t at = 0; error && at < size; at += page) __atomic_fetch_add((char *)p + at, 0, __ATOMIC_RELAXED);
    return true;
}
