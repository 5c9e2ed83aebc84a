//! The scenarios of slabs that are let to other sizes: class HOST has 32 blocks of 2 KiB in a slab of one slot, and guests lie on two or three
//! of them. A slab with a free block whose neighbours are taken has nothing for them.

use crate::guests::HOST;
use crate::program::Step::*;
use crate::scenarios::{Entry, REST, entry, two};

pub(crate) fn holes() -> Vec<Entry> {
    let rest = REST(2);
    let (two_units, three_units, other) = (80, 84, 64);
    // One slab, of which the first four units are free.
    let holes = [(rest, Take(HOST, 32)), (rest, Give(HOST, 4))];
    let open = (rest, OpenHoles(0, HOST));
    let is_let = [holes[0], holes[1], open];
    // The slab of slot 0 is let but has no room, so that the one of slot 1 goes when it gets all free. Thread 0 has that one's
    // blocks, all in all.
    let beside = |blocks| {
        [
            (rest, Take(HOST, 32)),
            (0, Take(HOST, blocks)),
            (rest, Give(HOST, 1)),
            open,
        ]
    };
    vec![
        entry(
            "holes: two open a slab and take",
            Some(1),
            two(
                &holes,
                &[OpenHoles(0, HOST), TakeGuests(two_units, 1)],
                &[OpenHoles(0, HOST), TakeGuests(two_units, 1)],
            ),
        ),
        entry(
            "holes: a block is freed while its slab is being opened",
            Some(2),
            two(
                &[
                    holes[0],
                    (rest, Give(HOST, 1)),
                    (0, Take(HOST, 1)),
                    (rest, Give(HOST, 2)),
                ],
                &[FreeOne(HOST)],
                &[OpenHoles(0, HOST)],
            ),
        ),
        entry(
            "holes: the last block is given while its slab is being opened",
            Some(1),
            two(
                &[&beside(2)[..], &[(0, Give(HOST, 1))]].concat(),
                &[Give(HOST, 1)],
                &[OpenHoles(1, HOST)],
            ),
        ),
        entry(
            "holes: a slab is made again while it is being opened",
            Some(1),
            two(
                // The host has another slab, so that this one goes with its last block.
                // So has the class that follows, whose first slab never goes where another was.
                &[
                    (0, Take(HOST, 32)),
                    (rest, Take(HOST, 32)),
                    (rest, Take(other, 64)),
                    (rest, Give(HOST, 4)),
                    (0, Give(HOST, 31)),
                ],
                &[Give(HOST, 1), Take(other, 1)],
                &[OpenHoles(0, HOST)],
            ),
        ),
        entry(
            "holes: blocks of the host are taken while their slab is being opened",
            Some(2),
            two(&holes, &[Take(HOST, 2)], &[OpenHoles(0, HOST)]),
        ),
        entry(
            "holes: a guest is taken while its slab is being opened",
            Some(2),
            two(
                &[&beside(4)[..], &[(0, Give(HOST, 1))]].concat(),
                &[OpenHoles(1, HOST)],
                &[TakeGuests(two_units, 1)],
            ),
        ),
        entry(
            "holes: two take from one word",
            Some(2),
            two(
                &is_let,
                &[TakeGuests(two_units, 1)],
                &[TakeGuests(three_units, 1)],
            ),
        ),
        entry(
            "holes: one is given while another is taken beside it",
            Some(3),
            two(
                &[&is_let[..], &[(0, TakeGuests(two_units, 1))]].concat(),
                &[FreeOne(two_units)],
                &[TakeGuests(three_units, 1)],
            ),
        ),
        entry(
            "holes: two give the last",
            Some(2),
            two(
                &[
                    &beside(32)[..],
                    &[
                        (0, Give(HOST, 4)),
                        (rest, OpenHoles(1, HOST)),
                        (0, TakeGuests(two_units, 1)),
                        (1, TakeGuests(two_units, 1)),
                        (0, Give(HOST, 28)),
                    ],
                ]
                .concat(),
                &[FreeOne(two_units)],
                &[Give(two_units, 1)],
            ),
        ),
        entry(
            "holes: a slab becomes another class under a taker",
            Some(1),
            two(
                &[
                    &beside(32)[..],
                    &[
                        (rest, Take(other, 64)), // its first slab, which never goes where another was
                        (0, Give(HOST, 4)),
                        (rest, OpenHoles(1, HOST)),
                        (0, TakeGuests(two_units, 1)),
                        (0, Give(HOST, 28)),
                    ],
                ]
                .concat(),
                &[FreeOne(two_units), Take(other, 4), Give(other, 3)],
                &[TakeGuests(two_units, 1)],
            ),
        ),
        entry(
            "holes: pages are purged while guests are taken",
            Some(1),
            two(
                &is_let,
                &[TrimSlab(0)],
                &[TakeGuests(two_units, 1), FreeOne(two_units)],
            ),
        ),
        entry(
            "holes: a slab is opened while its pages are purged",
            Some(1),
            two(
                &holes,
                &[TrimSlab(0)],
                &[OpenHoles(0, HOST), TakeGuests(two_units, 1)],
            ),
        ),
        entry(
            "holes: a slab is opened while what it never handed out becomes free",
            Some(1),
            two(
                &[(rest, Take(HOST, 4)), (rest, Give(HOST, 2))],
                &[TrimSlab(0)],
                &[OpenHoles(0, HOST), TakeGuests(two_units, 1)],
            ),
        ),
    ]
}
