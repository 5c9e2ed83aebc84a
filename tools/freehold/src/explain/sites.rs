//! A call site in a few words: the function that one would name, and where it is.

use profile_file::{Frame, Skipped, Snapshot, Symbols, blame};

use crate::call_site::CallSite;

/// `function (file:line)`, or the module if there is no line; none for a site without a stack.
pub fn name(snapshot: &Snapshot, symbols: &mut Symbols, number: u32) -> Option<String> {
    let site = snapshot.site(number)?;
    let stack = snapshot.stack(site.node);
    let frames = symbols.stack(&stack.addresses);
    blame::culprit(&frames, &snapshot.naming).map(|place| describe(&frames[place]))
}

/// Adds the functions that the site is not named after.
pub fn add_skipped(snapshot: &Snapshot, symbols: &mut Symbols, number: u32, to: &mut Skipped) {
    if let Some(site) = snapshot.site(number) {
        CallSite::of(snapshot, symbols, site.node).add_skipped(to, &snapshot.naming);
    }
}

fn describe(frame: &Frame) -> String {
    let function = blame::bare_name(&frame.function);
    match frame.short_place() {
        Some(place) => format!("{function} ({place})"),
        None if frame.module_name().is_empty() => function.to_owned(),
        None => format!("{function} ({})", frame.module_name()),
    }
}
