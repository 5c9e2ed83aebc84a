/* dlopen of the embedding library in a running process:
 *
 *   - when other libraries have eaten the static thread-local storage that the C library keeps for latecomers, down
 *     to the last few hundred bytes: the library must still load;
 *   - dlclose and dlopen again, 100 times, with threads that used it and end after it was closed: its code must
 *     not be gone when their destructors run, and the address space must not fill up with its copies.
 *
 * Argument 1: libfreehold-embed.so; argument 2: the folder with libcrowd_<bytes>.so. */
#include "../support/check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>

static char folder[200];
static int copies;

/* ISO C has no cast from a data pointer to a function pointer; POSIX says that copying the bytes will do. */
static void find(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    CHECK(address, "dlsym: %s", dlerror());
    memcpy(function, &address, sizeof address);
}

/* A library is loaded once, whatever it is called; so each further one is a copy under another name. */
static int eat(const char *crowd, int bytes) {
    char from[512], to[512], command[1200];
    snprintf(from, sizeof from, "%s/libcrowd_%d.so", crowd, bytes);
    snprintf(to, sizeof to, "%s/crowd%d.so", folder, copies++);
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    CHECK(system(command) == 0, "%s", command);
    void *library = dlopen(to, RTLD_NOW);
    if (!library) {
        const char *why = dlerror();
        CHECK(strstr(why, "static TLS") != NULL, "dlopen of %s: %s", to, why);
        return 0;
    }
    char *(*use)(void);
    find(library, "crowd_eater", &use);
    CHECK(use(), "crowd_eater");
    return 1;
}

/* Takes big pieces, then smaller ones, until less than one of the smallest is left. */
static void crowd_static_storage(const char *crowd) {
    static const int sizes[] = {512, 128};
    int taken = 0;
    for (int i = 0; i < 2; i++) {
        while (eat(crowd, sizes[i])) {
            taken += sizes[i];
            CHECK(taken < 1 << 20, "static thread-local storage seems to have no end");
        }
    }
    printf("static thread-local storage: %d bytes taken by others, less than %d left\n", taken, sizes[1]);
}

struct functions {
    void *library;
    void *(*allocate)(size_t);
    void (*release)(void *);
};

static struct functions load(const char *path) {
    struct functions it;
    it.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(it.library, "dlopen: %s", dlerror());
    find(it.library, "fh_malloc", &it.allocate);
    find(it.library, "fh_free", &it.release);
    return it;
}

static pthread_barrier_t used, closed;

static void *use_and_outlive(void *argument) {
    struct functions *it = argument;
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = it->allocate(i * 300);
        CHECK(blocks[i], "fh_malloc(%zu): NULL", i * 300);
        memset(blocks[i], 1, i * 300);
    }
    for (size_t i = 0; i < 100; i++) {
        it->release(blocks[i]);
    }
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL; /* now the library's destructor for this thread runs, if it has one */
}

static int mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0;
    for (int c; maps && (c = getc(maps)) != EOF;) {
        count += c == '\n';
    }
    fclose(maps);
    return count;
}

static void load_again_and_again(const char *path) {
    int early = 0;
    for (int round = 0; round < 100; round++) {
        struct functions it = load(path);
        pthread_t threads[4];
        pthread_barrier_init(&used, NULL, 5);
        pthread_barrier_init(&closed, NULL, 5);
        for (int i = 0; i < 4; i++) {
            CHECK(pthread_create(&threads[i], NULL, use_and_outlive, &it) == 0, "pthread_create");
        }
        pthread_barrier_wait(&used);
        it.release(it.allocate(1000));
        CHECK(dlclose(it.library) == 0, "dlclose: %s", dlerror());
        pthread_barrier_wait(&closed);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        if (round == 10) {
            early = mappings();
        }
    }
    int late = mappings();
    CHECK(late <= early + 8, "mappings went from %d to %d while the library came and went", early, late);
    printf("loaded and unloaded 100 times, %d mappings then, %d now\n", early, late);
}

int main(int count, char **arguments) {
    CHECK(count == 3, "usage: load_and_unload LIBRARY CROWD-FOLDER");
    snprintf(folder, sizeof folder, "/tmp/freehold-crowd.XXXXXX");
    CHECK(mkdtemp(folder), "mkdtemp");
    crowd_static_storage(arguments[2]);
    load_again_and_again(arguments[1]);
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0;
}
