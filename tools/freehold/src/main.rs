//! `freehold`: what one does with the allocator from a shell.
//!
//! Each sub-command is a module with an `Args` struct that clap reads and a `run` function that returns the
//! exit code. This file only connects them.

#[macro_use] // tell! and tell_line!
mod output;

mod allocator;
mod amounts;
mod call_site;
mod demo;
mod diff;
mod doctor;
mod explain;
mod fail;
mod families;
mod heaps;
mod interrupt;
mod leaks;
mod library;
mod manual;
mod metrics;
mod naming;
mod profile;
mod record;
mod replay;
mod report;
mod run;
mod shell;
mod shrink;
mod top;
mod trace;
mod wording;

use std::process::{ExitCode, exit};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Looks after programs that run on the Freehold memory allocator.
#[derive(Parser)]
#[command(name = "freehold", version, about, propagate_version = true)]
#[command(after_help = "Begin with:\n  \
    freehold doctor           is this machine ready?\n  \
    freehold doctor CMD       would it run under Freehold?\n  \
    freehold run CMD          run it observed; then profile, leaks, explain, report\n  \
    freehold explain PID      where is the memory of this process?\n\n\
    `freehold COMMAND --help` shows an example of each.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Explain(explain::Args),
    Profile(profile::Args),
    Diff(diff::Args),
    Metrics(metrics::Args),
    Top(top::Args),
    Leaks(leaks::Args),
    Fail(fail::Args),
    Report(report::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Record(record::Args),
    Replay(replay::Args),
    Shrink(shrink::Args),
    Trace(trace::Args),
    Bench(freehold_bench::BenchArgs),
    Completions(shell::CompletionArgs),
    Manual(manual::Args),
}

/// Programs and their arguments may have any bytes in them; only what a question is about has to be text.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let odd = std::env::args_os().find(|word| word.to_str().is_none());
        if let (ErrorKind::InvalidUtf8, Some(word)) = (error.kind(), odd) {
            tell_line!(
                "freehold: {word:?} is not UTF-8: say the number of the process, or give the file a link with another name"
            );
            exit(2);
        }
        error.exit()
    })
}

fn main() -> ExitCode {
    let outcome = match parse().command {
        Command::Run(args) => run::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Leaks(args) => leaks::run(&args),
        Command::Fail(args) => fail::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => freehold_bench::run(args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Manual(args) => manual::run(&args, Cli::command()),
    };
    outcome.unwrap_or_else(|error| {
        tell_line!("freehold: {error:#}");
        // 1 is an answer ("it would not run"); a question that could not be answered is 2.
        ExitCode::from(interrupt::signal().map_or(2, |signal| 128 + signal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a user is shown and not told about.
    fn unexplained(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        if command.get_about().is_none() {
            found.push(path.to_owned());
        }
        for argument in command.get_arguments() {
            if argument.get_help().is_none() && !argument.is_hide_set() {
                found.push(format!("{path} {}", argument.get_id()));
            }
        }
        for below in command.get_subcommands() {
            unexplained(&format!("{path} {}", below.get_name()), below, found);
        }
    }

    #[test]
    fn help_says_something_of_each_command_and_argument() {
        let mut found = Vec::new();
        unexplained("freehold", &Cli::command(), &mut found);
        assert!(found.is_empty(), "without help: {found:#?}");
    }

    #[test]
    fn help_of_each_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let after = command.get_after_help().or(command.get_after_long_help());
            let shown = after.is_some_and(|text| text.to_string().contains("freehold "));
            assert!(shown || command.is_hide_set(), "{}", command.get_name());
        }
    }
}
