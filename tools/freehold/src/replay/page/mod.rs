//! `freehold replay --html`: latencies, resident memory and fragmentation of each allocator, on one page without a network.
//!
//! The page is a fixed frame around a block of JSON, as that of `freehold report` is. The curves are made here; the
//! script only draws.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use trace_file::{Op, Resident, TraceError};

use super::prepare::Order;
use super::process::Run;
use super::{Measured, bucket_end};
use crate::report::{STYLE, escape};

const FRAME: &str = include_str!("frame.html");
const SCRIPT: &str = include_str!("script.js");
/// Resident over live is not drawn where less than this part of the peak is live: it says nothing there.
const LEAST_LIVE: f64 = 0.01;

#[derive(Serialize)]
struct Curves<'a> {
    name: &'a str,
    /// Calls that were timed.
    calls: u64,
    /// The part of all calls that took at most so many nanoseconds.
    latency: Vec<(f64, u64)>,
    /// By the nanosecond, or by the operation in total order.
    rss: Vec<(u64, u64)>,
    /// By the operation.
    fragmentation: Vec<(u64, Option<f64>)>,
}

/// The bytes that are live after each of these operations, and at the end.
pub fn live_after(
    ops: impl Iterator<Item = Result<Op, TraceError>>,
    runs: &[&Run],
) -> Result<BTreeMap<u64, u64>> {
    let points = runs.iter().flat_map(|run| &run.points);
    let mut wanted: BTreeMap<u64, u64> = points.map(|point| (point.0, 0)).collect();
    let (mut sizes, mut live) = (Vec::<u64>::new(), 0);
    let mut end = 0;
    for (number, op) in (0..).zip(ops) {
        let op = op?;
        if op.kind.has_slot() {
            let slot = op.slot as usize;
            sizes.resize(sizes.len().max(slot + 1), 0);
            // As the tally does: hostile sizes are clipped. It has refused a trace of which more is live than a number can say.
            let size = if op.kind.frees() {
                0
            } else {
                op.size.min(1 << 47)
            };
            live = live - std::mem::replace(&mut sizes[slot], size) + size;
        }
        if let Some(place) = wanted.get_mut(&number) {
            *place = live;
        }
        end = number + 1;
    }
    if let Some(place) = wanted.get_mut(&end) {
        *place = live;
    }
    Ok(wanted)
}

fn latency(run: &Run) -> Vec<(f64, u64)> {
    let all: u64 = run.times.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let of = run.times.iter().map(|(bucket, count)| {
        seen += count;
        (
            seen as f64 / all as f64,
            bucket_end(*bucket).min(run.worst.max(1)),
        )
    });
    of.collect()
}

fn above(run: &Run) -> impl Iterator<Item = (u64, u64)> {
    let points = run.points.iter();
    points.map(|(at, bytes)| (*at, bytes.saturating_sub(run.before)))
}

fn curves<'a>(one: &'a Measured, live: &BTreeMap<u64, u64>, peak: u64) -> Curves<'a> {
    let mut runs: Vec<&Run> = one.runs.iter().collect();
    runs.sort_by_key(|run| run.ns);
    let ratio = |(at, bytes): (u64, u64)| {
        let live = live.get(&at).map_or(0.0, |live| *live as f64);
        let enough = live > 0.0 && live >= peak as f64 * LEAST_LIVE;
        (at, enough.then(|| bytes as f64 / live))
    };
    Curves {
        name: &one.name,
        calls: one.latency.as_ref().map_or(0, |run| run.calls),
        latency: one.latency.as_ref().map(latency).unwrap_or_default(),
        rss: runs
            .get(runs.len() / 2)
            .map(|run| above(run).collect())
            .unwrap_or_default(),
        fragmentation: one
            .ordered
            .as_ref()
            .map(|run| above(run).map(ratio).collect())
            .unwrap_or_default(),
    }
}

/// The program's own memory, where the replay keeps its times.
fn of_the_program(resident: &Resident) -> Curves<'static> {
    let points = resident.points.iter();
    Curves {
        name: "the program itself",
        calls: 0,
        latency: Vec::new(),
        rss: points
            .map(|(at, bytes)| (*at, bytes.saturating_sub(resident.base)))
            .collect(),
        fragmentation: Vec::new(),
    }
}

pub fn render(
    title: &str,
    table: &str,
    order: Order,
    program: Option<&Resident>,
    all: &[Measured],
    live: &BTreeMap<u64, u64>,
    peak: u64,
) -> Result<String> {
    let mut curves: Vec<Curves> = all.iter().map(|one| curves(one, live, peak)).collect();
    curves.extend(program.filter(|_| order == Order::Time).map(of_the_program));
    let data = serde_json::json!({"by_operation": order == Order::Total, "allocators": curves});
    let (facts, table) = table.split_once('\n').unwrap_or((table, ""));
    // Inside a script element only its end tag has a meaning, and the beginning of a comment.
    Ok(FRAME
        .replace("/*style*/", STYLE)
        .replace("/*script*/", SCRIPT)
        .replace("/*title*/", &escape(title))
        .replace("/*facts*/", &escape(facts))
        .replace("/*table*/", &escape(table.trim()))
        .replace("/*data*/", &data.to_string().replace('<', "\\u003c")))
}
