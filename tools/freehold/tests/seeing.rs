//! The sentences of `docs/seeing.md` tried on programs that are not ours: Python, Perl and Node, each with a script that takes
//! memory, waits, and takes more. What a sentence says is asked of each of them; other tests ask it of programs made for it.

mod observed;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use observed::{answer, freehold, installed, text, wait_for};
use profile_file::testing::{skip, skip_part};
use serde_json::Value;
use tempfile::TempDir;

/// An interpreter, its script's ending, and the script: 32 MB at first, as many more for a line of input, and the end.
const PROGRAMS: [(&str, &str, &str); 3] = [
    (
        "python3",
        "py",
        "import sys\n\
         def grow(): return [bytes(b'x' * (500 + i % 1000)) for i in range(32000)]\n\
         kept = grow()\n\
         print('ready', flush=True)\n\
         sys.stdin.readline()\n\
         more = grow()\n\
         print('more', flush=True)\n\
         sys.stdin.readline()\n\
         print('error of its own', file=sys.stderr)\n\
         sys.exit(7)\n",
    ),
    (
        "perl",
        "pl",
        "$| = 1;\n\
         sub grow { return map { 'x' x (500 + $_ % 1000) } 1 .. 32000 }\n\
         my @kept = grow();\n\
         print \"ready\\n\";\n\
         <STDIN>;\n\
         my @more = grow();\n\
         print \"more\\n\";\n\
         <STDIN>;\n\
         print STDERR \"error of its own\\n\";\n\
         exit 7;\n",
    ),
    (
        "node",
        "js",
        "const grow = () => Array.from({length: 32000}, (_, i) => { const b = Buffer.allocUnsafeSlow(500 + i % 1000); \
         b.fill(1); return b; });\n\
         const kept = grow(); let more;\n\
         console.log('ready');\n\
         process.stdin.on('data', () => {\n\
           if (more) { console.error('error of its own'); process.exit(7); }\n\
           more = [kept, grow()]; console.log('more');\n\
         });\n",
    ),
];

/// A script, and the name that it has nowhere else.
struct Script {
    interpreter: PathBuf,
    name: String,
    path: PathBuf,
    directory: TempDir,
}

/// The scripts of the interpreters that are installed.
fn scripts(stem: &str) -> Vec<Script> {
    let mut found = Vec::new();
    for (interpreter, ending, text) in PROGRAMS {
        // Not a shim, which would be a process of its own.
        let Some(path) = [Path::new("/usr/bin"), Path::new("/usr/local/bin")]
            .map(|directory| directory.join(interpreter))
            .into_iter()
            .find(|path| path.is_file())
        else {
            skip_part(&format!("{interpreter} is not installed"));
            continue;
        };
        let directory = tempfile::tempdir().unwrap();
        let name = format!("{stem}-{}.{ending}", std::process::id());
        let script = directory.path().join(&name);
        std::fs::write(&script, text).unwrap();
        found.push(Script {
            interpreter: path,
            name,
            path: script,
            directory,
        });
    }
    if found.is_empty() {
        skip("none of Python, Perl and Node is installed");
    }
    found
}

impl Script {
    fn start(&self, options: &[&str]) -> observed::Observed {
        let program = [
            self.interpreter.to_str().unwrap(),
            self.path.to_str().unwrap(),
        ];
        let mut run = observed::Observed::start(options, &program);
        assert_eq!(run.line(), "ready", "{}", self.name);
        run
    }

    fn file(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }
}

fn json(arguments: &[&str]) -> Value {
    let said = answer(arguments);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

/// The bytes behind a word of the summary: `heap at most 33.1 MiB`.
fn kernel_peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() << 10
}

/// "Input, output, signals and the exit code are the program's own. The three lines go to stderr when it has ended." "*Resident* is
/// what the kernel counts for the whole process." "After each of these the profile file is still there." "The first line says how
/// it ended, and what ended it."
#[test]
fn run() {
    for script in scripts("seeing-run") {
        let mut run = script.start(&["--json", "--sample", "64k"]);
        let pid = run.pid();
        run.say("\n");
        assert_eq!(run.line(), "more");
        let peak = kernel_peak(pid);
        run.say("\n");
        let (code, said, _kept) = run.end();
        assert_eq!(code, 7, "{}: {said}", script.name);
        let (own, summary) = said.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(own, "error of its own");
        let summary: Value = serde_json::from_str(summary).unwrap();
        let resident = summary["peak_resident_bytes"].as_u64().unwrap();
        assert!(resident.abs_diff(peak) <= peak / 10, "{resident} of {peak}");
        let heap = &summary["heap"];
        let bytes = |key: &str| heap[key].as_u64().unwrap();
        assert!(bytes("peak_bytes") > 40 << 20, "{summary:#}");
        assert!(bytes("peak_bytes") < resident + (8 << 20), "{summary:#}");
        // What is named as the next command can be typed, and the profile file is there.
        let next = summary["next"].as_str().unwrap().to_owned();
        let words: Vec<&str> = next.split_whitespace().skip(1).collect();
        assert!(answer(&words).contains(&script.name), "{next}");

        let mut run = script.start(&[]);
        let pid = run.pid();
        let sent = Command::new("kill").arg(pid.to_string()).status().unwrap();
        assert!(sent.success());
        run.say("\n");
        let (code, said, kept) = run.end();
        assert_eq!(code, 128 + 15, "{}: {said}", script.name);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines.iter().all(|line| line.starts_with("freehold: ")));
        assert!(lines[0].contains("was ended by SIGTERM after"), "{said}");
        let profile = kept.path().join(format!("freehold-{pid}"));
        for command in ["profile", "leaks", "explain"] {
            let output = freehold(&[command, profile.to_str().unwrap()]);
            // `leaks` has no verdict on less than a second.
            assert!(matches!(output.status.code(), Some(0..=2)), "{command}");
            assert!(text(&output.stdout).contains(&script.name), "{command}");
        }
    }
}

/// "Each takes a process number, a program's name, the profile file of a program that has ended, or a saved snapshot." "An
/// interpreter has its script's name. The file's name finds it too." "Each command has `--json`, and `--help` with examples."
#[test]
fn each_command_takes_each_word() {
    for script in scripts("seeing-words") {
        let run = script.start(&["--sample", "64k"]);
        let pid = run.pid().to_string();
        let saved = script.file("saved.fhs");
        answer(&["profile", &pid, "--save", &saved]);
        let profile = run.profiles.path().join(format!("freehold-{pid}"));
        let profile = profile.to_str().unwrap().to_owned();
        let page = script.file("page.html");
        rows_of_top_are_rows_of_profile(&saved);
        for word in [&pid, &script.name, &saved, &profile] {
            for arguments in [
                &["profile", "--json", word][..],
                &["explain", "--json", word],
                &["leaks", "--json", "--for", "0", word],
                &["top", "--once", "--json", word],
                &["diff", "--json", &saved, word],
            ] {
                let output = freehold(arguments);
                assert!(
                    matches!(output.status.code(), Some(0..=2)),
                    "{arguments:?}: {}",
                    text(&output.stderr)
                );
                let said = text(&output.stdout);
                serde_json::from_str::<Value>(&said)
                    .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"));
            }
            // The page has the names of all sites, which takes its time.
            if word == &saved {
                answer(&["report", word, "-o", &page]);
            }
            assert!(answer(&["metrics", word]).ends_with("# EOF\n"), "{word}");
        }
        let binary = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let binary = binary.file_name().unwrap().to_str().unwrap();
        // Other tests run the same interpreter: then they are listed, and this one is among them.
        let output = freehold(&["profile", "--json", binary]);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(all.contains(&script.name), "{binary}: {all}");
        let said = answer(&["doctor", &pid]);
        assert!(
            said.contains(&format!("/freehold-{pid}")),
            "{profile}: {said}"
        );
    }
    for command in [
        "run", "top", "explain", "profile", "leaks", "diff", "report", "metrics", "doctor",
    ] {
        let help = answer(&[command, "--help"]);
        assert!(help.contains(&format!("freehold {command} ")), "{help}");
    }
}

/// "A row is a line of the program, as in `profile`."
fn rows_of_top_are_rows_of_profile(saved: &str) {
    let rows = |command: &[&str], list: &str, live: &str| -> Vec<f64> {
        let said = json(command);
        let rows = said[list].as_array().unwrap().iter();
        let bytes = rows.map(|row| row.pointer(live).and_then(Value::as_f64).unwrap());
        bytes.filter(|bytes| *bytes > 0.0).take(12).collect()
    };
    let top = rows(&["top", "--once", "--json", saved], "sites", "/live_bytes");
    let profile = rows(&["profile", "--json", saved], "groups", "/live/bytes");
    assert!(!top.is_empty() && top.len() <= profile.len());
    for (ours, theirs) in top.iter().zip(&profile) {
        assert!((ours / theirs - 1.0).abs() < 1e-6, "{top:?} {profile:?}");
    }
}

/// "The parts add up to what the kernel counts as resident." "In JSON, `counted_bytes` is the sum without *unexplained*. It is within
/// 2 % of what is resident."
#[test]
fn explain() {
    for script in scripts("seeing-explain") {
        let run = script.start(&[]);
        let pid = run.pid();
        let mut last = Value::Null;
        let right = (0..4).any(|_| {
            observed::settle(pid);
            last = json(&["explain", "--json", &pid.to_string()]);
            let sum = |part: &str| -> i64 {
                let lines = last[part].as_array().unwrap().iter();
                lines.map(|line| line["bytes"].as_i64().unwrap()).sum()
            };
            let resident = last["resident_bytes"].as_i64().unwrap();
            let kernel = observed::resident(pid).unwrap() as i64;
            let whole = sum("freehold") + sum("other");
            let counted = last["counted_bytes"].as_i64().unwrap() + sum("other");
            (resident - kernel).abs() <= kernel / 100
                && (whole - resident).abs() <= resident / 100
                && (counted - resident).abs() <= resident / 50
        });
        assert!(right, "{}: {last:#}", script.name);
    }
}

/// The tables of `freehold profile`; "with `--sample 1` every block is counted, and the sums are exact".
#[test]
fn profile() {
    for script in scripts("seeing-profile") {
        let run = script.start(&["--sample", "1"]);
        let pid = run.pid().to_string();
        for view in [
            "--live",
            "--allocated",
            "--peak",
            "--short-lived",
            "--freed",
        ] {
            assert!(!answer(&["profile", &pid, view]).is_empty(), "{view}");
        }
        let live = |by: &str| {
            let all = json(&["profile", "--json", &pid, "-n", "1000000", "--by", by]);
            assert_eq!(all["about"]["exact"], true);
            assert_eq!(all["totals"]["live"]["error"].as_f64(), Some(0.0));
            let groups = all["groups"].as_array().unwrap().iter();
            let sum: f64 = groups
                .map(|group| group["live"]["bytes"].as_f64().unwrap())
                .sum();
            (sum, all["totals"]["live"]["bytes"].as_f64().unwrap())
        };
        let (_, whole) = live("site");
        // 32,000 blocks of 500 to 1,499 bytes.
        assert!((31e6..60e6).contains(&whole), "{}: {whole}", script.name);
        for by in ["site", "stack", "file", "module"] {
            let (sum, total) = live(by);
            assert!(
                (sum - total).abs() <= total / 1000.0,
                "{by}: {sum} of {total}"
            );
        }

        let page = script.file("flame.html");
        answer(&["profile", &pid, "--html", &page]);
        let page = std::fs::read_to_string(&page).unwrap();
        let links = ["src=\"http", "href=\"http", "url(http", "@import"];
        assert!(
            links.iter().all(|link| !page.contains(link)),
            "{}",
            script.name
        );
        let collapsed = answer(&["profile", &pid, "--collapsed"]);
        let counts = collapsed
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1);
        let sum: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
        assert!(
            (sum as f64 - whole).abs() <= whole / 50.0,
            "{sum} of {whole}"
        );
        let pprof = script.file("profile.pb.gz");
        answer(&["profile", &pid, "--pprof", &pprof]);
        assert_eq!(std::fs::read(&pprof).unwrap()[..2], [0x1f, 0x8b]);
    }
}

/// "`grew` is beyond four standard deviations." "`w` writes a snapshot for `freehold diff`"; `--save` does too. A program that grew is
/// seen to have grown by as much as it took.
#[test]
fn diff_and_top() {
    for script in scripts("seeing-diff") {
        let mut run = script.start(&["--sample", "16k"]);
        let pid = run.pid().to_string();
        let before = script.file("before.fhs");
        answer(&["profile", &pid, "--save", &before]);
        run.say("\n");
        assert_eq!(run.line(), "more");
        let wanted = 32000.0 * 1000.0;
        let mut grown = 0.0;
        wait_for("what it took", || {
            let changed = json(&["diff", "--json", &before, &pid]);
            grown = changed["whole"]["bytes"].as_f64().unwrap();
            (grown > 0.85 * wanted && grown < 1.4 * wanted).then_some(())
        });
        let said = answer(&["diff", &before, &pid]);
        assert!(said.contains(" grew "), "{said}");
        // Nothing changes against itself.
        let same = json(&["diff", "--json", &before, &before]);
        assert_eq!(same["whole"]["bytes"].as_f64(), Some(0.0));
        let top = answer(&["top", "--once", &pid]);
        assert!(top.contains(&script.name) && top.contains("RSS"), "{top}");
    }
}

/// "The exit code is 1 if that was found, 2 if there was no answer. There is none if less than a second was observed." "A pattern that
/// matched nothing is named."
#[test]
fn leaks() {
    for script in scripts("seeing-leaks") {
        let run = script.start(&["--sample", "16k"]);
        let pid = run.pid().to_string();
        let young = freehold(&["leaks", &pid, "--for", "0", "--fail-on", "likely"]);
        assert!(
            matches!(young.status.code(), Some(0 | 2)),
            "{}",
            text(&young.stdout)
        );
        std::thread::sleep(Duration::from_millis(1500));
        // It stands still: nothing leaks.
        answer(&["leaks", &pid, "--for", "0", "--fail-on", "likely"]);
        let suppressions = script.file("suppressions");
        std::fs::write(&suppressions, "leak:no_such_function_at_all\n").unwrap();
        let output = freehold(&["leaks", &pid, "--for", "0", "--suppressions", &suppressions]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("no_such_function_at_all"), "{said}");
    }
}

/// "One HTML page that needs no network and no other file." "OpenMetrics text of every statistic"; "`--output FILE` replaces a file as a
/// whole". "`freehold_live_bytes + freehold_huge_bytes` is what the program holds."
#[test]
fn report_and_metrics() {
    for script in scripts("seeing-report") {
        let run = script.start(&["--sample", "64k"]);
        let pid = run.pid();
        observed::settle(pid);
        let pid = pid.to_string();
        let page = script.file("report.html");
        let said = answer(&["report", &pid, "-o", &page]);
        assert!(said.contains(&script.name), "{said}");
        let page = std::fs::read_to_string(&page).unwrap();
        let links = ["src=\"http", "href=\"http", "url(http", "@import"];
        assert!(
            links.iter().all(|link| !page.contains(link)),
            "{}",
            script.name
        );
        let file = script.file("metrics.prom");
        std::fs::write(&file, "old").unwrap();
        answer(&["metrics", &pid, "--output", &file]);
        let metrics = std::fs::read_to_string(&file).unwrap();
        let value = |name: &str| -> f64 {
            let line = metrics
                .lines()
                .find(|line| line.split(' ').next() == Some(name))
                .unwrap_or_else(|| panic!("no {name}: {metrics}"));
            line.rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        let held = value("freehold_live_bytes") + value("freehold_huge_bytes");
        assert!((24e6..200e6).contains(&held), "{}: {held}", script.name);
    }
}

/// "Freehold cannot be active in a program that is statically linked, setuid, or brings a malloc of its own. `run` says so before it
/// starts it, and starts it all the same." Of a program of others: busybox or the dynamic linker's own cache tool is static.
#[test]
fn a_static_program_is_started_all_the_same() {
    let found = ["busybox", "ldconfig"].into_iter().find_map(|name| {
        let places = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];
        let path = places.map(|place| Path::new(place).join(name));
        path.into_iter().find(|path| path.is_file())
    });
    let program = found.filter(|path| {
        let about = Command::new("readelf").arg("-l").arg(path).output();
        installed("readelf") && about.is_ok_and(|it| !text(&it.stdout).contains("INTERP"))
    });
    let Some(program) = program else {
        return skip("no statically linked program is installed");
    };
    let output = Command::new(observed::command())
        .args(["run", "--", program.to_str().unwrap(), "--help"])
        .env_remove("LD_PRELOAD")
        .env_remove("FREEHOLD")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("Freehold will not be active in"), "{said}");
    assert!(said.contains("statically linked"), "{said}");
}
