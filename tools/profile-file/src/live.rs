//! The profile file of a process that runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::layout::{MEMFD, PREFIX};
use crate::process;
use crate::target::{header_of, places};

/// The profile file of a process that runs: where the library makes it, seen from the process' own root (it may live
/// in a container); else among its mappings and open files.
pub fn live_page(pid: u64) -> Option<PathBuf> {
    // A program that has just begun may be about to make its profile file.
    for _ in 0..50 {
        let profile = profile_now(pid);
        if profile.is_some() || !asked_for(pid) {
            return profile;
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Its environment says that the process is to observe itself.
pub fn asked_for(pid: u64) -> bool {
    fs::read(process::directory(pid).join("environ")).is_ok_and(|environment| {
        environment
            .split(|byte| *byte == 0)
            .filter_map(|word| word.strip_prefix(b"FREEHOLD="))
            .any(|options| options.windows(9).any(|part| part == b"observe=1"))
    })
}

fn profile_now(pid: u64) -> Option<PathBuf> {
    let base = process::directory(pid);
    let start = process::start_ticks(pid);
    let fits = |path: &Path| {
        header_of(path).is_ok_and(|header| {
            header.process_start == 0 || start.is_none_or(|start| start == header.process_start)
        })
    };
    let name = format!("{PREFIX}{pid}");
    let direct: Vec<PathBuf> = places()
        .iter()
        .map(|directory| directory.join(&name))
        .collect();
    if let Some(path) = direct.iter().find(|path| fits(path)) {
        return Some(path.clone());
    }
    mapped_pages(&base).into_iter().find(|path| fits(path))
}

/// Files among the mappings of a process that are called like a profile file, as paths that can be opened from here.
fn mapped_pages(base: &Path) -> Vec<PathBuf> {
    let Ok(maps) = process::text_of(&base.join("maps")) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = Vec::new();
    let mut memfd = false;
    for line in maps.lines() {
        // address, rights, offset, device, inode, path: the path may contain blanks.
        let mut words = line.splitn(6, ' ');
        let Some(range) = words.next() else { continue };
        let Some(path) = words.last().map(str::trim_start) else {
            continue;
        };
        if path.starts_with(&format!("/memfd:{MEMFD}")) {
            memfd = true;
            push_new(&mut found, base.join("map_files").join(range));
        } else if path.rsplit('/').next().is_some_and(is_page_name) {
            push_new(&mut found, PathBuf::from(path));
            push_new(
                &mut found,
                base.join("root").join(path.trim_start_matches('/')),
            );
            push_new(&mut found, base.join("map_files").join(range));
        }
    }
    if memfd {
        found.extend(open_memfds(base));
    }
    found
}

fn push_new(into: &mut Vec<PathBuf>, path: PathBuf) {
    if !into.contains(&path) {
        into.push(path);
    }
}

fn is_page_name(name: &str) -> bool {
    name.strip_suffix(" (deleted)")
        .unwrap_or(name)
        .strip_prefix(PREFIX)
        .is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn open_memfds(base: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(base.join("fd")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            fs::read_link(path)
                .is_ok_and(|to| to.to_string_lossy().starts_with(&format!("/memfd:{MEMFD}")))
        })
        .collect()
}
