//! `freehold run --check`: the program runs checked, and what it writes to its standard error comes by us. The library's reports
//! have call stacks of files and offsets; they get functions and lines on the way. Everything else passes as it is.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Result;
use profile_file::FileSymbols;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Args, child, not_an_option};
use crate::{doctor, library};

pub fn run(args: &Args, level: u8) -> Result<ExitCode> {
    not_an_option(&args.command[0])?;
    let library = library::locate(args.library.as_deref())?;
    if let Some(obstacle) = doctor::obstacle(&args.command, &library) {
        tell_line!(
            "freehold: Freehold will not be active in {}: {obstacle}",
            args.command[0].to_string_lossy()
        );
    }
    let environment = child::added_to(
        std::env::var_os("LD_PRELOAD").as_deref(),
        std::env::var_os("FREEHOLD").as_deref(),
        &library,
        OsStr::new(&format!("check={level}")),
    );
    let mut child = match child::start_in(&args.command, environment, Stdio::piped())? {
        Ok(child) => child,
        Err(failed) => {
            tell_line!("freehold: {}", failed.message);
            return Ok(ExitCode::from(failed.code));
        }
    };
    if let Some(errors) = child.stderr.take() {
        pass_on(&mut child, errors, &mut io::stderr())?;
    }
    let status = child.wait()?;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
    ))
}

/// How long what a program left behind may be silent before we end without it: it may keep its standard error open for ever.
const SILENT: Duration = Duration::from_millis(200);
/// How often we look whether the program has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Until the program has ended and nothing more comes.
fn pass_on(child: &mut Child, mut errors: ChildStderr, to: &mut dyn Write) -> Result<()> {
    let mut names = Names::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let ended = child.try_wait()?.is_some();
        if !has_more(&errors, if ended { SILENT } else { LOOK })? {
            names.flush(to)?;
            if ended {
                return Ok(());
            }
            continue;
        }
        let n = errors.read(&mut buffer)?;
        if n == 0 {
            return Ok(names.flush(to)?);
        }
        names.add(&buffer[..n], to)?;
    }
}

fn has_more(errors: &ChildStderr, patience: Duration) -> Result<bool> {
    let mut one = [PollFd::from_borrowed_fd(errors.as_fd(), PollFlags::IN)];
    let patience = Timespec::try_from(patience)?;
    match poll(&mut one, Some(&patience)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Lines of which those that are frames get names. Part of a line is kept until its end comes, or nothing does.
#[derive(Default)]
struct Names {
    symbols: FileSymbols,
    line: Vec<u8>,
}

impl Names {
    fn add(&mut self, mut bytes: &[u8], to: &mut dyn Write) -> io::Result<()> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.line.extend_from_slice(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            let named = std::str::from_utf8(&line)
                .ok()
                .and_then(|line| self.named(line));
            to.write_all(named.as_deref().map_or(&line[..], str::as_bytes))?;
        }
        self.line.extend_from_slice(bytes);
        to.flush()
    }

    /// What has no end is no frame.
    fn flush(&mut self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&std::mem::take(&mut self.line))?;
        to.flush()
    }

    /// "    #0 0x55… main at a.c:10 (/usr/bin/x+0x1234)", for each function that was inlined there.
    fn named(&mut self, line: &str) -> Option<String> {
        let (number, address, path, offset) = parts(line)?;
        let mut text = String::new();
        for frame in self.symbols.frames(path, offset).iter() {
            if !frame.named {
                return None;
            }
            let place = frame.short_place();
            let place = place.map_or_else(String::new, |place| format!(" at {place}"));
            text += &format!(
                "    #{number} {address} {}{place} ({path}+{offset:#x})\n",
                frame.function
            );
        }
        Some(text)
    }
}

/// Of a frame as the library writes it: its number, address, file and offset.
fn parts(line: &str) -> Option<(&str, &str, &str, u64)> {
    let (number, rest) = line
        .strip_prefix("    #")?
        .strip_suffix('\n')?
        .split_once(' ')?;
    number.parse::<u32>().ok()?;
    let (address, rest) = rest.split_once(' ')?;
    u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    let (path, offset) = rest.rsplit_once("+0x")?;
    Some((number, address, path, u64::from_str_radix(offset, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_told_from_other_lines() {
        assert_eq!(
            parts("    #12 0x55aa /usr/a +b/x+0x1f\n"),
            Some(("12", "0x55aa", "/usr/a +b/x", 0x1f))
        );
        for other in [
            "    #0 0x55aa\n",
            "    #0 0x55aa /usr/bin/x\n",
            "    #0 55aa /usr/bin/x+0x1\n",
            "    #x 0x55aa /usr/bin/x+0x1\n",
            "    #0 0x55aa /usr/bin/x+0xg\n",
            "#0 0x55aa /usr/bin/x+0x1\n",
            "    #0 0x55aa /usr/bin/x+0x1",
        ] {
            assert_eq!(parts(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_no_frame_passes_byte_by_byte() {
        let text = b"\xff\xfe no text\nhalf a line    #0 0x1 /nowhere+0x1\n    #0 0x1 /nowhere+0x1\n\n  end";
        for step in [1, 3, text.len()] {
            let (mut names, mut out) = (Names::default(), Vec::new());
            for piece in text.chunks(step) {
                names.add(piece, &mut out).unwrap();
            }
            names.flush(&mut out).unwrap();
            assert_eq!(out, text);
        }
    }
}
