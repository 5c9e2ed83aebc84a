/* A program whose phases take turns: many small blocks, then many of another size, then the first ones again. One in eight
 * stays until its size comes back. A size without demand is a cold class after a phase: what it holds is purged, and its holes
 * are opened to the other size (src/reclaim/cold.h, src/store/holes.h). Then there is demand for it again. So a class that
 * comes back has to be without demand for twice as many rounds the next time. In the end such a program runs as if nothing
 * were ever purged. System calls are counted, because they are the same on every machine. With an argument, CPU times are
 * printed too. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <time.h>

enum { TURNS = 32, VOLUME = 48 << 20, STAYS = 8, MOST = VOLUME / 40 };
static const size_t smallest[2] = {40, 200}, largest[2] = {160, 600};

static char *blocks[MOST], *stayed[2][MOST];
static size_t stayed_count[2];

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void turn(int number, uint64_t *random) {
    int which = number % 2;
    size_t count = 0;
    while (stayed_count[which]) t_free(stayed[which][--stayed_count[which]]);
    for (size_t made = 0; made < VOLUME; count++) {
        size_t size = smallest[which] + random_below(random, largest[which] - smallest[which]);
        CHECK((blocks[count] = t_malloc(size)) != NULL, "malloc(%zu): NULL", size);
        memset(blocks[count], 1, size);
        made += size;
    }
    for (size_t i = 0; i < count; i++) {
        if (random_below(random, STAYS) == 0) {
            stayed[which][stayed_count[which]++] = blocks[i];
        } else {
            t_free(blocks[i]);
        }
    }
}

/* Calls that have given memory back so far. */
static unsigned long purges(void) {
#ifdef T_EMBED
    static char text[200000];
    const char *place = fh_stats_json(text, sizeof text) < sizeof text ? strstr(text, "\"purge_calls\":") : NULL;
    CHECK(place != NULL, "no purge_calls among the figures");
    return strtoul(place + strlen("\"purge_calls\":"), NULL, 10);
#else
    return 0;
#endif
}

int main(int argc, char **argv) {
    (void)argv;
    uint64_t random = 1;
    unsigned long begun = purges(), first = 0;
    double last = seconds();
    for (int i = 0; i < TURNS; i++) {
        if (i == TURNS / 2) first = purges() - begun;
        turn(i, &random);
        if (argc == 1) continue;
        printf("turn %d: %.3f s, %zu MiB resident\n", i, seconds() - last, resident_bytes() >> 20);
        last = seconds();
    }
    unsigned long second = purges() - begun - first;
    printf("%lu calls in the first half, %lu in the second; %zu MiB resident\n", first, second, resident_bytes() >> 20);
    CHECK(second <= 8 + first / 8, "memory goes back and is wanted again, turn by turn");
    return 0;
}
