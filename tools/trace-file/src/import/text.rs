//! The ancestors' text form: `a SIZE ID` and `r ID`, one thread.

use std::collections::HashMap;
use std::io::BufRead;

use crate::error::TraceError;
use crate::op::{Kind, Op};

/// Gives `out` each operation. Identifiers may be any numbers; an empty line and one that begins with # are skipped.
pub fn import_text(
    input: impl BufRead,
    out: &mut impl FnMut(Op) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut slots: HashMap<u64, u32> = HashMap::new();
    let (mut free, mut next) = (Vec::new(), 0u32);
    for (number, line) in input.lines().enumerate() {
        let line = line?;
        let wrong = |what: &str| TraceError::Line {
            what: what.to_string(),
            line: number + 1,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |word: &str| word.parse::<u64>().map_err(|_| wrong("not a number"));
        let (kind, size, slot) = match words.as_slice() {
            [] => continue,
            [word, ..] if word.starts_with('#') => continue,
            ["a", size, id] => {
                let slot = free.pop().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                if slots.insert(value(id)?, slot).is_some() {
                    return Err(wrong("an identifier that is in use"));
                }
                let size = value(size)?;
                if i64::try_from(size).is_err() {
                    return Err(wrong("a size that no block has"));
                }
                (Kind::Malloc, size, slot)
            }
            ["r", id] => {
                let slot = slots
                    .remove(&value(id)?)
                    .ok_or_else(|| wrong("an identifier that is not in use"))?;
                free.push(slot);
                (Kind::Free, 0, slot)
            }
            _ => return Err(wrong("neither `a SIZE ID` nor `r ID`")),
        };
        out(Op {
            kind,
            thread: 0,
            time: 0,
            slot,
            size,
            align: 0,
        })?;
    }
    Ok(())
}
