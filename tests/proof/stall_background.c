/* Scenarios of stall.c with purge=background. The victim makes the library's own thread and then does that thread's work
 * itself, as only the victim's steps are steps at which one can be parked: the linker puts the functions below in front of
 * those that make a thread and let it wait. */
#include "stall.h"

#include "base/types.h"
#include "reclaim/background.h"
#include "system/system.h"

static void (*thread_to_run)(void);
static bool no_thread_is_left;
static unsigned waits;

bool __wrap_fh_system_thread_start(void (*run)(void));
bool __wrap_fh_system_thread_start(void (*run)(void)) {
    thread_to_run = run;
    return !no_thread_is_left;
}

static void up_and_down(void) {
    static void *block[24];
    for (unsigned i = 0; i < 24; i++) block[i] = get(1000000);
    for (unsigned i = 0; i < 24; i++) drop(block[i], 1000000);
    drop(get(5000000), 5000000);
}

/* Looks follow each other at once. The thread is woken by new free memory when it has gone to sleep, and after some more
 * looks the program ends. A wait for ever that nobody ends would show as a scenario that takes too long. */
void __wrap_fh_system_wait(const fh_word *word, uint64_t value, uint64_t nanoseconds);
void __wrap_fh_system_wait(const fh_word *word, uint64_t value, uint64_t nanoseconds) {
    (void)word, (void)nanoseconds;
    waits++;
    if (value == FH_BACKGROUND_ASLEEP || waits == 3) up_and_down();
    if (waits == 40) fh_background_end();
}

static void begin(void) {
    fh_background_allow();
    fh_option_set("purge", "background");
    up_and_down();
    /* Blocks of which most are freed, so that there is something inside of slabs. */
    static void *block[8000];
    for (unsigned i = 0; i < 8000; i++) block[i] = get(2000);
    for (unsigned i = 0; i < 8000; i++) {
        if (i % 100) drop(block[i], 2000);
    }
    for (unsigned i = 0; i < 8000; i += 100) drop(block[i], 2000);
}

void stall_background(void) {
    waits = 0;
    begin();
    CHECK(thread_to_run, "no thread was made");
    thread_to_run();
}

void stall_background_without_thread(void) {
    no_thread_is_left = true;
    begin();
    up_and_down();
}

void stall_no_background(void) {
    fh_option_set("purge", "budget");
}
