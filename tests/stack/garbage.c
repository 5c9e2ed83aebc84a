/* A walk over garbage must never fault: random registers, random stacks with a page behind them that cannot be read, random
 * addresses out of real code, and unwind information with random bytes changed. What comes out does not matter, as long as it
 * comes out within bounds. */
#include "../support/check.h"

#include "observe/unwind/modules.h"
#include "observe/unwind/stack.h"
#include "observe/unwind/index.h"
#include "observe/unwind/rule.h"

#include <signal.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PAGES 16u

static uint64_t state;

/* Something that looks like what lies on stacks, of each kind some. */
static uintptr_t any_word(char *low, size_t bytes) {
    const uintptr_t anchors[] = {(uintptr_t)&printf, (uintptr_t)&qsort, (uintptr_t)&any_word};
    switch (random_below(&state, 6)) {
    case 0:
        return random_next(&state);
    case 1:
        return anchors[random_below(&state, 3)] + random_below(&state, 20000);
    case 2: /* a stack address, mostly aligned */
        return (uintptr_t)low +
               (random_below(&state, bytes + 512) & (random_below(&state, 8) ? ~UINT64_C(7) : ~UINT64_C(0)));
    case 3: /* the real stack */
        return (uintptr_t)&low + random_below(&state, 8192);
    case 4:
        return random_below(&state, 300) - 100;
    default:
        return anchors[2] + random_below(&state, 3000);
    }
}

static void walk_garbage(char *low, size_t bytes) {
    uintptr_t *words = (uintptr_t *)low, out[40];
    size_t count = bytes / sizeof *words;
    for (size_t i = 0; i < count; i++) words[i] = any_word(low, bytes);
    for (unsigned i = 0; i < 50; i++) {
        bool whole;
        unsigned most = (unsigned)random_below(&state, 33);
        memset(out, 0x55, sizeof out);
        unsigned n = fh_stack_walk(out, most, words + random_below(&state, count - 1), &whole);
        CHECK(n <= most, "%u of at most %u", n, most);
        for (unsigned k = most; k < 40; k++) CHECK(out[k] == UINT64_C(0x5555555555555555), "written behind the end");
    }
}

/* Real entries, copied, with bytes changed, under addresses that they may or may not describe. */
static void read_garbage(uintptr_t frames, size_t bytes, char *room) {
    size_t from = random_below(&state, bytes / 2), n = 64 + random_below(&state, PAGES / 2 * PAGE);
    if (n > bytes - from) n = bytes - from;
    char *copy = room + PAGES * PAGE - n; /* up to the page that cannot be read */
    CHECK(fh_system_peek(copy, frames + from, n) == n, "the copy");
    uintptr_t at = (uintptr_t)copy, end = at + n;
    unsigned changes = (unsigned)random_below(&state, 40);
    for (unsigned i = 0; i < changes; i++) copy[random_below(&state, n)] = (char)random_next(&state);
    for (unsigned i = 0; i < 20; i++) {
        uintptr_t entry = at + random_below(&state, n),
                  limit = random_below(&state, 4) ? end : end + random_below(&state, 9999);
        /* Some of it read as memory, which ends where the page begins that cannot be read. */
        uintptr_t begin = at + random_below(&state, n), rest = random_below(&state, end - begin);
        const fh_tables tables = {limit, {begin, random_below(&state, 2) ? end : begin + rest}};
        uintptr_t address = at + random_below(&state, 100000) - 50000;
        fh_rule rule = fh_rule_at(entry, &tables, address);
        CHECK(rule.module == 0 && rule.after_call == 0, "bits that are not the entry's");
        (void)fh_unwind_by_header(entry, &tables, address);
    }
    fh_unwind_index *index = fh_unwind_index_make(at, at, end);
    if (!index) return;
    for (size_t i = 1; i < index->count; i++) CHECK(index->place[i - 1] <= index->place[i], "sorted");
    (void)fh_unwind_by_index(index, at + random_below(&state, 100000));
    munmap(index, index->bytes);
}

/* The rule by the module's tables, whatever way they are read. */
static fh_rule rule_of(const fh_image *image, const fh_tables *tables, uintptr_t at) {
    uintptr_t entry = fh_unwind_by_header(image->frames_index, tables, at);
    return entry ? fh_rule_at(entry, tables, at) : (fh_rule){.bits = 0};
}

/* Every function of the C library, at an address in its middle: mostly rules, and none of them out of bounds. */
static void read_all_of_libc(void) {
    /* The loader's word names a module; that all of it is mapped, the list of mappings says. */
    fh_modules_refresh();
    unsigned number = fh_module_learn((uintptr_t)&qsort), known = 0, all = 0;
    CHECK(number < FH_MODULES_MOST, "the C library is no module");
    const fh_module *module = fh_module_at(number);
    const fh_image *image = &module->image;
    const fh_tables memory = {image->limit, fh_module_lasting(module, image->frames_index)},
                    copied = {.limit = image->limit};
    for (uintptr_t at = image->begin; at < image->end; at += 61) {
        fh_rule rule = rule_of(image, &memory, at);
        CHECK(all % 8 || rule_of(image, &copied, at).bits == rule.bits, "read as memory, or copied: not the same rule");
        all++;
        known += rule.kind == FH_RULE_TABLE || rule.kind == FH_RULE_END;
    }
    printf("of %u addresses of the C library, %u have a rule\n", all, known);
    CHECK(memory.lasting.end > image->frames_index, "the C library's tables are not read as memory");
    CHECK(known > all * 9 / 10, "only %u of %u addresses have a rule", known, all);
}

int main(void) {
    state = random_seed();
    char *room = mmap(NULL, (PAGES + 2) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED, "no memory");
    CHECK(mprotect(room, PAGE, PROT_NONE) == 0 && mprotect(room + (PAGES + 1) * PAGE, PAGE, PROT_NONE) == 0,
          "mprotect");
    room += PAGE;
    read_all_of_libc();
    const fh_image *image = &fh_module_at(fh_module_learn((uintptr_t)&qsort))->image;
    double end = seconds_now() + test_seconds(5);
    unsigned rounds = 0;
    for (; seconds_now() < end; rounds++) {
        walk_garbage(room, PAGES * PAGE);
        read_garbage(image->frames_index, image->limit - image->frames_index - PAGES * PAGE, room);
    }
    printf("%u walks over garbage, %u damaged pieces of unwind information\n", rounds * 50, rounds);
    CHECK(rounds > 20, "only %u rounds", rounds);
    return 0;
}
