//! A snapshot in one file, which needs nothing else: the profile file without its holes, the names of its addresses,
//! and what `/proc` said about the process. It can be read on another machine, years later.
//!
//! ```text
//! "FREESNAP"  format: u32  reserved: u32  gzip( { name_length: u32  name  data_length: u64  data }… )
//! ```
//!
//! Parts are `page` (the bytes of a profile file), and as JSON `reading`, `warnings`, `symbols`, `process`. Older files have
//! no `heaps` and no `absent`. Unknown parts are skipped; gzip's own check sum covers all of them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::SavedError;
use crate::output_file;
use crate::profile::Profile;
use crate::snapshot::Snapshot;

const MAGIC: &[u8; 8] = b"FREESNAP";
const FORMAT: u32 = 1;
/// No part of a snapshot is bigger; what a damaged file claims is not believed beyond it.
const MOST_PART: u64 = 4 << 30;

/// The file begins like a saved snapshot.
pub fn is_saved(path: &Path) -> Result<bool, SavedError> {
    let failed = |reason| SavedError::Io {
        path: path.to_owned(),
        reason,
    };
    let mut magic = [0; 8];
    let mut file = File::open(path).map_err(failed)?;
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(&magic == MAGIC),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Writes the snapshot. Names and facts go in as far as `snapshot` has them: [`Snapshot::complete`] fetches them.
pub fn save(snapshot: &Snapshot, path: &Path) -> Result<(), SavedError> {
    output_file::replace(path, |file| write(snapshot, file)).map_err(|reason| {
        SavedError::Unwritten {
            path: path.to_owned(),
            reason,
        }
    })
}

fn write(snapshot: &Snapshot, mut file: &File) -> io::Result<()> {
    file.write_all(MAGIC)?;
    file.write_all(&FORMAT.to_le_bytes())?;
    file.write_all(&0u32.to_le_bytes())?;
    let mut packed = GzEncoder::new(file, Compression::default());
    part(&mut packed, "page", &snapshot.profile.to_bytes())?;
    json(&mut packed, "reading", &snapshot.reading)?;
    json(&mut packed, "warnings", &snapshot.warnings)?;
    json(&mut packed, "symbols", &snapshot.symbols)?;
    json(&mut packed, "process", &snapshot.process)?;
    json(&mut packed, "heaps", &snapshot.heaps)?;
    json(&mut packed, "absent", &snapshot.profile.absent)?;
    packed.finish()?;
    match file.sync_all() {
        // A pipe or a device cannot be synchronised, and needs not.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

fn part(into: &mut impl Write, name: &str, data: &[u8]) -> io::Result<()> {
    into.write_all(&(name.len() as u32).to_le_bytes())?;
    into.write_all(name.as_bytes())?;
    into.write_all(&(data.len() as u64).to_le_bytes())?;
    into.write_all(data)
}

fn json(into: &mut impl Write, name: &str, value: &impl Serialize) -> io::Result<()> {
    part(into, name, &serde_json::to_vec(value)?)
}

/// Reads what [`save`] wrote.
pub fn load(path: &Path) -> Result<Snapshot, SavedError> {
    let failed = |reason| SavedError::Io {
        path: path.to_owned(),
        reason,
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut head = [0; 16];
    match file.read_exact(&mut head) {
        Ok(()) if &head[..8] == MAGIC => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(error)),
        _ => return Err(SavedError::NotASnapshot(path.to_owned())),
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version > FORMAT {
        return Err(SavedError::Newer {
            path: path.to_owned(),
            version,
            known: FORMAT,
        });
    }
    let parts = Parts::read(GzDecoder::new(file)).map_err(|what| SavedError::Damaged {
        path: path.to_owned(),
        what,
    })?;
    parts.snapshot(path)
}

/// The parts of a file, unpacked.
#[derive(Default)]
struct Parts {
    profile: Option<Vec<u8>>,
    reading: Option<Vec<u8>>,
    warnings: Option<Vec<u8>>,
    symbols: Option<Vec<u8>>,
    process: Option<Vec<u8>>,
    heaps: Option<Vec<u8>>,
    absent: Option<Vec<u8>>,
}

impl Parts {
    fn read(mut from: impl Read) -> Result<Parts, String> {
        let mut parts = Parts::default();
        while let Some((name, data)) = next_part(&mut from)? {
            match name.as_str() {
                "page" => parts.profile = Some(data),
                "reading" => parts.reading = Some(data),
                "warnings" => parts.warnings = Some(data),
                "symbols" => parts.symbols = Some(data),
                "process" => parts.process = Some(data),
                "heaps" => parts.heaps = Some(data),
                "absent" => parts.absent = Some(data),
                _ => {}
            }
        }
        Ok(parts)
    }

    fn snapshot(self, path: &Path) -> Result<Snapshot, SavedError> {
        let damaged = |what: String| SavedError::Damaged {
            path: path.to_owned(),
            what,
        };
        let profile = self
            .profile
            .ok_or_else(|| damaged("it has no profile file in it".to_owned()))?;
        let reading = decode(self.reading, "reading").map_err(damaged)?;
        let warnings = decode(self.warnings, "warnings").map_err(damaged)?;
        let symbols = decode(self.symbols, "symbols").map_err(damaged)?;
        let process = decode(self.process, "process").map_err(damaged)?;
        let heaps = decode_if_there(self.heaps, "heaps").map_err(damaged)?;
        let absent = decode_if_there(self.absent, "absent").map_err(damaged)?;
        // The warnings of the reading are saved: what comes up again is not said twice.
        let mut again = Vec::new();
        let profile =
            Profile::read(&profile, &mut again).map_err(|reason| SavedError::Profile {
                path: path.to_owned(),
                reason,
            })?;
        let mut snapshot = Snapshot::of_profile(profile, reading, again);
        let new = std::mem::replace(&mut snapshot.warnings, warnings);
        for warning in new {
            if !snapshot.warnings.contains(&warning) {
                snapshot.warnings.push(warning);
            }
        }
        snapshot.symbols = symbols;
        snapshot.process = process;
        snapshot.heaps = heaps;
        snapshot.profile.absent = absent;
        Ok(snapshot)
    }
}

fn decode<T: DeserializeOwned>(part: Option<Vec<u8>>, name: &str) -> Result<T, String> {
    let bytes = part.ok_or_else(|| format!("it has no {name} in it"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("its {name} cannot be read: {error}"))
}

/// A part that older files do not have.
fn decode_if_there<T: DeserializeOwned>(
    part: Option<Vec<u8>>,
    name: &str,
) -> Result<Option<T>, String> {
    part.map_or(Ok(None), |part| decode(Some(part), name))
}

/// The next part; none at the end.
fn next_part(from: &mut impl Read) -> Result<Option<(String, Vec<u8>)>, String> {
    let broken = |error: io::Error| format!("it ends early or was changed ({error})");
    let mut word = [0; 4];
    if from.read(&mut word[..1]).map_err(broken)? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut word[1..]).map_err(broken)?;
    let name = take(from, u64::from(u32::from_le_bytes(word)).min(4096))?;
    let mut long = [0; 8];
    from.read_exact(&mut long).map_err(broken)?;
    let length = u64::from_le_bytes(long);
    if length > MOST_PART {
        return Err(format!("it claims a part of {length} bytes"));
    }
    let data = take(from, length)?;
    Ok(Some((String::from_utf8_lossy(&name).into_owned(), data)))
}

/// Exactly so many bytes. Memory grows with what is there, not with what is claimed.
fn take(from: &mut impl Read, length: u64) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    from.by_ref()
        .take(length)
        .read_to_end(&mut data)
        .map_err(|error| format!("it ends early or was changed ({error})"))?;
    if data.len() as u64 != length {
        return Err("it ends early".to_owned());
    }
    Ok(data)
}
