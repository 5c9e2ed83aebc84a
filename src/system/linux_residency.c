/* Linux: which pages have memory. */
#include "system/linux_filter.h"
#include "system/linux_read.h"
#include "system/system.h"

#include "base/bits.h"

#include <errno.h>
#include <sys/mman.h>

#define ENTRIES 64u

/* From a file that has 64 bits for each page. The highest says that the page is there. */
__attribute__((noinline)) static bool read_resident(const void *p, size_t size, unsigned char *pages) {
    uint64_t entry[ENTRIES];
    size_t page = fh_system_page_size(), first = (uintptr_t)p / page, n = (size + page - 1) / page, done = 0;
    int fd = fh_read_open("/proc/self/pagemap");
    while (fd >= 0 && done < n) {
        size_t most = n - done < ENTRIES ? n - done : ENTRIES;
        size_t got = fh_read_at(fd, entry, most * sizeof *entry, (first + done) * sizeof *entry) / sizeof *entry;
        if (got == 0) break;
        for (size_t i = 0; i < got; i++) pages[done + i] = entry[i] >> 63;
        done += got;
    }
    fh_read_close(fd);
    return done == n;
}

/* mincore is in none of systemd's lists of system calls, and a filter may end the process for it. */
bool fh_system_resident(void *p, size_t size, unsigned char *pages) {
    if (fh_system_is_restricted()) return false;
    if (FH_UNLIKELY(fh_linux_is_filtered())) return read_resident(p, size, pages);
    int saved = errno;
    bool known = mincore(p, size, pages) == 0;
    errno = saved;
    return known;
}
