//! The statistics of a process, as the kernel keeps them, and the state of the machine before the first one.

use std::fs;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What one run cost.
#[derive(Clone, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// User and system time of the server, not of those who ask it.
    pub cpu: Duration,
    /// The most memory that was resident at once, in bytes.
    pub peak: u64,
    /// What is resident after everything was dropped.
    pub after: u64,
}

/// A field of `/proc/PID/status`, in bytes. The peak (VmHWM) belongs to the program's own address space and
/// begins again with its exec, so nothing of this command is in it.
pub fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server is gone")?;
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

/// User and system time that a process has used.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server is gone")?;
    let ticks =
        parse_stat(&stat).with_context(|| format!("cannot read the times of process {pid}"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// The 14th and 15th field. The second is a name in parentheses and may hold anything, so counting begins
/// behind its last parenthesis.
fn parse_stat(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
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
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 4 0 100";
        assert_eq!(parse_stat(stat), Some(42));
    }

    #[test]
    fn this_process_has_figures() {
        let pid = std::process::id();
        assert!(status_bytes(pid, "VmHWM").unwrap() >= status_bytes(pid, "VmRSS").unwrap() / 2);
        cpu_time(pid).unwrap();
    }
}
