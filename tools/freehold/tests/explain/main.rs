//! `freehold explain` on real programs: its parts against what the kernel says, and, where the program knows what it
//! has, against that.

mod at_work;
mod fields;
mod grown;
#[path = "../observed/mod.rs"]
mod observed;
mod others;
mod sizes;
mod unsampled;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use observed::*;
use profile_file::testing::skip;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Does one of several things to its heap, says what it holds and how much of it was touched, and waits for a line.
const PROGRAM: &str = r#"
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t held;
static void *take(size_t n) { char *p = malloc(n); memset(p, 1, n); held += n; return p; }
static void drop(void *p, size_t n) { free(p); held -= n; }
static unsigned state = 1;
static unsigned next(void) { return state = state * 1664525u + 1013904223u, state >> 8; }

#define MANY 200000
static void *block[MANY];
static size_t size[MANY];

static void churn(void) {
    for (int i = 0; i < 1000000; i++) {
        unsigned k = next() % 50000;
        if (block[k]) drop(block[k], size[k]);
        size[k] = 16 + next() % 1500;
        block[k] = take(size[k]);
    }
}
static void sparse(void) {
    for (int i = 0; i < MANY; i++) block[i] = take(size[i] = 24 + next() % 600);
    for (int i = 0; i < MANY; i++) if (i % 16) drop(block[i], size[i]);
}
static void huge(void) {
    for (int i = 0; i < 5; i++) {
        char *p = malloc(20 << 20);
        memset(p, 1, 10 << 20);
        held += 10 << 20;
        block[i] = p;
    }
}
/* The long block that was freed last waits for the next one of its length, and is free. */
static void kept(void) {
    static char in[4096], out[4096];
    setvbuf(stdin, in, _IOFBF, sizeof in), setvbuf(stdout, out, _IOFBF, sizeof out); /* they allocate nothing later */
    for (int i = 0; i < 200; i++) take(60000);
    void *p = take(3 << 20);
    drop(p, 3 << 20);
}
/* Large blocks, most of which is untouched. Some of them begin in one chunk and end in the next. */
static void hollow(void) {
    for (int i = 0; i < 2000; i++) {
        char *p = malloc(100000 + i % 7 * 40000);
        p[0] = p[60000] = 1;
        block[i] = p;
        held += 2 * 4096;
    }
}
/* Only read: behind these pages is the kernel's page of zeros, and the kernel does not count it. */
static void only_read(void) {
    volatile char sum = 0;
    for (int i = 0; i < 64; i++) {
        volatile char *p = malloc(1000000), *q = malloc(5000000);
        for (int k = 4096; k < 990000; k += 4096) sum += p[k];
        for (int k = 4096; k < 4990000; k += 4096) sum += q[k];
    }
    take(8 << 20);
}
static pthread_barrier_t barrier;
static void *thread(void *unused) {
    void *mine[300];
    for (int i = 0; i < 300; i++) { mine[i] = malloc(2000); memset(mine[i], 1, 2000); }
    /* So that what the thread's cache holds was written to: the kernel knows nothing of blocks that were not. */
    for (int i = 200; i < 300; i++) free(mine[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 200; i++) free(mine[i]);
    return unused;
}
static void threads(void) {
    pthread_t t;
    pthread_barrier_init(&barrier, NULL, 65);
    for (int i = 0; i < 64; i++) pthread_create(&t, NULL, thread, NULL);
    pthread_barrier_wait(&barrier);
    held += 64 * 200 * 2000;
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "churn")) churn();
    if (!strcmp(what, "sparse") || !strcmp(what, "trimmed")) sparse();
    if (!strcmp(what, "trimmed")) malloc_trim(0);
    if (!strcmp(what, "huge")) huge();
    if (!strcmp(what, "kept")) kept();
    if (!strcmp(what, "read")) only_read();
    if (!strcmp(what, "hollow")) hollow();
    if (!strcmp(what, "threads")) threads();
    if (argc > 2) {
        /* It stands still: nobody but the reader can count now. */
        printf("%zu\n", held), fflush(stdout);
        return getchar() == EOF;
    }
    /* Into the slow paths, where the heap is counted when somebody asks, until a line comes. */
    struct pollfd line = {0, POLLIN, 0};
    for (int round = 0; poll(&line, 1, 20) == 0; round++) {
        /* More than any cache has. */
        static void *some[4000];
        for (int i = 0; i < 4000; i++) some[i] = malloc(64), memset(some[i], 1, 64);
        for (int i = 0; i < 4000; i++) free(some[i]);
        if (round == 20) printf("%zu\n", held), fflush(stdout);
    }
    return 0;
}
"#;

/// An explanation, checked as every one must be.
struct Explained {
    json: Value,
    parts: BTreeMap<String, u64>,
    /// What all parts come to, and what the kernel said.
    sum: u64,
    resident: u64,
}

impl Explained {
    /// The parts must add up to what the kernel says of a program that stands still.
    fn of(name: &str, pid: u32) -> Self {
        let it = Self::read(name, pid);
        assert!(
            it.adds_up(),
            "{name}: the parts add up to {}, resident are {}: {:#}",
            it.sum,
            it.resident,
            it.json
        );
        it.hides_nothing(name);
        it
    }

    /// The kernel may put pages together and so bring memory to a program that stands still: then it is read again.
    fn read(name: &str, pid: u32) -> Self {
        settle(pid);
        let mut it = Self::look(name, pid);
        for _ in 0..10 {
            if resident(pid) == Some(it.resident) {
                break;
            }
            settle(pid);
            it = Self::look(name, pid);
        }
        it
    }

    /// Of a program that goes on meanwhile.
    fn look(name: &str, pid: u32) -> Self {
        let resident = resident(pid).unwrap();
        let json: Value =
            serde_json::from_str(&answer(&["explain", "--json", &pid.to_string()])).unwrap();
        let mut parts = BTreeMap::new();
        let mut sums = [0i64, 0];
        for (sum, group) in sums.iter_mut().zip(["freehold", "other"]) {
            for line in json[group].as_array().unwrap() {
                let bytes = line["bytes"].as_i64().unwrap();
                *sum += bytes;
                let part = line["part"].as_str().unwrap();
                assert!(bytes >= 0 || part == "unexplained", "{name}: {json:#}");
                parts.insert(part.to_owned(), bytes.max(0) as u64);
            }
        }
        let sums = sums.map(|sum| sum as u64);
        assert_eq!(json["freehold_bytes"], sums[0], "{name}: {json:#}");
        assert_eq!(json["other_bytes"], sums[1], "{name}: {json:#}");
        Self {
            json,
            parts,
            sum: sums[0] + sums[1],
            resident,
        }
    }

    fn adds_up(&self) -> bool {
        self.sum.abs_diff(self.resident) * 50 <= self.resident
    }

    /// The same of a program that goes through the allocator's slow paths, so that its figures are not old: what was
    /// counted, before any of it is made to fit, is what is resident within 2 %. It purges while it is read, so one reading
    /// of six has to be right; a wrong sum is wrong each time.
    fn counted_of(name: &str, pid: u32) -> Self {
        for reading in 0..6 {
            // On a busy machine the program may not have run since the last one.
            std::thread::sleep(std::time::Duration::from_millis(200 * reading));
            settle(pid);
            let it = Self::look(name, pid);
            println!(
                "{name}: parts {}, counted {}, resident {}",
                it.sum,
                it.counted(),
                it.resident
            );
            if it.adds_up() && it.counted().abs_diff(it.resident) * 50 <= it.resident {
                it.hides_nothing(name);
                return it;
            }
        }
        panic!(
            "{name}: the sum of the parts or what was counted is not what is resident, in six readings"
        );
    }

    /// What was counted and is not resident, or the other way round, is told by its name.
    fn hides_nothing(&self, name: &str) {
        let (sum, room) = (self.counted(), self.resident / 50);
        println!("{name}: {sum} bytes counted of {}", self.resident);
        let told = self.unexplained();
        assert!(
            (self.resident as i64 - sum as i64 - told).unsigned_abs() <= room,
            "{name}: {sum} bytes were counted, and it is not told: {:#}",
            self.json
        );
    }

    fn unexplained(&self) -> i64 {
        let lines = self.json["freehold"].as_array().unwrap();
        let line = lines.iter().find(|line| line["part"] == "unexplained");
        line.map_or(0, |line| line["bytes"].as_i64().unwrap())
    }

    fn counted(&self) -> u64 {
        let bytes = |key: &str| self.json[key].as_u64().unwrap();
        bytes("counted_bytes") + bytes("other_bytes")
    }

    fn part(&self, name: &str) -> u64 {
        self.parts.get(name).copied().unwrap_or(0)
    }

    /// How far a part may be off, as the explanation itself says.
    fn error(&self, name: &str) -> u64 {
        let lines = self.json["freehold"].as_array().unwrap();
        let line = lines.iter().find(|line| line["part"] == name);
        line.and_then(|line| line["error_bytes"].as_u64())
            .unwrap_or(0)
    }

    fn finding(&self) -> &str {
        self.json["verdict"]["finding"].as_str().unwrap()
    }

    /// What the program says it holds must lie within five of the stated errors, and a page's worth of each class.
    fn holds(&self, name: &str, part: &str, held: u64) {
        let allowed = 5 * self.error(part) + held / 20 + MIB / 2;
        let found = self.part(part);
        assert!(
            found.abs_diff(held) <= allowed,
            "{name}: held {held}, {part} is {found} ± {}: {:#}",
            self.error(part),
            self.json
        );
    }
}

/// Starts the C program in one of its ways; gives it with what it says it holds.
fn start(directory: &Path, what: &str) -> (Observed, u64) {
    start_with(directory, what, &[])
}

fn start_with(directory: &Path, what: &str, more: &[&str]) -> (Observed, u64) {
    let program = compile(directory, what, PROGRAM, &[]);
    // More samples than by default: smaller errors, so that a wrong answer shows.
    let program = [&[program.to_str().unwrap(), what], more].concat();
    let mut run = Observed::start_with(&["--sample", "64k"], &program, |command| {
        command.env("FREEHOLD", "thp=never");
    });
    let held = run.line().parse().unwrap();
    (run, held)
}

#[test]
fn a_heap_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start(directory.path(), "churn");
    let it = Explained::counted_of("churn", run.pid());
    it.holds("churn", "live", held);
    assert_eq!(it.json["alive"], true);
    // 16-byte steps and an eighth of the larger ones: what is rounded up is little.
    assert!(it.part("rounding") <= held / 9 + MIB, "{:#}", it.json);
    assert!(it.part("profiler") > 0, "{:#}", it.json);
    run.end();
}

#[test]
fn a_fragmented_heap_is_called_that() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start(directory.path(), "sparse");
    let it = Explained::counted_of("sparse", run.pid());
    it.holds("sparse", "live", held);
    assert!(it.part("free_in_slabs") > 20 * MIB, "{:#}", it.json);
    assert_eq!(it.finding(), "fragmentation", "{:#}", it.json);
    assert!(!it.json["fragmented_classes"].as_array().unwrap().is_empty());
    run.end();
}

/// One that waits for input takes no statistics. What it did last is counted from outside, in its memory.
#[test]
fn a_program_that_stands_still_is_counted_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for what in ["churn", "sparse", "trimmed", "huge", "kept", "threads"] {
        let (run, held) = start_with(directory.path(), what, &["idle"]);
        let it = Explained::of(what, run.pid());
        assert!(
            it.unexplained().unsigned_abs() * 50 <= it.resident,
            "{what}: {:#}",
            it.json
        );
        let live = it.part("live") + it.part("huge_live");
        let error = it.error("live") + it.error("huge_live");
        assert!(
            live.abs_diff(held) <= 5 * error + held / 20 + 4 * MIB,
            "{what}: held {held}: {:#}",
            it.json
        );
        let notes = it.json["notes"].to_string();
        assert!(!notes.contains(" old: "), "{what}: {notes}");
        run.end();
    }
}

/// Pages that were only read are in no sum of the kernel's, so they are none of what the program holds either.
#[test]
fn what_was_only_read_is_not_in_memory() {
    let pages = profile_file::page_map::PageMap::open(u64::from(std::process::id())).unwrap();
    if !pages.tells_zero_pages() {
        skip("this kernel does not tell pages that were only read");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start_with(directory.path(), "read", &["idle"]);
    let it = Explained::of("read", run.pid());
    let json = &it.json;
    assert!(
        it.unexplained().unsigned_abs() * 50 <= it.resident,
        "{json:#}"
    );
    let live = it.part("live") + it.part("huge_live");
    assert!(live.abs_diff(held) <= MIB, "held {held}: {json:#}");
    run.end();
}

/// Of a large block the touched pages count, also those behind the end of the chunk that it begins in.
#[test]
fn of_large_blocks_what_was_touched_counts() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start_with(directory.path(), "hollow", &["idle"]);
    let it = Explained::of("hollow", run.pid());
    let json = &it.json;
    assert!(
        it.unexplained().unsigned_abs() * 50 <= it.resident,
        "{json:#}"
    );
    assert!(
        it.part("live").abs_diff(held) * 50 <= held,
        "held {held}: {json:#}"
    );
    run.end();
}

#[test]
fn what_was_trimmed_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start(directory.path(), "trimmed");
    let it = Explained::counted_of("trimmed", run.pid());
    it.holds("trimmed", "live", held);
    // What was counted before the trim may still be among it, but then its error says so.
    let kept = it.part("dirty") + it.part("cached");
    assert!(
        kept < 8 * MIB + it.error("dirty") + it.error("cached"),
        "{:#}",
        it.json
    );
    run.end();
}

#[test]
fn of_huge_blocks_what_was_touched_counts() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start(directory.path(), "huge");
    let it = Explained::counted_of("huge", run.pid());
    let live = it.part("huge_live");
    // Huge pages may reach a little beyond what was touched.
    assert!(
        live >= held && live <= held + 5 * 2 * MIB,
        "held {held}: {:#}",
        it.json
    );
    run.end();
}

#[test]
fn many_threads_and_their_stacks() {
    let directory = tempfile::tempdir().unwrap();
    let (run, held) = start(directory.path(), "threads");
    let it = Explained::counted_of("threads", run.pid());
    it.holds("threads", "live", held);
    assert!(it.part("stacks") >= 64 * 4096, "{:#}", it.json);
    run.end();
}

/// Takes a little every 10 ms: what "leak" takes stays, of what "cache" takes the oldest goes once it is full.
const GROWING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *take(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
static void *cache[5000], *last;
int main(int argc, char **argv) {
    int leak = argc > 1 && !strcmp(argv[1], "leak");
    puts("ready");
    fflush(stdout);
    for (unsigned i = 0;; i++) {
        for (unsigned k = 0; k < 50; k++) {
            void **place = &cache[(i * 50 + k) * 37 % 5000];
            if (!leak) free(*place);
            *place = last = take(2000 + i % 100);
        }
        usleep(10000);
    }
}
"#;

fn grow(what: &str, test: impl FnOnce(u32)) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), what, GROWING, &[]);
    let mut run = Observed::start(&[], &[program.to_str().unwrap(), what]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid();
    test(pid);
    assert!(
        Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    run.end();
}

fn finding_of(pid: u32) -> (String, String) {
    let json: Value =
        serde_json::from_str(&answer(&["explain", "--json", &pid.to_string()])).unwrap();
    let text = |name: &str| json["verdict"][name].as_str().unwrap().to_owned();
    (text("finding"), text("sentence"))
}

#[test]
fn a_leak_is_growth() {
    grow("leak", |pid| {
        let sentence = wait_for("the verdict", || {
            let (finding, sentence) = finding_of(pid);
            (finding == "growth").then_some(sentence)
        });
        assert!(
            // What `leaks` finds, or growth of the whole before any site has the samples.
            sentence.starts_with("A likely leak: what ")
                || sentence.starts_with("Live memory grows by "),
            "{sentence}"
        );
    });
}

#[test]
fn a_cache_that_is_full_is_none() {
    grow("cache", |pid| {
        // It fills within a second, or later on a busy machine; what counts is the later half of the time, and two
        // seconds of that. What grows for good is called growth however long one waits.
        let begin = std::time::Instant::now();
        wait_for("that a full cache is fine", || {
            let late = begin.elapsed() > std::time::Duration::from_secs(6);
            (late && finding_of(pid).0 == "fine").then_some(())
        });
    });
}

#[test]
fn a_process_without_freehold_is_explained_as_far_as_it_goes() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    // It is a copy of this process until it has become the other program.
    wait_for("the program", || {
        let path = std::fs::read_link(format!("/proc/{}/exe", child.id())).ok()?;
        (path != std::env::current_exe().ok()?).then_some(())
    });
    let it = Explained::of("sleep", child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(it.finding(), "not_active");
    assert_eq!(it.json["freehold_bytes"], 0);
    assert!(it.part("code") > 0);
}

#[test]
fn freehold_without_observing_is_found_by_its_window() {
    let library = library();
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "plain", PROGRAM, &[]);
    let mut child = Command::new(program)
        .arg("churn")
        .env("LD_PRELOAD", library)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.as_mut().unwrap()),
        &mut line,
    )
    .unwrap();
    let held: u64 = line.trim().parse().unwrap();
    let it = Explained::of("unobserved", child.id());
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(it.finding(), "not_observed", "{:#}", it.json);
    assert!(it.part("blocks") >= held, "held {held}: {:#}", it.json);
}

#[test]
fn what_cannot_be_explained_is_named() {
    let said = complaint(&["explain", "4194999"], 2);
    assert!(
        said.starts_with("freehold: there is no process 4194999"),
        "{said}"
    );
    let said = complaint(&["explain", "no-such-program-anywhere"], 2);
    assert!(
        said.contains("no program called \"no-such-program-anywhere\""),
        "{said}"
    );

    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("freehold-1");
    std::fs::write(&empty, b"").unwrap();
    let said = complaint(&["explain", empty.to_str().unwrap()], 2);
    assert!(said.contains("freehold-1: "), "{said}");

    let (run, _) = start(directory.path(), "nothing");
    let mut profile = std::fs::read(&run.profile_files()[0]).unwrap();
    run.end();
    // The number of the layout, behind the magic word.
    profile[8..12].copy_from_slice(&77u32.to_le_bytes());
    let other = directory.path().join("freehold-2");
    std::fs::write(&other, &profile).unwrap();
    let said = complaint(&["explain", other.to_str().unwrap()], 2);
    assert!(said.contains("77"), "the layout is named: {said}");
}

#[test]
fn a_name_means_the_process_even_beside_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let (run, _) = start(directory.path(), "nothing");
    let pid = run.pid();
    let output = Command::new(command())
        .args(["explain", "--json", "nothing"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["pid"], pid);
    run.end();
}

#[test]
fn somebody_elses_process_is_refused_with_a_reason() {
    use std::os::unix::process::CommandExt;
    if !rustix_is_root() {
        return skip("only root can try it as somebody else");
    }
    // Where that user may not read our build directory, a copy is what he runs.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("freehold");
    std::fs::copy(command(), &copy).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&copy, 0o755)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let output = Command::new(&copy)
        .args(["explain", &std::process::id().to_string()])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("belongs to somebody else") && said.contains("as root"),
        "{said}"
    );
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
