//! Reads the sections of a profile file. Each offset, count and size is checked against the file before it is used,
//! and what is asked of memory is bounded by the file's own length and by [`MOST_BYTES`], whatever the profile file
//! says.

use std::io;

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::bytes::{Bytes, read_many};
use crate::layout::{self, CONTROL_OFFSET, EXTENTS, Header, Section, SectionKind};
use crate::warning::Warning;

/// No section that the library writes is bigger; a sparse file could claim anything.
const MOST_BYTES: u64 = 1 << 30;
/// Header and control words.
const BODY_BEGINS: u64 = CONTROL_OFFSET + 8192;

/// A part of the file that a section has.
#[derive(Clone, Copy, Debug)]
struct Extent {
    offset: u64,
    entries: u64,
    bytes: u64,
}

/// The extents of a section that can be used: those up to the first that is wrong.
fn extents(
    kind: SectionKind,
    section: &Section,
    length: u64,
    warnings: &mut Vec<Warning>,
) -> Vec<Extent> {
    let mut found = Vec::new();
    let name = kind.name();
    if kind == SectionKind::Heaps && section.entry_bytes == 0 && section.used == 0 {
        return found; // a file of before heaps had names
    }
    if section.entry_bytes as usize != kind.entry_bytes() {
        warnings.push(Warning::damaged(format!(
            "the profile file says that its {name} have {} bytes each, not {}: they are left out",
            section.entry_bytes,
            kind.entry_bytes()
        )));
        return found;
    }
    let mut total = 0u64;
    for (number, &offset) in section.extent.iter().enumerate() {
        if offset == 0 {
            let strays = section.extent[number..].iter().filter(|&&o| o != 0).count();
            if strays != 0 {
                warnings.push(Warning::damaged(format!(
                    "{name}: extent {number} is missing but later ones are there: they are left out"
                )));
            }
            break;
        }
        // First is 32 bits wide and there are 24 extents, so neither product can overflow 64 bits.
        let entries = u64::from(section.first) << number;
        let bytes = entries * kind.entry_bytes() as u64;
        let fits = offset >= BODY_BEGINS
            && offset % 8 == 0
            && offset.checked_add(bytes).is_some_and(|end| end <= length);
        if !fits || entries == 0 {
            warnings.push(Warning::damaged(format!(
                "{name}: extent {number} ({entries} entries at offset {offset}) does not lie in the file of {length} \
                 bytes: it and what follows are left out"
            )));
            break;
        }
        total += bytes;
        if total > MOST_BYTES {
            warnings.push(Warning::incomplete(format!(
                "{name}: more than {} MiB; the rest is left out",
                MOST_BYTES >> 20
            )));
            break;
        }
        found.push(Extent {
            offset,
            entries,
            bytes,
        });
    }
    found
}

/// Two sections in one place cannot both be right.
pub fn check_overlap(header: &Header, length: u64, warnings: &mut Vec<Warning>) {
    let mut quiet = Vec::new();
    let mut all: Vec<(Extent, SectionKind)> = SectionKind::ALL
        .iter()
        .flat_map(|&kind| {
            extents(kind, &header.section[kind as usize], length, &mut quiet)
                .into_iter()
                .map(move |extent| (extent, kind))
        })
        .collect();
    all.sort_by_key(|(extent, _)| extent.offset);
    for pair in all.windows(2) {
        let [(low, below), (high, above)] = pair else {
            continue;
        };
        if low.offset + low.bytes > high.offset {
            warnings.push(Warning::damaged(format!(
                "{} and {} lie over each other at offset {}: neither can be trusted",
                below.name(),
                above.name(),
                high.offset
            )));
        }
    }
}

/// Where entries are read from.
pub struct Reader<'a, B: Bytes + ?Sized> {
    pub bytes: &'a B,
    pub length: u64,
    pub header: Header,
}

impl<B: Bytes + ?Sized> Reader<'_, B> {
    /// Reads the header again: what was handed out since the last time counts too.
    pub fn refresh(&mut self) -> io::Result<()> {
        self.header.section = crate::bytes::read_one::<Header>(self.bytes, 0)?.section;
        Ok(())
    }

    fn section(&self, kind: SectionKind) -> &Section {
        &self.header.section[kind as usize]
    }

    /// The entries that were handed out, in order.
    pub fn handed_out<T>(&self, kind: SectionKind, warnings: &mut Vec<Warning>) -> Vec<T>
    where
        T: AnyBitPattern + NoUninit + Zeroable,
    {
        let used = self.section(kind).used;
        let entries = self.entries(kind, used, warnings);
        if (entries.len() as u64) < used {
            warnings.push(Warning::damaged(format!(
                "{}: {used} entries were handed out, but there is room for {} in what can be read",
                kind.name(),
                entries.len()
            )));
        }
        entries
    }

    /// The entries up to the last that was written, also if fewer are said to be handed out.
    pub fn table<T>(&self, kind: SectionKind, warnings: &mut Vec<Warning>) -> Vec<T>
    where
        T: AnyBitPattern + NoUninit + Zeroable,
    {
        let mut quiet = Vec::new();
        let mut entries = self.all::<T>(kind, &mut quiet);
        let written = |entry: &T| bytemuck::bytes_of(entry).iter().any(|byte| *byte != 0);
        let length = entries.iter().rposition(written).map_or(0, |last| last + 1);
        entries.truncate(length.max(self.handed_out::<T>(kind, warnings).len()));
        entries
    }

    /// All entries that there is room for: of a ring or a table with holes.
    pub fn all<T>(&self, kind: SectionKind, warnings: &mut Vec<Warning>) -> Vec<T>
    where
        T: AnyBitPattern + NoUninit + Zeroable,
    {
        self.entries(kind, u64::MAX, warnings)
    }

    fn entries<T>(&self, kind: SectionKind, most: u64, warnings: &mut Vec<Warning>) -> Vec<T>
    where
        T: AnyBitPattern + NoUninit + Zeroable,
    {
        debug_assert_eq!(size_of::<T>(), kind.entry_bytes());
        let mut entries = Vec::new();
        for extent in extents(kind, self.section(kind), self.length, warnings) {
            let count = extent.entries.min(most - entries.len() as u64);
            // Bounded by the file's length and MOST_BYTES, so it fits.
            if let Err(error) = read_many(self.bytes, extent.offset, count as usize, &mut entries) {
                warnings.push(Warning::damaged(format!(
                    "{}: reading {count} entries at offset {} failed ({error}): they and what follows are left out",
                    kind.name(),
                    extent.offset
                )));
                break;
            }
        }
        entries
    }

    /// Where the one entry of `kind` is.
    pub fn single(&self, kind: SectionKind, warnings: &mut Vec<Warning>) -> Option<u64> {
        extents(kind, self.section(kind), self.length, warnings)
            .first()
            .map(|extent| extent.offset)
    }
}

/// Puts sections behind each other into a fresh profile file: the inverse of reading. Each section becomes one extent.
pub struct Writer {
    bytes: Vec<u8>,
    header: Header,
}

impl Writer {
    pub fn new(header: &Header) -> Self {
        let mut header = *header;
        header.section = [Section::zeroed(); layout::SECTIONS];
        Writer {
            bytes: vec![0; BODY_BEGINS as usize],
            header,
        }
    }

    pub fn control(
        &mut self,
        control: &layout::Control,
        scan: &layout::Scan,
        fault: Option<&layout::Fault>,
    ) {
        self.put(CONTROL_OFFSET, bytemuck::bytes_of(control));
        self.put(layout::SCAN_OFFSET, bytemuck::bytes_of(scan));
        if let Some(fault) = fault {
            self.put(layout::FAULT_OFFSET, bytemuck::bytes_of(fault));
        }
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn section<T: NoUninit>(&mut self, kind: SectionKind, entries: &[T], dropped: u64) {
        let mut extent = [0; EXTENTS];
        if !entries.is_empty() {
            extent[0] = self.bytes.len() as u64;
        }
        self.header.section[kind as usize] = Section {
            entry_bytes: kind.entry_bytes() as u32,
            first: entries.len() as u32,
            used: entries.len() as u64,
            dropped,
            extent,
        };
        self.bytes.extend_from_slice(bytemuck::cast_slice(entries));
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.header.layout > layout::LAYOUT_OLDEST {
            self.header.sections_check = crate::integrity::of_sections(&self.header);
        }
        self.header.file_bytes = self.bytes.len() as u64;
        let header = bytemuck::bytes_of(&self.header);
        self.bytes[..header.len()].copy_from_slice(header);
        self.bytes
    }
}
