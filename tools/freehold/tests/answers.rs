//! Where an answer goes: to a reader who has seen enough, to a full disk, to something that is no file. And to whom: a
//! question is asked by number, name or file alike.

#[allow(
    dead_code,
    reason = "pages are made in other tests from more of its parts"
)]
mod made_up;
mod observed;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

use freehold_page::testing::skip;
use observed::*;

/// The page of a made-up program.
fn saved(folder: &Path) -> String {
    let program = made_up::Program::build(folder);
    let page = folder.join("page");
    let mut made = program.table(4096);
    made.figures(|figures| figures.resident_bytes = 8 << 20);
    fs::write(&page, made.bytes()).unwrap();
    page.display().to_string()
}

/// Every form of an answer about a page.
fn questions(page: &str) -> Vec<Vec<&str>> {
    let mut questions = vec![
        vec!["profile", page, "--collapsed"],
        vec!["report", page, "--json"],
        vec!["top", page, "--once"],
        vec!["top", page, "--once", "--json"],
        vec!["diff", page, page, "--all"],
        vec!["diff", page, page, "--json"],
        vec!["metrics", page],
        vec!["metrics", page, "--json"],
        vec!["run", "--list"],
        vec!["run", "--list", "--json"],
        vec!["completions", "bash"],
        vec!["manual"],
        vec!["doctor", "--", "cat"],
    ];
    for command in ["explain", "profile", "leaks", "doctor"] {
        questions.push(vec![command, page]);
        questions.push(vec![command, page, "--json"]);
    }
    questions
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let page = saved(folder.path());
    for question in questions(&page) {
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
    let folder = tempfile::tempdir().unwrap();
    let page = saved(folder.path());
    for question in questions(&page) {
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
    let folder = tempfile::tempdir().unwrap();
    let page = saved(folder.path());
    let pipe = folder.path().join("pipe");
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
    answer(&["profile", &page, "--save", &into]);
    answer(&["metrics", &page, "--output", &into]);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let told = complaint(&["profile", &page, "--save", "/no/such/folder/file"], 2);
    assert!(told.contains("/no/such/folder/file"), "{told}");
}

#[test]
fn a_place_for_the_snapshot_that_cannot_be_is_told_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("it-ran").display().to_string();
    for place in ["/no/such/folder/file", folder.path().to_str().unwrap()] {
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
    let folder = tempfile::tempdir().unwrap();
    let page = saved(folder.path());
    let said = answer(&["doctor", &page]);
    assert!(said.contains("it ran under Freehold"), "{said}");
    assert!(said.contains("one sample in 4,096 B"), "{said}");
    assert!(said.contains("Yes: "), "{said}");
    let told = complaint(&["doctor", "no-such-program-runs"], 2);
    assert!(told.contains("no program called"), "{told}");
    let program = compile(
        folder.path(),
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
    let folder = tempfile::tempdir().unwrap();
    let page = saved(folder.path());
    let ask = |page: &str| {
        let asked = Command::new(command()).args(["metrics", page]).output();
        let asked = asked.unwrap();
        assert!(asked.status.success() && asked.stdout.ends_with(b"# EOF\n"));
        String::from_utf8(asked.stderr).unwrap()
    };
    assert_eq!(ask(&page), "");
    let mut bytes = fs::read(&page).unwrap();
    // Behind the header and the control words, where the figures are.
    for (i, byte) in bytes.iter_mut().enumerate().skip(8192 + 64) {
        *byte = (i % 251) as u8 ^ 0x5A;
    }
    let odd = folder.path().join("damaged").display().to_string();
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
    let folder = tempfile::tempdir().unwrap();
    let program = compile(
        folder.path(),
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
