//! From the word that was typed to the file that the kernel will really execute.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The kernel follows at most this many interpreters.
const SCRIPT_DEPTH: usize = 4;
/// The kernel reads no more than this of a first line.
const FIRST_LINE: usize = 255;

/// A command after all scripts are resolved.
#[derive(Debug, PartialEq, Eq)]
pub struct Resolved {
    pub program: PathBuf,
    /// Scripts on the way, outermost first.
    pub scripts: Vec<PathBuf>,
}

/// Follows the search path, links and `#!` lines from `name` to a file that is no script.
pub fn resolve(name: &OsStr) -> Result<Resolved> {
    resolve_with(name, env::var_os("PATH").as_deref())
}

fn resolve_with(name: &OsStr, path: Option<&OsStr>) -> Result<Resolved> {
    let mut scripts = Vec::new();
    let mut current = find(name, path)?;
    while let Some(next) = interpreter(&current, path)? {
        if scripts.len() == SCRIPT_DEPTH {
            bail!(
                "{} leads through more than {SCRIPT_DEPTH} scripts",
                Path::new(name).display()
            );
        }
        scripts.push(current);
        current = next;
    }
    let program = current
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", current.display()))?;
    Ok(Resolved { program, scripts })
}

/// A name with a slash is a path, any other is looked for in the directories of PATH, as execvp does.
fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        if file.is_dir() {
            bail!("{} is a directory", file.display());
        }
        if !file.exists() {
            bail!("{} does not exist", file.display());
        }
        if !executable(&file) {
            bail!("{} is not executable", file.display());
        }
        return Ok(file);
    }
    env::split_paths(path.unwrap_or_default())
        .map(|directory| directory.join(name))
        .find(|file| file.is_file() && executable(file))
        .with_context(|| format!("{} was not found in PATH", Path::new(name).display()))
}

fn executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
}

/// The program that runs `file`, if it is a script.
fn interpreter(file: &Path, path: Option<&OsStr>) -> Result<Option<PathBuf>> {
    let Some(words) = first_line(file)? else {
        return Ok(None);
    };
    let Some(name) = words.first() else {
        bail!("{} has an empty #! line", file.display())
    };
    let found =
        find(name, path).with_context(|| format!("the interpreter of {}", file.display()))?;
    Ok(Some(found))
}

/// The words behind `#!`; none: the file does not begin so. `#!/usr/bin/env NAME` is followed to NAME, since `env` only stays
/// for an instant and hands LD_PRELOAD on.
pub fn first_line(file: &Path) -> Result<Option<Vec<OsString>>> {
    let mut head = Vec::new();
    File::open(file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .take(FIRST_LINE as u64)
        .read_to_end(&mut head)?;
    let Some(rest) = head.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let words: Vec<&OsStr> = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes)
        .collect();
    let is_env = |word: &&OsStr| Path::new(word).file_name() == Some(OsStr::new("env"));
    let target = words
        .first()
        .filter(|word| is_env(word))
        .and_then(|_| env_target(&words[1..]));
    let words = target.map_or_else(
        || words.iter().map(|word| (*word).to_owned()).collect(),
        |name| vec![name],
    );
    Ok(Some(words))
}

/// The program that `env` is told to run: its first argument that is neither an option nor an assignment.
fn env_target(arguments: &[&OsStr]) -> Option<OsString> {
    arguments
        .iter()
        .find(|word| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'='))
        .map(|word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        let file = directory.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn resolve_in(directory: &Path, name: &str) -> Result<Resolved> {
        resolve_with(OsStr::new(name), Some(directory.as_os_str()))
    }

    #[test]
    fn a_name_is_looked_for_in_the_search_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = script(dir.path(), "tool", "\x7fELF");
        let found = resolve_in(dir.path(), "tool").unwrap();
        assert_eq!(
            found,
            Resolved {
                program: file.canonicalize().unwrap(),
                scripts: vec![]
            }
        );
    }

    #[test]
    fn scripts_are_followed_to_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let program = script(dir.path(), "runner", "\x7fELF");
        let inner = script(
            dir.path(),
            "inner",
            &format!("#!{} -x\n", program.display()),
        );
        let outer = script(dir.path(), "outer", &format!("#! {}\n", inner.display()));
        let found = resolve_in(dir.path(), "outer").unwrap();
        assert_eq!(found.program, program.canonicalize().unwrap());
        assert_eq!(found.scripts, vec![outer, inner]);
    }

    #[test]
    fn env_is_looked_through() {
        let dir = tempfile::tempdir().unwrap();
        let program = script(dir.path(), "lang", "\x7fELF");
        script(dir.path(), "app", "#!/usr/bin/env -S A=1 lang --fast\n");
        let found = resolve_in(dir.path(), "app").unwrap();
        assert_eq!(found.program, program.canonicalize().unwrap());
    }

    #[test]
    fn what_cannot_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, b"text").unwrap();
        let say = |name: &str| format!("{:#}", resolve_in(dir.path(), name).unwrap_err());
        assert_eq!(say("missing"), "missing was not found in PATH");
        assert_eq!(say("plain"), "plain was not found in PATH");
        assert_eq!(say("/no/such/file"), "/no/such/file does not exist");
        assert_eq!(
            say(&plain.display().to_string()),
            format!("{} is not executable", plain.display())
        );
        assert_eq!(
            say(&format!("{}/", dir.path().display())),
            format!("{}/ is a directory", dir.path().display())
        );
    }

    #[test]
    fn a_circle_of_scripts_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("self");
        script(dir.path(), "self", &format!("#!{}\n", file.display()));
        assert!(
            resolve_in(dir.path(), "self")
                .unwrap_err()
                .to_string()
                .contains("more than 4 scripts")
        );
    }
}
