//! `freehold doctor`: would this program run under Freehold, and if not, what is in the way?
//!
//! Without a word, the question is about this machine. For a command the answer is made of what its file says (kind, rights, what it is linked with) and of what
//! the system's loader says when it is asked to bind the program without running it. With `--try` the
//! program is really started. For a process the answer is read from `/proc`.

mod allocators;
mod deepbind;
mod elf;
mod interpreters;
mod loader;
mod machine;
mod observing;
mod process;
mod program;
mod question;
mod report;
mod rights;
mod trial;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::output::print;
use elf::Linkage;
use program::Resolved;
use question::Question;
use report::{Finding, Report};

/// What a program, given as the bytes of its file, calls of jemalloc's own functions.
pub fn bound_to_jemalloc(data: &[u8]) -> Vec<&'static str> {
    elf::read(data)
        .map(|facts| allocators::bound_to_jemalloc(&facts))
        .unwrap_or_default()
}

/// Says whether a program would run under Freehold, or a process does, or what this machine is like
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    freehold doctor                       is this machine ready?\n  \
    freehold doctor python3 app.py        would it run under Freehold?\n  \
    freehold doctor app.py                the same\n  \
    freehold doctor --try ./server -v     start it for a moment and see\n  \
    freehold doctor 4711                  does this process run under it?\n  \
    freehold doctor redis-server          and this one? or would it, if none runs\n  \
    freehold doctor -- redis-server       would it, also while one runs\n\n\
    Exit code: 0 yes, 1 no, 2 the question could not be answered.")]
pub struct Args {
    /// Start the command for a moment and look for Freehold's own greeting.
    #[arg(long = "try", requires = "words")]
    really: bool,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    /// The drop-in library, when it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// A process by number or name; what one left, as a profile file; or a program or script with its arguments. None: this
    /// machine. `--` before them says that they are a command.
    #[arg(
        value_name = "PID|PROGRAM|FILE",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let (words, json) = words_of(args);
    // Only a command can be tried, so a name is none of a process then.
    let command = command_is_marked(words) || args.really && !question::is_number(words);
    let report = match question::read(words, command)? {
        Question::Command(command) => examine_command(args, &command)?,
        _ if args.really => bail!("--try is for a command: freehold doctor --try -- CMD"),
        Question::Machine => examine_machine(args)?,
        Question::Process(pid) => examine_process(pid)?,
        Question::Left(target) => observing::of_what_is_left(&target)?,
    };
    if json {
        print(&(report.to_json()? + "\n"))?;
    } else {
        print(&report.to_text())?;
    }
    Ok(ExitCode::from(u8::from(!report.verdict())))
}

/// The words, and whether JSON is wanted: behind the one word that is no command, `--json` is ours too.
fn words_of(args: &Args) -> (&[OsString], bool) {
    match args.words.as_slice() {
        [first, last] if last == "--json" && !command_is_marked(&args.words) => {
            (std::slice::from_ref(first), true)
        }
        words => (words, args.json),
    }
}

/// True where `--` stands before the words, which are the last ones of the command line.
fn command_is_marked(words: &[OsString]) -> bool {
    let all: Vec<OsString> = env::args_os().collect();
    let before = all.len().saturating_sub(words.len() + 1);
    !words.is_empty() && all.get(before).is_some_and(|word| word == "--")
}

/// Whether anything can run under Freehold here, and what of the machine's settings matters to it.
fn examine_machine(args: &Args) -> Result<Report> {
    let mut report = Report::for_machine();
    find_library(&mut report, args);
    if let Some(library) = report.library.clone() {
        own_facts(&mut report, &library)?;
    }
    look_at_preload(&mut report, env::var_os("LD_PRELOAD").as_deref());
    machine::examine(&mut report, Path::new("/"));
    machine::examine_process(&mut report);
    Ok(report)
}

fn examine_process(pid: u32) -> Result<Report> {
    let mut report = process::examine(pid)?;
    if report.verdict() {
        report.add(observing::of_process(pid));
    }
    Ok(report)
}

fn find_library(report: &mut Report, args: &Args) {
    match crate::library::locate(args.library.as_deref()) {
        Ok(path) => report.library = Some(path),
        Err(error) => {
            report
                .add(Finding::blocks("library", error.to_string()).advise("build it with `make`"));
        }
    }
}

/// In words, the first allocator other than Freehold that is in a running process; none if there is none, or if one may
/// not look.
pub fn others_in_process(pid: u32) -> Option<String> {
    let report = process::examine(pid).ok()?;
    let found = report
        .findings
        .into_iter()
        .find(|finding| matches!(finding.check, "allocator" | "go"))?;
    Some(found.text)
}

/// What keeps Freehold from being active in a command, in words; none if nothing does, or if there is no such command.
pub fn obstacle(command: &[OsString], library: &Path) -> Option<String> {
    let mut report = Report::for_command(command);
    let resolved = program::resolve(command.first()?).ok()?;
    look_at_program(&mut report, &resolved, Some(library)).ok()?;
    let found = report
        .findings
        .into_iter()
        .find(|finding| finding.level == report::Level::Blocks)?;
    Some(match found.advice {
        Some(advice) => format!("{} ({advice})", found.text),
        None => found.text,
    })
}

/// The program's loader is musl's, which refuses the library.
pub fn is_of_musl(name: &OsStr) -> bool {
    let facts = |file: &Path| elf::read(&std::fs::read(file).ok()?).ok();
    program::resolve(name)
        .ok()
        .and_then(|resolved| facts(&resolved.program))
        .is_some_and(|facts| matches!(facts.linkage, Linkage::Musl(_)))
}

/// Why the kernel finds no file for a command that is there; none: it is not there.
pub fn missing_for(name: &OsStr) -> Option<String> {
    match program::resolve(name) {
        Ok(_) => Some("its loader does not exist, or that of its interpreter".to_owned()),
        Err(error) if error.chain().count() > 1 => Some(format!("{error:#}")),
        Err(_) => None,
    }
}

/// Everything that can be said about a command before it runs, and with `--try` what it did.
fn examine_command(args: &Args, command: &[OsString]) -> Result<Report> {
    let name = command.first().context("there is no command to look at")?;
    let mut report = Report::for_command(command);
    find_library(&mut report, args);
    let library = report.library.clone();
    look_at_preload(&mut report, env::var_os("LD_PRELOAD").as_deref());
    if let Some(finding) = observing::of_place() {
        report.add(finding);
    }

    let resolved = match program::resolve(name) {
        Ok(resolved) => resolved,
        Err(error) => {
            report.add(Finding::blocks("program", format!("{error:#}")));
            return Ok(report);
        }
    };
    look_at_program(&mut report, &resolved, library.as_deref())?;

    if args.really && report.verdict() {
        let library = library.context("a verdict of yes has a library")?;
        for finding in trial::run(command, &library)? {
            report.add(finding);
        }
    }
    Ok(report)
}

/// What the file that will really be executed has to say.
fn look_at_program(report: &mut Report, resolved: &Resolved, library: Option<&Path>) -> Result<()> {
    report.program = Some(resolved.program.clone());
    report.scripts.clone_from(&resolved.scripts);
    for script in &resolved.scripts {
        let text = format!(
            "{} is a script; what runs is its interpreter",
            script.display()
        );
        let finding = Finding::note("script", text);
        report.add(if is_shell(&resolved.program) {
            finding.advise(
                "what the shell starts runs under Freehold too, but is not looked at here: ask `freehold doctor` of it",
            )
        } else {
            finding
        });
    }
    for finding in rights::examine(&resolved.program) {
        report.add(finding);
    }

    let data = std::fs::read(&resolved.program)
        .with_context(|| format!("cannot read {}", resolved.program.display()))?;
    let facts = match elf::read(&data) {
        Ok(facts) => facts,
        Err(error) => {
            report.add(Finding::blocks("format", error.to_string()));
            return Ok(());
        }
    };
    report.kind = Some(facts.describe());

    let matches = look_at_library(report, &facts, library)?;
    look_at_linkage(report, &facts);
    for finding in allocators::in_program(&facts, &data) {
        report.add(finding);
    }
    for finding in [
        interpreters::in_program(&resolved.program, &facts),
        interpreters::own_words(&resolved.program, &facts),
    ]
    .into_iter()
    .flatten()
    {
        report.add(finding);
    }
    if let Some(finding) = deepbind::in_program(&facts, env::var_os("FREEHOLD").as_deref()) {
        report.add(finding);
    }
    // The loader is asked only when it would get so far: it runs nothing of the program, but it must be the
    // program's own loader and understand the file.
    if let (Some(library), true, Linkage::Glibc(loader)) = (library, matches, &facts.linkage) {
        loader::ask(report, loader, &resolved.program, library)?;
    }
    Ok(())
}

/// Its scripts usually start another program, whose heap is what one asks about.
fn is_shell(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str);
    matches!(name, Some("sh" | "bash" | "dash" | "ksh" | "zsh"))
}

/// True when the library is made for the same kind of machine as the program.
fn look_at_library(
    report: &mut Report,
    facts: &elf::Facts,
    library: Option<&Path>,
) -> Result<bool> {
    let Some(library) = library else {
        return Ok(false);
    };
    match own_facts(report, library)? {
        None => Ok(false),
        Some(own) if own.machine != facts.machine || own.bits != facts.bits => {
            let text = format!(
                "wrong architecture: the program is {}, the library is {}",
                facts.architecture(),
                own.architecture()
            );
            let advice = format!("build Freehold for {}", facts.architecture());
            report.add(Finding::blocks("architecture", text).advise(advice));
            Ok(false)
        }
        Some(_) => Ok(true),
    }
}

/// What the library's file says of it; none, and a finding, if it is no library.
fn own_facts(report: &mut Report, library: &Path) -> Result<Option<elf::Facts>> {
    let data =
        std::fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    match elf::read(&data) {
        Err(error) => {
            let text = format!("{} is no library: {error}", library.display());
            report.add(Finding::blocks("library", text));
            Ok(None)
        }
        Ok(own) => Ok(Some(own)),
    }
}

fn look_at_linkage(report: &mut Report, facts: &elf::Facts) {
    match &facts.linkage {
        Linkage::Glibc(_) => {}
        Linkage::Static
            if facts
                .exports
                .iter()
                .chain(&facts.symbols)
                .any(|name| name == "fh_version") =>
        {
            report.linked_in = true;
            report.add(Finding::ok(
                "linkage",
                "Freehold is linked into this program; nothing needs to be preloaded",
            ));
        }
        Linkage::Static => report.add(
            Finding::blocks(
                "linkage",
                "the program is statically linked, so LD_PRELOAD means nothing to it",
            )
            .advise("link it with libfreehold.a"),
        ),
        Linkage::Musl(loader) => report.add(
            Finding::blocks(
                "linkage",
                format!("the program runs on musl ({loader}), the library needs glibc"),
            )
            .advise("link the program with a libfreehold.a that was built with musl-gcc"),
        ),
        Linkage::Other(loader) => report.add(Finding::blocks(
            "linkage",
            format!(
                "the program has a loader of its own ({loader}), which need not know LD_PRELOAD"
            ),
        )),
        Linkage::Library => report.add(Finding::blocks(
            "linkage",
            "this is a shared library, not a program",
        )),
        Linkage::NotExecutable(kind) => {
            report.add(Finding::blocks(
                "linkage",
                format!("this is {kind}, not a program"),
            ));
        }
    }
}

/// What the environment preloads already. The order matters: the first definition of malloc wins.
fn look_at_preload(report: &mut Report, preload: Option<&std::ffi::OsStr>) {
    let Some(preload) = preload.map(|value| value.to_string_lossy().into_owned()) else {
        return;
    };
    for entry in preload.split([' ', ':']).filter(|entry| !entry.is_empty()) {
        let name = Path::new(entry)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("libfreehold.so") {
            report.add(Finding::note(
                "preload",
                format!("LD_PRELOAD names {entry} already"),
            ));
        } else if let Some(allocator) = allocators::by_file_name(&name) {
            report.add(
                Finding::note("preload", format!("LD_PRELOAD names {allocator} ({entry})"))
                    .advise("put Freehold first, or take the other one out"),
            );
        } else {
            report.add(Finding::note(
                "preload",
                format!("LD_PRELOAD is set already: {entry}; keep it behind Freehold"),
            ));
        }
    }
}
