/* fork from a program with 64 allocating threads, very many times; each child allocates at once, frees blocks that
 * it inherited from its parent and from threads that do not exist in it, starts a thread of its own now and then,
 * and ends.
 *
 * What this is after: a lock that another thread held at the moment of the fork is held in the child for ever, and a
 * magazine that another thread was moving is in two places.  A child that hangs is ended by its alarm, and that is
 * a failure; a child that finds a byte changed says so.
 *
 * FREEHOLD_TEST_FORKS: how many (default 10,000). */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 64, POST = 128, INHERITED = 100, CHILD_SECONDS = 60 };

struct letter {
    uint64_t key;
    size_t size;
    unsigned char bytes[];
};

static _Atomic(struct letter *) post[POST];
static struct letter *inherited[INHERITED];
static atomic_bool stop;

static struct letter *make_letter(uint64_t *random) {
    uint64_t kind = random_below(random, 100);
    size_t size = random_below(random, kind < 80 ? 600 : kind < 98 ? 20000 : 200000);
    struct letter *letter = t_malloc(sizeof *letter + size);
    CHECK(letter, "malloc(%zu): NULL", size);
    letter->key = random_next(random);
    letter->size = size;
    pattern_fill(letter->bytes, size, letter->key);
    return letter;
}

static void burn_letter(struct letter *letter) {
    if (letter) {
        long wrong = pattern_wrong(letter->bytes, letter->size, letter->key);
        CHECK(wrong < 0, "a letter of %zu bytes is wrong at byte %ld", letter->size, wrong);
        t_free(letter);
    }
}

/* Into slow paths often, and out of them for a moment: 64 threads that never slept would leave the one that forks
 * no processor.  It wakes, and so preempts them, in the middle of something all the same. */
static void *correspond(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        void *burst[50];
        size_t size = random_below(&random, 3000);
        for (int i = 0; i < 50; i++) {
            burst[i] = t_malloc(size);
        }
        burn_letter(atomic_exchange(&post[random_below(&random, POST)], make_letter(&random)));
        for (int i = 0; i < 50; i++) {
            t_free(burst[i]);
        }
        if (random_below(&random, 50) == 0) {
            t_thread_flush();
        }
        usleep((useconds_t)random_below(&random, 4000));
    }
    return NULL;
}

static void *thread_of_child(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    for (int i = 0; i < 50; i++) {
        burn_letter(make_letter(&random));
    }
    return NULL;
}

/* Everything that a child may do with the heap it inherited, as soon as it is there. */
static void child(uint64_t number) {
    uint64_t random = number;
    struct letter *own[60];
    alarm(CHILD_SECONDS);
    for (int i = 0; i < 60; i++) {
        own[i] = make_letter(&random);
    }
    /* The letters of the threads that are gone.  The exchange that put each there came after it was filled. */
    for (int i = 0; i < POST; i++) {
        burn_letter(atomic_exchange(&post[i], NULL));
    }
    for (int i = 0; i < INHERITED; i += 2) {
        burn_letter(inherited[i]);
    }
    for (int i = 0; i < 60; i++) {
        burn_letter(own[i]);
    }
    if (number % 16 == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, thread_of_child, (void *)number) == 0, "a thread of the child");
        pthread_join(thread, NULL);
        t_malloc_trim(0);
    }
    for (int i = 1; i < INHERITED; i += 2) {
        burn_letter(inherited[i]);
    }
    _exit(0);
}

/* A grandchild now and then: what the child made of the heap must be forkable again. */
static void child_and_grandchild(uint64_t number) {
    if (number % 100 == 7) {
        alarm(2 * CHILD_SECONDS);
        burn_letter(make_letter(&number));
        pid_t pid = fork();
        if (pid != 0) {
            int status;
            CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the grandchild failed");
        }
    }
    child(number);
}

int main(void) {
    uint64_t seed = random_seed(), forks = env_number("FREEHOLD_TEST_FORKS", 10000);
    pthread_t ids[THREADS];
    for (int i = 0; i < INHERITED; i++) {
        inherited[i] = make_letter(&seed);
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, correspond, (void *)(seed + i)) == 0, "pthread_create");
    }
    for (uint64_t i = 0; i < forks; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork %llu: %s", (unsigned long long)i, strerror(errno));
        if (pid == 0) {
            child_and_grandchild(i + 1);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
        CHECK(status == 0, "child %llu ended with status %#x%s", (unsigned long long)i, (unsigned)status,
              WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < INHERITED; i++) {
        burn_letter(inherited[i]);
    }
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%llu forks from a program with %d allocating threads\n", (unsigned long long)forks, THREADS);
    return 0;
}
