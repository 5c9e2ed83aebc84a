/* What the options (api/options.c) set and the layers below read. Words, set once at start in the usual case. A change while
 * threads run takes effect when they next read it. A decision reads a word once. */
#ifndef FH_BASE_SETTINGS_H
#define FH_BASE_SETTINGS_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>

/* Checked builds compare and verify where a release build trusts; both sides of `if (FH_CHECKED)` always compile. */
#ifndef FH_CHECKED
#define FH_CHECKED 0
#endif

/* Stress builds starve every cache, so that each slow path is taken often, and test the costly assertions as well. */
#ifndef FH_STRESS
#define FH_STRESS 0
#endif

typedef enum { FH_ON_ERROR_ABORT, FH_ON_ERROR_REPORT } fh_on_error;
typedef enum { FH_ON_OOM_AUTO, FH_ON_OOM_SILENT, FH_ON_OOM_REPORT } fh_on_oom;
typedef enum { FH_DOUBLE_FREE_CALL, FH_DOUBLE_FREE_FLUSH } fh_double_free_mode;
typedef enum { FH_HARDEN_OFF, FH_HARDEN_ON, FH_HARDEN_ZERO } fh_harden_mode;
typedef enum { FH_FILES_AUTO, FH_FILES_START, FH_FILES_LIVE } fh_files_mode;
typedef enum { FH_DEEPBIND_DROP, FH_DEEPBIND_KEEP } fh_deepbind;
typedef enum { FH_PURGE_BUDGET, FH_PURGE_EAGER, FH_PURGE_LAZY, FH_PURGE_BACKGROUND } fh_purge_mode;
#define FH_PURGE_NAMES "budget", "eager", "lazy", "background"
typedef enum { FH_THP_AUTO, FH_THP_NEVER, FH_THP_ALWAYS } fh_thp_mode;
#define FH_THP_NAMES "auto", "never", "always"

/* A path is set once and stays: a thread may be reading it at any time. Its length says how far that is.
 *     0 → FH_SETTING_BEGUN   by compare-and-swap, by the thread that sets it
 *     FH_SETTING_BEGUN → n   release: the text before its length, which the reader loads with acquire */
#define FH_SETTING_PATH 256
#define FH_SETTING_BEGUN (~UINT64_C(0))

typedef struct {
    fh_word length;
    char text[FH_SETTING_PATH]; /* terminated */
} fh_setting_path;

/* The path, or NULL if it is not set. */
static inline const char *fh_setting_path_get(const fh_setting_path *path) {
    uint64_t length = fh_load_acquire(&path->length);
    return length != 0 && length != FH_SETTING_BEGUN ? path->text : NULL;
}

typedef struct {
    fh_word verbose;         /* 1: say what is found out about the machine, and every option */
    fh_word stats;           /* 1: print what the heap holds when the program ends */
    fh_word on_error;        /* an fh_on_error */
    fh_word double_free;     /* an fh_double_free_mode: where a block that is freed twice is found (cache/twice.h) */
    fh_word purge;           /* an fh_purge_mode */
    fh_word thp;             /* an fh_thp_mode */
    fh_word limit;           /* bytes, as the option was set last; what holds is fh_limit.hard */
    fh_word on_oom;          /* an fh_on_oom: what is said when the program gets no memory */
    fh_word files;           /* an fh_files_mode: until when files are read, because a sandbox may forbid it */
    fh_word deepbind;        /* an fh_deepbind: what becomes of the flag RTLD_DEEPBIND of dlopen */
    fh_setting_path metrics; /* the file for the metrics */
    fh_word observe;         /* 1: sample allocations and show them in the profile file (observe/profile.h) */
    fh_word sample;          /* mean bytes between two samples; 0: no samples, only statistics */
    fh_word flight;          /* bytes of the last calls that are kept in a file (observe/flight.h); 0: none */
    fh_word check;           /* 1: find misuse at the call (misuse/); 2: and verify the heap */
    fh_word quarantine;      /* bytes of freed blocks that a checked or guarded program keeps from being used again */
    fh_word guard;           /* one allocation in so many has guards around it (misuse/guard.h); 0: none */
    fh_word harden;          /* an fh_harden_mode: what is done against a program's attackers (cache/hardened.h) */
    fh_word tokens;       /* how many tokens the program was compiled with (api/token.h); 0: as clang does by itself */
    fh_word perturb;      /* freed blocks are filled with this byte, new ones with its complement (mallopt); 0: not */
    fh_word heap_left;    /* 1: a heap that is destroyed says what is live in it (misuse/left.c) */
    fh_word defer;        /* bytes that may wait for their deferred free (heap/defer.h) */
    fh_setting_path fail; /* which allocations fail (misuse/fail.h) */
    fh_setting_path fail_log; /* the file in which their places are written down */
    fh_setting_path page;     /* the directory of the profile file, which then stays; none: /dev/shm */
} fh_settings_values;

/* The value of one of these words. Relaxed: each is a whole answer. */
#define FH_SETTING(name) fh_load(&fh_settings.name)

extern fh_settings_values fh_settings __attribute__((visibility("hidden")));

#endif
