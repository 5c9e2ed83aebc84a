//! Resolves the names of the command line into allocators: ours, the system's, the peers, the ancestors, or a path.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::files;
use crate::peers::{self, Peer, PeerFile};
use crate::record::{Allocator, Origin, Skipped};

/// What a word of `--allocators` may be, besides the name of an allocator.
pub const GROUPS: [&str; 6] = ["default", "peers", "packages", "ancestors", "modes", "all"];

/// What of ours the group "modes" measures: the default, and each option that changes how it works.
const MODES: [&str; 11] = [
    "freehold",
    "freehold@purge=eager",
    "freehold@purge=lazy",
    "freehold@purge=background",
    "freehold@thp=never",
    "freehold@thp=always",
    "freehold@limit=64g",
    "freehold@observe=1",
    "freehold@observe=1+sample=64k",
    "freehold@guard=1000",
    "freehold@check=1",
];

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
            "modes" => MODES.map(str::to_owned).to_vec(),
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
        let missing = peers::to_build(self.root, &self.peers, &names);
        if !missing.is_empty() {
            crate::peer_build::say(&format!(
                "to be built first, once, into build/peers: {}; all of them take some minutes",
                missing.join(", ")
            ));
        }
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        for name in &names {
            match self.one(name) {
                Ok(allocator) => found.push(allocator),
                Err(error) => {
                    skipped.push(Skipped {
                        name: name.clone(),
                        reason: format!("{error:#}"),
                    });
                    let other = self.peers.stand_in.get(name);
                    let other = other.filter(|other| !names.contains(other));
                    found.extend(other.and_then(|other| self.one(other).ok()));
                }
            }
        }
        ensure!(
            !found.is_empty(),
            "no allocator to measure: {}",
            reasons(&skipped)
        );
        Ok((found, skipped))
    }

    /// What ratios are taken to when the command line does not say: the usual reference, else who stands in for it, else
    /// the first peer, else the first of all.
    pub fn reference(&self, measured: &[Allocator]) -> String {
        let there = |name: &str| measured.iter().any(|a| a.name == name);
        let usual = peers::REFERENCE.to_owned();
        let stand_in = self.peers.stand_in.get(&usual).cloned();
        let first = measured
            .iter()
            .find(|a| matches!(a.origin, Origin::Peer | Origin::System | Origin::Package))
            .or(measured.first())
            .map(|a| a.name.clone());
        [Some(usual.clone()), stand_in]
            .into_iter()
            .flatten()
            .find(|name| there(name))
            .or(first)
            .unwrap_or(usual)
    }

    /// One word: a name, a path to a shared object, WHAT@OPTIONS, which gives ours its options, or NAME=WHAT, which runs
    /// WHAT under another name.
    fn one(&self, word: &str) -> anyhow::Result<Allocator> {
        if let Some((what, options)) = split_options(word) {
            let known = self.one(what)?;
            return Ok(Allocator {
                name: word.to_owned(),
                label: format!("{}, {}", known.label, options.replace('+', ", ")),
                origin: Origin::Given,
                options: options.replace('+', ","),
                ..known
            });
        }
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
        files::make_directory(&scratch)?;
        // Under a name of this process: another run may be using its own copy at this moment.
        let copy = scratch.join(format!("libfreehold-{}.so", std::process::id()));
        std::fs::copy(&built, &copy)
            .with_context(|| format!("cannot copy {} to {}", built.display(), copy.display()))?;
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

/// The options stand behind the first @, with + between them, because a comma ends the word. A name that is given with =
/// comes before.
fn split_options(word: &str) -> Option<(&str, &str)> {
    let (what, options) = word.split_once('@')?;
    (!what.contains('=')).then_some((what, options))
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
        options: String::new(),
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
        options: String::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known(root: &Path) -> Known<'_> {
        let text = "[stand_in]\nmimalloc34='mimalloc3'\n\
                    [[peer]]\nname='mimalloc34'\nlabel='M'\npath='missing.so'\n\
                    [[peer]]\nname='mimalloc3'\nlabel='M 3.3'\ndefault=false\npath='libc.so'\n";
        std::fs::create_dir_all(root.join("bench/peers")).unwrap();
        std::fs::write(root.join("bench/peers/peers.toml"), text).unwrap();
        Known::load(root).unwrap()
    }

    /// A shared object that exports what an allocator exports.
    fn some_library(root: &Path) {
        let mut cc = Command::new("cc");
        let source = root.join("a.c");
        let text = "void malloc(){} void free(){} void calloc(){} void realloc(){}";
        std::fs::write(&source, text).unwrap();
        cc.args(["-w", "-shared", "-fPIC", "-fno-builtin", "-o"]);
        let done = cc.arg(root.join("libc.so")).arg(&source).status().unwrap();
        assert!(done.success());
    }

    #[test]
    fn who_is_missing_is_replaced_and_the_reference_follows() {
        let folder = tempfile::tempdir().unwrap();
        some_library(folder.path());
        let known = known(folder.path());
        let (found, skipped) = known
            .resolve(&["glibc".into(), "mimalloc34".into()])
            .unwrap();
        let names: Vec<_> = found.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["glibc", "mimalloc3"]);
        assert_eq!(skipped[0].name, "mimalloc34");
        assert_eq!(known.reference(&found), "mimalloc3");
        assert_eq!(known.reference(&found[..1]), "glibc");
        // Not twice, where both were asked for.
        let both = ["mimalloc34".to_owned(), "mimalloc3".to_owned()];
        assert_eq!(known.resolve(&both).unwrap().0.len(), 1);
    }

    #[test]
    fn options_come_behind_the_name() {
        let folder = tempfile::tempdir().unwrap();
        some_library(folder.path());
        let known = known(folder.path());
        let path = folder.path().join("libc.so");
        let word = format!("{}@observe=1+sample=64k", path.display());
        let mode = known.one(&word).unwrap();
        assert_eq!(
            (mode.options.as_str(), mode.name),
            ("observe=1,sample=64k", word)
        );
        let named = known
            .one(&format!("seen={}@observe=1", path.display()))
            .unwrap();
        assert_eq!(
            (named.name.as_str(), named.options.as_str()),
            ("seen", "observe=1")
        );
        assert_eq!(split_options("slow=a.so"), None);
    }
}
