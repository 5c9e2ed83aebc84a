//! The tree of a program's heaps (`freehold/heap.h`), and what each of them has.

use std::collections::HashMap;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::snapshot::Snapshot;

/// What is there once in each heap, and can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes with memory behind them, as the kernel says.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// Bytes of live blocks, as `malloc_usable_size` says.
    #[serde(rename = "live_bytes")]
    pub live: u64,
    /// Live blocks.
    pub blocks: u64,
}

impl Add for Figures {
    type Output = Figures;

    fn add(self, more: Figures) -> Figures {
        Figures {
            resident: self.resident.saturating_add(more.resident),
            live: self.live.saturating_add(more.live),
            blocks: self.blocks.saturating_add(more.blocks),
        }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, more: Figures) {
        *self = *self + more;
    }
}

/// A heap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    /// Where it is: what the program has as `fh_heap *`.
    pub address: u64,
    /// 0: none.
    pub parent_address: u64,
    /// As the program gave it; it may be empty.
    pub name: String,
    /// Its place in [`Heaps::list`], of the heap whose account it is under as well.
    pub parent: Option<usize>,
    /// How many are above it.
    pub depth: usize,
    /// Of this heap alone.
    pub own: Figures,
    /// With all heaps below it.
    pub whole: Figures,
    /// Bytes that count for limits, and the most that was: with all heaps below it.
    pub taken: u64,
    pub peak: u64,
    /// Bytes; 0: none.
    pub soft_limit: u64,
    pub hard_limit: u64,
    /// Times that its hard limit was in the way.
    pub refusals: u64,
    /// What its samples name it by; 0: none was taken.
    pub number: u32,
    /// It has blocks that are not sampled.
    pub has_frames: bool,
    /// What the program asked for, of this heap's live blocks, by their samples. None: the samples cannot tell.
    pub requested: Option<Amount>,
}

/// What all heaps together have of the allocator's own memory: not of what the program gave them. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// What the allocator counts as live blocks of up to 2 MiB, and what of them is in memory.
    pub slots: u64,
    pub slots_there: u64,
    /// The same above 2 MiB.
    pub huge: u64,
    pub huge_there: u64,
    /// What of all that is there is in live blocks.
    pub live: u64,
}

impl Share {
    /// What is in memory.
    pub fn resident(&self) -> u64 {
        self.slots_there.saturating_add(self.huge_there)
    }
}

impl AddAssign for Share {
    fn add_assign(&mut self, more: Share) {
        self.slots = self.slots.saturating_add(more.slots);
        self.slots_there = self.slots_there.saturating_add(more.slots_there);
        self.huge = self.huge.saturating_add(more.huge);
        self.huge_there = self.huge_there.saturating_add(more.huge_there);
        self.live = self.live.saturating_add(more.live);
    }
}

/// All heaps of a program: each stands behind its parent, and the largest comes first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heaps {
    pub list: Vec<Heap>,
    /// Heaps that there was no room for.
    pub left_out: u64,
    pub share: Share,
}

/// What stands for a name that is empty.
pub const UNNAMED: &str = "(unnamed)";

impl Heap {
    pub fn shown_name(&self) -> &str {
        if self.name.is_empty() {
            UNNAMED
        } else {
            &self.name
        }
    }
}

impl Heaps {
    /// Puts them in order. A parent that is not among them has ended meanwhile: its children then stand for themselves.
    pub fn of(found: Vec<Heap>, left_out: u64) -> Heaps {
        let place: HashMap<u64, usize> = found
            .iter()
            .enumerate()
            .map(|(place, heap)| (heap.address, place))
            .collect();
        let parents: Vec<Option<usize>> = found
            .iter()
            .map(|heap| place.get(&heap.parent_address).copied())
            .collect();
        let mut whole: Vec<Figures> = found.iter().map(|heap| heap.own).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
        let mut roots = Vec::new();
        for (place, heap) in found.iter().enumerate() {
            match parents[place].filter(|_| !is_in_circle(&parents, place)) {
                Some(parent) => below[parent].push(place),
                None => roots.push(place),
            }
            let mut above = parents[place];
            for _ in 0..found.len().min(DEPTH_MOST) {
                let Some(at) = above else { break };
                whole[at] += heap.own;
                above = parents[at];
            }
        }
        let largest_first = |list: &mut Vec<usize>| {
            list.sort_by_key(|&at| (std::cmp::Reverse(whole[at].resident), found[at].address));
        };
        largest_first(&mut roots);
        below.iter_mut().for_each(largest_first);
        let mut list = Vec::with_capacity(found.len());
        let mut todo: Vec<(usize, Option<usize>, usize)> =
            roots.into_iter().rev().map(|at| (at, None, 0)).collect();
        while let Some((at, parent, depth)) = todo.pop() {
            let here = list.len();
            list.push(Heap {
                parent,
                depth,
                whole: whole[at],
                ..found[at].clone()
            });
            let children = below[at].iter().rev();
            todo.extend(children.map(|&child| (child, Some(here), depth + 1)));
        }
        Heaps {
            list,
            left_out,
            share: Share::default(),
        }
    }

    /// What was asked for, by samples. Not known of a heap without a sample, unless each block is sampled; nor where blocks are
    /// missing among the samples: frames, those of before a fork, and those that there was no room for.
    pub fn estimate_requests(&mut self, snapshot: &Snapshot) {
        let profile = &snapshot.profile;
        if profile.header.inherited != 0 || profile.control.lost_samples != 0 {
            return;
        }
        let mut sums: HashMap<u32, Amount> = HashMap::new();
        for sample in snapshot.samples.iter().filter(|sample| sample.heap != 0) {
            *sums.entry(sample.heap).or_default() += sample.weight;
        }
        let every = snapshot.interval() == 1;
        for heap in self.list.iter_mut().filter(|heap| !heap.has_frames) {
            let sum = sums.get(&heap.number).copied();
            heap.requested = sum.or_else(|| every.then(Amount::default));
        }
    }

    /// The names from the outermost heap to this one.
    pub fn path(&self, at: usize) -> String {
        let mut names = vec![self.list[at].shown_name()];
        let mut above = self.list[at].parent;
        while let Some(at) = above {
            names.push(self.list[at].shown_name());
            above = self.list[at].parent;
        }
        names.reverse();
        names.join("/")
    }

    /// Those without a parent together.
    pub fn total(&self) -> Figures {
        self.list
            .iter()
            .map(|heap| heap.own)
            .fold(Figures::default(), Add::add)
    }
}

/// No program nests heaps so deep; memory that was changed while it was read might.
const DEPTH_MOST: usize = 10_000;

/// Only what was changed while it was read says that a heap is above itself.
fn is_in_circle(parents: &[Option<usize>], place: usize) -> bool {
    let mut above = parents[place];
    for _ in 0..DEPTH_MOST {
        match above {
            None => return false,
            Some(at) if at == place => return true,
            Some(at) => above = parents[at],
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(address: u64, parent_address: u64, resident: u64) -> Heap {
        Heap {
            address,
            parent_address,
            name: format!("h{address}"),
            own: Figures {
                resident,
                live: resident / 2,
                blocks: 1,
            },
            ..Heap::default()
        }
    }

    #[test]
    fn each_stands_behind_its_parent_the_largest_first_and_sums_have_all_below() {
        let found = vec![
            heap(1, 0, 10),
            heap(2, 0, 15),
            heap(3, 1, 20),
            heap(4, 3, 5),
            heap(5, 1, 30),
        ];
        let heaps = Heaps::of(found, 0);
        let paths: Vec<String> = (0..5).map(|at| heaps.path(at)).collect();
        assert_eq!(paths, ["h1", "h1/h5", "h1/h3", "h1/h3/h4", "h2"]);
        let depths: Vec<usize> = heaps.list.iter().map(|heap| heap.depth).collect();
        assert_eq!(depths, [0, 1, 1, 2, 0]);
        let whole: Vec<u64> = heaps.list.iter().map(|heap| heap.whole.resident).collect();
        assert_eq!(whole, [65, 30, 25, 5, 15]);
        assert_eq!(heaps.total().blocks, 5);
    }

    #[test]
    fn what_was_asked_for_is_known_where_samples_can_tell() {
        let mut profile = crate::testing::ProfileBuilder::new(1);
        let site = profile.site(&[0x100]);
        profile.allocate(site, 70, 0);
        profile.allocate(site, 1000, 0);
        profile.change(|profile| profile.samples[0].heap = 3);
        let known = |snapshot: &Snapshot| {
            let mut found = vec![heap(1, 0, 10), heap(2, 0, 9), heap(3, 0, 8)];
            found[0].number = 3;
            found[2].has_frames = true;
            let mut heaps = Heaps::of(found, 0);
            heaps.estimate_requests(snapshot);
            let bytes = |heap: &Heap| heap.requested.map(|amount| amount.bytes);
            heaps.list.iter().map(bytes).collect::<Vec<_>>()
        };
        assert_eq!(known(&profile.snapshot()), [Some(70.0), Some(0.0), None]);
        profile.change(|profile| profile.control.interval = 4096);
        assert_eq!(known(&profile.snapshot()), [Some(70.0), None, None]);
        profile.change(|profile| profile.header.inherited = 1);
        assert_eq!(known(&profile.snapshot()), [None; 3]);
    }

    #[test]
    fn a_parent_that_is_gone_and_a_circle_lose_no_heap() {
        let heaps = Heaps::of(vec![heap(1, 9, 10), heap(2, 3, 1), heap(3, 2, 1)], 7);
        assert_eq!(heaps.list.len(), 3);
        assert!(heaps.list.iter().all(|heap| heap.parent.is_none()));
        assert_eq!(heaps.left_out, 7);
    }
}
