//! The scenarios, each with what it is about. Class 112 has 8 blocks of 64 KiB in a slab of 8 slots: the real structures,
//! small enough to be explored. Class 111 has slabs of the same number of slots, so that one can follow in the other's
//! place.

use crate::defer::defer;
use crate::first::{first_uses, neighbours};
use crate::guards::guards;
use crate::hardened::hardened;
use crate::heaps::heaps;
use crate::holes::holes;
use crate::order::order;
use crate::program::Scenario;
use crate::program::Step::{self, *};
use crate::quarantine::quarantine;
use crate::runs::runs;
use crate::tables::tables;

const X: u32 = 112;
const Y: u32 = 111;
/// 64 blocks of 1 KiB: marked from the fourth free block on.
const Z: u32 = 64;
/// The hand of nobody: what it holds stays out, and keeps things as they are.
pub(crate) const REST: fn(usize) -> usize = |threads| threads;

/// A scenario with its name and the most preemptions a run of it may have (None: every interleaving) in the short form;
/// the long form has one more.
pub struct Entry {
    pub name: &'static str,
    pub scenario: Scenario,
    pub preemptions: Option<usize>,
}

pub(crate) fn two(prologue: &[(usize, Step)], first: &[Step], second: &[Step]) -> Scenario {
    Scenario {
        prologue: prologue.to_vec(),
        threads: vec![first.to_vec(), second.to_vec()],
    }
}

pub(crate) fn three(prologue: &[(usize, Step)], threads: [&[Step]; 3]) -> Scenario {
    Scenario {
        prologue: prologue.to_vec(),
        threads: threads.map(<[Step]>::to_vec).to_vec(),
    }
}

fn slabs() -> Vec<Entry> {
    let rest = REST(2);
    vec![
        entry(
            "two take from one slab",
            Some(2),
            two(
                &[(0, Take(X, 4)), (0, Give(X, 4))],
                &[Take(X, 1)],
                &[Take(X, 1)],
            ),
        ),
        entry(
            "one takes the last, the other more",
            Some(2),
            two(&[(rest, Take(X, 6))], &[Take(X, 2)], &[Take(X, 1)]),
        ),
        entry(
            "two give the last blocks of a slab that is to go",
            Some(2),
            two(
                &[
                    (0, Take(X, 1)),
                    (1, Take(X, 7)),
                    (rest, Take(X, 8)),
                    (rest, Give(X, 1)),
                ],
                &[Give(X, 1)],
                &[Give(X, 7)],
            ),
        ),
        entry(
            "a block is taken while another is given",
            Some(2),
            two(
                &[(0, Take(X, 1)), (rest, Take(X, 7)), (rest, Give(X, 1))],
                &[Give(X, 1)],
                &[Take(X, 2)],
            ),
        ),
        entry(
            "a slab becomes another class under a taker",
            Some(1),
            two(
                // The first slab of a class never goes where another was.
                &[
                    (rest, Take(Y, 8)),
                    (rest, Take(X, 8)),
                    (0, Take(X, 8)),
                    (rest, Give(X, 1)),
                ],
                &[Give(X, 8), Take(Y, 2), Give(Y, 1)],
                &[Take(X, 1)],
            ),
        ),
        entry(
            "a taker unmarks what a giver fills",
            Some(2),
            two(
                &[(1, Take(X, 1)), (rest, Take(X, 6))],
                &[Take(X, 2)],
                &[Give(X, 1)],
            ),
        ),
        entry(
            "the last mark of a chunk goes while the next comes",
            Some(2),
            two(
                // The next slab is another chunk's, as one in this chunk would bring its mark back.
                &[(1, Take(X, 1)), (rest, Take(X, 14)), (rest, Claim(48, 1))],
                &[Take(X, 2)],
                &[Give(X, 1)],
            ),
        ),
        entry(
            "a release fails because blocks never handed out are taken",
            Some(1),
            two(
                &[(rest, Take(X, 8)), (0, Take(X, 4)), (rest, Give(X, 7))],
                &[Give(X, 4)],
                &[Take(X, 8)],
            ),
        ),
        entry(
            "a slab is made where a stale mark lies",
            Some(1),
            two(
                &[(rest, Take(X, 8))],
                &[Take(X, 1)],
                &[StaleMark(X, 8), Take(X, 1)],
            ),
        ),
        entry(
            "a slab goes while its frees are counted",
            Some(2),
            two(
                &[
                    (0, Take(Z, 1)),
                    (1, Take(Z, 63)),
                    (rest, Take(Z, 8)),
                    (rest, Give(Z, 4)),
                ],
                &[Give(Z, 1)],
                &[Give(Z, 63)],
            ),
        ),
        entry(
            "one block of a slab stays out",
            Some(1),
            two(
                &[
                    (0, Take(X, 7)),
                    (rest, Take(X, 1)),
                    (1, Take(X, 8)),
                    (1, Give(X, 1)),
                ],
                &[Give(X, 7)],
                &[Give(X, 1)],
            ),
        ),
    ]
}

fn others() -> Vec<Entry> {
    let rest = REST(2);
    vec![
        entry(
            "two claim runs",
            Some(2),
            two(&[(rest, Claim(40, 1))], &[Claim(8, 8)], &[Claim(8, 8)]),
        ),
        entry(
            "a run is claimed while another is released",
            Some(2),
            two(
                &[(0, Claim(24, 1)), (rest, Claim(32, 1))],
                &[Release],
                &[Claim(12, 1)],
            ),
        ),
        entry(
            "a run grows into what another wants",
            Some(2),
            two(&[(0, Claim(8, 1))], &[Extend(4)], &[Claim(8, 4), Release]),
        ),
        entry(
            "two purge the same chunk",
            Some(2),
            two(&[(rest, Claim(4, 1)), (rest, Release)], &[Purge], &[Purge]),
        ),
        entry(
            "slots are claimed while they are purged",
            Some(1),
            two(
                &[(0, Claim(4, 1)), (rest, Claim(2, 1)), (rest, Release)],
                &[Purge],
                &[Claim(2, 1), Release],
            ),
        ),
        entry(
            "a chunk is forgotten while a slab is made in it",
            Some(1),
            two(
                &[(rest, Claim(4, 1)), (rest, Release)],
                &[Forget],
                &[Take(X, 2), Claim(2, 1), Release],
            ),
        ),
        entry(
            "two start the window",
            Some(2),
            two(&[], &[Chunk], &[Chunk]),
        ),
        entry(
            "a magazine goes through the depot",
            None,
            two(&[(0, Magazine(1)), (1, Magazine(1))], &[Put(1)], &[Get(1)]),
        ),
        entry(
            "a block is looked for in the depot while another gets it",
            Some(1),
            two(
                &[(0, Magazine(1)), (0, Fill), (0, Put(1))],
                &[Look(1, false)],
                &[Get(1)],
            ),
        ),
        entry(
            "a block is looked for in the depot while another puts",
            Some(1),
            two(
                &[(0, Magazine(1)), (0, Fill), (0, Put(1)), (1, Magazine(1))],
                &[Look(1, true)],
                &[Put(1)],
            ),
        ),
        entry(
            "magazines are exchanged",
            Some(3),
            two(
                &[
                    (0, Magazine(1)),
                    (1, Magazine(1)),
                    (rest, Magazine(1)),
                    (rest, Put(1)),
                ],
                &[Put(1), Get(1)],
                &[Get(1), Put(1)],
            ),
        ),
    ]
}

/// 1 KiB: the first magazine of a bin holds one block, the second four, and so on.
const SIZE: usize = 1024;
const BULKY: usize = 40_000;

/// What a thread has in hand: its cache's life, from its first call to its end, and after a fork.
fn caches() -> Vec<Entry> {
    let rest = REST(2);
    let begun = (rest, Malloc(SIZE));
    vec![
        entry(
            "two threads begin",
            Some(1),
            two(&[begun], &[Malloc(SIZE)], &[Malloc(SIZE)]),
        ),
        entry(
            "a thread ends while another begins",
            Some(2),
            two(
                &[begun, (0, Malloc(SIZE)), (0, Free)],
                &[Exit],
                &[Malloc(SIZE)],
            ),
        ),
        entry(
            "two begin where one cache waits",
            Some(1),
            two(
                &[begun, (rest, Free), (rest, Exit)],
                &[Malloc(SIZE)],
                &[Malloc(SIZE)],
            ),
        ),
        entry(
            "two threads end",
            Some(1),
            two(
                &[
                    begun,
                    (0, Malloc(SIZE)),
                    (0, Free),
                    (1, Malloc(64)),
                    (1, Free),
                ],
                &[Exit],
                &[Exit],
            ),
        ),
        entry(
            "one thread refills while another flushes",
            Some(1),
            two(
                &[
                    &[begun][..],
                    &vec![(0, Malloc(SIZE)); 12],
                    &[(0, Pass(1)), (1, Malloc(SIZE))],
                ]
                .concat(),
                &[Malloc(SIZE); 5],
                &[Free; 13],
            ),
        ),
        entry(
            "two take bulky blocks, and one gives up its bin",
            Some(1),
            two(
                &[begun, (0, Malloc(BULKY)), (0, Free), (1, Malloc(SIZE))],
                &[Flush],
                &[Malloc(BULKY), Malloc(BULKY)],
            ),
        ),
        entry(
            "a cache is handed in while its blocks are freed elsewhere",
            Some(2),
            two(
                &[
                    &[begun][..],
                    &[(0, Malloc(SIZE)); 5],
                    &[(0, Pass(1)), (0, Malloc(SIZE)), (0, Free)],
                ]
                .concat(),
                &[Flush],
                &[Free, Free, Flush],
            ),
        ),
        entry(
            "two threads after a fork",
            Some(0),
            two(
                &[
                    begun,
                    (rest, Malloc(SIZE)),
                    (rest, Free),
                    (0, Malloc(64)),
                    (0, Forked),
                ],
                &[Malloc(SIZE)],
                &[Malloc(SIZE)],
            ),
        ),
        entry(
            "an orphan that was busy is left alone",
            Some(1),
            two(
                &[
                    begun,
                    (rest, Free),
                    (rest, BeBusy),
                    (0, Malloc(64)),
                    (0, Forked),
                ],
                &[Malloc(SIZE)],
                &[Malloc(SIZE)],
            ),
        ),
        entry(
            "a cache waited when the fork came",
            Some(1),
            two(
                &[
                    begun,
                    (rest, Free),
                    (rest, Exit),
                    (0, Malloc(64)),
                    (0, Forked),
                ],
                &[Malloc(SIZE)],
                &[Malloc(SIZE), Exit],
            ),
        ),
    ]
}

/// What few programs meet: limits, a system that refuses, pages inside of slabs, what is given back by hand.
fn edges() -> Vec<Entry> {
    let rest = REST(2);
    vec![
        entry(
            "two are at the limit's callback",
            None,
            two(&[(rest, Limit(40))], &[Relieve], &[Relieve]),
        ),
        entry(
            "a chunk is refused once",
            Some(1),
            two(
                &[(rest, Claim(56, 1)), (rest, Refuse(1))],
                &[TryClaim(16)],
                &[TryClaim(16)],
            ),
        ),
        entry(
            "two find a chunk that was lost",
            Some(0),
            two(
                &[
                    (rest, Claim(56, 1)),
                    (0, Claim(64, 64)),
                    (rest, Claim(64, 64)),
                    (0, Release),
                    (0, DropChunks),
                ],
                &[TryClaim(16)],
                &[TryClaim(16)],
            ),
        ),
        entry(
            "two are admitted where a limit has room for one",
            Some(3),
            // Hard limit: 40 slots. Its reserve is two of them; 28 are used.
            two(
                &[(rest, Limit(40)), (rest, Book(28))],
                &[Book(8)],
                &[Book(8)],
            ),
        ),
        entry(
            "two claims where a limit has room for one",
            Some(3),
            two(
                &[(rest, Claim(28, 1)), (rest, Limit(40))],
                &[TryClaim(8)],
                &[TryClaim(8)],
            ),
        ),
        entry(
            "chunks are dropped while slots are claimed",
            Some(1),
            two(
                &[(rest, Claim(8, 1)), (rest, Release)],
                &[DropChunks],
                &[TryClaim(8), Release],
            ),
        ),
        entry(
            "pages of a slab are purged while its blocks are taken",
            Some(2),
            two(
                &[(rest, Take(X, 8)), (rest, Give(X, 5))],
                &[TrimSlab(0)],
                &[Take(X, 2), Give(X, 1)],
            ),
        ),
        entry(
            "pages of a slab are purged while it goes",
            Some(1),
            two(
                &[
                    (rest, Take(X, 8)),
                    (0, Take(X, 8)),
                    (0, Give(X, 6)),
                    (rest, Give(X, 1)),
                ],
                &[Give(X, 2)],
                &[TrimSlab(8)],
            ),
        ),
        entry(
            "what a slab never handed out becomes free while it is taken",
            Some(1),
            two(
                &[(rest, Take(X, 3))],
                &[TrimSlab(0)],
                &[Take(X, 2), Give(X, 1)],
            ),
        ),
        entry(
            "what a slab never handed out becomes free while it goes",
            Some(2),
            two(
                &[(rest, Take(X, 8)), (0, Take(X, 2)), (rest, Give(X, 1))],
                &[Give(X, 2)],
                &[TrimSlab(8)],
            ),
        ),
        entry(
            "an empty slab is released while a block is taken",
            Some(1),
            two(
                &[(rest, Take(X, 2)), (rest, Give(X, 2))],
                &[ReleaseEmpty(X)],
                &[Take(X, 1)],
            ),
        ),
        entry(
            "a depot is emptied while it is used",
            Some(1),
            two(
                &[(0, Magazine(1)), (rest, Magazine(1)), (rest, Put(1))],
                &[Put(1), Get(1)],
                &[EmptyDepot(1)],
            ),
        ),
    ]
}

fn threesomes() -> Vec<Entry> {
    let rest = REST(3);
    vec![
        entry(
            "three: two give, one takes",
            Some(1),
            three(
                &[
                    (0, Take(X, 1)),
                    (1, Take(X, 7)),
                    (rest, Take(X, 8)),
                    (rest, Give(X, 1)),
                ],
                [&[Give(X, 1)], &[Give(X, 7)], &[Take(X, 2)]],
            ),
        ),
        entry(
            "three: all take",
            Some(1),
            three(
                &[(0, Take(X, 3)), (0, Give(X, 3))],
                [&[Take(X, 1)], &[Take(X, 1)], &[Take(X, 1)]],
            ),
        ),
        entry(
            "three: claim, release, purge",
            Some(1),
            three(
                &[(0, Claim(8, 1)), (rest, Claim(40, 1))],
                [&[Release], &[Claim(8, 1)], &[Purge]],
            ),
        ),
        entry(
            "three: depot",
            Some(2),
            three(
                &[(0, Magazine(1)), (1, Magazine(1)), (2, Magazine(1))],
                [&[Put(1)], &[Get(1)], &[Put(1), Get(1)]],
            ),
        ),
    ]
}

pub(crate) fn entry(name: &'static str, preemptions: Option<usize>, scenario: Scenario) -> Entry {
    Entry {
        name,
        scenario,
        preemptions,
    }
}

/// Everything that must hold for the code that ships.
pub fn all() -> Vec<Entry> {
    slabs()
        .into_iter()
        .chain(others())
        .chain(caches())
        .chain(edges())
        .chain(runs())
        .chain(holes())
        .chain(tables())
        .chain(guards())
        .chain(heaps())
        .chain(hardened())
        .chain(quarantine())
        .chain(order())
        .chain(defer())
        .chain(threesomes())
        .chain(first_uses())
        .chain(neighbours())
        .collect()
}

pub fn named(name: &str) -> Entry {
    all()
        .into_iter()
        .find(|entry| entry.name == name)
        .unwrap_or_else(|| panic!("there is no scenario {name:?}"))
}

/// The negative control: pop and pop against pop, pop and push of the first.
pub fn aba() -> Scenario {
    let rest = REST(2);
    let mut prologue = vec![];
    for node in [3, 2, 1] {
        prologue.extend([(rest, AbaNode(node)), (rest, AbaPush)]);
    }
    two(&prologue, &[AbaPop, AbaPop], &[AbaPop, AbaPop, AbaPush])
}

/// Long programs for the random explorer: `seed` chooses the steps of four threads.
pub fn random_program(seed: u64, steps: usize) -> Scenario {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut threads = vec![];
    for _ in 0..4 {
        let mut program = vec![];
        for _ in 0..steps {
            let class = [X, Y, 104][next(3) as usize];
            program.push(match next(12) {
                0..=3 => Take(class, 1 + next(9) as u32),
                4..=8 => Give(class, 1 + next(9) as u32),
                9 => Claim(1 + next(12) as u32, 1),
                10 => Release,
                _ => Purge,
            });
        }
        threads.push(program);
    }
    Scenario {
        prologue: vec![
            (0, Take(X, 5)),
            (1, Take(Y, 9)),
            (2, Take(104, 3)),
            (3, Take(X, 4)),
        ],
        threads,
    }
}
