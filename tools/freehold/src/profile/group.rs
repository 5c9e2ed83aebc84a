//! Call sites put together by what they have in common.

use std::collections::HashMap;

use clap::ValueEnum;
use profile_file::{Amount, Frame, View};
use serde::{Deserialize, Serialize};

use super::stacks::{Entry, Stacks};

/// What call sites are put together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The line of the program that allocates.
    Site,
    /// The whole stack.
    Stack,
    /// The function that allocates.
    Function,
    /// The source file that it is in.
    File,
    /// The program or library that it is in.
    Module,
    /// The heap (`fh_heap_new`) that the blocks are of.
    Heap,
}

/// What a group is called. Groups of two profiles are the same if these are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Key {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The names from the outermost heap to the one that has the blocks; only of groups by heap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<String>,
    /// The callers, the innermost first; only of groups by stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
}

/// What call sites without a stack are called.
const NO_STACK: &str = "(no stack)";
/// And plain blocks, by heap.
const NO_HEAP: &str = "(in no heap)";

impl Key {
    fn of(by: By, stacks: &Stacks, entry: &Entry) -> Key {
        if by == By::Heap {
            return Key {
                heap: Some(entry.heap.clone().unwrap_or_else(|| NO_HEAP.to_owned())),
                ..Key::default()
            };
        }
        let Some(frame) = stacks.culprit(entry) else {
            return Key {
                function: Some(NO_STACK.to_owned()),
                ..Key::default()
            };
        };
        let module = (!frame.module.is_empty()).then(|| frame.module.clone());
        match by {
            By::Site => site(frame),
            By::Stack => Key {
                callers: callers(stacks, entry),
                ..site(frame)
            },
            By::Function => Key {
                function: Some(frame.function.clone()),
                module,
                ..Key::default()
            },
            By::File => match &frame.file {
                Some(file) => Key {
                    file: Some(file.clone()),
                    ..Key::default()
                },
                None => Key {
                    module,
                    ..Key::default()
                },
            },
            By::Module | By::Heap => Key {
                module,
                ..Key::default()
            },
        }
    }

    /// In one line: the name, then where that is.
    pub fn text(&self) -> String {
        let place = self.file.as_ref().map(|file| {
            // Of a place the file's name is enough beside a function's; alone it is the answer and stays whole.
            let file = if self.function.is_some() {
                last_part(file)
            } else {
                file
            };
            self.line
                .map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
        });
        let module = self.module.as_ref().map(|module| {
            if self.function.is_some() {
                last_part(module).to_owned()
            } else {
                module.clone()
            }
        });
        let mut words: Vec<String> = self.function.iter().cloned().collect();
        words.extend(place.or(module));
        words.extend(self.heap.clone());
        if words.is_empty() {
            words.push("(outside of all modules)".to_owned());
        }
        let mut text = words.join("  ");
        for caller in &self.callers {
            text.push_str(" ← ");
            text.push_str(caller);
        }
        text
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn site(frame: &Frame) -> Key {
    Key {
        function: Some(frame.function.clone()),
        file: frame.file.clone(),
        line: frame.line,
        module: (!frame.module.is_empty()).then(|| frame.module.clone()),
        heap: None,
        callers: Vec::new(),
    }
}

fn callers(stacks: &Stacks, entry: &Entry) -> Vec<String> {
    let begin = entry.culprit.map_or(0, |place| place + 1);
    entry.frames[begin..]
        .iter()
        .map(|&place| {
            let frame = &stacks.frames[place];
            match frame.short_place() {
                Some(place) => format!("{} ({place})", frame.function),
                None => frame.function.clone(),
            }
        })
        .collect()
}

/// Call sites that belong together.
pub struct Group {
    pub key: Key,
    amounts: [Amount; View::ALL.len()],
    /// The entries in it.
    pub entries: Vec<usize>,
}

impl Group {
    pub fn amount(&self, view: View) -> Amount {
        self.amounts[view as usize]
    }
}

/// The groups, in the order of `view`'s bytes, the biggest first; those with nothing in it are left out.
pub fn group(stacks: &Stacks, by: By, view: View) -> Vec<Group> {
    let mut groups = all(stacks, by);
    groups.retain(|group| !group.amount(view).is_zero());
    groups.sort_by(|a, b| {
        let order = b.amount(view).bytes.total_cmp(&a.amount(view).bytes);
        // Equal ones are shown in the same order each time.
        order.then_with(|| a.key.cmp(&b.key))
    });
    groups
}

/// All groups, in no order that means anything.
pub fn all(stacks: &Stacks, by: By) -> Vec<Group> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (number, entry) in stacks.entries.iter().enumerate() {
        let key = Key::of(by, stacks, entry);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push(Group {
                key,
                amounts: Default::default(),
                entries: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        for view in View::ALL {
            group.amounts[view as usize] += entry.amount(view);
        }
        group.entries.push(number);
    }
    groups
}
