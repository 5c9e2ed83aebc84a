/* Twelve kinds of misuse, and when an allocator finds them: faults FAULT TRIALS | faults list
 *
 * Each trial is a process of its own, with random blocks from a seed of its own. It commits the fault once, goes on for 20,000
 * turns, and frees all. Prints the numbers of trials: CALL LATER CRASHED NEVER. trials.h says what they mean, with one
 * addition: a write or a read that is stopped by the processor was found at once, where it happened. Prints `absent` if the
 * allocator has no such function. */
#include "trials.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* The checks of musl end the program by an instruction that raises SIGSEGV, and say nothing. */
#ifdef __GLIBC__
enum { STOPS_ARE_CHECKS = 0 };
#else
enum { STOPS_ARE_CHECKS = 1 };
#endif
enum { MANY = 1000000, LONG_WRITE = 64 * 1024, MOST = 1000 };

typedef void trial_function(char *block, size_t size);

static void *(*sized_new)(size_t);
static void (*sized_delete)(void *, size_t);
static char *others[MANY];
static char *volatile kept;
static volatile char seen;
static char data[4096];
static volatile unsigned apart; /* how many frees lie between the two of a block */

static void free_twice(char *block, size_t size) {
    (void)size;
    for (unsigned i = 0; i < apart; i++) others[i] = allocate(1 + below(MOST));
    free(block);
    for (unsigned i = 0; i < apart; i++) free(others[i]);
    begin_fault();
    free(block);
    end_fault();
}

static void twice_at_once(char *block, size_t size) {
    apart = 0;
    free_twice(block, size);
}

static void twice_after_ten(char *block, size_t size) {
    apart = 10;
    free_twice(block, size);
}

static void twice_after_many(char *block, size_t size) {
    apart = MANY;
    free_twice(block, size);
}

static void *free_elsewhere(void *block) {
    free(allocate(64)); /* the thread has a cache of its own by now */
    begin_fault();
    free(block);
    end_fault();
    return NULL;
}

static void twice_across_threads(char *block, size_t size) {
    (void)size;
    pthread_t second;
    free(block);
    if (pthread_create(&second, NULL, free_elsewhere, block)) _exit(FAILED);
    pthread_join(second, NULL);
}

static void write_behind(char *block, size_t size, size_t length) {
    kept = block;
    begin_fault();
    for (size_t i = 0; i < length; i++) ((volatile char *)kept)[size + i] = 'A';
    end_fault();
    replace(TURNS / 2, MOST);
    free(block);
}

static void overflow_by_1(char *block, size_t size) {
    write_behind(block, size, 1);
}

static void overflow_by_100(char *block, size_t size) {
    write_behind(block, size, 100);
}

static void overflow_linear(char *block, size_t size) {
    write_behind(block, size, LONG_WRITE);
}

static void read_after_free(char *block, size_t size) {
    (void)size;
    free(block);
    kept = block;
    begin_fault();
    seen = kept[0];
    end_fault();
}

static void write_after_free(char *block, size_t size) {
    free(block);
    kept = block;
    begin_fault();
    for (size_t i = 0; i < size && i < 16; i++) ((volatile char *)kept)[i] = 'A';
    end_fault();
}

static void free_it(char *pointer) {
    kept = pointer;
    begin_fault();
    free(kept);
    end_fault();
}

static void free_middle(char *block, size_t size) {
    (void)size;
    free_it(block + 16);
}

static void free_foreign(char *block, size_t size) {
    (void)block, (void)size;
    free_it(data + 64);
}

static void free_stack(char *block, size_t size) {
    (void)block, (void)size;
    char local[256];
    memset(local, 0, sizeof local);
    free_it(local + 64);
}

static void size_mismatch(char *block, size_t size) {
    char *p = sized_new(size);
    p[0] = 1;
    free(block);
    begin_fault();
    sized_delete(p, 2 * size + 200);
    end_fault();
}

static void realloc_freed(char *block, size_t size) {
    free(block);
    kept = block;
    begin_fault();
    kept = realloc(kept, 2 * size);
    end_fault();
}

static void read_uninitialised(char *block, size_t size) {
    kept = block;
    begin_fault();
    for (size_t i = 1; i < size; i++) seen = kept[i];
    end_fault();
}

static const struct fault {
    const char *name;
    trial_function *commit;
    int is_access; /* of memory, and not a call */
} faults[] = {
    {"double-free-at-once", twice_at_once, 0},
    {"double-free-after-10", twice_after_ten, 0},
    {"double-free-after-1000000", twice_after_many, 0},
    {"double-free-across-threads", twice_across_threads, 0},
    {"overflow-by-1", overflow_by_1, 1},
    {"overflow-by-100", overflow_by_100, 1},
    {"overflow-by-65536", overflow_linear, 1},
    {"read-after-free", read_after_free, 1},
    {"write-after-free", write_after_free, 1},
    {"free-of-the-middle", free_middle, 0},
    {"free-of-static-data", free_foreign, 0},
    {"free-of-the-stack", free_stack, 0},
    {"size-mismatch", size_mismatch, 0},
    {"realloc-of-freed", realloc_freed, 0},
    {"uninitialised-read", read_uninitialised, 1},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static const struct fault *chosen;

static void trial(unsigned number) {
    seed = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    replace(2000 + below(5000), MOST);
    size_t size = 24 + below(MOST - 24);
    chosen->commit(allocate(size), size);
    replace(TURNS, MOST);
    for (unsigned i = 0; i < HELD; i++) free(held[i]);
}

static void find_functions(void) {
    dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    void *take = dlsym(RTLD_DEFAULT, "_Znwm"), *give = dlsym(RTLD_DEFAULT, "_ZdlPvm");
    memcpy(&sized_new, &take, sizeof take);
    memcpy(&sized_delete, &give, sizeof give);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "list") == 0) {
        for (unsigned i = 0; i < FAULTS; i++) puts(faults[i].name);
        return 0;
    }
    if (count != 3) return 2;
    for (unsigned i = 0; i < FAULTS; i++) {
        if (strcmp(faults[i].name, arguments[1]) == 0) chosen = &faults[i];
    }
    if (!chosen) return 2;
    find_functions();
    if (chosen->commit == size_mismatch && (!sized_new || !sized_delete)) {
        puts("absent");
        return 0;
    }
    unsigned found[OUTCOMES] = {0};
    stops_count = chosen->is_access || STOPS_ARE_CHECKS;
    if (!run_trials((unsigned)strtoul(arguments[2], NULL, 10), trial, found)) return 2;
    printf("%u %u %u %u\n", found[AT_CALL], found[LATER], found[CRASHED], found[NEVER]);
    return 0;
}
