/* What scenarios call of the quarantine: headers of checked blocks, without the blocks. */
#include "base/settings.h"
#include "misuse/quarantine.h"

#define BLOCKS 6u
#define SIZE 100u

/* Never written to: several explorations use them at once. All are of one size. */
static fh_checked heads[BLOCKS] = {{.size = SIZE}, {.size = SIZE}, {.size = SIZE},
                                   {.size = SIZE}, {.size = SIZE}, {.size = SIZE}};

void fh_model_begin_quarantine(size_t limit) {
    fh_settings.quarantine.value = limit;
    fh_quarantine_start();
}

void *fh_model_quarantined(unsigned i) {
    return &heads[i % BLOCKS];
}

void fh_model_quarantine_put(unsigned i, void (*leave)(fh_checked *h)) {
    fh_quarantine_put(&heads[i % BLOCKS], leave);
}

/* quarantine.c's own: ring, head, tail, bytes. Made visible by build.rs. */
fh_word *fh_model_quarantine_word(unsigned i);

/* Which blocks wait, a bit for each; NULL in *wrong, or what does not fit together. */
uint64_t fh_model_quarantine_books(const char **wrong) {
    const fh_word *slots = (const fh_word *)(uintptr_t)fh_load(fh_model_quarantine_word(0));
    uint64_t end = fh_load(fh_model_quarantine_word(1)), from = fh_load(fh_model_quarantine_word(2)), seen = 0, all = 0;
    *wrong = NULL;
    if (!slots) return 0;
    if (end > FH_QUARANTINE_SLOTS && from < end - FH_QUARANTINE_SLOTS) from = end - FH_QUARANTINE_SLOTS;
    for (uint64_t i = 0; i < FH_QUARANTINE_SLOTS; i++) {
        uint64_t entry = fh_load(&slots[i]);
        if (!entry) continue;
        uint64_t bit = UINT64_C(1) << ((fh_checked *)(uintptr_t)(entry >> 20 << 4) - heads);
        if (seen & bit) *wrong = "a block waits twice";
        seen |= bit;
        all += (entry & 0xFFFFF) * 64;
        bool passed = true;
        for (uint64_t at = from; at < end; at++) passed = passed && at % FH_QUARANTINE_SLOTS != i;
        if (passed) *wrong = "a block waits at a place that was passed";
    }
    if (all != fh_load(fh_model_quarantine_word(3)))
        *wrong = "the bytes that wait are not those of the blocks that wait";
    return seen;
}
