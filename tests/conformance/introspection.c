/* The calls that ask a heap about itself: they must answer, answer in their known form, and their figures
 * must follow what the program does. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

/* Reads a name and returns what follows it. */
static const char *read_name(const char *at, char *name, size_t room) {
    size_t length = 0;
    while (isalnum((unsigned char)*at) || *at == '_' || *at == '-' || *at == ':') {
        CHECK(length + 1 < room, "malloc_info: a name without end");
        name[length++] = *at++;
    }
    name[length] = 0;
    CHECK(length > 0, "malloc_info: a tag without a name at \"%.20s\"", at);
    return at;
}

/* Reads attributes up to the end of the tag: name="value", quoted, no '<' within. */
static const char *read_attributes(const char *at) {
    char name[64];
    for (;;) {
        while (isspace((unsigned char)*at)) {
            at++;
        }
        if (*at == '>' || *at == '/') {
            return at;
        }
        at = read_name(at, name, sizeof name);
        CHECK(at[0] == '=' && at[1] == '"', "malloc_info: attribute %s is not quoted", name);
        at += 2;
        while (*at && *at != '"') {
            CHECK(*at != '<' && *at != '&', "malloc_info: attribute %s holds %c", name, *at);
            at++;
        }
        CHECK(*at == '"', "malloc_info: attribute %s does not end", name);
        at++;
    }
}

/* Enough of an XML reader to know that every tag is closed by its own name, in order, with one root. */
static int well_formed(const char *at, char root[64]) {
    char open[32][64], name[64];
    int depth = 0, elements = 0;
    while (*at) {
        if (*at != '<') {
            CHECK(depth > 0 || isspace((unsigned char)*at), "malloc_info: text outside of the root: \"%.30s\"", at);
            CHECK(*at != '&', "malloc_info: a bare ampersand");
            at++;
        } else if (at[1] == '?') {
            at = strstr(at, "?>");
            CHECK(at, "malloc_info: a declaration that does not end");
            at += 2;
        } else if (at[1] == '/') {
            at = read_name(at + 2, name, sizeof name);
            CHECK(depth > 0 && strcmp(open[depth - 1], name) == 0, "malloc_info: </%s> closes nothing", name);
            CHECK(*at == '>', "malloc_info: </%s is not closed", name);
            depth--;
            at++;
        } else {
            at = read_attributes(read_name(at + 1, name, sizeof name));
            CHECK(depth > 0 || elements == 0, "malloc_info: a second root, <%s>", name);
            if (elements++ == 0) {
                strcpy(root, name);
            }
            if (*at == '/') {
                at++;
            } else {
                CHECK(depth < 32, "malloc_info: too deep");
                strcpy(open[depth++], name);
            }
            CHECK(*at == '>', "malloc_info: <%s is not closed", name);
            at++;
        }
    }
    CHECK(depth == 0, "malloc_info: <%s> is never closed", open[depth - 1]);
    return elements;
}

static void info_is_xml(void) {
    static char text[1 << 20];
    FILE *file = tmpfile();
    CHECK(file, "tmpfile: %s", strerror(errno));
    CHECK(t_malloc_info(0, file) == 0, "malloc_info(0) failed");
    CHECK(t_malloc_info(1, file) != 0, "malloc_info(1) succeeded; options must be 0");
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0; /* the buffer may hold the longer text of an earlier call */
    fclose(file);
    CHECK(length > 0, "malloc_info wrote nothing");
    char root[64] = "";
    int elements = well_formed(text, root);
    CHECK(strcmp(root, "malloc") == 0, "malloc_info: the root is <%s>", root);
    printf("malloc_info: %zu bytes, %d elements, well formed\n", length, elements);
}

/* What is in use by mallinfo2, wherever this allocator books it: in the heap or mapped directly. */
static size_t in_use(void) {
    t_mallinfo2_result info = t_mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void figures_follow(size_t size, size_t count) {
    char **blocks = t_malloc(count * sizeof *blocks);
    size_t before = in_use();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu) returned NULL", size);
        blocks[i][0] = 1;
    }
    size_t with = in_use();
    size_t payload = size * count;
    CHECK(with >= before + payload * 9 / 10, "%zu × %zu bytes more, but mallinfo2 went from %zu to %zu", count, size,
          before, with);
    CHECK(with <= before + payload * 5 / 4 + (1 << 20), "%zu × %zu bytes more, but mallinfo2 went from %zu to %zu",
          count, size, before, with);
    t_mallinfo_result narrow = t_mallinfo();
    t_mallinfo2_result wide = t_mallinfo2();
    CHECK((size_t)narrow.uordblks + (size_t)narrow.hblkhd == wide.uordblks + wide.hblkhd,
          "mallinfo says %d + %d in use, mallinfo2 %zu + %zu", narrow.uordblks, narrow.hblkhd, wide.uordblks,
          wide.hblkhd);
    for (size_t i = 0; i < count; i++) {
        t_free(blocks[i]);
    }
    t_thread_flush();
    size_t after = in_use();
    CHECK(after <= before + payload / 10 + (1 << 20), "all freed, but mallinfo2 went from %zu to %zu", with, after);
    t_free(blocks);
}

/* malloc_stats writes for people, on stderr. */
static void stats_are_printed(void) {
    FILE *file = tmpfile();
    fflush(stderr);
    int keep = dup(2);
    dup2(fileno(file), 2);
    t_malloc_stats();
    fflush(stderr);
    dup2(keep, 2);
    close(keep);
    long length = lseek(fileno(file), 0, SEEK_END);
    CHECK(length > 20, "malloc_stats wrote %ld bytes to stderr", length);
    fclose(file);
}

static void options_are_taken(void) {
    CHECK(t_mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1, "mallopt(M_MMAP_THRESHOLD) failed");
    CHECK(t_mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1, "mallopt(M_TRIM_THRESHOLD) failed");
    CHECK(t_mallopt(M_TOP_PAD, 1 << 16) == 1, "mallopt(M_TOP_PAD) failed");
    CHECK(t_mallopt(M_ARENA_MAX, 1) == 1, "mallopt(M_ARENA_MAX) failed");
}

int main(void) {
    info_is_xml();
    figures_follow(64, 100000);
    figures_follow(5000, 2000);
    figures_follow(300000, 50);
    figures_follow(9000000, 4);
    stats_are_printed();
    /* 1 when something went back to the system, 0 when there was nothing: both are answers, others are not. */
    for (int i = 0; i < 3; i++) {
        int result = t_malloc_trim(0);
        CHECK(result == 0 || result == 1, "malloc_trim(0) = %d", result);
    }
    options_are_taken();
    info_is_xml();
    return 0;
}
