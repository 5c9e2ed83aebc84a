//! The statistics of a process, as the kernel keeps them, and the state of the machine before the first one.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use profile_file::process;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What one run cost.
#[derive(Clone, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// User and system time of the program and its children, not of those who ask it.
    pub cpu: Duration,
    /// The most memory that was resident at once, in bytes.
    pub peak: u64,
    /// What is resident after everything was dropped; nothing where the program has ended by then.
    pub after: Option<u64>,
}

/// Measures a program from when its work begins.
pub struct Meter {
    pid: u32,
    begun: Instant,
    wall: Option<Duration>,
    cpu_before: Duration,
    peak_of_tree: Option<PeakOfTree>,
}

impl Meter {
    /// Of a program that is one process: the kernel itself keeps its peak.
    pub fn of_one(pid: u32) -> Result<Self> {
        Ok(Self {
            pid,
            begun: Instant::now(),
            wall: None,
            cpu_before: cpu_time(pid)?,
            peak_of_tree: None,
        })
    }

    /// Of a program with children. Memory that they share is counted once, and the peak is the highest of many looks.
    pub fn of_tree(pid: u32) -> Result<Self> {
        Ok(Self {
            peak_of_tree: Some(PeakOfTree::watch(pid)),
            ..Self::of_one(pid)?
        })
    }

    /// The clock stops; time that the CPU spends on clearing up still counts.
    pub fn work_is_done(&mut self) {
        self.wall = Some(self.begun.elapsed());
    }

    pub fn read(self) -> Result<Sample> {
        let (peak, after) = match self.peak_of_tree {
            None => (
                status_bytes(self.pid, "VmHWM")?,
                status_bytes(self.pid, "VmRSS")?,
            ),
            Some(watched) => {
                let now = tree_bytes(self.pid);
                (watched.end().max(now), now)
            }
        };
        Ok(Sample {
            wall: self.wall.unwrap_or_else(|| self.begun.elapsed()),
            cpu: cpu_time(self.pid)?.saturating_sub(self.cpu_before),
            peak,
            after: Some(after),
        })
    }
}

/// A thread that looks at the memory of a process and its children again and again.
struct PeakOfTree {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl PeakOfTree {
    const EVERY: Duration = Duration::from_millis(50);

    fn watch(pid: u32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let asked_to_end = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut peak = 0;
            while !asked_to_end.load(Ordering::Relaxed) {
                peak = tree_bytes(pid).max(peak);
                thread::sleep(Self::EVERY);
            }
            peak
        });
        Self { over, thread }
    }

    fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .expect("the thread that looks does not panic")
    }
}

/// A process and all that descend from it.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[next]));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|word| word.parse::<u32>().ok()),
            );
        }
        next += 1;
    }
    found
}

/// What the processes of a tree take from the machine. One that has just ended takes nothing.
fn tree_bytes(pid: u32) -> u64 {
    tree(pid)
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .filter_map(|rollup| parse_status(&rollup, "Pss"))
        .sum()
}

/// Runs a command to its end. Its peak is that of the largest process in it.
pub fn run_to_end(command: &mut Command) -> Result<(ExitStatus, Sample)> {
    let begun = Instant::now();
    let child = command.spawn().context("cannot start the program")?;
    let mut status = 0;
    // SAFETY: a struct of numbers, for which zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both point at variables of the right type, which outlive the call. The child is waited for only here.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    if waited < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot wait for the program");
    }
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    let sample = Sample {
        wall: begun.elapsed(),
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        peak: usage.ru_maxrss as u64 * 1024,
        after: None,
    };
    Ok((ExitStatus::from_raw(status), sample))
}

/// A field of `/proc/PID/status`, in bytes. The peak (VmHWM) belongs to the program's own address space and
/// begins again with its exec, so nothing of this command is in it.
fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).context("the program is gone")?;
    parse_status(&status, field)
        .with_context(|| format!("no {field} in the status of process {pid}"))
}

fn parse_status(status: &str, field: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// User and system time that a process has used, with its children, also those that have ended.
fn cpu_time(pid: u32) -> Result<Duration> {
    let mut ticks = 0;
    for process in tree(pid) {
        match process::text_of(Path::new(&format!("/proc/{process}/stat"))) {
            Ok(stat) => {
                ticks += parse_stat(&stat)
                    .with_context(|| format!("cannot read the times of process {process}"))?;
            }
            Err(error) if process == pid => return Err(error).context("the program is gone"),
            // A child that ended just now; its times are its parent's.
            Err(_) => {}
        }
    }
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// The 14th to the 17th field: own times, and those of children that have ended. The second is a name in parentheses
/// and may hold anything, so counting begins behind its last parenthesis.
fn parse_stat(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<u64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    (fields.len() == 4).then(|| fields.iter().sum())
}

/// Touches `bytes` of memory and gives them back. In a virtual machine the first use of memory that the host
/// has never backed costs ten times as much as any later one, and would be charged to the program that runs first.
pub fn warm_up(bytes: usize) {
    const PAGE: usize = 4096;
    // SAFETY: a fresh anonymous mapping at a place that the kernel chooses overlaps nothing.
    let mapping = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    // Without the memory to warm there is nothing to warm; the runs themselves will say what is wrong.
    let Ok(start) = mapping else { return };
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the offset is below the length of the mapping, which no other code knows of. The write is
        // volatile because its only purpose is the page fault.
        unsafe { start.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: exactly the mapping made above, to which no reference exists. A failure leaves it mapped.
    let _ = unsafe { munmap(start, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_status_is_found() {
        let status = "Name:\tredis\nVmHWM:\t   12 kB\nVmRSS:\t    8 kB\n";
        assert_eq!(parse_status(status, "VmRSS"), Some(8192));
        assert_eq!(parse_status(status, "Vm"), None);
        assert_eq!(parse_status(status, "VmSwap"), None);
    }

    #[test]
    fn times_are_found_behind_an_odd_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 5 3 20 0 4 0 100";
        assert_eq!(parse_stat(stat), Some(50));
        assert_eq!(parse_stat("7 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_has_figures() {
        let meter = Meter::of_tree(std::process::id()).unwrap();
        let sample = meter.read().unwrap();
        assert!(sample.peak >= sample.after.unwrap() && sample.after.unwrap() > 0);
        let one = Meter::of_one(std::process::id()).unwrap().read().unwrap();
        assert!(one.peak > 0);
    }

    #[test]
    fn a_child_is_a_part_of_the_tree() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()));
    }

    #[test]
    fn a_command_is_measured_to_its_end() {
        let (status, sample) = run_to_end(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(sample.peak > 0);
    }
}
