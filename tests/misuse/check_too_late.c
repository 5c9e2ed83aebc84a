/* FREEHOLD=check=1, and the library is loaded when the program has two threads already: too late for it. That is said once, and another
 * option that is set later is set: check_too_late LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t over = PTHREAD_MUTEX_INITIALIZER;

static void *wait_there(void *unused) {
    pthread_mutex_lock(&over);
    return unused;
}

static void *named(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "CHECK FAILED: no %s\n", name);
        exit(1);
    }
    return found;
}

int main(int count, char **words) {
    pthread_t thread;
    pthread_mutex_lock(&over);
    void *library = NULL;
    if (count == 2 && pthread_create(&thread, NULL, wait_there, NULL) == 0) library = dlopen(words[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "CHECK FAILED: no library: %s\n", dlerror());
        return 1;
    }
    void *(*allocate)(size_t) = (void *(*)(size_t))named(library, "fh_malloc");
    void (*release)(void *) = (void (*)(void *))named(library, "fh_free");
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))named(library, "fh_option_set");
    release(allocate(100));
    int set_first = set("limit", "64m"), set_again = set("purge", "lazy");
    void *beyond = allocate((size_t)100 << 20), *below = allocate((size_t)10 << 20);
    pthread_mutex_unlock(&over);
    pthread_join(thread, NULL);
    if (set_first != 0 || set_again != 0 || beyond || !below) {
        fprintf(stderr, "CHECK FAILED: limit: %d, purge: %d, 100 MiB: %p, 10 MiB: %p\n", set_first, set_again, beyond,
                below);
        return 1;
    }
    puts("the options are set");
    return 0;
}
