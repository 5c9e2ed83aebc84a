//! heaptrack's data, unpacked.
//!
//! Before its interpreter a line is `+ SIZE TRACE ADDRESS` or `- ADDRESS`. Behind it addresses are gone: `a SIZE TRACE`
//! numbers what was allocated where, `+ NUMBER` is one more of these and `- NUMBER` one less. Which one is not said: here
//! it is the youngest. Numbers are hexadecimal. A realloc is a release and an allocation, and threads are not noted.

use std::io::BufRead;

use super::{Call, Sink, Source, hex, shortened};
use crate::error::TraceError;
use crate::op::{Losses, Op};

/// From this version of the file on, a string is preceded by its length, and may have ends of lines in it.
const SIZED_STRINGS: u64 = 3;
/// The newest one that is known.
const NEWEST: u64 = 3;

/// Blocks by the number of their size and call stack.
#[derive(Default)]
struct Numbered {
    sizes: Vec<u64>,
    live: Vec<Vec<u64>>,
    next: u64,
}

pub fn import<R: BufRead>(
    mut source: Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
) -> Result<Losses, TraceError> {
    let (mut version, mut numbered) = (0, Numbered::default());
    while source.advance()? {
        let line = source.line();
        let Some(kind) = line.chars().next() else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let numbers = || -> Result<Vec<u64>, TraceError> {
            let each = words.iter();
            each.map(|word| source.number(hex(word), word)).collect()
        };
        match kind {
            'v' => {
                version = numbers()?.get(1).copied().unwrap_or(0);
                if version > NEWEST {
                    return source.wrong(format!(
                        "version {version} of heaptrack's file, and this command reads up to {NEWEST}"
                    ));
                }
            }
            '+' => match numbers()?.as_slice() {
                [size, _, address] => sink.call(Call::Malloc, *address, *size)?,
                [number] => add(&source, sink, &mut numbered, *number)?,
                _ => return source.wrong("an allocation of another form than heaptrack's"),
            },
            '-' => match numbers()?.as_slice() {
                [one] if numbered.sizes.is_empty() => sink.call(Call::Free, *one, 0)?,
                [one] => match numbered.live.get_mut(*one as usize).map(Vec::pop) {
                    Some(Some(address)) => sink.call(Call::Free, address, 0)?,
                    Some(None) => sink.compiler.losses.unknown_frees += 1,
                    None => return source.wrong(unknown(*one)),
                },
                _ => return source.wrong("a release of another form than heaptrack's"),
            },
            'a' => match numbers()?.as_slice() {
                [size, _] => {
                    numbered.sizes.push(*size);
                    numbered.live.push(Vec::new());
                }
                _ => return source.wrong("a size of another form than heaptrack's"),
            },
            // Milliseconds.
            'c' => match numbers()?.as_slice() {
                [time] => sink.at(time.saturating_mul(1_000_000)),
                _ => return source.wrong("a time of another form than heaptrack's"),
            },
            'X' => {
                // The command line, whose words may have ends of lines in them. What follows it is the page size.
                let begun = source.number;
                while !source.bytes.starts_with(b"I ") {
                    if !source.advance()? {
                        source.number = begun;
                        return source.wrong("the command line has no end");
                    }
                }
            }
            's' | 'x' | 'm' if version >= SIZED_STRINGS => skip_string(&mut source)?,
            's' | 'x' | 'm' | 't' | 'i' | 'I' | 'R' | 'A' | 'S' | '#' => {}
            _ => {
                let what = format!("`{}` is no line of heaptrack", shortened(&line));
                return source.wrong(what);
            }
        }
    }
    Ok(sink.losses(source.is_cut))
}

fn unknown(number: u64) -> String {
    format!("number {number:x} was not given to any size")
}

fn add<R: BufRead>(
    source: &Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
    numbered: &mut Numbered,
    number: u64,
) -> Result<(), TraceError> {
    let place = usize::try_from(number).unwrap_or(usize::MAX);
    let (Some(size), Some(live)) = (numbered.sizes.get(place), numbered.live.get_mut(place)) else {
        return source.wrong(unknown(number));
    };
    numbered.next += 1;
    live.push(numbered.next);
    sink.call(Call::Malloc, numbered.next, *size)
}

/// `s LENGTH TEXT`: reads on while the text is not complete.
fn skip_string<R: BufRead>(source: &mut Source<R>) -> Result<(), TraceError> {
    let mut parts = source.bytes.splitn(3, |byte| *byte == b' ').skip(1);
    let length = parts
        .next()
        .and_then(|word| hex(std::str::from_utf8(word).ok()?.trim_end()));
    let Some(length) = length else {
        return source.wrong("a string without its length");
    };
    // Each part has its end of line, which the text has only inside.
    let mut read = parts.next().map_or(0, <[u8]>::len) as u64;
    while read < length {
        if !source.advance()? {
            return Ok(());
        }
        read += source.bytes.len() as u64;
    }
    Ok(())
}
