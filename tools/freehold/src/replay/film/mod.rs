//! `freehold replay --film`: the map of the heap over time, on one page without a network.
//!
//! The replayer writes frames while it replays in total order: for each 64 KiB what is live and what is resident there. It asks
//! the kernel and its own list of blocks, so the film is of any allocator. Here frames become differences; the script draws.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::Measured;
use crate::report::{STYLE, escape};

const FRAME: &str = include_str!("frame.html");
const SCRIPT: &str = include_str!("script.js");
/// How many moments the replayer is asked for.
pub const FRAMES: u64 = 200;
/// Cells of 64 KiB in a chunk of 2 MiB, which is also what a huge page has.
const CELLS: u64 = 32;
const PAGE: u64 = 4096;
/// Half of the pages of a chunk: from here on it counts as one with a huge page.
const HUGE: u64 = 256;
/// So many changes of cells are on a page at most: beyond them every second frame is left out. It is some 5 MB of text.
const MOST_CHANGES: usize = 400_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    live: u32,
    blocks: u32,
    pages: u32,
    huge: u32,
}

/// By the address over 64 KiB.
type Cells = BTreeMap<u64, Cell>;

#[derive(Debug)]
struct Moment {
    at: u64,
    cells: Cells,
}

/// One moment, as what has changed since the one before.
#[derive(Debug, Serialize)]
struct Step {
    at: u64,
    live: u64,
    resident: u64,
    /// Chunks that have a huge page, by their place in the list of chunks.
    huge: Vec<usize>,
    /// Four numbers for each cell that has changed: how far on, live bytes, blocks, resident pages.
    cells: Vec<u64>,
}

/// The film of one allocator.
#[derive(Debug, Serialize)]
pub struct Film {
    name: String,
    /// Addresses of the chunks in which anything ever was, as text: JSON has no numbers of 64 bits.
    chunks: Vec<String>,
    steps: Vec<Step>,
}

/// What the replayer has written; see `recorder/film.h`.
pub fn read(name: &str, path: &Path) -> Result<Film> {
    let bytes = std::fs::read(path).with_context(|| format!("the film of {name}"))?;
    let mut words = bytes.chunks_exact(8).map(|eight| {
        let mut word = [0; 8];
        word.copy_from_slice(eight);
        u64::from_le_bytes(word)
    });
    let mut next = || words.next();
    let mut moments = Vec::new();
    while let (Some(at), Some(count)) = (next(), next()) {
        let mut cells = Cells::new();
        for _ in 0..count {
            let (number, of_blocks, of_pages) = (next(), next(), next());
            let (Some(number), Some(of_blocks), Some(of_pages)) = (number, of_blocks, of_pages)
            else {
                break;
            };
            let cell = Cell {
                live: of_blocks as u32,
                blocks: (of_blocks >> 32) as u32,
                pages: of_pages as u32,
                huge: (of_pages >> 32) as u32,
            };
            cells.insert(number.saturating_sub(1), cell);
        }
        moments.push(Moment { at, cells });
    }
    ensure!(moments.len() > 1, "the film of {name} has no frames");
    Ok(make(name, moments))
}

/// The first moment is the one before the first operation: what was resident then and never held a block is left out.
fn make(name: &str, mut moments: Vec<Moment>) -> Film {
    let before = moments.remove(0).cells;
    let held: BTreeSet<u64> = moments
        .iter()
        .flat_map(|one| &one.cells)
        .filter(|(_, cell)| cell.live + cell.blocks > 0)
        .map(|(number, _)| *number)
        .collect();
    for moment in &mut moments {
        moment
            .cells
            .retain(|number, _| held.contains(number) || !before.contains_key(number));
    }
    while changes(&moments) > MOST_CHANGES && moments.len() > 2 {
        // The last one stays: it is the end.
        let last = moments.len() - 1;
        let mut number = 0;
        moments.retain(|_| {
            number += 1;
            number % 2 == 1 || number == last + 1
        });
    }
    let chunks: BTreeSet<u64> = moments
        .iter()
        .flat_map(|one| one.cells.keys().map(|number| number / CELLS))
        .collect();
    let places: BTreeMap<u64, usize> = chunks
        .iter()
        .enumerate()
        .map(|(place, chunk)| (*chunk, place))
        .collect();
    let mut steps = Vec::new();
    let mut last = Cells::new();
    for moment in moments {
        steps.push(step(&moment, &last, &places));
        last = moment.cells;
    }
    Film {
        name: name.to_string(),
        chunks: chunks
            .iter()
            .map(|chunk| format!("{:x}", (chunk * CELLS) << 16))
            .collect(),
        steps,
    }
}

/// The cells that are not as they were, with those that are empty now.
fn changed<'a>(now: &'a Cells, last: &'a Cells) -> impl Iterator<Item = (u64, Cell)> + 'a {
    let all: BTreeSet<u64> = now.keys().chain(last.keys()).copied().collect();
    all.into_iter().filter_map(move |number| {
        let of = |cells: &Cells| cells.get(&number).copied().unwrap_or_default();
        let (cell, was) = (of(now), of(last));
        let same = (cell.live, cell.blocks, cell.pages) == (was.live, was.blocks, was.pages);
        (!same).then_some((number, cell))
    })
}

fn changes(moments: &[Moment]) -> usize {
    let pairs = moments.windows(2);
    pairs
        .map(|pair| changed(&pair[1].cells, &pair[0].cells).count())
        .sum::<usize>()
        + moments.first().map_or(0, |one| one.cells.len())
}

fn step(moment: &Moment, last: &Cells, places: &BTreeMap<u64, usize>) -> Step {
    let mut huge: BTreeMap<usize, u64> = BTreeMap::new();
    let (mut live, mut resident) = (0, 0);
    for (number, cell) in &moment.cells {
        live += u64::from(cell.live);
        resident += u64::from(cell.pages) * PAGE;
        *huge.entry(places[&(number / CELLS)]).or_default() += u64::from(cell.huge);
    }
    let mut cells = Vec::new();
    let mut before = 0;
    for (number, cell) in changed(&moment.cells, last) {
        // A chunk that is not in the list has only cells that were left out.
        let Some(place) = places.get(&(number / CELLS)) else {
            continue;
        };
        let place = *place as u64 * CELLS + number % CELLS;
        cells.extend([place - before, cell.live.into(), cell.blocks.into()]);
        cells.push(cell.pages.into());
        before = place;
    }
    Step {
        at: moment.at,
        live,
        resident,
        huge: huge
            .into_iter()
            .filter(|(_, pages)| *pages >= HUGE)
            .map(|(place, _)| place)
            .collect(),
        cells,
    }
}

pub fn render(title: &str, facts: &str, films: &[Film], all: &[Measured]) -> String {
    let died: Vec<String> = all
        .iter()
        .filter_map(|one| Some(format!("{}: {}", one.name, one.died.as_ref()?)))
        .collect();
    let data = serde_json::json!({"films": films, "died": died});
    let facts = facts.split('\n').next().unwrap_or_default();
    FRAME
        .replace("/*style*/", STYLE)
        .replace("/*script*/", SCRIPT)
        .replace("/*title*/", &escape(title))
        .replace("/*facts*/", &escape(facts))
        .replace("/*data*/", &data.to_string().replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(live: u32, pages: u32, huge: u32) -> Cell {
        Cell {
            live,
            blocks: u32::from(live > 0),
            pages,
            huge,
        }
    }

    fn moment(at: u64, cells: &[(u64, Cell)]) -> Moment {
        let cells = cells.iter().copied().collect();
        Moment { at, cells }
    }

    #[test]
    fn a_step_has_what_changed_and_what_went() {
        let film = make(
            "one",
            vec![
                // A library's page, and a page of the heap that was there before.
                moment(0, &[(5, cell(0, 3, 0)), (64, cell(0, 1, 0))]),
                moment(0, &[(5, cell(0, 3, 0)), (64, cell(10, 1, 0))]),
                moment(7, &[(64, cell(10, 1, 0)), (97, cell(20, 16, 16))]),
                moment(9, &[(97, cell(0, 16, 16))]),
            ],
        );
        assert_eq!(film.chunks, ["400000", "600000"]);
        let cells: Vec<_> = film.steps.iter().map(|step| step.cells.clone()).collect();
        assert_eq!(
            cells,
            [
                vec![0, 10, 1, 1],
                vec![33, 20, 1, 16],
                vec![0, 0, 0, 0, 33, 0, 0, 16],
            ]
        );
        let sums: Vec<_> = film
            .steps
            .iter()
            .map(|step| (step.at, step.live, step.resident))
            .collect();
        assert_eq!(sums, [(0, 10, 4096), (7, 30, 17 * 4096), (9, 0, 16 * 4096)]);
    }

    #[test]
    fn a_chunk_is_huge_if_half_of_its_pages_are() {
        let cells: Vec<_> = (0..40).map(|at| (at, cell(1, 16, 16))).collect();
        let film = make("one", vec![moment(0, &[]), moment(0, &cells)]);
        assert_eq!(film.chunks.len(), 2);
        assert_eq!(film.steps[0].huge, [0]);
    }

    #[test]
    fn frames_are_left_out_where_there_are_too_many_changes() {
        let many = |at: u64| {
            let cells: Vec<_> = (0..10_000)
                .map(|n| (n, cell(at as u32 + 1, 1, 0)))
                .collect();
            moment(at, &cells)
        };
        let mut moments = vec![moment(0, &[])];
        moments.extend((0..100).map(many));
        let film = make("one", moments);
        assert!(film.steps.len() > 20 && film.steps.len() <= 40);
        assert_eq!(film.steps.last().unwrap().at, 99);
    }
}
