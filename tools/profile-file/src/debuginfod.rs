//! Debug information that is not on this machine, fetched by build-id. The client is elfutils' own, which knows the
//! servers (DEBUGINFOD_URLS), and keeps what it fetched.

use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Fetches; once that is impossible, it is not tried again.
#[derive(Default)]
pub struct Fetcher {
    impossible: bool,
}

/// Why nothing was fetched.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// It cannot be had at all, in words that are worth saying; or they were said already.
    Impossible(Option<String>),
    /// The servers do not have this one.
    Unknown(String),
}

impl Fetcher {
    /// The file with the debug information of what has this build-id.
    pub fn fetch(&mut self, build_id: &str) -> Result<PathBuf, Missing> {
        if self.impossible {
            return Err(Missing::Impossible(None));
        }
        if env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
            return Err(self.impossible("DEBUGINFOD_URLS is not set, so no server is known"));
        }
        let found = Command::new("debuginfod-find")
            .args(["debuginfo", build_id])
            .stdin(Stdio::null())
            .output();
        match found {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8_lossy(&output.stdout)
                    .trim_end()
                    .to_owned();
                Ok(PathBuf::from(path))
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or("no reason was given");
                Err(Missing::Unknown(last.to_owned()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.impossible(
                "there is no debuginfod-find, which fetches it (Debian's package debuginfod)",
            )),
            Err(error) => Err(self.impossible(&format!("debuginfod-find does not run: {error}"))),
        }
    }

    fn impossible(&mut self, why: &str) -> Missing {
        self.impossible = true;
        Missing::Impossible(Some(format!("no debug information was fetched: {why}")))
    }
}
