//! Where `freehold run` keeps the profile files of this user's programs: the first directory that has room for them.

use std::path::{Path, PathBuf};

use crate::layout::DIRECTORY;

/// Less room than this is too little for the profile files of a large program: some hundred thousand samples.
const ROOM: u64 = 64 << 20;

/// Where `freehold run` may keep the profile files of this user's programs, so that what is in them survives; the best
/// first.
pub fn kept_directories() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut found: Vec<PathBuf> = Vec::new();
    let parents = [
        Some(PathBuf::from(DIRECTORY)),
        runtime,
        Some(std::env::temp_dir()),
    ];
    for parent in parents.into_iter().flatten() {
        let directory = parent.join(format!("freehold-kept-{user}"));
        if parent.is_absolute() && parent.is_dir() && !found.contains(&directory) {
            found.push(directory);
        }
    }
    found
}

/// The directory that a new run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDirectory {
    pub path: PathBuf,
    /// It has room for the profile files of a large program.
    pub is_roomy: bool,
    /// What is said if it is not the first that was tried.
    pub said: Option<String>,
}

/// The first with enough room; failing that, the one with most.
pub fn kept_directory() -> KeptDirectory {
    choose(&kept_directories(), &room_in)
}

/// What is said of a directory that a person chose and that has too little room; none: it has enough.
pub fn too_small(directory: &Path) -> Option<String> {
    let room = room_in(directory);
    (room < ROOM).then(|| {
        format!(
            "{} has {} left; when it is full, samples are lost",
            directory.display(),
            crate::human::bytes(room as f64)
        )
    })
}

fn choose(candidates: &[PathBuf], room: &dyn Fn(&Path) -> u64) -> KeptDirectory {
    let nowhere = std::env::temp_dir().join("freehold-kept");
    let first = candidates.first().unwrap_or(&nowhere);
    let roomy = candidates.iter().find(|candidate| room(candidate) >= ROOM);
    let most = candidates.iter().max_by_key(|candidate| room(candidate));
    let path = roomy.or(most).unwrap_or(first);
    let left = format!(
        "{} has {} left, too little to observe a program",
        first.parent().unwrap_or(first).display(),
        crate::human::bytes(room(first) as f64)
    );
    let said = match roomy {
        Some(path) if path != first => {
            Some(format!("{left}; its profile file is in {}", path.display()))
        }
        Some(_) => None,
        None => Some(format!(
            "{left}, and no other directory has enough; its profile file is in memory until it ends"
        )),
    };
    KeptDirectory {
        path: path.clone(),
        is_roomy: roomy.is_some(),
        said,
    }
}

/// What this user may still write in the file system that a directory is in, or will be.
fn room_in(directory: &Path) -> u64 {
    let there = if directory.is_dir() {
        Some(directory)
    } else {
        directory.parent()
    };
    there
        .filter(|there| rustix::fs::access(*there, rustix::fs::Access::WRITE_OK).is_ok())
        .and_then(|there| rustix::fs::statvfs(there).ok())
        .map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_kept_where_there_is_room() {
        let candidates = ["/shm/kept", "/run/kept", "/tmp/kept"].map(PathBuf::from);
        let with = |rooms: [u64; 3]| {
            let room = move |path: &Path| match path.to_str() {
                Some("/shm/kept") => rooms[0],
                Some("/run/kept") => rooms[1],
                _ => rooms[2],
            };
            choose(&candidates, &room)
        };
        let gib = 1 << 30;
        let first = with([gib, gib, gib]);
        assert_eq!((&first.path, &first.said), (&candidates[0], &None));
        let last = with([400 << 10, 4096, gib]);
        assert_eq!((&last.path, last.is_roomy), (&candidates[2], true));
        assert_eq!(
            last.said.as_deref(),
            Some(
                "/shm has 400.0 KiB left, too little to observe a program; its profile file is in /tmp/kept"
            )
        );
        let none = with([400 << 10, 1 << 20, 4096]);
        assert_eq!((&none.path, none.is_roomy), (&candidates[1], false));
        assert_eq!(
            none.said.as_deref(),
            Some(
                "/shm has 400.0 KiB left, too little to observe a program, and no other directory has enough; its profile \
                 file is in memory until it ends"
            )
        );
    }
}
