//! Tells allocation wrappers by their names: functions whose business is to hand on what they allocate.
//!
//! The rule reads a name's words. A word such as *malloc*, *zcalloc* or *strdup* makes a wrapper, with what stands in
//! front of it, if only words follow that say how: `x264_malloc`, `av_malloc_array`, `sqlite3DbMallocRawNN`. The plain
//! word *alloc* is also part of names that say what for (`session_alloc`), so there all the words must say how:
//! `mem_alloc`, `allocate_buffer`. With *mem* before it, it is a word for *malloc*: `jv_mem_alloc`. So is each function of a class
//! that is an allocator.
//!
//! It looks at names alone, not at how often a function is called, so that a site has the same name in two snapshots.

/// Words that say how is allocated, and not what for.
const HOW: &[&str] = &[
    "align",
    "aligned",
    "array",
    "at",
    "base",
    "big",
    "bytes",
    "check",
    "checked",
    "clear",
    "default",
    "die",
    "ex",
    "ext",
    "extended",
    "f",
    "fail",
    "fast",
    "flags",
    "fn",
    "func",
    "helper",
    "hook",
    "huge",
    "impl",
    "inner",
    "internal",
    "items",
    "large",
    "mt",
    "n",
    "new",
    "nn",
    "no",
    "node",
    "nofail",
    "nothrow",
    "null",
    "or",
    "raw",
    "safe",
    "size",
    "sized",
    "slow",
    "small",
    "st",
    "tiny",
    "try",
    "uninit",
    "uninitialized",
    "usable",
    "wrapper",
    "z",
    "zero",
    "zeroed",
];

/// Words that say no more than that it is memory.
const MEMORY: &[&str] = &[
    "arena", "block", "blocks", "buf", "buffer", "chunk", "do", "gc", "get", "heap", "mem",
    "memory", "my", "pool", "space", "storage", "zone",
];

/// What comes after these is how something else is done: `grow_by_realloc` grows.
const VERBS: &[&str] = &[
    "after", "and", "bench", "before", "by", "grow", "shrink", "test", "tests", "use", "using",
    "via", "with", "without",
];

/// Endings of words, such as in "zcalloc" and "pstrdup".
const FAMILY: &[&str] = &[
    "alloc",
    "allocarray",
    "allocf",
    "allocz",
    "memalign",
    "memdup",
    "strdup",
    "strndup",
];

/// The other way round, earlier, or the plain word, about which there is another rule.
const NOT_FAMILY: &[&str] = &["alloc", "dealloc", "prealloc", "unalloc"];

/// Well-known ones that the rule does not find.
const KNOWN: &[&str] = &[
    "AcquireAlignedMemory",
    "AcquireMagickMemory",
    "AcquireQuantumMemory",
    "AcquireVirtualMemory",
    "PyType_GenericAlloc",
    "_PyObject_GC_New",
    "_PyObject_GC_NewVar",
    "_PyObject_New",
    "_PyObject_NewVar",
    "_PyType_AllocNoTrack",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rustc::__rdl_alloc",
    "__rustc::__rdl_alloc_zeroed",
    "__rustc::__rust_alloc",
    "__rustc::__rust_alloc_zeroed",
    "g_slice_alloc",
    "g_slice_alloc0",
    "g_slice_copy",
];

/// A function of this qualified name only allocates for its caller.
pub fn is_by_name(bare: &str) -> bool {
    if KNOWN.contains(&bare) {
        return true;
    }
    let plain = without_arguments(bare);
    let mut parts = plain.rsplit("::");
    let words = words(parts.next().unwrap_or(""));
    let allocator = |part: &str| part.contains("Allocator") || part.ends_with("_allocator");
    if parts.next().is_some_and(allocator) {
        return true;
    }
    match words.iter().position(|word| is_family(word)) {
        Some(at) => {
            let (before, behind) = (&words[..at], &words[at + 1..]);
            !before.iter().any(|word| VERBS.contains(&word.as_str()))
                && behind
                    .iter()
                    .all(|word| is_family(word) || says_how(word) || word == "alloc")
        }
        None => {
            let plain = |word: &String| matches!(word.as_str(), "alloc" | "allocate");
            let memory =
                |two: &[String]| matches!(two[0].as_str(), "mem" | "memory") && plain(&two[1]);
            if let Some(at) = words.windows(2).position(memory) {
                let (before, behind) = (&words[..at], &words[at + 2..]);
                return !before.iter().any(|word| VERBS.contains(&word.as_str()))
                    && behind.iter().all(|word| says_how(word) || is_memory(word));
            }
            words.iter().any(plain)
                && words
                    .iter()
                    .all(|word| plain(word) || says_how(word) || is_memory(word))
        }
    }
}

fn is_family(word: &str) -> bool {
    !NOT_FAMILY.contains(&word) && FAMILY.iter().any(|ending| word.ends_with(ending))
}

fn says_how(word: &str) -> bool {
    word.is_empty() || HOW.contains(&word)
}

fn is_memory(word: &str) -> bool {
    MEMORY.contains(&word)
}

/// The name without what stands in angle brackets: of what a template is made says nothing about it.
fn without_arguments(name: &str) -> String {
    let mut depth = 0u32;
    let mut plain = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// The words of a name, small, and without numbers behind them: `_PyMem_DebugRawMalloc` has py, mem, debug, raw, malloc.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let behind = letters.get(at + 1);
        let begins = letter.is_ascii_uppercase()
            && (before.is_some_and(|before| !before.is_ascii_uppercase())
                || behind.is_some_and(char::is_ascii_lowercase));
        if begins || !letter.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric() {
            words
                .last_mut()
                .expect("there is one")
                .push(letter.to_ascii_lowercase());
        }
    }
    words
        .iter()
        .filter(|word| !word.is_empty())
        .map(|word| {
            word.trim_end_matches(|letter: char| letter.is_ascii_digit())
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_known_by_their_names() {
        for name in [
            "malloc",
            "x264_malloc",
            "av_malloc",
            "av_mallocz",
            "av_malloc_array",
            "av_calloc",
            "av_realloc_f",
            "av_memdup",
            "ff_fast_malloc",
            "zmalloc",
            "zcalloc",
            "ztryrealloc_usable",
            "zmalloc_usable_internal",
            "zstrdup",
            "sqlite3MemMalloc",
            "sqlite3DbMallocRawNN",
            "sqlite3Malloc",
            "sqlite3_malloc64",
            "PyMem_Malloc",
            "_PyMem_RawMalloc",
            "_PyMem_DebugRawMalloc",
            "_PyObject_Calloc",
            "PyObject_Realloc",
            "pymalloc_alloc",
            "gc_alloc",
            "_PyObject_GC_New",
            "g_malloc0_n",
            "g_try_malloc",
            "g_slice_alloc",
            "g_strndup",
            "xreallocarray",
            "CRYPTO_zalloc",
            "OPENSSL_malloc",
            "ngx_palloc",
            "palloc0",
            "talloc",
            "emalloc",
            "node::Malloc",
            "uv__malloc",
            "xmlMemMalloc",
            "llvm::safe_malloc",
            "llvm::allocate_buffer",
            "llvm::BumpPtrAllocatorImpl<llvm::MallocAllocator, 4096ul>::Allocate",
            "llvm::BumpPtrAllocatorImpl<llvm::MallocAllocator>::StartNewSlab",
            "mem_alloc",
            "jv_mem_alloc",
            "AcquireQuantumMemory",
            "allocate_memory",
            "my_alloc",
            "safe_alloc",
            "alloc",
            "GCMalloc",
            "reallocarray",
            "posix_memalign",
            "__rustc::__rdl_alloc",
            "alloc_or_die",
            "xmalloc_nofail",
        ] {
            assert!(is_by_name(name), "{name}");
        }
    }

    #[test]
    fn what_says_what_for_is_a_site() {
        for name in [
            "main",
            "session_new",
            "session_alloc",
            "mem_alloc_session",
            "grow_mem_alloc",
            "alloc_page_table",
            "PyUnicode_New",
            "new_keys_object",
            "dictResize",
            "grow_by_realloc",
            "test_malloc",
            "malloc_trim",
            "malloc_stats_print",
            "mallocate_table",
            "PyList_New",
            "dealloc",
            "subtype_dealloc",
            "preallocate_file",
            "prealloc",
            "Cache::insert",
            "std::vector<app::Alloc>::push_back",
            "fill<std::allocator<int>>",
            "x264_frame_new",
            "allocation_report",
            "reallocate_index",
            "AllocationSite::grow",
            "load_table",
            "",
        ] {
            assert!(!is_by_name(name), "{name}");
        }
    }
}
