//! What no other allocator answers about a running program, asked about a server that is at work.

use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::output::write;

/// Asks this very command about the process, question by question, as a person would. Ends as soon as nobody reads on: the
/// server works until then.
pub fn show(pid: u32) -> Result<()> {
    let process = pid.to_string();
    let begin =
        format!("\nThe same server under Freehold, with its data and at work (process {pid}):\n");
    let questions: [(&str, &[&str]); 3] = [
        ("Where is its memory?", &["explain", &process]),
        (
            "Which calls in it hold that memory?",
            &["top", &process, "--once", "--sites", "8"],
        ),
        ("Does it leak?", &["leaks", &process, "--for", "5s"]),
    ];
    if !write(begin.as_bytes())? {
        return Ok(());
    }
    for (why, arguments) in questions {
        let question = format!("\n{why}\n$ {} {}\n\n", name(), arguments.join(" "));
        if !write(question.as_bytes())? {
            return Ok(());
        }
        ask(arguments)?;
    }
    let end = format!(
        "\nThis server ends with the tour, and its number with it. Now a program of yours:\n\n  {} doctor PROGRAM    would it run under Freehold?\n  {} run PROGRAM       run it, and ask the same of it\n",
        name(),
        name()
    );
    write(end.as_bytes()).map(|_| ())
}

/// As the person typed it: an installed command is on the path, one that was just built is not.
fn name() -> String {
    let typed = env::args_os().next().unwrap_or_default();
    typed.to_string_lossy().into_owned()
}

fn ask(arguments: &[&str]) -> Result<()> {
    let command = env::current_exe().context("cannot tell where this command is")?;
    let status = Command::new(command)
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .env_remove("FREEHOLD")
        .stdin(Stdio::null())
        .status()
        .context("cannot ask")?;
    if !status.success() {
        bail!("`{}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}
