//! Generates the Rust side of the contract with the library, from the library's own sources.

use std::path::Path;
use std::{env, fs, process};

mod contract;

fn fail(what: &dyn std::fmt::Display) -> ! {
    println!("cargo::error={what}");
    process::exit(1)
}

fn main() {
    // As it is now, and not as it was compiled: a build directory outlives a checkout that is moved.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for a build script");
    let sources = Path::new(&here).join("../../src");
    println!("cargo::rerun-if-changed=build");
    for file in contract::FILES {
        println!("cargo::rerun-if-changed={}", sources.join(file).display());
    }
    let files = contract::generate(&sources).unwrap_or_else(|error| fail(&error));
    let out = env::var_os("OUT_DIR").expect("cargo sets it for a build script");
    for (name, text) in files {
        let file = Path::new(&out).join(name);
        if let Err(error) = fs::write(&file, text) {
            fail(&format!("cannot write {}: {error}", file.display()));
        }
    }
}
