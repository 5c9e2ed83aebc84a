//! A recorded program that the kernel's OOM killer ends: its records are whole, with and without a command beside it.

mod observed;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{answer, command, compile, library, text};
use profile_file::testing::skip;
use serde_json::Value;

/// Allocates and writes 4 KiB at a time for ever, and says each mebibyte with one byte.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (long i = 1;; i++) {
        memset(malloc(4096), 1, 4096);
        if (i % 256 == 0) {
            write(1, ".", 1);
        }
    }
}
"#;

/// The group has 64 MiB. The command is not in it, so it is the program that is killed: $1, and $2... records it.
const IN_GROUP: &str = r#"
set -eu
program=$1
shift
. "$SUPPORT/skip.sh"
. "$SUPPORT/memory_group.sh"
make_group
limit_group $((64 << 20))
status=0
"$@" bash -c 'echo $$ >"$0" && exec "$1"' "$group/cgroup.procs" "$program" || status=$?
exit $status
"#;

struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        library(); // or it says what to build
        let directory = tempfile::tempdir().unwrap();
        let program = compile(directory.path(), "grows", PROGRAM, &["-fno-builtin"]);
        Self { directory, program }
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// None, and said, where no group can be made.
    fn killed(&self, how: &[&str]) -> Option<Output> {
        let output = Command::new("bash")
            .args(["-c", IN_GROUP, "oom"])
            .arg(&self.program)
            .arg(command())
            .arg("record")
            .args(how)
            .arg("--")
            .env(
                "SUPPORT",
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support"),
            )
            .env_remove("FREEHOLD_SKIPS")
            .output()
            .unwrap();
        if output.status.code() == Some(77) {
            skip(text(&output.stderr).trim());
            return None;
        }
        assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
        Some(output)
    }

    /// The trace has what the program had done: `output` has a byte for each mebibyte.
    fn is_whole(&self, trace: &str, output: &Output) -> Value {
        let info: Value =
            serde_json::from_str(&answer(&["trace", "info", "--json", trace])).unwrap();
        let said = output.stdout.iter().filter(|byte| **byte == b'.').count() as u64;
        let live = info["tally"]["live_bytes"].as_u64().unwrap() >> 20;
        assert!(said >= 20, "the program was killed at {said} MiB");
        assert!((said..=said + 1).contains(&live), "{said} MiB said: {info}");
        assert_eq!(info["losses"]["lost"], 0);
        assert_eq!(info["losses"]["missed_frees"], 0);
        answer(&[
            "replay",
            trace,
            "--on",
            "system",
            "--repeats",
            "1",
            "--verify",
        ]);
        info
    }
}

#[test]
fn what_the_oom_killer_ends_has_a_trace() {
    let place = Place::new();
    let trace = place.at("out.trace");
    let Some(output) = place.killed(&["--json", "--blocks", "64", "-o", &trace]) else {
        return;
    };
    let info = place.is_whole(&trace, &output);
    let peak = info["resident"]["peak"].as_u64().unwrap() >> 20;
    assert!((20..=64).contains(&peak), "{info}");
}

#[test]
fn what_the_oom_killer_ends_has_its_last_records() {
    let place = Place::new();
    let (directory, trace) = (place.at("flight"), place.at("end.trace"));
    let Some(output) = place.killed(&["--flight", "4m", "-o", &directory]) else {
        return;
    };
    answer(&["trace", "flight", &directory, "-o", &trace]);
    place.is_whole(&trace, &output);
}
