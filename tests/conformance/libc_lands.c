/* The C library allocates for its callers in many places.  Under the drop-in each of these blocks must be
 * Freehold's own, or freeing it would be freeing a stranger's.
 *
 * A block is known as ours by its usable size, a multiple of 16: the system's own blocks carry a header, and
 * theirs is always 8 off.  A foreign pointer given to malloc_usable_size or free is an error with a message
 * besides. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <locale.h>
#include <regex.h>
#include <wchar.h>

static void is_ours(const char *call, void *block, size_t length) {
    CHECK(block, "%s returned NULL", call);
    size_t found = malloc_usable_size(block);
    CHECK(found >= length, "%s: usable size %zu of %zu bytes", call, found, length);
    CHECK(!t_is_freehold() || found % 16 == 0, "%s: usable size %zu is none of ours", call, found);
    free(block);
}

static void strings(void) {
    for (size_t length = 1; length < 300; length += 13) {
        char text[512];
        wchar_t wide[512];
        memset(text, 'x', length);
        text[length] = 0;
        wmemset(wide, L'y', length);
        wide[length] = 0;
        is_ours("strdup", strdup(text), length + 1);
        is_ours("strndup", strndup(text, length / 2), length / 2 + 1);
        is_ours("wcsdup", wcsdup(wide), (length + 1) * sizeof(wchar_t));
        char *made = NULL;
        CHECK(asprintf(&made, "%s%s", text, text) == (int)(2 * length), "asprintf");
        is_ours("asprintf", made, 2 * length + 1);
    }
}

static void streams(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    CHECK(memory, "open_memstream: %s", strerror(errno));
    for (int i = 0; i < 1000; i++) {
        fprintf(memory, "line %d\n", i);
    }
    fclose(memory);
    CHECK(size > 8000 && malloc_usable_size(text) > size, "open_memstream: %zu bytes", size);
    FILE *reader = fmemopen(text, size, "r");
    char *line = NULL;
    size_t room = 0;
    int lines = 0;
    while (getline(&line, &room, reader) > 0) {
        CHECK(malloc_usable_size(line) >= room, "getline: %zu usable of %zu", malloc_usable_size(line), room);
        lines++;
    }
    CHECK(lines == 1000, "getline read %d lines", lines);
    /* A caller may bring its own block, which the library then enlarges: ours before, ours after. */
    line = realloc(line, 1);
    room = 1;
    rewind(reader);
    CHECK(getdelim(&line, &room, 'q', reader) == (ssize_t)size, "getdelim");
    CHECK(malloc_usable_size(line) > size, "getdelim: usable %zu", malloc_usable_size(line));
    fclose(reader);
    free(line);
    free(text);
    char *word = NULL;
    CHECK(sscanf("antidisestablishmentarianism", "%ms", &word) == 1, "sscanf %%ms");
    is_ours("sscanf %ms", realloc(word, 29), 29);
}

static void files(void) {
    char *here = getcwd(NULL, 0), *root = realpath("/proc/../", NULL);
    CHECK(here && root && strcmp(root, "/") == 0, "getcwd %s, realpath %s", here, root);
    CHECK(malloc_usable_size(here) > strlen(here), "getcwd: usable %zu", malloc_usable_size(here));
    CHECK(malloc_usable_size(root) >= 2, "realpath: usable %zu", malloc_usable_size(root));
    free(here);
    free(root);
    struct dirent **names;
    int count = scandir("/proc/self", &names, NULL, alphasort);
    CHECK(count > 5, "scandir: %d", count);
    for (int i = 0; i < count; i++) {
        CHECK(malloc_usable_size(names[i]) >= names[i]->d_reclen, "scandir: entry %d", i);
        free(names[i]);
    }
    free(names);
    glob_t found;
    CHECK(glob("/proc/self/*", 0, NULL, &found) == 0 && found.gl_pathc > 5, "glob");
    globfree(&found);
    regex_t machine;
    CHECK(regcomp(&machine, "^(a|b)*[0-9]{2,5}(x.*y)$", REG_EXTENDED) == 0, "regcomp");
    CHECK(regexec(&machine, "abba123x...y", 0, NULL, 0) == 0, "regexec");
    regfree(&machine);
    setenv("FREEHOLD_TEST_VARIABLE", "value", 1);
    unsetenv("FREEHOLD_TEST_VARIABLE");
    setlocale(LC_ALL, "C.UTF-8");
    setlocale(LC_ALL, "C");
}

int main(void) {
    strings();
    streams();
    files();
    puts("what the C library allocates for its callers comes from the same heap");
    return 0;
}
