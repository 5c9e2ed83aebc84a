//! `freehold demo`: each scene in a short form, and what it prints where nobody watches.

mod observed;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use observed::*;
use profile_file::testing::skip;

/// Runs a scene with a hundredth of its work. Nothing where the program is not installed, which is a skip with its reason.
fn scene(name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command())
        .args(["demo", name, "--rounds", "1", "--size", "1"])
        .args(arguments)
        .output()
        .unwrap();
    let complaint = text(&output.stderr);
    if output.status.code() == Some(2) && complaint.contains(" is missing; ") {
        skip(complaint.trim_end());
        return None;
    }
    assert!(output.status.success(), "freehold demo {name}: {complaint}");
    assert_eq!(
        complaint.lines().count(),
        1,
        "more than a line: {complaint}"
    );
    let said = text(&output.stdout);
    // What follows the table are answers of other commands, whose pictures are made of characters.
    let table = said.split("\nThe same server").next().unwrap_or(&said);
    assert!(
        !said.contains('\x1b') && !table.contains('█'),
        "not plain: {said}"
    );
    Some(said)
}

/// The cells of a row, from the right.
fn row<'a>(said: &'a str, label: &str) -> Vec<&'a str> {
    let line = said.lines().find(|line| line.starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no row {label}: {said}"));
    line[34..].split_whitespace().collect()
}

/// The table has a row for each allocator and one that compares, and words follow.
fn check_table(said: &str, has_after: bool) {
    for label in ["system (glibc) ", "Freehold "] {
        let cells = row(said, label);
        let amounts: Vec<f64> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
        assert_eq!(amounts.len(), if has_after { 4 } else { 3 }, "{said}");
        assert!(amounts[2] > 1.0, "a program has more than a MiB: {said}");
        assert_eq!(cells.last() == Some(&"-"), !has_after, "{said}");
    }
    assert_eq!(row(said, "Freehold / system").len(), 4, "{said}");
    let words = &said[said.find("\nHow to read it: ").expect("a guide")..];
    let words = words.trim_start();
    assert_eq!(
        words.matches(".\n").count(),
        3,
        "two sentences, one verdict: {words}"
    );
    assert!(
        words.contains("\nVerdict: against the system's allocator, Freehold "),
        "{words}"
    );
}

#[test]
fn redis_and_the_tour_of_the_running_server() {
    let Some(said) = scene("redis", &[]) else {
        return;
    };
    let (table, tour) = said
        .split_once("\nThe same server under Freehold, with its data and at work")
        .expect("a tour");
    check_table(table, true);
    let expected = [
        " explain ",
        "live: what the program asked for",
        " top ",
        " --once",
        "live",
        " leaks ",
        "leak",
        " run PROGRAM",
    ];
    let mut rest = tour;
    for word in expected {
        let found = rest
            .find(word)
            .unwrap_or_else(|| panic!("no {word}: {tour}"));
        rest = &rest[found..];
    }
}

#[test]
fn a_web_server_in_python() {
    if let Some(said) = scene("python", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn a_web_server_in_node() {
    if let Some(said) = scene("node", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn a_web_server_in_ruby() {
    if let Some(said) = scene("ruby", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn a_web_server_in_java() {
    if let Some(said) = scene("java", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn nginx_and_its_documents() {
    if let Some(said) = scene("nginx", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn gunicorn_and_its_worker() {
    if let Some(said) = scene("gunicorn", &[]) {
        check_table(&said, true);
        assert!(said.contains("what they share counted once"), "{said}");
    }
}

#[test]
fn an_application_under_uvicorn() {
    if let Some(said) = scene("uvicorn", &[]) {
        check_table(&said, true);
    }
}

#[test]
fn postgres_and_all_of_its_processes() {
    if let Some(said) = scene("postgres", &[]) {
        check_table(&said, true);
        assert!(said.contains("what they share counted once"), "{said}");
    }
}

#[test]
fn a_project_in_cpp() {
    if let Some(said) = scene("build", &[]) {
        check_table(&said, false);
    }
}

#[test]
fn a_stand_in_for_language_models() {
    if let Some(said) = scene("llm", &[]) {
        check_table(&said, true);
    }
}

/// As with `freehold demo | head`. The server of the tour is at work meanwhile, and has to be ended.
#[test]
fn a_tour_that_nobody_reads_on_ends() {
    let mut demo = Command::new(command())
        .args(["demo", "redis", "--rounds", "1", "--size", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let met = lines.any(|line| line.unwrap().starts_with("Verdict:"));
    drop(lines);
    let begun = Instant::now();
    while met && demo.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            demo.kill().unwrap();
            panic!("it goes on without a reader");
        }
        thread::sleep(Duration::from_millis(100));
    }
    let output = demo.wait_with_output().unwrap();
    let complaint = text(&output.stderr);
    match met {
        true => assert!(output.status.success(), "{complaint}"),
        false if complaint.contains("preloaded") || complaint.contains(" is missing; ") => {
            skip(complaint.trim_end());
        }
        false => panic!("no verdict: {complaint}"),
    }
}

#[test]
fn an_unknown_scene_is_refused_with_those_that_there_are() {
    let said = complaint(&["demo", "nothing"], 2);
    assert!(
        said.contains(
            "redis, python, postgres, node, build, llm, gunicorn, uvicorn, ruby, java, nginx"
        ),
        "{said}"
    );
}

#[test]
fn an_option_that_there_is_not_is_told_before_anything_runs() {
    if !is_beside("demo", &["libfreehold.so"]) {
        return;
    }
    let told = complaint(&["demo", "python", "--options", "no_such=1"], 2);
    assert!(
        told.starts_with("freehold: --options: unknown option \"no_such\""),
        "{told}"
    );
}
