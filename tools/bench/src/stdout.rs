//! What is printed for a person. Who stops reading (`| head`) ends nothing with an error.

use std::io::{self, Write};

use anyhow::Context;

pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}
