//! Profile files with a word that no process can have: no command sums it up, and each says which file is damaged. A number
//! that is too large all the same would end the command.

mod observed;

use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Output};

use object::{Object, ObjectSection};
use observed::*;
use profile_file::Profile;
use profile_file::layout::{BODY_OFFSET, Header, Row, SCAN_DONE, SectionKind, Statistics};
use profile_file::testing::{ProfileBuilder, skip};
use serde_json::Value;

/// Twice the addresses that a process has: two sums of what it may have are below it.
const MOST: f64 = (1u64 << 49) as f64;
/// `diff` compares a sound file with the damaged one.
const QUESTIONS: [&[&str]; 7] = [
    &["metrics"],
    &["explain"],
    &["profile"],
    &["leaks"],
    &["top", "--once"],
    &["diff", "sound"],
    &["report", "--json"],
];

fn ask(question: &[&str], directory: &Path) -> Output {
    let asked = Command::new(command())
        .current_dir(directory)
        .args(question)
        .arg("file")
        .env_remove("LD_PRELOAD")
        .env_remove("FREEHOLD")
        .output();
    asked.unwrap()
}

fn all_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// The figures of an answer that are more than any process has. What a note quotes of the file is no figure.
fn absurd(output: &Output) -> Vec<String> {
    if let Ok(page) = serde_json::from_slice::<Value>(&output.stdout) {
        let mut found = Vec::new();
        walk(&page, &mut found);
        return found;
    }
    // Limits, and sums since the beginning, may be of any size.
    let is_figure = |line: &&str| {
        let others = ["note", "limit_", "_total"];
        let line = line.to_lowercase();
        !others.iter().any(|other| line.contains(other))
    };
    let large = |word: &str| word.parse().is_ok_and(|number: f64| number.abs() > MOST);
    let is_absurd = |line: &&str| {
        ["EiB", "PiB"].iter().any(|unit| line.contains(unit))
            || line.replace(',', "").split_whitespace().any(large)
    };
    let said = all_of(output);
    let lines = said.lines().filter(is_figure).filter(is_absurd);
    lines.map(str::to_owned).collect()
}

fn walk(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|it| it.abs() > MOST) => {
            found.push(number.to_string());
        }
        Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
        Value::Object(values) => values.values().for_each(|value| walk(value, found)),
        _ => {}
    }
}

/// Asks everything about the file. True: the file is said to be damaged, or is refused.
fn is_named(directory: &Path, what: &str) -> bool {
    let told = |question: &&[&str]| {
        let output = ask(question, directory);
        let said = all_of(&output);
        let code = output.status.code();
        assert!(
            code.is_some_and(|code| code <= 2),
            "{what}: {question:?} ended with {code:?}: {said}"
        );
        assert_eq!(absurd(&output), [""; 0], "{what}: {question:?}");
        let refused = code == Some(2) && said.contains("file: ");
        refused || said.contains("file is damaged")
    };
    let told: Vec<bool> = QUESTIONS.iter().map(told).collect();
    assert!(
        told.iter().all(|it| *it == told[0]),
        "{what}: only some say that the file is damaged: {told:?}"
    );
    told[0]
}

/// A program with some of everything, whose modules nobody looks up.
fn sound() -> ProfileBuilder {
    const MS: u64 = 1_000_000;
    let mut made = ProfileBuilder::new(4096);
    let heap = made.heap_name("cache", 0);
    let sites = [made.site(&[0x1000]), made.site_in(&[0x2000], heap)];
    for number in 0..40 {
        let block = made.allocate(sites[number as usize % 2], 4096, number * 100 * MS);
        if number % 4 == 0 {
            made.free(block, 5 * MS);
        }
        made.point(number * 100 * MS, 8 << 20, 4 << 20);
    }
    made.statistics(|statistics| {
        statistics.rows = 3;
        statistics.live_bytes = 1 << 20;
        statistics.resident_bytes = 8 << 20;
        for (row, size) in [(1, 64), (2, 4096)] {
            statistics.row[row].size = size;
            statistics.row[row].slabs = 4;
            statistics.row[row].room = 64;
            statistics.row[row].made = 64;
            statistics.row[row].free = 16;
            statistics.row[row].live = 48;
        }
    });
    made
}

/// What cannot be, each by itself.
type Change = fn(&mut Profile, u64);

const CHANGES: [(&str, Change); 23] = [
    ("memory of the file", |p, n| p.header.metadata_bytes = n),
    ("entries without room", |p, n| {
        p.header.section[SectionKind::Sites as usize].dropped = n;
    }),
    ("interval", |p, n| p.control.interval = n),
    ("samples taken", |p, n| p.control.taken = n),
    ("samples lost", |p, n| p.control.lost_samples = n),
    ("stacks lost", |p, n| p.control.lost_stacks = n),
    ("peak", |p, n| p.control.peak_bytes = n),
    ("peaks", |p, n| p.control.peak_number = n),
    ("live", |p, n| statistics(p).live_bytes = n),
    ("metadata", |p, n| statistics(p).metadata_bytes = n),
    ("observer", |p, n| statistics(p).observer_bytes = n),
    ("guarded", |p, n| statistics(p).guarded_bytes = n),
    ("absent", |p, n| {
        statistics(p).measured = 1;
        statistics(p).absent_held_bytes = n;
        statistics(p).absent_cached_bytes = n;
    }),
    ("row, size", |p, n| statistics(p).row[2].size = n),
    ("row, live", |p, n| statistics(p).row[2].live = n),
    ("row, free", |p, n| statistics(p).row[2].free = n),
    ("row, slabs", |p, n| statistics(p).row[1].slabs = n),
    ("site, allocated", |p, n| p.sites[1].allocated_bytes = n),
    ("site, blocks", |p, n| p.sites[1].freed_blocks = n),
    ("site, freed", |p, n| p.sites[2].freed_at_age[3] = n),
    ("sample", |p, n| p.samples[3].size = n),
    ("timeline", |p, n| {
        p.timeline[5].live_bytes = n;
        p.timeline[5].huge_bytes = n;
    }),
    ("scan", |p, n| {
        p.scan.number = 1;
        p.scan.state = SCAN_DONE;
        p.scan.unreachable_bytes = n;
    }),
];

fn statistics(profile: &mut Profile) -> &mut Statistics {
    profile.statistics.as_mut().unwrap()
}

/// With a right check: what a library has written that went wrong itself, and files from before there were checks.
#[test]
fn what_no_process_can_have_is_in_no_sum_and_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    write("sound", &sound().bytes());
    write("file", &sound().bytes());
    assert!(!is_named(directory.path(), "a sound file"));
    for (what, change) in CHANGES {
        for number in [u64::MAX, 1 << 63, (1 << 61) + 12_345] {
            let mut made = sound();
            made.change(|profile| change(profile, number));
            write("file", &made.bytes());
            let what = format!("{what}: {number}");
            assert!(is_named(directory.path(), &what), "{what}: not a word");
        }
    }
}

/// It lives for more than a second, so that no rate is more than the sum.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    static void *kept[4000];
    for (int i = 0; i < 200000; i++) {
        free(kept[i % 4000]);
        kept[i % 4000] = malloc(100 + i * 37 % 5000);
        memset(kept[i % 4000], 1, 100);
    }
    usleep(1100000);
    return 0;
}
";

/// The profile file of a real program, without its modules: to look names up takes the most time.
fn observed_file(directory: &Path) -> Vec<u8> {
    let program = compile(directory, "holder", PROGRAM, &[]);
    let run = Observed::start(&["--sample", "64K"], &[program.to_str().unwrap()]);
    let (code, said, profiles) = run.end();
    assert_eq!(code, 0, "{said}");
    let mut files = fs::read_dir(profiles.path()).unwrap().flatten();
    let is_profile = |name: &str| name.starts_with("freehold-") && !name.contains('.');
    let file = files.find(|file| is_profile(&file.file_name().to_string_lossy()));
    let read = &fs::File::open(file.expect("a profile file").path()).unwrap();
    let mut profile = Profile::read(read, &mut Vec::new()).unwrap();
    profile.modules.clear();
    profile.to_bytes()
}

#[test]
fn any_word_of_a_real_file_may_be_hurt() {
    let directory = tempfile::tempdir().unwrap();
    let sound = observed_file(directory.path());
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    write("sound", &sound);
    write("file", &sound);
    assert!(!is_named(directory.path(), "a sound file"));
    // The time of reading is on the page.
    let quiet = &QUESTIONS[..QUESTIONS.len() - 1];
    let answers = || quiet.iter().map(|it| all_of(&ask(it, directory.path())));
    let expected: Vec<String> = answers().collect();
    // The number of a process may be any, and is said to be wrong. So may a limit that was set, of which there is no check.
    let statistics = BODY_OFFSET as usize;
    let any = [
        offset_of!(Header, pid),
        statistics + offset_of!(Statistics, deferred_most),
    ];
    let is_used = |at: &usize| sound[*at..*at + 8] != [0; 8] && !any.contains(at);
    let words: Vec<usize> = (0..sound.len() - 7).step_by(8).filter(is_used).collect();
    let (front, back) = words.split_at(words.partition_point(|at| *at < 8192));
    let given = std::env::var("FREEHOLD_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let (mut random, mut named) = (given.unwrap_or(0x5EED_u64), 0);
    let mut below = |end: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (random >> 33) as usize % end
    };
    // What was found by chance once: a program that began at the end of time, statistics that are being written for ever, and a
    // class whose blocks are as long as all that a process may address.
    let size_of_a_row =
        statistics + offset_of!(Statistics, row) + 29 * size_of::<Row>() + offset_of!(Row, size);
    assert!(is_used(&size_of_a_row));
    let known = [
        (offset_of!(Header, begun_unix_ns), u64::MAX),
        (statistics + offset_of!(Statistics, sequence), u64::MAX / 2),
        (size_of_a_row, (1 << 48) - 1),
    ];
    let by_chance = (0..48).map(|number| {
        let part = if number % 3 == 0 { front } else { back };
        let at = part[below(part.len())];
        let word = [
            u64::MAX,
            u64::MAX / 2,
            1 << 63,
            (1 << 62) + 777,
            1 << 50,
            (1 << 48) - 1,
        ][below(6)];
        (at, word)
    });
    for (at, word) in known.into_iter().chain(by_chance) {
        let mut hurt = sound.clone();
        hurt[at..at + 8].copy_from_slice(&word.to_le_bytes());
        write("file", &hurt);
        let what = format!("word {at} is {word:#x}");
        if is_named(directory.path(), &what) {
            named += 1;
            continue;
        }
        // Two sums that do not agree have a note, and may be of a program that died between the two.
        let noted = !ask(quiet[0], directory.path()).stderr.is_empty();
        let same = || answers().eq(expected.iter().cloned());
        assert!(noted || same(), "{what}: another answer, and not a word");
    }
    assert!(named > 30, "{named}");
}

/// No input is known that brings the command to a number that does not fit. So this looks at what the compiler made: the
/// messages of such an end are in the command only if it was built with these checks, by `overflow-checks` in `tools/Cargo.toml`.
#[test]
fn a_number_that_does_not_fit_would_end_the_command_that_ships() {
    if std::env::var_os("FREEHOLD_TEST_COMMAND").is_none() {
        return skip("FREEHOLD_TEST_COMMAND does not name the command that ships");
    }
    let program = fs::read(command()).unwrap();
    let file = object::File::parse(&*program).unwrap();
    let constants = file.section_by_name(".rodata").unwrap();
    let constants = constants.data().unwrap();
    let says = |message: &str| {
        let mut places = constants.windows(message.len());
        places.any(|place| place == message.as_bytes())
    };
    // That of a check which no option leaves out: the messages are here.
    assert!(says("index out of bounds"));
    for message in [
        "attempt to add with overflow",
        "attempt to subtract with overflow",
        "attempt to multiply with overflow",
    ] {
        assert!(says(message), "no check says {message:?}");
    }
}
