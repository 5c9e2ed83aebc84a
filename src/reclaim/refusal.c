#include "reclaim/refusal.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/types.h"
#include "cache/observed.h"
#include "reclaim/budget.h"
#include "reclaim/limits.h"
#include "store/guarded.h"
#include "store/run.h"
#include "system/limits.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>

/* What is said by default, and what is not. A program at the end of its memory should not have to guess why, so one line
 * is the default. Programs that probe for memory on purpose ask for more than there can be, and those that set a limit of
 * their own by fh_limit_set know it: they get no line. Nor do those that have another file in the place of stderr. And a line comes once, because a program that continues after a
 * refusal usually meets the next. on_oom=report takes the two exceptions away, silent says nothing at all. */

#define OWN_LIMIT (FH_REFUSED_UNKNOWN + 1u) /* a bit of `said` beyond those of fh_refusal */

/* Bit i: limit i was reported. Set by the thread that reports it first; relaxed, because it guards nothing. */
static fh_word said;
static fh_word looked_second; /* when the OS was asked last, in units of 2^30 ns, plus 1 */

/* True for one caller, the first. */
static bool say_once(unsigned what) {
    FH_ASSERT(what <= OWN_LIMIT && OWN_LIMIT < 64);
    uint64_t seen = fh_load(&said), bit = UINT64_C(1) << what;
    while (!(seen & bit)) {
        if (fh_cas_relaxed(&said, &seen, seen | bit)) return true;
    }
    return false;
}

/* The OS's files are read at most once a second: a program may try again and again. */
static bool take_turn(void) {
    uint64_t now = fh_system_seconds() + 1, then = fh_load(&looked_second);
    return now != then && fh_cas_relaxed(&looked_second, &then, now);
}

/* ── The line ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void say(fh_text *t, const char *s) {
    fh_text_string(t, s);
}

/* " of 1 GiB is met: 1019.5 MiB are " … " and 4 MiB more were asked for; " */
static void say_met(fh_text *t, uint64_t limit, uint64_t used, const char *are, uint64_t more) {
    say(t, " of ");
    fh_text_size(t, limit);
    say(t, " is met: ");
    fh_text_size(t, used);
    say(t, are);
    fh_text_size(t, more);
    say(t, " more were asked for; ");
}

static void say_own_limit(fh_text *t, const fh_limit_figures *own) {
    say(t, "the program's own limit (option limit, fh_limit_set) of ");
    fh_text_size(t, own->hard);
    say(t, " is met: ");
    fh_text_size(t, own->in_use);
    say(t, " are in use, and a part is kept for the time after this message; raise it, or free something");
}

static void say_mappings(fh_text *t, const fh_system_limits *l) {
    say(t, "the number of mappings (vm.max_map_count) of ");
    fh_text_number(t, l->mappings_limit);
    say(t, " is met: there are ");
    fh_text_number(t, l->mappings);
    say(t, "; raise it with sysctl vm.max_map_count=N, or map less in pieces");
}

static void say_limit(fh_text *t, fh_refusal which, const fh_system_limits *l, uint64_t more) {
    switch (which) {
    case FH_REFUSED_TOO_LARGE:
        say(t, "the request itself is larger than the address space of a process; look for a size that was computed "
               "wrongly");
        break;
    case FH_REFUSED_ADDRESSES:
        say(t, "the limit on address space (ulimit -v, RLIMIT_AS)");
        say_met(t, l->address_limit, l->address_used, " are mapped, ", more);
        say(t, "raise it with ulimit -v, or take it away");
        break;
    case FH_REFUSED_DATA:
        say(t, "the limit on data (ulimit -d, RLIMIT_DATA)");
        say_met(t, l->data_limit, l->data_used, " are mapped writable, ", more);
        say(t, "raise it with ulimit -d, or take it away");
        break;
    case FH_REFUSED_MAPPINGS:
        say_mappings(t, l);
        break;
    case FH_REFUSED_COMMIT:
        say(t, "the machine's commit limit (vm.overcommit_memory=2)");
        say_met(t, l->commit_limit, l->commit_used, " are promised to all programs, ", more);
        say(t, "end something else, or raise vm.overcommit_ratio or swap");
        break;
    case FH_REFUSED_GUESS:
        say(t, "a single piece of ");
        fh_text_size(t, more);
        say(t, " is more than this machine's memory and swap of ");
        fh_text_size(t, l->machine_bytes);
        say(t, "; ask for less, or set vm.overcommit_memory=1 if most of it is never touched");
        break;
    case FH_REFUSED_WINDOW:
        say(t, "of the ");
        fh_text_size(t, FH_WINDOW_SIZE);
        say(t,
            " of addresses that a heap can have, no piece so long and so aligned is free; ask for less at once, or use "
            "several processes");
        break;
    case FH_REFUSED_UNKNOWN:
        say(t, "the kernel refused ");
        fh_text_size(t, more);
        say(t, " and none of the limits that can be read is met; perhaps the kernel itself is short of memory");
        break;
    }
}

/* In a container that is nearly full the other limits are rarely the reason why a program runs short. */
static void say_group(fh_text *t) {
    size_t limit, used;
    if (!fh_system_group_memory(&limit, &used) || fh_limit_judge(used, limit) == FH_PRESSURE_NONE) return;
    say(t, "; the control group (memory.max) is near its limit too: ");
    fh_text_size(t, used);
    say(t, " of ");
    fh_text_size(t, limit);
}

static void report(size_t n, const fh_limit_figures *own, fh_refusal which, const fh_system_limits *l, uint64_t more) {
    if (!fh_system_has_messages()) return;
    fh_run_settle(); /* so that it does not count as in use */
    char buffer[640];
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    say(&t, "no memory for a block of ");
    fh_text_size(&t, n);
    say(&t, ": ");
    if (own) {
        say_own_limit(&t, own);
    } else {
        say_limit(&t, which, l, more);
        say_group(&t);
    }
    say(&t, "; this heap has ");
    fh_text_size(&t, fh_charged_bytes());
    say(&t, " in use: ");
    if (fh_is_observing()) {
        say(&t, "freehold profile ");
        fh_text_number(&t, fh_system_pid());
    } else {
        say(&t, "freehold run PROGRAM");
    }
    say(&t, " shows by which call sites (option on_oom)");
    fh_line_write(&t);
}

/* ── Which limit ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What a block of n bytes takes when none is cached: a small one a slab, of one to eight slots. */
static size_t bytes_needed(size_t n) {
    return n <= FH_SMALL_MAX ? fh_class_table[fh_class_of(n)].slots * FH_SLOT_SIZE : n;
}

/* True if the own limit is why: it has refused something and the OS never has, or the block does not fit below it. The
 * figures alone would not do: other threads may have freed since, or be about to claim. */
static bool own_limit_is_met(const fh_limit_figures *own, size_t n) {
    if (!own->hard) return false;
    if (own->refusals && fh_system_refused_bytes() == 0) return true;
    size_t need = bytes_needed(n), most = own->hard - fh_limit_reserve(own->hard);
    return need > most || own->in_use > most - need;
}

/* The OS refused. What it was asked for last is more than the block: a chunk, or room to align it. */
static void ask_system(size_t n, bool always) {
    /* More than there are addresses is more than the machine has. */
    if ((!always && n >= FH_ADDRESSES) || !take_turn()) return;
    fh_system_limits limits;
    fh_system_limits_now(&limits);
    if (!always && limits.machine_bytes && n > limits.machine_bytes) return;
    uint64_t refused = n >= FH_ADDRESSES ? n : fh_system_refused_bytes(), more = refused > n ? refused : n;
    fh_refusal which = fh_refusal_judge(&limits, more);
    if (which == FH_REFUSED_UNKNOWN && fh_system_refused_bytes() == 0) which = FH_REFUSED_WINDOW;
    if (say_once(which)) report(n, NULL, which, &limits, more);
}

void fh_refusal_report(size_t n) {
    uint64_t on_oom = FH_SETTING(on_oom);
    if (on_oom == FH_ON_OOM_SILENT) return;
    int saved = errno;
    bool always = on_oom == FH_ON_OOM_REPORT;
    fh_limit_figures own = fh_limits_now();
    if (own_limit_is_met(&own, n)) {
        if ((always || !own.by_program) && say_once(OWN_LIMIT)) report(n, &own, FH_REFUSED_UNKNOWN, NULL, 0);
    } else {
        ask_system(n, always);
    }
    errno = saved;
}
