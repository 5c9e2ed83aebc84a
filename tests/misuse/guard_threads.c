/* Threads of a program all of whose blocks are guarded: blocks change hands through slots, some through two hands at once, while
 * there are more of them than there is room for. Of two frees of one block at the same time exactly one is reported, whoever
 * wins; every block comes back whole; and no guarded block is left in the end. Run with guard=1,on_error=report and a small
 * quarantine, also under the thread sanitizer. */
#include "../support/alloc.h"

#include <freehold/freehold.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 4, SLOTS = 6000, ROUNDS = 12000, TWICE = 300 };

static _Atomic(char *) slot[SLOTS];
static pthread_barrier_t both;
static _Atomic(char *) shared;
static atomic_uint damaged, twice;

static unsigned next(unsigned *state) {
    return (*state = *state * 1103515245u + 12345u) / 65536;
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
    if (t_usable_size(p) < n) atomic_fetch_add(&damaged, 1);
    t_free(p);
}

static char *make(unsigned *state) {
    size_t n = sizeof n + next(state) % (next(state) % 50 ? 300 : 90000);
    char *p = next(state) % 8 ? t_malloc(n) : t_aligned_alloc(64, n);
    if (next(state) % 8 == 0) p = t_realloc(p, n = n / 2 + sizeof n);
    memset(p, (int)n, n);
    memcpy(p, &n, sizeof n);
    return p;
}

static void *exchange(void *number) {
    unsigned state = (unsigned)(size_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        char *p = atomic_exchange(&slot[next(&state) % SLOTS], make(&state));
        if (p) give_back(p);
    }
    return NULL;
}

static void *free_at_once(void *first) {
    for (int i = 0; i < TWICE; i++) {
        if (first) {
            char *p = t_malloc(100);
            /* One without guards has 112 bytes, and a double free of it would be one. */
            bool guarded = t_usable_size(p) == 100;
            atomic_store(&shared, guarded ? p : NULL);
            if (guarded) atomic_fetch_add(&twice, 1);
        }
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
static unsigned count(const char *text, const char *words) {
    unsigned found = 0;
    for (const char *hit = text; (hit = strstr(hit, words)) != NULL; hit++) found++;
    return found;
}

static size_t guarded_blocks(void) {
    static char text[1 << 16];
    fh_stats_json(text, sizeof text);
    const char *found = strstr(text, "\"guarded_blocks\":");
    return found ? strtoul(found + strlen("\"guarded_blocks\":"), NULL, 10) : 0;
}

int main(void) {
    static char text[4 << 20];
    char name[] = "/tmp/freehold.guarded.XXXXXX";
    int out = dup(2), said = mkstemp(name);
    unlink(name);
    dup2(said, 2);
    size_t at_first = guarded_blocks();
    run(exchange, THREADS);
    size_t guarded = guarded_blocks();
    for (int i = 0; i < SLOTS; i++) {
        if (slot[i]) give_back(slot[i]);
    }
    long silent = lseek(said, 0, SEEK_CUR);
    pthread_barrier_init(&both, NULL, 2);
    run(free_at_once, 2);
    size_t left = guarded_blocks() - at_first;
    size_t length = (size_t)lseek(said, 0, SEEK_CUR);
    if (length >= sizeof text || pread(said, text, length, 0) != (ssize_t)length) return 3;
    unsigned found = count(text, "double free: this block of 100 bytes"), all = count(text, "freehold: ");
    dup2(out, 2);
    printf("%d exchanges: %u damaged, %ld bytes said, %zu guarded at the end; %u double frees: %u reports of them, %u "
           "in all; "
           "%zu guarded blocks left\n",
           THREADS * ROUNDS, atomic_load(&damaged), silent, guarded, twice, found, all, left);
    bool enough = guarded > 1000 && twice > TWICE / 2;
    if (damaged || silent || found != twice || all != twice || left > 8 || !enough || t_verify() != 0)
        return fwrite(text, 1, length < 4000 ? length : 4000, stderr) ? 1 : 2;
    return 0;
}
