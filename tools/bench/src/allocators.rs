//! Resolves the names of the command line into allocators: ours, the system's, the peers, the ancestors, or a path.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure};

use crate::peers::{self, Peer, PeerFile};
use crate::record::{Allocator, Origin, Skipped};

/// What a word of `--allocators` may be, besides the name of an allocator.
pub const GROUPS: [&str; 5] = ["default", "peers", "packages", "ancestors", "all"];

/// The ancestors in the order of their time, and what tables call them. One that is not in this list is shown last,
/// under its own name.
const ANCESTORS: [(&str, &str); 9] = [
    ("vulcan-mutex", "Vulcan, mutex (2004)"),
    ("vulcan-cas", "Vulcan, CAS (2004)"),
    ("vulcan-cas-untagged", "Vulcan, CAS without tag (2004)"),
    ("oct-like", "OctAlloc-like (2007)"),
    ("x", "X (2013)"),
    ("pooled-x", "Pooled X (2013)"),
    ("fc-like", "fc_malloc-like (2013)"),
    ("moar-2014", "MoarVM 2014"),
    ("moar-2017", "MoarVM 2017"),
];

/// Where things are. Relative places are those of the repository.
pub struct Known<'a> {
    pub root: &'a Path,
    pub peers: PeerFile,
}

impl<'a> Known<'a> {
    pub fn load(root: &'a Path) -> anyhow::Result<Self> {
        Ok(Self {
            root,
            peers: peers::load(root)?,
        })
    }

    /// All names, in the order in which tables show them.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec!["freehold".to_owned(), "glibc".to_owned()];
        names.extend(self.peers.peers.iter().map(|peer| peer.name.clone()));
        names.extend(self.ancestors());
        names
    }

    pub fn ancestors(&self) -> Vec<String> {
        let pattern = self.root.join("build/ancestors/*.so");
        let Ok(found) = glob::glob(&pattern.to_string_lossy()) else {
            return Vec::new();
        };
        let name = |path: PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
        let mut names: Vec<String> = found.filter_map(Result::ok).filter_map(name).collect();
        names.sort_by_key(|name| {
            ANCESTORS
                .iter()
                .position(|(known, _)| known == name)
                .unwrap_or(ANCESTORS.len())
        });
        names
    }

    fn group(&self, word: &str) -> Vec<String> {
        let peers = |keep: &dyn Fn(&Peer) -> bool| -> Vec<String> {
            self.peers
                .peers
                .iter()
                .filter(|peer| keep(peer))
                .map(|peer| peer.name.clone())
                .collect()
        };
        let base = vec!["freehold".to_owned(), "glibc".to_owned()];
        match word {
            "default" => [base, peers(&|peer| peer.default)].concat(),
            "peers" => peers(&|_| true),
            "packages" => peers(&|peer| peer.package.is_some()),
            // The untagged one is a negative control that hands out blocks twice: to be asked for by name only.
            "ancestors" => self
                .ancestors()
                .into_iter()
                .filter(|name| !name.ends_with("-untagged"))
                .collect(),
            _ => [base, peers(&|_| true), self.group("ancestors")].concat(),
        }
    }

    /// Turns the words into allocators that can be run. Those of a group that are missing are skipped with the
    /// reason; so is one asked for by name, because the others are still worth measuring.
    pub fn resolve(&self, words: &[String]) -> anyhow::Result<(Vec<Allocator>, Vec<Skipped>)> {
        let mut names: Vec<String> = Vec::new();
        for word in words {
            let expanded = if GROUPS.contains(&word.as_str()) {
                self.group(word)
            } else {
                vec![word.clone()]
            };
            for name in expanded {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        for name in names {
            match self.one(&name) {
                Ok(allocator) => found.push(allocator),
                Err(error) => skipped.push(Skipped {
                    name,
                    reason: format!("{error:#}"),
                }),
            }
        }
        ensure!(
            !found.is_empty(),
            "no allocator to measure: {}",
            reasons(&skipped)
        );
        Ok((found, skipped))
    }

    /// One word: a name, a path to a shared object, or NAME=WHAT, which runs WHAT under another name.
    fn one(&self, word: &str) -> anyhow::Result<Allocator> {
        if let Some((name, what)) = word.split_once('=') {
            let known = self.one(what)?;
            return Ok(Allocator {
                name: name.to_owned(),
                label: name.to_owned(),
                origin: Origin::Given,
                ..known
            });
        }
        if word.contains('/') || word.ends_with(".so") {
            let path = Path::new(word);
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return library(&name, &name, Origin::Given, path, "", "given");
        }
        match word {
            "glibc" => Ok(system()),
            "freehold" => self.ours(),
            _ => self.peer_or_ancestor(word),
        }
    }

    /// Ours is measured as a copy made now. A run takes minutes, in which its developer builds the next one, and the
    /// rounds of one record must all be of one library.
    fn ours(&self) -> anyhow::Result<Allocator> {
        let built = self.root.join("build/libfreehold.so");
        ensure!(
            built.exists(),
            "{} is not there; `make` builds it",
            built.display()
        );
        let scratch = self.root.join("build/bench-scratch");
        std::fs::create_dir_all(&scratch)?;
        // Under a name of this process: another run may be using its own copy at this moment.
        let copy = scratch.join(format!("libfreehold-{}.so", std::process::id()));
        std::fs::copy(&built, &copy)?;
        library(
            "freehold",
            "Freehold",
            Origin::Ours,
            &copy,
            &our_version(self.root),
            "release",
        )
    }

    fn peer_or_ancestor(&self, name: &str) -> anyhow::Result<Allocator> {
        if let Some(peer) = self.peers.peers.iter().find(|peer| peer.name == name) {
            let built = peers::provide(self.root, &self.peers.common, peer)?;
            let origin = if peer.package.is_some() {
                Origin::Package
            } else {
                Origin::Peer
            };
            let how = format!("{}; {}; {}", built.origin, built.compiler, built.flags);
            return library(
                name,
                &peer.label,
                origin,
                &built.library,
                &built.version,
                &how,
            );
        }
        let path = self.root.join("build/ancestors").join(format!("{name}.so"));
        if path.exists() {
            let label = ANCESTORS
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(name, |(_, label)| label);
            return library(name, label, Origin::Ancestor, &path, "", "bench/ancestors");
        }
        bail!(
            "no allocator of that name; there are {}",
            self.names().join(", ")
        )
    }
}

fn library(
    name: &str,
    label: &str,
    origin: Origin,
    path: &Path,
    version: &str,
    built_with: &str,
) -> anyhow::Result<Allocator> {
    ensure!(path.exists(), "{} is not there", path.display());
    let path = path.canonicalize()?;
    peers::exports_malloc(&path)?;
    Ok(Allocator {
        name: name.to_owned(),
        label: label.to_owned(),
        version: version.to_owned(),
        origin,
        library: path.to_string_lossy().into_owned(),
        built_with: built_with.to_owned(),
    })
}

fn system() -> Allocator {
    let text = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = text
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        .unwrap_or_default();
    Allocator {
        name: "glibc".into(),
        label: "glibc".into(),
        version: text.trim_start_matches("glibc ").to_owned(),
        origin: Origin::System,
        library: String::new(),
        built_with: "the system's".into(),
    }
}

/// The version of ours is the commit it was built from, for that is what a developer compares.
fn our_version(root: &Path) -> String {
    let out = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(root)
        .output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        .unwrap_or_default()
}

pub fn reasons(skipped: &[Skipped]) -> String {
    skipped
        .iter()
        .map(|s| format!("{}: {}", s.name, s.reason))
        .collect::<Vec<_>>()
        .join("; ")
}
