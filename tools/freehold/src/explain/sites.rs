//! A call site in a few words: the function that one would name, and where it is.

use std::collections::HashMap;

use profile_file::{Frame, Skipped, Snapshot, Symbols, blame};

use crate::call_site::CallSite;

/// `function (file:line)`, or the module if there is no line; none for a site without a stack.
pub fn name(snapshot: &Snapshot, symbols: &mut Symbols, number: u32) -> Option<String> {
    frame(snapshot, symbols, number).map(|frame| describe(&frame))
}

/// Amounts of sites, summed up by the line that these are named after, the largest first. A function that is called in many
/// ways has a site for each. Sites without a stack are left out.
pub fn by_line(
    snapshot: &Snapshot,
    symbols: &mut Symbols,
    amounts: impl Iterator<Item = (u32, f64)>,
) -> Vec<(String, f64)> {
    let mut sums: HashMap<Frame, f64> = HashMap::new();
    for (number, bytes) in amounts {
        if let Some(frame) = frame(snapshot, symbols, number) {
            *sums.entry(line_of(frame)).or_default() += bytes;
        }
    }
    let mut sums: Vec<(String, f64)> = sums
        .into_iter()
        .map(|(frame, bytes)| (describe(&frame), bytes))
        .collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// Of a class with much free space, the lines that are named.
const MOST_KEEPERS: usize = 3;

/// The lines that have most of these bytes, and the functions that they are not named after.
pub fn keepers(
    snapshot: &Snapshot,
    symbols: &mut Symbols,
    sites: &[(u32, u64)],
    skipped: &mut Skipped,
) -> Vec<(String, u64)> {
    let amounts = sites.iter().map(|&(site, bytes)| (site, bytes as f64));
    let mut lines = by_line(snapshot, symbols, amounts);
    lines.truncate(MOST_KEEPERS);
    for &(site, _) in sites {
        let name = name(snapshot, symbols, site);
        if lines.iter().any(|(line, _)| Some(line) == name.as_ref()) {
            add_skipped(snapshot, symbols, site, skipped);
        }
    }
    let whole = |(line, bytes): (String, f64)| (line, bytes.round() as u64);
    lines.into_iter().map(whole).collect()
}

/// The frame that a site is named after.
fn frame(snapshot: &Snapshot, symbols: &mut Symbols, number: u32) -> Option<Frame> {
    let site = snapshot.site(number)?;
    let stack = snapshot.stack(site.node);
    let frames = symbols.stack(&stack.addresses);
    blame::culprit(&frames, &snapshot.naming).map(|place| frames[place].clone())
}

/// The same for all calls of one line.
pub fn line_of(frame: Frame) -> Frame {
    let named = frame.named || frame.line.is_some();
    Frame {
        offset: if named { 0 } else { frame.offset },
        inlined: false,
        ..frame
    }
}

/// Adds the functions that the site is not named after.
pub fn add_skipped(snapshot: &Snapshot, symbols: &mut Symbols, number: u32, to: &mut Skipped) {
    if let Some(site) = snapshot.site(number) {
        CallSite::of(snapshot, symbols, site.node).add_skipped(to, &snapshot.naming);
    }
}

fn describe(frame: &Frame) -> String {
    let function = frame.bare_name();
    match frame.short_place() {
        Some(place) => format!("{function} ({place})"),
        None if frame.module_name().is_empty() => function.to_owned(),
        None => format!("{function} ({})", frame.module_name()),
    }
}
