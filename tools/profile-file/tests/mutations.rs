//! Profile files with something wrong in them, by the ten thousand; `make soak` tries a hundred thousand of each kind.
//!
//! A profile file may have been written by a program that died in the middle, lie on a disk that lost blocks, or be
//! somebody's trap. What is asked of the reader: it ends, it does not panic, it takes no memory that the file does not
//! have; and
//! **no wrong answer goes unannounced**. That means that after a mutation one of these holds:
//!
//! * reading fails, with an error;
//! * the snapshot has a warning that the sound profile file's did not have;
//! * the answer equals the sound profile file's, within what is lost by rounding (see `same`);
//! * the word that was mutated is one of the few that no command prints: those of `Shown`, with the reason of each.

use std::collections::BTreeMap;
use std::mem::offset_of;

use profile_file::layout::{self, SectionKind};
use profile_file::testing::{ProfileBuilder, reading};
use profile_file::{Site, Snapshot, View};

/// A small generator of our own (xorshift64*): the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A profile file with a bit of everything: some stacks, blocks that live and that were freed, at several ages.
fn sound_profile(interval: u64) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut profile = ProfileBuilder::new(interval);
    profile.module("/usr/bin/made-up", 0x40_0000, 0x48_0000);
    profile.module("/usr/lib/libmade.so", 0x7f00_0000_0000, 0x7f00_0008_0000);
    profile.module("/usr/lib/libgone.so", 0x7e00_0000_0000, 0x7e00_0008_0000);
    let mut random = Random(7);
    let stack = |n: u64| [0x40_1000 + n * 64, 0x7f00_0000_2000 + n / 3 * 32, 0x40_0100];
    let cache = profile.heap_name("cache", 0);
    let queries = profile.heap_name("queries", cache);
    let mut sites: Vec<u32> = (0..10).map(|n| profile.site(&stack(n))).collect();
    sites.push(profile.site_in(&stack(10), cache));
    sites.push(profile.site_in(&stack(11), queries));
    let mut living = Vec::new();
    for step in 0..120 {
        let site = sites[random.below(sites.len())];
        living.push(profile.allocate(site, 16 << random.below(12), step * 10 * MS));
        if step % 3 == 0 {
            let block = living.swap_remove(random.below(living.len()));
            profile.free(block, 1000 << (2 * random.below(10)));
        }
    }
    profile.statistics(|statistics| {
        statistics.rows = 2;
        statistics.live_bytes = 4 << 20;
        statistics.resident_bytes = 9 << 20;
        statistics.row[1].size = 16;
        statistics.row[1].slabs = 1;
    });
    profile.change(|profile| {
        profile.header.window_begin = 0x7000_0000_0000;
        profile.header.window_bytes = 1 << 40;
        profile.header.metadata_bytes = 204_800;
        profile.control.mark = 2;
        profile.modules[2].unloaded_ns = profile.header.begun_ns + MS;
        profile.scan.number = 1;
        profile.scan.begun_ns = profile.header.begun_ns + 900 * MS;
        for (number, sample) in profile.samples.iter_mut().enumerate() {
            sample.reached = 2 + u64::from(number % 5 != 0);
        }
        profile.scan.state = layout::SCAN_DONE;
        profile.scan.reachable_bytes = 3 << 20;
        profile.scan.unreachable_bytes = 1 << 20;
        profile.scan.fork_ns = 700_000;
        profile.scan.scan_ns = 40 * MS;
    });
    for n in 1..5 {
        profile.point(n * 100 * MS, n << 20, n << 19);
    }
    profile.bytes()
}

/// For each stack and view bytes, blocks and variance, with the number of samples.
type Sums = BTreeMap<Vec<u64>, (u64, Vec<[f64; 3]>)>;

/// What a profile says: sums, and all else that a command prints, as it is.
#[derive(Debug, PartialEq)]
struct Answer {
    sums: Sums,
    facts: Vec<u8>,
}

fn answer(snapshot: &Snapshot) -> Answer {
    Answer {
        sums: sums(snapshot),
        facts: facts(snapshot),
    }
}

fn facts(snapshot: &Snapshot) -> Vec<u8> {
    let header = &snapshot.profile.header;
    let mut facts = Vec::new();
    let texts = [snapshot.program(), snapshot.options(), snapshot.version()];
    facts.extend(texts.concat().into_bytes());
    facts.push(u8::from(snapshot.ended_by_itself()));
    let numbers = [
        header.pid,
        header.parent_pid,
        header.begun_ns,
        header.begun_unix_ns,
        header.process_start,
        header.inherited,
        u64::from(header.page_size),
        u64::from(header.cpus),
        header.window_begin,
        header.window_bytes,
    ];
    facts.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    if let Some(statistics) = &snapshot.profile.statistics {
        let begin = offset_of!(layout::Statistics, taken_ns);
        let end = offset_of!(layout::Statistics, check);
        facts.extend(&bytemuck::bytes_of(&**statistics)[begin..end]);
    }
    facts.extend(snapshot.rows().iter().flat_map(bytemuck::bytes_of));
    let control = &snapshot.profile.control;
    let asked = [header.metadata_bytes, control.interval, control.mark];
    facts.extend(asked.iter().flat_map(|number| number.to_le_bytes()));
    facts.extend(snapshot.profile.timeline.iter().flat_map(point));
    for sample in &snapshot.samples {
        facts.extend(sample.site.to_le_bytes());
        let judged = sample.reachable.map_or(2, u64::from);
        let numbers = [sample.address, sample.born_ns, sample.age_ns, judged];
        facts.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    facts.extend(snapshot.profile.samples.iter().flat_map(owner));
    facts.extend(snapshot.profile.traces.iter().flat_map(owner));
    for trace in &snapshot.profile.traces {
        let numbers = [
            trace.size,
            trace.drawn_interval(),
            trace.born_ns,
            trace.reached,
        ];
        facts.extend(trace.site.to_le_bytes());
        facts.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    for site in snapshot.profile.sites.iter().skip(1) {
        let place = [u64::from(site.heap), site.first_ns];
        facts.extend(place.iter().flat_map(|number| number.to_le_bytes()));
    }
    for heap in snapshot.profile.heap_names.iter().skip(1) {
        facts.extend(&bytemuck::bytes_of(heap)[..offset_of!(layout::Heap, check)]);
    }
    for module in &snapshot.modules {
        facts.push(u8::from(module.unloaded_ns.is_some()));
        let places = [module.begin, module.end, module.bias];
        facts.extend(places.iter().flat_map(|place| place.to_le_bytes()));
        facts.extend(&module.build_id);
        facts.extend(module.path.as_bytes());
    }
    let scan = &snapshot.profile.scan;
    if scan.state == layout::SCAN_DONE {
        let begin = offset_of!(layout::Scan, root_bytes);
        let end = offset_of!(layout::Scan, searched_so_far);
        facts.extend(&bytemuck::bytes_of(&**scan)[begin..end]);
        facts.extend(scan.fork_ns.to_le_bytes());
        facts.extend(scan.scan_ns.to_le_bytes());
    }
    facts
}

/// What a point of the timeline says.
fn point(point: &layout::Point) -> Vec<u8> {
    bytemuck::bytes_of(point)[..offset_of!(layout::Point, check)].to_vec()
}

/// Whose a sample is, and of which time between marks.
fn owner(sample: &layout::Sample) -> Vec<u8> {
    let (begin, end) = (
        offset_of!(layout::Sample, thread),
        offset_of!(layout::Sample, drawn),
    );
    let mut owner = bytemuck::bytes_of(sample)[begin..end].to_vec();
    owner.extend(sample.drawn_size().to_le_bytes());
    owner
}

fn sums(snapshot: &Snapshot) -> Sums {
    let of = |site: &Site| {
        let view = |view: &View| {
            let amount = site.amount(*view);
            [amount.bytes, amount.blocks, amount.variance]
        };
        (site.allocated.samples, View::ALL.iter().map(view).collect())
    };
    snapshot
        .sites
        .iter()
        .map(|site| (snapshot.stack(site.node).addresses, of(site)))
        .collect()
}

/// The same within a thousandth of what the site allocated, which is less than a tenth of its error bar, and the error
/// bars within a fiftieth; what is rounded for each sample comes on top. Of the peak, a thousandth of the whole peak.
fn same(one: &Answer, two: &Answer, whole: f64) -> bool {
    one.facts == two.facts && same_sums(&one.sums, &two.sums, whole)
}

fn same_sums(one: &Sums, two: &Sums, whole: f64) -> bool {
    let allocated = View::ALL
        .iter()
        .position(|view| *view == View::Allocated)
        .unwrap();
    one.len() == two.len()
        && one
            .iter()
            .zip(two)
            .all(|((stack, (samples, views)), (other, (_, others)))| {
                let rounded = *samples as f64 + 2.0;
                let all = views[allocated];
                let off = [
                    1e-3 * all[0] + rounded,
                    2e-3 * all[1] + rounded / 256.0,
                    0.04 * all[2] + rounded * 65536.0,
                ];
                stack == other
                    && views.iter().zip(others).enumerate().all(|(view, (a, b))| {
                        if View::ALL[view] == View::Peak {
                            return (a[0] - b[0]).abs() <= 1e-3 * whole + 16.0;
                        }
                        (0..3).all(|k| (a[k] - b[k]).abs() <= off[k])
                    })
            })
}

/// Where words are that nothing vouches for. No command prints any of them.
struct Shown {
    ranges: Vec<(usize, usize)>,
}

impl Shown {
    fn of(profile: &[u8]) -> Shown {
        let header: layout::Header =
            bytemuck::pod_read_unaligned(&profile[..size_of::<layout::Header>()]);
        let mut ranges = Vec::new();
        let mut field = |offset: usize, bytes: usize| ranges.push((offset, offset + bytes));
        let control = layout::CONTROL_OFFSET as usize;
        // What commands ask of the library, and which question was the last that it answered: only a command that waits
        // for an answer reads it, and it waits no longer than its patience.
        field(control + offset_of!(layout::Control, wanted_interval), 8);
        field(control + offset_of!(layout::Control, refresh), 24);
        field(control + offset_of!(layout::Control, refreshed), 8);
        // For who works on the library: commands do not read them, and threads change them by themselves.
        field(control + offset_of!(layout::Control, short_stacks), 8);
        field(control + offset_of!(layout::Control, peak_ns), 8);
        // The library needs it. A command takes the last birth of the samples and of what is left of samples.
        let sites = &header.section[SectionKind::Sites as usize];
        for number in 0..sites.used as usize {
            let at = sites.extent[0] as usize + number * size_of::<layout::Site>();
            field(at + offset_of!(layout::Site, last_ns), 8);
        }
        Shown { ranges }
    }

    fn has(&self, offset: usize) -> bool {
        self.ranges
            .iter()
            .any(|(from, to)| (*from..*to).contains(&offset))
    }
}

/// What was done to a profile file.
struct Mutation {
    what: &'static str,
    at: Vec<usize>,
}

/// Words that are more likely to hurt than any other.
const NASTY: [u64; 12] = [
    0,
    1,
    2,
    0xFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 32,
    u64::MAX / 2,
    u64::MAX - 7,
    u64::MAX,
    0x1000_0000,
    4096,
];

fn mutate(profile: &mut Vec<u8>, random: &mut Random) -> Mutation {
    // Half of all strokes hit where the structure is; anywhere else is usually a sum.
    let place = |random: &mut Random, length: usize| match random.below(4) {
        0 => random.below(size_of::<layout::Header>()),
        1 => layout::CONTROL_OFFSET as usize + random.below(size_of::<layout::Control>()),
        _ => random.below(length),
    };
    let length = profile.len();
    match random.below(6) {
        0 | 1 => {
            let at = place(random, length);
            profile[at] ^= 1 << random.below(8);
            Mutation {
                what: "bit",
                at: vec![at],
            }
        }
        2 => {
            let at = place(random, length);
            profile[at] = random.next() as u8;
            Mutation {
                what: "byte",
                at: vec![at],
            }
        }
        3 => {
            let at = place(random, length - 8) & !7;
            let word = NASTY[random.below(NASTY.len())];
            profile[at..at + 8].copy_from_slice(&word.to_le_bytes());
            Mutation {
                what: "word",
                at: vec![at],
            }
        }
        4 => {
            let mut at = Vec::new();
            for _ in 0..2 + random.below(30) {
                let here = place(random, length);
                profile[here] = random.next() as u8;
                at.push(here);
            }
            Mutation {
                what: "many bytes",
                at,
            }
        }
        _ => {
            let end = random.below(length);
            profile.truncate(end);
            Mutation {
                what: "cut",
                at: vec![end],
            }
        }
    }
}

/// The part of the profile file that a byte is in, for messages.
fn where_is(profile: &[u8], at: usize) -> String {
    let header: layout::Header =
        bytemuck::pod_read_unaligned(&profile[..size_of::<layout::Header>()]);
    for kind in SectionKind::ALL {
        let section = &header.section[kind as usize];
        let begin = section.extent[0] as usize;
        let end = begin + section.used as usize * kind.entry_bytes();
        if (begin..end).contains(&at) {
            let (entry, byte) = (
                (at - begin) / kind.entry_bytes(),
                (at - begin) % kind.entry_bytes(),
            );
            return format!("{} {entry}, byte {byte}", kind.name());
        }
    }
    format!("byte {at} of header and control words")
}

fn strike(interval: u64, seed: u64, times: u64) -> (u64, u64, u64) {
    let profile = sound_profile(interval);
    let sound = Snapshot::read(&profile, reading()).unwrap();
    assert_eq!(sound.warnings, []);
    let expected = answer(&sound);
    let whole = sound.total(View::Peak).bytes;
    let shown = Shown::of(&profile);
    let mut random = Random(seed);
    let (mut refused, mut warned, mut harmless) = (0, 0, 0);
    for number in 0..times {
        let mut hurt = profile.clone();
        let mutation = mutate(&mut hurt, &mut random);
        match Snapshot::read(&hurt, reading()) {
            Err(_) => refused += 1,
            Ok(snapshot) if !snapshot.warnings.is_empty() => warned += 1,
            Ok(snapshot) => {
                harmless += 1;
                let told = mutation.at.iter().any(|at| shown.has(*at));
                assert!(
                    told || same(&answer(&snapshot), &expected, whole),
                    "seed {seed}, number {number}, {} at {:?} ({}): another answer, and no warning",
                    mutation.what,
                    mutation.at,
                    where_is(&profile, mutation.at[0])
                );
            }
        }
    }
    (refused, warned, harmless)
}

/// A number from the environment, which the soak makes larger.
fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number in the environment"))
}

/// How many of all strokes were refused, warned about and harmless, in percent: they reach every part of the reader.
fn shares(interval: u64, seed: u64, times: u64) -> [u64; 3] {
    let times = number_from("FREEHOLD_TEST_MUTATIONS").unwrap_or(times);
    let seed = number_from("FREEHOLD_TEST_SEED").unwrap_or(seed);
    let (refused, warned, harmless) = strike(interval, seed, times);
    eprintln!("refused {refused}, warned {warned}, harmless {harmless}");
    [refused, warned, harmless].map(|count| 100 * count / times)
}

#[test]
fn mutations_of_a_sampled_page() {
    let [refused, warned, harmless] = shares(4096, 0x5EED, 10_000);
    assert!(refused >= 2 && warned >= 20 && harmless >= 5);
}

#[test]
fn mutations_of_an_exact_page() {
    let [refused, warned, harmless] = shares(1, 0xFEED, 4_000);
    assert!(refused >= 2 && warned >= 20 && harmless >= 5);
}

#[test]
fn a_page_of_noise_is_refused_or_warned_about() {
    let mut random = Random(99);
    let sound = sound_profile(4096);
    for _ in 0..2_000 {
        let mut noise: Vec<u8> = (0..sound.len()).map(|_| random.next() as u8).collect();
        // With a sound beginning, so that more than the first check is reached.
        noise[..24].copy_from_slice(&sound[..24]);
        if let Ok(snapshot) = Snapshot::read(&noise, reading()) {
            assert!(!snapshot.warnings.is_empty());
        }
    }
}

#[test]
fn a_sparse_file_that_claims_much_costs_little() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("freehold-1");
    let mut profile = sound_profile(4096);
    let at = offset_of!(layout::Header, section)
        + SectionKind::Nodes as usize * size_of::<layout::Section>();
    // Two thousand million nodes, in a file that says it has eight terabytes.
    profile[at + offset_of!(layout::Section, first)..][..4]
        .copy_from_slice(&0x8000_0000u32.to_le_bytes());
    profile[at + offset_of!(layout::Section, used)..][..8]
        .copy_from_slice(&0x8000_0000u64.to_le_bytes());
    std::fs::write(&path, &profile).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 << 40).unwrap();
    let snapshot = Snapshot::read(&std::fs::File::open(&path).unwrap(), reading()).unwrap();
    assert!(
        snapshot
            .warnings
            .iter()
            .any(|warning| warning.text.contains("left out"))
    );
    assert!(snapshot.profile.nodes.len() < 1 << 27);
}

#[test]
fn a_saved_snapshot_that_was_hurt_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("then.fhs");
    let mut sound = Snapshot::read(&sound_profile(4096), reading()).unwrap();
    sound.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let expected = answer(&sound);
    let mut random = Random(5);
    let mut refused = 0;
    for _ in 0..400 {
        let mut hurt = bytes.clone();
        if random.below(4) == 0 {
            hurt.truncate(random.below(bytes.len()));
        } else {
            let at = random.below(bytes.len());
            hurt[at] ^= 1 << random.below(8);
        }
        std::fs::write(&path, &hurt).unwrap();
        match profile_file::saved::load(&path) {
            Err(_) => refused += 1,
            // Bits that mean nothing: the reserved word, the time in gzip's header.
            Ok(snapshot) => assert_eq!(answer(&snapshot), expected),
        }
    }
    assert!(refused > 300, "{refused}");
}
