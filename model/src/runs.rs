//! The scenarios of runs that go over several chunks, and of the large blocks that are in them. 64 slots are a chunk.

use crate::memory::Move::{Moved, NotMoved, PlaceLost};
use crate::program::Step::{self, *};
use crate::scenarios::{Entry, REST, entry, two};

pub fn runs() -> Vec<Entry> {
    let all = [
        over_borders(),
        edges(),
        large(),
        kept(),
        resized(),
        limited(),
    ];
    all.into_iter().flatten().collect()
}

/// The last 24 slots of chunk 0 are free, and all of chunk 1; all of these were written to. What is before them is in no
/// thread's hand.
const END_AND_BEGINNING: [(usize, Step); 5] = [
    (2, Claim(40, 1)),
    (0, Claim(24, 1)),
    (0, Release),
    (0, Claim(64, 64)),
    (0, Release),
];

fn over_borders() -> Vec<Entry> {
    vec![
        entry(
            "runs: two claim over one border",
            Some(1),
            two(
                &END_AND_BEGINNING,
                &[Claim(70, 1)],
                &[Claim(66, 1), Release],
            ),
        ),
        // The second run is in chunk 1 if the first one's beginning is claimed by then.
        entry(
            "runs: one claims over a border, the other behind it",
            Some(1),
            two(
                &END_AND_BEGINNING,
                &[Claim(70, 1), Release],
                &[Claim(30, 1)],
            ),
        ),
        entry(
            "runs: one is released over a border that another wants to go over",
            Some(1),
            two(
                &[&END_AND_BEGINNING[..], &[(0, Claim(80, 1))]].concat(),
                &[Release],
                &[Claim(30, 1)],
            ),
        ),
        entry(
            "runs: one is claimed over a border while a chunk is purged",
            Some(1),
            two(&END_AND_BEGINNING, &[Large(70)], &[Purge]),
        ),
        entry(
            "runs: one grows over a border into what another wants",
            Some(1),
            two(
                &[(0, Claim(60, 1)), (1, Claim(64, 64)), (1, Release)],
                &[Extend(10)],
                &[Claim(62, 1), Release],
            ),
        ),
        entry(
            "runs: two want several chunks",
            Some(0),
            two(
                &[(REST(2), Claim(56, 1))],
                &[TryClaim(130)],
                &[TryClaim(130)],
            ),
        ),
        entry(
            "runs: several chunks are refused once",
            Some(0),
            two(
                &[(REST(2), Claim(56, 1)), (REST(2), Refuse(1))],
                &[TryClaim(130)],
                &[TryClaim(130)],
            ),
        ),
        entry(
            "runs: several chunks are refused to both",
            Some(0),
            two(
                &[(REST(2), Claim(56, 1)), (REST(2), Refuse(2))],
                &[TryClaim(130), TryClaim(16)],
                &[TryClaim(130)],
            ),
        ),
        entry(
            "runs: chunks are dropped while a run is claimed over them",
            Some(1),
            two(&END_AND_BEGINNING, &[DropChunks], &[TryClaim(70), Release]),
        ),
    ]
}

/// Two blocks of 17 pages, one behind the other: slots 1 and 2 of what they have are edges.
const NEIGHBOURS: [(usize, Step); 2] = [(0, Paged(17)), (1, Paged(17))];

fn edges() -> Vec<Entry> {
    vec![
        // Both have a part of one slot, which the second of the two releases.
        entry(
            "edges: both neighbours of one are freed",
            Some(2),
            two(&NEIGHBOURS, &[LargeFree], &[LargeFree]),
        ),
        entry(
            "edges: a block comes into the gap while its neighbour is freed",
            Some(0),
            two(&NEIGHBOURS[..1], &[LargeFree], &[Paged(17), LargeFree]),
        ),
        entry(
            "edges: two blocks want one gap",
            Some(0),
            two(
                &[&NEIGHBOURS[..], &[(REST(2), Paged(20)), (0, LargeFree)]].concat(),
                &[Paged(17), LargeFree],
                &[Paged(17)],
            ),
        ),
        // Both take pages of the gap behind the first block, and clear their bits in its word `clean`.
        entry(
            "edges: clean: one grows into a gap in which another begins",
            Some(1),
            two(&[(0, Paged(17))], &[PagedResize(18)], &[Paged(17)]),
        ),
        entry(
            "edges: a block of another size comes between two",
            Some(1),
            two(
                &[&NEIGHBOURS[..], &[(REST(2), Paged(20))]].concat(),
                &[LargeFree, Paged(18)],
                &[LargeFree],
            ),
        ),
    ]
}

fn large() -> Vec<Entry> {
    vec![
        entry(
            "large: two have blocks over borders",
            Some(0),
            two(
                &[&END_AND_BEGINNING[..], &[(1, Large(70))]].concat(),
                &[Large(70), LargeFree],
                &[LargeFree, Large(30)],
            ),
        ),
        // The word `over` of the next chunk is the one block's, then the other's.
        entry(
            "large: over: one over a border is freed while another comes over it",
            Some(1),
            two(
                &[(REST(2), Claim(40, 1)), (0, Large(70))],
                &[LargeFree],
                &[Large(80)],
            ),
        ),
        entry(
            "large: over: one shrinks to its border while another comes over it",
            Some(1),
            two(
                &[(REST(2), Claim(20, 1)), (0, Large(90))],
                &[LargeResize(30)],
                &[Large(60)],
            ),
        ),
        entry(
            "large: two free one block",
            Some(3),
            two(
                &[(REST(2), Claim(40, 1)), (0, Large(70)), (0, Share(1))],
                &[FreeShared],
                &[FreeShared],
            ),
        ),
        entry(
            "large: a block is freed twice while another is allocated",
            Some(0),
            two(
                &[(REST(2), Claim(40, 1)), (0, Large(30)), (0, Share(1))],
                &[FreeShared],
                &[FreeShared, Large(20), LargeFree],
            ),
        ),
    ]
}

/// A block of 20 slots was freed, and they wait for the next one of their number.
fn kept() -> Vec<Entry> {
    let waits = [(0, Large(20)), (0, LargeFree)];
    vec![
        entry(
            "kept: two allocate where one was freed",
            Some(1),
            two(&waits, &[Large(20)], &[Large(20)]),
        ),
        entry(
            "kept: one is allocated again while another wants other slots",
            Some(1),
            two(&waits, &[Large(20), LargeFree], &[Claim(30, 1), Release]),
        ),
        entry(
            "kept: two free and one allocates again",
            Some(1),
            two(
                &[(0, Large(20)), (1, Large(20))],
                &[LargeFree, Large(20)],
                &[LargeFree],
            ),
        ),
        entry(
            "kept: over: one over a border is freed while chunks are dropped",
            Some(1),
            two(&[(0, Large(70))], &[LargeFree], &[DropChunks]),
        ),
        // Whoever settles clears the word `over` of the next chunk, which may be another block's a moment later.
        entry(
            "kept: over: one is released while another comes over its border",
            Some(1),
            two(
                &[(REST(2), Claim(40, 1)), (0, Large(70)), (0, LargeFree)],
                &[Settle],
                &[Large(60)],
            ),
        ),
        entry(
            "kept: one grows into what was kept while another wants it",
            Some(1),
            two(
                &[(0, Large(40)), (1, Large(20)), (1, LargeFree)],
                &[LargeResize(44)],
                &[Large(20)],
            ),
        ),
    ]
}

fn resized() -> Vec<Entry> {
    // Free behind the block are 20 slots of its chunk, and the next chunk.
    let beside = [(0, Large(44)), (1, Large(64)), (1, LargeFree)];
    // Behind the block is another that stays.
    let between = [(0, Large(40)), (REST(2), Large(40))];
    let with = |answer| [&between[..], &[(0, Moves(answer))]].concat();
    vec![
        entry(
            "large: one grows in place into what another wants",
            Some(0),
            two(&beside, &[LargeResize(70)], &[Large(60), LargeFree]),
        ),
        entry(
            "large: one grows beyond the last chunk while another brings one",
            Some(0),
            two(
                &[(0, CountsAddresses), (0, Large(44))],
                &[LargeResize(70)],
                &[Large(60)],
            ),
        ),
        entry(
            "large: one shrinks while another wants what is left",
            Some(0),
            two(&[(0, Large(90))], &[LargeResize(50)], &[Large(50)]),
        ),
        entry(
            "large: one shrinks and grows while another frees its neighbour",
            Some(0),
            two(
                &[(0, Large(50)), (1, Large(40))],
                &[LargeResize(30), LargeResize(60)],
                &[LargeFree],
            ),
        ),
        entry(
            "large: one moves by its pages while another is allocated",
            Some(0),
            two(&with(Moved), &[LargeResize(48)], &[Large(34), LargeFree]),
        ),
        entry(
            "large: one moves by its bytes while another is allocated",
            Some(0),
            two(&with(NotMoved), &[LargeResize(48)], &[Large(34), LargeFree]),
        ),
        entry(
            "large: one cannot move and its place is lost",
            Some(0),
            two(&with(PlaceLost), &[LargeResize(48)], &[Large(34)]),
        ),
        entry(
            "large: where one was that had moved is purged while another moves beside it",
            Some(0),
            two(
                &[
                    &with(Moved)[..],
                    &[
                        (1, Large(33)),
                        (REST(2), Large(31)),
                        (0, LargeResize(48)),
                        (0, LargeFree),
                        (0, Settle),
                    ],
                ]
                .concat(),
                &[Purge],
                &[LargeResize(40)],
            ),
        ),
        // With no room to grow, the second comes to the chunk in which the first one ends.
        entry(
            "large: pieces: one moves into a chunk while all that had moved there is purged",
            Some(0),
            two(
                &[
                    (0, Moves(Moved)),
                    (0, CountsAddresses),
                    (0, Large(40)),
                    (REST(2), Claim(8, 1)),
                    (1, Large(33)),
                    (REST(2), Claim(47, 1)),
                    (0, LargeResize(48)),
                    (0, LargeFree),
                    (0, Settle),
                ],
                &[Purge],
                &[LargeResize(40)],
            ),
        ),
        entry(
            "large: one grows into a chunk that was dropped while another wants it",
            Some(0),
            two(
                &[
                    (0, CountsAddresses),
                    (0, Large(44)),
                    (1, Large(84)),
                    (REST(2), Large(64)),
                    (1, LargeFree),
                    (1, DropChunks),
                ],
                &[LargeResize(70)],
                &[Large(80)],
            ),
        ),
        entry(
            "large: chunks with moved pages are dropped",
            Some(0),
            two(
                &[
                    &with(Moved)[..],
                    &[(0, LargeResize(48)), (0, LargeFree), (0, Settle)],
                ]
                .concat(),
                &[DropChunks],
                &[TryLarge(64), LargeFree],
            ),
        ),
    ]
}

/// A hard limit of 160 slots has a reserve of ten, so 150 may be used.
fn limited() -> Vec<Entry> {
    vec![
        entry(
            "large: two where a limit has room for one",
            Some(0),
            two(
                &[(0, Large(70)), (REST(2), Limit(160))],
                &[TryLarge(70), LargeFree],
                &[TryLarge(66)],
            ),
        ),
        // Below a limit nothing is kept, so the free itself clears `over`.
        entry(
            "large: over: one is freed below a limit while another comes over its border",
            Some(1),
            two(
                &[
                    (REST(2), Claim(40, 1)),
                    (0, Large(70)),
                    (REST(2), Limit(256)),
                ],
                &[LargeFree],
                &[Large(60)],
            ),
        ),
        entry(
            "large: one grows and one is allocated where a limit has room for one",
            Some(0),
            two(
                &[(0, Large(66)), (REST(2), Limit(160))],
                &[LargeResize(130)],
                &[TryLarge(70), LargeFree],
            ),
        ),
        entry(
            "large: one moves below a limit while another is freed",
            Some(0),
            two(
                &[
                    (0, Moves(Moved)),
                    (0, Large(40)),
                    (1, Large(66)),
                    (REST(2), Limit(160)),
                ],
                &[LargeResize(48)],
                &[LargeFree, TryLarge(70)],
            ),
        ),
    ]
}
