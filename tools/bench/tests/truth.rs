//! Truth checks of the harness itself: does it rank what is worse as worse, call equal what is equal, and report what
//! fails as failed? It runs for real here, on allocators that misbehave on purpose (`shims/shim.c`).
//!
//! Nothing is asserted on absolute times. What is asserted on ratios may be tried again a few times, because this
//! runs on machines that do other things at the same moment; a harness that is wrong fails each time.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use serde_json::Value;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: freehold_bench::BenchArgs,
}

/// A repository in miniature: the launcher's source, no peers, one workload, and the shims.
struct Toy {
    folder: tempfile::TempDir,
}

impl Toy {
    fn new() -> Self {
        let toy = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["bench/peers", "bench/launcher", "build/bench", "shims"] {
            std::fs::create_dir_all(toy.path(folder)).unwrap();
        }
        std::fs::write(toy.path("bench/peers/peers.toml"), "").unwrap();
        let launcher = crate_folder.join("../../bench/launcher/launcher.c");
        std::fs::copy(launcher, toy.path("bench/launcher/launcher.c")).unwrap();
        let shims = crate_folder.join("tests/shims");
        compile(
            &["-O1", "-fno-builtin"],
            &shims.join("workload.c"),
            &toy.path("build/bench/toy"),
        );
        for kind in [
            "PLAIN",
            "WASTE_TIME",
            "WASTE_MEMORY",
            "CRASH",
            "HANG",
            "DIRTY",
        ] {
            let library = toy.path(&format!("shims/{}.so", kind.to_lowercase()));
            compile(
                &[
                    "-O1",
                    "-fno-builtin",
                    "-shared",
                    "-fPIC",
                    &format!("-D{kind}"),
                ],
                &shims.join("shim.c"),
                &library,
            );
        }
        toy
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    /// Runs the harness and returns the data of the page that it wrote, which is what a reader is shown.
    fn bench(&self, allocators: &[&str], more: &[&str]) -> Value {
        self.try_bench(allocators, more).unwrap()
    }

    fn try_bench(&self, allocators: &[&str], more: &[&str]) -> anyhow::Result<Value> {
        let out = tempfile::tempdir().unwrap();
        let shim = |word: &&str| match word.split_once('=') {
            Some((name, kind)) => format!(
                "{name}={}",
                self.path(&format!("shims/{kind}.so")).display()
            ),
            None => (*word).to_owned(),
        };
        let words: Vec<String> = allocators.iter().map(shim).collect();
        let mut line = vec![
            "bench".to_owned(),
            "--no-warm".into(),
            "--reference".into(),
            "plain".into(),
        ];
        line.extend(["--root".into(), self.folder.path().display().to_string()]);
        line.extend(["--out".into(), out.path().display().to_string()]);
        line.extend(["--allocators".into(), words.join(",")]);
        if !more.contains(&"--timeout") {
            line.extend(["--timeout".into(), "600".into()]);
        }
        // Without a budget: a slow machine must not lose rounds that the assertions count on.
        line.extend(["--budget".into(), "0".into()]);
        line.extend(more.iter().map(|word| (*word).to_owned()));
        freehold_bench::run(Cli::parse_from(line).bench)?;
        self.keep(out.path());
        let page = std::fs::read_to_string(written(out.path(), "html")).unwrap();
        Ok(data_of(&page))
    }

    /// The record of the last run, in a file of one name.
    fn keep(&self, out: &Path) {
        std::fs::copy(written(out, "json"), self.path("record.json")).unwrap();
    }

    fn record(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("record.json")).unwrap()).unwrap()
    }
}

fn written(out: &Path, kind: &str) -> PathBuf {
    let files = std::fs::read_dir(out).unwrap();
    files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == kind))
        .only_one()
}

trait OnlyOne {
    fn only_one(self) -> PathBuf;
}

impl<I: Iterator<Item = PathBuf>> OnlyOne for I {
    fn only_one(self) -> PathBuf {
        let all: Vec<PathBuf> = self.collect();
        assert_eq!(all.len(), 1, "one page a run");
        all[0].clone()
    }
}

fn compile(flags: &[&str], source: &Path, product: &Path) {
    let status = Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(product)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "cannot compile {}", source.display());
}

fn data_of(html: &str) -> Value {
    let begin = html.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let end = begin + html[begin..].find("</script>").unwrap();
    serde_json::from_str(&html[begin..end]).unwrap()
}

fn cell<'a>(data: &'a Value, allocator: &str) -> &'a Value {
    &data["workloads"][0]["cells"][allocator]
}

/// True when one of a few tries succeeds; the last one's data is shown when none does.
fn within_tries(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..4 {
        match attempt() {
            Ok(()) => return,
            Err(what) => last = what,
        }
    }
    panic!("{last}");
}

#[test]
fn wasted_time_and_wasted_memory_are_ranked_below() {
    let toy = Toy::new();
    within_tries(|| {
        let data = toy.bench(
            &["plain=plain", "slow=waste_time", "fat=waste_memory"],
            &["--repeats", "7"],
        );
        let (slow, fat) = (cell(&data, "slow"), cell(&data, "fat"));
        let time = slow["cpu"]["ratio"].as_f64().unwrap();
        let memory = fat["rss"]["ratio"].as_f64().unwrap();
        let ranked = slow["cpu"]["rank"].as_u64() > Some(1)
            && slow["cpu"]["same"] == false
            && (1.03..1.30).contains(&time);
        let sized = fat["rss"]["rank"].as_u64() > Some(1)
            && fat["rss"]["same"] == false
            && (1.15..1.30).contains(&memory);
        let spared = slow["rss"]["same"] == true;
        if ranked && sized && spared {
            Ok(())
        } else {
            Err(format!("slow {slow}, fat {fat}"))
        }
    });
}

#[test]
fn one_allocator_under_two_names_is_equal() {
    let toy = Toy::new();
    within_tries(|| {
        let data = toy.bench(&["plain=plain", "again=plain"], &["--repeats", "6"]);
        let again = cell(&data, "again");
        let equal = ["cpu", "rss"]
            .iter()
            .all(|metric| again[metric]["same"] == true && again[metric]["rank"] == 1);
        if equal {
            Ok(())
        } else {
            Err(format!("{again}"))
        }
    });
}

/// Who is always the first pays for what another workload has left.
#[test]
fn each_allocator_is_the_first_in_turn() {
    let toy = Toy::new();
    toy.bench(
        &["plain=plain", "again=plain", "third=plain"],
        &["--repeats", "4"],
    );
    let record = toy.record();
    let runs = record["runs"].as_array().unwrap();
    let of = |round: u64| -> Vec<&str> {
        let runs = runs.iter().filter(|run| run["round"] == round);
        runs.map(|run| run["allocator"].as_str().unwrap()).collect()
    };
    assert_eq!(of(0), ["plain", "again", "third"]);
    assert_eq!(of(1), ["again", "third", "plain"]);
    assert_eq!(of(2), ["third", "plain", "again"]);
    assert_eq!(of(3), ["plain", "again", "third"]);
}

/// The rounds that a record lacks are added to it, also the one that an interruption cut.
#[test]
fn a_record_is_gone_on_with() {
    let toy = Toy::new();
    let words = ["plain=plain", "again=plain"];
    toy.bench(&words, &["--repeats", "2"]);
    let mut record = toy.record();
    let began = record["started"].clone();
    let kept = record["runs"][0]["cpu"].clone();
    record["runs"].as_array_mut().unwrap().pop();
    let cut = toy.path("cut.json");
    std::fs::write(&cut, record.to_string()).unwrap();
    let resume = ["--resume", cut.to_str().unwrap(), "--repeats", "3"];

    toy.bench(&words, &resume);
    let record = toy.record();
    let runs = record["runs"].as_array().unwrap();
    let of = |round: u64| -> Vec<&str> {
        let runs = runs.iter().filter(|run| run["round"] == round);
        runs.map(|run| run["allocator"].as_str().unwrap()).collect()
    };
    assert_eq!(of(0), ["plain", "again"]);
    assert_eq!(of(1), ["again", "plain"]);
    assert_eq!(of(2), ["plain", "again"]);
    assert_eq!(runs.len(), 6);
    assert_eq!(runs[0]["cpu"], kept, "what was there stays");
    assert_eq!(record["started"], began, "and so does its name");

    let refused = |words: &[&str], why: &str| {
        let error = toy.try_bench(words, &resume).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    };
    refused(
        &["plain=plain", "crash=crash"],
        "has the allocators plain,again",
    );
    let changed = |at: &str, value: &str, why: &str| {
        let mut record = record.clone();
        *record.pointer_mut(at).unwrap() = value.into();
        std::fs::write(&cut, record.to_string()).unwrap();
        refused(&words, why);
    };
    changed("/machine/kernel", "another", "it was measured on");
    changed("/workloads/0/program", "another", "other arguments since");
    std::fs::write(&cut, record.to_string()).unwrap();
    let library = std::fs::File::options()
        .append(true)
        .open(toy.path("shims/plain.so"))
        .unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    library.set_modified(later).unwrap();
    refused(&words, "was built after it began");
}

/// Its set-up failed when the record was gone on with: what was measured stays, and nothing of it is measured without its input.
#[test]
fn a_workload_without_its_input_keeps_its_runs() {
    let toy = Toy::new();
    let gone = toy.path("gone");
    std::fs::create_dir_all(toy.path("bench/real")).unwrap();
    let real = format!(
        "[[real]]\nname = \"once\"\nneeds = []\nquick = true\nsetup = \"test ! -e {}\"\ncommand = \"exec true\"\n",
        gone.display()
    );
    std::fs::write(toy.path("bench/real/real.toml"), real).unwrap();
    let words = ["plain=plain", "again=plain"];
    toy.bench(&words, &["--repeats", "1"]);
    let kept = toy.path("kept.json");
    std::fs::copy(toy.path("record.json"), &kept).unwrap();
    std::fs::write(&gone, "").unwrap();

    toy.bench(
        &words,
        &["--resume", kept.to_str().unwrap(), "--repeats", "2"],
    );
    let record = toy.record();
    let rounds = |workload: &str| {
        let runs = record["runs"].as_array().unwrap();
        let of = runs.iter().filter(|run| run["workload"] == workload);
        of.map(|run| run["round"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(rounds("once"), [0, 0]);
    assert_eq!(rounds("toy"), [0, 0, 1, 1]);
}

#[test]
fn failures_are_reported_as_such_and_have_no_figures() {
    let toy = Toy::new();
    let words = ["plain=plain", "crash=crash", "dirty=dirty", "glibc"];
    // A time limit that no machine, however busy, can miss.
    let data = toy.bench(&words, &["--repeats", "2", "--timeout", "600"]);
    assert_failed(&data, "crash", "crash");
    assert_failed(&data, "dirty", "wrong sum");
    assert!(cell(&data, "glibc")["failure"].is_null());
    let standings = data["standings"].as_array().unwrap();
    let crash = standings
        .iter()
        .find(|s| s["allocator"] == "crash")
        .unwrap();
    assert_eq!(crash["failed"], 1);
    assert!(crash["cpu"].is_null(), "a failed allocator has no mean");
}

#[test]
fn a_program_that_hangs_is_ended_and_called_a_time_out() {
    let toy = Toy::new();
    // On a very busy machine the others may be too slow for this limit as well, which is not asked about here.
    let data = toy.bench(
        &["hang=hang", "plain=plain"],
        &["--repeats", "1", "--timeout", "4"],
    );
    assert_failed(&data, "hang", "time-out");
}

fn assert_failed(data: &Value, allocator: &str, word: &str) {
    let cell = cell(data, allocator);
    assert_eq!(cell["failure"], word, "{cell}");
    assert!(
        cell["cpu"].is_null() && cell["rss"].is_null() && cell["wall"].is_null(),
        "{cell}"
    );
}

#[test]
fn what_cannot_be_loaded_is_skipped_with_a_reason() {
    let toy = Toy::new();
    std::fs::write(toy.path("broken.so"), "no library at all").unwrap();
    let broken = toy.path("broken.so").display().to_string();
    let data = toy.bench(&["plain=plain", &broken, "nobody"], &["--repeats", "1"]);
    let skipped = data["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(
        skipped
            .iter()
            .all(|s| !s["reason"].as_str().unwrap().is_empty())
    );
    assert_eq!(data["allocators"].as_array().unwrap().len(), 1);
}
