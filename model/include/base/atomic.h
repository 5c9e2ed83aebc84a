/* The model's stand-in for src/base/atomic.h: the same functions, each of which asks the explorer before it happens. The
 * C files of the library see this header because its folder comes first in the include path; they are not changed.
 *
 * The memory orders are numbers that the Rust side turns into loom's. */
#ifndef FH_BASE_ATOMIC_H
#define FH_BASE_ATOMIC_H

#include "base/cpu.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t value;
} fh_word;

/* A byte of the class map. */
typedef struct {
    uint8_t value;
} fh_byte;

enum { FH_MODEL_RELAXED, FH_MODEL_ACQUIRE, FH_MODEL_RELEASE, FH_MODEL_ACQ_REL };
enum { FH_MODEL_OR, FH_MODEL_AND, FH_MODEL_ADD, FH_MODEL_SUB, FH_MODEL_SWAP };

/* What the explorer provides. A table, so that each mutant of the core is a shared object of its own. */
typedef struct {
    uint64_t (*load)(const fh_word *w, int order);
    void (*store)(fh_word *w, uint64_t v, int order);
    uint64_t (*change)(fh_word *w, int operation, uint64_t v, int order);
    bool (*cas)(fh_word *w, uint64_t *seen, uint64_t v, int success, int failure);
    uint8_t (*load_byte)(const fh_byte *b);
    void (*store_byte)(fh_byte *b, uint8_t v);
    void (*fence)(void);
    unsigned (*near)(void);
    unsigned (*number)(void); /* of the calling thread */
    struct fh_thread **(*own)(
        void);            /* what is thread-local: the cache's pointer, and two words of an observed thread */
    bool (*allows)(void); /* does the system give memory this time? */
    bool (*counts)(void); /* does it count address space? */
    int (*move)(void);    /* what does it say to a move of pages? An fh_move. */
    void (*plain)(uintptr_t address, uint64_t bytes, int writes);
    void *(*map)(uint64_t size, uint64_t align);
    void (*fault)(int fault, const void *p);
    void (*violated)(const char *name, const char *text, uint64_t at, uint64_t found);
} fh_model_hooks;

extern const fh_model_hooks *fh_model;

static inline uint8_t fh_byte_load(const fh_byte *b) {
    return fh_model->load_byte(b);
}
static inline void fh_byte_store(fh_byte *b, uint8_t v) {
    fh_model->store_byte(b, v);
}
static inline uint64_t fh_load(const fh_word *w) {
    return fh_model->load(w, FH_MODEL_RELAXED);
}
static inline uint64_t fh_load_acquire(const fh_word *w) {
    return fh_model->load(w, FH_MODEL_ACQUIRE);
}
static inline void fh_store(fh_word *w, uint64_t v) {
    fh_model->store(w, v, FH_MODEL_RELAXED);
}
static inline void fh_store_release(fh_word *w, uint64_t v) {
    fh_model->store(w, v, FH_MODEL_RELEASE);
}
static inline bool fh_cas_acquire(fh_word *w, uint64_t *seen, uint64_t v) {
    return fh_model->cas(w, seen, v, FH_MODEL_ACQUIRE, FH_MODEL_ACQUIRE);
}
static inline bool fh_cas_acq_rel(fh_word *w, uint64_t *seen, uint64_t v) {
    return fh_model->cas(w, seen, v, FH_MODEL_ACQ_REL, FH_MODEL_ACQUIRE);
}
static inline bool fh_cas_relaxed(fh_word *w, uint64_t *seen, uint64_t v) {
    return fh_model->cas(w, seen, v, FH_MODEL_RELAXED, FH_MODEL_RELAXED);
}
static inline uint64_t fh_or_relaxed(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_OR, bits, FH_MODEL_RELAXED);
}
static inline uint64_t fh_and_relaxed(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_AND, bits, FH_MODEL_RELAXED);
}
static inline uint64_t fh_or_release(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_OR, bits, FH_MODEL_RELEASE);
}
static inline uint64_t fh_or_acq_rel(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_OR, bits, FH_MODEL_ACQ_REL);
}
static inline uint64_t fh_and_acq_rel(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_AND, bits, FH_MODEL_ACQ_REL);
}
static inline uint64_t fh_add_relaxed(fh_word *w, uint64_t n) {
    return fh_model->change(w, FH_MODEL_ADD, n, FH_MODEL_RELAXED);
}
static inline uint64_t fh_sub_relaxed(fh_word *w, uint64_t n) {
    return fh_model->change(w, FH_MODEL_SUB, n, FH_MODEL_RELAXED);
}
static inline uint64_t fh_add_acq_rel(fh_word *w, uint64_t n) {
    return fh_model->change(w, FH_MODEL_ADD, n, FH_MODEL_ACQ_REL);
}
static inline uint64_t fh_sub_release(fh_word *w, uint64_t n) {
    return fh_model->change(w, FH_MODEL_SUB, n, FH_MODEL_RELEASE);
}
static inline uint64_t fh_swap_acq_rel(fh_word *w, uint64_t v) {
    return fh_model->change(w, FH_MODEL_SWAP, v, FH_MODEL_ACQ_REL);
}
static inline uint64_t fh_sub_acq_rel(fh_word *w, uint64_t n) {
    return fh_model->change(w, FH_MODEL_SUB, n, FH_MODEL_ACQ_REL);
}
static inline bool fh_bit_set(fh_word *w, unsigned i) {
    return fh_or_acq_rel(w, UINT64_C(1) << i) >> i & 1;
}
static inline bool fh_bit_clear(fh_word *w, unsigned i) {
    return fh_and_acq_rel(w, ~(UINT64_C(1) << i)) >> i & 1;
}

/* Only the mutants use these: a publication that forgets its release, and an update that can be lost. */
static inline uint64_t fh_model_or_relaxed(fh_word *w, uint64_t bits) {
    return fh_model->change(w, FH_MODEL_OR, bits, FH_MODEL_RELAXED);
}
static inline uint64_t fh_model_or_lossy(fh_word *w, uint64_t bits) {
    uint64_t before = fh_load(w);
    fh_store_release(w, before | bits);
    /* A locked instruction that changes nothing, so that only the lost update is wrong and not the barrier after it. */
    fh_add_relaxed(w, 0);
    return before;
}

#endif
