/* A clock that goes slowly, for programs under valgrind: preloaded, it gives them the time that they would see if they ran as
 * fast as without it, more or less. What the library does once in so many milliseconds (figures for the page, giving memory
 * back) it then does as often as in earnest, and two runs count nearly the same instructions. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TIMES_SLOWER 50
#define CLOCKS 16
#define NANOSECONDS 1000000000LL

int clock_gettime(clockid_t id, struct timespec *now) {
    static long long begin[CLOCKS];
    long error = syscall(SYS_clock_gettime, id, now);
    if (error || id < 0 || id >= CLOCKS) return (int)error;
    long long t = now->tv_sec * NANOSECONDS + now->tv_nsec;
    /* Two threads that are first at once begin nearly alike. */
    if (!begin[id]) begin[id] = t;
    t = begin[id] + (t - begin[id]) / TIMES_SLOWER;
    now->tv_sec = (time_t)(t / NANOSECONDS);
    now->tv_nsec = (long)(t % NANOSECONDS);
    return 0;
}
