//! Observing: does a process show itself, and could a command that is started here?

use std::path::Path;

use anyhow::Result;
use profile_file::{FindError, Snapshot, Target, layout};

use super::report::{Finding, Report};
use crate::{amounts, wording};

/// A profile file begins with less than this, and grows by extents; with less room there is soon none for samples.
const ROOM: u64 = 4 << 20;

/// What can be said of a process that Freehold is in.
pub fn of_process(pid: u32) -> Finding {
    match Target::find(&pid.to_string()) {
        Ok(target) => match target.read() {
            Ok(snapshot) => of_snapshot(&target, &snapshot),
            Err(error) => Finding::note(
                "observe",
                format!("its profile file cannot be read: {error}"),
            ),
        },
        Err(FindError::NotObserved { .. }) => Finding::note("observe", "it is not observed")
            .advise("start it with `freehold run`, or with FREEHOLD=observe=1"),
        Err(error) => Finding::note("observe", error.to_string()),
    }
}

/// What can be said of a process that is gone: only one that ran under Freehold leaves a profile file.
pub fn of_what_is_left(target: &Target) -> Result<Report> {
    let snapshot = target.read()?;
    let mut report = Report::for_page(snapshot.pid(), snapshot.program());
    report.add(Finding::ok(
        "version",
        format!("it ran under Freehold {}", snapshot.version()),
    ));
    report.add(of_snapshot(target, &snapshot));
    Ok(report)
}

fn of_snapshot(target: &Target, snapshot: &Snapshot) -> Finding {
    let control = &snapshot.profile.control;
    let place = target.path().display();
    let text = match control.interval {
        0 => format!("its profile file is {place}; it takes no samples"),
        every => format!(
            "observed: {}, {} taken; its profile file is {place}",
            wording::sampling(every),
            control.taken
        ),
    };
    match (control.lost_samples, snapshot.alarm()) {
        (0, None) => Finding::ok("observe", text),
        (0, Some(alarm)) => Finding::note("observe", format!("{text}; {alarm}"))
            .advise("see the notes of `freehold profile`"),
        (lost, _) => Finding::note(
            "observe",
            format!("{text}; there was no room for {lost} samples"),
        )
        .advise(format!("make room in {}", folder_of(target.path()))),
    }
}

fn folder_of(path: &Path) -> String {
    path.parent().unwrap_or(path).display().to_string()
}

/// Whether the directory for profile files is there and has room. None: all is well, which needs no line.
pub fn of_place() -> Option<Finding> {
    look_at(Path::new(layout::DIRECTORY))
}

fn look_at(directory: &Path) -> Option<Finding> {
    if !directory.is_dir() {
        let text = format!(
            "there is no {}: profile files of observed programs live in memory and end with them",
            directory.display()
        );
        return Some(
            Finding::note("observe", text).advise("give `freehold run` a directory with --keep"),
        );
    }
    let room = rustix::fs::statvfs(directory)
        .map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
    if room < ROOM {
        let text = format!(
            "{} has {} left, too little to be observed well",
            directory.display(),
            amounts::bytes(room)
        );
        return Some(
            Finding::note("observe", text)
                .advise("make room there, or give `freehold run` a directory with --keep"),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_named_and_one_with_room_is_not() {
        let found = look_at(Path::new("/no/such/directory")).unwrap();
        assert!(
            found.text.contains("there is no /no/such/directory"),
            "{found:?}"
        );
        let dir = tempfile::tempdir().unwrap();
        // A disk with less than 4 MiB left would fail every other test too.
        assert_eq!(look_at(dir.path()), None);
    }

    #[test]
    fn a_process_without_freehold_is_not_called_observed() {
        let found = of_process(std::process::id());
        assert!(
            found.text.contains("does not run under Freehold"),
            "{found:?}"
        );
    }
}
