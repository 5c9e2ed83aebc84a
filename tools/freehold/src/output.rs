//! What a command prints as its answer.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Prints to the standard output, at once. A reader who has seen enough (`| head`) is no error; a full disk is one.
pub fn print(text: &str) -> Result<()> {
    write(text.as_bytes()).map(|_| ())
}

/// As [`print`], and says whether somebody is still there to read: a command that prints again and again stops if not.
pub fn write(bytes: &[u8]) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to the standard output"),
    }
}
