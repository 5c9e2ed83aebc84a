//! A C++ project, made up, with templates and the heavier headers of the standard library, compiled by two jobs at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::allocators::{self, Allocator};
use super::measure::{Sample, run_to_end};
use super::program;
use super::scene::{Scene, percent};

const FILES: usize = 8;
const HEADERS: [&str; 8] = [
    "algorithm",
    "functional",
    "iostream",
    "map",
    "regex",
    "string",
    "variant",
    "vector",
];

pub struct Compile {
    make: PathBuf,
    version: String,
    directory: TempDir,
    files: usize,
}

impl Compile {
    pub fn new(size: u32) -> Result<Self> {
        let make = program::find("make", "make")?;
        let compiler = program::find("g++", "g++")?;
        let directory = program::directory()?;
        let files = percent(FILES, size);
        write_project(directory.path(), files).context("cannot write the project")?;
        let scene = Self {
            make,
            version: program::version(&compiler, "--version"),
            directory,
            files,
        };
        // Not counted: the first one reads the compiler from the disk.
        scene.run(&allocators::plain())?;
        Ok(scene)
    }
}

fn write_project(directory: &Path, files: usize) -> std::io::Result<()> {
    let mut objects = String::new();
    for number in 0..files {
        fs::write(directory.join(format!("part{number}.cc")), source(number))?;
        objects += &format!(" part{number}.o");
    }
    let main = "int main() { return 0; }\n";
    fs::write(directory.join("main.cc"), main)?;
    let rules = format!(
        "program: main.o{objects}\n\tg++ -o $@ $^\n%.o: %.cc\n\tg++ -std=c++17 -O1 -c -o $@ $<\n\
         clean:\n\trm -f program *.o\n"
    );
    fs::write(directory.join("Makefile"), rules)
}

fn source(number: usize) -> String {
    let mut text: String = HEADERS
        .iter()
        .map(|header| format!("#include <{header}>\n"))
        .collect();
    text += &format!("namespace part{number} {{\n");
    text += "template <int N> struct Table {\n\
             \x20   std::map<std::string, std::vector<std::variant<int, double, std::string>>> rows;\n\
             \x20   std::function<int(int)> step = [](int i) { return i * N; };\n\
             \x20   int sum() const {\n\
             \x20       int all = 0;\n\
             \x20       for (auto &row : rows) all += step(static_cast<int>(row.second.size()));\n\
             \x20       return all;\n\
             \x20   }\n\
             };\n";
    text += "int use(const std::string &line) {\n    int all = 0;\n";
    for kind in 0..20 {
        text += &format!(
            "    {{ Table<{kind}> t; t.rows[line].push_back({kind}); all += t.sum(); }}\n"
        );
    }
    text += "    if (std::regex_match(line, std::regex(\"[a-z]+[0-9]*\"))) std::cout << all;\n    return all;\n}\n}\n";
    text
}

impl Scene for Compile {
    fn describe(&self) -> String {
        format!(
            "{}, as packaged: a C++ project of {} files, make -j2",
            self.version,
            self.files + 1
        )
    }

    fn after(&self) -> Option<&'static str> {
        None
    }

    /// The kernel counts the peak of who starts a program as the program's own, so here nothing may be touched before.
    fn memory(&self) -> usize {
        0
    }

    fn whose_peak(&self) -> &'static str {
        "`peak` is that of the largest of its processes"
    }

    fn run(&self, allocator: &Allocator) -> Result<Sample> {
        let log = fs::File::create(self.directory.path().join("make.log"))
            .context("cannot make a file for what make says")?;
        let make = |target: &str| {
            let mut command = allocator.command(&self.make);
            command
                .current_dir(self.directory.path())
                .env_remove("MAKEFLAGS")
                .env_remove("MAKELEVEL")
                .args(["-j2", target])
                .stdin(Stdio::null());
            command
        };
        let cleaned = make("clean").stdout(Stdio::null()).status();
        cleaned.context("cannot run make")?;
        let both = log.try_clone().context("cannot share a file")?;
        let (status, sample) = run_to_end(make("program").stdout(log).stderr(both))?;
        if !status.success() {
            let said = fs::read_to_string(self.directory.path().join("make.log"));
            bail!("make ended with {status}: {}", said.unwrap_or_default());
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_name_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        write_project(directory.path(), 3).unwrap();
        let rules = fs::read_to_string(directory.path().join("Makefile")).unwrap();
        assert!(rules.starts_with("program: main.o part0.o part1.o part2.o\n"));
        let last = fs::read_to_string(directory.path().join("part2.cc")).unwrap();
        assert!(last.contains("namespace part2 {") && last.contains("#include <regex>"));
    }
}
