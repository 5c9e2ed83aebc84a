//! A call site in a few words: the innermost function that is not about allocating.

use freehold_page::{Frame, Snapshot, Symbols};

/// Functions that only hand a request on, by the beginning of their names.
const ALLOCATING: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "operator new",
    "fh_",
    "std::__new_allocator",
    "std::allocator",
    "__gnu_cxx::",
    "alloc::",
    "__rust_",
    "__rdl_",
];

/// `function (file:line)`, or the module if there is no name.
pub fn name(snapshot: &Snapshot, symbols: &mut Symbols, number: u32) -> Option<String> {
    let site = snapshot.site(number)?;
    let stack = snapshot.stack(site.node);
    let frames = symbols.stack(&stack.addresses);
    let frame = frames
        .iter()
        .find(|frame| !is_allocating(frame))
        .or(frames.first())?;
    Some(describe(frame))
}

fn is_allocating(frame: &Frame) -> bool {
    frame.module_name().starts_with("libfreehold")
        || ALLOCATING
            .iter()
            .any(|begin| frame.function.starts_with(begin))
}

fn describe(frame: &Frame) -> String {
    match frame.short_place() {
        Some(place) => format!("{} ({place})", frame.function),
        None => format!("{} ({})", frame.function, frame.module_name()),
    }
}
