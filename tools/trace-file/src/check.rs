//! What must hold between the operations: replaying a trace for which it does not would be undefined behaviour.

use crate::op::{Kind, Op};

/// Follows the operations in order. Slots and threads are dense, so its memory is bounded by what was read.
#[derive(Default)]
pub struct Checker {
    live: Vec<bool>,
    threads: u32,
}

impl Checker {
    /// What is wrong with this operation, after those before it.
    pub fn check(&mut self, op: &Op) -> Result<(), String> {
        self.mention(op.thread)?;
        if op.kind == Kind::ThreadStart {
            return self.mention(op.slot);
        }
        if !op.kind.has_slot() {
            return Ok(());
        }
        let slot = op.slot as usize;
        if op.kind.allocates() {
            if slot == self.live.len() {
                self.live.push(false);
            }
            match self.live.get_mut(slot) {
                Some(live) if !*live => *live = true,
                Some(_) => return Err(format!("slot {slot} is allocated twice")),
                None => return Err(format!("slot {slot} is too large a step")),
            }
            return Ok(());
        }
        match self.live.get_mut(slot) {
            Some(live) if *live => *live = op.kind == Kind::Realloc,
            _ => return Err(format!("{} of slot {slot}, which is empty", op.kind.name())),
        }
        Ok(())
    }

    fn mention(&mut self, thread: u32) -> Result<(), String> {
        if thread > self.threads {
            return Err(format!("thread {thread} is too large a step"));
        }
        self.threads = self.threads.max(thread + 1);
        Ok(())
    }

    pub fn threads(&self) -> u32 {
        self.threads
    }

    pub fn slots(&self) -> usize {
        self.live.len()
    }
}
