//! `freehold replay`: it does the operations of the trace, and notices an allocator that does not do its work.

mod observed;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use observed::{command, compile, counted, imported, is_beside, library, text};
use profile_file::testing::skip;
use serde_json::Value;

/// An allocator over glibc's that spoils blocks: BREAK=shared gives the same one again and again, BREAK=dirty is a
/// calloc without zeros, BREAK=null refuses.
const BROKEN: &str = r#"
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t);
static char *mode(void) { char *text = getenv("BREAK"); return text ? text : ""; }
static void *last;
void *malloc(size_t n) {
    if (n == 777 && !strcmp(mode(), "null")) return NULL;
    if (n == 777 && !strcmp(mode(), "shared")) return last ? last : (last = __libc_malloc(n));
    return __libc_malloc(n);
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) {
    void *p = __libc_malloc(n * m);
    return memset(p, !strcmp(mode(), "dirty") && n * m == 777, n * m);
}
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(what: &str) -> Option<Self> {
        let files = [
            "freehold-replayer",
            "libfreehold-record.so",
            "libfreehold.so",
        ];
        if !is_beside(what, &files) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        Some(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn imported(&self, lines: &str) -> PathBuf {
        imported(self.directory.path(), lines)
    }

    /// A trace of four threads that hand blocks to each other.
    fn recorded(&self) -> PathBuf {
        let program = counted(self.directory.path());
        let trace = self.path("threads.trace");
        let output = Command::new(command())
            .args(["record", "-o"])
            .arg(&trace)
            .arg(program)
            .args(["threads", "4"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        trace
    }
}

fn replay(trace: &Path, arguments: &[&str], broken: &str) -> Output {
    Command::new(command())
        .arg("replay")
        .arg(trace)
        .arg("--json")
        .args(if arguments.contains(&"--repeats") {
            &[][..]
        } else {
            &["--repeats", "1"]
        })
        .args(arguments)
        .env("BREAK", broken)
        .output()
        .unwrap()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Calls of the allocator in the trace.
fn calls(info: &Value) -> u64 {
    let calls = info["trace"]["calls"].as_object().unwrap();
    let others = ["thread-start", "thread-end", "trim", "fork"];
    let counted = calls
        .iter()
        .filter(|(name, _)| !others.contains(&name.as_str()));
    counted.map(|(_, count)| count.as_u64().unwrap()).sum()
}

#[test]
fn every_order_does_every_operation() {
    let Some(place) = Place::new("every_order_does_every_operation") else {
        return;
    };
    let trace = place.recorded();
    for order in ["deps", "time", "total"] {
        let options = ["--on", "system,freehold", "--verify", "--order", order];
        let output = replay(&trace, &options, "");
        let said = answer(&output);
        assert!(output.status.success(), "{order}: {said}");
        for one in said["allocators"].as_array().unwrap() {
            let run = &one["runs"][0];
            assert_eq!(run["calls"], calls(&said), "{order}");
            assert_eq!((&run["failed"], &run["wrong"]), (&0.into(), &0.into()));
            if order == "total" {
                assert_eq!(run["peak_live"], said["trace"]["peak_bytes"]);
            }
        }
    }
}

/// For benchmarks of somebody else: the file is what the replayer takes, and it makes the trace's calls.
#[test]
fn a_prepared_file_is_replayed_by_the_replayer_alone() {
    let Some(place) = Place::new("a_prepared_file_is_replayed_by_the_replayer_alone") else {
        return;
    };
    let trace = place.recorded();
    let file = place.path("prepared");
    let output = replay(&trace, &["--prepare", file.to_str().unwrap()], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    let replayer = library().with_file_name("freehold-replayer");
    let alone = Command::new(replayer).arg(&file).output().unwrap();
    let said: Value = serde_json::from_slice(&alone.stdout).unwrap();
    let measured = answer(&replay(&trace, &["--on", "system"], ""));
    assert_eq!(said["calls"], calls(&measured), "{said:#}");
    assert_eq!((&said["failed"], &said["wrong"]), (&0.into(), &0.into()));
}

#[test]
fn an_allocator_that_does_not_do_its_work_is_found() {
    let Some(place) = Place::new("an_allocator_that_does_not_do_its_work_is_found") else {
        return;
    };
    let flags = ["-fPIC", "-shared", "-fno-builtin"];
    let broken = compile(place.directory.path(), "broken.so", BROKEN, &flags);
    let trace = place.imported("a 777 1\na 777 2\na 777 3\nr 1\nr 2\nr 3\n");
    let options = ["--on", broken.to_str().unwrap(), "--verify"];
    assert!(replay(&trace, &options, "").status.success());
    for (how, count) in [("null", "failed"), ("shared", "wrong")] {
        let output = replay(&trace, &options, how);
        assert_eq!(output.status.code(), Some(1), "{how}");
        assert!(answer(&output)["allocators"][0]["runs"][0][count].as_u64() > Some(0));
    }
}

#[test]
fn freeholds_options_reach_it() {
    let Some(place) = Place::new("freeholds_options_reach_it") else {
        return;
    };
    let trace = place.imported("a 200000000 1\nr 1\n");
    let options = ["--on", "freehold", "--touch", "none"];
    assert!(replay(&trace, &options, "").status.success());
    let limited = [&options[..], &["--set", "limit=64m"]].concat();
    let output = replay(&trace, &limited, "");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert_eq!(answer(&output)["allocators"][0]["runs"][0]["failed"], 1);
    let two = [&options[..], &["--set", "purge=eager;limit=64m"]].concat();
    let output = replay(&trace, &two, "");
    assert_eq!(answer(&output)["allocators"][0]["runs"][0]["failed"], 1);
    // The library would go on without them.
    for wrong in ["purge=silly", "no_such_thing=1", "purge=eager;thp=maybe"] {
        let output = replay(&trace, &[&options[..], &["--set", wrong]].concat(), "");
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {complaint}");
        assert!(complaint.contains("--set: "), "{complaint}");
    }
}

/// Each run of the only allocator.
fn runs(output: &Output) -> Vec<Value> {
    let said = answer(output);
    assert!(output.status.success(), "{said}");
    said["allocators"][0]["runs"].as_array().unwrap().clone()
}

#[test]
fn a_seed_gives_the_same_addresses() {
    let Some(place) = Place::new("a_seed_gives_the_same_addresses") else {
        return;
    };
    let trace = place.recorded();
    let total = ["--on", "freehold", "--order", "total", "--repeats", "3"];
    let with = |seed| {
        let output = replay(&trace, &[&total[..], &["--seed", seed]].concat(), "");
        if text(&output.stdout).contains("cannot be fixed here") {
            skip("a_seed_gives_the_same_addresses: personality(2) is not allowed");
            return None;
        }
        Some(runs(&output))
    };
    let Some(seven) = with("7") else { return };
    let eight = with("8").unwrap();
    assert_ne!(seven[0]["addresses"], 0);
    for run in &seven {
        assert_eq!(run["addresses"], seven[0]["addresses"]);
    }
    assert_ne!(eight[0]["addresses"], seven[0]["addresses"]);
    let random = runs(&replay(&trace, &total, ""));
    assert_ne!(random[0]["addresses"], random[1]["addresses"]);
    let output = replay(&trace, &["--on", "freehold", "--seed", "7"], "");
    assert!(text(&output.stderr).contains("--seed needs --order total"));
}

/// Where two curves of the same points are furthest apart, in bytes beyond what the kernel's count may be behind.
fn apart(curves: &[Vec<(u64, u64)>]) -> u64 {
    let mut most = 0;
    for other in &curves[1..] {
        assert_eq!(other.len(), curves[0].len());
        for (one, two) in curves[0].iter().zip(other) {
            assert_eq!(one.0, two.0);
            // 64 pages for each CPU.
            let behind = one.1.max(two.1) / 50 + 512 * 1024;
            most = most.max(one.1.abs_diff(two.1).saturating_sub(behind));
        }
    }
    most
}

/// The curve begins at the first operation, goes on to the last one and is the same each time: with a seed at every point,
/// and without one but for a huge page, which comes some operations earlier or later where the addresses are others.
#[test]
fn the_curve_of_resident_bytes_is_repeated_in_total_order() {
    let Some(place) = Place::new("the_curve_of_resident_bytes_is_repeated_in_total_order") else {
        return;
    };
    let mut lines = String::new();
    for id in 1..=30_000 {
        lines += &format!("a {} {id}\n", 200 + id % 700);
        if id > 20_000 {
            lines += &format!("r {}\n", id - 20_000);
        }
    }
    let trace = place.imported(&lines);
    let curve = |run: &Value| -> Vec<(u64, u64)> {
        let points = run["points"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        points
            .iter()
            .map(|point| (number(&point[0]), number(&point[1])))
            .collect()
    };
    let total = ["--on", "freehold", "--order", "total", "--repeats", "3"];
    let curves = |more: &[&str]| -> Option<Vec<_>> {
        let output = replay(&trace, &[&total[..], more].concat(), "");
        if text(&output.stdout).contains("cannot be fixed here") {
            skip("the_curve_of_resident_bytes (in part): personality(2) is not allowed");
            return None;
        }
        Some(runs(&output).iter().map(curve).collect())
    };
    let random = curves(&[]).unwrap();
    assert!(random[0].len() > 300);
    assert_eq!((random[0][0].0, random[0].last().unwrap().0), (0, 40_000));
    assert!(apart(&random) <= 2 << 20, "{random:?}");
    // The kernel may have a huge page in one run and none in the next.
    if let Some(seeded) = curves(&["--seed", "7", "--set", "thp=never"]) {
        assert_eq!(apart(&seeded), 0, "{seeded:?}");
    }
    // By time there may be more points than there is room for: they become sparser.
    let run = &runs(&replay(&trace, &["--on", "system"], ""))[0];
    let by_time = curve(run);
    assert!(by_time.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert!(by_time.last().unwrap().0 <= run["ns"].as_u64().unwrap());
}

/// What is said of an option or another allocator.
fn advised<'a>(said: &'a Value, list: &str, name: &str) -> &'a Value {
    let all = said["advice"][list].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {said}"))
}

fn effect<'a>(one: &'a Value, measure: &str) -> &'a Value {
    let effects = one["effects"].as_array().unwrap();
    let mut found = effects.iter().filter(|effect| effect["measure"] == measure);
    found.next().unwrap()
}

/// After a second burst Freehold keeps what a third one would need again; an eager purge does not.
#[test]
fn an_option_that_helps_is_advised() {
    let Some(place) = Place::new("an_option_that_helps_is_advised") else {
        return;
    };
    let mut lines = String::new();
    for burst in 0..3 {
        let ids = burst * 640..(burst + 1) * 640;
        lines.extend(ids.clone().map(|id| format!("a 100000 {id}\n")));
        lines.extend(ids.map(|id| format!("r {id}\n")));
    }
    let trace = place.imported(&lines);
    let output = replay(&trace, &["--advise", "--repeats", "5"], "");
    let said = answer(&output);
    assert!(output.status.success(), "{said}");
    let eager = advised(&said, "options", "purge=eager");
    let end = effect(eager, "end");
    assert_eq!(end["stands_out"], true, "{eager:#}");
    assert!(end["change"].as_f64().unwrap() < -40e6, "{end:#}");
    let says = eager["says"].as_str().unwrap();
    assert!(says.starts_with("purge=eager saves"), "{says}");
    let verdict = said["advice"]["verdict"].to_string();
    assert!(verdict.contains("purge=eager"), "{verdict}");
    // glibc gives all back. That is said, and what is left of it with the option.
    let system = advised(&said, "others", "system");
    let says = system["says"].as_str().unwrap();
    assert!(says.contains("system wins"), "{says}");
    assert!(says.contains("with purge=eager it still wins"), "{says}");
    for one in ["as_it_is", "again"] {
        assert_eq!(said["advice"][one].as_array().unwrap().len(), 5);
    }
    // What is set already is the base, and its default is one of those that are tried.
    let options = ["--advise", "--repeats", "5", "--set", "purge=eager"];
    let said = answer(&replay(&trace, &options, ""));
    let end = effect(advised(&said, "options", "purge=budget"), "end");
    assert!(end["change"].as_f64().unwrap() > 40e6, "{end:#}");
}

#[test]
fn where_no_option_helps_the_advice_says_so() {
    let Some(place) = Place::new("where_no_option_helps_the_advice_says_so") else {
        return;
    };
    let lines: String = (1..2000)
        .map(|id| format!("a 100 {id}\nr {id}\n"))
        .collect();
    let trace = place.imported(&lines);
    let output = Command::new(command())
        .args(["replay", "--advise", "--on", "freehold"])
        .arg(&trace)
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(
        said.contains("\npurge=eager changes nothing that stands out"),
        "{said}"
    );
    let verdict = "\nNo option saves anything here: leave Freehold as it is.\n";
    assert!(said.contains(verdict), "{said}");
    let output = replay(&trace, &["--advise", "--repeats", "4"], "");
    assert!(text(&output.stderr).contains("--advise needs --repeats 5"));
}

#[test]
fn another_allocator_that_fails_is_not_judged() {
    let Some(place) = Place::new("another_allocator_that_fails_is_not_judged") else {
        return;
    };
    let flags = ["-fPIC", "-shared", "-fno-builtin"];
    let broken = compile(place.directory.path(), "broken.so", BROKEN, &flags);
    let trace = place.imported("a 777 1\nr 1\n");
    let on = broken.to_str().unwrap();
    let output = replay(&trace, &["--advise", "--repeats", "5", "--on", on], "null");
    assert_eq!(output.status.code(), Some(1));
    let said = answer(&output);
    let says = &advised(&said, "others", "broken.so")["says"];
    assert_eq!(says, "broken.so: 5 calls failed, so it is not judged.");
}

/// Its curves follow from what the JSON has.
#[test]
fn the_page_has_the_curves_of_each_allocator() {
    let Some(place) = Place::new("the_page_has_the_curves_of_each_allocator") else {
        return;
    };
    let mut lines = String::new();
    for id in 1..=3000 {
        lines += &format!("a {} {id}\n", 1000 + id % 700);
        if id > 2000 {
            lines += &format!("r {}\n", id - 2000);
        }
    }
    let trace = place.imported(&lines);
    let file = place.path("page.html");
    let options = ["--html", file.to_str().unwrap(), "--repeats", "3"];
    let output = replay(&trace, &options, "");
    let said = answer(&output);
    let page = std::fs::read_to_string(file).unwrap();
    for outside in ["http://", "https://", "src=", "href=", "url("] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(outside), "{outside}");
    }
    let start = "<script type=\"application/json\" id=\"data\">";
    let data = page.split(start).nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(data["by_operation"], false);
    let curves = data["allocators"].as_array().unwrap();
    assert_eq!(curves.len(), 2);
    for (drawn, one) in curves.iter().zip(said["allocators"].as_array().unwrap()) {
        assert_eq!(drawn["name"], one["name"]);
        // As many calls as were timed, in the order of their times, the last one the slowest.
        let times = one["latency"]["times"].as_array().unwrap();
        let all: u64 = times.iter().map(|time| time[1].as_u64().unwrap()).sum();
        assert_eq!((drawn["calls"].as_u64(), all), (Some(4000), 4000));
        let latency = drawn["latency"].as_array().unwrap();
        assert_eq!(latency.len(), times.len());
        let mut seen = 0;
        for (point, time) in latency.iter().zip(times) {
            seen += time[1].as_u64().unwrap();
            let part = point[0].as_f64().unwrap();
            assert!((part - seen as f64 / all as f64).abs() < 1e-9, "{drawn}");
        }
        assert_eq!(latency.last().unwrap()[1], one["latency"]["worst"]);
        let runs = one["runs"].as_array().unwrap();
        let mut by_time: Vec<&Value> = runs.iter().collect();
        by_time.sort_by_key(|run| run["ns"].as_u64());
        assert_eq!(drawn["rss"], above(by_time[1]));
        // What is live is the trace's own; resident over live is drawn where there is enough.
        let resident = above(&one["ordered"]);
        let resident = resident.as_array().unwrap();
        let ratios = drawn["fragmentation"].as_array().unwrap();
        assert!(ratios.len() > 100 && ratios.len() == resident.len());
        for (point, bytes) in ratios.iter().zip(resident) {
            let at = point[0].as_u64().unwrap();
            let live = said["live"][at.to_string()].as_u64().unwrap();
            let size = |id: u64| 1000 + id % 700;
            // Up to here each operation is an allocation.
            if at < 2000 {
                assert_eq!(live, (1..=at + 1).map(size).sum::<u64>(), "{at}");
            }
            if live * 100 >= said["trace"]["peak_bytes"].as_u64().unwrap() {
                let ratio = bytes[1].as_f64().unwrap() / live as f64;
                assert!((point[1].as_f64().unwrap() - ratio).abs() < 1e-9);
            } else {
                assert!(point[1].is_null(), "{at}");
            }
        }
        let end = said["live"]["4000"].as_u64();
        assert_eq!(end, said["trace"]["live_bytes"].as_u64());
    }
}

/// The curve of a run, above what was resident before it.
fn above(run: &Value) -> Value {
    let before = run["before"].as_u64().unwrap();
    let points = run["points"].as_array().unwrap().iter();
    points
        .map(|point| {
            let bytes = point[1].as_u64().unwrap().saturating_sub(before);
            Value::from(vec![point[0].clone(), bytes.into()])
        })
        .collect()
}

/// The page's data, as its script reads it.
fn data_of(page: &Path) -> Value {
    let page = std::fs::read_to_string(page).unwrap();
    for outside in ["http:", "https:", "src=", "href=", "url(", "/*data*/"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let start = "<script type=\"application/json\" id=\"data\">";
    let data = page.split(start).nth(1).unwrap();
    serde_json::from_str(data.split("</script>").next().unwrap()).unwrap()
}

/// Adds up a film's differences: after each step the operation, live bytes, blocks and resident bytes of all cells.
fn added_up(film: &Value) -> Vec<[u64; 4]> {
    let number = |value: &Value| value.as_u64().unwrap();
    let chunks = film["chunks"].as_array().unwrap().len();
    let mut cells = vec![[0; 3]; chunks * 32];
    let steps = film["steps"].as_array().unwrap().iter();
    let sums = steps.map(|step| {
        let mut at = 0;
        for change in step["cells"].as_array().unwrap().chunks(4) {
            at += number(&change[0]) as usize;
            cells[at] = [1, 2, 3].map(|column: usize| number(&change[column]));
        }
        let sum = |column: usize| cells.iter().map(|cell| cell[column]).sum::<u64>();
        assert_eq!(number(&step["live"]), sum(0));
        assert_eq!(number(&step["resident"]), sum(2) * 4096);
        assert!(cells.iter().all(|cell| cell[0] <= 65536 && cell[2] <= 16));
        [number(&step["at"]), sum(0), sum(1), sum(2) * 4096]
    });
    sums.collect()
}

/// What is live in a film is what the trace says, and what is resident is what the process says of itself; with the
/// kernel's scan of pages and with the list of each page, which is for older kernels.
#[test]
fn the_film_agrees_with_the_trace_and_with_the_process() {
    let Some(place) = Place::new("the_film_agrees_with_the_trace_and_with_the_process") else {
        return;
    };
    let size = |id: u64| {
        if id % 50 == 0 {
            200_000
        } else {
            1000 + id % 700
        }
    };
    let mut lines = String::new();
    for id in 1..=4000 {
        lines += &format!("a {} {id}\n", size(id));
    }
    for id in (1..=4000).filter(|id| id % 4 != 0) {
        lines += &format!("r {id}\n");
    }
    let freed: Vec<u64> = (1..=4000).filter(|id| id % 4 != 0).collect();
    let trace = place.imported(&lines);
    let file = place.path("film.html");
    for scan in ["1", "0"] {
        let output = Command::new(command())
            .args([
                "replay",
                "--json",
                "--repeats",
                "1",
                "--on",
                "system,freehold",
            ])
            .arg("--film")
            .arg(&file)
            .arg(&trace)
            .env("FREEHOLD_FILM_SCAN", scan)
            .output()
            .unwrap();
        let said = answer(&output);
        assert!(output.status.success(), "{said}");
        let data = data_of(&file);
        let films = data["films"].as_array().unwrap();
        assert_eq!(films.len(), 2);
        for (film, one) in films.iter().zip(said["allocators"].as_array().unwrap()) {
            assert_eq!(film["name"], one["name"]);
            let (sums, run) = (added_up(film), &one["filmed"]);
            let points = run["points"].as_array().unwrap();
            assert!(sums.len() > 150 && sums.len() == points.len());
            for ([at, live, blocks, resident], point) in sums.into_iter().zip(points) {
                assert_eq!(point[0], at);
                // The operation of this number is done; at the end there is none.
                let born = (at + 1).min(4000);
                let gone = &freed[..(at + 1).saturating_sub(4000).min(3000) as usize];
                let bytes: u64 = (1..=born).map(size).sum();
                assert_eq!(
                    live,
                    bytes - gone.iter().map(|id| size(*id)).sum::<u64>(),
                    "{at}"
                );
                assert_eq!(blocks, born - gone.len() as u64, "{at}");
                // The kernel's sum may be behind by 64 pages for each CPU.
                let own = point[1]
                    .as_u64()
                    .unwrap()
                    .saturating_sub(run["before"].as_u64().unwrap());
                let most = own as f64 * 0.02 + 768.0 * 1024.0;
                let apart = (resident as f64 - own as f64).abs();
                assert!(
                    apart <= most,
                    "{}, {at}: {resident} in the film, {own}",
                    one["name"]
                );
            }
        }
    }
}
