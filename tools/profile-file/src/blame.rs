//! Which of a stack's functions is to be named: the first that is not the allocator, nor one of the well-known
//! functions around it. A reader does not learn from "malloc" or "std::vector::push_back" where the memory went.

use crate::symbols::Frame;

/// C functions whose business is to hand on what they allocate. Those of the C and C++ libraries need no mention: all
/// of their modules are passed over.
const WRAPPERS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xreallocarray",
    "xstrdup",
    "xstrndup",
    "xzalloc",
    "g_malloc",
    "g_malloc0",
    "g_malloc_n",
    "g_malloc0_n",
    "g_realloc",
    "g_realloc_n",
    "g_strdup",
    "g_strndup",
    "g_slice_alloc",
    "g_slice_alloc0",
    "g_try_malloc",
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "zmalloc",
    "zcalloc",
    "zrealloc",
    "zstrdup",
    "ztrymalloc_usable",
    "zmalloc_usable",
    "ztryrealloc_usable",
    "zrealloc_usable",
    "sqlite3_malloc",
    "sqlite3_malloc64",
    "sqlite3_realloc",
    "sqlite3Malloc",
    "sqlite3MemMalloc",
    "sqlite3DbMallocRaw",
    "sqlite3DbMallocZero",
    "sqlite3DbMallocRawNN",
    "PyMem_Malloc",
    "PyMem_Calloc",
    "PyMem_Realloc",
    "PyMem_RawMalloc",
    "PyMem_RawCalloc",
    "PyMem_RawRealloc",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "_PyMem_RawMalloc",
    "_PyMem_RawCalloc",
    "_PyMem_RawRealloc",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "_PyObject_Realloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rustc::__rust_alloc",
    "__rustc::__rust_alloc_zeroed",
    "__rustc::__rust_realloc",
    "__rustc::__rdl_alloc",
    "__rustc::__rdl_alloc_zeroed",
    "__rustc::__rdl_realloc",
];

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
    let name = bare_name(&frame.function);
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

/// The function only allocates for others.
pub fn is_wrapper(frame: &Frame) -> bool {
    let module = frame.module_name();
    if LIBRARIES.iter().any(|library| module.starts_with(library)) {
        return true;
    }
    // Inlined from a library's header: the caller is who wanted it.
    if frame
        .file
        .as_ref()
        .is_some_and(|file| file.starts_with("/usr/include/"))
    {
        return true;
    }
    let name = bare_name(&frame.function);
    WRAPPERS.contains(&name) || NAME_SPACES.iter().any(|space| name.starts_with(space))
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
pub fn culprit(frames: &[Frame]) -> Option<usize> {
    frames
        .iter()
        .position(|frame| !is_wrapper(frame))
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
        assert_eq!(culprit(&stack), Some(3));
        let rust = [
            frame("__rustc::__rdl_alloc", "/opt/r"),
            frame(
                "<alloc::string::String as core::clone::Clone>::clone",
                "/opt/r",
            ),
            frame("app::read_lines", "/opt/r"),
        ];
        assert_eq!(culprit(&rust), Some(2));
        let libc = [
            frame("malloc", "/usr/lib/libfreehold.so"),
            frame("fopen", "/lib/x86_64-linux-gnu/libc.so.6"),
        ];
        assert_eq!(culprit(&libc), Some(1));
        assert_eq!(culprit(&[]), None);
    }
}
