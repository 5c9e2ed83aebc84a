// SPDX-License-Identifier: MIT OR Apache-2.0
// Records what a program asks of malloc, for the trace workload (W1 of the suite: 400,000 operations that sqlite3, git,
// python3 and a compiler really made). Preloaded over glibc's own allocator:
//
//     BENCH_TRACE=out.trace LD_PRELOAD=build/bench/recorder.so sqlite3 …
//
//     BENCH_TRACE           the file to write; without it nothing is recorded
//     BENCH_TRACE_PROGRAM   record only the process of this name (a compiler is started by its driver)
//     BENCH_TRACE_SKIP      operations to pass over first, so that the trace is of the work and not of the start
//     BENCH_TRACE_OPS       operations to record; 400,000 if not given
//
// One line an operation, "a SIZE ID" or "r ID"; an identifier is used again after its release. realloc is written as a
// release and an allocation, an aligned block as a plain one. Blocks born before the recording began are not in it, and
// neither are their releases.
//
// One lock around everything: the trace has one order, which is that of the true calls per address, since a release is
// noted before its block is free and an allocation after it was made. This is a tool for making inputs, not part of the
// allocator: it may block, and it is slow.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// glibc's allocator under the names that nothing overrides.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

// Open addressing from address to identifier. Never more than half full: beyond that the recording ends.
enum { TABLE = 1 << 22, MOST_LIVE = TABLE / 2, BUFFER = 1 << 16, LONGEST_LINE = 48 };

struct entry {
    uintptr_t address; // 0: empty
    uint32_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool recording;

static struct {
    struct entry *table;
    uint32_t *free_ids; // identifiers to use again, a stack
    uint32_t free_count, next_id, live;
    uint64_t skip, left;
    char *text;
    size_t length;
    int file;
    pid_t process;
} state;

static void flush_text(void) {
    size_t done = 0;
    while (done < state.length) {
        ssize_t n = write(state.file, state.text + done, state.length - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            recording = false;
            break;
        }
        done += (size_t)n;
    }
    state.length = 0;
}

static void put_number(uint64_t number) {
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    state.text[state.length++] = ' ';
    while (n > 0) {
        state.text[state.length++] = digits[--n];
    }
}

static void put_operation(char kind, bool sized, uint64_t size, uint32_t id) {
    state.text[state.length++] = kind;
    if (sized) {
        put_number(size);
    }
    put_number(id);
    state.text[state.length++] = '\n';
    if (state.length > BUFFER - LONGEST_LINE) {
        flush_text();
    }
    if (--state.left == 0) {
        flush_text();
        recording = false;
    }
}

static size_t home_of(uintptr_t address) {
    return (size_t)((address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 42) & (TABLE - 1);
}

static size_t find(uintptr_t address) {
    size_t at = home_of(address);
    while (state.table[at].address != 0 && state.table[at].address != address) {
        at = (at + 1) & (TABLE - 1);
    }
    return at;
}

// Closes the gap: an entry that would no longer be found from its home moves into it.
static void remove_at(size_t gap) {
    for (size_t at = (gap + 1) & (TABLE - 1); state.table[at].address != 0; at = (at + 1) & (TABLE - 1)) {
        size_t home = home_of(state.table[at].address);
        if (((at - home) & (TABLE - 1)) >= ((at - gap) & (TABLE - 1))) {
            state.table[gap] = state.table[at];
            gap = at;
        }
    }
    state.table[gap].address = 0;
}

static bool ours(void) {
    return recording && getpid() == state.process; // not the child of a fork
}

static void note_allocation(void *block, size_t size) {
    if (block == NULL || !recording) {
        return;
    }
    int error = errno;
    pthread_mutex_lock(&lock);
    if (ours()) {
        if (state.skip != 0) {
            state.skip--;
        } else if (state.live == MOST_LIVE) {
            flush_text();
            recording = false;
        } else {
            uint32_t id = state.free_count != 0 ? state.free_ids[--state.free_count] : state.next_id++;
            state.table[find((uintptr_t)block)] = (struct entry){(uintptr_t)block, id};
            state.live++;
            put_operation('a', true, size, id);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = error;
}

static void note_release(void *block) {
    if (block == NULL || !recording) {
        return;
    }
    int error = errno;
    pthread_mutex_lock(&lock);
    size_t at;
    if (ours() && state.table[at = find((uintptr_t)block)].address != 0) {
        uint32_t id = state.table[at].id;
        remove_at(at);
        state.live--;
        state.free_ids[state.free_count++] = id;
        put_operation('r', false, 0, id);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
}

static void *pages(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t number_in(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("BENCH_TRACE"), *program = getenv("BENCH_TRACE_PROGRAM");
    if (path == NULL || (program != NULL && strcmp(program, program_invocation_short_name) != 0)) {
        return;
    }
    state.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    state.table = pages(TABLE * sizeof *state.table);
    state.free_ids = pages(TABLE * sizeof *state.free_ids);
    state.text = pages(BUFFER);
    state.skip = number_in("BENCH_TRACE_SKIP", 0);
    state.left = number_in("BENCH_TRACE_OPS", 400000);
    state.process = getpid();
    if (state.file < 0 || !state.table || !state.free_ids || !state.text || state.left == 0) {
        static const char message[] = "recorder: cannot write the trace; is BENCH_TRACE a path that can be made?\n";
        (void)!write(STDERR_FILENO, message, sizeof message - 1);
        return;
    }
    recording = true;
}

__attribute__((destructor)) static void end(void) {
    pthread_mutex_lock(&lock);
    if (ours()) {
        flush_text();
        recording = false;
    }
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    note_allocation(block, size);
    return block;
}

void *calloc(size_t count, size_t size) {
    void *block = __libc_calloc(count, size);
    note_allocation(block, count * size);
    return block;
}

void *realloc(void *old, size_t size) {
    note_release(old);
    void *block = __libc_realloc(old, size);
    note_allocation(block, size);
    // Failed: the old block lives on, and so does its record, at a size that only glibc knows.
    if (block == NULL && size != 0 && old != NULL) {
        note_allocation(old, malloc_usable_size(old));
    }
    return block;
}

void free(void *block) {
    note_release(block);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    note_allocation(block, size);
    return block;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    int error = errno;
    void *block = memalign(alignment, size);
    errno = error;
    if (block == NULL) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}
