//! Blocks of every size, in each mode of huge pages.

use serde_json::Value;

use crate::observed::*;

/// Holds 32 MiB in blocks of one size after the other, of which every second one is freed then; waits for a line each time.
/// With an argument it stands still meanwhile, and without it allocates.
const SIZES: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    (void)argv;
    static const size_t sizes[] = {16, 100, 1000, 5000, 20000, 33000, 60000, 66000, 140000, 700000, 5000000, 16 << 20};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s], count = ((size_t)32 << 20) / n;
        char **block = malloc(count * sizeof *block);
        for (size_t i = 0; i < count; i++) block[i] = memset(malloc(n), 1, n);
        for (int half = 0; half < 2; half++) {
            printf("%zu\n", n), fflush(stdout);
            struct pollfd line = {0, POLLIN, 0};
            while (argc == 1 && poll(&line, 1, 10) == 0) {
                static void *some[4000];
                for (int i = 0; i < 4000; i++) some[i] = malloc(64), memset(some[i], 1, 64);
                for (int i = 0; i < 4000; i++) free(some[i]);
            }
            getchar();
            if (half == 0) for (size_t i = 0; i < count; i += 2) free(block[i]), block[i] = NULL;
        }
        for (size_t i = 0; i < count; i++) free(block[i]);
        free(block);
    }
    return 0;
}
"#;

/// What was counted is what the kernel says within 2 %, for blocks of every size, all of them alive and every second one.
fn sizes(mode: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "sizes", SIZES, &[]);
    let program = program.to_str().unwrap();
    for program in [&[program][..], &[program, "idle"]] {
        sizes_of(program, mode);
    }
}

fn sizes_of(program: &[&str], mode: &str) {
    let mut run = Observed::start_with(&["--sample", "64k"], program, |command| {
        command.env("FREEHOLD", format!("thp={mode}"));
    });
    for _ in 0..24 {
        let size = run.line();
        let pid = run.pid();
        if program.len() == 2 {
            settle(pid);
        }
        let mut last = String::new();
        // One that allocates may purge between the two readings; a wrong sum is wrong each time.
        let stands_still = program.len() == 2;
        let right = (0..if stands_still { 1 } else { 4 }).any(|_| {
            let json: Value =
                serde_json::from_str(&answer(&["explain", "--json", &pid.to_string()])).unwrap();
            let bytes = |key: &str| json[key].as_u64().unwrap();
            let (counted, there) = (
                bytes("counted_bytes") + bytes("other_bytes"),
                resident(pid).unwrap(),
            );
            last = format!("{counted} of {there}: {json:#}");
            counted.abs_diff(there) * 50 <= there
        });
        assert!(right, "thp={mode}, {program:?}, blocks of {size}: {last}");
        run.say("\n");
    }
}

#[test]
fn blocks_of_every_size_on_small_pages() {
    sizes("never");
}

#[test]
fn blocks_of_every_size_where_huge_pages_are_chosen() {
    sizes("auto");
}

#[test]
fn blocks_of_every_size_on_huge_pages() {
    sizes("always");
}

/// Buffers that have grown, with room behind each that huge pages gave memory. Some begin in one chunk and end in the next.
const GROWN: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    static char *buffer[30], *some[4000];
    for (int i = 0; i < 30; i++) {
        size_t n = 0;
        for (size_t more = (size_t)(1100 + 37 * i) << 10; n < (size_t)(2600 + 70 * i) << 10; more = (size_t)300 << 10) {
            buffer[i] = realloc(buffer[i], n + more);
            memset(buffer[i] + n, 1, more);
            n += more;
        }
    }
    printf("grown\n"), fflush(stdout);
    struct pollfd end = {0, POLLIN, 0};
    while (poll(&end, 1, 1) == 0) {
        for (int i = 0; i < 4000; i++) some[i] = malloc(64), memset(some[i], 1, 64);
        for (int i = 0; i < 4000; i++) free(some[i]);
    }
    return 0;
}
"#;

#[test]
fn the_room_behind_blocks_that_have_grown() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "grown", GROWN, &[]);
    let mut run = Observed::start_with(&[], &[program.to_str().unwrap()], |command| {
        command.env("FREEHOLD", "thp=always");
    });
    assert_eq!(run.line(), "grown");
    let pid = run.pid();
    settle(pid);
    let json: Value =
        serde_json::from_str(&answer(&["explain", "--json", &pid.to_string()])).unwrap();
    let bytes = |key: &str| json[key].as_u64().unwrap();
    let (counted, there) = (bytes("counted_bytes"), bytes("freehold_bytes"));
    assert!(
        counted.abs_diff(there) * 50 <= there,
        "{counted} of {there}: {json:#}"
    );
}
