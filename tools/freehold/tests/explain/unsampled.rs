//! Programs that take no samples: the allocator's own counts are all that is known.

use serde_json::Value;

use crate::observed::*;
use crate::{Explained, MIB};

/// Holds 40 MiB of small blocks and 20 MiB in one, says so, waits for a line, and frees nothing.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *block[40 * 1024], *large;
int main(void) {
    for (int i = 0; i < 40 * 1024; i++) memset(block[i] = malloc(1024), 1, 1024);
    memset(large = malloc(20 << 20), 1, 20 << 20);
    printf("%d\n", 60 << 20), fflush(stdout);
    return large[getchar() & 1] != 1;
}
"#;

#[test]
fn what_was_never_sampled_is_live() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "unsampled", PROGRAM, &[]);
    let mut run = Observed::start(&["--sample", "0"], &[program.to_str().unwrap()]);
    let held: u64 = run.line().parse().unwrap();
    let near = |what: &str, bytes: u64| {
        assert!(
            bytes.abs_diff(held) <= 2 * MIB,
            "{what}: {bytes}, held are {held}"
        );
    };
    let it = Explained::of("unsampled", run.pid());
    near(
        "while it runs",
        it.part("live") + it.part("rounding") + it.part("huge_live"),
    );
    let (_, said, profiles) = run.end();
    assert!(said.contains("sampling was off"), "{said}");
    let file = std::fs::read_dir(profiles.path()).unwrap();
    let file = file
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains("/freehold-"))
        .unwrap();
    let json: Value =
        serde_json::from_str(&answer(&["explain", "--json", file.to_str().unwrap()])).unwrap();
    let lines = json["freehold"].as_array().unwrap().iter();
    let live = lines
        .filter(|line| line["part"] == "live" || line["part"] == "huge_live")
        .map(|line| line["bytes"].as_u64().unwrap());
    near("at its end", live.sum());
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("It has ended: at most 6") && sentence.contains("sampling was off"),
        "{json:#}"
    );
    let notes = json["notes"].to_string();
    assert!(!notes.contains("were freed since"), "{json:#}");
}
