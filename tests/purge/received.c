/* A server that reads each piece into 256 KiB, shrinks that to what came, and keeps the last three hundred. A block that shrinks
 * where it is leaves a piece that no block of 256 KiB fits into: then the next one takes new memory each time, and what is
 * resident is twice what the program has. With an argument it prints the time of a turn too. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <time.h>

enum { KEPT = 300, PIECE = 256 * 1024 + 33, CAME = 100000, TURNS = 12000, LOOK = 100 };

static char *kept[KEPT];

/* What came is still there after the block has shrunk: its first and its last byte say which turn it was. */
static void check(const char *p, size_t turn) {
    CHECK(!p || (p[0] == p[CAME - 1] && p[CAME / 2] == 1), "turn %zu: a body has changed", turn);
}

int main(int count, char **arguments) {
    (void)arguments;
    uint64_t random = 5;
    size_t before = resident_bytes(), peak = 0;
    for (size_t turn = 0; turn < TURNS; turn++) {
        char **place = &kept[turn < KEPT ? turn : random_below(&random, KEPT)], *p = t_malloc(PIECE);
        CHECK(p, "malloc: NULL");
        memset(p, 1, CAME);
        p[0] = p[CAME - 1] = (char)turn;
        p = t_realloc(p, CAME);
        CHECK(p, "realloc: NULL");
        check(*place, turn);
        t_free(*place);
        *place = p;
        if (turn % LOOK) continue;
        size_t now = resident_bytes();
        if (now > peak) peak = now;
    }
    if (count > 1) printf("%.1f us a turn\n", (double)clock() / CLOCKS_PER_SEC * 1e6 / TURNS);
    size_t live = (size_t)KEPT * CAME, most = live + live / 4;
    printf("%d bodies of %d bytes: at most %.1f MiB\n", KEPT, CAME, (double)(peak - before) / 1048576);
    CHECK(peak - before >= live, "the bodies are not there");
    CHECK(peak - before <= most, "%zu MiB at once, of %zu in use", (peak - before) >> 20, live >> 20);
    return 0;
}
