/* Threads of a checked program: blocks change hands through slots, some through two hands at once. Of two frees of one block
 * at the same time exactly one is reported, whoever wins; and every block comes back whole. Run with check=1,on_error=report and
 * a small quarantine, also under the thread sanitizer. */
#include "../support/alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 4, SLOTS = 256, ROUNDS = 20000, TWICE = 200 };

static _Atomic(char *) slot[SLOTS];
static pthread_barrier_t both;
static _Atomic(char *) shared;
static atomic_uint damaged;

static unsigned next(unsigned *state) {
    return *state = *state * 1103515245u + 12345u;
}

/* A block knows its size, and all its bytes are the same. */
static void give_back(char *p) {
    size_t n;
    memcpy(&n, p, sizeof n);
    for (size_t i = sizeof n; i < n; i++) {
        if (p[i] != (char)n) {
            atomic_fetch_add(&damaged, 1);
            break;
        }
    }
    if (t_usable_size(p) != n) atomic_fetch_add(&damaged, 1);
    t_free(p);
}

static char *make(unsigned *state) {
    size_t n = sizeof n + next(state) / 65536 % (next(state) / 65536 % 50 ? 300 : 90000);
    char *p = next(state) / 65536 % 8 ? t_malloc(n) : t_aligned_alloc(64, n);
    if (next(state) / 65536 % 8 == 0) p = t_realloc(p, n = n / 2 + sizeof n);
    memset(p, (int)n, n);
    memcpy(p, &n, sizeof n);
    return p;
}

static void *exchange(void *number) {
    unsigned state = (unsigned)(size_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        char *p = atomic_exchange(&slot[next(&state) / 65536 % SLOTS], make(&state));
        if (p) give_back(p);
    }
    return NULL;
}

static void *free_at_once(void *first) {
    for (int i = 0; i < TWICE; i++) {
        if (first) atomic_store(&shared, t_malloc((size_t)i));
        pthread_barrier_wait(&both);
        t_free(atomic_load(&shared));
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void run(void *(*body)(void *), int threads) {
    pthread_t thread[THREADS];
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, body, (void *)(size_t)i);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

/* How often the file has the words. */
static unsigned count(int file, const char *words) {
    static char text[8192];
    unsigned found = 0;
    size_t kept = 0, length = strlen(words);
    lseek(file, 0, SEEK_SET);
    for (ssize_t n; (n = read(file, text + kept, sizeof text - kept - 1)) > 0;) {
        size_t end = kept + (size_t)n;
        text[end] = 0;
        char *at = text;
        for (char *hit; (hit = strstr(at, words)) != NULL; at = hit + length) found++;
        kept = end < length ? end : length - 1;
        if (at > text + end - kept) kept = (size_t)(text + end - at);
        memmove(text, text + end - kept, kept);
    }
    return found;
}

int main(void) {
    char name[] = "/tmp/freehold.checked.XXXXXX";
    int out = dup(2), said = mkstemp(name);
    unlink(name);
    dup2(said, 2);
    run(exchange, THREADS);
    for (int i = 0; i < SLOTS; i++) {
        if (slot[i]) give_back(slot[i]);
    }
    unsigned before = count(said, "freehold: ");
    pthread_barrier_init(&both, NULL, 2);
    run(free_at_once, 2);
    unsigned twice = count(said, "double free: this block of "), all = count(said, "freehold: ");
    dup2(out, 2);
    printf("%d exchanges: %u damaged, %u reports; %d double frees: %u reports of them, %u in all\n", THREADS * ROUNDS,
           atomic_load(&damaged), before, TWICE, twice, all - before);
    return damaged || before || twice != TWICE || all - before != TWICE;
}
