//! Programs with a heap of their own above malloc, and programs that speak of the allocator that they were built with: what
//! one sees of them under Freehold is not what one expects.

use std::path::Path;

use super::elf::Facts;
use super::report::Finding;

struct Known {
    /// How the file name of the program begins.
    program: &'static str,
    /// How the file name of the library begins that is the interpreter for other programs. Empty: there is none.
    library: &'static str,
    text: &'static str,
    advice: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        program: "python3",
        library: "libpython3",
        text: "Python keeps objects of up to 512 bytes in a heap of its own; larger blocks and C extensions are Freehold's",
        advice: "PYTHONMALLOC=malloc gives all of them to Freehold",
    },
    Known {
        program: "node",
        library: "libnode.so",
        text: "Node keeps JavaScript objects in V8's own heap; buffers and native parts are Freehold's",
        advice: "",
    },
    Known {
        program: "java",
        library: "libjvm.so",
        text: "Java keeps its objects in the virtual machine's own heap; native memory is Freehold's",
        advice: "",
    },
    Known {
        program: "php",
        library: "libphp",
        text: "PHP keeps what a request allocates in a heap of its own",
        advice: "USE_ZEND_ALLOC=0 gives it to Freehold",
    },
    Known {
        program: "php-fpm",
        library: "",
        text: "PHP keeps what a request allocates in a heap of its own",
        advice: "USE_ZEND_ALLOC=0 gives it to Freehold",
    },
    Known {
        program: "ruby",
        library: "libruby",
        text: "Ruby keeps objects in pages that it maps itself; long strings, arrays and C extensions are Freehold's",
        advice: "",
    },
];

/// An interpreter with a heap of its own.
pub fn in_program(program: &Path, facts: &Facts) -> Option<Finding> {
    let name = file_name(program);
    let known = KNOWN.iter().find(|known| {
        is_named(&name, known.program)
            || !known.library.is_empty()
                && facts
                    .needed
                    .iter()
                    .any(|file| file.starts_with(known.library))
    })?;
    let finding = Finding::note("interpreter", known.text);
    Some(if known.advice.is_empty() {
        finding
    } else {
        finding.advise(known.advice)
    })
}

/// What the program itself will go on to say about its memory.
pub fn own_words(program: &Path, facts: &Facts) -> Option<Finding> {
    let jemalloc = facts
        .needed
        .iter()
        .any(|file| file.starts_with("libjemalloc"));
    let name = file_name(program);
    let redis = ["redis-server", "redis-check-rdb", "valkey-server"]
        .iter()
        .any(|known| is_named(&name, known));
    (redis && jemalloc).then(|| {
        Finding::note(
            "words",
            "INFO goes on to speak of jemalloc, which is idle: its allocator_ figures say nothing about Freehold",
        )
        .advise("`freehold metrics` and `freehold explain` have the true ones")
    })
}

/// The name itself, or with a version behind it: python3.11, php8.2.
fn is_named(name: &str, program: &str) -> bool {
    name.strip_prefix(program).is_some_and(|rest| {
        rest.chars()
            .all(|c| c.is_ascii_digit() || c == '.' || c == '-')
    })
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::elf::Linkage;

    fn linked_with(needed: &[&str]) -> Facts {
        Facts {
            bits: 64,
            machine: object::elf::EM_X86_64,
            linkage: Linkage::Glibc("/lib64/ld-linux-x86-64.so.2".into()),
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            exports: Vec::new(),
            imports: Vec::new(),
            symbols: Vec::new(),
            go: false,
        }
    }

    #[test]
    fn interpreters_are_known_by_their_names_and_libraries() {
        let none = linked_with(&["libc.so.6"]);
        let python = in_program(Path::new("/usr/bin/python3.11"), &none).unwrap();
        assert!(python.text.starts_with("Python keeps"), "{python:?}");
        assert!(python.advice.unwrap().contains("PYTHONMALLOC"));
        let inside = linked_with(&["libpython3.11.so.1.0"]);
        assert!(in_program(Path::new("/usr/bin/blender"), &inside).is_some());
        assert_eq!(in_program(Path::new("/usr/bin/nodejs-like"), &none), None);
        assert_eq!(in_program(Path::new("/usr/bin/phpize"), &none), None);
        let server = in_program(Path::new("/usr/sbin/php-fpm8.2"), &none).unwrap();
        assert!(server.text.starts_with("PHP keeps"), "{server:?}");
        let ruby = in_program(
            Path::new("/usr/bin/ruby3.1"),
            &linked_with(&["libruby-3.1.so.3.1"]),
        );
        assert!(ruby.unwrap().text.starts_with("Ruby keeps"));
    }

    #[test]
    fn redis_speaks_of_jemalloc_only_where_it_has_it() {
        let redis = Path::new("/usr/bin/redis-check-rdb");
        assert!(own_words(redis, &linked_with(&["libjemalloc.so.2"])).is_some());
        assert!(own_words(redis, &linked_with(&["libc.so.6"])).is_none());
        assert!(own_words(Path::new("/bin/ls"), &linked_with(&["libjemalloc.so.2"])).is_none());
    }
}
