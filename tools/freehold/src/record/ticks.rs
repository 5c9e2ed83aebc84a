//! The clock of the records: the same counter that the recorder reads.

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

/// As the recorder reads the clock after a call: it waits for the loads before it.
fn now_after() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    now()
}

/// Ticks between two readings with nothing between them, the first as before a call and the second as after it.
pub fn of_the_clock() -> u64 {
    (0..100)
        .map(|_| {
            let before = now();
            now_after() - before
        })
        .min()
        .unwrap_or(0)
}
