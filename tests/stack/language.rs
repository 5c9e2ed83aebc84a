// A chain of calls in Rust: a trait object, a closure, an iterator, a panic that is caught, and a thread.
use std::hint::black_box;

trait Store {
    fn keep(&self, bytes: usize) -> Vec<u8>;
}
struct Plain;
impl Store for Plain {
    #[inline(never)]
    fn keep(&self, bytes: usize) -> Vec<u8> {
        black_box(Vec::with_capacity(black_box(bytes)))
    }
}

#[inline(never)]
fn chain_inner(store: &dyn Store, bytes: usize) -> usize {
    let kept = store.keep(bytes);
    black_box(kept.capacity()) + 1
}

#[inline(never)]
fn chain_outer(bytes: usize) -> usize {
    let store: Box<dyn Store> = black_box(Box::new(Plain));
    let sum: usize = (0..black_box(1usize)).map(|n| chain_inner(&*store, bytes) + n).sum();
    black_box(sum) + 2
}

#[inline(never)]
fn chain_caught(bytes: usize) -> usize {
    std::panic::catch_unwind(|| black_box(chain_outer(bytes)) + 3).unwrap_or(0)
}

fn main() {
    let bytes: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("a number of bytes");
    black_box(chain_caught(bytes));
    std::thread::spawn(move || black_box(chain_caught(bytes))).join().expect("the thread");
}
