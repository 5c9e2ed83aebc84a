//! What no other allocator answers about a running program, asked about a server that is at work.

use std::env;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Asks this very command about the process, question by question, as a person would.
pub fn show(pid: u32) -> Result<()> {
    let process = pid.to_string();
    println!("\nThe same server under Freehold, with its data and at work (process {pid}):");
    ask("Where is its memory?", &["explain", &process])?;
    ask(
        "Which calls in it hold that memory?",
        &["top", &process, "--once", "--sites", "8"],
    )?;
    ask("Does it leak?", &["leaks", &process, "--for", "5s"])?;
    println!(
        "\nNow a program of yours:\n\n  {} doctor PROGRAM    would it run under Freehold?\n  {} run PROGRAM       run it, and ask the same of it",
        name(),
        name()
    );
    Ok(())
}

/// As the person typed it: an installed command is on the path, one that was just built is not.
fn name() -> String {
    let typed = env::args_os().next().unwrap_or_default();
    typed.to_string_lossy().into_owned()
}

fn ask(why: &str, arguments: &[&str]) -> Result<()> {
    println!("\n{why}\n$ {} {}\n", name(), arguments.join(" "));
    io::stdout().flush().context("cannot print")?;
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
