//! Warms the machine's memory before anything is measured.
//!
//! In a virtual machine the first growth into memory that the host never backed costs ten times a normal page fault.
//! The allocator that is measured first would pay for all that follow; so the harness touches more than any run will use, and
//! returns it.
//!
//! Many virtual machines return free memory to their host after some seconds. So the same is done before each run, with
//! what its workload needs. It is done on huge pages and on small ones, because the kernel does not give a huge page of what
//! small pages left behind: an allocator that asks for huge pages would have got cold ones alone.

use memmap2::{Advice, MmapMut};

/// How much to touch: all but a quarter of what is available, at most this. No workload keeps more alive.
const ENOUGH: u64 = 4 << 30;

/// What a workload is taken to need before its first run.
const FIRST: u64 = 256 << 20;

/// Touches each page once. Returns the number of bytes.
pub fn warm() -> u64 {
    touch(ENOUGH)
}

/// The same before a run. `peak` is the most that any allocator has needed for its workload so far, 0 before the first
/// run. The kernel hands out first what was freed last, so the run gets these pages.
pub fn warm_for(peak: u64) {
    touch(needed(peak));
}

fn needed(peak: u64) -> u64 {
    if peak == 0 {
        return FIRST;
    }
    (peak + peak / 4).min(ENOUGH)
}

fn touch(wanted: u64) -> u64 {
    let bytes = (available().unwrap_or(0) / 4 * 3).min(wanted);
    [Advice::HugePage, Advice::NoHugePage]
        .into_iter()
        .map(|pages| touch_pages(bytes, pages))
        .min()
        .unwrap_or(0)
}

/// On pages of that kind, as far as the kernel has them.
fn touch_pages(bytes: u64, pages: Advice) -> u64 {
    let Ok(mut block) = MmapMut::map_anon(bytes as usize) else {
        return 0;
    };
    let _ = block.advise(pages);
    block.fill(1);
    std::hint::black_box(&block[..]);
    bytes
}

/// What the kernel thinks it could hand out without swapping.
fn available() -> Option<u64> {
    field(
        &std::fs::read_to_string("/proc/meminfo").ok()?,
        "MemAvailable:",
    )
}

/// One field of /proc/meminfo, in bytes.
pub fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use profile_file::testing::skip;

    #[test]
    fn a_run_finds_what_its_workload_needs_and_a_quarter_more() {
        assert_eq!(super::needed(0), super::FIRST);
        assert_eq!(super::needed(8 << 20), 10 << 20);
        assert_eq!(super::needed(super::ENOUGH), super::ENOUGH);
    }

    #[test]
    fn huge_pages_are_touched_too() {
        let huge = |bytes| {
            super::touch(bytes);
            super::field(
                &std::fs::read_to_string("/proc/vmstat")
                    .unwrap()
                    .replace(' ', ": "),
                "thp_fault_alloc:",
            )
        };
        let (before, after) = (huge(0), huge(64 << 20));
        let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .unwrap_or_default();
        if mode.contains("[never]") || before.is_none() {
            return skip("the kernel gives no huge pages here");
        }
        assert!(after > before, "{before:?} and then {after:?}");
    }

    #[test]
    fn fields_of_meminfo_are_in_bytes() {
        assert_eq!(
            super::field("MemTotal:  10 kB\nMemAvailable: 3 kB\n", "MemAvailable:"),
            Some(3072)
        );
        assert_eq!(super::field("", "MemTotal:"), None);
    }
}
