/* COUNT threads, one after the other, for counting instructions: ends COUNT. Each allocates CELLS blocks of mixed sizes and frees them,
 * as a server does that starts a thread for each request. Before that one thread has freed so many that what it leaves for the
 * others is as much as is kept. */
#include <pthread.h>
#include <stdlib.h>

enum { CELLS = 200, MANY = 20000, LONGEST = 500 };

static void *volatile cell[MANY];

/* Sizes do not depend on the thread, so that the next one does the same. */
static void *allocate_and_free(void *number) {
    size_t n = (size_t)number;
    for (size_t i = 0; i < n; i++) cell[i] = malloc(1 + i * 7919 % LONGEST);
    for (size_t i = 0; i < n; i++) free(cell[i]);
    return NULL;
}

static int run(size_t cells) {
    pthread_t thread;
    return pthread_create(&thread, NULL, allocate_and_free, (void *)cells) || pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    if (count != 2 || run(MANY)) return 2;
    for (size_t turns = strtoull(arguments[1], NULL, 10); turns > 0; turns--)
        if (run(CELLS)) return 2;
    return 0;
}
