//! What the screens look like, drawn into memory, and what the keys do.

use profile_file::target::Choice;
use profile_file::testing::ProfileBuilder;
use profile_file::{Snapshot, SymbolTable, Target, layout};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::keys::{Wish, press};
use super::model::{Model, Pane, Sort};
use super::plain::lines;
use super::screen::{Theme, draw};
use super::{pick, plain};
use crate::call_site::tests::frame;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

#[test]
fn what_made_names_missing_is_said() {
    let mut snapshot = server(30);
    let names = snapshot.symbols.as_mut().unwrap();
    names.warnings.push("gone.so is not here".to_owned());
    let model = Model::new(snapshot, "4242".to_owned());
    let text = plain::text(&model, 110, 20).unwrap();
    assert!(text.contains("names missing: see --once"), "{text}");
    assert!(text.contains("note: gone.so is not here"), "{text}");
    assert_eq!(model.notes(), ["gone.so is not here"]);
}

/// A server that leaks sessions and has a full cache, up to this second.
fn server(until: u64) -> Snapshot {
    let mut profile = ProfileBuilder::default();
    let main = 0x900;
    let leak = profile.site(&[0x100, 0x101, main]);
    let cache = profile.site(&[0x200, main]);
    let noise = profile.site(&[0x400, 0x101, main]);
    for second in 0..until {
        profile.allocate(leak, 4096, second * SECOND);
        if second < 20 {
            profile.allocate(cache, 2 * MIB, second * SECOND);
        }
        let block = profile.allocate(noise, 100, second * SECOND);
        profile.free(block, 4u64.pow(second as u32 % 5) * 3_000);
        profile.point(second * SECOND, (40 + second) * MIB, (30 + second) * MIB);
    }
    profile.statistics(|f| statistics(f, until));
    let mut snapshot = profile.snapshot();
    snapshot.reading.alive = true;
    snapshot.reading.monotonic_ns = profile_file::testing::BEGUN_NS + until * SECOND;
    let functions = [
        (0x100, "session_new", 120),
        (0x101, "accept_connection", 80),
        (
            0x200,
            "Cache<std::string, std::vector<Entry>>::insert(Key const&)",
            44,
        ),
        (0x400, "parse_header", 200),
        (main, "main", 12),
    ];
    let frames = functions.map(|(at, name, line)| (at, vec![frame(name, line)]));
    snapshot.symbols = Some(SymbolTable {
        frames: frames.into_iter().collect(),
        warnings: Vec::new(),
    });
    snapshot
}

fn statistics(f: &mut layout::Statistics, until: u64) {
    f.taken_ns = profile_file::testing::BEGUN_NS + until * SECOND - SECOND / 2;
    f.resident_bytes = (40 + until) * MIB;
    f.live_bytes = (30 + until) * MIB;
    f.free_bytes = 3 * MIB;
    f.cached_bytes = MIB / 2;
    f.dirty_bytes = 4 * MIB;
    f.threads = 8;
    f.group_limit = 2048 * MIB;
    f.rows = 3;
    for (place, size, live) in [(0, 0, 4), (1, 64, 90_000), (2, 4096, 9_000)] {
        f.row[place] = layout::Row {
            size,
            slabs: live / 200,
            slots: if size == 0 { 40 } else { live / 200 },
            made: live + live / 5,
            live,
            free: live / 8,
            cached: live / 5 - live / 8,
            occupancy: [3, 5, 10, live / 200],
            ..f.row[place]
        };
    }
}

fn model() -> Model {
    let mut model = Model::new(server(90), "4242".to_owned());
    model.take(server(91));
    model.take(server(92));
    model
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, model, Theme::plain()))
        .unwrap();
    lines(terminal.backend().buffer()).join("\n")
}

fn key(model: &mut Model, letter: char) -> Wish {
    press(model, KeyEvent::from(KeyCode::Char(letter)))
}

#[test]
fn the_list_fits_a_terminal_of_80_by_24() {
    insta::assert_snapshot!(screen(&model(), 80, 24));
}

#[test]
fn a_wider_terminal_shows_whole_names() {
    insta::assert_snapshot!(screen(&model(), 140, 40));
}

#[test]
fn details_classes_and_help() {
    let mut model = model();
    model.select(1);
    press(&mut model, KeyEvent::from(KeyCode::Enter));
    insta::assert_snapshot!("details_80", screen(&model, 80, 24));
    insta::assert_snapshot!("details_120", screen(&model, 120, 50));
    key(&mut model, 'c');
    insta::assert_snapshot!("classes", screen(&model, 80, 24));
    key(&mut model, '?');
    insta::assert_snapshot!("help", screen(&model, 80, 24));
}

#[test]
fn heaps_are_a_page_of_their_own() {
    let mut model = model();
    model.heaps = Ok(crate::heaps::tests::tree());
    key(&mut model, 't');
    insta::assert_snapshot!("heaps", screen(&model, 80, 24));
    let plain = plain::text(&model, 110, 20).unwrap();
    assert!(
        plain.contains("\n4 heaps: ") && plain.contains("    query\n"),
        "{plain}"
    );
    model.heaps = Err("it may not be read".to_owned());
    assert!(screen(&model, 80, 24).contains("it may not be read"));
    assert!(
        plain::text(&model, 110, 20)
            .unwrap()
            .contains("\nnote: it may not be read\n")
    );
    key(&mut model, 't');
    assert_eq!(model.pane, Pane::Sites);
}

#[test]
fn changes_are_counted_from_a_baseline() {
    let mut model = model();
    key(&mut model, 'd');
    model.take(server(100));
    insta::assert_snapshot!(screen(&model, 80, 24));
    let grown = model
        .rows
        .iter()
        .find(|row| row.call_site().function() == "session_new");
    let change = grown.unwrap().change.unwrap();
    assert!(
        (change / (8.0 * 526_340.0) - 1.0).abs() < 0.01,
        "eight samples: {change}"
    );
    key(&mut model, 'd');
    assert!(model.baseline_name().is_none());
}

#[test]
fn a_program_that_ended_stays_on_the_screen() {
    let mut model = model();
    model.gone = true;
    let text = screen(&model, 110, 24);
    assert!(text.contains("ended") && text.contains("session_new"));
    assert!(text.contains("freehold leaks 4242"));
    model.pane = Pane::Details;
    let text = screen(&model, 110, 24);
    assert!(
        text.contains("; in the mean ") && !text.contains("; now "),
        "{text}"
    );
}

#[test]
fn sorting_and_filtering_keep_the_selection_sensible() {
    let mut model = model();
    assert_eq!(
        model.chosen().unwrap().call_site().function(),
        "session_new"
    );
    key(&mut model, 's');
    assert_eq!(model.sort, Sort::Rate);
    for _ in 0..3 {
        key(&mut model, 's');
    }
    assert_eq!(model.sort, Sort::Name);
    assert!(
        model
            .chosen()
            .unwrap()
            .call_site()
            .function()
            .starts_with("Cache")
    );
    key(&mut model, '/');
    "ACCEPT".chars().for_each(|letter| {
        key(&mut model, letter);
    });
    press(&mut model, KeyEvent::from(KeyCode::Enter));
    let shown: Vec<&str> = model
        .rows
        .iter()
        .map(|row| row.call_site().function())
        .collect();
    assert_eq!(
        shown,
        ["parse_header", "session_new"],
        "a caller counts too"
    );
    key(&mut model, 'j');
    key(&mut model, 'j');
    assert_eq!(model.selected, 1, "there is no third");
    press(&mut model, KeyEvent::from(KeyCode::Esc));
    assert_eq!(model.rows.len(), 3);
    assert_eq!(key(&mut model, 'q'), Wish::Quit);
    assert_eq!(model.pane, Pane::Sites);
}

/// A function that is reached in two ways has one row, with the sums, and the details of each way.
#[test]
fn stacks_of_one_line_are_one_row() {
    let mut profile = ProfileBuilder::default();
    let small = profile.site(&[0x100, 0x900]);
    let large = profile.site(&[0x100, 0x200, 0x900]);
    let other = profile.site(&[0x200, 0x900]);
    for second in 0..20 {
        profile.allocate(small, 4096, second * SECOND);
        profile.allocate(large, 2 * MIB, second * SECOND);
        profile.allocate(other, 4096, second * SECOND);
    }
    let mut snapshot = profile.snapshot();
    let functions = [
        (0x100, "intern", 7),
        (0x200, "parse", 9),
        (0x900, "main", 1),
    ];
    let frames = functions.map(|(at, name, line)| (at, vec![frame(name, line)]));
    snapshot.symbols = Some(SymbolTable {
        frames: frames.into_iter().collect(),
        warnings: Vec::new(),
    });
    let by_stack: Vec<f64> = snapshot.sites.iter().map(|site| site.live.bytes).collect();
    let mut model = Model::new(snapshot, "4242".to_owned());
    let names: Vec<&str> = model
        .rows
        .iter()
        .map(|row| row.call_site().function())
        .collect();
    assert_eq!(names, ["intern", "parse"]);
    let row = &model.rows[0];
    assert!((row.live.bytes - by_stack[0] - by_stack[1]).abs() < 1.0);
    assert_eq!(
        row.stacks[0].call_site.frames.len(),
        3,
        "the largest is first"
    );
    press(&mut model, KeyEvent::from(KeyCode::Enter));
    assert!(screen(&model, 80, 24).contains("intern, stack 1 of 2: ← →"));
    press(&mut model, KeyEvent::from(KeyCode::Right));
    press(&mut model, KeyEvent::from(KeyCode::Right));
    let second = screen(&model, 80, 24);
    assert!(
        second.contains("intern, stack 2 of 2: ← →") && !second.contains("parse"),
        "{second}"
    );
    // Of a filter only the stacks that have it are summed up.
    key(&mut model, '/');
    "parse".chars().for_each(|letter| {
        key(&mut model, letter);
    });
    let sums: Vec<f64> = model.rows.iter().map(|row| row.live.bytes).collect();
    assert!((sums[0] - by_stack[1]).abs() < 1.0 && (sums[1] - by_stack[2]).abs() < 1.0);
}

#[test]
fn every_size_of_terminal_can_be_drawn() {
    let mut model = model();
    for pane in [
        Pane::Sites,
        Pane::Details,
        Pane::Classes,
        Pane::Heaps,
        Pane::Help,
    ] {
        model.pane = pane;
        for width in [1, 5, 20, 79, 300] {
            for height in [1, 2, 4, 8, 25, 100] {
                screen(&model, width, height);
            }
        }
    }
}

#[test]
fn one_plain_screen_and_an_empty_program() {
    insta::assert_snapshot!("once", plain::text(&model(), 110, 20).unwrap());
    let empty = Model::new(ProfileBuilder::default().snapshot(), "4242".to_owned());
    insta::assert_snapshot!("empty", plain::text(&empty, 110, 20).unwrap());
}

#[test]
fn several_programs_are_a_list() {
    let choices: Vec<Choice> = [(4711, "redis-server *:6379"), (4712, "python3 app.py")]
        .into_iter()
        .map(|(pid, program)| Choice {
            target: Target::Live {
                pid,
                profile: format!("/dev/shm/freehold-{pid}").into(),
            },
            program: program.to_owned(),
            names: Vec::new(),
        })
        .collect();
    let mut terminal = Terminal::new(TestBackend::new(60, 6)).unwrap();
    terminal
        .draw(|frame| pick::draw(frame, &choices, 1, Theme::plain()))
        .unwrap();
    insta::assert_snapshot!(lines(terminal.backend().buffer()).join("\n"));
}

#[test]
fn a_narrow_terminal_keeps_the_size_and_the_name() {
    let text = screen(&model(), 40, 10);
    let lines: Vec<&str> = text.lines().collect();
    let titles = lines.iter().find(|line| line.contains("LIVE")).unwrap();
    assert!(
        titles.contains("SITE") && !titles.contains("TREND"),
        "{text}"
    );
    assert!(text.contains("session_new"), "{text}");
    let wide: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    assert!(wide.iter().all(|&width| width <= 40), "{text}");
    // A wider one has more of the columns, from the left.
    let titles = |width| {
        screen(&model(), width, 10)
            .lines()
            .nth(5)
            .unwrap()
            .to_owned()
    };
    assert!(titles(60).contains("ALLOC/S") && !titles(60).contains("TREND"));
    assert!(titles(80).contains("TREND"));
}

#[test]
fn the_largest_site_is_selected_until_a_person_moves() {
    let mut model = Model::new(server(30), "4242".to_owned());
    assert_eq!(model.selected, 0);
    // The cache has most at first, the leak later: the selection is at the top all the time.
    let largest = |model: &Model| {
        let chosen = model.chosen().unwrap().live.bytes;
        model.rows.iter().all(|row| row.live.bytes <= chosen)
    };
    assert!(largest(&model));
    for until in [60, 92, 200] {
        model.take(server(until));
        assert!(largest(&model), "{until}");
    }
    model.select(1);
    let chosen = model.chosen().unwrap().site();
    model.take(server(20));
    assert_eq!(
        model.chosen().unwrap().site(),
        chosen,
        "it is followed from then on"
    );
}
