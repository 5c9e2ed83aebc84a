//! One operation of a trace.

use serde::{Deserialize, Serialize};

/// What was called. The numbers are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Malloc,
    Calloc,
    Realloc,
    Aligned,
    Free,
    FreeSized,
    New,
    NewAligned,
    Delete,
    DeleteSized,
    ThreadStart,
    ThreadEnd,
    Trim,
    Fork,
}

impl Kind {
    pub const ALL: [Kind; 14] = [
        Kind::Malloc,
        Kind::Calloc,
        Kind::Realloc,
        Kind::Aligned,
        Kind::Free,
        Kind::FreeSized,
        Kind::New,
        Kind::NewAligned,
        Kind::Delete,
        Kind::DeleteSized,
        Kind::ThreadStart,
        Kind::ThreadEnd,
        Kind::Trim,
        Kind::Fork,
    ];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// A block comes into being in a slot that had none.
    pub fn allocates(self) -> bool {
        matches!(
            self,
            Kind::Malloc | Kind::Calloc | Kind::Aligned | Kind::New | Kind::NewAligned
        )
    }

    pub fn frees(self) -> bool {
        matches!(
            self,
            Kind::Free | Kind::FreeSized | Kind::Delete | Kind::DeleteSized
        )
    }

    /// Concerns a block at all.
    pub fn has_slot(self) -> bool {
        self.allocates() || self.frees() || self == Kind::Realloc
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Malloc => "malloc",
            Kind::Calloc => "calloc",
            Kind::Realloc => "realloc",
            Kind::Aligned => "aligned",
            Kind::Free => "free",
            Kind::FreeSized => "free-sized",
            Kind::New => "new",
            Kind::NewAligned => "new-aligned",
            Kind::Delete => "delete",
            Kind::DeleteSized => "delete-sized",
            Kind::ThreadStart => "thread-start",
            Kind::ThreadEnd => "thread-end",
            Kind::Trim => "trim",
            Kind::Fork => "fork",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub kind: Kind,
    /// Threads are numbered from 0, in the order of their first mention.
    pub thread: u32,
    /// Nanoseconds since the recording began.
    pub time: u64,
    /// The block's slot; of `ThreadStart`, the new thread's number.
    pub slot: u32,
    pub size: u64,
    /// The logarithm to base 2 of the alignment that was asked for; 0 if none was.
    pub align: u8,
}

/// Nothing of the program's content: no names, no arguments, no addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Who wrote it: `record` or `import`.
    pub origin: String,
    /// The allocator that the program had.
    pub allocator: String,
    pub arch: String,
}

/// What is not in the trace although the program did it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Records for which there was no room.
    pub lost: u64,
    /// Releases of blocks from before the recording, or whose allocation was lost.
    pub unknown_frees: u64,
    /// Blocks whose release was lost: their address was given out again. The release is put in there.
    pub missed_frees: u64,
    /// Calls that the allocator refused.
    pub failed: u64,
}
