//! Files and directories that the suite writes: an error names the one that it is about.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use profile_file::output_file;

/// Replaces the file as a whole, so that an interruption never leaves half of one.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    output_file::replace(file, |into| into.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

pub fn make_directory(directory: &Path) -> anyhow::Result<()> {
    output_file::make_directory(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}
