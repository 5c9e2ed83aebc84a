#include "observe/flight.h"

#include "base/settings.h"
#include "base/text.h"
#include "observe/profile.h"
#include "system/again.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

#define BLOCK ((size_t)64 << 10) /* of the recorder's file: recorder/raw.h */
#define MOST ((size_t)64 << 30)
#define PATH_MOST 4096

/* Below the library's directory: a build has the recorder beside the library, an installation one deeper. */
static const char *const recorders[] = {"libfreehold-record.so", "freehold/libfreehold-record.so"};

/* Makes `path` that of the recorder, which holds the library's own; false: there is none. */
static bool find_recorder(char *path, size_t size) {
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof recorders / sizeof *recorders; i++) {
        size_t room = size - (size_t)(name - path), length = strlen(recorders[i]);
        if (length >= room) continue;
        memcpy(name, recorders[i], length + 1);
        if (fh_system_is_file(path)) return true;
    }
    *name = 0;
    return false;
}

/* A new one: of two programs that had the same number, one after the other, each has its own. */
static int make_directory(char *path, size_t size) {
    const char *wanted = fh_setting_path_get(&fh_settings.page);
    int error = EEXIST;
    for (unsigned i = 0; i < 1000 && error == EEXIST; i++) {
        fh_text t = fh_text_in(path, size);
        fh_text_string(&t, wanted ? wanted : FH_PROFILE_DIRECTORY);
        fh_text_string(&t, "/freehold-flight-");
        fh_text_number(&t, fh_system_pid());
        if (i) fh_text_char(&t, '-');
        if (i) fh_text_number(&t, i);
        fh_text_char(&t, 0);
        error = fh_system_make_directory(path);
    }
    return error;
}

static void begin_again(const char *recorder, size_t bytes) {
    char directory[FH_SETTING_PATH + 64], blocks[32];
    fh_text t = fh_text_in(blocks, sizeof blocks);
    fh_text_number(&t, bytes / BLOCK);
    fh_text_char(&t, 0);
    int error = make_directory(directory, sizeof directory);
    if (error) {
        FH_REPORT_LINE("flight: cannot make ", directory, ": it is not recorded: ", fh_system_error(error));
        return;
    }
    /* What page says stays; without it there is no need for what a program leaves that ended as it should. */
    const char *keep = fh_setting_path_get(&fh_settings.page) ? "1" : "0";
    const fh_variable set[] = {
        {"FREEHOLD_RECORD", directory},  {"FREEHOLD_RECORD_WHEN_FULL", "ring"}, {"FREEHOLD_RECORD_BLOCKS", blocks},
        {"FREEHOLD_RECORD_READER", "0"}, {"FREEHOLD_RECORD_KEEP", keep},        {"FREEHOLD_RECORD_ON", "freehold"},
    };
    error = fh_system_begin_again(recorder, set, sizeof set / sizeof *set);
    fh_system_remove_directory(directory);
    FH_REPORT_LINE("flight: cannot start the program again, with ", recorder,
                   " in front: it is not recorded: ", fh_system_error(error));
}

void fh_flight_begin(size_t bytes) {
    char path[PATH_MOST];
    bool ready;
    if (fh_system_environment("FREEHOLD_RECORD", &ready)) return;
    if (bytes > MOST) {
        FH_REPORT_LINE("flight: no more than 64g of records are kept: it is not recorded");
    } else if (!fh_system_begin_again || !fh_system_is_in_front(path, sizeof path)) {
        FH_REPORT_LINE("flight: this library's malloc is not the program's from its start: preload libfreehold.so");
    } else if (fh_system_threads() > 1) {
        FH_REPORT_LINE("flight: the program has threads already: it is not recorded");
    } else if (!find_recorder(path, sizeof path)) {
        FH_REPORT_LINE("flight: no libfreehold-record.so in ", path, " or in its freehold/: it is not recorded");
    } else {
        begin_again(path, bytes);
    }
}
