//! Heaps: what is in them, what they count, and how they end.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use freehold::{Heap, NoMemory};

#[test]
fn a_heap_counts_what_it_has() {
    let heap = Heap::builder().name("rows").build().unwrap();
    let rows: Vec<_> = (0..1000u64).map(|n| heap.make([n; 8]).unwrap()).collect();
    let figures = heap.figures();
    assert_eq!((figures.count, figures.live), (1000, 64_000));
    assert!(figures.resident >= 64_000 && figures.taken >= figures.live);
    assert!(rows.iter().enumerate().all(|(n, row)| row[7] == n as u64));
    assert!(heap.has(rows[5].as_ptr().cast()));
    drop(rows);
    assert_eq!(heap.figures().count, 0);
}

#[test]
fn what_was_asked_for_is_counted_with_all_heaps_below() {
    let server = Heap::builder().sizes().build().unwrap();
    let session = Heap::builder().parent(&server).sizes().build().unwrap();
    let plain = Heap::builder().parent(&session).build().unwrap();
    let rows = (1..=100usize).map(|n| Layout::from_size_align(n, 1).unwrap());
    let bytes: usize = rows
        .map(|row| {
            server
                .alloc(row)
                .and(session.alloc(row))
                .map(|_| row.size())
                .unwrap()
        })
        .sum();
    let value = plain.make([0u64; 100]).unwrap();
    // SAFETY: this thread has all of them.
    let (all, below) = unsafe { (server.totals(), session.totals()) };
    assert_eq!((all.heaps, all.count), (3, 201));
    assert_eq!((below.heaps, below.count), (2, 101));
    let upper = plain.figures().live;
    assert_eq!((all.requested, all.unknown), (2 * bytes + upper, upper));
    assert_eq!((below.requested, below.unknown), (bytes + upper, upper));
    assert!(all.live > all.requested && all.resident >= all.live);
    assert_eq!(value[99], 0);
}

#[test]
fn a_bounded_heap_has_all_it_will_ever_have() {
    let heap = Heap::builder()
        .bounded()
        .hard_limit(4 << 20)
        .build()
        .unwrap();
    // SAFETY: this thread has it.
    let taken = unsafe { heap.totals() }.taken;
    let mut rows: Vec<_> = (0..500)
        .map(|n| heap.make([n as u64; 512]).unwrap())
        .collect();
    let long = Layout::from_size_align((1 << 20) + 1, 8).unwrap();
    assert!(heap.alloc(long).is_err());
    while let Ok(row) = heap.make([0u64; 512]) {
        rows.push(row);
    }
    assert!(rows.len() > 700 && rows.len() <= 1024, "{}", rows.len());
    assert!((0..500).all(|n| rows[n][511] == n as u64));
    assert_eq!(heap.figures().count, rows.len());
    // SAFETY: as above.
    assert_eq!(unsafe { heap.totals() }.taken, taken);
    assert!(taken > 3 << 20 && taken <= 4 << 20);
    let sized = Heap::builder().bounded().sizes().hard_limit(4 << 20);
    assert!(sized.build().is_err() && Heap::builder().bounded().build().is_err());
}

#[test]
fn a_limit_is_met_and_not_passed() {
    let heap = Heap::builder().hard_limit(1 << 20).build().unwrap();
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let mut blocks = vec![];
    while let Ok(block) = heap.alloc(layout) {
        blocks.push(block);
    }
    assert!(
        blocks.len() > 500 && blocks.len() <= 1048,
        "{}",
        blocks.len()
    );
    assert!(heap.figures().peak <= 1 << 20 && heap.figures().refusals > 0);
    assert_eq!(heap.make([0u8; 1000]).err(), Some(NoMemory));
    heap.set_hard_limit(2 << 20).unwrap();
    assert!(heap.make([0u8; 1000]).is_ok());
    // SAFETY: each was given for this layout, and is not used any more.
    unsafe {
        blocks
            .into_iter()
            .for_each(|block| Heap::release(block, layout))
    };
}

#[test]
fn a_parent_has_what_its_children_have() {
    let server = Heap::builder().hard_limit(512 << 10).build().unwrap();
    let query = Heap::builder().parent(&server).build().unwrap();
    let large = Layout::from_size_align(300 << 10, 4096).unwrap();
    let block = query.alloc(large).unwrap();
    assert_eq!(block.as_ptr() as usize % 4096, 0);
    assert!(server.figures().taken >= 300 << 10);
    assert_eq!(query.alloc(large), Err(NoMemory), "the parent's limit");
    drop(query);
    assert!(server.figures().taken < 300 << 10);
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn values_are_dropped_once_by_whichever_thread() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let heap = Heap::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            let made: Vec<_> = (0..500)
                .map(|_| heap.make(Counts(dropped.clone())).unwrap())
                .collect();
            scope.spawn(move || drop(made));
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 2000);
    assert_eq!(heap.figures().count, 0);
    let nothing = heap.make(()).unwrap();
    assert_eq!(*nothing, ());
}

#[test]
fn a_reset_heap_begins_anew() {
    let mut heap = Heap::new().unwrap();
    for _ in 0..3 {
        let layout = Layout::from_size_align(5000, 16).unwrap();
        (0..1000).for_each(|_| assert!(heap.alloc(layout).is_ok()));
        assert_eq!(heap.figures().count, 1000);
        heap.reset();
        assert_eq!(heap.figures().count, 0);
    }
    assert!(heap.figures().taken < 1 << 20);
}

#[test]
fn what_makes_no_heap_is_an_error() {
    assert!(Heap::builder().hard_limit(100).build().is_err());
    let long = "a name ".repeat(100);
    assert!(Heap::builder().name(&long).build().is_ok());
    assert!(Heap::builder().name("before\0after").build().is_ok());
}
