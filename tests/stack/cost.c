/* What a frame costs: cost DEPTH WALKS takes the stack WALKS times under DEPTH functions; cost.py counts its instructions. With
 * a third argument it also says how many nanoseconds a frame took. */
#include "../support/check.h"
#include "observe/unwind/stack.h"

#define MOST 512

static unsigned walks;
static volatile unsigned sink;

__attribute__((noinline)) static void take(void) {
    uintptr_t out[MOST];
    bool whole;
    for (unsigned i = 0; i < walks; i++) sink += fh_stack_walk(out, MOST, __builtin_frame_address(0), &whole);
}

/* Two functions in turn, with frames of different sizes: so that it is not always the same rule. */
__attribute__((noinline)) static unsigned other(unsigned depth);

__attribute__((noinline)) static unsigned one(unsigned depth) {
    volatile char room[100];
    room[0] = 1;
    if (depth == 0) {
        take();
        return 0;
    }
    return other(depth - 1) + (unsigned)room[0];
}

static unsigned other(unsigned depth) {
    volatile unsigned kept = depth;
    if (depth == 0) {
        take();
        return 0;
    }
    return one(depth - 1) + kept;
}

static double nanoseconds(unsigned depth) {
    double begun = seconds_now();
    sink += one(depth);
    return (seconds_now() - begun) * 1e9 / walks;
}

int main(int arguments, char **argument) {
    CHECK(arguments >= 3, "cost DEPTH WALKS");
    walks = (unsigned)atoi(argument[2]);
    unsigned depth = (unsigned)atoi(argument[1]);
    if (arguments == 3) {
        sink += one(depth);
        return 0;
    }
    /* The best of each, as whatever else runs here only ever adds. */
    double deep = 1e12, flat = 1e12;
    for (unsigned i = 0; i < 20; i++) {
        double now = nanoseconds(depth);
        if (now < deep) deep = now;
        now = nanoseconds(depth / 2);
        if (now < flat) flat = now;
    }
    double best = (deep - flat) / (depth - depth / 2);
    printf("%.1f ns a frame, at best of 20\n", best);
    return 0;
}
