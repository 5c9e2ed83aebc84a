/* Where a thread looks for double frees: beside threads on other CPUs that get what it hands to the depot, it must not look where
 * these write. It fetched a cache line from another processor in most of its frees (cache/twice.h, fh_twice_forget).
 *
 * Two threads allocate and free more than two magazines hold. Then nearly all entries of the table lead into the thread's
 * own two. Alone a thread has no reason for that, and finds what is in the depot too. */
#include "base/classes.h"
#include "cache/observed.h"
#include "cache/place.h"
#include "cache/twice.h"
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>

enum { BLOCKS = 4000, SIZE = 64 };

static __thread unsigned cpu;

unsigned __wrap_fh_system_cpu_hint(void);
unsigned __wrap_fh_system_cpu_hint(void) {
    return cpu;
}

static void *blocks[3 * BLOCKS];

static void fill(size_t n) {
    for (size_t i = 0; i < n; i++) {
        blocks[i] = t_malloc(SIZE);
        CHECK(blocks[i], "malloc: NULL");
    }
}

static void fill_and_drop(size_t n) {
    fill(n);
    for (size_t i = 0; i < n; i++) t_free(blocks[i]);
}

/* Before the main thread's last turns. It gets some of what the main thread has put into the depot near its CPU. */
static void *on_another_cpu(void *unused) {
    cpu = 1;
    fill_and_drop(3 * BLOCKS);
    return unused;
}

static bool is_in(const fh_magazine *m, void *const *place) {
    return m && place >= m->block && place < m->block + m->capacity;
}

/* Entries that lead elsewhere. */
static unsigned strangers(void) {
    fh_thread *t = fh_own();
    unsigned c = fh_class_of(SIZE), n = 0;
    CHECK(t->head.watched_slots != 0, "the thread has no table");
    for (size_t i = 0; i < FH_PLACES; i++) {
        void *const *place = fh_place_near(t->bin[c].top, fh_last_place(t->bin, i));
        n += !is_in(t->rack[c].loaded, place) && !is_in(t->rack[c].previous, place);
    }
    return n;
}

/* Entries that lead into the magazine before the loaded one, which is full. They are noted again if it is in reach. */
static unsigned into_previous(void) {
    fh_thread *t = fh_own();
    unsigned c = fh_class_of(SIZE), n = 0;
    for (size_t i = 0; i < FH_PLACES; i++)
        n += is_in(t->rack[c].previous, fh_place_near(t->bin[c].top, fh_last_place(t->bin, i)));
    return n;
}

/* Frees one block after the other until a magazine was handed over with both of the thread's own in reach. What they are is
 * different in each round. */
static unsigned look_with_both_in_reach(void) {
    fh_thread *t = fh_own();
    unsigned c = fh_class_of(SIZE), found = 0;
    for (int round = 0; round < 32 && !found; round++) {
        fill(BLOCKS);
        for (size_t i = 0; i < BLOCKS; i++) {
            uint64_t handed = t->to_depot;
            t_free(blocks[i]);
            if (found || t->to_depot == handed) continue;
            if (fh_in_same_reach(t->rack[c].loaded, t->rack[c].previous)) found = into_previous();
        }
    }
    return found;
}

static unsigned drop_and_look(const char *how) {
    uint64_t handed = fh_own()->to_depot;
    for (int round = 0; round < 4; round++) fill_and_drop(BLOCKS);
    CHECK(fh_own()->to_depot - handed >= 4 * BLOCKS / 1024, "few magazines went to the depot");
    unsigned elsewhere = strangers();
    printf("%s: %u of %u entries lead elsewhere than into the thread's own magazines\n", how, elsewhere, FH_PLACES);
    return elsewhere;
}

int main(void) {
    pthread_t other;
    CHECK(drop_and_look("alone") >= FH_PLACES / 2, "a thread that is alone forgets too");
    CHECK(pthread_create(&other, NULL, on_another_cpu, NULL) == 0 && pthread_join(other, NULL) == 0, "a second thread");
    unsigned elsewhere = drop_and_look("beside another CPU");
    CHECK(elsewhere <= FH_PLACES / 8, "%u entries lead into magazines of others", elsewhere);
    unsigned previous = look_with_both_in_reach();
    printf("%u lead into the one before the loaded one\n", previous);
    CHECK(previous >= 400, "%u entries lead into the full magazine: its blocks are forgotten", previous);
    return 0;
}
