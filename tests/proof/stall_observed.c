/* Scenarios of stall.c in which the program is observed: samples, sites, the shared page, figures, metrics. */
#include "stall.h"

#include "observe/nodes.h"
#include "observe/profile_file.h"
#include "observe/sites.h"

void stall_ask_figures(void) {
    static char text[1 << 16];
    CHECK(fh_stats_json(text, sizeof text) > 100, "no figures");
    CHECK(fh_stats_metrics(text, sizeof text) > 100, "no figures");
    fh_mallinfo2();
}

void stall_begin_to_observe(void) {
    fh_option_set("page", stall_folder);
    fh_option_set("sample", "16k");
    fh_option_set("observe", "1");
}

static void be_observed(void) {
    static bool metrics; /* once it is set it stays */
    static char path[300];
    snprintf(path, sizeof path, "%s/metrics", stall_folder);
    if (!metrics) metrics = fh_option_set("metrics", path) == 0;
    static void *block[3000];
    for (unsigned repeat = 0; repeat < 3; repeat++) {
        for (unsigned i = 0; i < 3000; i++) block[i] = get(500);
        for (unsigned i = 0; i < 3000; i++) drop(block[i], 500);
        stall_live += 9000000;
        void *p = fh_malloc(40000);
        static const size_t steps[] = {40900, 39000, 100000, 120000, 90000, 1500000, 3000000, 6000000, 2800000};
        for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) p = fh_realloc(p, steps[i]);
        fh_free(p);
        stall_live -= 9000000;
        some_seconds_pass(2);
        stall_ask_figures();
    }
}

/* More live samples than the first tables have room for; then the file cannot grow any more. */
static void fill_the_tables(void) {
    enum { BLOCKS = 60000 };
    static void *block[BLOCKS];
    fh_option_set("sample", "16");
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS / 2) stall_faults = STALL_SHARE;
        block[i] = get(64);
    }
    stall_faults = 0;
    for (unsigned i = 0; i < BLOCKS; i++) drop(block[i], 64);
}

/* Figures are taken sooner when much has changed. */
static void grow_in_short_steps(void) {
    static void *block[100];
    fh_option_set("sample", "512k");
    for (unsigned i = 0; i < 100; i++) {
        stall_clock += 15000000;
        block[i] = get(150000);
        for (unsigned k = 0; k < 40; k++) drop(get(1200000), 1200000);
    }
    for (unsigned i = 0; i < 100; i++) drop(block[i], 150000);
}

void stall_observed_once(void) {
    stall_begin_to_observe();
    be_observed();
    CHECK(fh_nodes_bytes() + fh_sites_bytes() > 0, "nothing is known");
    fh_profile_end();
}

void stall_observed_much(void) {
    stall_begin_to_observe();
    fill_the_tables();
    grow_in_short_steps();
}

void stall_observed_child(void) {
    some_seconds_pass(1);
    be_observed();
    some_seconds_pass(1);
    be_observed();
}

void stall_observed_before_fork(void) {
    stall_begin_to_observe();
    be_observed();
}

void stall_two_observed(void) {
    drop(get(40000), 40000);
}
