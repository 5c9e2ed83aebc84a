//! The input: an index of the machine's own files, written as Redis commands.
//!
//! Sizes of names, of directories and of the texts inside are whatever they are on a real machine. The order
//! in which records are replaced comes from a seeded generator, so that each run gets the same bytes.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// As many clients at once as a small service has workers.
pub const CONNECTIONS: usize = 8;
/// No more than this of a file's text becomes a part of its record.
const TEXT: u64 = 2_000;
/// How many changes follow at least, so that a machine with few files works as long as one with many.
const CHANGES: usize = 720_000;
/// How often, on average, a record is touched after it was made, at least.
const TOUCHES: usize = 12;

/// Commands in Redis's wire format, sent without waiting for each reply.
#[derive(Default)]
pub struct Stream {
    pub bytes: Vec<u8>,
    pub commands: usize,
}

impl Stream {
    fn push(&mut self, words: &[&[u8]]) {
        self.bytes
            .extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.bytes
                .extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.commands += 1;
    }
}

/// What the connections send: first the records, then a long while of changes.
pub struct Script {
    pub fill: Vec<Stream>,
    pub churn: Vec<Stream>,
    pub files: usize,
    pub input_bytes: usize,
}

impl Script {
    pub fn describe(&self) -> String {
        let commands: usize = self
            .fill
            .iter()
            .chain(&self.churn)
            .map(|stream| stream.commands)
            .sum();
        format!(
            "{} files indexed, {} commands over {CONNECTIONS} connections",
            crate::demo::table::thousands(self.files),
            crate::demo::table::thousands(commands)
        )
    }
}

struct Record {
    path: String,
    size: u64,
    modified: i64,
    text: Vec<u8>,
}

/// Reads up to `limit` files below `directory` and turns them into commands.
pub fn from_folder(directory: &Path, limit: usize) -> Result<Script> {
    let records = read_records(directory, limit)?;
    if records.is_empty() {
        bail!("{} holds no files that can be read", directory.display());
    }
    let mut fill: Vec<Stream> = (0..CONNECTIONS).map(|_| Stream::default()).collect();
    for (i, record) in records.iter().enumerate() {
        add_record(&mut fill[i % CONNECTIONS], record);
    }
    let changes = CHANGES.max(records.len() * TOUCHES) / CONNECTIONS;
    let mut churn: Vec<Stream> = (0..CONNECTIONS).map(|_| Stream::default()).collect();
    for (i, stream) in churn.iter_mut().enumerate() {
        change_records(stream, &records, changes, i);
    }
    let input_bytes = fill.iter().map(|stream| stream.bytes.len()).sum();
    Ok(Script {
        fill,
        churn,
        files: records.len(),
        input_bytes,
    })
}

/// Walks in the order of names, so that the same machine gives the same input each time.
fn read_records(directory: &Path, limit: usize) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        // A directory that may not be read is simply not a part of the input.
        let Ok(entries) = fs::read_dir(&next) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                directories.push(path);
            } else if metadata.is_file() {
                records.extend(read_record(&path, &metadata));
            }
            if records.len() == limit {
                return Ok(records);
            }
        }
    }
    fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    Ok(records)
}

fn read_record(path: &Path, metadata: &Metadata) -> Option<Record> {
    let mut text = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(TEXT)
        .read_to_end(&mut text)
        .ok()?;
    Some(Record {
        path: path.to_str()?.to_owned(),
        size: metadata.len(),
        modified: metadata.mtime(),
        text,
    })
}

/// A file becomes a hash, a member of its directory's set, and an entry in the ranking of its kind.
fn add_record(stream: &mut Stream, record: &Record) {
    let (directory, name) = record.path.rsplit_once('/').unwrap_or(("", &record.path));
    let kind = name.rsplit_once('.').map_or("none", |(_, kind)| kind);
    let key = format!("file:{}", record.path);
    let (size, modified) = (record.size.to_string(), record.modified.to_string());
    stream.push(&[
        b"HSET",
        key.as_bytes(),
        b"name",
        name.as_bytes(),
        b"size",
        size.as_bytes(),
        b"modified",
        modified.as_bytes(),
        b"text",
        &record.text,
    ]);
    stream.push(&[
        b"SADD",
        format!("folder:{directory}").as_bytes(),
        name.as_bytes(),
    ]);
    stream.push(&[
        b"ZADD",
        format!("kind:{kind}").as_bytes(),
        size.as_bytes(),
        record.path.as_bytes(),
    ]);
}

/// What a service does all day: reads, cached pages of changing size, growing logs, queues, deletions.
fn change_records(stream: &mut Stream, records: &[Record], changes: usize, seed: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1));
    for _ in 0..changes {
        let record = &records[random.below(records.len())];
        let other = &records[random.below(records.len())];
        let cut = if other.text.is_empty() {
            0
        } else {
            random.below(other.text.len())
        };
        let file = format!("file:{}", record.path);
        let page = format!("page:{}", record.path);
        match random.below(8) {
            0 | 1 => stream.push(&[b"SET", page.as_bytes(), &other.text[..cut]]),
            2 => stream.push(&[b"GET", page.as_bytes()]),
            3 => stream.push(&[b"HSET", file.as_bytes(), b"text", &other.text[..cut]]),
            4 => stream.push(&[b"DEL", page.as_bytes()]),
            5 => stream.push(&[b"APPEND", page.as_bytes(), &other.text[..cut.min(64)]]),
            6 => stream.push(&[
                b"RPUSH",
                format!("queue:{}", cut % 256).as_bytes(),
                record.path.as_bytes(),
            ]),
            _ => stream.push(&[b"LPOP", format!("queue:{}", cut % 256).as_bytes()]),
        }
    }
}

/// Marsaglia's xorshift with 64 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_wire_format() {
        let mut stream = Stream::default();
        stream.push(&[b"SET", b"key", b"\r\n"]);
        assert_eq!(
            stream.bytes,
            b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n\r\n\r\n"
        );
        assert_eq!(stream.commands, 1);
    }

    #[test]
    fn the_same_folder_gives_the_same_script() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..40 {
            fs::write(dir.path().join(format!("f{i}.txt")), vec![b'x'; i * 10]).unwrap();
        }
        let first = from_folder(dir.path(), 30).unwrap();
        let second = from_folder(dir.path(), 30).unwrap();
        assert_eq!(first.files, 30);
        assert_eq!(
            first
                .fill
                .iter()
                .map(|stream| stream.commands)
                .sum::<usize>(),
            90
        );
        for (a, b) in first.churn.iter().zip(&second.churn) {
            assert!(a.commands > 0);
            assert_eq!(a.bytes, b.bytes);
        }
    }

    #[test]
    fn an_empty_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(from_folder(dir.path(), 10).is_err());
        assert!(from_folder(&dir.path().join("gone"), 10).is_err());
    }
}
