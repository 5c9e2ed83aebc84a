//! The peers: read from `bench/peers/peers.toml`, built once, and described in a JSON file beside each library.
//!
//! What a peer is made of is data, not code: adding one is one entry in that file. This module knows the kinds of
//! entry and decides what is stale; `peer_build` does the compiling.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::{files, peer_build};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerFile {
    #[serde(default)]
    pub common: CommonFlags,
    /// By the name of a peer that may be missing here, the one that takes its place.
    #[serde(default)]
    pub stand_in: BTreeMap<String, String>,
    #[serde(default, rename = "peer")]
    pub peers: Vec<Peer>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommonFlags {
    #[serde(default)]
    pub c: Vec<String>,
    #[serde(default)]
    pub cxx: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub name: String,
    pub label: String,
    #[serde(default = "yes")]
    pub default: bool,
    #[serde(rename = "crate")]
    pub crate_name: Option<String>,
    pub version: Option<VersionRule>,
    /// Said in front of the version when it is not the allocator's own.
    pub version_note: Option<String>,
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    #[serde(default)]
    pub includes: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    #[serde(default)]
    pub link: Vec<String>,
    pub tree: Option<String>,
    pub overlay: Option<String>,
    pub configure: Option<Vec<String>>,
    pub make: Option<String>,
    pub product: Option<String>,
    pub package: Option<String>,
    #[serde(default)]
    pub files: Vec<String>,
    pub wheel: Option<String>,
    pub member: Option<String>,
    pub path: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRule {
    pub file: Option<String>,
    pub pattern: String,
}

fn yes() -> bool {
    true
}

/// The peer that ratios are taken to, unless the command line names another.
pub const REFERENCE: &str = "mimalloc34";

/// What is written beside a library, and all that a later run needs to know about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Built {
    pub name: String,
    pub version: String,
    pub library: PathBuf,
    pub origin: String,
    pub compiler: String,
    pub flags: String,
    /// The entry as it was when this was built; a changed entry is built again.
    pub entry: String,
}

pub fn load(root: &Path) -> anyhow::Result<PeerFile> {
    let path = root.join("bench/peers/peers.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<PeerFile> {
    let file: PeerFile = toml::from_str(text)?;
    for peer in &file.peers {
        let kinds = [
            peer.crate_name.is_some(),
            peer.package.is_some(),
            peer.wheel.is_some(),
            peer.path.is_some(),
        ];
        let count = kinds.iter().filter(|kind| **kind).count();
        ensure!(
            count == 1,
            "peer {:?} needs exactly one of crate, package, wheel and path",
            peer.name
        );
        let twice = file
            .peers
            .iter()
            .filter(|other| other.name == peer.name)
            .count()
            > 1;
        ensure!(!twice, "peer {:?} is there twice", peer.name);
    }
    let is_peer = |name: &String| file.peers.iter().any(|peer| peer.name == *name);
    for name in file.stand_in.iter().flat_map(|(a, b)| [a, b]) {
        ensure!(is_peer(name), "{name:?} of stand_in is no peer");
    }
    Ok(file)
}

/// Where the note about a peer is, and the entry that it must have been built from.
fn note_and_entry(root: &Path, common: &CommonFlags, peer: &Peer) -> (PathBuf, String) {
    let note = root.join(format!("build/peers/{}.json", peer.name));
    (note, format!("{peer:?} {common:?}"))
}

/// The peer as it was built earlier, if its entry is still the same.
fn built_earlier(root: &Path, common: &CommonFlags, peer: &Peer) -> Option<Built> {
    let (note, entry) = note_and_entry(root, common, peer);
    read_note(&note).filter(|built| built.entry == entry && built.library.exists())
}

/// Of the names, the peers that have to be fetched or compiled first.
pub fn to_build<'a>(root: &Path, file: &'a PeerFile, names: &[String]) -> Vec<&'a str> {
    let wanted = |peer: &&Peer| {
        names.contains(&peer.name)
            && (peer.crate_name.is_some() || peer.wheel.is_some())
            && built_earlier(root, &file.common, peer).is_none()
    };
    let peers = file.peers.iter().filter(wanted);
    peers.map(|peer| peer.name.as_str()).collect()
}

/// Makes the peer's library be there and says what it is. An error is the reason why the peer is skipped.
pub fn provide(root: &Path, common: &CommonFlags, peer: &Peer) -> anyhow::Result<Built> {
    let place = root.join("build/peers");
    files::make_directory(&place)?;
    if let Some(built) = built_earlier(root, common, peer) {
        return Ok(built);
    }
    let (note, entry) = note_and_entry(root, common, peer);
    let begun = std::time::Instant::now();
    let mut built = if peer.crate_name.is_some() {
        peer_build::from_crate(root, &place, common, peer)?
    } else if let Some(package) = &peer.package {
        from_package(package, peer)?
    } else if let Some(wheel) = &peer.wheel {
        peer_build::from_wheel(&place, wheel, peer)?
    } else {
        from_path(root, peer)?
    };
    exports_malloc(&built.library)?;
    built.entry = entry;
    files::write(&note, &serde_json::to_string_pretty(&built)?)?;
    if peer.package.is_none() && peer.path.is_none() {
        let seconds = begun.elapsed().as_secs();
        peer_build::say(&format!("{}: ready after {seconds} s", peer.name));
    }
    Ok(built)
}

fn read_note(path: &Path) -> Option<Built> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

fn from_package(package: &str, peer: &Peer) -> anyhow::Result<Built> {
    let library = peer
        .files
        .iter()
        .filter_map(|pattern| glob::glob(pattern).ok())
        .flatten()
        .find_map(Result::ok)
        .ok_or_else(|| anyhow!("not installed; the Debian package {package} has it"))?;
    let shown = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", package])
        .output();
    let version = shown
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default();
    Ok(Built {
        name: peer.name.clone(),
        version,
        library,
        origin: format!("Debian package {package}"),
        compiler: "Debian's".into(),
        flags: "Debian's".into(),
        entry: String::new(),
    })
}

fn from_path(root: &Path, peer: &Peer) -> anyhow::Result<Built> {
    let given = peer.path.as_deref().context("no path")?;
    let library = if given.is_absolute() {
        given.to_owned()
    } else {
        root.join(given)
    };
    ensure!(library.exists(), "{} is not there", library.display());
    Ok(Built {
        name: peer.name.clone(),
        version: String::new(),
        library,
        origin: "given".into(),
        compiler: String::new(),
        flags: String::new(),
        entry: String::new(),
    })
}

/// A library that does not export malloc would silently measure glibc under a wrong name.
pub fn exports_malloc(library: &Path) -> anyhow::Result<()> {
    let out = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output();
    let Ok(out) = out else { return Ok(()) };
    let text = String::from_utf8_lossy(&out.stdout);
    let has = |name: &str| {
        text.lines().any(|line| {
            line.rsplit(' ')
                .next()
                .is_some_and(|symbol| symbol.split('@').next() == Some(name))
        })
    };
    for name in ["malloc", "free", "calloc", "realloc"] {
        if !has(name) {
            bail!("{} does not export {name}", library.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_repository_is_well_formed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = load(&root).unwrap();
        assert!(file.peers.iter().any(|p| p.name == REFERENCE && p.default));
        assert_eq!(file.stand_in[REFERENCE], "mimalloc3");
    }

    #[test]
    fn only_what_is_asked_for_and_not_there_is_built() {
        let root = tempfile::tempdir().unwrap();
        let text = "[[peer]]\nname='a'\nlabel='A'\ncrate='a-sys'\n\
                    [[peer]]\nname='b'\nlabel='B'\nwheel='b'\n\
                    [[peer]]\nname='c'\nlabel='C'\ncrate='c-sys'\n\
                    [[peer]]\nname='d'\nlabel='D'\npackage='d'\n";
        let file = parse(text).unwrap();
        let names = ["a", "b", "d", "glibc"].map(str::to_owned);
        assert_eq!(to_build(root.path(), &file, &names), ["a", "b"]);

        let (note, entry) = note_and_entry(root.path(), &file.common, &file.peers[0]);
        std::fs::create_dir_all(note.parent().unwrap()).unwrap();
        let built = Built {
            name: "a".into(),
            version: String::new(),
            library: note.clone(),
            origin: String::new(),
            compiler: String::new(),
            flags: String::new(),
            entry,
        };
        std::fs::write(&note, serde_json::to_string(&built).unwrap()).unwrap();
        assert_eq!(to_build(root.path(), &file, &names), ["b"]);
    }

    #[test]
    fn an_entry_needs_exactly_one_source() {
        let error = parse("[[peer]]\nname='a'\nlabel='A'\n").unwrap_err();
        assert!(error.to_string().contains("exactly one"), "{error}");
        assert!(parse("[[peer]]\nname='a'\nlabel='A'\npath='x.so'\nwheel='y'\n").is_err());
        assert!(
            parse("[[peer]]\nname='a'\nlabel='A'\npath='x.so'\nfoo=1\n").is_err(),
            "unknown keys are mistakes"
        );
        assert!(
            parse("[stand_in]\na='b'\n[[peer]]\nname='a'\nlabel='A'\npath='x.so'\n").is_err(),
            "a stand-in is a peer as well"
        );
    }
}
