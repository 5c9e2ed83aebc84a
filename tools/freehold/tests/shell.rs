//! What a shell and `man` are given: each is read by the program it is made for, where the machine has it.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use profile_file::testing::skip_part;

fn freehold(arguments: &[&str]) -> String {
    let output = assert_cmd::Command::cargo_bin("freehold")
        .unwrap()
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "freehold {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The sub-commands that the general help lists.
fn commands() -> Vec<String> {
    let help = freehold(&["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap();
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_help_of_every_command_shows_an_example() {
    let commands = commands();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let help = freehold(&[&command, "--help"]);
        let example = help.split("xample").nth(1);
        assert!(
            example.is_some_and(|text| text.contains(&format!("freehold {command}"))),
            "{command}: {help}"
        );
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let directory = tempfile::tempdir().unwrap();
    freehold(&["manual", "--into", directory.path().to_str().unwrap()]);
    let pages: BTreeSet<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(pages.contains("freehold.1"));
    for command in commands() {
        let page = format!("freehold-{command}.1");
        assert!(pages.contains(&page), "{page} is not in {pages:?}");
        let text = fs::read_to_string(directory.path().join(&page)).unwrap();
        assert!(
            text.contains(".SH NAME") && text.contains(".SH OPTIONS"),
            "{text}"
        );
    }
}

#[test]
fn shells_can_read_their_completion_scripts() {
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = freehold(&["completions", shell]);
        assert!(script.contains("doctor"), "{shell}: {script}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        fs::write(&file, &script).unwrap();
        let Ok(output) = Command::new(shell)
            .arg(check)
            .arg(&file)
            .stdin(Stdio::null())
            .output()
        else {
            skip_part(&format!("no {shell}"));
            continue;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{shell}: {said}"
        );
    }
    let output = assert_cmd::Command::cargo_bin("freehold")
        .unwrap()
        .args(["completions", "command.com"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("possible values: bash"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let output = assert_cmd::Command::cargo_bin("freehold")
        .unwrap()
        .args(["manual", "--into", "/proc/no/such"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("freehold: cannot make the directory /proc/no/such"),
        "{said}"
    );
}
