//! What a shell and `man` know of this command: both are made from the definition of its arguments, so that they
//! cannot say anything else than `--help` does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

use crate::output;

/// Prints the completion script of a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold completions bash > ~/.local/share/bash-completion/completions/freehold\n  \
    freehold completions zsh  > ~/.zfunc/_freehold\n  \
    freehold completions fish > ~/.config/fish/completions/freehold.fish")]
pub struct CompletionArgs {
    /// The shell that is to complete the command.
    shell: Shell,
}

pub fn completions(args: &CompletionArgs, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "freehold", &mut script);
    write_out(&script)
}

/// Prints the manual page, or writes one for each command into a directory.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold manual | man -l -                        read it\n  \
    freehold manual --into /usr/local/share/man/man1  what `make install` does")]
pub struct ManualArgs {
    /// Write freehold.1 and a page for each sub-command into this directory.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub fn manual(args: &ManualArgs, command: Command) -> Result<ExitCode> {
    match &args.into {
        Some(directory) => {
            write_pages(directory, command)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            write_out(&page)
        }
    }
}

/// A page for the command, and one for each sub-command under the name that `git` has made usual.
fn write_pages(directory: &Path, command: Command) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    clap_mangen::generate_to(command, directory)
        .with_context(|| format!("cannot write manual pages into {}", directory.display()))
}

fn write_out(bytes: &[u8]) -> Result<ExitCode> {
    output::write(bytes)?;
    Ok(ExitCode::SUCCESS)
}
