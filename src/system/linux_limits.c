/* Linux: the limits that can make a request for memory fail. Called when one has failed, so nothing here needs any: small
 * buffers on the stack, the kernel's files read piece by piece. */
#include "base/atomic.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t limit_of(int resource) {
    if (fh_system_is_restricted()) return FH_NO_LIMIT;
    uint64_t both[2]; /* soft and hard, as the kernel has them on every machine */
    if (syscall(SYS_prlimit64, 0, resource, NULL, both) != 0) return FH_NO_LIMIT;
    return both[0]; /* no limit is all ones there too */
}

uint64_t fh_system_most_bytes(void) {
    int saved = errno;
    uint64_t addresses = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
    errno = saved;
    return addresses < data ? addresses : data;
}

bool fh_system_counts_addresses(void) {
    return fh_system_counts_every_page() || fh_system_most_bytes() != FH_NO_LIMIT;
}

/* The second number counts the program's stacks too, as the limit on data does. Both files have "Name:   123 kB". */
static void read_own_size(fh_system_limits *l) {
    static const char *const keys[] = {"VmSize:", "VmData:"};
    uint64_t kib[2];
    fh_numbers_of("/proc/self/status", keys, 2, kib);
    l->address_used = kib[0] * 1024;
    l->data_used = kib[1] * 1024;
}

static void read_machine(fh_system_limits *l) {
    static const char *const keys[] = {"MemTotal:", "SwapTotal:", "CommitLimit:", "Committed_AS:"};
    uint64_t kib[4];
    fh_numbers_of("/proc/meminfo", keys, 4, kib);
    l->machine_bytes = (kib[0] + kib[1]) * 1024;
    l->commit_limit = kib[2] ? kib[2] * 1024 : FH_NO_LIMIT;
    l->commit_used = kib[3] * 1024;
}

/* Memory and swap may grow while the program runs, so they are read again. And what the file says may be the share of a
 * container. So the kernel itself has the last word: a mapping that is not exempted from its guess, for a moment. */
bool fh_system_refuses(size_t size) {
    static fh_word known; /* relaxed: every thread reads the same */
    if (size <= fh_load(&known)) return false;
    if (!fh_system_is_restricted()) {
        fh_system_limits l;
        read_machine(&l);
        fh_store(&known, l.machine_bytes);
    }
    uint64_t most = fh_load(&known);
    if (most == 0 || size <= most) return false;
    void *p = fh_system_map(size, fh_system_page_size());
    if (!p) return true;
    fh_system_unmap(p, size);
    return false;
}

/* One line each. */
static uint64_t count_mappings(void) {
    char text[1024];
    uint64_t lines = 0;
    int fd = fh_read_open("/proc/self/maps");
    for (long got; fd >= 0 && (got = fh_read_next(fd, text, sizeof text)) > 0;) {
        for (long i = 0; i < got; i++) lines += text[i] == '\n';
    }
    fh_read_close(fd);
    return lines;
}

void fh_system_limits_now(fh_system_limits *limits) {
    int saved = errno;
    limits->address_limit = limit_of(RLIMIT_AS);
    limits->data_limit = limit_of(RLIMIT_DATA);
    read_own_size(limits);
    read_machine(limits);
    limits->overcommit = fh_number_in("/proc/sys/vm/overcommit_memory", 0);
    limits->mappings_limit = fh_number_in("/proc/sys/vm/max_map_count", FH_NO_LIMIT);
    limits->mappings = count_mappings();
    errno = saved;
}
