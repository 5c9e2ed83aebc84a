#include "api/options.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/types.h"
#include "reclaim/background.h"
#include "reclaim/limits.h"
#include "reclaim/reclaim.h"
#include "cache/hardened.h"
#include "cache/observed.h"
#include "cache/perturb.h"
#include "check/verify.h"
#include "misuse/check.h"
#include "misuse/fail.h"
#include "misuse/guard.h"
#include "observe/flight.h"
#include "observe/metrics.h"
#include "observe/observe.h"
#include "observe/profile_file.h"
#include "store/window.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"
#include "system/tools.h"

#include "freehold/freehold.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────── */

#define MOST_VALUES 4

/* An option is a choice between named values; its number in the list is what is stored. One without a list is a size, or
 * a path if its field is one. The texts are in the table, because pointers to them would be relocated in each process that
 * starts; "" is none. */
typedef struct {
    char key[16];
    char about[104];              /* one line of the help */
    char values[MOST_VALUES][12]; /* in the order of the enumeration in settings.h; the first is the default */
    size_t offset, size;          /* of the field in fh_settings */
    size_t least;                 /* of a size: the smallest but 0 that makes sense */
    char form[96];                /* of a size or a text: what it may be */
    size_t most;                  /* of a number: the largest, and it is no size; 0: any size */
    char alone[7];                /* the value that a key without one stands for */
    bool failures;                /* of a text: it is no path, but what fh_fail_is_valid knows */
} option;

#define FIELD(name) .offset = offsetof(fh_settings_values, name), .size = sizeof(((fh_settings_values *)0)->name)

static const option options[] = {
    {"verbose", "at start: the version, and each option that is not the default", {"0", "1"}, FIELD(verbose)},
    {"stats", "at exit: a table of what the heap holds", {"0", "1"}, FIELD(stats)},
    {"on_error", "what follows the message about a wrong pointer", {"abort", "report"}, FIELD(on_error)},
    {"double_free",
     "where a second free is found; flush: not before its magazine is flushed",
     {"call", "flush"},
     FIELD(double_free)},
    {"purge", "when free memory returns to the OS; background: by a thread too", {FH_PURGE_NAMES}, FIELD(purge)},
    {"thp", "whether huge pages are requested", {FH_THP_NAMES}, FIELD(thp)},
    /* Below 1 MiB not even the allocator's own first slabs fit. */
    {"limit", "the most that the heap may have", {""}, FIELD(limit), FH_MIB, "0, or bytes from 1m on, as in 64m or 2g"},
    {"on_oom", "whether a line names the limit that was met", {"auto", "silent", "report"}, FIELD(on_oom)},
    {"files", "until when the kernel's files are read; auto: until a sandbox", {"auto", "start", "live"}, FIELD(files)},
    {"deepbind", "what becomes of dlopen's flag RTLD_DEEPBIND", {"drop", "keep"}, FIELD(deepbind)},
    {"metrics",
     "where OpenMetrics text goes, once a second and at exit",
     {""},
     FIELD(metrics),
     0,
     "the path of a file, of at most 255 bytes; once it is set it stays"},
    {"observe", "sample allocations into a profile file, which the command reads", {"0", "1"}, FIELD(observe)},
    {"sample",
     "how often a sample is taken",
     {""},
     FIELD(sample),
     1,
     "mean bytes between two samples, as in 512k or 4m; 0: no samples"},
    {"flight",
     "keep the last calls of the allocator in a file, for after a crash. At start only",
     {""},
     FIELD(flight),
     FH_MIB,
     "0, or bytes of records from 1m to 64g, as in 64m"},
    {"check", "find misuse at the call; 2: and verify the heap. At start only", {"0", "1", "2"}, FIELD(check)},
    {"quarantine",
     "of a checked or guarded program, freed bytes that are not used again yet",
     {""},
     FIELD(quarantine),
     1,
     "bytes, as in 8m or 1g; 0: none"},
    {"guard",
     "one allocation in so many has guards around it, and an access beyond it faults",
     {""},
     FIELD(guard),
     1,
     "0, or one in how many, as in 1000, which guard alone stands for; 1: all; at most 1048576",
     .most = FH_GUARD_SELDOMEST,
     .alone = "1000"},
    {"harden",
     "random places, delayed re-use, guards between sizes; zero: and freed blocks are zeroed. At start only",
     {"0", "1", "zero"},
     FIELD(harden)},
    {"tokens",
     "how many allocation tokens the program was compiled with",
     {""},
     FIELD(tokens),
     2,
     "0: the compiler's default; or the number that -falloc-token-max had",
     .most = (size_t)1 << 32},
    {"fail",
     "allocations that fail on purpose, in a program that is checked. At start only",
     {""},
     FIELD(fail),
     0,
     "7 (the 7th); every:1000; after:64m (bytes); site:HASH (as fail_log says); none",
     .failures = true},
    {"fail_log",
     "the file in which allocation sites are written down. At start only",
     {""},
     FIELD(fail_log),
     0,
     "a path of up to 255 bytes, without a comma"},
    {"heap_left", "what is live in a heap when it is destroyed is written to stderr", {"0", "1"}, FIELD(heap_left)},
    {"defer",
     "the most that may wait for a deferred free",
     {""},
     FIELD(defer),
     FH_KIB,
     "bytes from 1k on, as in 1m or 2g"},
    {"page",
     "where the profile file is, and stays",
     {""},
     FIELD(page),
     0,
     "the path of a directory, of at most 255 bytes; once it is set it stays"},
};
#define OPTIONS (sizeof options / sizeof options[0])

_Static_assert((int)FH_ON_ERROR_ABORT == 0 && (int)FH_ON_ERROR_REPORT == 1, "order of on_error");
_Static_assert((int)FH_DOUBLE_FREE_CALL == 0 && (int)FH_DOUBLE_FREE_FLUSH == 1, "order of double_free");
_Static_assert((int)FH_HARDEN_OFF == 0 && (int)FH_HARDEN_ON == 1 && (int)FH_HARDEN_ZERO == 2, "order of harden");
_Static_assert((int)FH_PURGE_BUDGET == 0 && (int)FH_PURGE_EAGER == 1 && (int)FH_PURGE_LAZY == 2 &&
                   (int)FH_PURGE_BACKGROUND == 3,
               "order of purge");
_Static_assert((int)FH_THP_AUTO == 0 && (int)FH_THP_NEVER == 1 && (int)FH_THP_ALWAYS == 2, "order of thp");
_Static_assert((int)FH_ON_OOM_AUTO == 0 && (int)FH_ON_OOM_SILENT == 1 && (int)FH_ON_OOM_REPORT == 2, "order of on_oom");
_Static_assert((int)FH_FILES_AUTO == 0 && (int)FH_FILES_START == 1 && (int)FH_FILES_LIVE == 2, "order of files");
_Static_assert((int)FH_DEEPBIND_DROP == 0 && (int)FH_DEEPBIND_KEEP == 1, "order of deepbind");

static bool is_path(const option *o) {
    return o->size == sizeof(fh_setting_path);
}

static bool is_size(const option *o) {
    return !o->values[0][0] && !is_path(o);
}

static fh_setting_path *path_of(const option *o) {
    return (fh_setting_path *)((char *)&fh_settings + o->offset);
}

/* Of any other option. */
static fh_word *word_of(const option *o) {
    return (fh_word *)((char *)&fh_settings + o->offset);
}

/* ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void print_line(fh_text *t) {
    fh_text_char(t, '\n');
    fh_system_write(2, t->begin, fh_text_length(t));
}

/* A word of the user's, which may be long or none of text: cut, and without control characters. */
static void quote(fh_text *t, const char *word, size_t length) {
    fh_text_char(t, '"');
    for (size_t i = 0; i < length && i < 64; i++) fh_text_char(t, (unsigned char)word[i] < ' ' ? '?' : word[i]);
    if (length > 64) fh_text_string(t, "...");
    fh_text_char(t, '"');
}

static void say_unknown_option(const char *key, size_t length) {
    char buffer[512];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: unknown option ");
    quote(&t, key, length);
    fh_text_string(&t, "; valid options: ");
    for (size_t i = 0; i < OPTIONS; i++) {
        if (i > 0) fh_text_string(&t, ", ");
        fh_text_string(&t, options[i].key);
    }
    print_line(&t);
}

static void list_values(fh_text *t, const option *o) {
    for (unsigned i = 0; i < MOST_VALUES && o->values[i][0]; i++) {
        if (i > 0) fh_text_string(t, ", ");
        fh_text_string(t, o->values[i]);
    }
    fh_text_string(t, o->form);
}

/* FREEHOLD=help: two lines an option. */
static void say_help(void) {
    char buffer[512];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: version " FH_VERSION
                       ", options as FREEHOLD=key=value,key=value; the first value is the default");
    print_line(&t);
    for (size_t i = 0; i < OPTIONS; i++) {
        t = fh_text_in(buffer, sizeof buffer);
        fh_text_string(&t, "  ");
        fh_text_string(&t, options[i].key);
        fh_text_pad(&t, 0, 14);
        fh_text_string(&t, options[i].about);
        fh_text_string(&t, "\n              ");
        list_values(&t, &options[i]);
        print_line(&t);
    }
}

static void say_bad_value(const option *o, const char *value, size_t length) {
    char buffer[512];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: option \"");
    fh_text_string(&t, o->key);
    fh_text_string(&t, "\" has bad value ");
    quote(&t, value, length);
    fh_text_string(&t, "; valid values: ");
    list_values(&t, o);
    print_line(&t);
}

/* What each option held before the environment was read. A path holds nothing then. */
static uint64_t defaults[OPTIONS];

/* C lets a text fill its array, without the zero behind it. For an assertion. */
static bool texts_end(const option *o) {
    char last = o->key[sizeof o->key - 1] | o->about[sizeof o->about - 1] | o->form[sizeof o->form - 1] |
                o->alone[sizeof o->alone - 1];
    for (unsigned i = 0; i < MOST_VALUES; i++) last |= o->values[i][sizeof o->values[i] - 1];
    return last == 0;
}

static void remember_defaults(void) {
    for (size_t i = 0; i < OPTIONS; i++) {
        FH_ASSERT(texts_end(&options[i]));
        if (!is_path(&options[i])) defaults[i] = fh_load(word_of(&options[i]));
    }
}

/* Nothing of an option that the environment has left as it was. */
static void say_option(const option *o, uint64_t usual) {
    char buffer[128 + FH_SETTING_PATH];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    const char *path = is_path(o) ? fh_setting_path_get(path_of(o)) : NULL;
    if (is_path(o) ? !path : fh_load(word_of(o)) == usual) return;
    fh_text_string(&t, "freehold: option ");
    fh_text_string(&t, o->key);
    fh_text_char(&t, '=');
    if (path) {
        fh_text_string(&t, path);
    } else if (o->most) {
        fh_text_number(&t, fh_load(word_of(o)));
    } else if (is_size(o)) {
        fh_text_size(&t, fh_load(word_of(o)));
    } else {
        fh_text_string(&t, o->values[fh_load(word_of(o))]);
    }
    fh_text_string(&t, " (from FREEHOLD)");
    print_line(&t);
}

/* verbose=1: that Freehold is in this process, which one, what it found out about the machine, and what is not
 * the default. */
static void say_banner(void) {
    char buffer[256];
    fh_text t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: version " FH_VERSION " is active (");
    fh_text_string(&t, &fh_overrides_malloc ? "drop-in: malloc and operator new" : "embedded: fh_ functions only");
    fh_text_string(&t, FH_CHECKED ? ", checked build)" : ")");
    print_line(&t);

    t = fh_text_in(buffer, sizeof buffer);
    fh_text_string(&t, "freehold: pages of ");
    fh_text_size(&t, fh_system_page_size());
    fh_text_string(&t, ", CPUs ");
    fh_text_number(&t, fh_system_processors());
    fh_text_string(&t, fh_system_huge_pages_always() ? ", the kernel gives huge pages unasked"
                                                     : ", huge pages only where asked for");
    if (fh_system_counts_every_page()) fh_text_string(&t, ", strict overcommit");
    print_line(&t);

    for (size_t i = 0; i < OPTIONS; i++) say_option(&options[i], defaults[i]);
}

/* ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool equals(const char *word, size_t length, const char *name) {
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

/* A number of bytes, with k, m, g or t behind it for powers of 1,024; 0 means none. */
static bool set_size(const option *o, const char *value, size_t length) {
    size_t bytes = 0, i = 0;
    for (; i < length && value[i] >= '0' && value[i] <= '9'; i++) {
        if (bytes > (PTRDIFF_MAX - 9) / 10) return false;
        bytes = bytes * 10 + (size_t)(value[i] - '0');
    }
    if (i == 0 || i + 1 < length) return false;
    static const char units[] = "kmgt";
    const char *unit = i < length ? strchr(units, value[i] | ' ') : NULL;
    if (i < length && !unit) return false;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (bytes > (size_t)PTRDIFF_MAX >> shift) return false;
    bytes <<= shift;
    if (bytes != 0 && (bytes < o->least || (o->most && bytes > o->most))) return false;
    fh_store(word_of(o), bytes);
    return true;
}

/* Once: see fh_setting_path. */
static bool set_path(const option *o, const char *value, size_t length) {
    fh_setting_path *path = path_of(o);
    uint64_t unset = 0;
    if (length == 0 || length >= sizeof path->text || (o->failures && !fh_fail_is_valid(value, length))) return false;
    if (!fh_cas_acq_rel(&path->length, &unset, FH_SETTING_BEGUN)) return false;
    memcpy(path->text, value, length);
    path->text[length] = 0;
    fh_store_release(&path->length, length);
    return true;
}

/* Sets one option from two words that need not be terminated. Says what is wrong with them, if anything is. */
static const option *apply(const char *key, size_t key_length, const char *value, size_t value_length) {
    for (size_t i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        if (!equals(key, key_length, o->key)) continue;
        for (unsigned v = 0; v < MOST_VALUES && o->values[v][0]; v++) {
            if (!equals(value, value_length, o->values[v])) continue;
            fh_store(word_of(o), v);
            return o;
        }
        if (is_size(o) && set_size(o, value, value_length)) return o;
        if (is_path(o) && set_path(o, value, value_length)) return o;
        say_bad_value(o, value, value_length);
        return NULL;
    }
    say_unknown_option(key, key_length);
    return NULL;
}

/* The value of an option that stands without one. */
static const char *alone(const char *key, size_t key_length, const char *value, size_t *value_length) {
    for (size_t i = 0; i < OPTIONS; i++) {
        const option *o = &options[i];
        size_t length = strlen(o->alone);
        if (length == 0 || !equals(key, key_length, o->key)) continue;
        *value_length = length;
        return o->alone;
    }
    return value;
}

/* key=value,key=value. Empty parts are skipped, so that a script may append ",stats=1" to whatever was there. */
static void read_all(const char *text) {
    while (*text) {
        size_t length = strcspn(text, ",");
        size_t key_length = strcspn(text, ",=");
        if (equals(text, length, "help")) {
            say_help();
        } else if (length > 0) {
            const char *value = text + key_length + (key_length < length);
            size_t value_length = length - (size_t)(value - text);
            if (key_length == length) value = alone(text, length, value, &value_length);
            (void)apply(text, key_length, value, value_length);
        }
        text += length;
        if (*text) text++;
    }
}

/* Option check; or a tool watches the program's memory, and no option asks for what a checked program cannot have: then the tool is
 * told of all blocks. */
static bool start_checking(void) {
    fh_tool_kind tool = fh_tool_find(!&fh_overrides_malloc);
    bool other = FH_SETTING(observe) || FH_SETTING(guard) || FH_SETTING(harden);
    if ((!FH_SETTING(check) && (tool == FH_TOOL_NONE || other)) || fh_checked_start(tool)) return true;
    fh_store(&fh_settings.check, 0);
    return false;
}

/* glibc's variable for what mallopt's M_PERTURB sets: a number. */
static void read_perturb(void) {
    bool ready;
    const char *text = fh_system_environment("MALLOC_PERTURB_", &ready);
    unsigned byte = 0;
    for (; text && *text >= '0' && *text <= '9'; text++) byte = byte * 10 + (unsigned)(*text - '0');
    if (byte) fh_perturb_set(byte);
}

/* False, with a line on stderr: it is too late, or another option finds more. The first blocks of a program may be from before. */
static bool start_hardened(void) {
    if (fh_is_hardened()) return true;
    if (fh_is_checking() || fh_is_observing() || fh_system_threads() > 1) {
        FH_REPORT_LINE("harden is for the start of a program with one thread, without check or observe");
        fh_store(&fh_settings.harden, FH_HARDEN_OFF);
        return false;
    }
    fh_hardened_start();
    return true;
}

/* False, with a line on stderr: no sample is taken of blocks that have another form. */
static bool start_observing(void) {
    if (FH_SETTING(observe) && (fh_is_checking() || fh_is_hardened())) {
        FH_REPORT_LINE(fh_is_checking() ? "option observe does nothing beside option check"
                                        : "option observe does nothing beside option harden");
        fh_store(&fh_settings.observe, 0);
        return false;
    }
    if (FH_SETTING(observe) || FH_SETTING(guard)) fh_thread_observe_all();
    return true;
}

static bool is_to_fail(void) {
    return fh_setting_path_get(&fh_settings.fail) || fh_setting_path_get(&fh_settings.fail_log);
}

/* 0 until a thread has taken it upon itself to read. It is never set back: an allocation from inside, and another
 * thread, go on with what is set so far. */
static fh_word reading;

void fh_hook_start(void) {
    if (fh_load(&reading) || (fh_system_stands_aside && fh_system_stands_aside())) return;
    bool ready;
    const char *text = fh_system_environment("FREEHOLD", &ready);
    if (!ready) return;
    uint64_t nobody = 0;
    /* relaxed: what is guarded is that one thread only does it, not what it writes. */
    if (!fh_cas_relaxed(&reading, &nobody, 1)) return;
    fh_system_note_messages();
    if (text) {
        remember_defaults();
        read_all(text);
    }
    if (FH_SETTING(flight)) fh_flight_begin((size_t)FH_SETTING(flight));
    if (FH_SETTING(limit)) fh_limits_configure();
    fh_reclaim_configure();
    if (FH_SETTING(verbose)) say_banner();
    if (is_to_fail()) {
        fh_fail_start();
        if (!FH_SETTING(check)) fh_store(&fh_settings.check, 1);
    }
    (void)start_checking();
    if (FH_SETTING(harden)) (void)start_hardened();
    if (FH_SETTING(guard)) fh_guard_configure();
    (void)start_observing();
    read_perturb();
    /* Many programs close stderr before they end, to see whether all was written. */
    if (FH_SETTING(stats)) fh_system_keep_output(2);
}

/* ── Sandboxes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What follows from files is read for the last time, and no file after it. Where the heap is to be is chosen here too, if nobody
 * has allocated yet: that takes calls that a filter need not allow. */
static void close_files(void) {
    if (fh_system_is_restricted()) return;
    (void)fh_window_start();
    fh_limits_remember_group();
    fh_system_restrict();
}

void fh_hook_sandbox(void) {
    int saved = errno;
    if (FH_SETTING(files) != FH_FILES_LIVE) close_files();
    errno = saved;
}

/* The program has begun, and cannot be started again with the recorder in front. */
static bool flight_is_too_late(uint64_t before) {
    if (FH_SETTING(flight) == before) return false;
    FH_REPORT_LINE("flight is for the start of a program: FREEHOLD=flight=64m");
    fh_store(&fh_settings.flight, before);
    return true;
}

int fh_option_set(const char *key, const char *value) {
    if (!key) key = "";
    if (!value) value = "";
    uint64_t flight = FH_SETTING(flight);
    const option *o = apply(key, strlen(key), value, strlen(value));
    if (o && !flight_is_too_late(flight)) {
        if (FH_SETTING(check) && !fh_is_checking() && !start_checking()) {
            errno = EINVAL;
            return -1;
        }
        if (FH_SETTING(harden) && !start_hardened()) {
            errno = EINVAL;
            return -1;
        }
        /* Another option leaves the limit alone: fh_limit_set may be changing it at this moment. */
        if (o->offset == offsetof(fh_settings_values, limit)) fh_limits_configure();
        fh_reclaim_configure();
        if (o->offset == offsetof(fh_settings_values, guard) && !fh_guard_configure()) {
            errno = ENOMEM;
            return -1;
        }
        if (!start_observing()) {
            errno = EINVAL;
            return -1;
        }
        if (FH_SETTING(files) == FH_FILES_START) close_files();
        return 0;
    }
    errno = EINVAL;
    return -1;
}

/* ── Beginning and end of the process ────────────────────────────────────────────────────────────────────────────── */

/* The first allocation usually came before this, from the dynamic linker or another library's constructor; what then
 * could not be done is done now. Early among the constructors, so that the fork handler is there before threads are. */
__attribute__((constructor(101))) static void process_begins(void) {
    fh_process_start();
    fh_background_allow();
    fh_hook_start();
    if (FH_SETTING(files) != FH_FILES_START) return;
    fh_release(fh_alloc(1)); /* an observed program has its profile file from here on */
    close_files();
}

/* After the program's own exit handlers, as constructors of early priority have their counterparts run late. What is not in use is
 * asked about here and not called: a page of the library that is touched brings 64 KiB of it into the process. */
__attribute__((destructor(101))) static void process_ends(void) {
    fh_background_end();
    if (fh_setting_path_get(&fh_settings.metrics)) fh_metrics_write();
    if (fh_profile_has_been()) fh_observe_end();
    if (FH_SETTING(stats)) fh_stats_print(fh_system_kept_output(2));
    if (fh_is_checking()) fh_checked_end();
    if (FH_CHECKED || FH_STRESS) fh_check_at_end();
}
