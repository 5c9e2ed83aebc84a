//! The harness as a program of its own, for those who work on it and do not want to build the whole command.

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: freehold_bench::BenchArgs,
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    freehold_bench::run(Cli::parse().bench)
}
