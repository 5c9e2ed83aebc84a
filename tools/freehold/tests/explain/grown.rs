//! Tables that have grown and then wait: behind each is room to grow, and what had memory before it became that room has it
//! still.

use profile_file::testing::skip_part;

use crate::Explained;
use crate::observed::*;

/// The modes of huge pages: with small pages too, room may have the memory of what was there before.
const MODES: [&str; 3] = ["never", "auto", "always"];

fn all_is_explained(program: &[&str]) {
    let name = program[0];
    if !installed(name) && !name.starts_with('/') {
        return skip_part(&format!("{name} is not installed"));
    }
    for mode in MODES {
        // Where what has grown comes to lie is chance.
        for _ in 0..2 {
            let mut run = Observed::start_with(&[], program, |command| {
                command.env("FREEHOLD", format!("thp={mode}"));
            });
            assert_eq!(run.line(), "grown");
            let it = Explained::of(name, run.pid());
            assert!(
                it.unexplained().unsigned_abs() * 50 <= it.resident,
                "thp={mode}, {program:?}: {:#}",
                it.json
            );
            run.end();
        }
    }
}

#[test]
fn a_table_of_strings_in_lua() {
    let script = "local t = {} for i = 1, 300000 do t[i] = tostring(i) end \
                  print('grown') io.stdout:flush() io.read()";
    all_is_explained(&["lua5.4", "-e", script]);
}

#[test]
fn tables_of_numbers_in_lua() {
    let script = "local t = {} for k = 1, 6 do local u = {} for i = 1, 100000 * k do u[i] = i end t[k] = u end \
                  for k = 2, 6, 2 do t[k] = nil end collectgarbage() \
                  print('grown') io.stdout:flush() io.read()";
    all_is_explained(&["lua5.4", "-e", script]);
}

#[test]
fn lists_and_bytes_in_python() {
    let script = "import sys\nlists = [[] for _ in range(3)]\nraw = bytearray()\n\
                  for i in range(900000):\n    lists[i % 3].append(None)\n    raw += b'twelve bytes'\n\
                  print('grown', flush=True)\nsys.stdin.read()";
    all_is_explained(&["python3", "-c", script]);
}

/// Of each size one buffer that grew to it by doubling, by halves, or in steps of 300 KiB; over memory that was used before.
const GROWN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
static char *grow(size_t to, int way) {
    size_t n = 100000, old = 0;
    char *p = NULL;
    for (;;) {
        if (n > to) n = to;
        p = realloc(p, n);
        memset(p + old, 1, n - old);
        if (n == to) return p;
        old = n;
        n = way == 0 ? n * 2 : way == 1 ? n + n / 2 : n + 300 * 1024;
    }
}
int main(int argc, char **argv) {
    static char *buffer[24];
    (void)argc;
    int way = atoi(argv[1]);
    char *before = memset(malloc(48 * MIB), 1, 48 * MIB);
    free(before);
    for (int i = 0; i < 8; i++) buffer[i] = grow((size_t)(3 + 3 * i) * MIB + 70000 * i, way);
    for (int i = 1; i < 8; i += 2) free(buffer[i]);
    printf("grown\n"), fflush(stdout);
    return getchar() == EOF;
}
"#;

#[test]
fn buffers_that_grew_over_used_memory() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "grown", GROWN, &[]);
    for way in ["0", "1", "2"] {
        all_is_explained(&[program.to_str().unwrap(), way]);
    }
}
