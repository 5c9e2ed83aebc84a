/* Linux: the library's own thread, and how it waits. */
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Enough for what it does (a few KiB), for the thread-local storage of a large program, which is there too, and for a
 * sanitizer's bookkeeping. Only what is touched has memory. */
#define STACK_SIZE ((size_t)128 * 1024)

/* musl comes without the kernel's headers. The numbers are part of the kernel's interface. */
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

static void *begin(void *run) {
    prctl(PR_SET_NAME, "freehold", 0, 0, 0);
    ((void (*)(void))(uintptr_t)run)();
    return NULL;
}

static bool start(void (*run)(void)) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    void *argument = (void *)(uintptr_t)run; // NOLINT(performance-no-int-to-ptr)
    bool made = pthread_create(&thread, &attributes, begin, argument) == 0;
    pthread_attr_destroy(&attributes);
    return made;
}

/* A new thread has the mask of the one that makes it. The C library keeps the signals out of this that it needs itself,
 * as when all threads change their user. */
bool fh_system_thread_start(void (*run)(void)) {
    int saved = errno;
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_BLOCK, &all, &before) != 0) return false;
    bool made = start(run);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return made;
}

/* The kernel compares 32 bits: the lower half of the word. */
static const uint32_t *lower_half(const fh_word *word) {
    const uint32_t *half = (const uint32_t *)(const void *)word;
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? half : half + 1;
}

void fh_system_wait(const fh_word *word, uint64_t value, uint64_t nanoseconds) {
    int saved = errno;
    struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    syscall(SYS_futex, lower_half(word), FUTEX_WAIT_PRIVATE, (uint32_t)value, nanoseconds ? &time : NULL, NULL, 0);
    errno = saved;
}

void fh_system_wake(fh_word *word) {
    int saved = errno;
    syscall(SYS_futex, lower_half(word), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

/* The directory of the threads has one link for each of them, beside its own two. */
unsigned fh_system_threads(void) {
    int saved = errno;
    struct stat directory = {0};
    int fd = fh_open_file("/proc/self/task", O_RDONLY | O_DIRECTORY, 0);
    bool known = fd >= 0 && fstat(fd, &directory) == 0 && directory.st_nlink > 2;
    if (fd >= 0) syscall(SYS_close, fd);
    errno = saved;
    return known ? (unsigned)directory.st_nlink - 2 : 0;
}
