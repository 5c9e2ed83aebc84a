/* Where Freehold answers otherwise than glibc:  differences [BEHAVIOUR]
 *
 * Tries each behaviour in a process of its own and prints a line for it: its name, a bar, and what was seen. differences.py
 * runs this over both allocators and compares with the tables of docs/compatibility.md.
 *
 * A process that is ended by SIGABRT "aborts", by another signal "faults". One that says nothing "goes on". */
#include "../support/check.h"

#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>

extern const char *fh_version(void) __attribute__((weak));
extern void mtrace(void);

enum { RESULT_FILE = 3, SECONDS = 30 };

static char *volatile block, *volatile other; /* the compiler may not reason about what is done to them */

__attribute__((format(printf, 1, 2))) static void say(const char *form, ...) {
    char text[200];
    va_list list;
    va_start(list, form);
    int length = vsnprintf(text, sizeof text, form, list);
    va_end(list);
    CHECK(write(RESULT_FILE, text, (size_t)length) == length, "the answer cannot be written");
}

static size_t opaque(size_t size) {
    __asm__ volatile("" : "+r"(size));
    return size;
}

/* ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_block_or_error(void *p) {
    say("%s", p ? "block" : errno == EINVAL ? "EINVAL" : "another error");
}
static void aligned_48(void) {
    say_block_or_error(aligned_alloc(opaque(48), 100));
}
static void aligned_0(void) {
    say_block_or_error(aligned_alloc(opaque(0), 100));
}
static void memalign_errno(void) {
    void *p = NULL;
    errno = 0;
    if (posix_memalign(&p, 64, opaque(PTRDIFF_MAX)) == ENOMEM) say("%s", errno == 0 ? "kept" : "ENOMEM");
}
static void usable_1(void) {
    say("%zu", malloc_usable_size(malloc(opaque(1))));
}
static void usable_1025(void) {
    say("%zu", malloc_usable_size(malloc(opaque(1025))));
}
static void place_in_page(void) {
    say("%zu", (size_t)(uintptr_t)malloc(opaque(200000)) % 4096);
}
static void shrink_in_place(void) {
    block = malloc(opaque(100000));
    other = block;
    block = realloc(block, opaque(10));
    say("%s", block == other ? "stays" : "moves");
}
static void trim_twice(void) {
    static char *blocks[200];
    for (int i = 0; i < 200; i++) memset(blocks[i] = malloc(20000), 1, 20000);
    for (int i = 0; i < 199; i++) free(blocks[i]);
    int first = malloc_trim(0);
    say("%d %d", first, malloc_trim(0));
}
static void break_moves(void) {
    char *before = sbrk(0);
    for (int i = 0; i < 1000; i++) block = malloc(opaque(1000));
    say("%s", sbrk(0) == before ? "stays" : "moves");
}

/* ── mallopt, the environment, the debugging library ─────────────────────────────────────────────────────────────── */

static void opt_unknown(void) {
    say("%d", mallopt(12345, 1));
}
static void opt_mxfast(void) {
    say("%d", mallopt(M_MXFAST, 1 << 20));
}
static void opt_threshold(void) {
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    block = malloc(opaque(100000)); /* glibc's heap has room for one from the start */
    size_t before = mallinfo2().hblks;
    block = malloc(opaque(100000));
    say("%zu", mallinfo2().hblks - before);
}
static void usable_7(void) {
    say("%zu", malloc_usable_size(malloc(opaque(7))));
}
static void traced(void) {
    char path[] = "/tmp/freehold-mtrace-XXXXXX", text[4096];
    int file = mkstemp(path);
    CHECK(file >= 0, "mkstemp");
    setenv("MALLOC_TRACE", path, 1);
    mtrace();
    for (int i = 0; i < 20000; i++) block = malloc(opaque(10)); /* more than the trace's buffer */
    ssize_t length = read(file, text, sizeof text - 1);
    unlink(path);
    text[length > 0 ? length : 0] = 0;
    say("%s", strstr(text, " + 0x") ? "written" : "empty");
}

/* ── What a heap says of itself ──────────────────────────────────────────────────────────────────────────────────── */

static void narrow_figures(void) {
    block = malloc(opaque((size_t)3 << 30));
    struct mallinfo m = mallinfo();
    say("%s", m.hblkhd < 0 ? "negative" : m.hblkhd == INT_MAX ? "INT_MAX" : "another number");
}
static void where_a_mib_counts(void) {
    struct mallinfo2 before = mallinfo2();
    block = malloc(opaque(1 << 20));
    struct mallinfo2 after = mallinfo2();
    say("%s", after.hblkhd > before.hblkhd ? "hblkhd" : after.uordblks > before.uordblks ? "uordblks" : "nowhere");
}
static void info_maximum(void) {
    static char text[1 << 17];
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(stream && malloc_info(0, stream) == 0, "malloc_info");
    fclose(stream);
    say("%s", strstr(text, "<system type=\"max\"") ? "there" : "not there");
}
static void stats_form(void) {
    FILE *file = tmpfile();
    char text[16] = "";
    CHECK(file && dup2(fileno(file), 2) == 2, "stderr");
    malloc_stats();
    fflush(stderr);
    CHECK(pread(2, text, 5, 0) == 5, "malloc_stats says nothing");
    say("%s", text);
}

/* ── Misuse ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void twice(void) {
    block = malloc(opaque(32));
    free(block);
    free(block);
}
static void twice_and_trim(void) {
    twice();
    malloc_trim(0);
}
/* In glibc the first seven go to one list, and the next to another that only looks at its last. */
static void with_others_between(void) {
    char *fill[7];
    for (int i = 0; i < 7; i++) fill[i] = malloc(opaque(32));
    block = malloc(opaque(32));
    other = malloc(opaque(32));
    for (int i = 0; i < 7; i++) free(fill[i]);
    free(block);
    free(other);
    free(block);
}
static void between_and_trim(void) {
    with_others_between();
    malloc_trim(0);
}
static void twice_large(void) {
    block = malloc(opaque(1500000));
    free(block);
    free(block);
}
/* A terminating zero too far changes the size of the next block, which is then free in another list. */
static void zero_too_far(void) {
    block = malloc(opaque(24));
    other = malloc(opaque(0x118));
    free(other);
    memset(block, 'B', 24);
    block[24] = 0;
    free(other);
}
static void zero_too_far_and_trim(void) {
    zero_too_far();
    malloc_trim(0);
}
static void middle(void) {
    block = calloc(1, opaque(100));
    free(block + 16);
}
static void middle_and_trim(void) {
    middle();
    malloc_trim(0);
}
static void unmapped(void) {
    free((void *)(uintptr_t)opaque(0x3990080));
}
static void write_freed(void) {
    block = malloc(opaque(32));
    other = malloc(opaque(32));
    free(block);
    free(other);
    other[0] ^= 1;
    other = malloc(opaque(32));
    other = malloc(opaque(32));
}
static void write_beyond(void) {
    block = malloc(opaque(24));
    other = malloc(opaque(24));
    char *after = malloc(opaque(24));
    for (int i = 24; i < 40; i++) block[i] = (char)0xff;
    free(other);
    free(after);
    free(block);
}
static void write_beyond_and_trim(void) {
    write_beyond();
    malloc_trim(0);
}
static void write_before(void) {
    block = malloc(opaque(24));
    other = malloc(opaque(24));
    other[-1] = (char)0xff;
    free(other);
}
static void write_before_and_trim(void) {
    write_before();
    malloc_trim(0);
}

/* ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static const struct {
    const char *name;
    void (*run)(void);
    const char *variable, *value; /* of the environment */
} rows[] = {
    {"aligned_alloc(48, 100)", aligned_48, 0, 0},
    {"aligned_alloc(0, 100)", aligned_0, 0, 0},
    {"posix_memalign, no memory: errno", memalign_errno, 0, 0},
    {"malloc_usable_size of 1 byte", usable_1, 0, 0},
    {"malloc_usable_size of 1,025 bytes", usable_1025, 0, 0},
    {"where in a page 200,000 bytes begin", place_in_page, 0, 0},
    {"realloc from 100,000 to 10 bytes", shrink_in_place, 0, 0},
    {"malloc_trim(0), twice", trim_twice, 0, 0},
    {"sbrk(0) after 1,000 blocks", break_moves, 0, 0},
    {"mallopt of an unknown parameter", opt_unknown, 0, 0},
    {"mallopt(M_MXFAST, 1 MiB)", opt_mxfast, 0, 0},
    {"M_MMAP_THRESHOLD of 64 KiB: hblks of a second 100,000 bytes", opt_threshold, 0, 0},
    {"MALLOC_CHECK_=3: malloc_usable_size of 7 bytes", usable_7, "MALLOC_CHECK_", "3"},
    {"mtrace(): the file", traced, "MALLOC_TRACE", "/dev/null"},
    {"mallinfo().hblkhd of 3 GiB", narrow_figures, 0, 0},
    {"mallinfo2(): 1 MiB counts in", where_a_mib_counts, 0, 0},
    {"malloc_info: the element system, type max", info_maximum, 0, 0},
    {"malloc_stats begins with", stats_form, 0, 0},
    {"free twice", twice, 0, 0},
    {"free twice, then malloc_trim(0)", twice_and_trim, 0, 0},
    {"free twice, others between, then malloc_trim(0)", between_and_trim, 0, 0},
    {"free of 1.5 MB twice", twice_large, 0, 0},
    {"free twice, a zero too far between, then malloc_trim(0)", zero_too_far_and_trim, 0, 0},
    {"free of p + 16", middle, 0, 0},
    {"free of p + 16, then malloc_trim(0)", middle_and_trim, 0, 0},
    {"free of an address without memory", unmapped, 0, 0},
    {"a bit changed in a freed block, then two of malloc", write_freed, 0, 0},
    {"16 bytes written beyond a block, then malloc_trim(0)", write_beyond_and_trim, 0, 0},
    {"a byte written before a block, then malloc_trim(0)", write_before_and_trim, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The debugging library goes where it would in glibc's manual, and the drop-in before it. */
static void preload_debugging(void) {
    char list[600] = "libc_malloc_debug.so.0";
    Dl_info drop_in;
    if (fh_version && dladdr((void *)(uintptr_t)fh_version, &drop_in))
        snprintf(list, sizeof list, "%s:libc_malloc_debug.so.0", drop_in.dli_fname);
    setenv("LD_PRELOAD", list, 1);
}

static void begin_again(size_t row, int to) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(to, RESULT_FILE);
    dup2(nowhere, 2);
    if (rows[row].variable) {
        setenv(rows[row].variable, rows[row].value, 1);
        preload_debugging();
    }
    alarm(SECONDS);
    execl("/proc/self/exe", "differences", rows[row].name, (char *)NULL);
    _exit(127);
}

static void print_answer(size_t row) {
    char text[200] = "";
    int pipes[2], status;
    CHECK(pipe(pipes) == 0, "pipe");
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) begin_again(row, pipes[1]);
    close(pipes[1]);
    ssize_t length = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    const char *answer = text;
    if (WIFSIGNALED(status)) {
        answer = WTERMSIG(status) == SIGABRT ? "aborts" : WTERMSIG(status) == SIGALRM ? "hangs" : "faults";
    } else if (WEXITSTATUS(status)) {
        answer = "fails";
    } else if (length <= 0) {
        answer = "goes on";
    }
    printf("%s | %s\n", rows[row].name, answer);
}

int main(int count, char **words) {
    for (size_t i = 0; i < ROWS; i++) {
        if (count == 1) {
            print_answer(i);
        } else if (strcmp(words[1], rows[i].name) == 0) {
            rows[i].run();
            return 0;
        }
    }
    return count > 1;
}
