//! Where the bytes of a profile file come from: a file that may change under us, or memory.
//!
//! A live profile file is read with `pread` and never mapped: a file that is cut short while we look is then a short
//! read and not a SIGBUS, and no `unsafe` is needed. Aligned words are copied whole by the kernel on the machines
//! Freehold runs on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytemuck::{AnyBitPattern, Zeroable};

/// Something with bytes at offsets.
pub trait Bytes {
    /// How many there are.
    fn length(&self) -> io::Result<u64>;
    /// Fills `into` from `offset` on, or fails.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Bytes for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }
}

impl Bytes for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|from| self.get(from..from.checked_add(into.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(part);
        Ok(())
    }
}

impl Bytes for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(into, offset)
    }
}

/// Reads one entry.
pub fn read_one<T: AnyBitPattern + bytemuck::NoUninit>(
    from: &(impl Bytes + ?Sized),
    offset: u64,
) -> io::Result<T> {
    let mut entry = T::zeroed();
    from.read_exact_at(bytemuck::bytes_of_mut(&mut entry), offset)?;
    Ok(entry)
}

/// Reads `count` entries behind those of `into`. The caller has checked that the file has so many.
pub fn read_many<T: Zeroable + AnyBitPattern + bytemuck::NoUninit>(
    from: &(impl Bytes + ?Sized),
    offset: u64,
    count: usize,
    into: &mut Vec<T>,
) -> io::Result<()> {
    let begin = into.len();
    into.resize(begin + count, T::zeroed());
    let read = from.read_exact_at(bytemuck::cast_slice_mut(&mut into[begin..]), offset);
    if read.is_err() {
        into.truncate(begin);
    }
    read
}
