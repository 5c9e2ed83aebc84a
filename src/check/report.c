#include "check/report.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/text.h"
#include "system/report.h"
#include "system/system.h"

/* In the order of fh_equation. No pointers, which each process would relocate at its start. */
static const struct {
    char name[16], text[112];
} equations[] = {
    {"slot.free", "a free slot has no state and no bits"},
    {"slot.overlap", "a slot is free or belongs to one thing"},
    {"slot.lost", "every slot is free or part of something"},
    {"slot.class", "the class byte of a slot is the class of what it is part of"},
    {"slab.state", "a state names a class or a run that fits where it begins"},
    {"slab.bump", "bump is at least 1 and at most the blocks of the slab"},
    {"slab.beyond", "no bit beyond bump is set"},
    {"slab.count", "the count of a slab is below what sets its hint"},
    {"slab.hint", "a slab with something to take has its hint"},
    {"slab.short", "only of a sampled block that is handed out the program has less than all"},
    {"slab.live",
     "of a hardened slab's blocks none is free that the program has, and none is its that was not handed out"},
    {"holes.joined", "a part is joined to the one before only in a guest"},
    {"holes.empty", "of the borrowed slabs one at most is all free"},
    {"chunk.dirty", "a slot with memory behind it was used"},
    {"chunk.lost", "a chunk without memory has nothing in it"},
    {"chunk.over", "a chunk names the run that is over its first slot"},
    {"chunk.pieces", "only a chunk with moved pages counts moves of them"},
    {"edge.pages", "a page of an edge is free or a large block's"},
    {"edge.empty", "an edge is a part of some block"},
    {"edge.clean", "a page of an edge that was never handed out is free"},
    {"hint.tree", "the bit above a word that is not 0 is set"},
    {"hint.length", "a chunk with a free run is in the bucket of its length"},
    {"count.dirty", "the number of dirty slots is what the chunks say"},
    {"count.used", "the number of used slots is what slabs and runs have"},
    {"count.lost", "the number of lost chunks is what the regions say"},
    {"count.kept", "a run without a block is the one that is kept"},
    {"magazine.valid", "a magazine is a block of its class, handed out, with that class's capacity"},
    {"magazine.count", "a magazine has no more blocks than its capacity"},
    {"magazine.block", "what is in a magazine is a block of its class that is handed out"},
    {"magazine.twice", "a block is in one magazine at most"},
    {"magazine.shared", "a magazine is in one place only"},
    {"magazine.lost", "every magazine handed out is in a cache or a depot"},
    {"depot.slot", "a full magazine of a depot has blocks, an empty one has none"},
    {"depot.full", "as many slots of a depot are full as it says"},
    {"cache.state", "a cache that is handed out is at rest, one that is not is dead"},
    {"cache.parked", "a cache is parked where the next thread looks, and nowhere else"},
    {"cache.bin", "the top of a bin is within its magazine, and below the end"},
    {"cache.limit", "a bin with a magazine has a limit"},
    {"cache.budget", "the budget used by a cache is the sum of what its bins may hold"},
    {"limit.pending", "nothing is being admitted"},
};
_Static_assert(sizeof equations / sizeof equations[0] == FH_EQUATIONS, "a name for each equation");

const char *fh_equation_name(fh_equation e) {
    return equations[e].name;
}

const char *fh_equation_text(fh_equation e) {
    FH_ASSERT(!equations[e].name[sizeof equations[e].name - 1] && !equations[e].text[sizeof equations[e].text - 1]);
    return equations[e].text;
}

/* In ruins there may be millions, and the first ones say it. */
#define MOST_SAID 100u

void fh_check_violated(fh_verification *check, fh_violation v) {
    check->violated++;
    if (check->found && check->violated <= MOST_SAID) check->found(&v);
}

static void say_number(fh_text *t, const char *before, uint64_t n) {
    fh_text_string(t, before);
    fh_text_number(t, n);
}

static void say_place(fh_text *t, const fh_violation *v) {
    switch (v->place) {
    case FH_PLACE_HEAP:
        break;
    case FH_PLACE_CHUNK:
        say_number(t, ": chunk ", v->at);
        break;
    case FH_PLACE_SLOT:
        say_number(t, ": slot ", v->at);
        say_number(t, " of chunk ", v->at / FH_CHUNK_SLOTS);
        break;
    case FH_PLACE_HINT:
        say_number(t, ": hint ", v->c);
        say_number(t, ", child ", v->at);
        return;
    case FH_PLACE_ADDRESS:
        fh_text_string(t, ": at ");
        fh_text_hex(t, v->at);
        break;
    }
    if (v->c == 0) return;
    say_number(t, ", class ", v->c);
    if (v->c >= FH_CLASSES || fh_class_size(v->c) == 0) return;
    say_number(t, " of ", fh_class_size(v->c));
    fh_text_string(t, " bytes");
}

void fh_check_say(const fh_violation *v) {
    char buffer[320];
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    fh_text_string(&t, "verify: ");
    fh_text_string(&t, fh_equation_name(v->equation));
    fh_text_string(&t, " violated: ");
    fh_text_string(&t, fh_equation_text(v->equation));
    say_place(&t, v);
    fh_text_string(&t, ": found ");
    fh_text_hex(&t, v->found);
    fh_text_string(&t, ", expected ");
    fh_text_hex(&t, v->expected);
    fh_line_write(&t);
}
