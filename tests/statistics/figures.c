/* A busy heap of which everything is known, and all that Freehold says of it, written into a folder for figures.py to hold
 * against each other:  figures FOLDER
 *
 * Several threads allocate blocks of many sizes, write to all of them, free two thirds of some in long stretches, and wait
 * with full caches while the figures are taken. So the heap stands still, but for what taking them does itself. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>

#if !defined(T_EMBED)
extern size_t fh_stats_json(char *buffer, size_t size);
extern size_t fh_stats_metrics(char *buffer, size_t size);
#endif

enum { THREADS = 4, BLOCKS = 40000, HUGE = 3, TEXT = 1 << 18 };

static pthread_barrier_t ready, done;
static void *blocks[THREADS][BLOCKS]; /* in the program's own memory */
static size_t live_blocks[THREADS], live_bytes[THREADS];

static size_t some_size(uint64_t *state) {
    static const size_t most[] = {64, 300, 2000, 9000, 60000, 400000};
    uint64_t r = random_next(state);
    unsigned kind = r % 1000 < 500   ? 0
                    : r % 1000 < 800 ? 1
                    : r % 1000 < 950 ? 2
                    : r % 1000 < 994 ? 3
                                     : 4 + (r >> 32) % 2;
    return 1 + random_below(state, most[kind]);
}

static void *work(void *argument) {
    size_t me = (size_t)(uintptr_t)argument;
    uint64_t state = 77 + me;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = some_size(&state);
        blocks[me][i] = t_malloc(size);
        CHECK(blocks[me][i], "malloc: NULL");
        /* All that it holds: what is resident is to be what is live. */
        memset(blocks[me][i], 1, t_usable_size(blocks[me][i]));
    }
    /* Stretches, so that whole pages inside of slabs are free. */
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i / 2000 % 3 == 0) continue;
        t_free(blocks[me][i]);
        blocks[me][i] = NULL;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (!blocks[me][i]) continue;
        live_blocks[me]++;
        live_bytes[me] += t_usable_size(blocks[me][i]);
    }
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    for (size_t i = 0; i < BLOCKS; i++) t_free(blocks[me][i]);
    return NULL;
}

/* Without stdio, whose buffers would be blocks. */
static void save(const char *folder, const char *name, const char *text, size_t length) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, length) == (ssize_t)length, "cannot write %s", path);
    close(fd);
}

static char text[TEXT];

static void save_json(const char *folder, const char *name) {
    size_t length = fh_stats_json(text, TEXT);
    CHECK(length > 0 && length < TEXT && text[length] == 0, "%zu bytes of JSON", length);
    save(folder, name, text, length);
}

/* What the two calls promise of their buffer. */
static void check_lengths(size_t (*put)(char *, size_t)) {
    static char small[64];
    size_t whole = put(NULL, 0);
    CHECK(whole > 500, "%zu bytes in all", whole);
    memset(small, '#', sizeof small);
    size_t again = put(small, 40);
    /* The figures may have a digit more or less by now. */
    CHECK(again + 100 > whole && again < whole + 100, "%zu bytes, then %zu", whole, again);
    CHECK(small[39] == 0 && small[38] != '#' && small[40] == '#', "40 bytes of room were not kept to");
    put(small, 1);
    CHECK(small[0] == 0 && small[1] != 0, "1 byte of room was not kept to");
}

static void save_glibc(const char *folder, FILE *stream, const char *stream_text) {
    t_mallinfo2_result m = t_mallinfo2();
    int length =
        snprintf(text, TEXT,
                 "{\"arena\":%zu,\"ordblks\":%zu,\"smblks\":%zu,\"hblks\":%zu,\"hblkhd\":%zu,\"fsmblks\":%zu,"
                 "\"uordblks\":%zu,\"fordblks\":%zu,\"keepcost\":%zu}",
                 m.arena, m.ordblks, m.smblks, m.hblks, m.hblkhd, m.fsmblks, m.uordblks, m.fordblks, m.keepcost);
    save(folder, "mallinfo2.json", text, (size_t)length);
    CHECK(t_malloc_info(0, stream) == 0 && fflush(stream) == 0, "malloc_info");
    save(folder, "malloc_info.xml", stream_text, (size_t)ftell(stream));
}

/* malloc_stats writes to stderr, which is led into a file meanwhile. */
static void save_table(const char *folder) {
    char path[400];
    snprintf(path, sizeof path, "%s/table.txt", folder);
    int kept = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(kept >= 0 && fd >= 0 && dup2(fd, 2) == 2, "stderr into %s", path);
    t_malloc_stats();
    dup2(kept, 2);
    close(kept);
    close(fd);
}

int main(int count, char **words) {
    CHECK(count == 2, "usage: %s FOLDER", words[0]);
    static char stream_text[TEXT], stream_buffer[4096];
    FILE *stream = fmemopen(stream_text, sizeof stream_text, "w");
    CHECK(stream && setvbuf(stream, stream_buffer, _IOFBF, sizeof stream_buffer) == 0, "a stream");
    memset(stream_text, ' ', sizeof stream_text);
    memset(text, ' ', sizeof text);
    memset(blocks, 0, sizeof blocks);
    t_free(t_malloc(1));
    save_json(words[1], "before.json");
    size_t before = resident_bytes();
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    pthread_t ids[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)i) == 0, "pthread_create");
    void *huge[HUGE];
    size_t huge_bytes = 0, huge_slot_bytes = 0;
    for (size_t i = 0; i < HUGE; i++) {
        huge[i] = t_malloc(((3 + i) << 20) + 5000 * i);
        CHECK(huge[i], "a huge block");
        memset(huge[i], 1, t_usable_size(huge[i]));
        huge_bytes += t_usable_size(huge[i]);
        huge_slot_bytes += (t_usable_size(huge[i]) + 65535) >> 16 << 16;
    }
    char *large = t_malloc(1300000); /* no magazine holds it, and it is not huge */
    CHECK(large, "a large block");
    memset(large, 1, t_usable_size(large));
    pthread_barrier_wait(&ready);
    t_malloc_trim(0); /* so that pages inside of slabs are gone, and the figures have to know it */
    save_json(words[1], "first.json");
    size_t resident = resident_bytes();
    save_glibc(words[1], stream, stream_text);
    save_table(words[1]);
    size_t length = fh_stats_metrics(text, TEXT);
    CHECK(length < TEXT, "%zu bytes of metrics", length);
    save(words[1], "metrics.txt", text, length);
    save_json(words[1], "last.json");
    size_t live = 1, in = t_usable_size(large);
    for (size_t i = 0; i < THREADS; i++) {
        live += live_blocks[i];
        in += live_bytes[i];
    }
    length = (size_t)snprintf(text, TEXT,
                              "{\"live_blocks\":%zu,\"live_bytes\":%zu,\"huge_bytes\":%zu,\"huge_blocks\":%d,"
                              "\"huge_slot_bytes\":%zu,\"threads\":%d,\"resident\":%zu,\"resident_before\":%zu}",
                              live, in, huge_bytes, HUGE, huge_slot_bytes, THREADS + 1, resident, before);
    save(words[1], "truth.json", text, length);
    check_lengths(fh_stats_json);
    check_lengths(fh_stats_metrics);
    pthread_barrier_wait(&done);
    for (size_t i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    for (size_t i = 0; i < HUGE; i++) t_free(huge[i]);
    t_free(large);
    fclose(stream);
    return 0;
}
