//! The heaps of real programs (`fh_heap_new`), as the command reads them, against what the program itself counts.

mod observed;

use std::path::{Path, PathBuf};

use observed::*;
use serde_json::Value;

const SOURCE: &str = include_str!("programs/heaps.c");

/// A heap as the program says it.
#[derive(Debug)]
struct Said {
    address: String,
    blocks: u64,
    live: u64,
    resident: u64,
    taken: u64,
    peak: u64,
    soft: u64,
    hard: u64,
    refusals: u64,
    name: String,
}

impl PartialEq for Said {
    /// The page of a heap's lists may only have been read. mincore, which the library asks, has the kernel's page of zeros as resident,
    /// and the command and the kernel's own sum have not.
    fn eq(&self, other: &Said) -> bool {
        let all = |it: &Said| {
            let sizes = [it.blocks, it.live, it.taken, it.peak, it.soft, it.hard];
            (it.address.clone(), sizes, it.refusals, it.name.clone())
        };
        all(self) == all(other) && self.resident.abs_diff(other.resident) <= 4096
    }
}

fn program(directory: &Path) -> PathBuf {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let library = library().canonicalize().unwrap();
    let place = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    compile(
        directory,
        "heaps",
        SOURCE,
        &[
            include,
            &place,
            "-Wl,--no-as-needed",
            library.to_str().unwrap(),
        ],
    )
}

/// A huge page would have memory where no block is yet, which comes while one looks.
fn start(directory: &Path, options: &[&str]) -> Observed {
    let program = program(directory);
    Observed::start_with(options, &[program.to_str().unwrap()], |run| {
        run.env("FREEHOLD", "thp=never");
    })
}

/// Asks the program for something; it then says what it has.
fn ask(run: &mut Observed, what: &str) -> Vec<Said> {
    run.say(&format!("{what}\n"));
    let mut said = Vec::new();
    loop {
        let line = run.line();
        if line == "end" {
            return said;
        }
        let mut words = line.splitn(10, ' ');
        let address = words.next().unwrap().to_owned();
        let numbers: Vec<u64> = words
            .by_ref()
            .take(8)
            .map(|word| word.parse().unwrap())
            .collect();
        let &[blocks, live, resident, taken, peak, soft, hard, refusals] = &numbers[..] else {
            panic!("{line}");
        };
        said.push(Said {
            address,
            blocks,
            live,
            resident,
            taken,
            peak,
            soft,
            hard,
            refusals,
            name: words.next().unwrap_or_default().to_owned(),
        });
    }
}

fn shown(heap: &Value) -> Said {
    let number = |key: &str| heap[key].as_u64().unwrap_or(0);
    Said {
        address: heap["address"].as_str().unwrap().to_owned(),
        blocks: number("blocks"),
        live: number("live_bytes"),
        resident: number("resident_bytes"),
        taken: number("taken_bytes"),
        peak: number("peak_bytes"),
        soft: number("soft_limit_bytes"),
        hard: number("hard_limit_bytes"),
        refusals: number("refusals"),
        name: heap["name"].as_str().unwrap().to_owned(),
    }
}

fn by_address(mut heaps: Vec<Said>) -> Vec<Said> {
    heaps.sort_by(|a, b| a.address.cmp(&b.address));
    heaps
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

fn list(answer: &Value) -> Vec<Said> {
    by_address(
        answer["heaps"]
            .as_array()
            .unwrap()
            .iter()
            .map(shown)
            .collect(),
    )
}

/// Of an explanation: what heaps have in memory in live blocks, and without.
fn in_heaps(explained: &Value) -> [u64; 2] {
    let lines = explained["freehold"].as_array().unwrap();
    ["heaps_live", "heaps_free"].map(|part| {
        let found = lines.iter().find(|line| line["part"] == part);
        found.map_or(0, |line| line["bytes"].as_u64().unwrap())
    })
}

/// What is free in a heap is of no use to the program elsewhere, and nothing that it asked for.
#[test]
fn free_room_in_heaps_is_a_part_of_the_explanation() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &[]);
    ask(&mut run, "make");
    let pid = run.pid().to_string();
    let said = ask(&mut run, "say");
    let explained = json(&["explain", "--json", &pid]);
    let [live, free] = in_heaps(&explained);
    let resident = |given: bool| -> u64 {
        let of = said.iter().filter(|heap| given || heap.name != "given");
        of.map(|heap| heap.resident).sum()
    };
    // Memory that the program gave is not the allocator's; the slot in which its heap begins is.
    let range = resident(false)..=resident(true);
    assert!(range.contains(&(live + free)), "{explained:#}");
    assert_ne!(explained["verdict"]["finding"], "heaps");

    ask(&mut run, "scatter");
    let said = ask(&mut run, "say");
    let scattered = said.iter().find(|heap| heap.name == "scattered").unwrap();
    let explained = json(&["explain", "--json", &pid]);
    let [more_live, more_free] = in_heaps(&explained);
    assert_eq!(more_live - live, scattered.live);
    assert_eq!(more_live + more_free - live - free, scattered.resident);
    assert_eq!(explained["verdict"]["finding"], "heaps", "{explained:#}");
    let lines = explained["freehold"].as_array().unwrap().iter();
    let unexplained: i64 = lines
        .filter(|line| line["part"] == "unexplained")
        .map(|line| line["bytes"].as_i64().unwrap())
        .sum();
    let whole = explained["resident_bytes"].as_u64().unwrap();
    assert!(unexplained.unsigned_abs() <= whole / 50, "{explained:#}");

    let saved = directory.path().join("saved.freehold");
    let saved = saved.to_str().unwrap();
    answer(&["profile", "--save", saved, &pid]);
    // When it has ended, its heaps cannot be read any more.
    let profile = run.profile_files().remove(0);
    let (_, _, _kept) = run.end();
    let explained = json(&["explain", "--json", profile.to_str().unwrap()]);
    let notes = explained["notes"].to_string();
    assert!(notes.contains("what is free in heaps"), "{explained:#}");
    // What was saved before has them.
    let explained = json(&["explain", "--json", saved]);
    assert_eq!(in_heaps(&explained), [more_live, more_free]);
    assert_eq!(explained["verdict"]["finding"], "heaps", "{explained:#}");
    let notes = explained["notes"].to_string();
    assert!(!notes.contains("what is free in heaps"), "{explained:#}");
    let tree = json(&["explain", "--heaps", "--json", saved]);
    assert_eq!(list(&tree), by_address(said));
}

#[test]
fn every_figure_is_that_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &[]);
    // To count is to read, and what is read has a page: the second count is that of what is there.
    ask(&mut run, "make");
    let said = by_address(ask(&mut run, "say"));
    let pid = run.pid().to_string();
    assert_eq!(said.len(), 7);
    assert!(said.iter().any(|heap| heap.refusals > 0), "{said:?}");

    let explained = json(&["explain", "--heaps", "--json", &pid]);
    assert_eq!(list(&explained), said);
    assert_eq!(explained["left_out"], 0);
    let tenant = said.iter().find(|heap| heap.name == "tenant").unwrap();
    let queries: Vec<&Value> = explained["heaps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|heap| heap["path"] == "tenant/query")
        .collect();
    assert_eq!(queries.len(), 2);
    assert!(
        queries
            .iter()
            .all(|heap| heap["parent"] == tenant.address.as_str())
    );

    let top = json(&["top", "--once", "--json", "--every", "50ms", &pid]);
    assert_eq!(list(&top), said);

    let metrics = answer(&["metrics", &pid]);
    let value = |name: &str, path: &str| -> u64 {
        let begin = format!("freehold_{name}{{heap=\"{path}\"}} ");
        let line = metrics.lines().find(|line| line.starts_with(&begin));
        line.unwrap_or_else(|| panic!("no {begin} in {metrics}"))[begin.len()..]
            .parse()
            .unwrap()
    };
    let sum = |of: fn(&Said) -> u64| {
        said.iter()
            .filter(|heap| heap.name == "query")
            .map(of)
            .sum::<u64>()
    };
    assert_eq!(value("heaps", "tenant/query"), 2);
    assert_eq!(
        value("heap_resident_bytes", "tenant/query"),
        sum(|heap| heap.resident)
    );
    assert_eq!(
        value("heap_live_bytes", "tenant/query"),
        sum(|heap| heap.live)
    );
    assert_eq!(
        value("heap_blocks", "tenant/query"),
        sum(|heap| heap.blocks)
    );
    assert_eq!(
        value("heap_refusals", "tenant/query"),
        sum(|heap| heap.refusals)
    );
    assert_eq!(value("heap_taken_bytes", "tenant"), tenant.taken);
    assert_eq!(value("heap_peak_bytes", "tenant"), tenant.peak);
    assert_eq!(value("heap_limit_soft_bytes", "tenant"), 48 << 20);
    assert_eq!(value("heap_limit_hard_bytes", "tenant"), 64 << 20);
    assert_eq!(value("heap_limit_hard_bytes", "frames"), 0);

    // Frames are not sampled, nor is a bounded heap, so what was asked for is not known there.
    for name in ["frames", "loop"] {
        let mut heaps = explained["heaps"].as_array().unwrap().iter();
        let heap = heaps.find(|heap| heap["name"] == name).unwrap();
        assert_eq!(heap["requested_bytes"], Value::Null);
    }

    let text = answer(&["explain", "--heaps", &pid]);
    assert!(text.contains(": 7 heaps: "), "{text}");
    assert!(
        text.contains("  tenant\n") && text.contains("    query\n"),
        "{text}"
    );
    let text = answer(&["top", "--once", "--every", "50ms", &pid]);
    assert!(
        text.contains("\n7 heaps: ") && text.contains("  tenant\n"),
        "{text}"
    );
    run.end();
}

#[test]
fn heaps_that_come_and_go_do_no_harm_and_those_that_stay_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &[]);
    ask(&mut run, "make");
    let said = by_address(ask(&mut run, "threads"));
    let pid = run.pid().to_string();
    for _ in 0..20 {
        let found = list(&json(&["explain", "--heaps", "--json", &pid]));
        let (stay, others): (Vec<Said>, Vec<Said>) = found
            .into_iter()
            .partition(|heap| said.iter().any(|known| known.address == heap.address));
        assert_eq!(stay, said);
        // Three threads with two each, while one looks for as long as it takes.
        for heap in others {
            assert!(heap.name == "outer" || heap.name == "inner", "{heap:?}");
            assert!(heap.taken <= 8 << 20 && heap.live <= 8 << 20, "{heap:?}");
        }
    }
    let left = by_address(ask(&mut run, "join"));
    assert_eq!(list(&json(&["explain", "--heaps", "--json", &pid])), left);
    run.end();
}

#[test]
fn what_does_not_fit_is_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &[]);
    ask(&mut run, "make");
    ask(&mut run, "many");
    let pid = run.pid().to_string();
    let text = answer(&["explain", "--heaps", &pid]);
    assert!(text.contains(": 307 heaps: "), "{text}");
    assert!(text.contains(" in 208 heaps more, with "), "{text}");
    let all = json(&["explain", "--heaps", "--json", &pid]);
    assert_eq!(all["heaps"].as_array().unwrap().len(), 307);
    assert!(answer(&["metrics", &pid]).contains("freehold_heaps{heap=\"one of many\"} 300\n"));
    run.end();
}

#[test]
fn without_heaps_and_without_a_program_it_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &[]);
    run.say("nothing\n");
    let pid = run.pid().to_string();
    let text = wait_for("the program's count", || {
        let output = freehold(&["explain", "--heaps", &pid]);
        output
            .status
            .success()
            .then(|| observed::text(&output.stdout))
    });
    assert!(
        text.ends_with(": it has no heaps (fh_heap_new)\n"),
        "{text}"
    );
    assert!(!answer(&["metrics", &pid]).contains("freehold_heap"));
    let saved = directory.path().join("saved.freehold");
    answer(&["profile", "--save", saved.to_str().unwrap(), &pid]);
    let (_, _, profiles) = run.end();
    let left = profiles.path().to_str().unwrap();
    let said = complaint(&["explain", "--heaps", left], 2);
    assert!(said.contains("the program does not run any more"), "{said}");
    let said = answer(&["explain", "--heaps", saved.to_str().unwrap()]);
    assert!(said.contains(": it has no heaps"), "{said}");
    let said = complaint(&["explain", "--heaps", "no-such-program"], 2);
    assert!(said.contains("none has left a profile file"), "{said}");
}

/// Live bytes that a profile shows.
fn live(pid: &str, heap: Option<&str>) -> f64 {
    let mut arguments = vec!["profile", "--json", pid];
    arguments.extend(heap.map(|_| "--heap"));
    arguments.extend(heap);
    json(&arguments)["totals"]["live"]["bytes"]
        .as_f64()
        .unwrap()
}

#[test]
fn samples_know_their_heap() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = start(directory.path(), &["--sample=1"]);
    run.say("known\n");
    let asked: Vec<f64> = (0..4).map(|_| run.line().parse().unwrap()).collect();
    let pid = run.pid().to_string();
    assert_eq!(live(&pid, Some("tenant")), asked[0] + asked[1]);
    assert_eq!(live(&pid, Some("tenant/query")), asked[1]);
    assert_eq!(live(&pid, Some("query")), asked[1] + asked[2]);
    let text = answer(&["profile", "--heap", "query", &pid]);
    assert!(
        text.contains("of_heap") && text.contains("of_library"),
        "{text}"
    );
    let by_heap = json(&["profile", "--by", "heap", "--json", &pid]);
    for (path, bytes) in [
        ("tenant", asked[0]),
        ("tenant/query", asked[1]),
        ("query", asked[2]),
    ] {
        let groups = by_heap["groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["heap"] == path).unwrap();
        assert_eq!(group["live"]["bytes"].as_f64().unwrap(), bytes, "{group}");
    }
    let text = answer(&["profile", "--by", "heap", &pid]);
    assert!(text.contains("(in no heap)"), "{text}");
    let heaps = json(&["explain", "--heaps", "--json", &pid]);
    let metrics = answer(&["metrics", &pid]);
    for (path, bytes) in [
        ("tenant", asked[0]),
        ("tenant/query", asked[1]),
        ("query", asked[2]),
    ] {
        let list = heaps["heaps"].as_array().unwrap();
        let heap = list.iter().find(|heap| heap["path"] == path).unwrap();
        assert_eq!(heap["requested_bytes"], bytes, "{heap}");
        assert_eq!(heap["requested_error_bytes"], 0.0, "{heap}");
        assert!(heap["live_bytes"].as_f64().unwrap() >= bytes, "{heap}");
        let line = format!("freehold_heap_requested_bytes{{heap=\"{path}\"}} {bytes}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let all = live(&pid, None);
    // A thread that has left a scope is sampled as before.
    assert!(all >= asked.iter().sum::<f64>(), "{all} of {asked:?}");
    let leaks = json(&[
        "leaks", "--heap", "query", "--all", "--json", "--for", "0s", &pid,
    ]);
    let sites = leaks["sites"].as_array().unwrap();
    let sum: f64 = sites
        .iter()
        .map(|site| site["live_bytes"].as_f64().unwrap())
        .sum();
    assert_eq!(sum, asked[1] + asked[2]);
    let said = complaint(&["profile", "--heap", "quary", &pid], 2);
    assert!(
        said.contains("no block of a heap called \"quary\" was sampled; there are: query, tenant, tenant/query"),
        "{said}"
    );
    // What ends with its heap is freed, and nothing else is.
    run.say("reset\n");
    assert_eq!(run.line(), "done");
    assert_eq!(live(&pid, Some("query")), asked[1]);
    assert_eq!(live(&pid, Some("tenant")), asked[1]);
    assert_eq!(live(&pid, None), all - asked[0] - asked[2]);
    run.end();
}
