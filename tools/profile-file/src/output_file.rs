//! Files as a person names them for an answer: replaced as a whole, so that no reader gets half of one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Fills the file at `path`. It is written beside its place and renamed when it is complete, so that a full disk leaves
/// the old one as it was. What a link points at is replaced, and not the link. Anything but a file, such as
/// `/dev/stdout` or a pipe, is written to and never replaced.
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => fill(&mut OpenOptions::new().write(true).open(&path)?),
        _ => {
            let beside = beside(&path);
            let result = File::create(&beside)
                .and_then(|mut file| fill(&mut file))
                .and_then(|()| fs::rename(&beside, &path));
            if result.is_err() {
                // The first error is the one to tell.
                let _ = fs::remove_file(&beside);
            }
            result
        }
    }
}

/// Whether [`replace`] may work, asked before hours of running.
pub fn may_replace(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => Ok(()),
        _ => {
            let beside = beside(&path);
            File::create(&beside).and_then(|_| fs::remove_file(&beside))
        }
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
}
