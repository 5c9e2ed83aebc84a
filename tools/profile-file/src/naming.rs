//! How a person wants call sites to be named, and what is said about it.

use std::collections::BTreeSet;
use std::str::FromStr;

use regex::Regex;

use crate::blame::{self, Reason};
use crate::symbols::Frame;

/// How the call sites of a snapshot are named.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// Functions that no site is named after, besides the wrappers.
    pub skip: Vec<Skip>,
    /// Debug information that is not on this machine may be fetched.
    pub debuginfod: bool,
}

/// A pattern for functions that no site is to be named after. It may match anywhere in the name.
#[derive(Clone, Debug)]
pub struct Skip(Regex);

impl FromStr for Skip {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Skip, regex::Error> {
        Regex::new(text).map(Skip)
    }
}

impl Skip {
    pub fn matches(&self, function: &str) -> bool {
        self.0.is_match(function)
    }
}

/// The functions that sites would have been named after, had they not been skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    by_name: BTreeSet<String>,
    asked: BTreeSet<String>,
}

/// Names of each kind that are said; the others are counted.
const MOST_NAMES: usize = 8;

impl Skipped {
    /// Adds those of a stack whose site is the frame `named`.
    pub fn add(&mut self, frames: &[Frame], named: Option<usize>, naming: &Naming) {
        for frame in &frames[..named.unwrap_or(0).min(frames.len())] {
            let name = || frame.bare_name().to_owned();
            match blame::reason_to_skip(frame, naming) {
                Some(Reason::Name) => self.by_name.insert(name()),
                Some(Reason::Asked) => self.asked.insert(name()),
                Some(Reason::Library) | None => false,
            };
        }
    }

    /// In a sentence; none: no site has another name for it.
    pub fn sentence(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.by_name.is_empty() {
            parts.push(format!(
                "allocation wrappers by their names ({})",
                list(&self.by_name)
            ));
        }
        if !self.asked.is_empty() {
            parts.push(format!("--skip ({})", list(&self.asked)));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "sites are named after the callers of {}",
                parts.join(" and of ")
            )
        })
    }
}

fn list(names: &BTreeSet<String>) -> String {
    let mut words: Vec<String> = names.iter().take(MOST_NAMES).cloned().collect();
    if names.len() > MOST_NAMES {
        words.push(format!("{} more", names.len() - MOST_NAMES));
    }
    words.join(", ")
}
