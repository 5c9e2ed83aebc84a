/* Linux, with glibc or musl: memory, limits, time, CPUs and the ends of threads and processes. The other linux_*.c answer
 * the rest of system.h (groups, limits, the library's own thread) and inspect.h.
 *
 * Two habits hold for all of them. What may be called inside free keeps errno, because free must. And what a C library
 * makes a cancellation point (open, read, write) is called by number instead: a thread that is cancelled in the middle
 * of malloc would leave its cache half changed. */
#include "system/system.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "system/inspect.h"
#include "system/linux_filter.h"
#include "system/linux_group.h"
#include "system/linux_program.h"
#include "system/linux_read.h"
#include "system/linux_refused.h"
#include "system/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Both C libraries are older than some of the kernels they run on. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* musl comes without the kernel's headers. The numbers are part of the kernel's interface. */
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_PRIVATE 128
#define SELF (-10000) /* PIDFD_SELF */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* ThreadSanitizer owns most of the address space and lets a program use only the part where the kernel itself puts
 * mappings. */
#ifdef __SANITIZE_THREAD__
#define KERNEL_CHOOSES true
#else
#define KERNEL_CHOOSES false
#endif

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

/* What was asked of the kernel so far, for the statistics. Relaxed: nothing is decided by them. An addition is nothing
 * beside the call that it counts. */
static fh_word maps, unmaps, purges, purged_bytes;
static fh_word refused; /* bytes of the last request that there was no memory or address space for */

void fh_linux_note_refusal(size_t size) {
    if (errno == ENOMEM) fh_store(&refused, size);
}

uint64_t fh_system_refused_bytes(void) {
    return fh_load(&refused);
}

/* mmap says failure with a pointer that is not NULL; here NULL is failure. */
static void *map_at(void *place, size_t size, int protection, int flags) {
    fh_add_relaxed(&maps, 1);
    void *p = mmap(place, size, protection, flags, -1, 0);
    if (p != MAP_FAILED) return p;
    fh_linux_note_refusal(size);
    return NULL;
}

static bool unmap(void *p, size_t size) {
    fh_add_relaxed(&unmaps, 1);
    return munmap(p, size) == 0;
}

fh_system_calls fh_system_calls_made(void) {
    return (fh_system_calls){fh_load(&maps), fh_load(&unmaps), fh_load(&purges), fh_load(&purged_bytes)};
}

static bool is_aligned(const void *p, size_t align) {
    return ((uintptr_t)p & (align - 1)) == 0;
}

/* ── Sandboxes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_system_restrict(void) {
    (void)fh_system_huge_pages_always();
    (void)fh_system_counts_every_page();
    fh_program_restrict();
}

/* ── Pages and address space ─────────────────────────────────────────────────────────────────────────────────────── */

size_t fh_system_page_size(void) {
    /* Every thread computes the same value, so it does not matter who stores it last. */
    static fh_word cached;
    size_t size = fh_load(&cached);
    if (size == 0) {
        size = getauxval(AT_PAGESZ);
        if (size == 0) size = (size_t)sysconf(_SC_PAGESIZE);
        fh_store(&cached, size);
    }
    return size;
}

/* Maps at exactly `place` or not at all. Kernels before 4.17 do not know MAP_FIXED_NOREPLACE and take the place for a
 * mere wish; what they map elsewhere is unmapped, and the answer is the one that a newer kernel would give. */
static int map_exactly(void *place, size_t size, int protection, int flags) {
    void *p = map_at(place, size, protection, PRIVATE | MAP_FIXED_NOREPLACE | flags);
    if (!p) return errno == EEXIST ? EEXIST : ENOMEM;
    if (p == place) return 0;
    unmap(p, size);
    return EEXIST;
}

/* MAP_NORESERVE keeps memory that was never written to out of the kernel's account of what it has promised, unless it counts
 * every page. And what fh_system_renew and fh_system_move map is joined with its neighbours only if the flags are the same. */
int fh_system_place(void *p, size_t size) {
    return map_exactly(p, size, READ_WRITE, MAP_NORESERVE);
}

int fh_system_block(void *p, size_t size) {
    return map_exactly(p, size, PROT_NONE, MAP_NORESERVE);
}

/* An asynchronous msync does nothing but look at the mappings. */
bool fh_system_is_mapped(void *p, size_t size) {
    if (fh_system_is_restricted()) return true;
    int saved = errno;
    bool mapped = syscall(SYS_msync, p, size, MS_ASYNC) == 0; /* not msync, which is a cancellation point */
    errno = saved;
    return mapped;
}

/* 64 random bits. The kernel's generator may not be seeded yet when the first process starts; then the 16 bytes that it
 * put beside the program's arguments do, mixed, because the C library makes its stack guard of the same bytes. */
static uint64_t random_bits(void) {
    uint64_t bits[2] = {0, 0};
    const unsigned nonblock = 1;
    if (syscall(SYS_getrandom, bits, sizeof bits[0], nonblock) == (long)sizeof bits[0]) return bits[0];
    const void *seed = (const void *)getauxval(AT_RANDOM); // NOLINT(performance-no-int-to-ptr)
    if (seed) memcpy(bits, seed, sizeof bits);
    uint64_t mixed = (bits[0] ^ fh_system_nanoseconds()) * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed ^ (mixed >> 29) ^ bits[1]) * UINT64_C(0xBF58476D1CE4E5B9);
}

uint64_t fh_system_random(void) {
    int saved = errno;
    uint64_t bits = random_bits();
    errno = saved;
    return bits;
}

/* The same places each time for a program that runs without address space randomisation, under a debugger for example. They
 * do not overlap: there may be two copies of the library. */
static uint64_t random_place(unsigned attempt, size_t step) {
    int persona = personality(UINT32_MAX); /* only asks */
    return persona >= 0 && persona & ADDR_NO_RANDOMIZE ? attempt * step : random_bits();
}

/* The kernel maps from the top of the address space downwards, or with an unlimited stack from 0x2aaa… upwards, and the
 * program itself at 0x55…; the bottom belongs to programs at fixed addresses and to runtimes that want 32 to 45 bits: clisp
 * takes all from 16 to 32 TiB. What is between is free. */
#define PLACE_LOWEST UINT64_C(0x200000000000)
#define PLACE_HIGHEST UINT64_C(0x2a0000000000)
#define PLACE_ATTEMPTS 8u

void *fh_system_find_place(size_t size, size_t align, unsigned attempt) {
    uint64_t lowest = fh_round_up(PLACE_LOWEST, align);
    if (attempt < PLACE_ATTEMPTS && !KERNEL_CHOOSES && size <= PLACE_HIGHEST - lowest) {
        uint64_t choices = (PLACE_HIGHEST - lowest - size) / align + 1;
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        return (void *)(uintptr_t)(lowest + random_place(attempt, fh_round_up(size, align) / align) % choices * align);
    }
    /* A narrow address space (39 bits on some arm64 kernels) or a crowded one: let the kernel find a gap. */
    char *gap = map_at(NULL, size + align, PROT_NONE, PRIVATE | MAP_NORESERVE);
    if (!gap) return NULL;
    unmap(gap, size + align);
    return (void *)fh_round_up((uintptr_t)gap, align); // NOLINT(performance-no-int-to-ptr)
}

/* ── Mappings of their own ───────────────────────────────────────────────────────────────────────────────────────── */

/* Maps more than is wanted and unmaps what is before and behind the aligned part. */
static void *map_and_trim(size_t size, size_t align, int protection, int flags) {
    if (size > SIZE_MAX - align) return NULL;
    char *all = map_at(NULL, size + align, protection, PRIVATE | flags);
    if (!all) return NULL;
    char *p = (char *)fh_round_up((uintptr_t)all, align); // NOLINT(performance-no-int-to-ptr)
    if (p > all) unmap(all, (size_t)(p - all));
    size_t behind = (size_t)(all + align - p);
    if (behind > 0) unmap(p + size, behind);
    return p;
}

/* Newer kernels align big mappings to huge pages by themselves, so the plain attempt usually fits. */
void *fh_system_map(size_t size, size_t align) {
    size = fh_round_up(size, fh_system_page_size());
    if (size == 0) return NULL;
    void *p = map_at(NULL, size, READ_WRITE, PRIVATE);
    if (!p || is_aligned(p, align)) return p;
    unmap(p, size);
    return map_and_trim(size, align, READ_WRITE, 0);
}

bool fh_system_unmap(void *p, size_t size) {
    int saved = errno;
    bool done = unmap(p, size);
    errno = saved;
    return done;
}

/* ── Moving ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* since Linux 5.7; older ones refuse it */
#endif

/* Writes a number into the first word of a place that is not the first word of the contents. */
static uint32_t stamp(uint32_t *place, const uint32_t *contents) {
    static fh_word stamps;
    uint32_t mark = (uint32_t)(fh_add_relaxed(&stamps, 1) << 1 | 1);
    if (mark == *contents) mark ^= UINT32_C(1) << 31;
    *place = mark;
    return mark;
}

/* True if the stamp is there still. Reading it could fault, because nothing or something else may be there now. So the
 * kernel reads: a futex call that wakes no thread and moves none, but compares first. */
static bool is_stamped(uint32_t *place, uint32_t mark) {
    return syscall(SYS_futex, place, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 0, NULL, place, mark) >= 0;
}

/* Copies what is not zero in these pages of the place back to where it came from, and where it left zeroes. */
static void copy_back(char *p, size_t size, const char *place) {
    size_t page = fh_system_page_size();
    for (size_t at = 0; at < size; at += page) {
        const char *from = place + at;
        bool zero = *from == 0 && memcmp(from, from + 1, page - 1) == 0;
        if (!zero) memcpy(p + at, from, page);
    }
}

/* Maps what is missing of a place, and brings back what has come there. False: a part cannot be mapped. */
static bool bring_back(char *p, size_t size, char *place) {
    size_t page = fh_system_page_size(), half = fh_round_up(size / 2, page);
    int error = map_exactly(place, size, READ_WRITE, MAP_NORESERVE);
    if (error != EEXIST) return error == 0; /* nothing was mapped, so nothing had come */
    if (size == page || fh_system_is_mapped(place, size)) {
        copy_back(p, size, place);
        return true;
    }
    bool low = bring_back(p, half, place), high = bring_back(p + half, size - half, place + half);
    return low && high;
}

static bool has_room(void) {
    char *p = mmap(NULL, fh_system_page_size(), PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED && munmap(p, fh_system_page_size()) == 0;
}

/* When mremap fails, the place is as it was, or unmapped (kernels to 6.16, when memory or address space is short, or the pages
 * are in several mappings), or in parts unmapped and in parts with the pages (later kernels move several mappings, and may
 * fail in the middle). It does not say which. The stamp tells that no page has come. It costs some 2 µs, and a move costs more.
 *
 * A place is lost where the limit on address space is below what is mapped. Once that has happened it is asked first.
 *
 * No refusal is noted: what is not moved is copied. */
fh_move fh_system_move(void *p, size_t size, void *place) {
    static fh_word lost;
    int saved = errno;
    fh_move answer = FH_MOVED;
    if (fh_system_is_restricted() || (fh_load(&lost) && !has_room())) {
        answer = FH_NOT_MOVED;
    } else {
        uint32_t mark = stamp(place, p);
        fh_add_relaxed(&maps, 1);
        if (mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, place) == MAP_FAILED) {
            answer = FH_NOT_MOVED;
            bool nothing_came = is_stamped(place, mark);
            if (nothing_came) *(uint32_t *)place = 0;
            if (!(nothing_came && fh_system_is_mapped(place, size)) && !bring_back(p, size, place)) {
                answer = FH_PLACE_LOST;
                fh_store(&lost, 1);
            }
        }
    }
    errno = saved;
    return answer;
}

static void *map_over(void *p, size_t size) {
    return mmap(p, size, READ_WRITE, PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* If there are too many mappings even for that, the memory goes all the same. */
bool fh_system_renew(void *p, size_t size) {
    int saved = errno;
    fh_add_relaxed(&purges, 1);
    fh_add_relaxed(&purged_bytes, size);
    bool renewed = map_over(p, size) != MAP_FAILED;
    if (!renewed) fh_system_purge(p, size);
    errno = saved;
    return renewed;
}

/* ── Purging ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* From this length on a mapping of its own is worth its place among the mappings that a process may have. */
#define RENEWED_LEAST ((size_t)64 << 10)

/* Pages that the program locked in memory (mlock, mlockall) cannot be purged. Then they are mapped again, as after munmap: what is
 * there is locked as all new memory is, at once, on fault or not at all. It reads as zero in any case, because calloc relies on
 * it. To write zeroes instead would bring a long block into memory of which the program has touched little. */
void fh_system_purge(void *p, size_t size) {
    int saved = errno;
    fh_add_relaxed(&purges, 1);
    fh_add_relaxed(&purged_bytes, size);
    if (madvise(p, size, MADV_DONTNEED) != 0 && (size < RENEWED_LEAST || map_over(p, size) == MAP_FAILED))
        memset(p, 0, size);
    errno = saved;
}

enum { UNKNOWN, YES, NO };
static fh_word pieces_known;

/* Linux takes the caller itself and this advice for process_madvise from 6.15 on. It is not tried before, nor under a filter of
 * system calls: such a filter may end the program. Valgrind does not know the call, and says so to its user. Not inlined, for
 * its buffer. */
__attribute__((noinline)) static bool find_out(void) {
    struct utsname name;
    unsigned version[2] = {0, 0};
    const char *at = !fh_linux_is_filtered() && uname(&name) == 0 ? name.release : "";
    for (unsigned i = 0; i < 2; i++) {
        for (; *at >= '0' && *at <= '9'; at++) version[i] = version[i] * 10 + (unsigned)(*at - '0');
        if (*at == '.') at++;
    }
    bool takes = version[0] > 6 || (version[0] == 6 && version[1] >= 15);
    if (takes) takes = !fh_tool_is_valgrind();
    fh_store(&pieces_known, takes ? YES : NO);
    return takes;
}

static bool takes_pieces(void) {
    if (fh_system_is_restricted()) return false;
    uint64_t known = fh_load(&pieces_known);
    return known == UNKNOWN ? find_out() : known == YES;
}

void fh_system_purge_pieces(const fh_piece *pieces, unsigned n) {
    unsigned done = 0;
    int saved = errno;
    if (n > 1 && takes_pieces()) {
        long bytes = syscall(SYS_process_madvise, (long)SELF, pieces, (long)n, (long)MADV_DONTNEED, 0L);
        /* These three speak of the pieces, and other pieces may do. */
        if (bytes < 0 && errno != EINVAL && errno != ENOMEM && errno != EAGAIN) fh_store(&pieces_known, NO);
        fh_add_relaxed(&purges, 1);
        /* The kernel ends at the first one that it cannot purge. */
        for (; done < n && bytes >= (long)pieces[done].size; done++) {
            bytes -= (long)pieces[done].size;
            fh_add_relaxed(&purged_bytes, pieces[done].size);
        }
    }
    errno = saved;
    for (; done < n; done++) fh_system_purge(pieces[done].p, pieces[done].size);
}

_Static_assert(sizeof(fh_piece) == sizeof(struct iovec) && offsetof(fh_piece, p) == offsetof(struct iovec, iov_base) &&
                   offsetof(fh_piece, size) == offsetof(struct iovec, iov_len),
               "what the kernel takes");

void fh_system_forget_zeroes(void *p, size_t size) {
    int saved = errno;
    madvise(p, size, MADV_DONTNEED);
    errno = saved;
}

void fh_system_huge_pages(void *p, size_t size, bool wanted) {
    if (fh_system_is_restricted()) return;
    int saved = errno;
    madvise(p, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved;
}

/* 0 if there is no such clock. */
static uint64_t nanoseconds_of(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Whether huge pages come: 1 never, 2 where they are asked for, 3 everywhere. Asked once: of two threads at the same time both get the
 * same answer. */
__attribute__((noinline)) static uint64_t huge_pages_setting(void) {
    static fh_word cached;
    uint64_t known = fh_load(&cached);
    if (known == 0) {
        char text[64];
        fh_read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
        known = strstr(text, "[always]") ? 3 : strstr(text, "[madvise]") ? 2 : 1;
        fh_store(&cached, known);
    }
    return known;
}

bool fh_system_huge_pages_always(void) {
    return huge_pages_setting() == 3;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Linux 6.1 has the call. It would make a huge page under any setting. */
bool fh_system_gather(void *p, size_t size, uint64_t *nanoseconds) {
    if (fh_system_is_restricted() || huge_pages_setting() == 1) return false;
    int saved = errno;
    uint64_t before = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
    bool done = madvise(p, size, MADV_COLLAPSE) == 0;
    *nanoseconds = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
    errno = saved;
    return done;
}

uint64_t fh_system_touch(void *p) {
    bool timed = !fh_system_is_restricted(); /* this clock is a system call */
    uint64_t before = timed ? nanoseconds_of(CLOCK_THREAD_CPUTIME_ID) : 0;
    *(volatile char *)p = 0;
    return !timed ? 0 : nanoseconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
}

/* ── Settings of the kernel ──────────────────────────────────────────────────────────────────────────────────────── */

/* An answer that is asked of the kernel once: 0 not yet, else 1 + answer. Two threads that ask at the same time get the
 * same answer, so neither has to wait for the other. */
static bool answer_once(fh_word *cached, bool (*ask)(void)) {
    uint64_t known = fh_load(cached);
    if (known == 0) {
        known = 1 + (uint64_t)ask();
        fh_store(cached, known);
    }
    return known == 2;
}

static bool ask_overcommit(void) {
    return fh_number_in("/proc/sys/vm/overcommit_memory", 0) == 2;
}

bool fh_system_counts_every_page(void) {
    static fh_word cached;
    return answer_once(&cached, ask_overcommit);
}

/* glibc 2.35 and later register a small area with the kernel for each thread, in which the kernel keeps the number of the
 * CPU and, from Linux 6.3 on, a number that is dense among the CPUs this process runs on. Weak: other C
 * libraries do not have it. Only read here; no restartable sequences are used. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
#define RSEQ_CPU_ID 4       /* offset of the CPU's number in the area */
#define RSEQ_MM_CID 24      /* and of the dense one */
#define RSEQ_WITH_MM_CID 28 /* what the kernel says the area's size is when it keeps the latter */
#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/* The offset of the best number there is, 0 if the area is not registered. An older kernel does not say how large the area
 * is, and then getauxval sets errno. */
static uint64_t cpu_field(void) {
    if (!&__rseq_offset || !&__rseq_size || !__rseq_size) return 0;
    int saved = errno;
    unsigned long size = getauxval(AT_RSEQ_FEATURE_SIZE);
    errno = saved;
    return size >= RSEQ_WITH_MM_CID ? RSEQ_MM_CID : RSEQ_CPU_ID;
}

unsigned fh_system_cpu_hint(void) {
    static fh_word known; /* 1 + cpu_field(), 0 not asked yet */
    uint64_t field = fh_load(&known);
    if (field == 0) {
        field = 1 + cpu_field();
        fh_store(&known, field);
    }
    const char *thread = __builtin_thread_pointer();
    if (field > 1) return *(const volatile uint32_t *)(thread + __rseq_offset + (field - 1));
    /* No number of a CPU that costs no system call: then one of the thread. Thread stacks are some MiB apart. */
    return (unsigned)(((uintptr_t)thread >> 12) * 0x9E3779B1u >> 16);
}

/* The CPUs that this process may run on, which in a container or under taskset are fewer than the machine has.
 * The mask has room for 8,192 of them. */
unsigned fh_system_processors(void) {
    uint64_t mask[128];
    int saved = errno;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    errno = saved;
    unsigned count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++) count += fh_count_bits(mask[i]);
    unsigned allowed = fh_group_processors();
    if (allowed > 0 && allowed < count) count = allowed;
    return count > 0 ? count : 1;
}

/* ── Output, time, the end ───────────────────────────────────────────────────────────────────────────────────────── */

void fh_system_write(int fd, const char *text, size_t length) {
    int saved = errno;
    while (length > 0) {
        long done = syscall(SYS_write, fd, text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        text += done;
        length -= (size_t)done;
    }
    errno = saved;
}

/* The file behind the kept descriptor, so that a number that was closed and given to another file is not written to. */
static int kept_descriptor = -1;
static struct stat kept_file;

void fh_system_keep_output(int fd) {
    int saved = errno;
    /* Out of the way of the low numbers that programs count on. */
    const int lowest = 64;
    if (kept_descriptor < 0 && fstat(fd, &kept_file) == 0) kept_descriptor = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    errno = saved;
}

int fh_system_kept_output(int fd) {
    int saved = errno;
    struct stat now;
    if (fh_system_is_restricted()) return fd;
    if (kept_descriptor >= 0 && fstat(kept_descriptor, &now) == 0 && now.st_dev == kept_file.st_dev &&
        now.st_ino == kept_file.st_ino) {
        fd = kept_descriptor;
    }
    errno = saved;
    return fd;
}

/* The second number of statm is the resident pages. */
size_t fh_system_resident_bytes(void) {
    char text[128];
    fh_read_file("/proc/self/statm", text, sizeof text);
    return fh_number_after(text, " ") * fh_system_page_size();
}

uint64_t fh_system_nanoseconds(void) {
    return nanoseconds_of(CLOCK_MONOTONIC);
}

uint64_t fh_system_cpu_nanoseconds(void) {
    return nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t fh_system_pid(void) {
    return (uint64_t)syscall(SYS_getpid);
}

_Noreturn void fh_system_abort(void) {
    abort();
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* One key for the process, made by whichever thread comes first. Two may make one each at the same time; the later one
 * drops its own and uses the other's. The word holds 1 + the key.
 *
 * glibc keeps the values of the first 32 keys in the thread itself and calls calloc for the others: a caller must
 * expect to be entered again from in here. */
bool fh_system_at_thread_exit(void (*exit_of_thread)(void *), void *value) {
    static fh_word key_and_one;
    uint64_t known = fh_load_acquire(&key_and_one);
    if (known == 0) {
        pthread_key_t mine;
        if (pthread_key_create(&mine, exit_of_thread) != 0) return false;
        if (fh_cas_acq_rel(&key_and_one, &known, (uint64_t)mine + 1)) {
            known = (uint64_t)mine + 1;
        } else {
            pthread_key_delete(mine);
        }
    }
    return pthread_setspecific((pthread_key_t)(known - 1), value) == 0;
}

void fh_system_at_fork(void (*child)(void)) {
    pthread_atfork(NULL, NULL, child);
}
