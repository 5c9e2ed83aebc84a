//! The answer: findings, a verdict, and how both look to a person or to a program.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Looked at and right.
    Ok,
    /// Good to know; nothing has to be done.
    Note,
    /// The program would not run under Freehold, or its own memory would not come from it.
    Blocks,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// What was looked at, one word.
    pub check: &'static str,
    pub text: String,
    /// What one can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    fn new(level: Level, check: &'static str, text: impl Into<String>) -> Self {
        Self {
            level,
            check,
            text: text.into(),
            advice: None,
        }
    }

    pub fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, text)
    }

    pub fn note(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(Level::Note, check, text)
    }

    pub fn blocks(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(Level::Blocks, check, text)
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// What was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Machine,
    Command(Vec<String>),
    Process(u32),
    /// What a process left behind.
    Profile {
        pid: u64,
        program: String,
    },
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub subject: Subject,
    /// The file that is really executed, after links and scripts.
    pub program: Option<PathBuf>,
    /// In words: 64-bit x86-64, glibc.
    pub kind: Option<String>,
    /// Scripts on the way to the program, outermost first.
    pub scripts: Vec<PathBuf>,
    pub library: Option<PathBuf>,
    /// Freehold is a part of the program, so that nothing has to be preloaded.
    pub linked_in: bool,
    /// For a process: the options that it was started with.
    pub options: Vec<String>,
    pub findings: Vec<Finding>,
}

impl Report {
    fn new(subject: Subject) -> Self {
        Self {
            subject,
            program: None,
            kind: None,
            scripts: Vec::new(),
            library: None,
            linked_in: false,
            options: Vec::new(),
            findings: Vec::new(),
        }
    }

    pub fn for_command(command: &[OsString]) -> Self {
        Self::new(Subject::Command(
            command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        ))
    }

    pub fn for_machine() -> Self {
        Self::new(Subject::Machine)
    }

    pub fn for_process(pid: u32) -> Self {
        Self::new(Subject::Process(pid))
    }

    pub fn for_page(pid: u64, program: String) -> Self {
        Self::new(Subject::Profile { pid, program })
    }

    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Yes, unless something is in the way. Never stored, so that it cannot disagree with the findings.
    pub fn verdict(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.level != Level::Blocks)
    }

    /// The report with its verdict, for programs.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Answer<'a> {
            under_freehold: bool,
            #[serde(flatten)]
            report: &'a Report,
        }
        serde_json::to_string_pretty(&Answer {
            under_freehold: self.verdict(),
            report: self,
        })
    }

    /// The report for a person: facts, findings, then the verdict and what to type.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |label: &str, text: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {label:<8}  {text}");
        };
        if let Some(program) = &self.program {
            let kind = self
                .kind
                .as_deref()
                .map(|kind| format!(" ({kind})"))
                .unwrap_or_default();
            line("program", &format!("{}{kind}", program.display()));
        }
        if let Some(library) = &self.library {
            line("library", &library.display().to_string());
        }
        if !self.options.is_empty() {
            line("options", &self.options.join(", "));
        }
        for finding in &self.findings {
            let label = match finding.level {
                Level::Ok => "ok",
                Level::Note => "note",
                Level::Blocks => "BLOCKS",
            };
            line(label, &finding.text);
            if let Some(advice) = &finding.advice {
                line("", &format!("-> {advice}"));
            }
        }
        out.push_str(&self.closing());
        out
    }

    fn closing(&self) -> String {
        match (&self.subject, self.verdict()) {
            (Subject::Machine, true) => {
                "Yes: programs can run under Freehold here.\n  freehold doctor PROGRAM\n".to_owned()
            }
            (Subject::Machine, false) => "No: nothing can run under Freehold here.\n".to_owned(),
            (Subject::Process(pid), true) => format!("Yes: process {pid} runs under Freehold.\n"),
            (Subject::Process(pid), false) => {
                format!("No: process {pid} does not run under Freehold.\n")
            }
            // Only a program under Freehold has a profile file, so there is no other answer.
            (Subject::Profile { pid, program }, _) => {
                format!("Yes: {program} ({pid}) ran under Freehold.\n")
            }
            (Subject::Command(words), false) => {
                format!("No: {} would not run under Freehold.\n", words[0])
            }
            (Subject::Command(words), true) => {
                let mut text = format!("Yes: {} would run under Freehold.\n", words[0]);
                if let (Some(library), false) = (&self.library, self.linked_in) {
                    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
                    let library = quote(&library.display().to_string());
                    let _ = writeln!(text, "  LD_PRELOAD={library} {}", words.join(" "));
                }
                text
            }
        }
    }
}

/// A word as one would type it in a shell: untouched when it is plain, else in single quotes.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Report {
        Report::for_command(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_report_that_says_yes() {
        let mut report = command(&["my server", "--name", "it's"]);
        report.program = Some("/opt/my server".into());
        report.kind = Some("64-bit x86-64, glibc".into());
        report.library = Some("/usr/lib/libfreehold.so".into());
        report.add(Finding::ok(
            "loader",
            "malloc of 3 files is bound to Freehold",
        ));
        report.add(Finding::note("preload", "something else").advise("do that"));
        insta::assert_snapshot!(report.to_text(), @r"
          program   /opt/my server (64-bit x86-64, glibc)
          library   /usr/lib/libfreehold.so
          ok        malloc of 3 files is bound to Freehold
          note      something else
                    -> do that
        Yes: my server would run under Freehold.
          LD_PRELOAD=/usr/lib/libfreehold.so 'my server' --name 'it'\''s'
        ");
    }

    #[test]
    fn one_thing_in_the_way_is_enough_for_no() {
        let mut report = command(&["busybox"]);
        report.add(Finding::ok("rights", "fine"));
        report.add(Finding::blocks("linkage", "static"));
        assert!(!report.verdict());
        insta::assert_snapshot!(report.to_text(), @r"
          ok        fine
          BLOCKS    static
        No: busybox would not run under Freehold.
        ");
    }

    #[test]
    fn json_carries_the_verdict_beside_the_findings() {
        let mut report = Report::for_process(7);
        report.options.push("verbose=1".into());
        report.add(Finding::blocks("maps", "not there"));
        let value: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(value["under_freehold"], false);
        assert_eq!(value["subject"]["process"], 7);
        assert_eq!(value["options"][0], "verbose=1");
        assert_eq!(value["findings"][0]["level"], "blocks");
    }
}
