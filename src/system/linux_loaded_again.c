/* Linux, only in the drop-in that is loaded (libfreehold.so): the same program once more, from its beginning. */
#include "base/settings.h"
#include "base/text.h"
#include "system/again.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma weak dlsym
#pragma weak dladdr

#define ITSELF "/proc/self/exe"
#define PATH_MOST ((size_t)4096)
#define WORDS_MOST ((size_t)8 << 20) /* the kernel takes no more than 6 MiB of arguments and environment */

extern char **environ;

bool fh_system_is_in_front(char *path, size_t size) {
    Dl_info theirs, ours;
    /* A library that a program loads later comes behind the C library, whose malloc is found first. */
    void *found = dlsym ? dlsym(RTLD_DEFAULT, "malloc") : NULL;
    if (!found || !dladdr || !dladdr(found, &theirs) || !dladdr(&fh_settings, &ours)) return false;
    if (theirs.dli_fbase != ours.dli_fbase || !ours.dli_fname) return false;
    fh_text t = fh_text_in(path, size);
    if (ours.dli_fname[0] != '/') {
        if (syscall(SYS_getcwd, path, size) <= 0) return false;
        t.at += strlen(path);
        fh_text_char(&t, '/');
    }
    fh_text_string(&t, ours.dli_fname);
    fh_text_char(&t, 0);
    return t.at < t.end;
}

bool fh_system_is_file(const char *path) {
    int fd = fh_read_open(path);
    if (fd >= 0) fh_read_close(fd);
    return fd >= 0;
}

int fh_system_make_directory(const char *path) {
    int saved = errno, error = syscall(SYS_mkdirat, AT_FDCWD, path, 0700) == 0 ? 0 : errno;
    errno = saved;
    return error;
}

void fh_system_remove_directory(const char *path) {
    int saved = errno;
    (void)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    errno = saved;
}

/* ── What the program was started with ───────────────────────────────────────────────────────────────────────────── */

static bool is_this_program(const char *path) {
    struct stat named, own;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &named, 0) == 0 &&
           syscall(SYS_newfstatat, AT_FDCWD, ITSELF, &own, 0) == 0 && named.st_dev == own.st_dev &&
           named.st_ino == own.st_ino;
}

/* The file to start: by the name that was used, because the kernel calls the process by it. Of a script that is the script, while
 * the program and the arguments are the interpreter's; then by the name that the file has. */
static const char *own_file(char *path) {
    const char *used = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
    if (used && is_this_program(used)) return used;
    long length = syscall(SYS_readlinkat, AT_FDCWD, ITSELF, path, PATH_MOST - 1);
    path[length > 0 ? length : 0] = 0;
    return is_this_program(path) ? path : ITSELF;
}

/* Reads the words of the command line into `text`; 0: they cannot be read, or are too many. */
static size_t read_words(char *text) {
    int fd = fh_read_open("/proc/self/cmdline");
    size_t length = 0;
    long got = fd < 0 ? -1 : 1;
    while (got > 0 && length < WORDS_MOST) {
        got = fh_read_next(fd, text + length, WORDS_MOST - length);
        if (got > 0) length += (size_t)got;
    }
    if (fd >= 0) fh_read_close(fd);
    return got == 0 ? length : 0;
}

static size_t count_words(const char *text, size_t length) {
    size_t words = 0;
    for (size_t i = 0; i < length; i++) words += text[i] == 0;
    return words;
}

static void point_at_words(char **words, char *text, size_t length) {
    for (char *word = text; word < text + length; word += strlen(word) + 1) *words++ = word;
    *words = NULL;
}

/* ── With what it is started again ───────────────────────────────────────────────────────────────────────────────── */

static bool is_variable(const char *entry, const char *name) {
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static char *add_variable(fh_text *t, const char *name, const char *value, const char *more) {
    char *entry = t->at;
    fh_text_string(t, name);
    fh_text_char(t, '=');
    fh_text_string(t, value);
    if (more && *more) {
        fh_text_char(t, ':');
        fh_text_string(t, more);
    }
    fh_text_char(t, 0);
    return entry;
}

/* The environment as it is, except for these variables. */
static void set_environment(char **to, fh_text *t, const char *library, const fh_variable *set, size_t count) {
    const char *preloaded = NULL;
    for (char **entry = environ; *entry; entry++) {
        bool kept = true;
        for (size_t i = 0; i < count; i++) kept = kept && !is_variable(*entry, set[i].name);
        if (is_variable(*entry, "LD_PRELOAD")) {
            preloaded = strchr(*entry, '=') + 1;
        } else if (kept) {
            *to++ = *entry;
        }
    }
    *to++ = add_variable(t, "LD_PRELOAD", library, preloaded);
    for (size_t i = 0; i < count; i++) *to++ = add_variable(t, set[i].name, set[i].value, NULL);
    *to = NULL;
}

int fh_system_begin_again(const char *library, const fh_variable *set, size_t count) {
    int saved = errno;
    size_t page = fh_system_page_size(), variables = count + 2;
    while (environ[variables - count - 2]) variables++;
    char *text = fh_system_map(2 * WORDS_MOST, page);
    size_t length = text ? read_words(text) : 0, words = count_words(text, length);
    char **pointers = fh_system_map((words + 1 + variables) * sizeof *pointers, page);
    int error = E2BIG;
    if (length && pointers) {
        char path[PATH_MOST];
        fh_text added = fh_text_in(text + WORDS_MOST, WORDS_MOST);
        point_at_words(pointers, text, length);
        set_environment(pointers + words + 1, &added, library, set, count);
        if (added.at < added.end) (void)syscall(SYS_execve, own_file(path), pointers, pointers + words + 1);
        if (added.at < added.end) error = errno;
    }
    if (text) fh_system_unmap(text, 2 * WORDS_MOST);
    if (pointers) fh_system_unmap(pointers, (words + 1 + variables) * sizeof *pointers);
    errno = saved;
    return error;
}
