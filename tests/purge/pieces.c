/* Many pieces are purged by one call (fh_system_purge_pieces). What the kernel does not take is purged one by one, so whatever it
 * answers, all pieces read zero and what is between them stays. The linker leads the library's calls of the system through this
 * file (--wrap), which can be a kernel that refuses. Each part has a process of its own: what was learnt of a kernel is kept. */
#include "../support/check.h"
#include "../support/processes.h"

#include "system/inspect.h"
#include "system/system.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>

enum { PIECES = 64, PURGE_PIECES = 440 };

/* ── The kernel ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct {
    const char *release; /* NULL: its own */
    bool own;            /* its own answers */
    int error;           /* that it refuses with */
    unsigned takes;      /* how many pieces it purges */
    bool filtered;       /* there is a filter of system calls */
} kernel;
static unsigned asked, named; /* calls for pieces, and questions about its release */
static size_t page;

int __real_uname(struct utsname *name);
int __wrap_uname(struct utsname *name);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

int __wrap_uname(struct utsname *name) {
    int result = __real_uname(name);
    named++;
    if (kernel.release) snprintf(name->release, sizeof name->release, "%s", kernel.release);
    return result;
}

/* The bytes of all pieces before the one that it does not take, or the error if that is the first one. A part of that one
 * may go too, which Linux does not count. */
static long purge_as_told(const struct iovec *pieces, long n) {
    long bytes = 0;
    for (long i = 0; i < n && i < (long)kernel.takes; i++) {
        CHECK(madvise(pieces[i].iov_base, pieces[i].iov_len, MADV_DONTNEED) == 0, "madvise");
        bytes += (long)pieces[i].iov_len;
    }
    if (bytes && kernel.takes < n && pieces[kernel.takes].iov_len > page) {
        CHECK(madvise(pieces[kernel.takes].iov_base, page, MADV_DONTNEED) == 0, "madvise");
        bytes += (long)page;
    }
    if (bytes) return bytes;
    errno = kernel.error;
    return -1;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    /* The file that says it, /proc/self/status, is not there either, so the kernel is asked. */
    if (number == SYS_prctl && a == PR_GET_SECCOMP && kernel.filtered) return SECCOMP_MODE_FILTER;
    if (number == SYS_openat && kernel.filtered) {
        errno = ENOENT;
        return -1;
    }
    if (number == PURGE_PIECES) {
        asked++;
        CHECK(d == MADV_DONTNEED && e == 0, "advice %ld, flags %ld", d, e);
        if (!kernel.own) return purge_as_told((const struct iovec *)b, c);
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

/* ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static char *area;
static fh_piece pieces[PIECES];

/* Piece i is a page or two, and the page behind it stays. */
static void make_pieces(void) {
    char *at = area;
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = (fh_piece){at, (1 + i % 2) * page};
        memset(at, 0x5a, pieces[i].size);
        at += pieces[i].size;
        memset(at, (int)i + 1, page);
        at += page;
    }
}

static bool has_memory(char *p) {
    unsigned char resident;
    CHECK(mincore(p, page, &resident) == 0, "mincore");
    return resident & 1;
}

static void check_pieces(bool without_memory) {
    for (unsigned i = 0; i < PIECES; i++) {
        char *p = pieces[i].p, *behind = p + pieces[i].size;
        for (size_t at = 0; at < pieces[i].size && without_memory; at += page) {
            CHECK(!has_memory(p + at), "page %zu of piece %u has memory", at / page, i);
        }
        for (size_t at = 0; at < pieces[i].size; at++) CHECK(p[at] == 0, "byte %zu of piece %u is %#x", at, i, p[at]);
        CHECK(has_memory(behind), "the page behind piece %u lost its memory", i);
        for (size_t at = 0; at < page; at++)
            CHECK(behind[at] == (char)(i + 1), "behind piece %u is %#x", i, behind[at]);
    }
}

static void purge_all(bool without_memory) {
    make_pieces();
    errno = 12345;
    fh_system_purge_pieces(pieces, PIECES);
    CHECK(errno == 12345, "errno became %d", errno);
    check_pieces(without_memory);
}

/* ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the library finds out too, and what the kernel does. */
static bool takes_pieces_here(void) {
    enum { SELF = -10000 };
    struct utsname name;
    unsigned major = 0, minor = 0;
    CHECK(__real_uname(&name) == 0, "uname");
    sscanf(name.release, "%u.%u", &major, &minor);
    if (major < 6 || (major == 6 && minor < 15) || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return false;
    make_pieces();
    return __real_syscall(PURGE_PIECES, SELF, (long)pieces, PIECES, MADV_DONTNEED, 0, 0) > 0;
}

static void by_one_call(void) {
    kernel.own = true;
    bool takes = takes_pieces_here();
    purge_all(true);
    if (!takes) {
        skip_part("no one call for many pieces: the kernel is before 6.15, or there is a filter of system calls");
        return;
    }
    CHECK(asked == 1, "%u calls for many pieces", asked);
    fh_system_calls before = fh_system_calls_made();
    purge_all(true);
    fh_system_calls now = fh_system_calls_made();
    CHECK(now.purges - before.purges == 1, "%zu calls for all pieces", (size_t)(now.purges - before.purges));
    CHECK(now.purged_bytes - before.purged_bytes == PIECES / 2 * 3 * page, "%zu bytes were counted",
          (size_t)(now.purged_bytes - before.purged_bytes));
    /* One piece is no reason for it. */
    asked = 0;
    make_pieces();
    for (unsigned i = 0; i < PIECES; i++) fh_system_purge_pieces(&pieces[i], 1);
    fh_system_purge_pieces(pieces, 0);
    CHECK(asked == 0, "%u calls for single pieces", asked);
    check_pieces(true);
}

static void one_is_locked(void) {
    kernel.own = true;
    make_pieces();
    if (mlock(pieces[PIECES / 2].p, page) != 0) {
        skip_part("no page may be locked in memory");
        return;
    }
    purge_all(false);
    CHECK(has_memory(pieces[PIECES / 2].p), "a page that was locked went");
    unsigned once = asked;
    purge_all(false);
    CHECK(asked == 2 * once, "because of a locked page the call is made no more");
}

static void refused(int error, bool for_good) {
    kernel.release = "6.18.3-test";
    kernel.error = error;
    purge_all(true);
    CHECK(asked == 1, "asked %u times", asked);
    purge_all(true);
    CHECK(asked == (for_good ? 1 : 2), "after error %d it was asked %u times in all", error, asked);
    CHECK(named == 1, "its release was asked for %u times", named);
}

static void without_the_call(void) {
    refused(ENOSYS, true);
}
static void not_permitted(void) {
    refused(EPERM, true);
}
static void not_this_piece(void) {
    refused(EINVAL, false);
}

/* It takes the first ones. */
static void in_part(void) {
    kernel.release = "6.15.0";
    for (kernel.takes = 1; kernel.takes < PIECES; kernel.takes += 7) {
        fh_system_calls before = fh_system_calls_made();
        purge_all(true);
        fh_system_calls now = fh_system_calls_made();
        CHECK(now.purges - before.purges == 1 + PIECES - kernel.takes, "%zu calls where it took %u",
              (size_t)(now.purges - before.purges), kernel.takes);
        CHECK(now.purged_bytes - before.purged_bytes == PIECES / 2 * 3 * page, "%zu bytes were counted",
              (size_t)(now.purged_bytes - before.purged_bytes));
    }
}

static void restricted(void) {
    kernel.takes = PIECES;
    kernel.release = "6.18.3";
    fh_system_restrict();
    purge_all(true);
    CHECK(asked == 0 && named == 0, "in a sandbox it asked for pieces %u times, and for the release %u", asked, named);
}

static void filtered(void) {
    kernel.takes = PIECES;
    kernel.release = "6.18.3";
    kernel.filtered = true;
    purge_all(true);
    CHECK(asked == 0, "asked beneath a filter");
}

/* A real filter, which ends the process. */
static void beneath_a_filter(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PURGE_PIECES, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    kernel.own = true;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        skip_part("no filters of system calls here");
        return;
    }
    purge_all(true);
}

static void releases(const char *release, unsigned times) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        kernel.takes = PIECES;
        kernel.release = release;
        purge_all(true);
        CHECK(asked == times, "release %s: %u calls", release, asked);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "release %s", release);
}

static void by_release(void) {
    static const char *const old[] = {"", "unknown", "2.6.78", "5.15.0-91-generic", "6.9", "6.14.11", "6"};
    static const char *const new[] = {"6.15", "6.15.0-rc1", "6.18.44-test", "7.0.0", "10.2"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) releases(old[i], 0);
    for (size_t i = 0; i < sizeof new / sizeof *new; i++) releases(new[i], 1);
}

/* ── What it costs ───────────────────────────────────────────────────────────────────────────────────────────────── */

static atomic_bool stop;

static void *run(void *unused) {
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    }
    return unused;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds for each page that is a piece: the median, because a machine may be busy. */
static double price(bool together) {
    enum { ROUNDS = 301 };
    static double took[ROUNDS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        make_pieces();
        for (unsigned i = 0; i < PIECES; i++) pieces[i].size = page;
        double began = seconds_now();
        if (together) {
            fh_system_purge_pieces(pieces, PIECES);
        } else {
            for (unsigned i = 0; i < PIECES; i++) fh_system_purge(pieces[i].p, pieces[i].size);
        }
        took[round] = (seconds_now() - began) * 1e6 / PIECES;
    }
    qsort(took, ROUNDS, sizeof *took, by_size);
    return took[ROUNDS / 2];
}

/* Only shown: a figure of time is no test. */
static void prices(void) {
    pthread_t other;
    kernel.own = true;
    double alone = price(false), alone_together = price(true);
    CHECK(pthread_create(&other, NULL, run, NULL) == 0, "a thread");
    double beside = price(false), beside_together = price(true);
    printf("a page, in us: one by one %.2f, together %.2f; while another thread runs %.2f and %.2f\n", alone,
           alone_together, beside, beside_together);
    atomic_store(&stop, true);
    pthread_join(other, NULL);
}

int main(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = 3 * PIECES * page;
    area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED, "mmap");
    madvise(area, size, MADV_NOHUGEPAGE);
    run_apart("by one call", by_one_call);
    run_apart("one is locked", one_is_locked);
    run_apart("without the call", without_the_call);
    run_apart("not permitted", not_permitted);
    run_apart("not this piece", not_this_piece);
    run_apart("in part", in_part);
    run_apart("restricted", restricted);
    run_apart("filtered", filtered);
    run_apart("beneath a filter", beneath_a_filter);
    run_apart("by release", by_release);
    run_apart("prices", prices);
    return 0;
}
