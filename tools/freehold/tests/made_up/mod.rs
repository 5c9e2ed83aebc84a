//! A profile file whose addresses lie in a real program, so that names and lines are looked up for real, while every
//! figure in it is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use profile_file::layout;
use profile_file::testing::ProfileBuilder;

/// Functions one a line, so that a line's number is a function's.
const SOURCE: &str = "void *grab(unsigned long n) { return (void *)n; }
void *load_table(void) { return grab(1); }
void *parse_row(void) { return grab(2); }
void *cache_insert(void) { return grab(3); }
int main(void) { return load_table() == parse_row() && cache_insert(); }
";

/// Where the made-up process has the program.
pub const BASE: u64 = 0x5555_0000_0000;

pub struct Program {
    pub path: PathBuf,
    functions: BTreeMap<String, u64>,
}

impl Program {
    /// Compiles the program into `directory`.
    pub fn build(directory: &Path) -> Program {
        let source = directory.join("table.c");
        let path = directory.join("table");
        std::fs::write(&source, SOURCE).unwrap();
        let compiled = Command::new("cc")
            .current_dir(directory)
            .args(["-g", "-O0", "-fPIE", "-pie"])
            .arg(format!("-fdebug-prefix-map={}=/src", directory.display()))
            .args(["-o", "table", "table.c"])
            .status()
            .expect("a C compiler, which building Freehold needs too");
        assert!(compiled.success());
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let functions = file
            .symbols()
            .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
            .collect();
        Program { path, functions }
    }

    /// A return address in this function.
    pub fn inside(&self, function: &str) -> u64 {
        // A few bytes in: the address in front of it, which is looked up, is still the function's.
        BASE + self.functions[function] + 5
    }

    pub fn stack(&self, functions: &[&str]) -> Vec<u64> {
        functions
            .iter()
            .map(|function| self.inside(function))
            .collect()
    }

    /// A profile file of this program, which has ended by itself, with nothing allocated yet.
    pub fn profile(&self, interval: u64) -> ProfileBuilder {
        let mut profile = ProfileBuilder::new(interval);
        profile.change(|profile| profile.header.state = layout::STATE_ENDED);
        profile.module(self.path.to_str().unwrap(), BASE, BASE + 0x10_0000);
        profile
    }

    /// A profile file with three call sites: a table that stays, rows that are freed at once, a cache that holds half.
    pub fn table(&self, interval: u64) -> ProfileBuilder {
        const MS: u64 = 1_000_000;
        let mut profile = self.profile(interval);
        let table = profile.site(&self.stack(&["load_table", "main"]));
        let row = profile.site(&self.stack(&["parse_row", "load_table", "main"]));
        let cache = profile.site(&self.stack(&["cache_insert", "main"]));
        for number in 0..20 {
            profile.allocate(table, 65_536, number * MS);
            let short = profile.allocate(row, 256, number * MS);
            profile.free(short, 10_000);
            let entry = profile.allocate(cache, 4096, number * MS);
            if number % 2 == 0 {
                profile.free(entry, 5 * MS);
            }
        }
        profile
    }
}
