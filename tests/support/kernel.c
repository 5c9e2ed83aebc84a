/* A kernel of another kind. The linker leads every call of the system that the library makes through this file
 * (--wrap, see CMakeLists.txt), which makes of this machine's kernel one that has
 *
 *     FREEHOLD_TEST_PAGE=16384       pages of that size: what it maps begins and ends at multiples of it, what it says of
 *                                    resident pages is said of such pages, and each call that is not for whole pages
 *                                    of that size ends the program with a message
 *     FREEHOLD_TEST_THP=always       another setting of transparent huge pages: always, madvise or never. The setting is
 *                                    read from a file, which is ours then; under "always" all fresh memory is advised
 *                                    here, which is what the kernel's own "always" comes to; under "never" no advice
 *                                    gets through
 *
 *     FREEHOLD_TEST_TOUCH=5000000    a first touch of a page that takes so many nanoseconds: the clock of the thread goes
 *                                    on by so much each time that it is read
 *
 * Without these variables everything is as it is, and only counted. */
#include "kernel.h"

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

enum { HUGE_PAGE = 2 << 20, MOST_RANGES = 4096, PURGE_PIECES = 440 /* process_madvise */ };

long kernel_split_purges, kernel_whole_purges, kernel_clock_readings;
size_t kernel_split_bytes, kernel_refused_bytes;

void *__real_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *p, size_t n);
int __real_mprotect(void *p, size_t n, int protection);
int __real_madvise(void *p, size_t n, int advice);
int __real_mincore(void *p, size_t n, unsigned char *pages);
unsigned long __real_getauxval(unsigned long type);
long __real_sysconf(int name);
int __real_clock_gettime(clockid_t clock, struct timespec *time);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *p, size_t n);
void *__wrap_mremap(void *p, size_t old, size_t n, int flags, ...);
int __wrap_mprotect(void *p, size_t n, int protection);
int __wrap_madvise(void *p, size_t n, int advice);
int __wrap_mincore(void *p, size_t n, unsigned char *pages);
unsigned long __wrap_getauxval(unsigned long type);
long __wrap_sysconf(int name);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

/* ── What this kernel is ─────────────────────────────────────────────────────────────────────────────────────────── */

static size_t own_page(void) {
    return (size_t)__real_sysconf(_SC_PAGESIZE);
}

static size_t page(void) {
    static size_t size;
    if (!size) size = env_number("FREEHOLD_TEST_PAGE", own_page());
    return size;
}

/* 0 when the machine's own setting is to be used. */
static const char *mode(void) {
    const char *text = getenv("FREEHOLD_TEST_THP");
    return text && *text ? text : NULL;
}

static bool is_mode(const char *name) {
    return mode() && strcmp(mode(), name) == 0;
}

unsigned long __wrap_getauxval(unsigned long type) {
    return type == AT_PAGESZ ? page() : __real_getauxval(type);
}

long __wrap_sysconf(int name) {
    return name == _SC_PAGESIZE ? (long)page() : __real_sysconf(name);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    static __thread long spent;
    long touch = (long)env_number("FREEHOLD_TEST_TOUCH", 0);
    if (clock != CLOCK_THREAD_CPUTIME_ID || touch == 0) return __real_clock_gettime(clock, time);
    spent += touch;
    __atomic_add_fetch(&kernel_clock_readings, 1, __ATOMIC_RELAXED);
    time->tv_sec = spent / 1000000000;
    time->tv_nsec = spent % 1000000000;
    return 0;
}

static void check_whole(const char *call, const void *p, size_t n) {
    CHECK((uintptr_t)p % page() == 0 && n % page() == 0, "%s(%p, %zu): not whole pages of %zu bytes", call, p, n,
          page());
}

/* ── Which ranges were advised ───────────────────────────────────────────────────────────────────────────────────── */

static struct { uintptr_t start, end; } advised[MOST_RANGES];
static int advised_count;
static pthread_mutex_t advised_lock = PTHREAD_MUTEX_INITIALIZER;

/* Ranges that touch become one. */
static void remember(uintptr_t start, size_t n) {
    uintptr_t end = start + n;
    pthread_mutex_lock(&advised_lock);
    for (int i = advised_count; i-- > 0;) {
        if (advised[i].start > end || advised[i].end < start) continue;
        if (advised[i].start < start) start = advised[i].start;
        if (advised[i].end > end) end = advised[i].end;
        advised[i] = advised[--advised_count];
    }
    CHECK(advised_count < MOST_RANGES, "too many advised ranges for this test");
    advised[advised_count].start = start;
    advised[advised_count++].end = end;
    pthread_mutex_unlock(&advised_lock);
}

/* True if the address lies on a huge page that was asked for whole. */
static bool is_advised(uintptr_t address) {
    uintptr_t start = address & ~(uintptr_t)(HUGE_PAGE - 1);
    bool found = false;
    pthread_mutex_lock(&advised_lock);
    for (int i = 0; i < advised_count; i++) found |= advised[i].start <= start && start + HUGE_PAGE <= advised[i].end;
    pthread_mutex_unlock(&advised_lock);
    return found;
}

size_t kernel_advised_bytes(void) {
    size_t bytes = 0;
    pthread_mutex_lock(&advised_lock);
    for (int i = 0; i < advised_count; i++) bytes += advised[i].end - advised[i].start;
    pthread_mutex_unlock(&advised_lock);
    return bytes;
}

static void count_purge(uintptr_t start, size_t n) {
    size_t part = 0, before = (HUGE_PAGE - start % HUGE_PAGE) % HUGE_PAGE, behind = (start + n) % HUGE_PAGE;
    if (before > n) before = behind = n; /* begins and ends on the same huge page */
    if (before && is_advised(start)) part += before;
    if (behind && before != n && is_advised(start + n - 1)) part += behind;
    if (part) {
        __atomic_fetch_add(&kernel_split_purges, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&kernel_split_bytes, part, __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_add(&kernel_whole_purges, 1, __ATOMIC_RELAXED);
    }
}

/* ── The calls ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Under "always", memory that may be written to gets huge pages unless it was said not to. */
static void advise_fresh(void *p, size_t n, int protection) {
    if (is_mode("always") && protection & PROT_WRITE) __real_madvise(p, n, MADV_HUGEPAGE);
}

void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset) {
    const int at_place = MAP_FIXED | MAP_FIXED_NOREPLACE;
    n = (n + page() - 1) & ~(page() - 1);
    if (flags & at_place) check_whole("mmap", p, n);
    /* One that may lie anywhere is made longer, and cut where a larger page would begin. */
    size_t more = flags & at_place ? 0 : page() - own_page();
    char *got = __real_mmap(p, n + more, protection, flags, fd, offset);
    if (got == MAP_FAILED) return got;
    /* What is mapped afresh loses its memory. */
    if (flags & MAP_FIXED && protection & PROT_WRITE) count_purge((uintptr_t)p, n);
    char *start = flags & at_place ? got : (char *)(((uintptr_t)got + page() - 1) & ~(uintptr_t)(page() - 1));
    if (start > got) __real_munmap(got, (size_t)(start - got));
    size_t behind = (size_t)(got + n + more - (start + n));
    if (behind) __real_munmap(start + n, behind);
    advise_fresh(start, n, protection);
    return start;
}

int __wrap_munmap(void *p, size_t n) {
    check_whole("munmap", p, n);
    return __real_munmap(p, n);
}

void *__wrap_mremap(void *p, size_t old, size_t n, int flags, ...) {
    va_list list;
    va_start(list, flags);
    void *place = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    check_whole("mremap, old", p, old);
    check_whole("mremap, new", place, n);
    return (void *)__real_syscall(SYS_mremap, (long)p, (long)old, (long)n, flags, (long)place, 0);
}

int __wrap_mprotect(void *p, size_t n, int protection) {
    check_whole("mprotect", p, n);
    int result = __real_mprotect(p, n, protection);
    if (result == 0) advise_fresh(p, n, protection);
    return result;
}

int __wrap_madvise(void *p, size_t n, int advice) {
    check_whole("madvise", p, n);
    if (advice == MADV_HUGEPAGE) {
        remember((uintptr_t)p, n);
        if (is_mode("never")) return 0;
    }
    if (advice == MADV_NOHUGEPAGE && is_advised((uintptr_t)p))
        __atomic_fetch_add(&kernel_refused_bytes, n, __ATOMIC_RELAXED);
    if (advice == MADV_DONTNEED) count_purge((uintptr_t)p, n);
    return __real_madvise(p, n, advice);
}

int __wrap_mincore(void *p, size_t n, unsigned char *pages) {
    static __thread unsigned char small[(4 << 20) / 4096]; /* a chunk */
    size_t each = page() / own_page(), count = n / page();
    check_whole("mincore", p, n);
    CHECK(count * each <= sizeof small, "mincore of %zu bytes is more than this test can tell", n);
    int result = __real_mincore(p, n, small);
    for (size_t i = 0; i < count && result == 0; i++) {
        pages[i] = 0;
        for (size_t k = 0; k < each; k++) pages[i] |= small[i * each + k] & 1;
    }
    return result;
}

/* The file with the setting of the huge pages, as it would be there. */
static long setting_file(void) {
    static const char *const texts[] = {"[always] madvise never\n", "always [madvise] never\n",
                                        "always madvise [never]\n"};
    const char *text = texts[is_mode("always") ? 0 : is_mode("madvise") ? 1 : 2];
    int fd = memfd_create("thp", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && lseek(fd, 0, SEEK_SET) == 0, "memfd");
    return fd;
}

/* Those that it does not take are purged by madvise afterwards, and are counted there. */
static long purge_pieces(long process, const struct iovec *pieces, long n, long flags) {
    for (long i = 0; i < n; i++) check_whole("process_madvise", pieces[i].iov_base, pieces[i].iov_len);
    long result = __real_syscall(PURGE_PIECES, process, (long)pieces, n, MADV_DONTNEED, flags, 0), bytes = result;
    for (long i = 0; i < n && bytes >= (long)pieces[i].iov_len; i++) {
        bytes -= (long)pieces[i].iov_len;
        count_purge((uintptr_t)pieces[i].iov_base, pieces[i].iov_len);
    }
    return result;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    const char *path = (const char *)b;
    if (number == SYS_openat && mode() && strcmp(path, "/sys/kernel/mm/transparent_hugepage/enabled") == 0) {
        return setting_file();
    }
    if (number == PURGE_PIECES && d == MADV_DONTNEED) return purge_pieces(a, (const struct iovec *)b, c, e);
    return __real_syscall(number, a, b, c, d, e, f);
}
