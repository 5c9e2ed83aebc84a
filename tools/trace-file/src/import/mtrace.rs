//! glibc's mtrace: `@ CALLER + ADDRESS SIZE`, `-` for a release, `<` and `>` for a resize, `!` for a refused one.
//!
//! It notes neither threads nor times nor alignments. A calloc is a malloc of the product.

use std::io::BufRead;

use super::{Call, Sink, Source, pointer, shortened};
use crate::error::TraceError;
use crate::op::{Losses, Op};

pub fn import<R: BufRead>(
    mut source: Source<R>,
    sink: &mut Sink<'_, impl FnMut(Op) -> Result<(), TraceError>>,
) -> Result<Losses, TraceError> {
    let mut resized: Option<u64> = None;
    while source.advance()? {
        let line = source.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words[0] == "=" {
            continue;
        }
        // The caller's path may have spaces in it, so the line is read from its end.
        let (sign, address, size) = match words.as_slice() {
            [.., sign @ ("+" | ">" | "!"), address, size] => (*sign, *address, *size),
            [.., sign @ ("-" | "<"), address] => (*sign, *address, "0"),
            _ => return source.wrong(format!("`{}` is no line of mtrace", shortened(&line))),
        };
        let address = source.number(pointer(address), address)?;
        let size = source.number(pointer(size), size)?;
        if resized.is_some() != (sign == ">") {
            return source.wrong("`<` and `>` must follow each other: they are one realloc");
        }
        match sign {
            "+" => sink.call(Call::Malloc, address, size)?,
            "-" => sink.call(Call::Free, address, 0)?,
            "!" => sink.compiler.losses.failed += 1,
            "<" => resized = Some(address),
            _ => sink.resize(resized.take().unwrap_or_default(), address, size)?,
        }
    }
    // The end of the file came between `<` and `>`.
    Ok(sink.losses(source.is_cut || resized.is_some()))
}
