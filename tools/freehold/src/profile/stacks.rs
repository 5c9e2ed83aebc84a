//! A snapshot's call sites with their stacks named: what every form of a profile is made of.

use std::collections::HashMap;

use profile_file::{Amount, Frame, Skipped, Snapshot, Symbols, View, blame};

/// A call site: its stack, and what it allocated.
pub struct Entry {
    /// Places in [`Stacks::frames`], the innermost first, without the allocator's own.
    pub frames: Vec<usize>,
    /// The place in `frames` of the one to be named.
    pub culprit: Option<usize>,
    /// The heap that the blocks are of: a path of names.
    pub heap: Option<String>,
    /// Outer callers are missing.
    pub cut: bool,
    amounts: [Amount; View::ALL.len()],
}

impl Entry {
    pub fn amount(&self, view: View) -> Amount {
        self.amounts[view as usize]
    }
}

/// All call sites. Each different frame is kept once.
pub struct Stacks {
    pub frames: Vec<Frame>,
    pub entries: Vec<Entry>,
    /// Why names are missing.
    pub warnings: Vec<String>,
    /// Functions that sites are not named after.
    pub skipped: Skipped,
}

impl Stacks {
    pub fn of(snapshot: &Snapshot) -> Stacks {
        let mut symbols = Symbols::new(snapshot);
        let mut known: HashMap<Frame, usize> = HashMap::new();
        let mut frames = Vec::new();
        let mut skipped = Skipped::default();
        let mut entries = Vec::with_capacity(snapshot.sites.len());
        for site in &snapshot.sites {
            let stack = snapshot.stack(site.node);
            let named = symbols.stack(&stack.addresses);
            let own = named
                .iter()
                .take_while(|frame| blame::is_allocator(frame))
                .count();
            // A stack of nothing else is shown as it is.
            let named = if own < named.len() {
                &named[own..]
            } else {
                &named[..]
            };
            // Outwards it ends with `main` or a thread's function; what the C library has around these says nothing.
            let outer = named
                .iter()
                .rev()
                .take_while(|frame| blame::is_beginning(frame))
                .count();
            let named = &named[..(named.len() - outer).max(1).min(named.len())];
            let culprit = blame::culprit(named, &snapshot.naming);
            skipped.add(named, culprit, &snapshot.naming);
            let places = named
                .iter()
                .map(|frame| {
                    *known.entry(frame.clone()).or_insert_with(|| {
                        frames.push(frame.clone());
                        frames.len() - 1
                    })
                })
                .collect();
            entries.push(Entry {
                frames: places,
                culprit,
                heap: snapshot.heap_path(site.heap),
                cut: stack.cut,
                amounts: View::ALL.map(|view| site.amount(view)),
            });
        }
        Stacks {
            frames,
            entries,
            warnings: symbols.warnings().to_vec(),
            skipped,
        }
    }

    /// The frame of an entry that is to be named; none: the stack is empty.
    pub fn culprit(&self, entry: &Entry) -> Option<&Frame> {
        entry.culprit.map(|place| &self.frames[entry.frames[place]])
    }
}
