//! Writes the file, block by block: a trace may be larger than memory.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::op::{Header, Losses, Op};
use crate::resident::Resident;
use crate::varint;

pub const MAGIC: &[u8; 8] = b"FHTRACE\n";
pub const END_MAGIC: &[u8; 8] = b"FHTREND\n";
pub const BLOCK_MAGIC: &[u8; 4] = b"BLOK";
pub const INDEX_MAGIC: &[u8; 4] = b"INDX";
pub const VERSION: u32 = 1;
/// Operations of a block, at most.
pub const BLOCK_OPS: usize = 1 << 16;
pub const BLOCK_HEADER: usize = 28;
/// Columns of a block, in this order.
pub const COLUMNS: usize = 6;

/// Where a block is, for those who do not want to read from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlace {
    pub offset: u64,
    pub first_op: u64,
    pub time: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub ops: u64,
    pub blocks: Vec<BlockPlace>,
    pub losses: Losses,
    /// Files from before it was noted have none, and so have those that were made from other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Resident>,
}

pub struct Writer<W: Write> {
    out: W,
    offset: u64,
    index: Index,
    pending: Vec<Op>,
    time: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, header: &Header) -> Result<Self, TraceError> {
        let text = serde_json::to_vec(header).map_err(std::io::Error::from)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&text).to_le_bytes());
        bytes.extend(&text);
        out.write_all(&bytes)?;
        Ok(Self {
            out,
            offset: bytes.len() as u64,
            index: Index::default(),
            pending: Vec::new(),
            time: 0,
        })
    }

    /// What the program had resident, if that is known.
    pub fn set_resident(&mut self, resident: Option<Resident>) {
        self.index.resident = resident;
    }

    pub fn put(&mut self, op: Op) -> Result<(), TraceError> {
        self.pending.push(op);
        if self.pending.len() == BLOCK_OPS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let Some(first) = self.pending.first() else {
            return Ok(());
        };
        self.index.blocks.push(BlockPlace {
            offset: self.offset,
            first_op: self.index.ops,
            time: first.time,
        });
        let raw = columns(&self.pending, self.time);
        let packed = zstd::bulk::compress(&raw, 9)?;
        let mut bytes = BLOCK_MAGIC.to_vec();
        bytes.extend((self.pending.len() as u32).to_le_bytes());
        bytes.extend((raw.len() as u32).to_le_bytes());
        bytes.extend((packed.len() as u32).to_le_bytes());
        // A block can be read without those before it: it says the time that its first step counts from.
        bytes.extend(self.time.to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        sum.update(&packed);
        bytes.extend(sum.finalize().to_le_bytes());
        self.out.write_all(&bytes)?;
        self.out.write_all(&packed)?;
        self.offset += (bytes.len() + packed.len()) as u64;
        self.index.ops += self.pending.len() as u64;
        self.time = self.pending.last().map_or(self.time, |op| op.time);
        self.pending.clear();
        Ok(())
    }

    /// Without this the file has no end, and is refused as truncated.
    pub fn finish(mut self, losses: Losses) -> Result<(W, u64), TraceError> {
        self.flush()?;
        self.index.losses = losses;
        let text = serde_json::to_vec(&self.index).map_err(std::io::Error::from)?;
        let mut bytes = INDEX_MAGIC.to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&text).to_le_bytes());
        bytes.extend(&text);
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(END_MAGIC);
        self.out.write_all(&bytes)?;
        self.out.flush()?;
        Ok((self.out, self.index.ops))
    }
}

/// Values of one kind beside each other compress far better than operation by operation.
fn columns(ops: &[Op], mut time: u64) -> Vec<u8> {
    let mut out: [Vec<u8>; COLUMNS] = Default::default();
    for op in ops {
        out[0].push(op.kind as u8);
        varint::put(&mut out[1], u64::from(op.thread));
        varint::put(&mut out[2], op.time - time);
        varint::put(&mut out[3], u64::from(op.slot));
        varint::put(&mut out[4], op.size);
        out[5].push(op.align);
        time = op.time;
    }
    out.concat()
}
