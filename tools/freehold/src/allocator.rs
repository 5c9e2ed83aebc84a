//! Allocators by name, for `record` and `replay`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::library;

/// The library to preload for an allocator; none for the system's own.
pub fn library_of(name: &str, freehold: Option<&Path>) -> Result<Option<PathBuf>> {
    match name {
        "system" => return Ok(None),
        "freehold" => return library::locate(freehold).map(Some),
        _ => {}
    }
    let given = Path::new(name);
    if name.contains('/') {
        if !given.is_file() {
            bail!("there is no library at {name}");
        }
        return Ok(Some(std::path::absolute(given)?));
    }
    let places = places(name);
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(Some(path.clone())),
        None => bail!("{name} was not found; install its package, or name the path of its library"),
    }
}

/// A path says much of a machine: the name of the file is enough.
pub fn label(name: &str) -> String {
    let file = Path::new(name).file_name().unwrap_or_default();
    file.to_string_lossy().into_owned()
}

/// Where the benchmark suite builds its peers, and where distributions install them.
fn places(name: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let command = std::env::current_exe().unwrap_or_default();
    if let Some(directory) = command.parent() {
        for step in [".", "../..", "../../.."] {
            places.push(directory.join(step).join(format!("peers/{name}.so")));
        }
    }
    let file = match name {
        "tcmalloc" => "tcmalloc_minimal.so.4",
        "jemalloc" => "jemalloc.so.2",
        "mimalloc" => "mimalloc.so.2",
        other => other,
    };
    let lib = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for directory in [lib.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"] {
        places.push(Path::new(directory).join(format!("lib{file}")));
        places.push(Path::new(directory).join(format!("lib{file}.so")));
        places.push(Path::new(directory).join(format!("lib{name}.so.3")));
    }
    places
}
