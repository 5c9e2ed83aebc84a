//! What is written is read again, and what is damaged is an error: never a panic, never a wrong answer unannounced.

use trace_file::{
    Checker, Header, Kind, Losses, Op, Resident, Trace, TraceError, Waits, Writer, tally,
};

/// A generator that needs no crate; the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A valid trace of three threads.
fn made_up(count: usize) -> Vec<Op> {
    let mut random = Random(1);
    let (mut free, mut live, mut ops) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    for number in 0..count {
        let allocates = live.len() < 10 || random.below(2) == 0;
        let (kind, slot) = if allocates {
            let slot = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            live.push(slot);
            (Kind::Malloc, slot)
        } else {
            let slot = live.swap_remove(random.below(live.len()));
            free.push(slot);
            (Kind::Free, slot)
        };
        ops.push(Op {
            kind,
            thread: number.min(random.below(3)) as u32,
            time: number as u64 * 10,
            slot,
            size: random.below(5000) as u64,
            align: 0,
        });
    }
    ops[0].thread = 0;
    ops[1].thread = 1;
    ops
}

fn file_of(ops: &[Op]) -> Vec<u8> {
    file_with(ops, None)
}

fn file_with(ops: &[Op], resident: Option<Resident>) -> Vec<u8> {
    let header = Header {
        origin: "record".into(),
        allocator: "system".into(),
        arch: "x86_64".into(),
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for op in ops {
        writer.put(*op).unwrap();
    }
    writer.set_resident(resident);
    let losses = Losses {
        lost: 3,
        ..Losses::default()
    };
    writer.finish(losses).unwrap().0
}

#[test]
fn what_is_written_is_read() {
    let ops = made_up(150_000);
    let trace = Trace::parse(file_of(&ops)).unwrap();
    let read: Vec<Op> = trace.ops().map(Result::unwrap).collect();
    assert!(read == ops);
    assert_eq!(trace.ops_count(), 150_000);
    assert_eq!(trace.losses().lost, 3);
    let sum = tally(trace.ops()).unwrap();
    assert_eq!(sum.allocations - sum.frees, sum.live_blocks);
}

/// A file without them is one from before, and has none.
#[test]
fn resident_bytes_are_read_and_impossible_ones_refused() {
    let ops = made_up(200);
    let fine = Resident {
        base: 10,
        peak: 90,
        outside: 20,
        samples: 3,
        points: vec![(0, 10), (5, 90), (5, 30)],
    };
    assert_eq!((fine.growth(), fine.growth_of_blocks()), (80, 70));
    let trace = Trace::parse(file_with(&ops, Some(fine.clone()))).unwrap();
    assert_eq!(trace.resident(), Some(&fine));
    assert_eq!(Trace::parse(file_of(&ops)).unwrap().resident(), None);
    let changes: [fn(&mut Resident); 7] = [
        |it| it.base = 91,
        |it| it.outside = 91,
        |it| it.peak = u64::MAX,
        |it| it.samples = 0,
        |it| it.points[1].1 = 91,
        |it| it.points[2].0 = 4,
        |it| it.points = vec![(0, 0); 1025],
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut other = fine.clone();
        change(&mut other);
        assert!(refused(&file_with(&ops, Some(other))), "{number}");
    }
}

/// Reads everything; true if the file was refused, with an offset inside it or at its end.
fn refused(bytes: &[u8]) -> bool {
    let result = Trace::parse(bytes.to_vec()).and_then(|trace| tally(trace.ops()));
    match result {
        Ok(_) => false,
        Err(TraceError::Bad { offset, .. }) => {
            assert!(offset <= bytes.len() as u64);
            true
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_shorter_file_is_refused() {
    let whole = file_of(&made_up(200));
    assert!(!refused(&whole));
    for length in 0..whole.len() {
        assert!(refused(&whole[..length]), "{length} bytes were accepted");
    }
}

/// FREEHOLD_TEST_MUTATIONS asks for more; the soak tries 100,000.
#[test]
fn every_changed_file_is_refused() {
    let whole = file_of(&made_up(2000));
    let wanted = std::env::var("FREEHOLD_TEST_MUTATIONS").ok();
    let count = wanted.map_or(3000, |text| text.parse().unwrap());
    let mut random = Random(7);
    for number in 0..count {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.below(256) as u8,
                _ => bytes.truncate(at + 1),
            }
        }
        // A byte may have been given the value that it had.
        if bytes != whole {
            assert!(refused(&bytes), "mutation {number} was accepted");
        }
    }
}

/// Checksums that hold say nothing of what they cover: whoever writes a file can make them.
#[test]
fn operations_that_cannot_be_are_refused() {
    let mut random = Random(9);
    let mut refusals = 0;
    for _ in 0..500 {
        let mut ops = made_up(100);
        let at = random.below(ops.len());
        let op = &mut ops[at];
        match random.below(4) {
            0 => op.slot = random.below(1 << 32) as u32,
            1 => op.thread = random.below(1 << 32) as u32,
            2 => op.kind = Kind::ALL[random.below(Kind::ALL.len())],
            _ => op.size = u64::MAX,
        }
        let mut check = Checker::default();
        let valid = ops.iter().all(|op| check.check(op).is_ok());
        assert_eq!(valid, !refused(&file_of(&ops)));
        refusals += u32::from(!valid);
        if valid {
            // Must not panic either.
            let mut waits = Waits::default();
            ops.iter().for_each(|op| assert_eq!(waits.add(op).len(), 2));
        }
    }
    assert!(refusals > 100);
}
