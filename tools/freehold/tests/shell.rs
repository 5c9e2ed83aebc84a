//! What a shell and `man` are given: each is read by the program it is made for, where the machine has it.

mod command;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use command::command;
use profile_file::testing::skip_part;

fn freehold(arguments: &[&str]) -> String {
    let output = assert_cmd::Command::new(command())
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

/// The pages of a section, by their file names.
fn pages(directory: &Path, section: &str) -> BTreeMap<String, String> {
    fs::read_dir(directory.join(section))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn there_is_a_manual_page_for_every_command_and_function() {
    let directory = tempfile::tempdir().unwrap();
    freehold(&["manual", "--into", directory.path().to_str().unwrap()]);
    let one = pages(directory.path(), "man1");
    let first = &one["freehold.1"];
    for section in [
        "ENVIRONMENT",
        "FILES",
        "EXIT STATUS",
        "EXAMPLES",
        "SEE ALSO",
    ] {
        assert!(
            first.contains(&format!(".SH {section}\n")),
            "{section}: {first}"
        );
    }
    for name in [
        "NO_COLOR",
        "DEBUGINFOD_URLS",
        "XDG_RUNTIME_DIR, TMPDIR",
        "/dev/shm/freehold\\-flight\\-PID",
    ] {
        assert!(first.contains(name), "{name}: {first}");
    }
    assert!(!first.contains("top has no colours"), "{first}");
    for command in commands() {
        let page = format!("freehold-{command}.1");
        let text = one.get(&page).unwrap_or_else(|| panic!("no {page}"));
        assert!(
            text.contains(&format!(".TH freehold-{command} 1"))
                && text.contains(".SH NAME")
                && text.contains(".SH OPTIONS")
                && text.contains(".SH EXAMPLES\n.PP\n.nf\n"),
            "{text}"
        );
    }
    let seven = pages(directory.path(), "man7");
    assert!(seven["freehold.7"].contains("\\fBdeepbind\\fR=drop|keep\n"));
    assert!(seven["freehold.7"].contains("freehold\\-flight\\-PID"));
    let three = pages(directory.path(), "man3");
    assert!(three["fh_malloc.3"].contains("void *fh_realloc(void *p, size_t size);\n"));
    assert_eq!(three["fh_realloc.3"], ".so man3/fh_malloc.3\n");
    assert!(three["fh_pool_new.3"].contains("#include <freehold/pool.h>\n"));
    assert_eq!(three["fh_heap_destroy.3"], ".so man3/fh_heap_new.3\n");
}

#[test]
fn the_formatter_has_nothing_to_say_against_the_pages() {
    let directory = tempfile::tempdir().unwrap();
    freehold(&["manual", "--into", directory.path().to_str().unwrap()]);
    for page in [
        "man1/freehold.1",
        "man1/freehold-doctor.1",
        "man3/fh_malloc.3",
        "man3/fh_version.3",
        "man3/fh_heap_new.3",
        "man3/fh_mark.3",
        "man3/fh_pool_new.3",
        "man3/fh_defer_free.3",
        "man3/fh_defrag_worth.3",
        "man7/freehold.7",
    ] {
        let Ok(output) = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww"])
            .arg(directory.path().join(page))
            .stdin(Stdio::null())
            .output()
        else {
            return skip_part("no groff");
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{page}: {said}");
    }
}

#[test]
fn one_page_is_printed_by_its_name() {
    assert!(freehold(&["manual"]).contains(".TH freehold 1"));
    assert!(freehold(&["manual", "leaks"]).contains(".TH freehold-leaks 1"));
    assert!(freehold(&["manual", "freehold.7"]).contains(".SH OPTIONS"));
    assert!(freehold(&["manual", "fh_limit_set"]).contains("fh_limit_set(size_t soft"));
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
    let output = assert_cmd::Command::new(command())
        .args(["completions", "command.com"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("possible values: bash"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let output = assert_cmd::Command::new(command())
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

/// These tests over `false` in the place of the command cannot pass.
#[test]
fn the_command_under_test_is_the_one_that_was_named() {
    let others = |command: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["a_folder_that_cannot_be_made_is_named", "--exact"])
            .env("FREEHOLD_TEST_COMMAND", command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
    };
    assert!(!others("false").success());
    assert!(others(command().to_str().unwrap()).success());
}
