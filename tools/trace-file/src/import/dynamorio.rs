//! DynamoRIO's `drmemtrace -tool func_view -show_func_trace` of a trace that was made with `-record_heap`.
//!
//! ```text
//! T4711        0x7f01 => libc.so.6!realloc(0x5010, 0x80)
//! T4711            0x7f02 => libc.so.6!malloc(0x80) => 0x6010
//! T4711        => 0x6010
//! ```
//!
//! A line has the thread, four blanks for each call around it, and a call or what a call returned. What the allocator calls
//! by itself is inside another call, and is left out. There are no times.

use std::collections::HashMap;
use std::io::BufRead;

use super::{Call, Sink, Source, pointer, shortened};
use crate::error::TraceError;
use crate::op::{Losses, Op};

/// How wide the thread's number is at least, behind its T.
const NUMBER: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Malloc,
    Calloc,
    Realloc,
    Aligned,
    /// It returns the block in memory, which the text does not show.
    Hidden,
    Free,
    /// None of the allocator's.
    Other,
}

/// A call that has not returned yet.
struct Open {
    function: Function,
    arguments: Vec<u64>,
}

pub fn is_line(line: &str) -> bool {
    parts(line).is_some_and(|(_, _, rest)| rest.starts_with("=> ") || rest.contains(" => "))
}

/// The thread, how deep, and the rest.
fn parts(line: &str) -> Option<(u32, usize, &str)> {
    let rest = line.strip_prefix('T')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let thread = rest[..digits].parse().ok()?;
    let rest = rest.get(digits.max(NUMBER)..)?;
    let plain = rest.trim_start_matches(' ');
    Some((thread, (rest.len() - plain.len()) / 4, plain))
}

/// What the tool says at the end, and what is empty.
fn is_summary(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(
        words.as_slice(),
        [] | [_, "calls" | "returns"] | ["Function", ..]
    ) || line.ends_with("results:")
}

fn function(name: &str) -> Function {
    let symbol = name.rsplit('!').next().unwrap_or(name);
    let symbol = symbol.strip_prefix("__libc_").unwrap_or(symbol);
    match symbol {
        "malloc" => Function::Malloc,
        "calloc" => Function::Calloc,
        "realloc" => Function::Realloc,
        "memalign" | "aligned_alloc" => Function::Aligned,
        "posix_memalign" => Function::Hidden,
        "free" | "cfree" => Function::Free,
        _ if symbol.starts_with("_Znw") || symbol.starts_with("_Zna") => Function::Malloc,
        _ if symbol.starts_with("operator new") => Function::Malloc,
        _ if symbol.starts_with("_Zdl") || symbol.starts_with("_Zda") => Function::Free,
        _ if symbol.starts_with("operator delete") => Function::Free,
        _ => Function::Other,
    }
}

pub fn import<R: BufRead>(
    mut source: Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
) -> Result<Losses, TraceError> {
    let mut threads: HashMap<u32, Vec<Open>> = HashMap::new();
    while source.advance()? {
        let line = source.line();
        let Some((thread, depth, rest)) = parts(&line) else {
            if is_summary(&line) {
                continue;
            }
            return source.wrong(not_a_line(&line));
        };
        sink.thread = thread;
        let open = threads.entry(thread).or_default();
        if let Some(returned) = rest.strip_prefix("=> ") {
            let returned = source.number(pointer(returned), returned)?;
            end(&source, sink, open, depth, returned)?;
            continue;
        }
        // What is as deep and has not returned never does.
        open.truncate(depth);
        let (call, returned) = began(&source, &line, rest)?;
        if call.function == Function::Free || call.function == Function::Realloc {
            begin(sink, open, &call)?;
        }
        let is_free = call.function == Function::Free;
        open.push(call);
        match returned {
            Some(returned) => end(&source, sink, open, depth, returned)?,
            // The tool is told that free returns nothing.
            None if is_free => drop(open.pop()),
            None => {}
        }
    }
    let cut = threads
        .values()
        .flatten()
        .filter(|call| call.function != Function::Other);
    let cut = cut.count() as u64;
    let mut losses = sink.losses(source.is_cut);
    losses.lost += cut;
    Ok(losses)
}

fn not_a_line(line: &str) -> String {
    format!("`{}` is no line of func_view", shortened(line))
}

/// A call, and what it returned if that is on the same line.
fn began<R: BufRead>(
    source: &Source<R>,
    line: &str,
    rest: &str,
) -> Result<(Open, Option<u64>), TraceError> {
    let Some((_, called)) = rest.split_once(" => ") else {
        return source.wrong(not_a_line(line));
    };
    let called = called.strip_suffix(" <no return>").unwrap_or(called);
    let (called, returned) = match called.rsplit_once(" => ") {
        Some((called, word)) => (called, Some(source.number(pointer(word), word)?)),
        None => (called, None),
    };
    // A name may have brackets too: the arguments are in the last ones.
    let inside = called
        .strip_suffix(')')
        .and_then(|called| called.rsplit_once('('));
    let Some((name, inside)) = inside else {
        return source.wrong(not_a_line(line));
    };
    let words = inside.split(", ").filter(|word| !word.is_empty());
    let arguments = words.map(|word| source.number(pointer(word), word));
    let open = Open {
        function: function(name),
        arguments: arguments.collect::<Result<_, _>>()?,
    };
    Ok((open, returned))
}

fn is_inside(open: &[Open]) -> bool {
    open.iter().any(|call| call.function != Function::Other)
}

/// What is released is free from here on, for other threads too.
fn begin(
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
    open: &[Open],
    call: &Open,
) -> Result<(), TraceError> {
    match (call.function, call.arguments.first()) {
        _ if is_inside(open) => Ok(()),
        (_, None | Some(0)) => Ok(()),
        (Function::Free, Some(block)) => sink.call(Call::Free, *block, 0),
        (_, Some(block)) => sink.call(Call::ResizeBegins, *block, 0),
    }
}

/// The call that is so deep has returned this.
fn end<R: BufRead>(
    source: &Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
    open: &mut Vec<Open>,
    depth: usize,
    returned: u64,
) -> Result<(), TraceError> {
    // Behind a call that returns nothing the tool writes one level more than there is.
    open.truncate(depth + 1);
    let Some(call) = open.pop() else {
        sink.compiler.losses.lost += 1;
        return Ok(());
    };
    if is_inside(open) {
        return Ok(());
    }
    match (call.function, call.arguments.as_slice()) {
        (Function::Malloc, [size, ..]) => sink.call(Call::Malloc, returned, *size),
        (Function::Calloc, [count, size, ..]) => match count.checked_mul(*size) {
            Some(bytes) => sink.call(Call::Calloc, returned, bytes),
            None if returned == 0 => sink.call(Call::Calloc, 0, u64::MAX),
            None => source.wrong("a calloc of more bytes than there can be"),
        },
        (Function::Realloc, [0, size, ..]) => sink.call(Call::Malloc, returned, *size),
        (Function::Realloc, [_, size, ..]) => sink.call(Call::Resized, returned, *size),
        (Function::Aligned, [alignment, size, ..]) => {
            let Some(power) = alignment.checked_next_power_of_two() else {
                return source.wrong("an alignment that cannot be");
            };
            sink.align = power.trailing_zeros() as u8;
            let done = sink.call(Call::Aligned, returned, *size);
            sink.align = 0;
            done
        }
        (Function::Hidden, _) => {
            sink.compiler.losses.lost += 1;
            Ok(())
        }
        (Function::Free | Function::Other, _) => Ok(()),
        _ => source.wrong("a call of the allocator without its arguments"),
    }
}
