//! The flame graph: one HTML page with its data, style and script in it, which needs no network.
//!
//! Here the stacks become a tree with sums for each view; everything a person does with it is in `flame.js`.

use std::collections::HashMap;

use profile_file::{Amount, Frame, Snapshot, View, human};
use serde::Serialize;

use super::stacks::Stacks;
use super::text;

/// The views that the page switches between, in the order of its keys 1 to 4.
const VIEWS: [View; 4] = [View::Live, View::Allocated, View::Peak, View::ShortLived];

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");

/// A node of the tree in JSON: frame, parent (-1 of those below the root), and for each view bytes, blocks, variance
/// and samples of the stacks that end here, as far as they are not zero.
#[derive(Serialize)]
struct NodeOut(i64, i64, Vec<Option<[f64; 4]>>);

/// A frame in JSON: function, file, line, module; texts by number.
#[derive(Serialize)]
struct FrameOut(usize, usize, u32, usize);

#[derive(Serialize)]
struct PageData {
    title: String,
    heading: String,
    exact: bool,
    view: usize,
    views: Vec<ViewOut>,
    texts: Vec<String>,
    frames: Vec<FrameOut>,
    nodes: Vec<NodeOut>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ViewOut {
    name: &'static str,
    about: &'static str,
}

/// Each text once; number 0 is the empty one.
#[derive(Default)]
struct Texts {
    table: Vec<String>,
    places: HashMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), self.table.len() - 1);
        self.table.len() - 1
    }
}

/// A node under construction.
struct Node {
    frame: i64,
    parent: i64,
    own: [Amount; VIEWS.len()],
}

/// Frames that are no function of the program.
const NO_STACK: i64 = -1;
const CUT: i64 = -2;

/// For each frame the first of the same function: calls from its several lines are one box, as wide as all of them.
fn functions(frames: &[Frame]) -> Vec<usize> {
    let mut first: HashMap<(&str, Option<&str>, &str), usize> = HashMap::new();
    frames
        .iter()
        .enumerate()
        .map(|(place, frame)| {
            let key = (&*frame.function, frame.file.as_deref(), &*frame.module);
            *first.entry(key).or_insert(place)
        })
        .collect()
}

/// The tree of all stacks, outermost frame first, by `functions`. A parent comes before its children.
fn tree(stacks: &Stacks, functions: &[usize]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut places: HashMap<(i64, i64), i64> = HashMap::new();
    for entry in &stacks.entries {
        let mut path: Vec<i64> = entry
            .frames
            .iter()
            .rev()
            .map(|&place| functions[place] as i64)
            .collect();
        if path.is_empty() {
            path.push(NO_STACK);
        } else if entry.cut {
            path.insert(0, CUT);
        }
        let mut at = -1;
        for frame in path {
            at = *places.entry((at, frame)).or_insert_with(|| {
                nodes.push(Node {
                    frame,
                    parent: at,
                    own: Default::default(),
                });
                nodes.len() as i64 - 1
            });
        }
        let node = &mut nodes[at as usize];
        for (sum, view) in node.own.iter_mut().zip(VIEWS) {
            *sum += entry.amount(view);
        }
    }
    nodes
}

fn out(amount: &Amount) -> Option<[f64; 4]> {
    (!amount.is_zero()).then(|| {
        [
            amount.bytes.round(),
            (amount.blocks * 10.0).round() / 10.0,
            amount.variance.round(),
            amount.samples as f64,
        ]
    })
}

fn data(snapshot: &Snapshot, stacks: &Stacks, view: View) -> PageData {
    let mut texts = Texts::default();
    texts.number("");
    let functions = functions(&stacks.frames);
    // One line for a function that has several would be a wrong one.
    let mut lines: Vec<Option<u32>> = stacks.frames.iter().map(|frame| frame.line).collect();
    for (frame, &function) in stacks.frames.iter().zip(&functions) {
        if frame.line != lines[function] {
            lines[function] = None;
        }
    }
    let frames = stacks
        .frames
        .iter()
        .zip(&lines)
        .map(|(frame, line)| {
            FrameOut(
                texts.number(&frame.function),
                texts.number(frame.file.as_deref().unwrap_or("")),
                line.unwrap_or(0),
                texts.number(&frame.module),
            )
        })
        .collect();
    let nodes = tree(stacks, &functions)
        .iter()
        .map(|node| NodeOut(node.frame, node.parent, node.own.iter().map(out).collect()))
        .collect();
    let notes = snapshot.warnings.iter().map(|warning| warning.text.clone());
    let program = snapshot.program();
    PageData {
        title: program.rsplit('/').next().unwrap_or(&program).to_owned(),
        heading: text::about(snapshot)
            + &snapshot
                .why_empty()
                .map_or_else(String::new, |reason| format!(" · {reason}")),
        exact: snapshot.is_exact(),
        view: VIEWS.iter().position(|known| *known == view).unwrap_or(0),
        views: VIEWS
            .iter()
            .map(|v| ViewOut {
                name: v.name(),
                about: text::describe(*v),
            })
            .collect(),
        texts: texts.table,
        frames,
        nodes,
        notes: notes.chain(stacks.warnings.iter().cloned()).collect(),
    }
}

/// Text between tags.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The page.
pub fn page(snapshot: &Snapshot, stacks: &Stacks, view: View) -> String {
    let data = data(snapshot, stacks, view);
    // A function's name may contain "</script>" or "<!--": no such thing is left in a JSON text.
    let json = serde_json::to_string(&data)
        .expect("numbers and texts")
        .replace('<', "\\u003c");
    let totals: Vec<String> = VIEWS
        .iter()
        .map(|view| {
            format!(
                "{} {}",
                view.name(),
                human::bytes(snapshot.total(*view).bytes)
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} – memory by call site – Freehold</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <noscript>{heading}: {totals}. The graph itself needs JavaScript.</noscript>\n\
         <script type=\"application/json\" id=\"data\">{json}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(&data.title),
        heading = escape(&data.heading),
        totals = escape(&totals.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_site::tests::frame;

    #[test]
    fn a_function_is_one_box_however_many_of_its_lines_call() {
        let frames = [frame("main", 17), frame("main", 22), frame("grow", 3)];
        assert_eq!(functions(&frames), [0, 0, 2]);
    }
}
