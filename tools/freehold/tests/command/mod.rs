//! The command that the tests run.

use std::path::PathBuf;

/// The one that `FREEHOLD_TEST_COMMAND` names: `make test` asks for what ships. Else what cargo has built beside the tests.
pub fn command() -> PathBuf {
    std::env::var_os("FREEHOLD_TEST_COMMAND")
        .map_or_else(|| assert_cmd::cargo::cargo_bin("freehold"), PathBuf::from)
}
