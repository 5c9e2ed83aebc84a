//! Android's `THREAD: CALL ADDRESS ...`, as record_allocs writes it and memory_replay reads it.
//!
//! Newer files have two times in nanoseconds at the end of a line: when the call began, and when it returned.

use std::io::BufRead;

use super::{Call, Sink, Source, pointer, shortened};
use crate::error::TraceError;
use crate::op::{Losses, Op};

/// Each call, and how many numbers follow it.
const CALLS: [(&str, usize); 6] = [
    ("malloc", 2),
    ("calloc", 3),
    ("realloc", 3),
    ("memalign", 3),
    ("free", 1),
    ("thread_done", 1),
];

pub fn is_call(word: &str) -> bool {
    CALLS.iter().any(|(name, _)| *name == word)
}

pub fn import<R: BufRead>(
    mut source: Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
) -> Result<Losses, TraceError> {
    while source.advance()? {
        let line = source.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [thread, call, rest @ ..] = words.as_slice() else {
            if words.is_empty() {
                continue;
            }
            return source.wrong(not_a_line(&line));
        };
        let Some((_, count)) = CALLS.iter().find(|(name, _)| name == call) else {
            return source.wrong(format!("`{}` is no call that is known", shortened(call)));
        };
        let digits = thread.strip_suffix(':').unwrap_or_default();
        sink.thread = source.number(digits.parse::<u32>().ok(), thread)?;
        let numbers: Vec<u64> = rest
            .iter()
            .map(|word| source.number(decimal_or_pointer(word), word))
            .collect::<Result<_, _>>()?;
        let times = numbers.get(*count..);
        let time = match (times, *call) {
            (Some([]), _) => None,
            (Some([began, _]), "free") => Some(*began),
            (Some([_, returned]), _) => Some(*returned),
            (Some([returned]), "thread_done") => Some(*returned),
            _ => return source.wrong(not_a_line(&line)),
        };
        sink.at(time.unwrap_or(0));
        one(&source, sink, call, &numbers[..*count])?;
    }
    Ok(sink.losses(source.is_cut))
}

fn not_a_line(line: &str) -> String {
    format!("`{}` is no line of an Android trace", shortened(line))
}

fn decimal_or_pointer(word: &str) -> Option<u64> {
    if word.starts_with("0x") {
        return pointer(word);
    }
    let only_digits = word.bytes().all(|digit| digit.is_ascii_digit());
    only_digits.then(|| word.parse().ok()).flatten()
}

fn one<R: BufRead>(
    source: &Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
    call: &str,
    numbers: &[u64],
) -> Result<(), TraceError> {
    match (call, numbers) {
        ("malloc", [address, size]) => sink.call(Call::Malloc, *address, *size),
        ("calloc", [address, number, size]) => match number.checked_mul(*size) {
            Some(bytes) => sink.call(Call::Calloc, *address, bytes),
            None if *address == 0 => sink.call(Call::Calloc, 0, u64::MAX),
            None => source.wrong("a calloc of more bytes than there can be"),
        },
        ("realloc", [address, 0, size]) => sink.call(Call::Malloc, *address, *size),
        ("realloc", [address, old, size]) => sink.resize(*old, *address, *size),
        ("memalign", [address, alignment, size]) => {
            let Some(power) = alignment.checked_next_power_of_two() else {
                return source.wrong("an alignment that cannot be");
            };
            sink.align = power.trailing_zeros() as u8;
            let done = sink.call(Call::Aligned, *address, *size);
            sink.align = 0;
            done
        }
        ("free", [0]) => Ok(()),
        ("free", [address]) => sink.call(Call::Free, *address, 0),
        _ => sink.call(Call::ThreadEnd, 0, 0),
    }
}
