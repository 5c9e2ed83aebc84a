//! The observed program as our child: started under Freehold, given the signals that were meant for it, waited for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::ending::{Ending, Kills};
use crate::doctor;
use crate::record::attach::Recordable;

/// How the program is to be observed.
pub struct Observation<'a> {
    pub library: &'a Path,
    /// Where the library puts its profile file.
    pub directory: &'a Path,
    /// Mean bytes between samples.
    pub interval: u64,
    /// One allocation in so many has guards around it.
    pub guard: Option<u32>,
    /// It may be recorded later.
    pub recordable: Option<&'a Recordable>,
}

/// What is known of a program that has ended.
pub struct Outcome {
    pub ending: Ending,
    /// Resident bytes at the highest, of the program or a child of its that it waited for; none if the kernel's count
    /// may be that of this command itself, which it was forked from.
    pub peak_resident: Option<u64>,
}

/// A program that could not be started, with the exit code that shells give for the reason.
#[derive(Debug)]
pub struct NotStarted {
    pub message: String,
    pub code: u8,
}

/// Signals that somebody may send to this command and mean the program.
const PASSED_ON: [i32; 9] = [
    consts::SIGHUP,
    consts::SIGINT,
    consts::SIGQUIT,
    consts::SIGTERM,
    consts::SIGUSR1,
    consts::SIGUSR2,
    consts::SIGALRM,
    consts::SIGWINCH,
    consts::SIGCONT,
];

/// Starts `command`, and from then on passes signals to it.
pub fn start(
    command: &[OsString],
    how: &Observation,
) -> Result<std::result::Result<Child, NotStarted>> {
    let environment = environment(
        how,
        std::env::var_os("LD_PRELOAD").as_deref(),
        std::env::var_os("FREEHOLD").as_deref(),
    )?;
    let mut environment = Vec::from(environment);
    if let Some(recordable) = how.recordable {
        recordable.add_to(&mut environment);
    }
    start_in(command, environment, Stdio::inherit())
}

/// The same with these variables, and with this as its standard error.
pub fn start_in(
    command: &[OsString],
    environment: impl IntoIterator<Item = (&'static str, OsString)>,
    errors: Stdio,
) -> Result<std::result::Result<Child, NotStarted>> {
    let name = &command[0];
    // From now on a signal that comes before the program runs is kept, and passed to it as soon as it does.
    let signals = SignalsInfo::<WithOrigin>::new(PASSED_ON)?;
    let mut start = Command::new(name);
    start.args(&command[1..]).stderr(errors);
    // Its loader would end the program for a library that needs glibc.
    if !doctor::is_of_musl(name) {
        start.envs(environment);
    }
    let child = match start.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(not_started(name, &error))),
    };
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        thread::spawn(move || pass_on(signals, pid));
    }
    Ok(Ok(child))
}

fn not_started(name: &OsStr, error: &io::Error) -> NotStarted {
    let code = if error.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    };
    let reason = match error.kind() {
        io::ErrorKind::NotFound => {
            doctor::missing_for(name).unwrap_or_else(|| "there is no such command".to_owned())
        }
        io::ErrorKind::PermissionDenied => "it may not be executed".to_owned(),
        _ => error.to_string(),
    };
    NotStarted {
        message: format!("cannot start {}: {reason}", Path::new(name).display()),
        code,
    }
}

/// The variables that make a program, and all that it starts, run under Freehold and show itself in `directory`. What
/// was set before stays: other preloaded libraries behind ours, other options in front of ours.
fn environment(
    how: &Observation,
    preload: Option<&OsStr>,
    options: Option<&OsStr>,
) -> Result<[(&'static str, OsString); 2]> {
    let directory = how.directory.as_os_str();
    if directory
        .as_bytes()
        .iter()
        .any(|byte| b",\n".contains(byte))
    {
        bail!(
            "the directory {} has a comma in its name, which separates options; choose another one with --keep",
            how.directory.display()
        );
    }
    let mut more = OsString::from("observe=1,page=");
    more.push(directory);
    more.push(format!(",sample={}", how.interval));
    if let Some(one_in) = how.guard {
        more.push(format!(",guard={one_in}"));
    }
    Ok(added_to(preload, options, how.library, &more))
}

/// The variables as they are, with our library and our options.
pub fn added_to(
    preload: Option<&OsStr>,
    options: Option<&OsStr>,
    library: &Path,
    more: &OsStr,
) -> [(&'static str, OsString); 2] {
    let mut libraries = library.as_os_str().to_owned();
    if let Some(before) = preload.filter(|text| !text.is_empty()) {
        libraries.push(":");
        libraries.push(before);
    }
    let mut list = options.unwrap_or_default().to_owned();
    if !list.is_empty() {
        list.push(",");
    }
    list.push(more);
    [("LD_PRELOAD", libraries), ("FREEHOLD", list)]
}

/// What the terminal sends reaches the whole foreground group, and so the program, without our help; a second copy
/// would be one too many.
fn is_for_us_alone(origin: &Origin) -> bool {
    !matches!(origin.cause, Cause::Kernel)
}

fn pass_on(mut signals: SignalsInfo<WithOrigin>, pid: Pid) {
    for origin in signals.forever() {
        let signal = Signal::from_named_raw(origin.signal).filter(|_| is_for_us_alone(&origin));
        if let Some(signal) = signal {
            // It may have ended by now: no process is left to be told.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Follows the control group that a program is in, as it may be moved, or move itself: once it has ended, the kernel
/// does not always tell any more.
pub struct GroupWatch {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<Kills>,
}

impl GroupWatch {
    /// `before` is as it was when the program started, in our own group.
    pub fn start(pid: u32, before: Kills) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut seen = before;
            // Often at first: programs are moved when they start.
            let mut pause = Duration::from_millis(5);
            while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = Kills::of(pid);
                if now.knows_group() && now.group != seen.group {
                    seen = now.joined_since(&seen);
                }
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            seen
        });
        Self { stop, thread }
    }

    /// The counters at the moment when the program came into its last group.
    fn end(self) -> Kills {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Waits for the end of the program. It is looked at once more before the kernel forgets it: its control group tells
/// who sent a SIGKILL.
pub fn wait(child: &mut Child, watch: GroupWatch) -> Result<Outcome> {
    let pid = child.id();
    if let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(id), ended) {}
    }
    let last = Kills::of(pid);
    let before = watch.end();
    let after = if last.knows_group() {
        last
    } else {
        before.again()
    };
    let own_peak = crate::amounts::own_peak();
    let status = child.wait()?;
    Ok(Outcome {
        ending: ending(status, &before, &after),
        peak_resident: peak_of_children().filter(|&peak| peak > own_peak),
    })
}

fn ending(status: ExitStatus, before: &Kills, after: &Kills) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited { code },
        (None, Some(consts::SIGKILL)) => after.explain(before).unwrap_or(Ending::Signalled {
            signal: consts::SIGKILL,
            core: false,
        }),
        (None, signal) => Ending::Signalled {
            signal: signal.unwrap_or(0),
            core: status.core_dumped(),
        },
    }
}

/// The largest resident size of a child that was waited for, and of those that it waited for.
fn peak_of_children() -> Option<u64> {
    let kib = usage_of_children()?.ru_maxrss;
    u64::try_from(kib).ok().map(|kib| kib * 1024)
}

/// Seconds of CPU time that they had outside of the kernel.
pub fn seconds_of_children() -> Option<f64> {
    let time = usage_of_children()?.ru_utime;
    Some(time.tv_sec as f64 + time.tv_usec as f64 / 1e6)
}

fn usage_of_children() -> Option<libc::rusage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the right type and size, which the call fills; zeroes are a valid rusage.
    unsafe {
        let done = libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) == 0;
        done.then(|| usage.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(directory: &'static str) -> Observation<'static> {
        Observation {
            library: Path::new("/opt/libfreehold.so"),
            directory: Path::new(directory),
            interval: 4096,
            guard: None,
            recordable: None,
        }
    }

    #[test]
    fn what_was_set_before_is_kept() {
        let [(_, preload), (_, options)] = environment(
            &observation("/run/f"),
            Some(OsStr::new("/opt/libother.so")),
            Some(OsStr::new("purge=eager")),
        )
        .unwrap();
        assert_eq!(preload, "/opt/libfreehold.so:/opt/libother.so");
        assert_eq!(options, "purge=eager,observe=1,page=/run/f,sample=4096");
    }

    #[test]
    fn an_empty_variable_is_no_variable() {
        let [(_, preload), (_, options)] =
            environment(&observation("/run/f"), Some(OsStr::new("")), None).unwrap();
        assert_eq!(preload, "/opt/libfreehold.so");
        assert_eq!(options, "observe=1,page=/run/f,sample=4096");
    }

    #[test]
    fn a_folder_that_the_options_cannot_carry_is_refused() {
        let error = environment(&observation("/run/a,b"), None, None).unwrap_err();
        assert!(error.to_string().contains("comma"), "{error}");
    }

    #[test]
    fn reasons_not_to_start_have_the_codes_of_shells() {
        let missing = not_started(OsStr::new("x"), &io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(
            (missing.code, missing.message.as_str()),
            (127, "cannot start x: there is no such command")
        );
        let forbidden = not_started(
            OsStr::new("x"),
            &io::Error::from(io::ErrorKind::PermissionDenied),
        );
        assert_eq!(forbidden.code, 126);
    }
}
