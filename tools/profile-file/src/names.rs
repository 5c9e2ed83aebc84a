//! What a person calls a process: the name by which it was started, not the file that a link led to; of an interpreter
//! the script that it runs.

use crate::layout::{self, Header};
use crate::process;

/// An interpreter, and how its options hide the script.
struct Interpreter {
    /// Without a version behind it.
    names: &'static [&'static str],
    /// The next word is the option's value.
    with_value: &'static [&'static str],
    /// The next word is what runs: a module, an archive.
    runs_next: &'static [&'static str],
    /// The code itself is on the command line, so there is no script.
    is_code: &'static [&'static str],
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "pypy"],
        with_value: &["-W", "-X", "--check-hash-based-pycs"],
        runs_next: &["-m"],
        is_code: &["-c"],
    },
    Interpreter {
        names: &["node", "nodejs"],
        with_value: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
            "--input-type",
            "--env-file",
            "--inspect-port",
            "--title",
        ],
        runs_next: &[],
        is_code: &["-e", "--eval", "-p", "--print"],
    },
    Interpreter {
        names: &["java"],
        with_value: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
        ],
        runs_next: &["-jar", "-m", "--module"],
        is_code: &[],
    },
    Interpreter {
        names: &["perl"],
        with_value: &["-I"],
        runs_next: &[],
        is_code: &["-e", "-E"],
    },
    Interpreter {
        names: &["ruby"],
        with_value: &["-I", "-r", "-C", "-E"],
        runs_next: &[],
        is_code: &["-e"],
    },
    Interpreter {
        names: &["php"],
        with_value: &["-d", "-c", "-S", "-t", "-z"],
        runs_next: &["-f", "--file"],
        is_code: &["-r", "--run"],
    },
    Interpreter {
        names: &["lua", "luajit"],
        with_value: &["-e", "-l"],
        runs_next: &[],
        is_code: &[],
    },
    Interpreter {
        names: &["sh", "bash", "dash", "zsh", "ksh", "fish"],
        with_value: &["-o", "-O", "+o", "+O", "--rcfile", "--init-file"],
        runs_next: &[],
        is_code: &["-c"],
    },
    Interpreter {
        names: &["tclsh", "wish", "julia"],
        with_value: &["-L", "-J"],
        runs_next: &[],
        is_code: &["-e", "-E"],
    },
];

impl Interpreter {
    /// The interpreter that has this name, with or without a version.
    fn called(name: &str) -> Option<&'static Interpreter> {
        let plain =
            name.trim_end_matches(|letter: char| letter.is_ascii_digit() || ".-".contains(letter));
        INTERPRETERS
            .iter()
            .find(|known| known.names.contains(&plain))
    }

    /// What it runs, as it stands on the command line.
    fn script<'a>(&self, arguments: &'a [String]) -> Option<&'a str> {
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if word == "--" {
                return words.next();
            }
            if word.len() < 2 || !word.starts_with(['-', '+']) {
                return (word != "-").then_some(word);
            }
            if self.is_one_of(word, self.is_code) {
                return None;
            }
            if self.is_one_of(word, self.runs_next) {
                return words.next();
            }
            if self.with_value.contains(&word) {
                words.next();
            }
        }
        None
    }

    /// The word is one of these options, or several letters of which the last is: `-Im`, `-ne`. Where the first letter
    /// takes a value, the other letters are that.
    fn is_one_of(&self, word: &str, options: &[&str]) -> bool {
        if options.contains(&word) {
            return true;
        }
        let Some(letters) = word.strip_prefix('-').filter(|rest| {
            rest.len() > 1 && rest.bytes().all(|letter| letter.is_ascii_alphabetic())
        }) else {
            return false;
        };
        // The options of these are words behind one dash.
        if self.names.contains(&"java") || letters.starts_with(['M', 'm']) {
            return false;
        }
        let option = |letter: &str| format!("-{letter}");
        !self.with_value.contains(&option(&letters[..1]).as_str())
            && options.contains(&option(&letters[letters.len() - 1..]).as_str())
    }
}

/// The last part of a path.
fn last_part(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(path)
}

/// The program's own name, with a path if one is known: `program` is the file that runs, `command` the words by which it
/// was started.
pub fn own(program: &str, command: &[String]) -> String {
    let program = program.strip_suffix(" (deleted)").unwrap_or(program);
    let called = called(program, command);
    let interpreter = [last_part(program), last_part(&called)]
        .into_iter()
        .find_map(Interpreter::called);
    let script = interpreter
        .and_then(|interpreter| interpreter.script(command.get(1..)?))
        .map(|script| script.trim_end_matches('/'))
        .filter(|script| !matches!(last_part(script), "" | "." | ".."));
    script.map_or(called, str::to_owned)
}

/// The name by which the file was started: the first word of the command line, if it is one.
fn called(program: &str, command: &[String]) -> String {
    let Some(first) = command.first() else {
        return program.to_owned();
    };
    let file = last_part(program);
    // A login shell has a dash in front. A title that the program gave itself goes on behind its name: "redis-server
    // *:6379", "nginx: worker process".
    let word = first.strip_prefix('-').unwrap_or(first);
    let title = word
        .split_whitespace()
        .next()
        .unwrap_or("")
        .trim_end_matches(':');
    let same = |word: &str| !file.is_empty() && last_part(word) == file;
    if title.is_empty() || same(title) || same(word) {
        return if program.is_empty() { word } else { program }.to_owned();
    }
    title.to_owned()
}

/// Every name that a program answers to, its own first: `comm` is what the kernel calls it.
fn all(program: &str, command: &[String], comm: Option<&str>) -> Vec<String> {
    let own = own(program, command);
    let called = called(program, command);
    let file = program.strip_suffix(" (deleted)").unwrap_or(program);
    let first = command.first().map_or("", String::as_str);
    let mut names: Vec<String> = Vec::new();
    let paths = [own.as_str(), comm.unwrap_or(""), file, &called, first];
    for name in paths.map(last_part) {
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The names of a process that runs, its own first.
pub fn of_process(pid: u64) -> Vec<String> {
    let comm = process::text_of(&process::directory(pid).join("comm")).ok();
    all(
        &file_of(pid),
        &process::command_line(pid),
        comm.as_deref().map(str::trim_end),
    )
}

/// The own name of a process that runs, with a path if one is known.
pub fn own_of_process(pid: u64) -> String {
    match own(&file_of(pid), &process::command_line(pid)) {
        // A thread of the kernel has neither a file nor a command line.
        name if name.is_empty() => of_process(pid).pop().unwrap_or_default(),
        name => name,
    }
}

fn file_of(pid: u64) -> String {
    process::program(pid).map_or_else(String::new, |path| path.to_string_lossy().into_owned())
}

/// The own name of a command that is not started yet.
pub fn own_of_command(command: &[String]) -> String {
    own(command.first().map_or("", String::as_str), command)
}

/// The own name of the program that a profile file is of.
pub fn own_of_header(header: &Header) -> String {
    own(&layout::text(&header.program), &words_of(header))
}

/// The names of the program that a profile file is of, its own first.
pub fn of_header(header: &Header) -> Vec<String> {
    all(&layout::text(&header.program), &words_of(header), None)
}

/// The words of the command line, which stand behind the program's file. The last one may be cut: it counts all the same.
fn words_of(header: &Header) -> Vec<String> {
    header
        .program
        .split(|byte| *byte == 0)
        .skip(1)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_name(program: &str, command: &[&str]) -> String {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        own(program, &command)
    }

    #[test]
    fn a_program_is_called_as_it_was_started() {
        for (program, command, name) in [
            (
                "/usr/bin/redis-check-rdb",
                &["redis-server"][..],
                "redis-server",
            ),
            (
                "/usr/bin/redis-check-rdb",
                &["redis-server *:6379"],
                "redis-server",
            ),
            (
                "/usr/bin/redis-check-rdb",
                &["/opt/r/redis-server", "x"],
                "/opt/r/redis-server",
            ),
            (
                "/usr/sbin/nginx",
                &["nginx: worker process"],
                "/usr/sbin/nginx",
            ),
            (
                "/usr/lib/postgresql/bin/postgres",
                &["postgres: checkpointer "],
                "/usr/lib/postgresql/bin/postgres",
            ),
            ("/opt/my server", &["./my server"], "/opt/my server"),
            ("/usr/bin/bash", &["-bash"], "/usr/bin/bash"),
            ("/usr/bin/busybox", &["vi", "a.py"], "vi"),
            ("/usr/bin/app (deleted)", &["app"], "/usr/bin/app"),
            ("/usr/bin/app", &[], "/usr/bin/app"),
            ("/usr/bin/app", &[" "], "/usr/bin/app"),
            ("", &["app"], "app"),
        ] {
            assert_eq!(own_name(program, command), name, "{program} {command:?}");
        }
    }

    #[test]
    fn an_interpreter_is_called_as_its_script() {
        let python = "/usr/bin/python3.11";
        for (program, command, name) in [
            (python, &["python3", "app.py", "--port", "80"][..], "app.py"),
            (
                python,
                &["python3", "-u", "-X", "dev", "/srv/app.py"],
                "/srv/app.py",
            ),
            (python, &["python3", "-Wdefault", "app.py"], "app.py"),
            (python, &["python3", "-m", "http.server"], "http.server"),
            (python, &["python3", "-Im", "http.server"], "http.server"),
            (python, &["python3", "-c", "print(1)", "x.py"], "python3"),
            (python, &["python3.11", "-Ec", "print(1)"], python),
            (python, &["python3", "-"], "python3"),
            (python, &["python3", "."], "python3"),
            (python, &["python3", "service/"], "service"),
            (python, &["gunicorn: worker [app]"], "gunicorn"),
            (
                "/usr/bin/node",
                &["node", "-r", "./hook.js", "--max-old-space-size=99", "a.js"],
                "a.js",
            ),
            ("/usr/bin/node", &["node", "-e", "1"], "/usr/bin/node"),
            (
                "/usr/bin/node",
                &["node", "--inspect-port", "9999", "a.js"],
                "a.js",
            ),
            ("/usr/bin/node", &["npm start"], "npm"),
            (
                "/usr/lib/jvm/bin/java",
                &["java", "-Xmx1g", "-cp", "a:b", "org.app.Main"],
                "org.app.Main",
            ),
            (
                "/usr/lib/jvm/bin/java",
                &["java", "-jar", "app.jar", "x"],
                "app.jar",
            ),
            (
                "/usr/bin/perl",
                &["/usr/bin/perl", "-w", "-Mstrict", "tool.pl"],
                "tool.pl",
            ),
            ("/usr/bin/perl", &["perl", "-ne", "print"], "/usr/bin/perl"),
            (
                "/usr/bin/php8.2",
                &["php", "-d", "a=1", "-f", "page.php"],
                "page.php",
            ),
            (
                "/usr/bin/dash",
                &["sh", "-e", "./build.sh", "-c"],
                "./build.sh",
            ),
            (
                "/usr/bin/bash",
                &["bash", "-xc", "server &"],
                "/usr/bin/bash",
            ),
            (
                "/usr/bin/lua5.4",
                &["lua", "-l", "m", "--", "game.lua"],
                "game.lua",
            ),
        ] {
            assert_eq!(own_name(program, command), name, "{program} {command:?}");
        }
    }

    #[test]
    fn a_program_answers_to_all_its_names() {
        let names = |program: &str, command: &[&str], comm| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            all(program, &command, Some(comm))
        };
        assert_eq!(
            names(
                "/usr/bin/python3.11",
                &["python3", "/srv/app.py"],
                "python3"
            ),
            ["app.py", "python3", "python3.11"]
        );
        assert_eq!(
            names(
                "/usr/bin/redis-check-rdb",
                &["redis-server *:6379"],
                "redis-server"
            ),
            ["redis-server", "redis-check-rdb", "redis-server *:6379"]
        );
        assert_eq!(names("", &[], "kthreadd"), ["kthreadd"]);
    }

    #[test]
    fn a_profile_file_says_how_its_program_was_started() {
        let mut header: Header = bytemuck::Zeroable::zeroed();
        let text = b"/usr/bin/python3.11\0python3\0app.py\0--port";
        header.program[..text.len()].copy_from_slice(text);
        assert_eq!(own_of_header(&header), "app.py");
        assert_eq!(of_header(&header), ["app.py", "python3.11", "python3"]);
        header.program.fill(b'x');
        assert_eq!(own_of_header(&header), "x".repeat(512));
    }
}
