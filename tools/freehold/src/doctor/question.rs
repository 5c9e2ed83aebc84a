//! What the words behind `freehold doctor` ask about: nothing but this machine, a process, a profile file, or a command with
//! its arguments. `--` says that they are a command; without it they are looked at.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, bail};
use profile_file::{FindError, ReadError, Target};

use super::program;

pub enum Question {
    Machine,
    Process(u32),
    Left(Target),
    Command(Vec<OsString>),
}

/// Which program runs a script that is not executable itself.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("py", &["python3"]),
    ("rb", &["ruby"]),
    ("js", &["node"]),
    ("mjs", &["node"]),
    ("pl", &["perl"]),
    ("php", &["php"]),
    ("lua", &["lua"]),
    ("sh", &["sh"]),
    ("jar", &["java", "-jar"]),
];

/// `command` is true where `--` stands before the words.
pub fn read(words: &[OsString], command: bool) -> Result<Question> {
    let Some(first) = words.first() else {
        return Ok(Question::Machine);
    };
    if command || words.len() > 1 {
        return Ok(Question::Command(as_command(words)));
    }
    // What is no text is the name of no process.
    let Some(name) = first.to_str() else {
        return Ok(Question::Command(as_command(words)));
    };
    let error = match Target::find(name) {
        Ok(Target::Live { pid, .. })
        | Err(FindError::NotObserved { pid, .. } | FindError::NotOurs { pid, .. }) => {
            return Ok(Question::Process(u32::try_from(pid)?));
        }
        Ok(left) => return Ok(Question::Left(left)),
        Err(error) => error,
    };
    let no_profile = matches!(
        error,
        FindError::NoName { .. } | FindError::File { .. } | FindError::Profile { .. }
    );
    if no_profile && !is_number(words) {
        let words = as_command(words);
        // What may be executed is a program, even one that does not start.
        if program::resolve(&words[0]).is_ok()
            || is_path(&words[0]) && is_executable(Path::new(&words[0]))
        {
            return Ok(Question::Command(words));
        }
    }
    match error {
        FindError::NoName { .. } => bail!(
            "there is no program {name:?} in PATH, no process and no file of that name, and none that was observed"
        ),
        FindError::File { .. }
        | FindError::Profile {
            reason: ReadError::TooShort(_) | ReadError::NotAProfile(_),
            ..
        } if Path::new(name).is_file() => bail!(
            "{name} is neither a program nor a script that says what runs it, and no profile file: if it is a program, `chmod +x` it"
        ),
        error => bail!(error),
    }
}

/// One word that is the number of a process.
pub fn is_number(words: &[OsString]) -> bool {
    matches!(words, [word] if word.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// The words as one would start them: a script in this directory needs no `./`, and one that is not executable gets the
/// interpreter that its name tells, or its first line.
fn as_command(words: &[OsString]) -> Vec<OsString> {
    let first = Path::new(&words[0]);
    if !first.is_file() || !is_path(&words[0]) && program::resolve(&words[0]).is_ok() {
        return words.to_vec();
    }
    let mut command = Vec::new();
    if is_executable(first) {
        command.push(match is_path(&words[0]) {
            true => words[0].clone(),
            false => Path::new(".").join(first).into_os_string(),
        });
        command.extend_from_slice(&words[1..]);
        return command;
    }
    let ending = first.extension().and_then(OsStr::to_str).unwrap_or("");
    if let Some((_, interpreter)) = INTERPRETERS.iter().find(|(known, _)| *known == ending) {
        command.extend(interpreter.iter().map(OsString::from));
    } else if let Ok(Some(interpreter)) = program::first_line(first) {
        command.extend(interpreter);
    }
    command.extend_from_slice(words);
    command
}

fn is_path(word: &OsStr) -> bool {
    word.as_encoded_bytes().contains(&b'/')
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<OsString> {
        as_command(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_script_gets_the_interpreter_that_its_name_tells() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("app.py");
        std::fs::write(&script, "print(1)\n").unwrap();
        let script = script.to_str().unwrap();
        assert_eq!(
            command(&[script, "--port", "80"]),
            ["python3", script, "--port", "80"]
        );
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(command(&[script]), [script]);
    }

    #[test]
    fn a_program_that_does_not_start_is_no_profile_file() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("app");
        std::fs::write(&script, "#!/nowhere/python\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let question = read(&[script.into_os_string()], false).unwrap();
        assert!(matches!(question, Question::Command(_)));
    }

    #[test]
    fn a_command_stays_as_it_is() {
        assert_eq!(command(&["sort", "-n"]), ["sort", "-n"]);
        assert_eq!(command(&["/no/such.py"]), ["/no/such.py"]);
    }
}
