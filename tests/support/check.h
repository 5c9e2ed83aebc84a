/* What every test program shares: a check that says what was seen, a way to skip with a reason, and a
 * small random generator whose seed is printed, so that each failure can be run again as it was.
 *
 * A failed check ends the program at once with status 1.  Going on after a heap has been found broken
 * would only bury the first message under its consequences. */
#ifndef FREEHOLD_TESTS_CHECK_H
#define FREEHOLD_TESTS_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ctest is told (SKIP_RETURN_CODE) that this status means "could not be tested here". */
#define TEST_SKIPPED 77

/* The message is formed on the stack and written with one write(): the heap under test may be in ruins. */
__attribute__((format(printf, 3, 4), noreturn, unused)) static void check_failed(const char *file, int line,
                                                                                 const char *form, ...) {
    char text[512];
    int at = snprintf(text, sizeof text, "CHECK FAILED %s:%d: ", file, line);
    va_list list;
    va_start(list, form);
    int more = vsnprintf(text + at, sizeof text - (size_t)at - 1, form, list);
    va_end(list);
    at += more;
    if (at > (int)sizeof text - 2) {
        at = (int)sizeof text - 2;
    }
    text[at++] = '\n';
    if (write(2, text, (size_t)at) < 0) {
        _exit(2);
    }
    _exit(1);
}

/* Always give the values that were seen: a bare condition tells nobody which of 70,000 sizes was at fault. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            check_failed(__FILE__, __LINE__, __VA_ARGS__);                                                             \
        }                                                                                                              \
    } while (0)

/* What could not be tested is printed, and is a line of the file that FREEHOLD_SKIPS names: see tests/README.md. */
__attribute__((unused)) static void note_skip(const char *mark, const char *why) {
    char line[512];
    const char *test = getenv("FREEHOLD_TEST_NAME"), *path = getenv("FREEHOLD_SKIPS");
    int length = snprintf(line, sizeof line, "%s%s: %s\n", test ? test : program_invocation_short_name, mark, why);
    if (length >= (int)sizeof line) {
        length = sizeof line - 1;
    }
    fprintf(stderr, "SKIPPED: %s", line);
    if (path && *path) {
        /* One write, so that tests that run side by side do not mix their lines. */
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (file < 0 || write(file, line, (size_t)length) != length) {
            check_failed(__FILE__, __LINE__, "cannot write to %s", path);
        }
        close(file);
    }
}

/* Nothing could be tested here. Ends the program. */
__attribute__((noreturn, unused)) static void skip_test(const char *why) {
    note_skip("", why);
    _exit(TEST_SKIPPED);
}

/* A part could not be tested here; the rest of the test goes on. */
__attribute__((unused)) static void skip_part(const char *why) {
    note_skip(" (in part)", why);
}

/* A number from the environment, or the default. Long runs are chosen this way, not by other programs. ctest gives its
 * own default as NAME_DEFAULT, because a NAME that it sets would replace the user's. */
__attribute__((unused)) static uint64_t env_number(const char *name, uint64_t otherwise) {
    char own[64];
    const char *text = getenv(name);
    if (!text || !*text) {
        snprintf(own, sizeof own, "%s_DEFAULT", name);
        text = getenv(own);
    }
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* How long a stress test runs: FREEHOLD_TEST_SECONDS, else FREEHOLD_SOAK, else what ctest or the test itself chose. */
__attribute__((unused)) static double test_seconds(unsigned otherwise) {
    const char *chosen = getenv("FREEHOLD_TEST_SECONDS"), *soak = getenv("FREEHOLD_SOAK");
    int by_soak = (!chosen || !*chosen) && soak && *soak;
    double seconds = (double)env_number(by_soak ? "FREEHOLD_SOAK" : "FREEHOLD_TEST_SECONDS", otherwise);
    printf("seconds: %.0f\n", seconds);
    fflush(stdout);
    return seconds;
}

/* splitmix64: one addition and three multiplications, and every seed gives a full-period stream. */
__attribute__((unused)) static uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

__attribute__((unused)) static uint64_t random_below(uint64_t *state, uint64_t limit) {
    return random_next(state) % limit;
}

/* The seed of this run: FREEHOLD_TEST_SEED, or the clock.  It is printed either way. */
__attribute__((unused)) static uint64_t random_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = env_number("FREEHOLD_TEST_SEED", (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec);
    printf("seed: FREEHOLD_TEST_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

__attribute__((unused)) static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
