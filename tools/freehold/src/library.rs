//! Where the drop-in library is.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The file name that the drop-in has in every place it may be.
pub const FILE_NAME: &str = "libfreehold.so";
/// The name that it has where only programs are run: the other comes with the package for developers.
const INSTALLED_NAME: &str = "libfreehold.so.0";

/// The recorder, which is preloaded in front of an allocator.
pub const RECORDER: &str = "libfreehold-record.so";

/// The program that does the calls of a trace.
pub const REPLAYER: &str = "freehold-replayer";

/// A file that belongs to the drop-in and lies beside it, or one directory deeper where it is installed.
pub fn beside(given: Option<&Path>, name: &str) -> Result<PathBuf> {
    let library = locate(given)?;
    let directory = library.parent().context("a library has a directory")?;
    let places = [directory.join(name), directory.join("freehold").join(name)];
    match places.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("{name} was not found beside {}", library.display()),
    }
}

/// Finds the drop-in: the path that the user gave, else beside this command (a build directory), else in the
/// `lib` directories beside its `bin` (an installation).
pub fn locate(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        if !path.is_file() {
            bail!("there is no library at {}", path.display());
        }
        return absolute(path);
    }
    let command = env::current_exe().context("cannot tell where this command is")?;
    let directory = command.parent().context("this command has no directory")?;
    let places = candidates(directory);
    match places.iter().find(|path| path.is_file()) {
        Some(path) => absolute(path),
        None => {
            let looked: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            bail!(
                "{FILE_NAME} was not found (looked at {}); name it with --library",
                looked.join(", ")
            )
        }
    }
}

/// The places to look at, best first, for a command that lies in `directory`. The two deeper ones are where
/// Cargo leaves its own copy of the command: below the build directory that holds the library.
fn candidates(directory: &Path) -> Vec<PathBuf> {
    let triplet = format!("../lib/{}-linux-gnu", env::consts::ARCH);
    [
        ".",
        "../lib",
        triplet.as_str(),
        "../lib64",
        "../..",
        "../../..",
    ]
    .iter()
    .flat_map(|step| [FILE_NAME, INSTALLED_NAME].map(|name| directory.join(step).join(name)))
    .collect()
}

/// A preloaded path must not depend on the directory that the program happens to start in. Links are kept as
/// they are: an installation may exchange what they point at.
fn absolute(path: &Path) -> Result<PathBuf> {
    let full =
        std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))?;
    let directory = full.parent().context("a library has a directory")?;
    let name = full.file_name().context("a library has a name")?;
    let directory = directory
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", directory.display()))?;
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_path_wins_and_becomes_absolute() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("libother.so");
        std::fs::write(&file, b"").unwrap();
        let found = locate(Some(&file)).unwrap();
        assert!(found.is_absolute());
        assert_eq!(found.file_name().unwrap(), "libother.so");
    }

    #[test]
    fn a_given_path_that_is_not_there_is_an_error_that_names_it() {
        let error = locate(Some(Path::new("/nowhere/libfreehold.so"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no library at /nowhere/libfreehold.so"
        );
    }

    #[test]
    fn the_build_folder_comes_before_an_installation() {
        let places = candidates(Path::new("/opt/f/bin"));
        assert_eq!(places[0], Path::new("/opt/f/bin/./libfreehold.so"));
        assert_eq!(places[1], Path::new("/opt/f/bin/./libfreehold.so.0"));
        assert_eq!(places[2], Path::new("/opt/f/bin/../lib/libfreehold.so"));
    }

    #[test]
    fn the_installed_name_is_that_of_the_version() {
        let major = env!("CARGO_PKG_VERSION").split('.').next().unwrap();
        assert_eq!(INSTALLED_NAME, format!("{FILE_NAME}.{major}"));
    }
}
