//! Traces from what other tools write.
//!
//! | module | of |
//! |---|---|
//! | `text` | the ancestors' `a SIZE ID` and `r ID` |
//! | `mtrace` | glibc's mtrace |
//! | `heaptrack` | heaptrack, before and after its interpreter |
//! | `android` | Android's record_allocs and memory_replay |
//! | `dynamorio` | DynamoRIO's func_view |
//!
//! Each is read line by line. What cannot be understood is an error with its line. A last line without its end was cut
//! off by the program's own end: it is counted as lost, and all before it is kept.

mod android;
mod dynamorio;
mod heaptrack;
mod mtrace;
mod text;

use std::io::{BufRead, Read};

use crate::compile::Compiler;
use crate::error::TraceError;
use crate::op::{Losses, Op};
use crate::raw::RawRecord;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    Text,
    Mtrace,
    Heaptrack,
    Android,
    Dynamorio,
}

/// By the first line that says anything.
pub fn recognize(beginning: &[u8]) -> Option<TextFormat> {
    let text = String::from_utf8_lossy(beginning);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let words: Vec<&str> = line.split_whitespace().collect();
    if dynamorio::is_line(line) {
        return Some(TextFormat::Dynamorio);
    }
    Some(match words.as_slice() {
        ["=", "Start", ..] | ["@", ..] => TextFormat::Mtrace,
        ["v", version, ..] if u64::from_str_radix(version, 16).is_ok() => TextFormat::Heaptrack,
        ["a" | "r", ..] => TextFormat::Text,
        [word, ..] if word.starts_with('#') => TextFormat::Text,
        [thread, call, ..] if thread.ends_with(':') && android::is_call(call) => {
            TextFormat::Android
        }
        _ => return None,
    })
}

/// Gives `out` each operation, and says what is not among them.
pub fn import(
    format: TextFormat,
    input: impl BufRead,
    out: &mut impl FnMut(Op) -> Result<(), TraceError>,
) -> Result<Losses, TraceError> {
    match format {
        TextFormat::Text => text::import_text(input, out).map(|()| Losses::default()),
        TextFormat::Mtrace => mtrace::import(Source::new(input), &mut Sink::new(out)),
        TextFormat::Heaptrack => heaptrack::import(Source::new(input), &mut Sink::new(out)),
        TextFormat::Android => android::import(Source::new(input), &mut Sink::new(out)),
        TextFormat::Dynamorio => dynamorio::import(Source::new(input), &mut Sink::new(out)),
    }
}

/// What a file of zstd holds.
pub fn unpacked(input: impl BufRead) -> Result<impl Read, TraceError> {
    Ok(zstd::stream::read::Decoder::with_buffer(input)?)
}

/// Whole lines, counted.
struct Source<R> {
    input: R,
    bytes: Vec<u8>,
    number: usize,
    /// The last line had no end.
    is_cut: bool,
}

impl<R: BufRead> Source<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            number: 0,
            is_cut: false,
        }
    }

    /// Reads a line into `bytes`, with its end; false if there is no whole one any more.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.bytes.clear();
        if self.input.read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.is_cut = self.bytes.last() != Some(&b'\n');
        Ok(!self.is_cut)
    }

    fn line(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim_end().to_string()
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, TraceError> {
        Err(TraceError::Line {
            what: what.into(),
            line: self.number,
        })
    }

    fn number<T>(&self, found: Option<T>, word: &str) -> Result<T, TraceError> {
        match found {
            Some(number) => Ok(number),
            None => self.wrong(format!("`{}` is not a number", shortened(word))),
        }
    }
}

/// A hostile line may be as long as the file.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

fn hex(digits: &str) -> Option<u64> {
    // The library's own function takes a sign.
    let only_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = only_digits.then(|| u64::from_str_radix(digits, 16));
    number.and_then(Result::ok)
}

/// As C's %p and %#lx write it.
fn pointer(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => hex(digits),
        None => matches!(word, "0" | "(nil)").then_some(0),
    }
}

/// The calls of the recorder, by its numbers.
#[derive(Debug, Clone, Copy)]
enum Call {
    Malloc = 1,
    Calloc = 2,
    ResizeBegins = 3,
    Resized = 4,
    Aligned = 5,
    Free = 6,
    ThreadEnd = 13,
}

/// Makes operations of calls.
struct Sink<'a, F> {
    compiler: Compiler,
    out: &'a mut F,
    time: u64,
    thread: u32,
    align: u8,
}

impl<'a, F: FnMut(Op) -> Result<(), TraceError>> Sink<'a, F> {
    fn new(out: &'a mut F) -> Self {
        Self {
            compiler: Compiler::default(),
            out,
            time: 0,
            thread: 0,
            align: 0,
        }
    }

    /// Times never go back.
    fn at(&mut self, time: u64) {
        self.time = time.max(self.time);
    }

    fn call(&mut self, call: Call, address: u64, size: u64) -> Result<(), TraceError> {
        let record = RawRecord {
            thread: self.thread,
            ticks: self.time,
            op: call as u8,
            align: self.align,
            address,
            size,
        };
        let mut result = Ok(());
        let out = &mut self.out;
        self.compiler.add(&record, self.time, &mut |op| {
            if result.is_ok() {
                result = out(op);
            }
        });
        result
    }

    fn resize(&mut self, old: u64, new: u64, size: u64) -> Result<(), TraceError> {
        self.call(Call::ResizeBegins, old, 0)?;
        self.call(Call::Resized, new, size)
    }

    fn losses(&mut self, is_cut: bool) -> Losses {
        let mut losses = std::mem::take(&mut self.compiler.losses);
        losses.lost += u64::from(is_cut);
        losses
    }
}
