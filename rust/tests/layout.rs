//! `src/fast.rs` and `freehold/fast.h` know the same layout.

use std::path::Path;

#[test]
fn the_numbers_are_those_of_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("../include/freehold/fast.h")).unwrap();
    let ours = std::fs::read_to_string(root.join("src/fast.rs")).unwrap();
    for (theirs, mine) in [
        ("#define FH_FAST_LAYOUT 2\n", "fn fh_fast_2_malloc("),
        (
            "#define FH_FAST_FINE_MAX 1024u\n",
            "FINE_MAX: usize = 1024;",
        ),
        ("#define FH_FAST_SLOT_SHIFT 16\n", "SLOT_SHIFT: u32 = 16;"),
        (
            "#define FH_FAST_CLASS_MAP ((uintptr_t)1 << 24)",
            "CLASS_MAP: usize = 1 << 24;",
        ),
    ] {
        assert!(header.contains(theirs), "fast.h has changed: {theirs}");
        assert!(ours.contains(mine), "src/fast.rs has not: {mine}");
    }
}
