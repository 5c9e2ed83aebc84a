//! Compiles the library's own C files with the model's atomics, once as they are and once for each seeded bug.
//!
//! A seeded bug is a substitution in the text of the real file. When that text is no longer there, the build stops: a
//! mutant that silently equals the original would make its test worthless.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// One seeded bug: its name, and for each place the file, the text that must be there once, and what replaces it.
struct Mutant {
    name: &'static str,
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "relaxed_give",
        edits: &[
            (
                "store/slab.c",
                "fh_or_release(&in->slab->free[e->word], e->bits)",
                "fh_model_or_relaxed(&in->slab->free[e->word], e->bits)",
            ),
            (
                "store/slab.c",
                "fh_or_release(&b->slab->free[b->index / 64], bit)",
                "fh_model_or_relaxed(&b->slab->free[b->index / 64], bit)",
            ),
        ],
    },
    Mutant {
        name: "relaxed_depot",
        edits: &[(
            "store/depot.c",
            "fh_cas_acq_rel(slot, &seen, pack(full, 0))",
            "fh_cas_relaxed(slot, &seen, pack(full, 0))",
        )],
    },
    Mutant {
        name: "lossy_give",
        edits: &[
            (
                "store/slab.c",
                "fh_or_release(&in->slab->free[e->word], e->bits)",
                "fh_model_or_lossy(&in->slab->free[e->word], e->bits)",
            ),
            (
                "store/slab.c",
                "fh_or_release(&b->slab->free[b->index / 64], bit)",
                "fh_model_or_lossy(&b->slab->free[b->index / 64], bit)",
            ),
        ],
    },
    Mutant {
        name: "unchecked_class",
        edits: &[(
            "store/slab.c",
            "if (got == 0 && fh_state_kind(fh_load(&slab->state)) != c) {",
            "if (got == 64) {",
        )],
    },
    Mutant {
        name: "unmark_without_second_look",
        edits: &[(
            "store/slab.c",
            "if (bump < fh_class_table[c].blocks || any_free(slab, bump)) fh_mark_set(c, 0, slot);",
            "(void)any_free, (void)bump;",
        )],
    },
    Mutant {
        name: "lower_without_second_look",
        edits: &[(
            "store/marks.c",
            "if (fh_load_acquire(node(mark, level, index)) != 0) {",
            "if (level == 64) {",
        )],
    },
    Mutant {
        name: "release_with_one_out",
        edits: &[
            (
                "store/slab.c",
                "if (fh_load_acquire(&slab->free[w]) != full_word(bump, w)) return false;",
                "if (fh_count_bits(full_word(bump, w) & ~fh_load_acquire(&slab->free[w])) > 1) return false;",
            ),
            (
                "store/slab.c",
                "if (!fh_cas_acquire(&slab->free[w], &full, 0)) break;",
                "fh_swap_acq_rel(&slab->free[w], 0), (void)full;",
            ),
        ],
    },
    Mutant {
        name: "count_of_a_slab_that_is_gone",
        edits: &[(
            "store/slab.c",
            "if (fh_cas_relaxed(&slab->state, &state, state + n)) break;",
            "fh_add_relaxed(&slab->state, n);\n            break;",
        )],
    },
    Mutant {
        name: "slab_published_by_plain_store",
        edits: &[(
            "store/slab.c",
            "fh_swap_acq_rel(&slab->state, fh_state_make(c, n, clean ? FH_STATE_CLEAN : 0));\n    fh_fence_after_rmw();",
            "fh_store_release(&slab->state, fh_state_make(c, n, clean ? FH_STATE_CLEAN : 0));",
        )],
    },
    Mutant {
        name: "purged_slots_counted_twice",
        edits: &[(
            "store/purge.c",
            "uint64_t cleared = fh_and_acq_rel(&chunk->dirty, ~take) & take;",
            "fh_and_acq_rel(&chunk->dirty, ~take);\n    uint64_t cleared = take;",
        )],
    },
    Mutant {
        name: "failed_release_without_mark",
        edits: &[(
            "store/slab.c",
            "        if (c >= FH_CLASSES) return;\n        fh_mark_set(c, 0, slot);\n    }",
            "        if (c >= FH_CLASSES) return;\n    }",
        )],
    },
    Mutant {
        name: "plain_claim",
        edits: &[(
            "store/run.c",
            "if (!fh_cas_acquire(&chunk->free, &free, free & ~mask)) continue;\n        *clean",
            "fh_store_release(&chunk->free, free & ~mask);\n        *clean",
        )],
    },
];

/// The files of the library that are explored, as they ship: the whole store, and the tables it reads.
fn real_files(source: &Path) -> Vec<String> {
    let mut files = vec!["base/classes.c".to_owned(), "base/settings.c".to_owned()];
    for entry in fs::read_dir(source.join("store")).expect("the folder of the store") {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a plain name");
        if name.ends_with(".c") {
            files.push(format!("store/{name}"));
        }
    }
    files.sort();
    files
}

/// What the model adds: its operating system, its checks, the negative control.
const OWN: &[&str] = &["system.c", "verify.c", "aba.c"];

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let source = here.join("../src");
    for folder in [&here.join("include"), &here.join("source"), &source] {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    build(&here, &source, &out, "real", &[]);
    for mutant in MUTANTS {
        build(&here, &source, &out, mutant.name, mutant.edits);
    }
    println!("cargo:rustc-env=FREEHOLD_MODEL_CORES={}", out.display());
}

/// Makes the shared object of one variant.
fn build(here: &Path, source: &Path, out: &Path, name: &str, edits: &[(&str, &str, &str)]) {
    let folder = out.join(name);
    fs::create_dir_all(&folder).expect("a folder below OUT_DIR");
    let mut files: Vec<PathBuf> = OWN
        .iter()
        .map(|file| here.join("source").join(file))
        .collect();
    for file in &real_files(source) {
        let mut text = fs::read_to_string(source.join(file)).expect("a file of the library");
        for (_, from, to) in edits.iter().filter(|(of, _, _)| of == file) {
            let places = text.matches(from).count();
            assert!(
                places == 1,
                "seeded bug {name}: {file} has {places} places with the text\n    {from}"
            );
            text = text.replace(from, to);
        }
        let copy = folder.join(file.replace('/', "_"));
        fs::write(&copy, text).expect("a file below OUT_DIR");
        files.push(copy);
    }
    let compiler = cc::Build::new().warnings(false).get_compiler();
    let status = compiler
        .to_command()
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-fPIC",
            "-shared",
            "-fexceptions",
            "-fno-strict-aliasing",
        ])
        // The model's headers come first and so replace the library's of the same name.
        .arg(format!("-I{}", here.join("include").display()))
        .arg(format!("-I{}", source.display()))
        .args(&files)
        .arg("-o")
        .arg(out.join(format!("{name}.so")))
        .status()
        .expect("a C compiler");
    assert!(status.success(), "the variant {name} does not compile");
}
