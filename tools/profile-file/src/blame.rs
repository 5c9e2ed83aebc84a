//! Which of a stack's functions is to be named: the first that is not the allocator, nor one of the well-known
//! functions around it. A reader does not learn from "malloc" or "std::vector::push_back" where the memory went.

use crate::naming::Naming;
use crate::symbols::Frame;
use crate::wrappers;

/// Libraries that allocate for their callers.
const LIBRARIES: &[&str] = &[
    "libfreehold",
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "libstdc++.so",
    "libc++.so",
    "libgcc_s.so",
];

/// Name spaces of the languages' own collections, as names begin.
const NAME_SPACES: &[&str] = &[
    "std::",
    "__gnu_cxx::",
    "alloc::",
    "core::",
    "hashbrown::",
    "operator new",
    "fh_",
    "__gnu_",
];

/// The function is the allocator's own: of no interest even in a full stack.
pub fn is_allocator(frame: &Frame) -> bool {
    if frame.module_name().starts_with("libfreehold") {
        return true;
    }
    let name = frame.bare_name();
    name.starts_with("fh_")
        || matches!(
            name,
            "malloc"
                | "calloc"
                | "realloc"
                | "aligned_alloc"
                | "posix_memalign"
                | "memalign"
                | "reallocarray"
        )
        || name.starts_with("operator new")
}

/// Why a site is not named after a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is a library's, or a collection's.
    Library,
    /// Its name is that of an allocation wrapper.
    Name,
    /// The person asked for it.
    Asked,
}

/// Why a site is not named after this function; none: it may be.
pub fn reason_to_skip(frame: &Frame, naming: &Naming) -> Option<Reason> {
    let module = frame.module_name();
    if is_allocator(frame) || LIBRARIES.iter().any(|library| module.starts_with(library)) {
        return Some(Reason::Library);
    }
    if naming.skip.iter().any(|skip| skip.matches(&frame.function)) {
        return Some(Reason::Asked);
    }
    // Inlined from a library's header: the caller is who wanted it.
    if frame
        .file
        .as_ref()
        .is_some_and(|file| file.starts_with("/usr/include/"))
    {
        return Some(Reason::Library);
    }
    let name = frame.bare_name();
    if NAME_SPACES.iter().any(|space| name.starts_with(space)) {
        return Some(Reason::Library);
    }
    (frame.named && wrappers::is_by_name(name)).then_some(Reason::Name)
}

/// What the C library has around `main` and around a thread's function: outer frames that say nothing.
const BEGINNINGS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "__libc_start_main@@GLIBC_2.34",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "thread_start",
];

/// The function is one that begins a program or a thread.
pub fn is_beginning(frame: &Frame) -> bool {
    BEGINNINGS.contains(&frame.function.as_str())
}

/// The place of the frame to be named; none: the stack is empty.
pub fn culprit(frames: &[Frame], naming: &Naming) -> Option<usize> {
    frames
        .iter()
        .position(|frame| reason_to_skip(frame, naming).is_none() && !is_beginning(frame))
        // The whole stack is the libraries': better the caller of the allocator than nothing.
        .or_else(|| frames.iter().position(|frame| !is_allocator(frame)))
        .or(if frames.is_empty() {
            None
        } else {
            Some(frames.len() - 1)
        })
}

/// The qualified name alone: without the return type that templates have in front, the arguments behind, and the signs
/// that Rust puts in front of a type.
pub fn bare_name(function: &str) -> &str {
    let mut depth = 0u32;
    let mut begin = 0;
    let mut end = function.len();
    let operator = function.find("operator").filter(|at| {
        // "operator new(unsigned long)", "operator<": its blank and its sign are part of the name.
        *at == 0 || !function.as_bytes()[at - 1].is_ascii_alphanumeric()
    });
    for (at, letter) in function.char_indices() {
        if operator.is_some_and(|operator| at >= operator) {
            end = function[at..]
                .find('(')
                .map_or(function.len(), |open| at + open);
            break;
        }
        match letter {
            '(' if function[at..].starts_with("(anonymous namespace)") => depth += 1,
            '(' if depth == 0 && at != begin => {
                end = at;
                break;
            }
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && !function.starts_with('<') => begin = at + 1,
            _ => {}
        }
    }
    function[begin..end].trim_start_matches(['<', '&', '*', '[', '('])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::Skipped;

    fn frame(function: &str, module: &str) -> Frame {
        Frame {
            function: function.to_owned(),
            module: module.to_owned(),
            offset: 0,
            file: None,
            line: None,
            inlined: false,
            named: true,
        }
    }

    #[test]
    fn names_without_their_trimmings() {
        for (full, bare) in [
            ("main", "main"),
            ("operator new(unsigned long)", "operator new"),
            (
                "void std::vector<int>::_M_realloc_insert<int const&>(int*, int const&)",
                "std::vector<int>::_M_realloc_insert<int const&>",
            ),
            (
                "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
                "alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
            ),
            ("app::load::{{closure}}", "app::load::{{closure}}"),
            (
                "(anonymous namespace)::grow(int)",
                "anonymous namespace)::grow",
            ),
            ("std::string& app::name(int)", "app::name"),
        ] {
            assert_eq!(bare_name(full), bare);
        }
    }

    #[test]
    fn a_name_that_is_only_near_is_no_reason_to_skip() {
        let near = Frame {
            named: false,
            ..frame(
                "libapp.so+0x12, near std::vector<int>::reserve",
                "libapp.so",
            )
        };
        assert_eq!(reason_to_skip(&near, &Naming::default()), None);
        assert!(!is_allocator(&Frame {
            function: "app+0x12, near fh_open".to_owned(),
            ..near.clone()
        }));
        assert_eq!(near.bare_name(), near.function);
    }

    #[test]
    fn the_first_that_is_not_a_wrapper_is_named() {
        let stack = [
            frame("fh_sample", "/usr/lib/libfreehold.so"),
            frame("operator new(unsigned long)", "/usr/lib/libfreehold.so"),
            frame(
                "void std::vector<int>::_M_realloc_insert<int>(int*)",
                "/opt/app",
            ),
            frame("fill(std::vector<int>&)", "/opt/app"),
            frame("main", "/opt/app"),
        ];
        let usual = Naming::default();
        assert_eq!(culprit(&stack, &usual), Some(3));
        let skipping = Naming {
            skip: vec!["^fill".parse().unwrap()],
            ..Naming::default()
        };
        assert_eq!(culprit(&stack, &skipping), Some(4));
        let rust = [
            frame("__rustc::__rdl_alloc", "/opt/r"),
            frame(
                "<alloc::string::String as core::clone::Clone>::clone",
                "/opt/r",
            ),
            frame("app::read_lines", "/opt/r"),
        ];
        assert_eq!(culprit(&rust, &usual), Some(2));
        let libc = [
            frame("malloc", "/usr/lib/libfreehold.so"),
            frame("fopen", "/lib/x86_64-linux-gnu/libc.so.6"),
        ];
        assert_eq!(culprit(&libc, &usual), Some(1));
        assert_eq!(culprit(&[], &usual), None);
    }

    #[test]
    fn a_wrapper_is_skipped_and_that_is_said() {
        let stack = [
            frame("malloc", "/usr/lib/libfreehold.so"),
            frame("x264_malloc", "/usr/lib/libx264.so"),
            frame("x264_frame_new", "/usr/lib/libx264.so"),
            frame("encode", "/opt/app"),
            frame("__libc_start_call_main", "/opt/app"),
        ];
        let said = |naming: &Naming| {
            let named = culprit(&stack, naming);
            let mut skipped = Skipped::default();
            skipped.add(&stack, named, naming);
            (named, skipped.sentence())
        };
        assert_eq!(
            said(&Naming::default()),
            (
                Some(2),
                Some(
                    "sites are named after the callers of allocation wrappers by their names (x264_malloc)"
                        .to_owned()
                )
            )
        );
        let skipping = |pattern: &str| Naming {
            skip: vec![pattern.parse().unwrap()],
            ..Naming::default()
        };
        assert_eq!(
            said(&skipping("frame")),
            (
                Some(3),
                Some(
                    "sites are named after the callers of allocation wrappers by their names (x264_malloc) and of \
                     --skip (x264_frame_new)"
                        .to_owned()
                )
            )
        );
        // Where nothing is left, the innermost that is not the allocator.
        assert_eq!(said(&skipping("")).0, Some(1));
    }
}
