/* A library that is opened with RTLD_DEEPBIND, and blocks that go from it to the program and back.
 *
 *   drop    by default both have one malloc, so any block may go either way
 *   keep    with FREEHOLD=deepbind=keep it has the C library's. Its blocks may reach our free, realloc and usable size,
 *           from the first arena, from other arenas and from mappings of their own. Pointers that are no blocks at all are
 *           still named
 *   origin  what the library itself opens is looked for beside it: dlopen sees the library as its caller, and not us */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { BLOCKS = 3000 };

static struct {
    void *(*make)(size_t size);
    void *(*align)(size_t align, size_t size);
    void *(*grow)(void *p, size_t size);
    void (*drop)(void *p);
    void *(*open_sibling)(const char *name);
} plugin;

static void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    CHECK(found, "%s: %s", name, dlerror());
    return found;
}

static void open_plugin(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(handle, "%s", dlerror());
    *(void **)&plugin.make = symbol(handle, "plugin_make");
    *(void **)&plugin.align = symbol(handle, "plugin_align");
    *(void **)&plugin.grow = symbol(handle, "plugin_grow");
    *(void **)&plugin.drop = symbol(handle, "plugin_drop");
    *(void **)&plugin.open_sibling = symbol(handle, "plugin_open_sibling");
}

static size_t some_size(uint64_t *random) {
    uint64_t kind = random_below(random, 100);
    return random_below(random, kind < 70 ? 500 : kind < 95 ? 20000 : 900000) + 1;
}

/* ── Blocks of the library in our hands ──────────────────────────────────────────────────────────────────────────── */

static void *make(uint64_t *random, size_t size, bool *aligned) {
    *aligned = random_below(random, 8) == 0;
    return *aligned ? plugin.align((size_t)16 << random_below(random, 10), size) : plugin.make(size);
}

static void *use_its_blocks(void *seed) {
    static __thread struct {
        char *p;
        size_t size;
        uint64_t key;
        bool aligned;
    } held[BLOCKS];
    uint64_t random = (uintptr_t)seed;
    for (int i = 0; i < BLOCKS; i++) {
        held[i].size = some_size(&random);
        held[i].key = random_next(&random);
        held[i].p = make(&random, held[i].size, &held[i].aligned);
        CHECK(held[i].p && malloc_usable_size(held[i].p) >= held[i].size, "%zu bytes at %p, usable %zu", held[i].size,
              (void *)held[i].p, malloc_usable_size(held[i].p));
        pattern_fill(held[i].p, held[i].size, held[i].key);
    }
    for (int i = 0; i < BLOCKS; i += 3) {
        size_t size = some_size(&random), least = size < held[i].size ? size : held[i].size;
        held[i].p = realloc(held[i].p, size);
        CHECK(held[i].p && malloc_usable_size(held[i].p) >= size, "realloc to %zu", size);
        CHECK(pattern_wrong(held[i].p, least, held[i].key) < 0, "realloc from %zu to %zu", held[i].size, size);
        held[i].size = size;
        held[i].aligned = false;
        pattern_fill(held[i].p, size, held[i].key);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(pattern_wrong(held[i].p, held[i].size, held[i].key) < 0, "a block of %zu changed", held[i].size);
        errno = 77;
        if (i % 2 || held[i].aligned) {
            free(held[i].p);
        } else {
            t_free_sized(held[i].p, held[i].size);
        }
        CHECK(errno == 77, "free changed errno to %d", errno);
    }
    return NULL;
}

/* The first arena, and in the others those of threads. */
static void use_arenas(void) {
    pthread_t threads[3];
    use_its_blocks((void *)(uintptr_t)1);
    for (uintptr_t i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, use_its_blocks, (void *)(i + 2)) == 0, "a thread");
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

/* ── Ours in its hands, where there is one malloc ────────────────────────────────────────────────────────────────── */

static void hand_over(void) {
    uint64_t random = 5;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = some_size(&random);
        char *p = malloc(size);
        CHECK(p, "malloc");
        pattern_fill(p, size, (uint64_t)i);
        p = plugin.grow(p, 2 * size);
        CHECK(p && pattern_wrong(p, size, (uint64_t)i) < 0, "realloc of %zu in the library", size);
        plugin.drop(p);
    }
}

/* ── What is no block ────────────────────────────────────────────────────────────────────────────────────────────── */

static char object[256] __attribute__((aligned(16)));

/* free(p) in a child must end it with our message. */
static void expect_named(void *p, const char *what) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        dup2(ends[1], 2);
        free(opaque_pointer(p));
        _exit(0);
    }
    close(ends[1]);
    char text[400] = {0};
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
    close(ends[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %#x", what,
          (unsigned)status);
    CHECK(strstr(text, "freehold: free(") && strstr(text, "foreign pointer"), "%s: said %s", what, text);
}

static void name_garbage(void) {
    char local[256] __attribute__((aligned(16)));
    char *its = plugin.make(1000),
         *mapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(local, 0x21, sizeof local);
    memset(object, 0x21, sizeof object);
    memset(its, 0x41, 1000);
    memset(mapped, 0x61, 65536);
    expect_named(local + 128, "a pointer to the stack");
    expect_named(object + 128, "a pointer to a variable");
    expect_named(its + 160, "a pointer into a block");
    expect_named(mapped + 4096, "a mapping of the program's");
    expect_named(mapped + 4112, "a mapping of the program's, further in");
    CHECK(mprotect(mapped, 65536, PROT_NONE) == 0, "mprotect");
    expect_named(mapped + 4112, "memory that cannot be read");
    expect_named((void *)(uintptr_t)0x123450, "memory that is not there");
    expect_named((void *)(uintptr_t)opaque(16), "a small number");
    munmap(mapped, 65536);
    free(its);
}

int main(int count, char **words) {
    CHECK(count == 3, "usage: %s PLUGIN drop|keep|origin", words[0]);
    open_plugin(words[1]);
    void *theirs = plugin.make(100), *ours = malloc(100);
    /* The window is nowhere near what glibc has. */
    bool one_heap = ((uintptr_t)theirs ^ (uintptr_t)ours) >> 40 == 0;
    if (strcmp(words[2], "origin") == 0) {
        CHECK(!dlopen("libdeepbind_sibling.so", RTLD_NOW),
              "it is found without the library: this test would show nothing");
        CHECK(plugin.open_sibling("libdeepbind_sibling.so"), "%s", dlerror());
    } else if (strcmp(words[2], "keep") == 0) {
        if (!fh_version || !dlsym(RTLD_DEFAULT, "__libc_free")) skip_test("the C library does not name its own free");
        CHECK(!one_heap, "the library has our malloc: this test would show nothing");
        use_arenas();
        name_garbage();
    } else {
        CHECK(one_heap, "the library has another malloc");
        use_arenas();
        hand_over();
    }
    free(theirs);
    free(ours);
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
