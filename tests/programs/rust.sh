#!/usr/bin/env bash
# A Rust program, whose default allocator is malloc, posix_memalign, realloc and free of the C library: threads with
# channels, maps, over-aligned types and strings; and the Rust compiler that makes it, under Freehold itself.
. "$(dirname "$0")/common.sh"
need rustc rustc
# A version manager's rustc is a launcher; a rustc that cannot run here is a missing one.
rustc --version >/dev/null 2>&1 || skip "rustc does not run"
cat >"$work/main.rs" <<'RS'
use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

#[repr(align(4096))]
struct Page([u8; 5000]);

fn work(seed: u64, out: &mpsc::Sender<Vec<String>>) -> u64 {
    let mut state = seed;
    let mut next = move || { state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); state >> 33 };
    let mut map: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut tree = BTreeMap::new();
    let mut sum = 0u64;
    for i in 0..60_000u64 {
        let size = next() % 700;
        if let Some(old) = map.insert(next() % 4000, vec![i as u8; size as usize]) {
            sum = sum.wrapping_add(old.iter().map(|&b| b as u64).sum::<u64>());
        }
        tree.insert(next() % 9000, format!("{i}:{size}"));
        if i % 500 == 0 {
            let page = Box::new(Page([i as u8; 5000]));
            assert_eq!(&*page as *const Page as usize % 4096, 0);
            assert!(page.0.iter().all(|&b| b == i as u8));
            out.send(tree.values().take(100).cloned().collect()).unwrap();
        }
    }
    sum.wrapping_add(tree.values().map(|s| s.len() as u64).sum::<u64>())
}

fn main() {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    let total = Arc::new(Mutex::new(0u64));
    let threads: Vec<_> = (0..6).map(|n| {
        let (sender, total) = (sender.clone(), total.clone());
        thread::spawn(move || { let s = work(n + 1, &sender); let mut t = total.lock().unwrap(); *t = t.wrapping_add(s); })
    }).collect();
    drop(sender);
    let received: usize = receiver.iter().map(|list| list.iter().map(String::len).sum::<usize>()).sum();
    threads.into_iter().for_each(|t| t.join().unwrap());
    println!("{} {}", total.lock().unwrap(), received);
}
RS
under rustc -O -o "$work/program" "$work/main.rs" || die "rustc under Freehold"
active "$work/program"
same rust "$work/program"
