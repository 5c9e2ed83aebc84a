//! Where an answer goes: to a reader who has seen enough, to a full disk, to something that is no file. And to whom: a
//! question is asked by number, name or file alike.

#[allow(
    dead_code,
    reason = "profile files are made in other tests from more of its parts"
)]
mod made_up;
mod observed;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use observed::*;
use profile_file::testing::skip;

/// The profile file of a made-up program.
fn saved(directory: &Path) -> String {
    let program = made_up::Program::build(directory);
    let profile = directory.join("page");
    let mut made = program.table(4096);
    made.statistics(|statistics| statistics.resident_bytes = 8 << 20);
    fs::write(&profile, made.bytes()).unwrap();
    profile.display().to_string()
}

/// Every form of an answer about a profile file.
fn questions(profile: &str) -> Vec<Vec<&str>> {
    let mut questions = vec![
        vec!["profile", profile, "--collapsed"],
        vec!["report", profile, "--json"],
        vec!["top", profile, "--once"],
        vec!["top", profile, "--once", "--json"],
        vec!["diff", profile, profile, "--all"],
        vec!["diff", profile, profile, "--json"],
        vec!["metrics", profile],
        vec!["metrics", profile, "--json"],
        vec!["run", "--list"],
        vec!["run", "--list", "--json"],
        vec!["completions", "bash"],
        vec!["manual"],
        vec!["doctor", "--", "cat"],
    ];
    for command in ["explain", "profile", "leaks", "doctor"] {
        questions.push(vec![command, profile]);
        questions.push(vec![command, profile, "--json"]);
    }
    questions
}

/// All that a command prints about a profile file.
fn all_said(question: &[&str]) -> String {
    let output = Command::new(command()).args(question).output().unwrap();
    let texts = [output.stdout, output.stderr];
    texts
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat()
}

#[test]
fn what_must_not_be_believed_is_said_by_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let program = made_up::Program::build(directory.path());
    let mut lossy = program.table(4096);
    lossy.change(|profile| {
        profile.control.lost_samples = 97 * profile.control.taken;
        profile.control.taken *= 98;
    });
    let mut biased = program.table(4096);
    let big = biased.site(&program.stack(&["cache_insert", "main"]));
    for number in 0..40 {
        biased.allocate(big, 1 << 20, number);
    }
    biased.statistics(|statistics| statistics.live_bytes = 4 << 20);
    let cases = [
        (
            "lossy",
            lossy,
            ["not entered for want of room", "are lost", "no room for"],
        ),
        (
            "biased",
            biased,
            [
                "standard deviations apart",
                "counts disagree",
                "counts disagree",
            ],
        ),
    ];
    for (name, mut profile, words) in cases {
        profile.statistics(|statistics| statistics.resident_bytes = 8 << 20);
        let file = directory.path().join(name);
        fs::write(&file, profile.bytes()).unwrap();
        let file = file.display().to_string();
        for question in questions(&file) {
            if question.contains(&file.as_str()) {
                let said = all_said(&question);
                let found = words.iter().any(|word| said.contains(word));
                assert!(found, "{name}: {question:?} says nothing of it:\n{said}");
            }
        }
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    for question in questions(&profile) {
        let mut child = Command::new(command())
            .args(&question)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Gone before the first word.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(
            !said.contains("panicked") && !said.contains("standard output"),
            "freehold {question:?}: {said}"
        );
        assert!(
            output.status.code().is_some_and(|code| code <= 1),
            "freehold {question:?}: {said}"
        );
    }
}

#[test]
fn a_full_disk_is_an_error_that_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    for question in questions(&profile) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(command())
            .args(&question)
            .stdin(Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(
            (said.as_str(), output.status.code()),
            (
                "freehold: cannot write to the standard output: No space left on device (os error 28)\n",
                Some(2)
            ),
            "freehold {question:?}"
        );
    }
}

#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    let pipe = directory.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let _both_ends = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    let into = pipe.display().to_string();
    answer(&["profile", &profile, "--save", &into]);
    answer(&["metrics", &profile, "--output", &into]);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn a_place_that_cannot_be_is_told_and_nothing_is_left_there() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    let here = directory.path().join("here");
    fs::create_dir(&here).unwrap();
    let file = here.join("file");
    fs::write(&file, "old").unwrap();
    let (file, here) = (file.to_str().unwrap(), here.to_str().unwrap());
    let (deeper, missing) = (format!("{file}/deeper"), format!("{here}/no/such"));
    for (place, why) in [
        (here, "it is a directory: name a file".to_owned()),
        (&deeper, format!("{file} is no directory")),
        (&missing, format!("there is no directory {here}/no")),
    ] {
        for question in [
            ["profile", &profile, "--save", place],
            ["profile", &profile, "--html", place],
            ["profile", &profile, "--pprof", place],
            ["report", &profile, "--output", place],
            ["metrics", &profile, "--output", place],
        ] {
            let told = complaint(&question, 2);
            let wanted = format!("freehold: cannot write {place}: {why}\n");
            assert!(told.ends_with(&wanted), "{question:?}: {told}");
        }
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "old");
    assert_eq!(fs::read_dir(here).unwrap().count(), 1);
}

/// A disk that has room for some of a page and not for all of it.
#[test]
fn half_a_page_is_not_left_in_place_of_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    let page = directory.path().join("page.html");
    let named = page.to_str().unwrap();
    for question in [
        ["profile", &profile, "--html", named],
        ["report", &profile, "--output", named],
    ] {
        fs::write(&page, "old").unwrap();
        let before = fs::read_dir(directory.path()).unwrap().count();
        let mut command = Command::new(command());
        command.args(question).stdin(Stdio::null());
        limit_files(&mut command, 4096);
        // The error is the question, and not the signal that comes with it.
        // SAFETY: one system call, between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{question:?}: {told}");
        assert!(
            told.starts_with(&format!("freehold: cannot write {named}: File too large")),
            "{question:?}: {told}"
        );
        assert_eq!(fs::read_to_string(&page).unwrap(), "old", "{question:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), before);
    }
}

#[test]
fn a_place_for_the_snapshot_that_cannot_be_is_told_before_the_command_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("it-ran").display().to_string();
    for place in ["/no/such/folder/file", directory.path().to_str().unwrap()] {
        let told = complaint(&["run", "--save", place, "touch", &mark], 2);
        assert!(
            told.starts_with(&format!("freehold: cannot write {place}: ")),
            "{told}"
        );
        assert!(!Path::new(&mark).exists());
    }
}

#[test]
fn doctor_answers_for_a_name_and_for_what_a_program_left() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    let said = answer(&["doctor", &profile]);
    assert!(said.contains("it ran under Freehold"), "{said}");
    assert!(said.contains("one sample in 4,096 B"), "{said}");
    assert!(said.contains("Yes: "), "{said}");
    let told = complaint(&["doctor", "no-such-program-runs"], 2);
    assert!(told.contains("there is no program"), "{told}");
    let program = compile(
        directory.path(),
        "plain-waiter",
        "#include <unistd.h>\nint main(void) { char c; return (int)read(0, &c, 1); }\n",
        &[],
    );
    let mut child = Command::new(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let named = freehold(&["doctor", "plain-waiter"]);
    let numbered = freehold(&["doctor", &child.id().to_string()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(named.status.code(), Some(1), "{}", text(&named.stderr));
    assert_eq!(text(&named.stdout), text(&numbered.stdout));
}

#[test]
fn metrics_of_a_damaged_page_say_so_beside_them() {
    let directory = tempfile::tempdir().unwrap();
    let profile = saved(directory.path());
    let ask = |profile: &str| {
        let asked = Command::new(command()).args(["metrics", profile]).output();
        let asked = asked.unwrap();
        assert!(asked.status.success() && asked.stdout.ends_with(b"# EOF\n"));
        String::from_utf8(asked.stderr).unwrap()
    };
    assert_eq!(ask(&profile), "");
    let mut bytes = fs::read(&profile).unwrap();
    // Behind the header and the control words, where the statistics are.
    for (i, byte) in bytes.iter_mut().enumerate().skip(8192 + 64) {
        *byte = (i % 251) as u8 ^ 0x5A;
    }
    let odd = directory.path().join("damaged").display().to_string();
    fs::write(&odd, bytes).unwrap();
    let told = ask(&odd);
    assert!(told.starts_with("freehold: note: "), "{told}");
}

#[test]
fn what_is_not_text_is_named_and_a_way_out_with_it() {
    let odd = OsStr::from_bytes(b"caf\xe9");
    for question in ["explain", "profile", "leaks", "top", "metrics", "report"] {
        let asked = Command::new(command()).arg(question).arg(odd).output();
        let asked = asked.unwrap();
        let told = String::from_utf8(asked.stderr).unwrap();
        assert_eq!(asked.status.code(), Some(2), "{question}: {told}");
        assert!(
            told.starts_with("freehold: \"caf\\xE9\" is not UTF-8: "),
            "{question}: {told}"
        );
    }
}

#[test]
fn a_thread_of_the_kernel_is_told_from_a_program() {
    let is_kernels = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if !is_kernels {
        return skip("in this container the kernel's threads are not to be seen");
    }
    for command in ["profile", "explain", "leaks", "top", "doctor", "metrics"] {
        let told = complaint(&[command, "2"], 2);
        assert!(told.contains("it is a kernel thread"), "{command}: {told}");
    }
}

#[test]
fn top_knows_what_is_resident_also_of_a_program_that_counts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(
        directory.path(),
        "toucher",
        "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(void) {\n\
             char c, *block = malloc(64 << 20);\n\
             if (!block || write(1, \"held\\n\", 5) != 5 || read(0, &c, 1) != 1) return 1;\n\
             memset(block, 1, 64 << 20);\n\
             if (write(1, \"full\\n\", 5) != 5) return 1;\n\
             /* The block is given to the kernel, or nobody would have to fill it. */\n\
             return (int)read(0, block, 1) < 0;\n\
         }\n",
        &[],
    );
    let mut run = Observed::start(&[], &[program.to_str().unwrap()]);
    assert_eq!(run.line(), "held");
    run.say("x");
    assert_eq!(run.line(), "full");
    let said = answer(&["top", &run.pid().to_string(), "--once", "--json"]);
    let top: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(top["resident_bytes"].as_u64() > Some(64 << 20), "{said}");
    run.end();
}
