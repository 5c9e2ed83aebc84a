//! `freehold report`: everything that is known of a program's heap, in one HTML page without a network.
//!
//! The page is a fixed frame (`page/frame.html`, `page/style.css`, `page/script.js`) around a block of JSON. All sums
//! and verdicts are made in [`data`]; the script only draws.

mod data;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use profile_file::{Control, ProcessFacts, Target, output_file};

use crate::leaks;
use crate::naming::NamingArgs;
use crate::output::print;

const FRAME: &str = include_str!("page/frame.html");
pub const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// Writes one HTML page about a program's heap: timeline, call sites, lifetimes, fragmentation, leak verdicts.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold report 4711 -o heap.html      a process that runs\n  \
    freehold report server -o heap.html    by name\n  \
    freehold report page.freehold          a saved snapshot; the page is called freehold-report.html\n\n\
    The page needs no network and no other file: it can be sent as it is.")]
pub struct Args {
    /// The process, by number or name; or a run, a profile file or snapshot file. Without it: the one observed program.
    #[arg(value_name = "PID|NAME|FILE")]
    target: Option<String>,

    /// Where to write the page.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "freehold-report.html"
    )]
    output: PathBuf,

    /// Print what the page is made of as JSON, and write no page.
    #[arg(long, conflicts_with = "output")]
    json: bool,

    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let target = Target::find_or_only(args.target.as_deref())?;
    if let Some(control) = target
        .profile_path()
        .and_then(|path| Control::open(path).ok())
    {
        // Statistics of a moment ago serve as well, if the program does not answer.
        control.refresh(Duration::from_millis(200));
    }
    let (mut snapshot, cleared) = leaks::judged(args.naming.of(target.read()?));
    if snapshot.process.is_none() && snapshot.is_alive() {
        snapshot.process = Some(ProcessFacts::capture(snapshot.pid()));
    }
    let page = data::Page::of(&snapshot, cleared.as_ref());
    if args.json {
        print(&(serde_json::to_string_pretty(&page)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let html = render(&page)?;
    output_file::replace(&args.output, |file| file.write_all(html.as_bytes()))
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    print(&format!(
        "{}: {} of {}, {} KiB\nNext: open it in a browser; or freehold leaks {}\n",
        args.output.display(),
        crate::wording::plural(page.sites.len(), "site", "sites"),
        page.name,
        html.len().div_ceil(1024),
        target.word()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn render(page: &data::Page) -> Result<String> {
    // Inside a script element only its end tag has a meaning, and the beginning of a comment; JSON allows both to be
    // written otherwise.
    let data = serde_json::to_string(page)?.replace('<', "\\u003c");
    Ok(FRAME
        .replace("/*style*/", STYLE)
        .replace("/*script*/", SCRIPT)
        .replace("/*title*/", &escape(&page.name))
        .replace("/*data*/", &data))
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The page of a snapshot, for tests.
#[cfg(test)]
fn page_of(snapshot: &profile_file::Snapshot) -> String {
    render(&data::Page::of(snapshot, None)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::ProfileBuilder;
    use profile_file::{Snapshot, SymbolTable};

    use crate::call_site::tests::frame;

    fn example(function: &str) -> Snapshot {
        let mut page = ProfileBuilder::default();
        let site = page.site(&[0x100, 0x900]);
        for second in 0..100 {
            page.allocate(site, 4096, second * 1_000_000_000);
            page.point(second * 1_000_000_000, second << 20, second << 19);
        }
        page.statistics(|f| {
            f.resident_bytes = 100 << 20;
            f.rows = 2;
            f.row[1].size = 4096;
            f.row[1].slabs = 4;
            f.row[1].occupancy = [1, 0, 0, 3];
        });
        let mut snapshot = page.snapshot();
        snapshot.symbols = Some(SymbolTable {
            frames: [
                (0x100, vec![frame(function, 7)]),
                (0x900, vec![frame("main", 1)]),
            ]
            .into_iter()
            .collect(),
            warnings: Vec::new(),
        });
        snapshot
    }

    #[test]
    fn what_made_names_missing_is_on_the_page() {
        let mut snapshot = example("session_new");
        let names = snapshot.symbols.as_mut().unwrap();
        names.warnings.push("gone.so is not here".to_owned());
        assert!(page_of(&snapshot).contains("gone.so is not here"));
    }

    #[test]
    fn the_page_is_one_file_without_network() {
        let html = page_of(&example("session_new"));
        for inside in ["session_new", "likely_leak", "\"occupancy\":[1,0,0,3]"] {
            assert!(html.contains(inside), "{inside}");
        }
        let plain = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "src=", "@import", "url(", "/*"] {
            assert!(!plain.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_from_outside_cannot_become_a_part_of_the_page() {
        let html = page_of(&example("</script><script>alert(1)</script>"));
        assert!(!html.contains("<script>alert"));
        let begin = html.find("id=\"data\">").unwrap() + 10;
        let end = begin + html[begin..].find("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(&html[begin..end]).unwrap();
        assert_eq!(
            data["sites"][0]["function"],
            "</script><script>alert(1)</script>"
        );
    }

    #[test]
    fn a_page_without_figures_or_samples_is_still_a_page() {
        let html = page_of(&ProfileBuilder::default().snapshot());
        assert!(html.contains("allocated little so far"));
    }
}
