//! What was odd about a profile file. A profile file that can be read at all is read as far as it goes; whatever was
//! left out, put right or does not add up is said in a list, so that no number is wrong without notice.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a warning means for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concern {
    /// Something could not be so: it was left out. What remains may be too little.
    Damaged,
    /// Two statistics that should agree do not.
    Disagrees,
    /// The program itself noted that it had to leave something out.
    Incomplete,
    /// What is shown is the end of a program: much was freed shortly before it, or nobody knows when it was.
    End,
    /// The program went on while its profile file was read.
    Moving,
}

/// One thing that was odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub concern: Concern,
    pub text: String,
}

impl Warning {
    pub(crate) fn damaged(text: impl Into<String>) -> Self {
        Warning {
            concern: Concern::Damaged,
            text: text.into(),
        }
    }

    pub(crate) fn disagrees(text: impl Into<String>) -> Self {
        Warning {
            concern: Concern::Disagrees,
            text: text.into(),
        }
    }

    pub(crate) fn incomplete(text: impl Into<String>) -> Self {
        Warning {
            concern: Concern::Incomplete,
            text: text.into(),
        }
    }

    pub(crate) fn end(text: impl Into<String>) -> Self {
        Warning {
            concern: Concern::End,
            text: text.into(),
        }
    }

    pub(crate) fn moving(text: impl Into<String>) -> Self {
        Warning {
            concern: Concern::Moving,
            text: text.into(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(&self.text)
    }
}
