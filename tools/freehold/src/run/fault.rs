//! A guard that the program touched (option `guard`): what it was, and the three places that belong to it.

use profile_file::{Snapshot, Symbols, layout};
use serde::Serialize;

use crate::call_site::{CallSite, FrameData};

/// What the profile file says of the touch.
#[derive(Debug, Serialize)]
pub struct Fault {
    pub pid: u64,
    pub program: String,
    /// Use after free, overflow, underflow; or guard, if no block is known there.
    pub kind: &'static str,
    /// Read, write, execute; or unknown.
    pub access: &'static str,
    pub address: u64,
    /// From the block's beginning to the byte that was touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touched: Option<Place>,
}

/// Where it was, and how the program came there.
#[derive(Debug, Serialize)]
pub struct Place {
    pub name: String,
    pub stack: Vec<FrameData>,
}

impl Place {
    fn of(
        snapshot: &Snapshot,
        symbols: &mut Symbols,
        addresses: &[u64],
        count: u64,
    ) -> Option<Self> {
        let count = usize::try_from(count).map_or(addresses.len(), |n| n.min(addresses.len()));
        let cut = count == addresses.len();
        let frames = symbols.stack(&addresses[..count]);
        let site = CallSite::new(frames, cut, &snapshot.naming);
        let frame = site.frame()?;
        let name = match site.place() {
            Some(_) => site.short_place(),
            None if site.function().is_empty() => site.short_place(),
            None => format!("{} ({})", site.function(), frame.module_name()),
        };
        Some(Self {
            name,
            stack: site.frames.iter().map(FrameData::of).collect(),
        })
    }
}

impl Fault {
    pub fn of(snapshot: &Snapshot, symbols: &mut Symbols) -> Option<Self> {
        let fault = snapshot.profile.fault.as_deref()?;
        let kind = match fault.kind {
            layout::FAULT_USE_AFTER_FREE => "use after free",
            layout::FAULT_OVERFLOW => "overflow",
            layout::FAULT_UNDERFLOW => "underflow",
            _ => "guard",
        };
        let access = match fault.access {
            layout::ACCESS_READ => "read",
            layout::ACCESS_WRITE => "write",
            layout::ACCESS_EXECUTE => "execute",
            _ => "unknown",
        };
        let known = fault.kind != layout::FAULT_GUARD;
        let mut place = |addresses: &[u64], count| Place::of(snapshot, symbols, addresses, count);
        Some(Self {
            pid: snapshot.pid(),
            program: snapshot.program(),
            kind,
            access,
            address: fault.address,
            offset: known.then(|| fault.address.wrapping_sub(fault.block) as i64),
            block_bytes: known.then_some(fault.size),
            allocated: place(&fault.allocated, fault.allocated_frames),
            freed: place(&fault.freed, fault.freed_frames),
            touched: place(&fault.touched, fault.touched_frames),
        })
    }

    /// "use after free, 3 bytes into a block of 100 bytes: allocated at a.c:10, freed at b.c:20, read at c.c:30"
    pub fn sentence(&self) -> String {
        let mut text = match (self.offset, self.block_bytes) {
            (Some(offset), Some(size)) => format!("{}, {}", self.kind, where_in(offset, size)),
            _ => format!(
                "a guard at {:#x} was touched, and no block is known there",
                self.address
            ),
        };
        let verb = match self.access {
            "read" => "read",
            "write" => "written",
            "execute" => "executed",
            _ => "touched",
        };
        let places = [
            ("allocated", &self.allocated),
            ("freed", &self.freed),
            (verb, &self.touched),
        ];
        let places: Vec<String> = places
            .into_iter()
            .filter_map(|(verb, place)| Some(format!("{verb} at {}", place.as_ref()?.name)))
            .collect();
        if !places.is_empty() {
            text += &format!(": {}", places.join(", "));
        }
        text
    }
}

/// As the library's own report says it.
fn where_in(offset: i64, size: u64) -> String {
    let bytes = |n: u64| format!("{n} {}", if n == 1 { "byte" } else { "bytes" });
    let block = format!("a block of {}", bytes(size));
    match u64::try_from(offset) {
        Err(_) => format!("{} before {block}", bytes(offset.unsigned_abs())),
        Ok(offset) if offset < size => format!("{} into {block}", bytes(offset)),
        Ok(offset) => format!("byte {offset} of {block}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_is_told_by_its_place_in_the_block() {
        for (offset, size, wanted) in [
            (3, 100, "3 bytes into a block of 100 bytes"),
            (1, 100, "1 byte into a block of 100 bytes"),
            (100, 100, "byte 100 of a block of 100 bytes"),
            (5, 1, "byte 5 of a block of 1 byte"),
            (-1, 100, "1 byte before a block of 100 bytes"),
        ] {
            assert_eq!(where_in(offset, size), wanted);
        }
    }
}
