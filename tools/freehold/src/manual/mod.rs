//! The manual pages. Each is made from what it describes, so that it cannot say anything else: section 1 from the
//! definition of the arguments, section 3 from the public headers, section 7 from that header's list of options.

mod command;
mod header;
mod options;
mod roff;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Command;
use profile_file::output_file::make_directory;

use crate::output;

/// A public header, as it was when this command was built.
macro_rules! header {
    ($name:literal) => {
        (
            concat!("freehold/", $name),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../include/freehold/",
                $name
            )),
        )
    };
}
const HEADERS: [(&str, &str); 5] = [
    header!("freehold.h"),
    header!("heap.h"),
    header!("pool.h"),
    header!("defer.h"),
    header!("defrag.h"),
];
const HEADER: &str = HEADERS[0].1;

/// One file: `freehold-run.1` and its text.
struct Page {
    name: String,
    section: char,
    text: String,
}

impl Page {
    fn file(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

/// Prints a manual page, or writes all of them into a directory.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold manual | man -l -                    read about the command\n  \
    freehold manual freehold.7 | man -l -         about the allocator's options\n  \
    freehold manual fh_malloc | man -l -          about a function\n  \
    freehold manual --into /usr/local/share/man   all of them, as `make install` has them")]
pub struct Args {
    /// The page: freehold, freehold-run or run, freehold.7, fh_malloc and so on.
    #[arg(value_name = "PAGE", default_value = "freehold")]
    page: String,

    /// Write every page into man1, man3 and man7 below this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "page")]
    into: Option<PathBuf>,
}

pub fn run(args: &Args, command: Command) -> Result<ExitCode> {
    let mut pages = command::pages(command)?;
    pages.push(options::page(HEADER)?);
    for (include, header) in HEADERS {
        pages.extend(header::pages(include, header)?);
    }
    match &args.into {
        Some(directory) => write_all(directory, &pages)?,
        None => {
            let Some(page) = named(&pages, &args.page) else {
                let names: Vec<String> = pages.iter().map(Page::file).collect();
                bail!(
                    "there is no page {}; there are {}",
                    args.page,
                    names.join(", ")
                );
            };
            output::write(page.text.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// By its whole name, or that of a command: `leaks` is freehold-leaks.
fn named<'a>(pages: &'a [Page], word: &str) -> Option<&'a Page> {
    let short = format!("freehold-{word}");
    let is = |name: &str, page: &&Page| page.name == name || page.file() == name;
    let whole = pages.iter().find(|page| is(word, page));
    whole.or_else(|| pages.iter().find(|page| is(&short, page)))
}

fn write_all(directory: &Path, pages: &[Page]) -> Result<()> {
    for page in pages {
        let folder = directory.join(format!("man{}", page.section));
        make_directory(&folder)
            .with_context(|| format!("cannot make the directory {}", folder.display()))?;
        let file = folder.join(page.file());
        std::fs::write(&file, &page.text)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
