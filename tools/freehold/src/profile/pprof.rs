//! A profile in pprof's form (`profile.proto`, gzipped), which `go tool pprof` and many web pages read.
//!
//! Names are in it already, so it can be looked at anywhere; mappings have their build-ids, so that a server which
//! keeps symbols can check what it has.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use profile_file::{Snapshot, Symbols, View, blame};
use prost::Message;

/// The values of each sample, in pprof's own names for a heap's.
const TYPES: [(&str, &str, View); 4] = [
    ("alloc_objects", "count", View::Allocated),
    ("alloc_space", "bytes", View::Allocated),
    ("inuse_objects", "count", View::Live),
    ("inuse_space", "bytes", View::Live),
];

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// Each text once; number 0 is the empty one.
struct Texts {
    table: Vec<String>,
    places: HashMap<String, i64>,
}

impl Texts {
    fn new() -> Texts {
        Texts {
            table: vec![String::new()],
            places: HashMap::from([(String::new(), 0)]),
        }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// What is under construction.
struct Builder<'a> {
    snapshot: &'a Snapshot,
    symbols: Symbols,
    texts: Texts,
    profile: Profile,
    locations: HashMap<u64, u64>,
    functions: HashMap<(i64, i64), u64>,
}

/// The profile of a snapshot.
pub fn profile(snapshot: &Snapshot) -> Profile {
    let mut builder = Builder {
        snapshot,
        symbols: Symbols::new(snapshot),
        texts: Texts::new(),
        profile: Profile::default(),
        locations: HashMap::new(),
        functions: HashMap::new(),
    };
    builder.head();
    builder.mappings();
    builder.samples();
    builder.profile.string_table = builder.texts.table;
    builder.profile
}

/// The profile, packed as files have it.
pub fn write(snapshot: &Snapshot, to: impl Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(to, Compression::default());
    packed.write_all(&profile(snapshot).encode_to_vec())?;
    packed.finish()?.flush()
}

impl Builder<'_> {
    fn head(&mut self) {
        for (name, unit, _) in TYPES {
            let value = ValueType {
                r#type: self.texts.number(name),
                unit: self.texts.number(unit),
            };
            self.profile.sample_type.push(value);
        }
        self.profile.default_sample_type = self.texts.number("inuse_space");
        self.profile.period_type = Some(ValueType {
            r#type: self.texts.number("space"),
            unit: self.texts.number("bytes"),
        });
        self.profile.period = self.snapshot.interval() as i64;
        self.profile.time_nanos = self.snapshot.reading.unix_ns as i64;
        self.profile.duration_nanos = self.snapshot.running_ns() as i64;
        for warning in &self.snapshot.warnings {
            let number = self.texts.number(&warning.text);
            self.profile.comment.push(number);
        }
    }

    /// Modules, numbered from 1 in their order; names of functions are filled in already.
    fn mappings(&mut self) {
        for (place, module) in self.snapshot.modules.iter().enumerate() {
            let mapping = Mapping {
                id: place as u64 + 1,
                memory_start: module.begin,
                memory_limit: module.end,
                file_offset: module.begin.wrapping_sub(module.bias),
                filename: self.texts.number(&module.path),
                build_id: self.texts.number(&module.build_id_hex()),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            };
            self.profile.mapping.push(mapping);
        }
    }

    fn samples(&mut self) {
        let snapshot = self.snapshot;
        for site in &snapshot.sites {
            let value = TYPES.map(|(_, unit, view)| {
                let amount = site.amount(view);
                (if unit == "bytes" {
                    amount.bytes
                } else {
                    amount.blocks
                })
                .round() as i64
            });
            if value == [0; TYPES.len()] {
                continue;
            }
            let stack = snapshot.stack(site.node);
            let mut location_id = Vec::with_capacity(stack.addresses.len());
            for &address in &stack.addresses {
                // The allocator's own functions are at the inner end; no reader asks about them.
                let inner = location_id.is_empty();
                if !(inner && self.symbols.frames(address).iter().all(blame::is_allocator)) {
                    location_id.push(self.location(address));
                }
            }
            self.profile.sample.push(Sample {
                location_id,
                value: value.to_vec(),
            });
        }
    }

    /// The number of an address.
    fn location(&mut self, address: u64) -> u64 {
        if let Some(known) = self.locations.get(&address) {
            return *known;
        }
        let frames = self.symbols.frames(address);
        let line = frames
            .iter()
            .map(|frame| Line {
                function_id: self.function(&frame.function, frame.file.as_deref().unwrap_or("")),
                line: frame.line.map_or(0, i64::from),
            })
            .collect();
        // Of the call, not of what follows it.
        let call = address.saturating_sub(1);
        let module = self
            .snapshot
            .modules
            .iter()
            .position(|module| module.contains(call));
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id,
            mapping_id: module.map_or(0, |place| place as u64 + 1),
            address: call,
            line,
        });
        self.locations.insert(address, id);
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.texts.number(name), self.texts.number(file));
        if let Some(known) = self.functions.get(&(name, filename)) {
            return *known;
        }
        let id = self.profile.function.len() as u64 + 1;
        self.profile.function.push(Function {
            id,
            name,
            system_name: name,
            filename,
        });
        self.functions.insert((name, filename), id);
        id
    }
}
