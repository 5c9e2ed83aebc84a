//! Compiles the library, as the embedding form: it overrides nothing of the C library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What becomes the library: the same folders as in `cmake/FreeholdLibraries.cmake`.
const FOLDERS: &[&str] = &[
    "base",
    "store",
    "cache",
    "reclaim",
    "check",
    "heap",
    "observe",
    "observe/reach",
    "observe/unwind",
    "misuse",
    "api",
    "system",
];

/// Files that take names of the C library, or only make sense in a library that is loaded.
const NOT_EMBEDDED: &[&str] = &["override", "new", "global", "loaded"];

fn sources(folder: &Path, system: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|file| file.expect("a folder that can be read").path())
        .filter(|file| file.extension() == Some(OsStr::new("c")));
    let mut files: Vec<_> = files.filter(|file| is_ours(file, system)).collect();
    files.sort();
    files
}

/// `linux_loaded.c` is of the system linux, `override.c` is in `api/`.
fn is_ours(file: &Path, system: &str) -> bool {
    let name = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let (of, rest) = name.split_once('_').unwrap_or(("", name));
    let other = ["linux", "windows", "darwin"].contains(&of) && of != system;
    !other
        && !NOT_EMBEDDED
            .iter()
            .any(|part| name.starts_with(part) || rest.starts_with(part))
}

fn main() {
    // As it is now, and not as it was compiled: a build directory outlives a checkout that is moved.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for a build script");
    let root = Path::new(&here).join("..");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    assert!(
        system == "linux",
        "Freehold runs on Linux so far, and the target is {system}"
    );
    println!("cargo::rerun-if-changed={}", root.join("src").display());
    println!("cargo::rerun-if-changed={}", root.join("include").display());

    let mut build = cc::Build::new();
    for folder in FOLDERS {
        build.files(sources(&root.join("src").join(folder), &system));
    }
    build
        .std("c11")
        .opt_level(2)
        .define("_GNU_SOURCE", None)
        .define("NDEBUG", None)
        .include(root.join("include"))
        .include(root.join("src"))
        .warnings(false)
        // Each with its reason in cmake/FreeholdFlags.cmake.
        .flag("-fvisibility=hidden")
        .flag("-fno-builtin-malloc")
        .flag("-fno-builtin-calloc")
        .flag("-fno-builtin-realloc")
        .flag("-fno-builtin-free")
        .flag("-fno-strict-aliasing")
        .flag("-fno-math-errno")
        .flag("-ftls-model=initial-exec")
        .flag_if_supported("-fno-plt")
        .flag_if_supported("-fno-semantic-interposition")
        .flag_if_supported("-fcf-protection=none");
    let checked = env::var_os("CARGO_FEATURE_CHECKED").is_some();
    if checked {
        build.define("FH_CHECKED", "1");
    }
    build.compile("freehold-embed");

    println!("cargo::rustc-check-cfg=cfg(inlined)");
    // A checked library has no inlined hit, and src/fast.rs reads a thread-local word in the way of one processor.
    if !checked && env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        println!("cargo::rustc-cfg=inlined");
    }
    println!("cargo::metadata=include={}", root.join("include").display());
}
