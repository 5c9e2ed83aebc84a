//! The input: an index of files, written as Redis commands, and the same bytes on every machine.
//!
//! The files are made up. How long their names and texts are, and how many are in a directory, is as it was measured
//! over 60,000 files of a Debian system's /usr. One seeded generator decides all of it.

use super::random::Random;

/// As many clients at once as a small service has workers.
pub const CONNECTIONS: usize = 8;
/// How often, on average, a record is touched after it was made.
const TOUCHES: usize = 12;
/// No more than this of a file's text becomes a part of its record.
const TEXT: usize = 2_000;
/// Text lengths at 0, 10, ... 100 % of the files: two in five have the most that is kept.
const TEXT_DECILES: [usize; 11] = [0, 347, 585, 858, 1115, 1416, 1834, TEXT, TEXT, TEXT, TEXT];
/// One directory in sixteen files, as there.
const FILES_OF_A_DIRECTORY: usize = 16;
const QUEUES: usize = 256;
const KINDS: [&str; 12] = [
    "h", "py", "so", "png", "gz", "html", "mo", "txt", "hpp", "js", "md", "conf",
];
const SYLLABLES: [&str; 16] = [
    "ar", "ben", "co", "dul", "es", "fin", "gra", "hol", "in", "jor", "ket", "lib", "mo", "nas",
    "pro", "tal",
];

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

/// What the connections send: first the records, then a long time of changes.
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
            "an index of {} made-up files, {} commands over {CONNECTIONS} connections",
            super::table::thousands(self.files),
            super::table::thousands(commands)
        )
    }
}

struct Record {
    path: String,
    size: u64,
    modified: u64,
    text: Vec<u8>,
}

/// Deletes the queues. Changes that are sent again and again would otherwise fill some of them a little more each time.
pub fn delete_queues() -> Stream {
    let mut stream = Stream::default();
    for number in 0..QUEUES {
        stream.push(&[b"DEL", format!("queue:{number}").as_bytes()]);
    }
    stream
}

/// Makes up `files` files and turns them into commands.
pub fn make(files: usize) -> Script {
    let records = make_records(files);
    let mut fill: Vec<Stream> = (0..CONNECTIONS).map(|_| Stream::default()).collect();
    for (i, record) in records.iter().enumerate() {
        add_record(&mut fill[i % CONNECTIONS], record);
    }
    let changes = records.len() * TOUCHES / CONNECTIONS;
    let mut churn: Vec<Stream> = (0..CONNECTIONS).map(|_| Stream::default()).collect();
    for (i, stream) in churn.iter_mut().enumerate() {
        change_records(stream, &records, changes, i);
    }
    let input_bytes = fill.iter().map(|stream| stream.bytes.len()).sum();
    Script {
        fill,
        churn,
        files: records.len(),
        input_bytes,
    }
}

fn make_records(files: usize) -> Vec<Record> {
    let mut random = Random::new(1_000);
    let directories: Vec<String> = (0..files.div_ceil(FILES_OF_A_DIRECTORY))
        .map(|number| make_directory(number, &mut random))
        .collect();
    (0..files)
        .map(|number| make_record(number, &directories, &mut random))
        .collect()
}

fn make_directory(number: usize, random: &mut Random) -> String {
    let mut path = String::from("/usr/share");
    for _ in 0..1 + random.below(4) {
        path.push('/');
        path.push_str(&make_word(random));
    }
    format!("{path}{number}")
}

/// The smaller of two draws: some directories have many files, most have few.
fn make_record(number: usize, directories: &[String], random: &mut Random) -> Record {
    let directory = random
        .below(directories.len())
        .min(random.below(directories.len()));
    let kind = KINDS[random.below(KINDS.len())];
    let path = format!(
        "{}/{}{number}.{kind}",
        directories[directory],
        make_word(random)
    );
    let place = random.below(1_000);
    let (low, high) = (TEXT_DECILES[place / 100], TEXT_DECILES[place / 100 + 1]);
    let length = low + (high - low) * (place % 100) / 100;
    Record {
        path,
        size: (length * (1 + random.below(200))) as u64,
        modified: 1_600_000_000 + random.below(200_000_000) as u64,
        text: (0..length).map(|_| b' ' + random.below(95) as u8).collect(),
    }
}

fn make_word(random: &mut Random) -> String {
    (0..2 + random.below(4))
        .map(|_| SYLLABLES[random.below(SYLLABLES.len())])
        .collect()
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
    let mut random = Random::new(seed as u64);
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
                format!("queue:{}", cut % QUEUES).as_bytes(),
                record.path.as_bytes(),
            ]),
            _ => stream.push(&[b"LPOP", format!("queue:{}", cut % QUEUES).as_bytes()]),
        }
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
    fn every_machine_gets_the_same_bytes() {
        let script = make(400);
        assert_eq!(script.files, 400);
        let sum = |streams: &[Stream]| {
            streams
                .iter()
                .flat_map(|stream| &stream.bytes)
                .fold(0_u64, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
                })
        };
        assert_eq!(
            (sum(&script.fill), sum(&script.churn)),
            (14_406_763_951_746_359_924, 18_406_398_255_635_458_753)
        );
    }

    #[test]
    fn the_files_are_like_those_that_were_measured() {
        let records = make_records(20_000);
        let mean = |of: fn(&Record) -> usize| {
            records.iter().map(of).sum::<usize>() as f64 / records.len() as f64
        };
        let path = mean(|record| record.path.len());
        let text = mean(|record| record.text.len());
        assert!((45.0..65.0).contains(&path), "{path}");
        assert!((1200.0..1400.0).contains(&text), "{text}");
    }
}
