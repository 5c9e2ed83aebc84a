//! Files as a person names them for an answer: replaced as a whole, so that no reader gets half of one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Fills the file at `path` as a [`Draft`].
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut draft = Draft::begin(path)?;
    fill(&mut draft.file)?;
    draft.finish()
}

/// A file that is written beside its place and renamed when it is complete, so that a full disk, or an end before
/// [`Draft::finish`], leaves the old one as it was. What a link points at is replaced, and not the link. Anything but a
/// file, such as `/dev/stdout` or a pipe, is written to and never replaced.
pub struct Draft {
    file: File,
    path: PathBuf,
    beside: Option<PathBuf>,
}

impl Draft {
    pub fn begin(path: &Path) -> io::Result<Self> {
        let path = place(path)?;
        if !is_replaced(&path)? {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Self {
                file,
                path,
                beside: None,
            });
        }
        let beside = beside(&path);
        let file = File::create(&beside).map_err(|error| explained(&path, error))?;
        Ok(Self {
            file,
            path,
            beside: Some(beside),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn finish(mut self) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            fs::rename(beside, &self.path)?;
        }
        self.beside = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // The error that led here is the one to tell.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Whether a [`Draft`] may work, asked before hours of running.
pub fn may_replace(path: &Path) -> io::Result<()> {
    let path = place(path)?;
    if is_replaced(&path)? {
        let beside = beside(&path);
        File::create(&beside).map_err(|error| explained(&path, error))?;
        fs::remove_file(&beside)?;
    }
    Ok(())
}

/// Makes a directory, and those that it is in, if they are not there.
pub fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let other = path.ancestors().find(|above| fs::metadata(above).is_ok());
        match other {
            Some(other) if !other.is_dir() => io::Error::new(
                io::ErrorKind::NotADirectory,
                format!(
                    "{} is there, and is no directory: name another place",
                    other.display()
                ),
            ),
            _ => error,
        }
    })
}

/// Where links lead to, also if nothing is there yet.
fn place(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if path.is_symlink() => {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            let directory = path.parent().unwrap_or(Path::new(""));
            Ok(directory.join(fs::read_link(path)?))
        }
        found => Ok(found.unwrap_or_else(|_| path.to_owned())),
    }
}

fn is_replaced(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory: name a file",
        )),
        Ok(meta) => Ok(meta.is_file()),
        Err(_) => Ok(true),
    }
}

/// The kernel does not say which part of a path is missing.
fn explained(path: &Path, error: io::Error) -> io::Error {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.exists() => io::Error::new(
            error.kind(),
            format!("there is no directory {}", directory.display()),
        ),
        Some(directory) if !directory.is_dir() => io::Error::new(
            error.kind(),
            format!("{} is no directory", directory.display()),
        ),
        _ => error,
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{FileTypeExt, symlink};

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("answer");
        fs::write(&file, "old").unwrap();
        let failed = replace(&file, |into| {
            into.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        replace(&file, |into| into.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // Both ends open, so that writing to it does not wait for a reader.
        let mut reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&pipe)
            .unwrap();
        may_replace(&pipe).unwrap();
        replace(&pipe, |into| into.write_all(b"text")).unwrap();
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        let mut text = [0; 4];
        io::Read::read_exact(&mut reader, &mut text).unwrap();
        assert_eq!(&text, b"text");
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink("file", &link).unwrap();
        replace(&link, |into| into.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_known_before() {
        let dir = tempfile::tempdir().unwrap();
        assert!(may_replace(dir.path()).is_err());
        assert!(may_replace(&dir.path().join("no/such")).is_err());
        let file = dir.path().join("new");
        may_replace(&file).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("file", &link).unwrap();
        may_replace(&link).unwrap();
        replace(&link, |into| into.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "new");
        let round = dir.path().join("round");
        symlink("round", &round).unwrap();
        assert!(may_replace(&round).is_err());
        assert!(replace(&round, |into| into.write_all(b"new")).is_err());
        assert!(fs::symlink_metadata(&round).unwrap().is_symlink());
    }

    #[test]
    fn an_error_says_what_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        let shown = file.display();
        for place in [file.clone(), file.join("deeper")] {
            let told = make_directory(&place).unwrap_err().to_string();
            assert_eq!(
                told,
                format!("{shown} is there, and is no directory: name another place")
            );
        }
        let told = |place: &Path| may_replace(place).unwrap_err().to_string();
        assert_eq!(told(dir.path()), "it is a directory: name a file");
        let missing = dir.path().join("no");
        assert_eq!(
            told(&missing.join("file")),
            format!("there is no directory {}", missing.display())
        );
        assert_eq!(
            told(&file.join("deeper")),
            format!("{shown} is no directory")
        );
    }
}
