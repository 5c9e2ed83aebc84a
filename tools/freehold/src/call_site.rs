//! A call site as a person names it: the function of theirs that asked for the memory, with its file and line.

use profile_file::{Frame, Naming, Skipped, Snapshot, Symbols, blame};
use serde::Serialize;

/// A stack, named, and which of its frames is the site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Which of them is the one to name.
    own: usize,
    /// Outer callers are missing.
    pub cut: bool,
}

/// A frame as JSON and the report have it.
#[derive(Clone, Debug, Serialize)]
pub struct FrameData {
    pub function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub module: String,
}

impl CallSite {
    pub fn of(snapshot: &Snapshot, symbols: &mut Symbols, node: u32) -> CallSite {
        let stack = snapshot.stack(node);
        CallSite::new(symbols.stack(&stack.addresses), stack.cut, &snapshot.naming)
    }

    pub fn new(frames: Vec<Frame>, cut: bool, naming: &Naming) -> CallSite {
        let own = blame::culprit(&frames, naming).unwrap_or(0);
        CallSite { frames, own, cut }
    }

    /// The frame that the site is named after.
    pub fn frame(&self) -> Option<&Frame> {
        self.frames.get(self.own)
    }

    /// The functions that the site is not named after, and that are nearer to the allocator.
    pub fn inner(&self) -> &[Frame] {
        self.frames.get(..self.own).unwrap_or(&[])
    }

    /// Adds the wrappers that were skipped.
    pub fn add_skipped(&self, to: &mut Skipped, naming: &Naming) {
        to.add(&self.frames, Some(self.own), naming);
    }

    pub fn function(&self) -> &str {
        self.frame()
            .map_or("(no stack: the profile file had no room for it)", |f| {
                &f.function
            })
    }

    /// server.c:120, else the module's name.
    pub fn short_place(&self) -> String {
        self.frame().map_or(String::new(), |frame| {
            frame
                .short_place()
                .unwrap_or_else(|| frame.module_name().to_owned())
        })
    }

    /// The whole path, and the line.
    pub fn place(&self) -> Option<String> {
        self.frame().and_then(Frame::place)
    }

    /// From the site's own frame outwards: what was called on its behalf is left out, and what is around every main.
    pub fn callers(&self) -> &[Frame] {
        let callers = self.frames.get(self.own + 1..).unwrap_or(&[]);
        let starts = |frame: &Frame| {
            let name = frame.function.as_str();
            name == "_start" || name == "__clone3" || name.starts_with("__libc_start")
        };
        let end = callers.iter().rposition(|frame| !starts(frame));
        &callers[..end.map_or(0, |last| last + 1)]
    }

    pub fn data(&self) -> Vec<FrameData> {
        self.frames.iter().map(FrameData::of).collect()
    }
}

impl FrameData {
    pub fn of(frame: &Frame) -> FrameData {
        FrameData {
            function: frame.function.clone(),
            place: frame.place(),
            module: frame.module_name().to_owned(),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn frame(function: &str, line: u32) -> Frame {
        Frame {
            function: function.to_owned(),
            module: "/usr/bin/server".to_owned(),
            offset: 0x1234,
            file: Some("/src/server.c".to_owned()),
            line: Some(line),
            inlined: false,
            named: true,
        }
    }

    #[test]
    fn a_site_is_named_after_the_first_function_that_is_nobodys_servant() {
        let site = CallSite::new(
            vec![
                frame("operator new(unsigned long)", 1),
                frame("std::vector<int>::push_back(int)", 2),
                frame("Cache::insert(Key)", 120),
                frame("main", 7),
            ],
            false,
            &Naming::default(),
        );
        assert_eq!(site.function(), "Cache::insert(Key)");
        assert_eq!(site.short_place(), "server.c:120");
        assert_eq!(site.callers().len(), 1);
    }

    #[test]
    fn a_site_without_a_stack_says_so() {
        let site = CallSite::new(Vec::new(), true, &Naming::default());
        assert!(site.function().starts_with("(no stack"));
        assert!(site.callers().is_empty() && site.short_place().is_empty());
    }
}
