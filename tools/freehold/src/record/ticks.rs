//! The clock of the records: the same counter that the recorder reads.

use std::hint::black_box;

#[cfg(target_arch = "x86_64")]
pub fn now() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
pub fn now() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that Linux opens to programs.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks) };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn now() -> u64 {
    monotonic_ns()
}

/// The monotonic clock, which the recorder notes beside its first ticks.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// As the recorder reads the clock around a call: it waits for all before it.
fn now_after_all() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    now()
}

/// Stands for a quick allocator: free places in an array, the last one first.
struct Places {
    free: [u32; 64],
    count: usize,
    given: u64,
}

impl Places {
    #[inline(never)]
    fn take(&mut self, size: usize) -> u32 {
        let class = (size + 15) / 16;
        self.count -= 1;
        self.given += class as u64;
        self.free[self.count & 63]
    }

    #[inline(never)]
    fn put(&mut self, place: u32) {
        self.free[self.count & 63] = place;
        self.count += 1;
    }
}

/// Ticks that a timed call seems to take and an untimed one does not: the clock's own, and those that a call shares with what
/// is around it, because a CPU does several things at a time. Measured on calls as short as those of a quick allocator.
pub fn of_timing() -> u64 {
    const CALLS: u64 = 4000;
    let mut places = Places {
        free: std::array::from_fn(|at| at as u32),
        count: 64,
        given: 0,
    };
    let pair = |places: &mut Places, timed: bool| {
        let before = if timed { now_after_all() } else { 0 };
        let place = black_box(&mut *places).take(black_box(64));
        let after = if timed { now_after_all() } else { 0 };
        black_box(&mut *places).put(black_box(place));
        after.saturating_sub(before)
    };
    let mut extra: Vec<u64> = (0..15)
        .map(|_| {
            let began = now_after_all();
            for _ in 0..CALLS {
                pair(&mut places, false);
            }
            let untimed = (now_after_all() - began) / (2 * CALLS);
            let timed: u64 = (0..CALLS).map(|_| pair(&mut places, true)).sum();
            (timed / CALLS).saturating_sub(untimed)
        })
        .collect();
    extra.sort_unstable();
    // Interruptions only add.
    extra[extra.len() / 4]
}
