//! Each part of what is counted from outside, in a program that stands still, against the program's own figures: the library's
//! (`mallinfo2`), or what the program knows that it has touched.

use crate::observed::*;
use crate::{Explained, MIB};

/// Does one thing to its heap, then prints what it has: bytes that it touched, in blocks, in blocks above 2 MiB, in caches, free.
const PROGRAM: &str = r#"
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100000
static char *block[MANY];
static size_t touched;
static void all_of(int count, size_t n) {
    for (int i = 0; i < count; i++) memset(block[i] = malloc(n), 1, n), touched += n;
}
/* All but every so many. */
static void drop(int count, size_t n, int kept) {
    for (int i = 0; i < count; i++) if (i % kept) free(block[i]), touched -= n;
}
int main(int argc, char **argv) {
    const char *what = argv[1];
    (void)argc;
    if (!strcmp(what, "small")) all_of(MANY, 200);
    if (!strcmp(what, "small_freed") || !strcmp(what, "trimmed")) all_of(MANY, 200), drop(MANY, 200, 3);
    if (!strcmp(what, "trimmed")) malloc_trim(0);
    if (!strcmp(what, "middle_freed")) all_of(2000, 20000), drop(2000, 20000, 2);
    if (!strcmp(what, "large_freed")) all_of(200, 300000), drop(200, 300000, 2);
    if (!strcmp(what, "huge_freed")) all_of(10, 5000000), drop(10, 5000000, 2);
    if (!strcmp(what, "untouched")) {
        all_of(MANY, 200);
        for (int i = 0; i < 100; i++) block[i] = calloc(1, 1000000);
    }
    if (!strcmp(what, "resized")) {
        for (int i = 0; i < 200; i++) {
            size_t n = 1000;
            for (char *p = NULL; n < 150000; n += n / 3) memset(p = realloc(block[i], n), 1, n), block[i] = p;
            block[i] = realloc(block[i], 50000);
            touched += 50000;
        }
    }
    if (!strcmp(what, "aligned")) {
        for (int i = 0; i < 3000; i++) memset(block[i] = aligned_alloc(4096, 8192), 1, 8192), touched += 8192;
    }
    /* A slab of each size class, of which the last page is used in part. */
    for (size_t n = 16; !strcmp(what, "each") && n <= 65536; n += n < 1024 ? 16 : n / 8) all_of(1, n);
    if (!strcmp(what, "child") || !strcmp(what, "parent")) {
        all_of(MANY, 200);
        pid_t child = fork();
        if (child && !strcmp(what, "child")) return waitpid(child, NULL, 0) < 0;
        if (!child && !strcmp(what, "parent")) return prctl(PR_SET_PDEATHSIG, SIGKILL) + pause();
        /* A part of it is no longer shared. */
        for (int i = 0; i < MANY / 3; i++) memset(block[i], 2, 200);
        all_of(5000, 2000);
    }
    struct mallinfo2 m = mallinfo2();
    printf("%d %zu %zu %zu %zu %zu\n", (int)getpid(), touched, m.uordblks, m.hblkhd, m.fsmblks, m.fordblks), fflush(stdout);
    return getchar() == EOF;
}
"#;

struct Own {
    touched: u64,
    in_blocks: u64,
    in_huge: u64,
    cached: u64,
    free: u64,
}

fn each(thp: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "fields", PROGRAM, &[]);
    for what in [
        "small",
        "small_freed",
        "trimmed",
        "middle_freed",
        "large_freed",
        "huge_freed",
        "untouched",
        "resized",
        "aligned",
        "each",
        "child",
        "parent",
    ] {
        let mut run = Observed::start_with(&[], &[program.to_str().unwrap(), what], |command| {
            command.env("FREEHOLD", format!("thp={thp}"));
        });
        let line = run.line();
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let &[pid, touched, in_blocks, in_huge, cached, free] = &numbers[..] else {
            panic!("{what}: {line}");
        };
        let own = Own {
            touched,
            in_blocks,
            in_huge,
            cached,
            free,
        };
        compare(&format!("{what}, thp={thp}"), pid as u32, &own);
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        run.end();
    }
}

fn compare(what: &str, pid: u32, own: &Own) {
    let it = Explained::of(what, pid);
    let json = &it.json;
    let near = |said: u64, own: u64, of: &str| {
        let room = own / 50 + MIB / 4;
        assert!(
            said.abs_diff(own) <= room,
            "{what}: {of}: {said}, its own {own}: {json:#}"
        );
    };
    assert!(
        it.unexplained().unsigned_abs() * 50 <= it.resident,
        "{what}: unexplained: {json:#}"
    );
    let live =
        it.part("live") + it.part("rounding") + it.part("sample_room") + it.part("huge_live");
    // What was never touched is not in memory, unless it shares a huge page with something that was.
    if what.starts_with("untouched") {
        let most = own.in_blocks + own.in_huge;
        assert!(
            live >= own.touched && live <= most,
            "{what}: {live}: {json:#}"
        );
    } else {
        near(live, own.in_blocks + own.in_huge, "live");
    }
    if what.ends_with("never") {
        let slack = own.in_blocks + own.in_huge - own.touched;
        let least = own.touched;
        let most = own.touched
            + if what.starts_with("untouched") {
                MIB
            } else {
                slack
            };
        assert!(
            live + MIB / 4 >= least && live <= most + MIB / 4,
            "{what}: {live} of {least} to {most}: {json:#}"
        );
    }
    near(it.part("cached"), own.cached, "cached");
    // Of what the books have as free some pages may never have been touched, and with huge pages free ones are in memory that
    // never were a block's.
    if !what.starts_with("trimmed") {
        let free = it.part("free_in_slabs") + it.part("dirty");
        let least = own.free - own.free / 20;
        let beside = if what.ends_with("never") { 0 } else { 4 * MIB };
        let most = own.free + own.free / 50 + beside;
        assert!(
            free + MIB / 4 >= least && free <= most + MIB / 4,
            "{what}: free: {free} of {least} to {most}: {json:#}"
        );
    }
}

#[test]
fn the_fields_on_small_pages() {
    each("never");
}

#[test]
fn the_fields_where_huge_pages_are_chosen() {
    each("auto");
}

#[test]
fn the_fields_on_huge_pages() {
    each("always");
}
