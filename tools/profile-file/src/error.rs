//! Why a profile file, or a saved one, could not be read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A profile file that cannot be read at all.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error(
        "the profile file has only {0} bytes, which is less than its header: it was cut short, or is not Freehold's"
    )]
    TooShort(u64),
    #[error("this is no profile file of Freehold's: it begins with {0:#018x}")]
    NotAProfile(u64),
    #[error(
        "the profile file has layout {0}, and this command reads layout {expected}: library and command are of different versions",
        expected = crate::layout::LAYOUT
    )]
    OtherLayout(u32),
    #[error(
        "the header of the profile file says that it has {0} bytes, which is not so in any layout that it reads: the profile file is damaged"
    )]
    OtherHeader(u32),
    #[error("the profile file is only being made: try again in a moment")]
    NotReady,
    #[error("cannot read the profile file: {0}")]
    Io(io::Error),
}

// Messages have their reasons in them, so that they are whole wherever they are printed; a chain would say them twice.
impl From<io::Error> for ReadError {
    fn from(reason: io::Error) -> Self {
        ReadError::Io(reason)
    }
}

/// A saved snapshot that cannot be read or written.
#[derive(Debug, Error)]
pub enum SavedError {
    #[error("{path}: {reason}")]
    Io { path: PathBuf, reason: io::Error },
    #[error("cannot write {path}: {reason}")]
    Unwritten { path: PathBuf, reason: io::Error },
    #[error("{0} is not a snapshot of Freehold's, nor the profile file of a program")]
    NotASnapshot(PathBuf),
    #[error(
        "{path} was saved by a newer freehold (format {version}, this one reads up to {known})"
    )]
    Newer {
        path: PathBuf,
        version: u32,
        known: u32,
    },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path}: {reason}")]
    Profile { path: PathBuf, reason: ReadError },
}

/// The heaps of a program cannot be told.
#[derive(Debug, Error)]
pub enum HeapsError {
    #[error(
        "the program does not run any more: its heaps are read in its memory, and are not in what it left"
    )]
    Gone,
    #[error("the program has not counted its memory yet: try again in a moment")]
    NotYet,
    #[error(
        "the library in the program has its heaps in another way than this command knows: they are of different versions"
    )]
    OtherLibrary,
    #[error(
        "the heaps of process {pid} are in its memory, which may not be read: {reason}. That takes the right of a debugger: \
         be root, or set kernel.yama.ptrace_scope=0"
    )]
    Forbidden { pid: u64, reason: io::Error },
    #[error("the program ended, or changed too much, while its heaps were read: try again")]
    Moving,
}
