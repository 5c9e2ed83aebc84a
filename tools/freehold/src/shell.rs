//! What a shell knows of this command: it is made from the definition of its arguments, so that it cannot say anything
//! else than `--help` does.

use std::process::ExitCode;

use anyhow::Result;
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
    output::write(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
