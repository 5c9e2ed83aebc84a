//! Who has a block, and whether what two threads do with its bytes is ordered.

use super::{LEARNT, MEMORY, MODE, Mode, finding};

/// The caller got the block or magazine at this address and writes to it as the program would. Nobody else may have it,
/// and whatever its last holder did must have happened before.
pub fn hold(address: usize) {
    let twice = MEMORY.with_borrow_mut(|memory| memory.taken.insert(address, true) == Some(true));
    if twice {
        finding(&format!("{address:#x} is handed out twice"));
    }
    touch(address);
}

/// The caller writes to it for the last time.
pub fn let_go(address: usize) {
    touch(address);
    MEMORY.with_borrow_mut(|memory| memory.taken.insert(address, false));
}

/// After a run: somebody has it.
pub fn is_held(address: usize) -> bool {
    MEMORY.with_borrow(|memory| memory.taken.get(&address) == Some(&true))
}

/// The caller reads it. What another does who writes to it must have happened before, or happen after.
pub fn look(address: usize) {
    access(address, false);
}

fn touch(address: usize) {
    access(address, true);
}

pub(super) fn access(address: usize, writes: bool) {
    if MODE.get() != Mode::Loom {
        return;
    }
    // A run that has met a new word did not order by it what it should have. What seems a race in it is none, so the rest of
    // it only serves to learn.
    let only_learn = LEARNT.get();
    let cell = MEMORY.with_borrow_mut(|memory| {
        let cell = memory.cells.get(&address).cloned();
        if cell.is_none() {
            memory.known_cells.insert(address);
            LEARNT.set(true);
        }
        cell
    });
    match cell {
        Some(_) if only_learn => {}
        // SAFETY: that these accesses do not meet is what loom is asked to find out.
        Some(cell) if writes => cell.with_mut(|p| unsafe { *p += 1 }),
        Some(cell) => cell.with(|_| ()),
        None => {}
    }
}
