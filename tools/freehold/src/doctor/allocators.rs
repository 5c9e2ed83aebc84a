//! Other allocators: how to know them by a file, by a symbol, or by a text in a stripped program.

use super::elf::{Facts, Linkage};
use super::report::Finding;

struct Known {
    name: &'static str,
    /// How the file name of its shared library begins.
    library: &'static str,
    /// A function that is always a part of it.
    symbol: &'static str,
    /// A text of its messages, which remains when the symbols are stripped.
    text: &'static str,
    /// A debugging tool that only works with an allocator of its own.
    sanitizer: bool,
}

const fn allocator(
    name: &'static str,
    library: &'static str,
    symbol: &'static str,
    text: &'static str,
) -> Known {
    Known {
        name,
        library,
        symbol,
        text,
        sanitizer: false,
    }
}

const fn sanitizer(name: &'static str, library: &'static str, symbol: &'static str) -> Known {
    Known {
        name,
        library,
        symbol,
        text: "",
        sanitizer: true,
    }
}

/// An empty text means that there is none that only this allocator has.
const KNOWN: &[Known] = &[
    allocator("jemalloc", "libjemalloc", "je_malloc", "<jemalloc>: "),
    // Rust's binding gives jemalloc a prefix of its own.
    allocator("jemalloc", "libjemalloc", "_rjem_malloc", ""),
    allocator("mimalloc", "libmimalloc", "mi_malloc", "mimalloc: "),
    allocator(
        "tcmalloc",
        "libtcmalloc",
        "tc_malloc",
        "tcmalloc: large alloc",
    ),
    allocator("tcmalloc", "libtcmalloc", "TCMallocInternalMalloc", ""),
    allocator("snmalloc", "libsnmalloc", "sn_malloc", ""),
    allocator("snmalloc", "libsnmalloc", "sn_rust_alloc", ""),
    allocator("rpmalloc", "librpmalloc", "rpmalloc", ""),
    allocator("TBB malloc", "libtbbmalloc", "scalable_malloc", ""),
    allocator("Hoard", "libhoard", "xxmalloc", ""),
    allocator("hardened_malloc", "libhardened_malloc", "h_malloc", ""),
    sanitizer("AddressSanitizer", "libasan", "__asan_init"),
    sanitizer("ThreadSanitizer", "libtsan", "__tsan_init"),
    sanitizer("LeakSanitizer", "liblsan", "__lsan_init"),
    sanitizer("MemorySanitizer", "libmsan", "__msan_init"),
];

/// Functions that only jemalloc has, and that take or make blocks. A question for a size alone, or a setting, does no harm.
const JEMALLOC_BLOCKS: [&str; 6] = [
    "mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx",
];

/// The functions of jemalloc's own that a program calls: its blocks and those of malloc have to be from one allocator.
pub fn bound_to_jemalloc(facts: &Facts) -> Vec<&'static str> {
    let linked = facts
        .needed
        .iter()
        .any(|file| file.starts_with("libjemalloc"));
    let calls = |name: &&str| linked && facts.imports.iter().any(|import| import == name);
    JEMALLOC_BLOCKS.into_iter().filter(calls).collect()
}

/// The allocator whose shared library has this file name.
pub fn by_file_name(file: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|known| file.starts_with(known.library))
        .map(|known| known.name)
}

/// What other allocators mean for a program. A library that it is linked with is searched after a preloaded
/// one and does no harm; what is a part of the program itself comes before everything that is preloaded.
pub fn in_program(facts: &Facts, data: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for known in unique(|known| {
        facts
            .needed
            .iter()
            .any(|file| file.starts_with(known.library))
    }) {
        let own = bound_to_jemalloc(facts);
        findings.push(match known.name {
            "jemalloc" if !own.is_empty() => bound(&own),
            _ => linked(known),
        });
    }
    let has = |list: &[String], name: &str| list.iter().any(|symbol| symbol == name);
    let freehold = has(&facts.exports, "fh_version") || has(&facts.symbols, "fh_version");
    let inside: Vec<&Known> =
        unique(|known| has(&facts.exports, known.symbol) || has(&facts.symbols, known.symbol))
            .collect();
    let inside: Vec<&Known> = if facts.symbols.is_empty() && inside.is_empty() {
        unique(|known| !known.text.is_empty() && contains(data, known.text.as_bytes())).collect()
    } else {
        inside
    };

    if freehold || facts.linkage == Linkage::Static {
        // A static program has its own malloc in any case, and Freehold's own is welcome.
    } else if has(&facts.exports, "malloc") || has(&facts.symbols, "malloc") {
        let who = inside
            .first()
            .map_or(String::new(), |known| format!(" ({})", known.name));
        findings.push(
            Finding::blocks(
                "allocator",
                format!("the program defines malloc itself{who}, which comes first"),
            )
            .advise("build the program without it"),
        );
    } else if let Some(known) = inside.first() {
        findings.push(
            Finding::blocks(
                "allocator",
                format!(
                    "{} is built into the program for its own memory",
                    known.name
                ),
            )
            .advise("build the program without it"),
        );
    }
    if facts.go {
        findings.push(Finding::note(
            "go",
            "Go keeps a heap of its own; only what its C parts allocate is Freehold's",
        ));
    }
    findings
}

fn bound(functions: &[&str]) -> Finding {
    Finding::blocks(
        "allocator",
        format!(
            "the program calls jemalloc's own {}: its blocks would be of two allocators",
            functions.join(", ")
        ),
    )
    .advise("a build of it that calls malloc alone; Redis and Valkey: make MALLOC=libc")
}

fn linked(known: &Known) -> Finding {
    if known.sanitizer {
        return Finding::blocks(
            "allocator",
            format!("{} works only with its own allocator", known.name),
        )
        .advise("run a build of the program without it");
    }
    Finding::note(
        "allocator",
        format!(
            "the program is linked with {}; a preloaded Freehold comes before it",
            known.name
        ),
    )
}

/// The known allocators that `test` picks, each name once.
fn unique(test: impl Fn(&Known) -> bool) -> impl Iterator<Item = &'static Known> {
    let mut seen: Vec<&str> = Vec::new();
    KNOWN.iter().filter(move |known| {
        let fresh = test(known) && !seen.contains(&known.name);
        if fresh {
            seen.push(known.name);
        }
        fresh
    })
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    data.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;

    fn program() -> Facts {
        Facts {
            bits: 64,
            machine: object::elf::EM_X86_64,
            linkage: Linkage::Glibc("/lib64/ld-linux-x86-64.so.2".into()),
            needed: vec!["libc.so.6".into()],
            exports: Vec::new(),
            imports: Vec::new(),
            symbols: vec!["main".into()],
            go: false,
        }
    }

    fn blocked(findings: &[Finding]) -> bool {
        findings
            .iter()
            .any(|finding| finding.level == Level::Blocks)
    }

    #[test]
    fn an_ordinary_program_has_none() {
        assert_eq!(in_program(&program(), b"malloc failed"), []);
    }

    #[test]
    fn a_linked_allocator_is_only_noted() {
        let mut facts = program();
        facts.needed.push("libjemalloc.so.2".into());
        let findings = in_program(&facts, b"");
        assert_eq!(findings.len(), 1);
        assert!(!blocked(&findings));
        assert!(findings[0].text.contains("jemalloc"));
    }

    #[test]
    fn blocks_of_jemallocs_own_functions_are_in_the_way() {
        let mut facts = program();
        facts.needed.push("libjemalloc.so.2".into());
        // These ask for a size and for settings, as Redis 7 does.
        facts.imports = vec!["nallocx".into(), "mallctl".into()];
        assert!(!blocked(&in_program(&facts, b"")));
        facts.imports.push("mallocx".into());
        let findings = in_program(&facts, b"");
        assert!(blocked(&findings));
        assert!(findings[0].text.contains("jemalloc's own mallocx"));
    }

    #[test]
    fn malloc_of_the_program_comes_first() {
        let mut facts = program();
        facts.exports = vec!["malloc".into(), "tc_malloc".into()];
        let findings = in_program(&facts, b"");
        assert!(blocked(&findings));
        assert!(
            findings[0]
                .text
                .contains("defines malloc itself (tcmalloc)")
        );
    }

    #[test]
    fn an_allocator_under_its_own_names_blocks_too() {
        let mut facts = program();
        facts.symbols.push("mi_malloc".into());
        assert!(
            in_program(&facts, b"")[0]
                .text
                .contains("mimalloc is built into")
        );
    }

    #[test]
    fn a_stripped_program_is_known_by_its_messages() {
        let mut facts = program();
        facts.symbols.clear();
        assert!(blocked(&in_program(
            &facts,
            b"....<jemalloc>: Error in ...."
        )));
        facts.symbols.push("main".into());
        assert!(!blocked(&in_program(
            &facts,
            b"....<jemalloc>: Error in ...."
        )));
    }

    #[test]
    fn freehold_inside_is_welcome() {
        let mut facts = program();
        facts.symbols = vec!["malloc".into(), "fh_version".into()];
        assert_eq!(in_program(&facts, b""), []);
    }

    #[test]
    fn a_sanitizer_cannot_be_replaced() {
        let mut facts = program();
        facts.needed.insert(0, "libasan.so.8".into());
        assert!(blocked(&in_program(&facts, b"")));
    }

    #[test]
    fn file_names_are_known() {
        assert_eq!(by_file_name("libjemalloc.so.2"), Some("jemalloc"));
        assert_eq!(by_file_name("libtcmalloc_minimal.so.4"), Some("tcmalloc"));
        assert_eq!(by_file_name("libtbbmalloc_proxy.so.2"), Some("TBB malloc"));
        assert_eq!(by_file_name("libm.so.6"), None);
    }
}
