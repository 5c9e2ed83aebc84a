/* Linux, only in the library for a whole system (libfreehold-global.so), which /etc/ld.so.preload gives to every program:
 * whether this program is one that gets Freehold. A list says so, which root writes:
 *
 *     allow redis-server       the last part of the program's path, or all of it if the pattern has a slash;
 *     deny /usr/lib/jvm*java   a star stands for anything, slashes too
 *
 * A program that is denied never gets it. With no line that allows, every other one does; with one, only those. */
#include "system/global.h"

#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LIST "/etc/freehold/global.conf"
#define LINE_MOST 1024
#define PATH_MOST 4096

/* Does the whole text fit the pattern? After each star the shortest text that fits is tried first; only the last star may
 * have to take more. */
static bool fits(const char *pattern, const char *text) {
    const char *star = NULL, *taken = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            taken = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static bool is_meant(const char *pattern, const char *path) {
    const char *slash = strrchr(path, '/');
    return fits(pattern, strchr(pattern, '/') || !slash ? path : slash + 1);
}

/* What follows the word and its blanks, without blanks at the end; NULL: the line begins with another word. */
static char *after(char *line, const char *word) {
    line += strspn(line, " \t");
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || !strchr(" \t", line[length]) || !line[length]) return NULL;
    line += length;
    line += strspn(line, " \t");
    size_t end = strlen(line);
    while (end > 0 && strchr(" \t\r", line[end - 1])) end--;
    line[end] = '\0';
    return line;
}

static bool is_let_in(const char *path) {
    char buffer[LINE_MOST];
    fh_lines lines;
    if (!fh_lines_open(&lines, LIST, buffer, sizeof buffer)) return true;
    bool some_allowed = false, allowed = false, denied = false;
    for (char *line; (line = fh_lines_next(&lines)) != NULL;) {
        const char *pattern = after(line, "deny");
        if (pattern) {
            denied |= is_meant(pattern, path);
        } else if ((pattern = after(line, "allow")) != NULL) {
            some_allowed = true;
            allowed |= is_meant(pattern, path);
        }
    }
    fh_lines_close(&lines);
    return !denied && (allowed || !some_allowed);
}

fh_word fh_global_answer;

bool fh_system_stands_aside(void) {
    uint64_t known = fh_load(&fh_global_answer);
    if (known) return known == FH_STANDS_ASIDE;
    int saved = errno;
    char path[PATH_MOST];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    known = is_let_in(path) ? FH_TAKES_OVER : FH_STANDS_ASIDE;
    fh_store(&fh_global_answer, known);
    errno = saved;
    return known == FH_STANDS_ASIDE;
}
