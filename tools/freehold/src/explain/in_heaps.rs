//! What lies in heaps of the program's own (`fh_heap_new`). To the allocator their slots and large blocks are live; which part
//! of that is, their own records say.

use profile_file::heaps::Share;

use super::heap::Counted;
use super::split::{Certainty, Part};

/// Takes what heaps have out of the live blocks that the allocator has counted.
pub fn take_out(counted: &mut Counted, share: &Share) {
    counted.live = counted.live.saturating_sub(share.slots);
    if let Some(absent) = &mut counted.absent {
        *absent = absent.saturating_sub(share.slots - share.slots_there.min(share.slots));
    }
}

/// What heaps have in memory, as parts of their own.
pub fn parts(share: &Share) -> Vec<Part> {
    let part = |key, label, bytes: u64| Part {
        key,
        label,
        bytes: bytes as i64,
        certainty: Certainty::About(0),
    };
    let parts = [
        part(
            "heaps_live",
            "live: blocks in heaps (fh_heap_new)",
            share.live,
        ),
        part("heaps_free", "room without blocks in heaps", free(share)),
    ];
    parts.into_iter().filter(|part| part.bytes != 0).collect()
}

/// Free blocks, rounding and records of heaps, as far as they are in memory.
pub fn free(share: &Share) -> u64 {
    share.resident().saturating_sub(share.live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_heaps_have_is_taken_out_once_and_shown_in_two_parts() {
        let share = Share {
            slots: 60,
            slots_there: 48,
            huge: 10,
            huge_there: 2,
            live: 20,
        };
        let mut counted = Counted {
            live: 100,
            absent: Some(15),
            ..Counted::default()
        };
        take_out(&mut counted, &share);
        assert_eq!((counted.live, counted.absent), (40, Some(3)));
        let bytes: Vec<i64> = parts(&share).iter().map(|part| part.bytes).collect();
        assert_eq!(bytes, [20, 30]);
        assert_eq!(parts(&Share::default()), []);
    }
}
