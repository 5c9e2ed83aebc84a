//! Nothing before them: two threads are the first in whatever they do. And threads near different CPUs, whose preferred slabs,
//! depots and parked caches are not the same.

use crate::program::Step::*;
use crate::scenarios::{Entry, REST, entry, two};

/// 8 blocks of 64 KiB in a slab.
const X: u32 = 112;
const SIZE: usize = 1024;

/// First uses.
pub(crate) fn first_uses() -> Vec<Entry> {
    vec![
        entry(
            "first: two take with nothing",
            Some(0),
            two(&[], &[Take(X, 1)], &[Take(X, 1)]),
        ),
        entry(
            "first: two take and give with nothing",
            Some(0),
            two(&[], &[Take(X, 1), Give(X, 1)], &[Take(X, 1), Give(X, 1)]),
        ),
        entry(
            "first: two claim with nothing",
            Some(0),
            two(&[], &[Claim(8, 8)], &[Claim(8, 8)]),
        ),
        entry(
            "first: two claim over chunks with nothing",
            Some(0),
            two(&[], &[Claim(80, 1)], &[Claim(80, 1)]),
        ),
        entry(
            "first: two have large blocks with nothing",
            Some(0),
            two(&[], &[Large(2)], &[Large(2)]),
        ),
        entry(
            "first: one takes while another gives up all",
            Some(0),
            two(&[], &[Take(X, 1)], &[Purge, EmptyDepot(1), ReleaseEmpty(X)]),
        ),
        entry(
            "first: a slab and a run with nothing",
            Some(0),
            two(&[], &[Take(X, 1)], &[Claim(2, 1), Release]),
        ),
    ]
}

/// Neighbours.
pub(crate) fn neighbours() -> Vec<Entry> {
    let rest = REST(2);
    vec![
        entry(
            "near: two take near different CPUs",
            Some(2),
            two(
                &[(0, Take(X, 4)), (0, Give(X, 4)), (1, Near(1))],
                &[Take(X, 1)],
                &[Take(X, 1)],
            ),
        ),
        entry(
            "near: one takes what a neighbour has filled",
            Some(1),
            two(
                &[
                    (0, Take(X, 5)),
                    (1, Near(1)),
                    (1, Take(X, 8)),
                    (rest, Near(2)),
                ],
                &[Give(X, 5), Take(X, 1)],
                &[Take(X, 1)],
            ),
        ),
        entry(
            "near: a magazine is got from a neighbour's depot",
            Some(3),
            two(&[(0, Magazine(1)), (1, Near(1))], &[Put(1)], &[Get(1)]),
        ),
        entry(
            "near: magazines cross between neighbours",
            Some(2),
            two(
                &[
                    (0, Magazine(1)),
                    (1, Magazine(1)),
                    (1, Near(3)),
                    (rest, Magazine(1)),
                    (rest, Put(1)),
                ],
                &[Put(1), Get(1)],
                &[Get(1), Put(1)],
            ),
        ),
        entry(
            "near: a neighbour's depot is emptied while it is used",
            Some(1),
            two(
                &[
                    (0, Near(2)),
                    (0, Magazine(1)),
                    (rest, Magazine(1)),
                    (rest, Put(1)),
                ],
                &[Put(1), Get(1)],
                &[EmptyDepot(1)],
            ),
        ),
        entry(
            "near: two threads end near different CPUs",
            Some(2),
            two(
                &[
                    (rest, Malloc(SIZE)),
                    (0, Malloc(SIZE)),
                    (0, Free),
                    (1, Near(1)),
                    (1, Malloc(64)),
                    (1, Free),
                ],
                &[Exit],
                &[Exit],
            ),
        ),
        entry(
            "near: two begin where a cache waits near one of them",
            Some(2),
            two(
                &[
                    (rest, Near(3)),
                    (rest, Malloc(SIZE)),
                    (rest, Free),
                    (rest, Exit),
                    (1, Near(3)),
                ],
                &[Malloc(SIZE)],
                &[Malloc(SIZE)],
            ),
        ),
        entry(
            "near: a thread ends in a neighbour's place while another begins",
            Some(2),
            two(
                &[
                    (rest, Near(1)),
                    (rest, Malloc(SIZE)),
                    (rest, Free),
                    (rest, Exit),
                    (0, Near(1)),
                    (0, Malloc(SIZE)),
                    (0, Free),
                ],
                &[Exit],
                &[Malloc(SIZE)],
            ),
        ),
    ]
}
