//! Compiles the library's own C files with the model's atomics, once as they are and once for each seeded bug.
//!
//! A seeded bug is a substitution in the text of the real file. When that text is no longer there, the build stops: a
//! mutant that silently equals the original would make its test worthless.

mod mutants;
mod mutants_heaps;
mod mutants_order;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, thread};

use mutants::MUTANTS;
use mutants_heaps::HEAPS;
use mutants_order::ORDER;

/// What has to be different in the model, in every variant: file, text, what replaces it. All threads of a model are
/// coroutines of one thread of the system, so what is thread-local in the library is asked for; and the accounts look into
/// the depot and at a count. Settings are those of one exploration: several run at once, each in a thread of the test program.
const ADAPTED: &[(&str, &str, &str)] = &[
    (
        "base/settings.h",
        "extern fh_settings_values fh_settings __attribute__((visibility(\"hidden\")));",
        "extern __thread fh_settings_values fh_settings;",
    ),
    (
        "base/settings.h",
        "#define FH_SETTING(name) fh_load(&fh_settings.name)",
        "#define FH_SETTING(name) (fh_settings.name.value)",
    ),
    (
        "base/settings.c",
        "fh_settings_values fh_settings = {",
        "__thread fh_settings_values fh_settings = {",
    ),
    (
        "store/depot.c",
        "static fh_depots depot[FH_SHARDS];",
        "fh_depots depot[FH_SHARDS];",
    ),
    (
        "misuse/guard_slots.c",
        "static fh_guard_slot *slot_table;",
        "static __thread fh_guard_slot *slot_table;",
    ),
    (
        "misuse/guard_slots.c",
        "static fh_word *ring;",
        "__thread fh_word *ring;",
    ),
    (
        "misuse/guard_slots.c",
        "static fh_word many;",
        "fh_word many;",
    ),
    (
        "misuse/quarantine.c",
        "bool fh_quarantine_start(void) {",
        "fh_word *fh_model_quarantine_word(unsigned i) {\n    return (fh_word *[]){&ring, &head, &tail, &bytes}[i];\n}\nbool fh_quarantine_start(void) {",
    ),
    (
        "misuse/quarantine.h",
        "#define FH_QUARANTINE_SLOTS ((uint64_t)1 << 17)",
        "#define FH_QUARANTINE_SLOTS ((uint64_t)2)",
    ),
    // An address would differ from run to run, and with it where a thread begins to look. Not 0: `ending` has it too.
    (
        "heap/valid.c",
        "return (uint64_t)(uintptr_t)&fh_here;",
        "return (fh_model->number() + UINT64_C(1)) * FH_CACHE_LINE;",
    ),
    ("heap/use.c", "#define USES 256u", "#define USES 2u"),
    (
        "heap/stripes.h",
        "#define FH_STRIPES 8u",
        "#define FH_STRIPES 1u",
    ),
    (
        "heap/stripes.h",
        "#define FH_STRIPE_BLOCKS ((size_t)20)",
        "#define FH_STRIPE_BLOCKS ((size_t)2)",
    ),
    (
        "heap/stripes.c",
        "#define TICKETS 2048u",
        "#define TICKETS 256u",
    ),
    ("heap/defer.c", "#define SLOTS 4096u", "#define SLOTS 2u"),
    (
        "heap/defer.c",
        "    64u /* slots that",
        "    1u /* slots that",
    ),
    (
        "heap/defer.c",
        "    fh_release_batch(b->block, b->count);",
        "    void fh_model_defer_freed(void **block, size_t n);\n    fh_model_defer_freed(b->block, b->count);\n    fh_release_batch(b->block, b->count);",
    ),
    (
        "heap/defer.c",
        "size_t fh_defer_waiting(void) {",
        "#include \"defer_books.h\"\nsize_t fh_defer_waiting(void) {",
    ),
    ("heap/bounded.c", "#define PLACES 16u", "#define PLACES 1u"),
    (
        "heap/bounded.c",
        "void *fh_bounded_memory(",
        "#include \"bounded_books.h\"\nvoid *fh_bounded_memory(",
    ),
    (
        "heap/heap.c",
        "if (FH_CHECKED && !fh_heap_is_told(h)) h = fh_use_keep(h);",
        "h = fh_use_keep(h);",
    ),
    (
        "heap/types.h",
        "return FH_CHECKED && fh_load_acquire(&h->ending) == FH_HEAP_OVER;",
        "return fh_load_acquire(&h->ending) == FH_HEAP_OVER;",
    ),
    (
        "store/purge.c",
        "static fh_word moved_chunks;",
        "fh_word moved_chunks;",
    ),
    (
        "cache/cache.h",
        "extern __thread fh_bin *fh_self_bins __attribute__((tls_model(\"initial-exec\")));",
        "#define fh_self_bins (*(fh_bin **)fh_model->own())",
    ),
    (
        "cache/cache.h",
        "extern __thread fh_bin *fh_self_release_bins __attribute__((tls_model(\"initial-exec\"))) FH_HIDDEN;",
        "#define fh_self_release_bins (*(fh_bin **)(fh_model->own() + 3))",
    ),
    (
        "cache/hardened.c",
        "void fh_delay_empty(void) {",
        "void *fh_model_waits(unsigned shard) {\n    return (void *)(uintptr_t)fh_load(&delayed[shard].coarse[0]);\n}\nvoid fh_delay_empty(void) {",
    ),
    (
        "cache/hardened.h",
        "#define FH_DELAY_COARSE (FH_STRESS ? 4u : 32u)",
        "#define FH_DELAY_COARSE 1u",
    ),
    (
        "cache/observed.h",
        "extern __thread fh_thread_state fh_here __attribute__((tls_model(\"initial-exec\"))) FH_HIDDEN;",
        "#define fh_here (*(fh_thread_state *)(fh_model->own() + 1))",
    ),
    (
        "cache/thread.c",
        "__thread fh_bin *fh_self_bins __attribute__((tls_model(\"initial-exec\"))) = (fh_bin *)no_bins;",
        "",
    ),
    (
        "cache/thread.c",
        "__thread fh_bin *fh_self_release_bins __attribute__((tls_model(\"initial-exec\"))) = (fh_bin *)no_bins;",
        "",
    ),
    (
        "cache/thread.c",
        "__thread fh_thread_state fh_here\n    __attribute__((tls_model(\"initial-exec\"))) = {.thread = (fh_thread *)&fh_thread_none, .bytes_until_sample = -1};",
        "",
    ),
];

/// The files of the library that are explored, as they ship: store, cache and reclaim whole with the check of all, the tables
/// that they read, the heaps, and of the observer and of misuse the tables that many threads write.
fn real_files(source: &Path) -> Vec<String> {
    let mut files: Vec<String> = [
        "base/classes.c",
        "base/settings.c",
        "heap/defer.c",
        "heap/bounded.c",
        "heap/callbacks.c",
        "heap/claim.c",
        "heap/endings.c",
        "heap/frames.c",
        "heap/free.c",
        "heap/given.c",
        "heap/heap.c",
        "heap/quota.c",
        "heap/regions.c",
        "heap/scope.c",
        "heap/span.c",
        "heap/stacks.c",
        "heap/stripes.c",
        "heap/take.c",
        "heap/told.c",
        "heap/use.c",
        "heap/valid.c",
        "misuse/guard_slots.c",
        "misuse/quarantine.c",
        "observe/index.c",
        "observe/samples.c",
        "observe/sites.c",
        "../recorder/order.c",
    ]
    .map(String::from)
    .to_vec();
    for layer in ["store", "cache", "reclaim", "check"] {
        for entry in fs::read_dir(source.join(layer)).expect("the directory of a layer") {
            let name = entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a plain name");
            if name.ends_with(".c") {
                files.push(format!("{layer}/{name}"));
            }
        }
    }
    files.sort();
    files
}

/// What the model adds: its operating system, its checks, calls for its scenarios, the negative control.
const OWN: &[&str] = &[
    "system.c",
    "verify.c",
    "aba.c",
    "calls.c",
    "defer.c",
    "guards.c",
    "hardened.c",
    "heaps.c",
    "observer.c",
    "order.c",
    "quarantine.c",
];

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let source = here.join("../src");
    let recorder = here.join("../recorder");
    for folder in [
        &here.join("include"),
        &here.join("source"),
        &source,
        &recorder,
    ] {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=mutants.rs");
    println!("cargo:rerun-if-changed=mutants_heaps.rs");
    println!("cargo:rerun-if-changed=mutants_order.rs");
    build(&here, &source, &out, "real", &[]);
    // Each needs the objects of the real one and nothing of the others.
    let jobs = env::var("NUM_JOBS").map_or(1, |n| n.parse().expect("cargo sets a number"));
    let mutants = Mutex::new(MUTANTS.iter().chain(HEAPS).chain(ORDER));
    let next = || mutants.lock().expect("no builder panics with it").next();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(mutant) = next() {
                    build(&here, &source, &out, mutant.name, mutant.edits);
                }
            });
        }
    });
    println!("cargo:rustc-env=FREEHOLD_MODEL_CORES={}", out.display());
}

/// The text of a file of the library with some places replaced, each of which must be there once.
fn edited<'a>(
    source: &Path,
    file: &str,
    what: &str,
    edits: impl Iterator<Item = &'a (&'static str, &'static str, &'static str)>,
) -> String {
    let mut text = fs::read_to_string(source.join(file)).expect("a file of the library");
    for (_, from, to) in edits.filter(|(of, _, _)| *of == file) {
        let places = text.matches(from).count();
        assert!(
            places == 1,
            "{what}: {file} has {places} places with the text\n    {from}"
        );
        text = text.replace(from, to);
    }
    text
}

/// Makes the shared object of one variant. Only what a seeded bug edits is compiled anew; the rest is the real one's.
fn build(
    here: &Path,
    source: &Path,
    out: &Path,
    name: &str,
    edits: &'static [(&'static str, &'static str, &'static str)],
) {
    let (folder, real) = (out.join(name), out.join("real"));
    for layer in ["base", "cache", "heap", "misuse"] {
        fs::create_dir_all(folder.join(layer)).expect("a folder below OUT_DIR");
    }
    let (mut files, mut objects) = (vec![], vec![]);
    for file in OWN {
        // The recorder's order is in its header.
        let is_new = edits.is_empty()
            || *file == "order.c" && edits.iter().any(|(of, _, _)| of.ends_with("/order.h"));
        let of = if is_new { &folder } else { &real };
        objects.push(of.join(file.replace(".c", ".o")));
        if is_new {
            files.push(here.join("source").join(file));
        }
    }
    for header in [
        "base/settings.h",
        "cache/cache.h",
        "cache/hardened.h",
        "cache/observed.h",
        "heap/marks.h",
        "heap/stripes.h",
        "heap/types.h",
        "misuse/quarantine.h",
        "../recorder/order.h",
    ] {
        let text = edited(source, header, name, ADAPTED.iter().chain(edits));
        fs::write(folder.join(header.trim_start_matches("../recorder/")), text)
            .expect("a file below OUT_DIR");
    }
    let what = format!("seeded bug {name}, or the model itself");
    // A header may be in any file.
    let all = edits.is_empty() || edits.iter().any(|(of, _, _)| of.ends_with(".h"));
    for file in &real_files(source) {
        let copy = folder.join(file.replace('/', "_"));
        if !all && edits.iter().all(|(of, _, _)| of != file) {
            objects.push(real.join(file.replace('/', "_")).with_extension("o"));
            continue;
        }
        let text = edited(source, file, &what, ADAPTED.iter().chain(edits));
        fs::write(&copy, text).expect("a file below OUT_DIR");
        objects.push(copy.with_extension("o"));
        files.push(copy);
    }
    compile(
        here,
        source,
        &folder,
        &files,
        &objects,
        &out.join(format!("{name}.so")),
    );
}

/// Compiles the files in that folder, and links the objects.
fn compile(
    here: &Path,
    source: &Path,
    folder: &Path,
    files: &[PathBuf],
    objects: &[PathBuf],
    library: &Path,
) {
    let compiler = cc::Build::new().warnings(false).get_compiler();
    let status = compiler
        .to_command()
        .current_dir(folder)
        .args([
            "-c",
            "-std=gnu11",
            "-O1",
            "-g",
            "-fPIC",
            "-fexceptions",
            "-fno-strict-aliasing",
            // Not for the thread sanitizer's library but for its calls, one at each plain read and write: the model's own
            // functions of these names (source/system.c) tell the explorer, who finds races of plain data.
            "-fsanitize=thread",
        ])
        // The model's headers and adapted ones come first and so replace the library's of the same name.
        .arg(format!("-I{}", folder.display()))
        .arg(format!("-I{}", here.join("include").display()))
        .arg(format!("-I{}", source.display()))
        .args(files)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{} does not compile", library.display());
    let status = compiler
        .to_command()
        .args(["-shared", "-o"])
        .arg(library)
        .args(objects)
        .status()
        .expect("a linker");
    assert!(status.success(), "{} does not link", library.display());
}
