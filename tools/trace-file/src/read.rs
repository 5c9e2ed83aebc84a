//! Reads the file. Every byte may be hostile: whatever is wrong is an error that says where.

use std::path::Path;

use crate::error::{TraceError, bad};
use crate::op::{Header, Kind, Losses, Op};
use crate::resident::Resident;
use crate::varint;
use crate::write::{
    BLOCK_HEADER, BLOCK_MAGIC, BLOCK_OPS, BlockPlace, END_MAGIC, INDEX_MAGIC, Index, MAGIC, VERSION,
};

/// No block's columns are longer: 1 + 5 + 10 + 5 + 10 + 1 bytes an operation.
const MOST_RAW: usize = BLOCK_OPS * 32;

pub struct Trace {
    bytes: Vec<u8>,
    pub header: Header,
    index: Index,
}

impl Trace {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::parse(std::fs::read(path)?)
    }

    pub fn parse(bytes: Vec<u8>) -> Result<Self, TraceError> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(bad("not a trace: it does not begin with FHTRACE", 0));
        }
        let version = u32_at(&bytes, 8)?;
        if version != VERSION {
            return Err(bad(
                format!("version {version}, and this command reads {VERSION}"),
                8,
            ));
        }
        let header = checked_json(&bytes, 12, "header")?;
        let header_end = 20 + u32_at(&bytes, 12)? as usize;
        let index = read_index(&bytes, header_end)?;
        Ok(Self {
            bytes,
            header,
            index,
        })
    }

    pub fn ops_count(&self) -> u64 {
        self.index.ops
    }

    pub fn losses(&self) -> &Losses {
        &self.index.losses
    }

    /// What the program had resident; None if that was not recorded.
    pub fn resident(&self) -> Option<&Resident> {
        self.index.resident.as_ref()
    }

    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn ops(&self) -> Ops<'_> {
        Ops {
            trace: self,
            block: 0,
            ops: Vec::new().into_iter(),
        }
    }

    /// The operations of one block; each is readable by itself.
    fn block(&self, place: &BlockPlace) -> Result<Vec<Op>, TraceError> {
        let at = place.offset as usize;
        let bytes = &self.bytes;
        let head = slice(bytes, at, BLOCK_HEADER)?;
        if &head[..4] != BLOCK_MAGIC {
            return Err(bad("no block where the index says", at));
        }
        let count = u32_at(bytes, at + 4)? as usize;
        let raw_len = u32_at(bytes, at + 8)? as usize;
        let packed = slice(bytes, at + BLOCK_HEADER, u32_at(bytes, at + 12)? as usize)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[..BLOCK_HEADER - 4]);
        sum.update(packed);
        if sum.finalize() != u32_at(bytes, at + BLOCK_HEADER - 4)? {
            return Err(bad("checksum of a block does not hold", at));
        }
        if count == 0 || count > BLOCK_OPS || raw_len > MOST_RAW {
            return Err(bad("a block with impossible lengths", at));
        }
        let raw = zstd::bulk::decompress(packed, raw_len)
            .map_err(|error| bad(format!("a block that does not unpack ({error})"), at))?;
        let time = u64_at(bytes, at + 16)?;
        columns(&raw, count, time).ok_or_else(|| bad("a block with impossible columns", at))
    }
}

fn read_index(bytes: &[u8], least: usize) -> Result<Index, TraceError> {
    let end = bytes.len();
    if end < least + 28 || bytes[end - 8..] != *END_MAGIC {
        return Err(bad("truncated: the index at the end is missing", end));
    }
    let at = u64_at(bytes, end - 16)?;
    let at = usize::try_from(at)
        .ok()
        .filter(|at| *at >= least && *at <= end - 28)
        .ok_or_else(|| bad("the index is said to be outside the file", end - 16))?;
    if bytes[at..at + 4] != *INDEX_MAGIC {
        return Err(bad("no index where the end of the file says", at));
    }
    let index: Index = checked_json(bytes, at + 4, "index")?;
    let ordered = index
        .blocks
        .windows(2)
        .all(|pair| pair[0].offset < pair[1].offset && pair[0].first_op < pair[1].first_op);
    let inside = index.blocks.iter().all(|block| block.offset < at as u64);
    if !ordered || !inside {
        return Err(bad("an index whose blocks are not in order", at));
    }
    if index.resident.as_ref().is_some_and(|it| !it.is_possible()) {
        return Err(bad("an index whose resident bytes cannot be", at));
    }
    Ok(index)
}

fn checked_json<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    at: usize,
    what: &str,
) -> Result<T, TraceError> {
    let text = slice(bytes, at + 8, u32_at(bytes, at)? as usize)?;
    if crc32fast::hash(text) != u32_at(bytes, at + 4)? {
        return Err(bad(format!("checksum of the {what} does not hold"), at));
    }
    serde_json::from_slice(text)
        .map_err(|error| bad(format!("the {what} says nothing ({error})"), at + 8))
}

fn columns(raw: &[u8], count: usize, mut time: u64) -> Option<Vec<Op>> {
    let kinds = raw.get(..count)?;
    let mut at = count;
    let mut column = |most: u64| -> Option<Vec<u64>> {
        (0..count)
            .map(|_| varint::take(raw, &mut at).filter(|value| *value <= most))
            .collect()
    };
    let threads = column(u64::from(u32::MAX))?;
    let steps = column(u64::MAX)?;
    let slots = column(u64::from(u32::MAX))?;
    let sizes = column(u64::MAX)?;
    let aligns = raw.get(at..).filter(|rest| rest.len() == count)?;
    let mut ops = Vec::with_capacity(count);
    for i in 0..count {
        time = time.checked_add(steps[i])?;
        ops.push(Op {
            kind: Kind::from_number(kinds[i])?,
            thread: threads[i] as u32,
            time,
            slot: slots[i] as u32,
            size: sizes[i],
            align: (aligns[i] < 64).then_some(aligns[i])?,
        });
    }
    Some(ops)
}

fn slice(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], TraceError> {
    at.checked_add(length)
        .and_then(|end| bytes.get(at..end))
        .ok_or_else(|| {
            let what = format!("truncated: {length} bytes should follow");
            bad(what, at.min(bytes.len()))
        })
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, TraceError> {
    let four = slice(bytes, at, 4)?;
    Ok(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, TraceError> {
    Ok(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at + 4)?) << 32)
}

/// All operations in their one order, read block by block and checked. Ends after the first error.
pub struct Ops<'a> {
    trace: &'a Trace,
    block: usize,
    ops: std::vec::IntoIter<Op>,
}

impl Iterator for Ops<'_> {
    type Item = Result<Op, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(op) = self.ops.next() {
                return Some(Ok(op));
            }
            let place = self.trace.index.blocks.get(self.block)?;
            let read = self.trace.block(place);
            let next_first = self
                .trace
                .index
                .blocks
                .get(self.block + 1)
                .map_or(self.trace.index.ops, |next| next.first_op);
            self.block += 1;
            match read {
                Ok(ops) if ops.len() as u64 == next_first.wrapping_sub(place.first_op) => {
                    self.ops = ops.into_iter();
                }
                Ok(_) => {
                    self.block = usize::MAX;
                    let at = place.offset as usize;
                    return Some(Err(bad(
                        "a block of another length than the index says",
                        at,
                    )));
                }
                Err(error) => {
                    self.block = usize::MAX;
                    return Some(Err(error));
                }
            }
        }
    }
}
