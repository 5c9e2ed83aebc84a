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
