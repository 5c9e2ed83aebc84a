/* Linux: pages that must not be touched, and the signal that tells of a touch.
 *
 * Since 6.13 the kernel marks single pages as guards, and that costs no mapping. Before, access is taken from pages by mprotect,
 * and each piece that can be accessed is a mapping. */
#include "base/bits.h"
#include "system/inspect.h"
#include "system/linux_refused.h"
#include "system/system.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The C libraries are older than the kernel that has them. */
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

/* ── Pages ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_system_guards_reserve(size_t size, size_t open) {
    int saved = errno;
    void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED && mprotect(p, open, PROT_READ | PROT_WRITE) != 0) {
        int why = errno;
        (void)munmap(p, size);
        errno = why;
        p = MAP_FAILED;
    }
    if (p == MAP_FAILED) fh_linux_note_refusal(size);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

void fh_system_guards_drop(void *p, size_t size) {
    (void)fh_system_unmap(p, size);
}

/* The kernel gives up after some tries where other threads touch the same tables. */
static bool install(void *p, size_t size) {
    for (unsigned i = 0; i < 100; i++) {
        if (madvise(p, size, GUARD_INSTALL) == 0) return true;
        if (errno != EINTR && errno != EAGAIN) return false;
    }
    return false;
}

static bool access_is(void *p, size_t size, int protection) {
    return mprotect(p, size, protection) == 0;
}

bool fh_system_guards_can_mark(void *page) {
    int saved = errno;
    size_t size = fh_system_page_size();
    uintptr_t at = (uintptr_t)page;
    bool restricted = fh_system_is_restricted();
    bool can = access_is(page, size, PROT_READ | PROT_WRITE) && (restricted || fh_system_readable(at, at + size)) &&
               install(page, size);
    /* An emulator may say yes to any advice, and do nothing. */
    can = can && (restricted || !fh_system_readable(at, at + size));
    if (can) can = madvise(page, size, GUARD_REMOVE) == 0 && (restricted || fh_system_readable(at, at + size));
    if (!access_is(page, size, PROT_NONE)) can = false;
    errno = saved;
    return can;
}

/* The marks first, so that no page is ever without. */
bool fh_system_guards_mark(void *p, size_t size) {
    int saved = errno;
    bool done = install(p, size) && access_is(p, size, PROT_READ | PROT_WRITE);
    errno = saved;
    return done;
}

bool fh_system_guard_open(void *p, size_t size, bool marks) {
    int saved = errno;
    bool done = marks ? madvise(p, size, GUARD_REMOVE) == 0 : access_is(p, size, PROT_READ | PROT_WRITE);
    errno = saved;
    return done;
}

bool fh_system_guard_close(void *p, size_t size, bool marks) {
    int saved = errno;
    bool done = marks && install(p, size);
    if (!done) {
        /* A page that is locked keeps its contents: nobody can read them until it is opened again. */
        if (madvise(p, size, MADV_DONTNEED) != 0) memset(p, 0, size);
        done = access_is(p, size, PROT_NONE) && !marks;
    }
    errno = saved;
    return done;
}

/* ── The signal ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool (*look_at)(const fh_touch *touch);
static struct sigaction before[2]; /* of SIGSEGV and SIGBUS: what the program had */

static struct sigaction *before_of(int signal) {
    return &before[signal == SIGBUS];
}

/* What the CPU said of the access. */
#if defined(__x86_64__)
static void read_context(fh_touch *touch, const ucontext_t *context) {
    const long long page_fault = 14, wrote = 2, fetched = 16;
    long long error = context->uc_mcontext.gregs[REG_ERR];
    touch->pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    if (context->uc_mcontext.gregs[REG_TRAPNO] != page_fault) return;
    touch->access = error & wrote ? FH_TOUCH_WRITE : error & fetched ? FH_TOUCH_FETCH : FH_TOUCH_READ;
}
#elif defined(__aarch64__)
static void read_context(fh_touch *touch, const ucontext_t *context) {
    const uint32_t syndrome_record = 0x45535201, data_abort = 0x24;
    const unsigned char *at = (const unsigned char *)context->uc_mcontext.__reserved;
    const unsigned char *end = at + sizeof context->uc_mcontext.__reserved;
    touch->pc = (uintptr_t)context->uc_mcontext.pc;
    while (at + 16 <= end) {
        uint32_t record[2];
        uint64_t syndrome;
        memcpy(record, at, sizeof record);
        if (record[1] < sizeof record || record[0] == 0) return;
        if (record[0] == syndrome_record) {
            memcpy(&syndrome, at + sizeof record, sizeof syndrome);
            if (syndrome >> 27 == data_abort / 2) touch->access = syndrome >> 6 & 1 ? FH_TOUCH_WRITE : FH_TOUCH_READ;
            return;
        }
        at += record[1];
    }
}
#else
static void read_context(fh_touch *touch, const ucontext_t *context) {
    (void)touch, (void)context;
}
#endif

/* As if this handler had not been there. With no other one the same instruction is met again, and ends the program. */
static void chain(int signal, siginfo_t *info, void *context) {
    const struct sigaction was = *before_of(signal);
    bool sent = info->si_code <= 0; /* by a process, and not by an instruction that could be met again */
    if (was.sa_flags & SA_RESETHAND) *before_of(signal) = (struct sigaction){.sa_handler = SIG_DFL};
    if (was.sa_flags & SA_SIGINFO) {
        was.sa_sigaction(signal, info, context);
    } else if (was.sa_handler != SIG_DFL && was.sa_handler != SIG_IGN) {
        was.sa_handler(signal);
    } else if (was.sa_handler == SIG_DFL || !sent) {
        const struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(signal, &none, NULL);
        if (sent) syscall(SYS_tgkill, fh_system_pid(), (long)fh_system_thread_number(), (long)signal);
    }
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    fh_touch touch = {.address = (uintptr_t)info->si_addr, .signal = (unsigned)signal, .access = FH_TOUCH_UNKNOWN};
    read_context(&touch, context);
    if (info->si_code > 0) (void)look_at(&touch);
    errno = saved;
    chain(signal, info, context);
}

static bool handle(int signal) {
    struct sigaction *was = before_of(signal), ours;
    if (sigaction(signal, NULL, was) != 0) return false;
    ours = *was; /* its mask, and whether it may interrupt itself */
    ours.sa_flags = (was->sa_flags & SA_NODEFER) | SA_SIGINFO | SA_ONSTACK;
    ours.sa_sigaction = on_signal;
    return sigaction(signal, &ours, NULL) == 0;
}

bool fh_system_on_touch(bool (*look)(const fh_touch *touch)) {
    int saved = errno;
    look_at = look;
    bool done = handle(SIGSEGV) && handle(SIGBUS);
    errno = saved;
    return done;
}
