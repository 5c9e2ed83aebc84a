//! A program whose allocator is Freehold: every size, alignment and thread.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::process::Command;
use std::{env, ptr, thread};

use freehold::Freehold;

#[global_allocator]
static ALLOCATOR: Freehold = Freehold;

/// True if it is a block of the library.
fn is_ours<T>(p: *const T) -> bool {
    // SAFETY: it is a live block, of whatever allocator; the library answers 0 for what is not its own.
    unsafe { freehold::sys::fh_malloc_usable_size(p.cast()) != 0 }
}

#[test]
fn what_the_program_allocates_is_ours() {
    assert!(is_ours(Box::new(7u64).as_ref()));
    assert!(is_ours(String::from("a text").as_ptr()));
    assert!(is_ours(vec![0u8; 10 << 20].as_ptr()));
}

#[test]
fn every_size_and_alignment_has_its_own_bytes() {
    let sizes = (1..=2048).chain((2048..80_000).step_by(97)).chain([
        65_535,
        65_536,
        65_537,
        1 << 20,
        5 << 20,
    ]);
    for size in sizes {
        for align in [1, 8, 16, 32, 64, 4096] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: each block is used within its layout, and released once with it.
            unsafe {
                let p = ALLOCATOR.alloc(layout);
                assert!(!p.is_null() && p as usize % align == 0, "{layout:?}");
                p.write(1);
                p.add(size - 1).write(2);
                assert!(ALLOCATOR.usable_size(p) >= size);
                let q = ALLOCATOR.alloc_zeroed(layout);
                assert!(q != p && q as usize % align == 0, "{layout:?}");
                assert_eq!((q.read(), q.add(size - 1).read()), (0, 0), "{layout:?}");
                let larger = ALLOCATOR.realloc(p, layout, size + size / 2 + 1);
                assert!(larger as usize % align == 0, "{layout:?}");
                assert_eq!(larger.add(size - 1).read(), 2, "{layout:?}");
                let resized = Layout::from_size_align(size + size / 2 + 1, align).unwrap();
                let smaller = ALLOCATOR.realloc(larger, resized, 1);
                assert!(smaller as usize % align == 0, "{layout:?}");
                ALLOCATOR.dealloc(smaller, Layout::from_size_align(1, align).unwrap());
                ALLOCATOR.dealloc(q, layout);
            }
        }
    }
}

#[test]
fn a_block_that_is_released_is_given_again() {
    let layout = Layout::from_size_align(200, 8).unwrap();
    // SAFETY: each block is released once, and not used after.
    unsafe {
        let first = ALLOCATOR.alloc(layout);
        ALLOCATOR.dealloc(first, layout);
        let second = ALLOCATOR.alloc(layout);
        assert_eq!(first, second, "the thread's own magazine has it on top");
        ALLOCATOR.dealloc(second, layout);
    }
}

#[test]
fn threads_pass_blocks_to_each_other_and_end() {
    for _ in 0..20 {
        let threads: Vec<_> = (0..8u64)
            .map(|number| {
                thread::spawn(move || {
                    let mut map = HashMap::new();
                    for key in 0..2_000u64 {
                        map.insert(key, vec![number; (key % 300) as usize]);
                        if key % 3 == 0 {
                            map.remove(&(key / 2));
                        }
                    }
                    map
                })
            })
            .collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let map = thread.join().unwrap();
            assert!(map.values().flatten().all(|&word| word == number as u64));
        }
    }
}

#[test]
fn what_there_cannot_be_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 63, 64).unwrap();
    // SAFETY: nothing is done with it.
    assert_eq!(unsafe { ALLOCATOR.alloc(layout) }, ptr::null_mut());
}

/// The tests of this file in a program with these options, but not those with options. A watched one lets what is freed wait.
fn run_with(options: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--skip", "options", "--skip", "given_again"])
        .env("FREEHOLD", options)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{options}: {said}");
    said
}

/// The bins of such programs have no hit: all reaches the library, which compares each layout with what was asked for.
#[test]
fn options_that_watch_each_call_find_nothing() {
    for options in ["check=1", "observe=1,sample=1", "guard=2", "harden=1"] {
        let said = run_with(&format!("verbose=1,{options}"));
        let (name, _) = options.split_once('=').unwrap();
        let in_force = format!("option {name}=");
        assert!(said.contains(&in_force), "{options}: {said}");
    }
}

/// With this option the test is the program that makes the mistake.
const MISTAKEN: &str = "check=1,quarantine=2m";

/// An end with a layout that is not the block's.
fn release_with_another_layout() {
    let layout = |size| Layout::from_size_align(size, 8).unwrap();
    // SAFETY: it is not: that is what is tried.
    unsafe {
        let p = std::hint::black_box(ALLOCATOR.alloc(layout(100)));
        ALLOCATOR.dealloc(p, layout(300));
    }
}

#[test]
fn options_find_a_wrong_layout() {
    if env::var("FREEHOLD").as_deref() == Ok(MISTAKEN) {
        return release_with_another_layout();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "options_find_a_wrong_layout"])
        .env("FREEHOLD", MISTAKEN)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("100") && said.contains("300"), "{said}");
}
