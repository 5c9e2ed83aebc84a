/* What observed programs do, one act each: acts NAME [COUNT [SAMPLE-FROM-NOW-ON]]. For each of its call sites an act prints what is true,
 *     site RETURN-ADDRESS BLOCKS BYTES LIVE-BLOCKS LIVE-BYTES
 * and tests/observe/run.py compares it with what the page says. The return address is the one in the site's own frame, the
 * second of the stack, as all of them allocate through ask(). */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITES 4

typedef struct {
    void *address;
    uint64_t blocks, bytes, live_blocks, live_bytes;
} truth;

static truth sites[SITES];

typedef enum { MALLOC, CALLOC, ALIGNED, REALLOC } entry;

/* One block. The compiler may not turn the call into a jump, or the frame of the site would be the first one. */
__attribute__((noinline)) static void *ask(truth *t, entry how, size_t n, void *old) {
    t->address = __builtin_return_address(0);
    t->blocks++;
    t->bytes += n;
    t->live_blocks++;
    t->live_bytes += n;
    void *volatile p = how == MALLOC    ? malloc(n)
                       : how == CALLOC  ? calloc(1, n)
                       : how == ALIGNED ? aligned_alloc(256, n)
                                        : realloc(old, n);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

static void drop(truth *t, void *p, size_t n) {
    t->live_blocks--;
    t->live_bytes -= n;
    free(p);
}

#define SITE(k)                                                                                                        \
    __attribute__((noinline)) static void *site##k(entry how, size_t n, void *old) {                                   \
        void *volatile p = ask(&sites[k], how, n, old);                                                                \
        return p;                                                                                                      \
    }
SITE(0)
SITE(1)
SITE(2)
SITE(3)

typedef void *(*site_function)(entry how, size_t n, void *old);
static const site_function site[SITES] = {site0, site1, site2, site3};

/* For the order of things; what is sampled depends on the library's own. */
static uint64_t random_bits(void) {
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Four sites in strict rotation: what happens to hit one of them always hits the same one. */
static void rotation(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        void *p[SITES];
        for (int k = 0; k < SITES; k++) p[k] = site[k](MALLOC, 100, NULL);
        for (int k = 0; k < SITES; k++) drop(&sites[k], p[k], 100);
    }
}

/* Equal bytes in blocks of 32, 128, 512 and 4,096, in random order, each freed some time later. */
static void sizes(uint64_t count) {
    enum { WINDOW = 512 };
    static struct {
        void *p;
        int k;
    } window[WINDOW];
    static const size_t size[SITES] = {32, 128, 512, 4096};
    uint64_t left[SITES], all = 0;
    for (int k = 0; k < SITES; k++) all += left[k] = count * 4096 / size[k];
    for (; all > 0; all--) {
        uint64_t pick = random_bits() % all;
        int k = 0;
        while (pick >= left[k]) pick -= left[k++];
        left[k]--;
        int w = (int)(random_bits() % WINDOW);
        if (window[w].p) drop(&sites[window[w].k], window[w].p, size[window[w].k]);
        window[w].p = site[k](MALLOC, size[k], NULL);
        window[w].k = k;
    }
}

/* One site frees at once, one keeps all, one keeps every second, one frees what it made a thousand blocks ago. */
static void at_once(uint64_t count) {
    void *late[1000] = {NULL};
    for (uint64_t i = 0; i < count; i++) {
        drop(&sites[0], site[0](MALLOC, 200, NULL), 200);
        (void)site[1](MALLOC, 200, NULL);
        void *p = site[2](MALLOC, 200, NULL);
        if (i % 2) drop(&sites[2], p, 200);
        if (late[i % 1000]) drop(&sites[3], late[i % 1000], 200);
        late[i % 1000] = site[3](MALLOC, 200, NULL);
    }
}

/* The ways in: malloc, calloc, aligned_alloc, and realloc to three sizes, small and large. */
static void entries(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        size_t n = i % 64 ? 40 + i % 1000 : 70000 + i % 300000;
        void *p[3] = {site[0](MALLOC, n, NULL), site[1](CALLOC, n, NULL), site[2](ALIGNED, n, NULL)};
        void *grown = site[3](REALLOC, 300, NULL);
        sites[3].live_blocks--;
        sites[3].live_bytes -= 300;
        grown = site[3](REALLOC, 3000, grown);
        if (i % 16 == 0) {
            sites[3].live_blocks--;
            sites[3].live_bytes -= 3000;
            grown = site[3](REALLOC, 100000, grown);
            sites[3].live_blocks--;
            sites[3].live_bytes -= 100000;
            grown = site[3](REALLOC, 3000000, grown);
            sites[3].live_blocks--;
            sites[3].live_bytes -= 3000000;
            grown = site[3](REALLOC, 6000000, grown);
            drop(&sites[3], grown, 6000000);
        } else {
            drop(&sites[3], grown, 3000);
        }
        for (int k = 0; k < 3; k++) drop(&sites[k], p[k], n);
    }
}

static uint64_t per_thread;

static void *one_thread(void *number) {
    int k = (int)(intptr_t)number;
    for (uint64_t i = 0; i < per_thread; i++) drop(&sites[k], site[k](MALLOC, 150, NULL), 150);
    return NULL;
}

/* Four threads, a site each; then short threads that allocate once. */
static void threads(uint64_t count) {
    pthread_t t[SITES];
    per_thread = count;
    for (intptr_t k = 0; k < SITES; k++) pthread_create(&t[k], NULL, one_thread, (void *)k);
    for (int k = 0; k < SITES; k++) pthread_join(t[k], NULL);
}

static void *first_block(void *unused) {
    (void)unused;
    return site[0](MALLOC, 1000, NULL);
}

/* A thread's first and only block: it counts like any other. */
static void first_blocks(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        pthread_t t;
        void *p;
        pthread_create(&t, NULL, first_block, NULL);
        pthread_join(t, &p);
        drop(&sites[0], p, 1000);
    }
}

__attribute__((noreturn)) static void *forever(void *number) {
    int k = (int)(intptr_t)number;
    void *kept[1000] = {NULL};
    for (uint64_t i = 0;; i++) {
        void **p = &kept[random_bits() % 1000];
        size_t n = random_bits() % 16 ? random_bits() % 2000 : random_bits() % 200000;
        if (random_bits() % 4 == 0 && *p) {
            *p = realloc(*p, n + 1);
        } else {
            free(*p);
            *p = site[k](MALLOC, n + 1, NULL);
        }
    }
}

/* Until it is killed. */
static void run_forever(uint64_t unused) {
    (void)unused;
    pthread_t t;
    for (intptr_t k = 1; k < SITES; k++) pthread_create(&t, NULL, forever, (void *)k);
    puts("running");
    fflush(stdout);
    forever(0);
}

/* What a child does with a heap that it got from its parent. */
static void live_on(void **blocks, int n) {
    for (int i = 0; i < 20000; i++) drop(&sites[1], site[1](MALLOC, 300, NULL), 300);
    for (int i = 0; i < n; i++) free(blocks[i]);
}

static void reap(long child) {
    int status = 0;
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "a child ended with status %x\n", status);
        exit(1);
    }
}

/* Children by fork, by a bare clone system call that the C library knows nothing of, and by vfork; the parent's page must
 * be the parent's alone. */
static void children(uint64_t count) {
    enum { BLOCKS = 1000 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = site[0](MALLOC, 500, NULL);
    for (uint64_t i = 0; i < count; i++) {
        long child = fork();
        if (child == 0) {
            live_on(blocks, BLOCKS);
            i % 2 ? exit(0) : _exit(0);
        }
        reap(child);
        child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            live_on(blocks, BLOCKS);
            _exit(0);
        }
        reap(child);
        child = vfork();
        if (child == 0) _exit(0);
        reap(child);
    }
    for (int i = 0; i < BLOCKS; i++) drop(&sites[0], blocks[i], 500);
}

/* Calls exec: the page begins anew under the same number. */
static void again(uint64_t count) {
    for (int i = 0; i < 10000; i++) (void)site[2](MALLOC, 300, NULL);
    if (count == 0) return;
    memset(sites, 0, sizeof sites);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)count - 1);
    execl("/proc/self/exe", "acts", "again", text, (char *)NULL);
    exit(1);
}

/* Waits for lines on its input, and allocates between them: for the control words, which slow paths look at. */
static void steps(uint64_t count) {
    enum { HELD = 400 };
    char line[16];
    do {
        for (uint64_t i = 0; i < count; i += HELD) {
            void *held[HELD];
            for (int k = 0; k < HELD; k++) held[k] = site[0](MALLOC, 1000, NULL);
            for (int k = 0; k < HELD; k++) drop(&sites[0], held[k], 1000);
        }
        printf("step %llu\n", (unsigned long long)sites[0].blocks);
        fflush(stdout);
    } while (read(0, line, sizeof line) > 0);
}

/* A block that realloc changes, as often as its site wants. */
typedef struct {
    char *p;
    size_t n;
    int cuts; /* how often it was made smaller */
} buffer;

static void resize_to(int k, buffer *b, size_t n) {
    sites[k].live_blocks -= b->p != NULL;
    sites[k].live_bytes -= b->n;
    b->p = site[k](REALLOC, n, b->p);
    b->n = n;
    b->p[n - 1] = 1;
}

/* What each site of small blocks wants next; 0: it is done. */
static size_t small_step(int k, buffer *b) {
    switch (k) {
    case 0: /* by the same piece each time, from class to class: 500, 1,000 … 8,000 */
        return b->n < 8000 ? b->n + 500 : 0;
    case 1: /* a vector: half as much again, and at last what is not used is cut off, a tenth or two thirds */
        if (b->n == 0) return 24;
        if (b->n < 6000 && !b->cuts) return b->n + b->n / 2;
        return b->cuts++ ? 0 : random_bits() % 2 ? b->n / 10 * 9 : b->n / 3;
    case 2: /* a string: a few bytes more, most often within the class */
        return b->n < 300 ? b->n + 1 + random_bits() % 15 : 0;
    default: /* uses all that it has got, and asks for more when that is full; then less and less */
        if (b->n < 4000 && !b->cuts) return b->p ? malloc_usable_size(b->p) + 1 : 20;
        return b->cuts++ < 4 ? malloc_usable_size(b->p) / 4 * 3 : 0;
    }
}

/* Of large ones: above 64 KiB memory is given by pages, and grows in place where the pages behind it are free. */
static size_t large_step(int k, buffer *b) {
    switch (k) {
    case 0:
        return b->n < 400000 ? b->n + 20000 : 0;
    case 1: /* shrinks by a twentieth */
        return b->n == 0 ? 400000 : b->n > 100000 ? b->n / 20 * 19 : 0;
    case 2:
        return b->n == 0 ? 1000 : b->n < 2000000 ? 2 * b->n : 0;
    default:
        return b->n < 150000 ? (b->n ? malloc_usable_size(b->p) : 9000) + 1 + random_bits() % 20000 : 0;
    }
}

/* `count` buffers of each site, in random order, until none wants anything more. All of them live at the end. */
static void step_all(uint64_t count, size_t (*step)(int k, buffer *b)) {
    uint64_t left = SITES * count;
    buffer *all = calloc(left, sizeof *all);
    uint64_t *order = malloc(left * sizeof *order);
    if (!all || !order) exit(1);
    for (uint64_t i = 0; i < left; i++) order[i] = i;
    while (left > 0) {
        uint64_t pick = random_bits() % left, i = order[pick];
        int k = (int)(i % SITES);
        size_t n = step(k, &all[i]);
        if (n) {
            resize_to(k, &all[i], n);
        } else {
            order[pick] = order[--left];
        }
    }
}

static void resized(uint64_t count) {
    step_all(count, small_step);
}

static void resized_large(uint64_t count) {
    step_all(count, large_step);
}

/* What the program is told of each size and alignment, and whether realloc moves a small block: the same, observed or not. */
static void answers(uint64_t count) {
    for (size_t n = 0; n < count; n += 1 + n / 97) {
        void *p = malloc(n);
        printf("malloc %zu: %zu", n, malloc_usable_size(p));
        for (unsigned k = 1; k < 6; k++) {
            uintptr_t was = (uintptr_t)p;
            size_t m = (n + 1) * k / 3 + k;
            p = realloc(p, m);
            printf(", %zu: %zu%s", m, malloc_usable_size(p), m < 60000 && (uintptr_t)p == was ? " stays" : "");
        }
        free(p);
        p = calloc(1, n);
        printf(", calloc %zu", malloc_usable_size(p));
        free(p);
        for (size_t align = 16; align <= (1u << 21); align *= 4) {
            if (posix_memalign(&p, align, n)) exit(1);
            printf(", at %zu %zu", align, malloc_usable_size(p));
            free(p);
        }
        puts("");
    }
}

/* Asks for what cannot be had, in each way; all that comes after must be counted as before. */
static void impossible(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (i % 1000 == 0) {
            /* As a signed number it is less than nothing: the distance would grow by 2^62. */
            volatile size_t much = SIZE_MAX - ((size_t)1 << 62);
            void *p = malloc(16);
            if (malloc(much) || calloc(much, 1) || realloc(p, much) || aligned_alloc(64, much)) exit(1);
            free(p);
        }
        drop(&sites[0], site[0](MALLOC, 100, NULL), 100);
    }
}

/* The program has run for a while, with blocks from before that it will free, and is to be sampled only now. The last block
 * is the first of its size, so it takes a slow path, in which the thread sees the change. */
static void sample_later(const char *interval) {
    void *held[1000];
    for (size_t i = 0; i < 1000; i++) held[i] = malloc(i % 50 * 100 + 1);
    void *symbol = dlsym(RTLD_DEFAULT, "fh_option_set");
    int (*set)(const char *, const char *);
    memcpy(&set, &symbol, sizeof set);
    if (!set || set("sample", interval) != 0) exit(1);
    free(malloc(60000));
    for (size_t i = 0; i < 1000; i++) free(held[i]);
}

int main(int arguments, char **argument) {
    static const struct {
        const char *name;
        void (*act)(uint64_t count);
    } acts[] = {{"rotation", rotation},     {"sizes", sizes},
                {"at_once", at_once},       {"entries", entries},
                {"threads", threads},       {"first_blocks", first_blocks},
                {"forever", run_forever},   {"children", children},
                {"again", again},           {"steps", steps},
                {"impossible", impossible}, {"resized", resized},
                {"answers", answers},       {"resized_large", resized_large}};
    uint64_t count = arguments > 2 ? strtoull(argument[2], NULL, 10) : 1000;
    if (arguments > 3) sample_later(argument[3]);
    for (size_t i = 0; arguments > 1 && i < sizeof acts / sizeof acts[0]; i++) {
        if (strcmp(acts[i].name, argument[1]) != 0) continue;
        acts[i].act(count);
        for (int k = 0; k < SITES; k++) {
            const truth *t = &sites[k];
            if (t->address) {
                printf("site %llu %llu %llu %llu %llu\n", (unsigned long long)(uintptr_t)t->address,
                       (unsigned long long)t->blocks, (unsigned long long)t->bytes, (unsigned long long)t->live_blocks,
                       (unsigned long long)t->live_bytes);
            }
        }
        return 0;
    }
    fprintf(stderr, "acts NAME [COUNT]\n");
    return 2;
}
