/* Stands in front of the library's base/atomic.h in the builds of this folder: the same functions, and before each of their
 * calls a step that the test knows of. A step is named by file, function, line and operation, and is entered into a section
 * of its own, so that the linker makes the list of all of them: a new one cannot be forgotten. */
#ifndef FREEHOLD_PROOF_ATOMIC_H
#define FREEHOLD_PROOF_ATOMIC_H

#include "../../../../src/base/atomic.h"

typedef struct {
    const char *file;
    const char *function;
    const char *operation;
    int line;
    int locked; /* a locked instruction, on x86-64 */
    unsigned long hits;
} fh_proof_site;

/* Called before each atomic operation of the library. The test program defines it. */
void fh_proof_step(fh_proof_site *site, const void *word, int writes);

#define FH_PROOF_STEP(name, word, is_locked, writes)                                                                   \
    __extension__({                                                                                                    \
        static fh_proof_site site __attribute__((section("fh_proof_sites"), used, aligned(8))) = {                     \
            __FILE__, __func__, name, __LINE__, is_locked, 0};                                                         \
        fh_proof_step(&site, (word), (writes));                                                                        \
    })

#define fh_load(w) (FH_PROOF_STEP("load", w, 0, 0), (fh_load)(w))
#define fh_load_acquire(w) (FH_PROOF_STEP("load_acquire", w, 0, 0), (fh_load_acquire)(w))
#define fh_store(w, v) (FH_PROOF_STEP("store", w, 0, 1), (fh_store)(w, v))
#define fh_store_release(w, v) (FH_PROOF_STEP("store_release", w, 0, 1), (fh_store_release)(w, v))
#define fh_cas_acquire(w, s, v) (FH_PROOF_STEP("cas_acquire", w, 1, 1), (fh_cas_acquire)(w, s, v))
#define fh_cas_acq_rel(w, s, v) (FH_PROOF_STEP("cas_acq_rel", w, 1, 1), (fh_cas_acq_rel)(w, s, v))
#define fh_cas_relaxed(w, s, v) (FH_PROOF_STEP("cas_relaxed", w, 1, 1), (fh_cas_relaxed)(w, s, v))
#define fh_or_relaxed(w, v) (FH_PROOF_STEP("or_relaxed", w, 1, 1), (fh_or_relaxed)(w, v))
#define fh_and_relaxed(w, v) (FH_PROOF_STEP("and_relaxed", w, 1, 1), (fh_and_relaxed)(w, v))
#define fh_or_release(w, v) (FH_PROOF_STEP("or_release", w, 1, 1), (fh_or_release)(w, v))
#define fh_or_acq_rel(w, v) (FH_PROOF_STEP("or_acq_rel", w, 1, 1), (fh_or_acq_rel)(w, v))
#define fh_and_acq_rel(w, v) (FH_PROOF_STEP("and_acq_rel", w, 1, 1), (fh_and_acq_rel)(w, v))
#define fh_add_relaxed(w, v) (FH_PROOF_STEP("add_relaxed", w, 1, 1), (fh_add_relaxed)(w, v))
#define fh_sub_relaxed(w, v) (FH_PROOF_STEP("sub_relaxed", w, 1, 1), (fh_sub_relaxed)(w, v))
#define fh_add_acq_rel(w, v) (FH_PROOF_STEP("add_acq_rel", w, 1, 1), (fh_add_acq_rel)(w, v))
#define fh_sub_acq_rel(w, v) (FH_PROOF_STEP("sub_acq_rel", w, 1, 1), (fh_sub_acq_rel)(w, v))
#define fh_bit_set(w, i) (FH_PROOF_STEP("bit_set", w, 1, 1), (fh_bit_set)(w, i))
#define fh_bit_clear(w, i) (FH_PROOF_STEP("bit_clear", w, 1, 1), (fh_bit_clear)(w, i))
#define fh_sub_release(w, v) (FH_PROOF_STEP("sub_release", w, 1, 1), (fh_sub_release)(w, v))
#define fh_swap_acq_rel(w, v) (FH_PROOF_STEP("swap_acq_rel", w, 1, 1), (fh_swap_acq_rel)(w, v))

#endif
