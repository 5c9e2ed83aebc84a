//! What is explored: a prologue and a list of steps for each thread.

use std::collections::HashMap;

use crate::core::Core;
use crate::memory::{finding, hold, let_go};

const NONE: usize = usize::MAX;

/// One call into the library, with what the thread has in hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Takes up to so many blocks of a class.
    Take(u32, u32),
    /// Gives the first so many blocks of a class that it holds.
    Give(u32, u32),
    /// Claims a run of slots at an alignment.
    Claim(u32, u32),
    /// Releases the oldest run it holds.
    Release,
    /// Tries to grow the youngest run by so many slots.
    Extend(u32),
    /// Makes a magazine for a class.
    Magazine(u32),
    /// Puts a magazine into the depot of a class, taking an empty one if there is one.
    Put(u32),
    /// Gets a full magazine from the depot of a class, leaving an empty one if it has one.
    Get(u32),
    /// Gives free memory back until nothing is left to give.
    Purge,
    /// Takes a new chunk from the window, without using it.
    Chunk,
    /// Allocates a huge block of so many MiB.
    Huge(usize),
    /// Frees the oldest huge block.
    HugeFree,
    /// Marks a slot for a class, as a thread does that was held up since it looked at what the slot was before.
    StaleMark(u32, usize),
    /// Gets a node of the negative control; push and pop of it.
    AbaNode(u64),
    AbaPush,
    AbaPop,
}

/// What one thread has.
#[derive(Clone, Default, Debug)]
pub struct Hand {
    blocks: HashMap<u32, Vec<usize>>,
    runs: Vec<(usize, u32)>,
    full: Vec<usize>,
    empty: Vec<usize>,
    chunks: Vec<usize>,
    huge: Vec<usize>,
    nodes: Vec<u64>,
}

/// A prologue (who does what, alone, in order) and the threads' programs.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub prologue: Vec<(usize, Step)>,
    pub threads: Vec<Vec<Step>>,
}

impl Hand {
    /// Says to the memory that this hand has what the prologue gave it.
    pub fn announce(&self) {
        let blocks = self.blocks.values().flatten();
        for &address in blocks
            .chain(&self.full)
            .chain(&self.empty)
            .chain(&self.huge)
        {
            hold(address);
        }
        for &(slot, _) in &self.runs {
            hold(slot);
        }
        for &node in &self.nodes {
            hold(node as usize);
        }
    }

    /// Does one step.
    pub fn step(&mut self, core: &Core, step: Step) {
        // SAFETY: every function is called as its C prototype asks: arrays are as long as the count says, blocks and
        // magazines are in this hand, and nobody uses them after they are given away.
        unsafe {
            match step {
                Step::Take(c, n) => self.take(core, c, n),
                Step::Give(c, n) => self.give(core, c, n),
                Step::Claim(n, align) => {
                    let slot = (core.run_claim)(n, align, &mut false);
                    assert!(
                        slot != NONE && slot.is_multiple_of(align as usize),
                        "a run at {slot}"
                    );
                    hold(slot);
                    self.runs.push((slot, n));
                }
                Step::Release => {
                    if !self.runs.is_empty() {
                        let (slot, n) = self.runs.remove(0);
                        let_go(slot);
                        (core.run_release)(slot, n);
                    }
                }
                Step::Extend(more) => {
                    if let Some((slot, n)) = self.runs.last_mut()
                        && (core.run_extend)(*slot + *n as usize, more)
                    {
                        *n += more;
                    }
                }
                Step::Magazine(_) | Step::Put(_) | Step::Get(_) => self.depot_step(core, step),
                Step::Purge => {
                    (core.purge_to)(0);
                }
                Step::Chunk => {
                    let chunk = (core.take_chunk)();
                    assert!(chunk != NONE);
                    hold(chunk << 40);
                    self.chunks.push(chunk);
                }
                Step::Huge(mebibytes) => {
                    let p = (core.huge_alloc)(mebibytes << 20, 1 << 21, &mut false);
                    assert!(p != 0);
                    hold(p);
                    self.huge.push(p);
                }
                Step::HugeFree => {
                    if !self.huge.is_empty() {
                        let p = self.huge.remove(0);
                        let_go(p);
                        assert!((core.huge_free)(p), "a huge block is not known");
                    }
                }
                Step::StaleMark(c, slot) => (core.mark_set)(c, 0, slot),
                Step::AbaNode(node) => {
                    hold(node as usize);
                    self.nodes.push(node);
                }
                Step::AbaPush => {
                    let node = if self.nodes.is_empty() {
                        0
                    } else {
                        self.nodes.remove(0)
                    };
                    if node != 0 {
                        let_go(node as usize);
                        (core.aba_push)(node);
                    }
                }
                Step::AbaPop => {
                    let node = (core.aba_pop)();
                    if node != 0 {
                        hold(node as usize);
                        self.nodes.push(node);
                    }
                }
            }
        }
    }

    unsafe fn take(&mut self, core: &Core, c: u32, n: u32) {
        let mut out = vec![0usize; n as usize];
        // SAFETY: `out` has room for n.
        let got = unsafe { (core.slab_take)(c, n, out.as_mut_ptr()) };
        assert!(got == n, "{got} of {n} blocks, and there is memory");
        for &p in &out {
            hold(p);
            // SAFETY: reads one byte of the class map.
            let class = unsafe { (core.class_at)(p) };
            if c <= 112 && class != c {
                finding(&format!("a block of class {c} is found as class {class}"));
            }
        }
        self.blocks.entry(c).or_default().extend(out);
    }

    unsafe fn give(&mut self, core: &Core, c: u32, n: u32) {
        let mine = self.blocks.entry(c).or_default();
        let n = mine.len().min(n as usize);
        let mut given: Vec<usize> = mine.drain(..n).collect();
        given.iter().for_each(|&p| let_go(p));
        // SAFETY: the blocks were this hand's.
        unsafe { (core.slab_give)(c, given.len() as u32, given.as_mut_ptr()) };
    }

    unsafe fn depot_step(&mut self, core: &Core, step: Step) {
        const CAPACITY: u32 = 6;
        match step {
            Step::Magazine(_) => {
                // SAFETY: no arguments to get wrong.
                let m = unsafe { (core.magazine_new)(CAPACITY) };
                assert!(m != 0);
                hold(m);
                self.full.push(m);
            }
            Step::Put(c) if !self.full.is_empty() => {
                let m = self.full.remove(0);
                let_go(m);
                let mut empty = 0;
                // SAFETY: the magazine was this hand's.
                if !unsafe { (core.depot_put)(c, 0, m, &mut empty) } {
                    hold(m);
                    self.full.push(m);
                } else if empty != 0 {
                    hold(empty);
                    self.empty.push(empty);
                }
            }
            Step::Get(c) => {
                let empty = self.empty.pop().unwrap_or(0);
                if empty != 0 {
                    let_go(empty);
                }
                // SAFETY: the empty magazine, if any, was this hand's.
                let m = unsafe { (core.depot_get)(c, 0, empty) };
                if m != 0 {
                    hold(m);
                    self.full.push(m);
                } else if empty != 0 {
                    hold(empty);
                    self.empty.push(empty);
                }
            }
            _ => {}
        }
    }
}

/// Slots that the hands hold as bare runs.
fn slots_in(hands: &[Hand]) -> u32 {
    hands
        .iter()
        .flat_map(|hand| &hand.runs)
        .map(|&(_, n)| n)
        .sum::<u32>()
        + 64 * hands
            .iter()
            .map(|hand| hand.chunks.len() as u32)
            .sum::<u32>()
}

/// The equations over the whole heap, and that no block was lost.
pub fn verify(core: &Core, hands: &[Hand]) {
    // SAFETY: all threads are over; the functions only read.
    unsafe {
        (core.verify)(slots_in(hands));
        let classes: std::collections::BTreeSet<u32> = hands
            .iter()
            .flat_map(|hand| hand.blocks.keys().copied())
            .collect();
        for c in classes {
            let held: usize = hands
                .iter()
                .filter_map(|hand| hand.blocks.get(&c))
                .map(Vec::len)
                .sum();
            let out = (core.blocks_out)(c);
            if out != held {
                finding(&format!(
                    "{out} blocks of class {c} are out, the threads hold {held}"
                ));
            }
        }
    }
}
