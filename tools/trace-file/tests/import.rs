//! What other tools write: every call is in the trace, and what cannot be read is an error with its line.

use trace_file::{
    Checker, Kind, Losses, Op, Tally, TextFormat, TraceError, import, recognize, tally,
};

fn read(format: TextFormat, text: &[u8]) -> Result<(Vec<Op>, Losses), TraceError> {
    let mut ops = Vec::new();
    let losses = import(format, text, &mut |op| {
        ops.push(op);
        Ok(())
    })?;
    Ok((ops, losses))
}

fn sum(ops: &[Op]) -> Tally {
    tally(ops.iter().map(|op| Ok(*op))).unwrap()
}

fn fine(format: TextFormat, text: &str) -> (Vec<Op>, Losses) {
    assert_eq!(recognize(text.as_bytes()), Some(format));
    read(format, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn calls(ops: &[Op]) -> Vec<(Kind, u32, u64)> {
    ops.iter().map(|op| (op.kind, op.slot, op.size)).collect()
}

const MTRACE: &str = "\
= Start
@ ./my prog:(main+0x1e)[0x11be] + 0x55fe87d0f4d0 0x64
@ ./my prog:[0x11d3] < 0x55fe87d0f4d0
@ ./my prog:[0x11d3] > 0x55fe87d0f2a0 0x1388
@ ./my prog:[0x11e6] + 0x55fe87d0f4d0 0x15
@ ./my prog:[0x11e7] + (nil) 0x400000000000
@ ./my prog:[0x1238] - 0x55fe87d0f2c0
@ ./my prog:[0x126b] ! 0x55fe87d0f4d0 0x4000000000000000
@ ./my prog:[0x120e] - 0x55fe87d0f2a0
+ 0x55fe87d0f2a0 0
= End
";

#[test]
fn a_mtrace_is_read() {
    let (ops, losses) = fine(TextFormat::Mtrace, MTRACE);
    let expected = [
        (Kind::Malloc, 0, 100),
        (Kind::Realloc, 0, 5000),
        (Kind::Malloc, 1, 21),
        (Kind::Free, 0, 0),
        (Kind::Malloc, 0, 0),
    ];
    assert_eq!(calls(&ops), expected);
    // NULL and a realloc that was refused; a release of what came before mtrace().
    assert_eq!(
        (losses.failed, losses.unknown_frees, losses.lost),
        (2, 1, 0)
    );
    assert_eq!(sum(&ops).peak_bytes, 5021);
}

/// Before the interpreter: addresses.
const RAW_HEAPTRACK: &str = "\
v 10500 3
x c /usr/bin/a
+
X ./a -c first
+ 10 1 ffff
last
I 1000 7ffff
m 5 a/b\nc 7f00 0 1000
t 4011 0
+ 10 1 55aa10
+ 2000 1 55aa40
c 5
R 300
- 55aa10
- 99
+ 30 1 55aa10
- 55aa40
";

/// Behind it: numbers of size and call stack.
const HEAPTRACK: &str = "\
v 10500 3
X ./a
I 1000 7ffff
s 6 malloc
s 7 two
ine
i 4010 1 1
t 1 0
a 10 1
a 2000 1
+ 0
+ 1
+ 0
c a
- 0
- 0
- 1
- 1
# peak
";

#[test]
fn heaptrack_is_read_before_and_behind_its_interpreter() {
    let (ops, losses) = fine(TextFormat::Heaptrack, RAW_HEAPTRACK);
    let expected = [
        (Kind::Malloc, 0, 0x10),
        (Kind::Malloc, 1, 0x2000),
        (Kind::Free, 0, 0),
        (Kind::Malloc, 0, 0x30),
        (Kind::Free, 1, 0),
    ];
    assert_eq!(calls(&ops), expected);
    assert_eq!(losses.unknown_frees, 1);
    assert_eq!(sum(&ops).peak_bytes, 0x2030);
    assert_eq!(ops[2].time, 5_000_000);

    let (ops, losses) = fine(TextFormat::Heaptrack, HEAPTRACK);
    let sizes: Vec<(Kind, u64)> = ops.iter().map(|op| (op.kind, op.size)).collect();
    let [one, two, free] = [
        (Kind::Malloc, 0x10),
        (Kind::Malloc, 0x2000),
        (Kind::Free, 0),
    ];
    assert_eq!(sizes, [one, two, one, free, free, free]);
    assert_eq!(losses.unknown_frees, 1);
    let sum = sum(&ops);
    assert_eq!((sum.peak_bytes, sum.live_bytes), (0x2020, 0));
    assert_eq!(sum.nanoseconds, 10_000_000);
}

const ANDROID: &str = "\
186: malloc 0xb6038060 20 100 120
187: calloc 0xb609f080 32 4 150 160
187: realloc 0xb603e9a0 0xb6038060 12 170 180
186: memalign 0x85423640 64 104 190 200
186: realloc 0x85420000 0x0 7 210 220
186: free 0xb603e9a0 230 240
187: free 0x0
187: malloc 0x0 99
187: free 0x85420000 205 206
187: thread_done 0x0 290
";

#[test]
fn an_android_trace_is_read_with_its_threads() {
    let (ops, losses) = fine(TextFormat::Android, ANDROID);
    let expected = [
        (Kind::Malloc, 0, 20),
        (Kind::Calloc, 1, 128),
        (Kind::Realloc, 0, 12),
        (Kind::Aligned, 2, 104),
        (Kind::Malloc, 3, 7),
        (Kind::Free, 0, 0),
        (Kind::Free, 3, 0),
        (Kind::ThreadEnd, 0, 0),
    ];
    assert_eq!(calls(&ops), expected);
    let threads: Vec<u32> = ops.iter().map(|op| op.thread).collect();
    assert_eq!(threads, [0, 1, 1, 0, 0, 0, 1, 1]);
    // Of an allocation when it returned, of a release when it began; and never back.
    let times: Vec<u64> = ops.iter().map(|op| op.time).collect();
    assert_eq!(times, [120, 160, 180, 200, 220, 230, 230, 290]);
    assert_eq!((ops[3].align, losses.failed), (6, 1));
    let sum = sum(&ops);
    assert_eq!((sum.peak_bytes, sum.crossing), (12 + 128 + 104 + 7, 3));
}

/// As the source of the tool writes it: threads, calls inside calls, a function that is none of the allocator's.
const DYNAMORIO: &str = "\
T71      0x7f01 => libc.so.6!malloc(0x14) => 0x5010
T72      0x7f02 => libc.so.6!calloc(0x20, 0x4) => 0x5040
T71      0x7f03 => app!work(0x1, 0x2)
T71          0x7f04 => libc.so.6!realloc(0x5010, 0x80)
T71              0x7f05 => libc.so.6!malloc(0x80) => 0x6010
T71              0x7f06 => libc.so.6!free(0x5010)
T71              => 0x6010
T71      => 0x0
T72      0x7f07 => libstdc++.so.6!_Znwm(0x7)
T72          0x7f08 => libc.so.6!malloc(0x7) => 0x5010
T72      => 0x5010
T71      0x7f09 => libc.so.6!memalign(0x40, 0x68) => 0x7040
T71      0x7f0a => libc.so.6!posix_memalign(0x7ffe, 0x40, 0x68) => 0x0
T72      0x7f0b => libc.so.6!free(0x6010)
T72      0x7f0c => libc.so.6!free(0x0)
T72      0x7f0d => libc.so.6!malloc(0x63) => 0x0
T71      0x7f0e => libc.so.6!free(0x9990) => 0x0
Function view tool results:
Function id=0: libc.so.6!malloc
        5 calls
";

#[test]
fn a_function_trace_of_dynamorio_is_read_with_its_threads() {
    assert_eq!(recognize(DYNAMORIO.as_bytes()), Some(TextFormat::Dynamorio));
    let (ops, losses) = fine(TextFormat::Dynamorio, DYNAMORIO);
    let expected = [
        (Kind::Malloc, 0, 20),
        (Kind::Calloc, 1, 128),
        (Kind::Realloc, 0, 128),
        (Kind::Malloc, 2, 7),
        (Kind::Aligned, 3, 104),
        (Kind::Free, 0, 0),
    ];
    assert_eq!(calls(&ops), expected);
    let threads: Vec<u32> = ops.iter().map(|op| op.thread).collect();
    assert_eq!(threads, [0, 1, 0, 1, 0, 1]);
    assert_eq!((ops[4].align, losses.failed), (6, 1));
    // A block that posix_memalign returns is not shown, and one block is from before.
    assert_eq!((losses.lost, losses.unknown_frees), (1, 1));
    assert_eq!(sum(&ops).peak_bytes, 128 + 128 + 7 + 104);
}

#[test]
fn a_line_that_cannot_be_is_named() {
    use TextFormat::{Android, Dynamorio, Heaptrack, Mtrace, Text};
    for (format, text, line, part) in [
        (Mtrace, "= Start\n@ a + 0x10\n", 2, "no line of mtrace"),
        (Mtrace, "@ a + 0xzz 0x10\n", 1, "`0xzz` is not a number"),
        (Mtrace, "@ a + 0x+5 0x10\n", 1, "`0x+5` is not a number"),
        (Mtrace, "@ a < 0x10\n@ a + 0x20 0x1\n", 2, "one realloc"),
        (Mtrace, "@ a > 0x10 0x1\n", 1, "one realloc"),
        (Heaptrack, "v 1 3\n+ 0\n", 2, "number 0 was not given"),
        (
            Heaptrack,
            "v 1 3\na 1 1\n- 5\n",
            3,
            "number 5 was not given",
        ),
        (Heaptrack, "v 1 9\n", 1, "reads up to 3"),
        (
            Heaptrack,
            "v 1 3\nX ./a\n+ 1\n",
            2,
            "command line has no end",
        ),
        (Heaptrack, "v 1 3\ns name\n", 2, "without its length"),
        (Heaptrack, "v 1 3\nhello\n", 2, "no line of heaptrack"),
        (Heaptrack, "v 1 3\n+ 1 2 3 4\n", 2, "another form"),
        (
            Android,
            "1: malloc 0x10\n",
            1,
            "no line of an Android trace",
        ),
        (
            Android,
            "1: malloc 0x10 5 7\n",
            1,
            "no line of an Android trace",
        ),
        (
            Dynamorio,
            "T1       0x1 => a!malloc(5) => 0x1\n",
            1,
            "`5` is not a number",
        ),
        (
            Dynamorio,
            "T1       0x1 => a!malloc\n",
            1,
            "no line of func_view",
        ),
        (
            Dynamorio,
            "T1       0x1 => a!malloc() => 0x1\n",
            1,
            "without its arguments",
        ),
        (Dynamorio, "warning\n", 1, "no line of func_view"),
        (Android, "1: melloc 0x10 5\n", 1, "`melloc` is no call"),
        (Android, "x: malloc 0x10 5\n", 1, "`x:` is not a number"),
        (Android, "1: malloc 0x10 -5\n", 1, "`-5` is not a number"),
        (
            Android,
            "1: calloc 0x10 99999999999 99999999999\n",
            1,
            "more bytes than there can be",
        ),
        (Text, "a 5 1\na 5 1\n", 2, "in use"),
        (
            Text,
            "a 5 1\na 18446744073709551615 2\n",
            2,
            "a size that no block has",
        ),
    ] {
        match read(format, text.as_bytes()) {
            Err(TraceError::Line { what, line: found }) => {
                assert_eq!(found, line, "{text}");
                assert!(what.contains(part), "{text}: {what}");
            }
            Err(other) => panic!("{text}: {other}"),
            Ok(_) => panic!("{text} was accepted"),
        }
    }
    assert_eq!(recognize(b"\n\nGIF89a"), None);
}

#[test]
fn a_file_that_was_cut_off_keeps_what_is_before() {
    for (format, text) in [
        (TextFormat::Mtrace, MTRACE),
        (TextFormat::Heaptrack, HEAPTRACK),
        (TextFormat::Android, ANDROID),
    ] {
        let (whole, _) = fine(format, text);
        let mut before = 0;
        for length in 0..=text.len() {
            match read(format, &text.as_bytes()[..length]) {
                Ok((ops, losses)) => {
                    assert_eq!(ops, whole[..ops.len()]);
                    assert!(ops.len() >= before, "something is lost at {length}");
                    let read = &text[..length];
                    let last = read.lines().last().unwrap_or_default();
                    // A resize of mtrace has two lines.
                    let complete = read.is_empty() || read.ends_with('\n') && !last.contains('<');
                    assert_eq!(losses.lost == 0, complete, "{format:?} at {length}");
                    before = ops.len();
                }
                // The command line is the only thing of several lines that must be complete.
                Err(error) => assert!(error.to_string().contains("command line"), "{error}"),
            }
        }
        assert_eq!(before, whole.len());
    }
}

/// FREEHOLD_TEST_MUTATIONS asks for more; the soak tries 100,000.
#[test]
fn no_text_is_a_panic_or_an_impossible_trace() {
    let wanted = std::env::var("FREEHOLD_TEST_MUTATIONS").ok();
    let count: u64 = wanted.map_or(3000, |text| text.parse().unwrap());
    let mut state = 5u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..count {
        let (format, text) = [
            (TextFormat::Mtrace, MTRACE),
            (TextFormat::Heaptrack, RAW_HEAPTRACK),
            (TextFormat::Heaptrack, HEAPTRACK),
            (TextFormat::Android, ANDROID),
            (TextFormat::Dynamorio, DYNAMORIO),
        ][number as usize % 5];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            match below(5) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = b"+-<>!0 fx\n9:"[below(12)],
                2 => bytes.insert(at, b'f'),
                3 => {
                    let end = at + below(bytes.len() - at);
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(at + 1),
            }
        }
        match read(format, &bytes) {
            Ok((ops, _)) => {
                let mut check = Checker::default();
                let mut time = 0;
                for op in &ops {
                    check
                        .check(op)
                        .unwrap_or_else(|what| panic!("mutation {number}: {what}"));
                    assert!(op.time >= time);
                    time = op.time;
                }
                sum(&ops);
                accepted += 1;
            }
            Err(TraceError::Line { line, .. }) => {
                let lines = bytes.split(|byte| *byte == b'\n').count();
                assert!((1..=lines).contains(&line));
                refused += 1;
            }
            Err(other) => panic!("mutation {number}: {other}"),
        }
    }
    assert!(
        accepted > count / 10 && refused > count / 10,
        "{accepted}, {refused}"
    );
}
