//! Names for addresses, looked up offline in the files that the profile file lists.
//!
//! A file is only believed if it has the build-id that the program saw; what has no file, another build-id or no symbol
//! becomes module+offset, which a later look with the right file can still name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use object::Object;
use serde::{Deserialize, Serialize};

use crate::blame;
use crate::debuginfod::{Fetcher, Missing};
use crate::functions::Functions;
use crate::process;
use crate::snapshot::{Module, Snapshot};

/// A function that was being executed. One address has several if calls were inlined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled; module+offset if there is no name.
    pub function: String,
    /// The module's path; empty: the address is in none.
    pub module: String,
    /// The address in the module's symbol table.
    pub offset: u64,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The next frame's function has this one inlined in it.
    pub inlined: bool,
    /// `function` is a name, not module+offset.
    pub named: bool,
}

impl Frame {
    /// `file:line`, as far as it is known.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(
            self.line
                .map_or_else(|| file.clone(), |line| format!("{file}:{line}")),
        )
    }

    /// `file:line` with only the file's name.
    pub fn short_place(&self) -> Option<String> {
        let file = self.file.as_ref()?.rsplit('/').next()?;
        Some(
            self.line
                .map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")),
        )
    }

    /// The function's name alone, as [`blame::bare_name`] has it. What is no name stays as it is: of "module+offset, near
    /// open" the last word is another function.
    pub fn bare_name(&self) -> &str {
        match self.named {
            true => blame::bare_name(&self.function),
            false => &self.function,
        }
    }

    /// The module's file name.
    pub fn module_name(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or(&self.module)
    }
}

/// Frames by return address: what a saved snapshot carries so that it needs no files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolTable {
    pub frames: BTreeMap<u64, Vec<Frame>>,
    pub warnings: Vec<String>,
}

/// How a module's file can be used.
#[derive(Clone)]
enum Lookup {
    File(PathBuf),
    Nothing,
}

/// Looks names up in files, by the offsets that the library's own messages have.
pub struct FileSymbols {
    symbols: Symbols,
    numbers: HashMap<String, u64>,
}

/// Between the addresses that files are given here, which none of them has.
const FILE_STEP: u64 = 1 << 44;

impl FileSymbols {
    pub fn new() -> FileSymbols {
        FileSymbols {
            symbols: Symbols::of(Vec::new(), None, None, false),
            numbers: HashMap::new(),
        }
    }

    /// The functions at an offset of a file, the innermost first; never empty.
    pub fn frames(&mut self, path: &str, offset: u64) -> Rc<[Frame]> {
        let next = self.numbers.len() as u64 + 1;
        let number = *self.numbers.entry(path.to_owned()).or_insert(next);
        let begin = number * FILE_STEP;
        if number == next {
            self.symbols.modules.push(Module {
                begin,
                end: begin + FILE_STEP,
                bias: begin,
                unloaded_ns: None,
                build_id: Vec::new(),
                path: path.to_owned(),
            });
        }
        self.symbols.frames(begin + offset % FILE_STEP + 1)
    }
}

impl Default for FileSymbols {
    fn default() -> Self {
        Self::new()
    }
}

/// What a file without debug information says about an address.
enum OwnName {
    /// The function that it is in.
    At(String),
    /// It is in none, and this exported one is close.
    Near(String),
    None,
}

/// Looks names up, each address once.
pub struct Symbols {
    modules: Vec<Module>,
    pid: Option<u64>,
    table: Option<SymbolTable>,
    symbolizer: Symbolizer,
    files: HashMap<usize, Lookup>,
    /// What a file names beyond its debug information, by path.
    functions: HashMap<PathBuf, Functions>,
    /// None: nothing is fetched.
    fetcher: Option<Fetcher>,
    cache: HashMap<u64, Rc<[Frame]>>,
    warned: HashSet<String>,
    warnings: Vec<String>,
}

impl Symbols {
    /// For the addresses of this snapshot. What was saved with it is preferred to files of this machine.
    pub fn new(snapshot: &Snapshot) -> Symbols {
        Self::of(
            snapshot.modules.clone(),
            snapshot.is_alive().then(|| snapshot.pid()),
            snapshot.symbols.clone(),
            snapshot.naming.debuginfod,
        )
    }

    fn of(
        modules: Vec<Module>,
        pid: Option<u64>,
        table: Option<SymbolTable>,
        debuginfod: bool,
    ) -> Symbols {
        Symbols {
            modules,
            pid,
            warnings: table
                .as_ref()
                .map_or_else(Vec::new, |table| table.warnings.clone()),
            table,
            symbolizer: Symbolizer::builder()
                .enable_code_info(true)
                .enable_inlined_fns(true)
                .build(),
            files: HashMap::new(),
            functions: HashMap::new(),
            fetcher: debuginfod.then(Fetcher::default),
            cache: HashMap::new(),
            warned: HashSet::new(),
        }
    }

    /// New modules may have appeared since: for commands that read one program again and again.
    pub fn update(&mut self, snapshot: &Snapshot) {
        if self.modules != snapshot.modules {
            self.modules = snapshot.modules.clone();
            self.files.clear();
            // What had no module may have one now.
            self.cache
                .retain(|_, frames| frames.iter().any(|frame| frame.named));
        }
    }

    /// The functions at a return address, the innermost first; never empty.
    pub fn frames(&mut self, return_address: u64) -> Rc<[Frame]> {
        if let Some(frames) = self.cache.get(&return_address) {
            return Rc::clone(frames);
        }
        let saved = self
            .table
            .as_ref()
            .and_then(|table| table.frames.get(&return_address));
        // What was saved without a name may have one where debug information is fetched.
        let enough = |frames: &[Frame]| {
            !frames.is_empty() && (self.fetcher.is_none() || frames.iter().any(|frame| frame.named))
        };
        let frames: Rc<[Frame]> = match saved {
            Some(frames) if enough(frames) => frames.as_slice().into(),
            _ => self.look_up(return_address).into(),
        };
        self.cache.insert(return_address, Rc::clone(&frames));
        frames
    }

    /// The functions of a whole stack, the innermost first.
    pub fn stack(&mut self, addresses: &[u64]) -> Vec<Frame> {
        addresses
            .iter()
            .flat_map(|&address| self.frames(address).to_vec())
            .collect()
    }

    /// What made names missing or doubtful.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Names for every stack of a snapshot, to be saved with it.
    pub fn table(&mut self, snapshot: &Snapshot) -> SymbolTable {
        let mut frames = BTreeMap::new();
        for node in &snapshot.profile.nodes {
            if node.address != 0 {
                frames
                    .entry(node.address)
                    .or_insert_with(|| self.frames(node.address).to_vec());
            }
        }
        SymbolTable {
            frames,
            warnings: self.warnings.clone(),
        }
    }

    fn warn(&mut self, text: String) {
        if self.warned.insert(text.clone()) {
            self.warnings.push(text);
        }
    }

    fn look_up(&mut self, return_address: u64) -> Vec<Frame> {
        // A return address is behind its call, perhaps already in the next line or function.
        let address = return_address.saturating_sub(1);
        let Some(number) = self.module_number(address) else {
            return vec![Frame {
                function: format!("{address:#x}"),
                module: String::new(),
                offset: address,
                file: None,
                line: None,
                inlined: false,
                named: false,
            }];
        };
        let offset = address.wrapping_sub(self.modules[number].bias);
        if let Lookup::File(path) = self.file(number) {
            if let Some(frames) = self.look_up_in(path, number, offset) {
                return frames;
            }
        }
        let own = match self.file(number) {
            Lookup::File(path) => self.own_names(&path, offset),
            Lookup::Nothing => OwnName::None,
        };
        let module = &self.modules[number];
        let place = format!("{}+{offset:#x}", module.name());
        let (function, named) = match own {
            OwnName::At(name) => (demangled(&name), true),
            OwnName::Near(name) => (format!("{place}, near {}", demangled(&name)), false),
            OwnName::None => (place, false),
        };
        vec![Frame {
            function,
            module: module.path.clone(),
            offset,
            file: None,
            line: None,
            inlined: false,
            named,
        }]
    }

    /// What a file without debug information says about an address all the same.
    fn own_names(&mut self, path: &Path, offset: u64) -> OwnName {
        let functions = functions_of(&mut self.functions, path);
        match (functions.at(offset), functions.near(offset)) {
            (Some(name), _) => OwnName::At(name.to_owned()),
            (None, Some(name)) => OwnName::Near(name.to_owned()),
            (None, None) => OwnName::None,
        }
    }

    /// The functions at an offset of a module, out of this file; none: it has no name there, or could not be read, which is
    /// said.
    fn look_up_in(&mut self, path: PathBuf, number: usize, offset: u64) -> Option<Vec<Frame>> {
        // A file that is reached through its process goes with it: its own path may lead to it still.
        let module = &self.modules[number];
        let own = PathBuf::from(&module.path);
        let is_it = |path: &Path| {
            module.build_id.is_empty()
                || matches!(read_elf_build_id(path), Ok(Some(id)) if *id == *module.build_id)
        };
        let own = (own != path && is_it(&own)).then_some(own);
        let mut failed = None;
        for path in std::iter::once(path).chain(own) {
            let mut elf = Elf::new(path.clone());
            elf.debug_syms = true;
            let source = Source::Elf(elf);
            let found = self
                .symbolizer
                .symbolize_single(&source, Input::VirtOffset(offset));
            match found {
                Ok(found) if is_doubtful(&mut self.functions, &path, &found) => return None,
                Ok(found) => return named(&found, &self.modules[number], offset),
                // The names that are compressed in it are read elsewhere.
                Err(_) if functions_of(&mut self.functions, &path).has_compressed() => return None,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            let path = &self.modules[number].path;
            self.warn(format!(
                "{path} could not be read, so some names are missing: {error}"
            ));
        }
        None
    }

    fn module_number(&self, address: u64) -> Option<usize> {
        let here = |&number: &usize| self.modules[number].contains(address);
        let mut found = (0..self.modules.len()).rev().filter(here);
        let last = found.next()?;
        // One that is still loaded goes before one that was unloaded at the same place.
        let loaded = |number: &usize| self.modules[*number].unloaded_ns.is_none();
        Some(if loaded(&last) {
            last
        } else {
            found.find(loaded).unwrap_or(last)
        })
    }

    /// The file of a module, if it is the one that the program had.
    fn file(&mut self, number: usize) -> Lookup {
        if let Some(known) = self.files.get(&number) {
            return known.clone();
        }
        let lookup = self.choose_file(number);
        self.files.insert(number, lookup.clone());
        lookup
    }

    fn choose_file(&mut self, number: usize) -> Lookup {
        let module = self.modules[number].clone();
        if !module.path.starts_with('/') {
            // The vDSO and the like: memory without a file.
            return Lookup::Nothing;
        }
        let fetched = self.fetch_for(&module);
        if let Some(path) = fetched {
            return Lookup::File(path);
        }
        let mut changed = false;
        for path in self.candidates(&module) {
            if !path.is_file() {
                continue;
            }
            if module.build_id.is_empty() {
                return Lookup::File(path);
            }
            match read_elf_build_id(&path) {
                Ok(Some(id)) if *id == *module.build_id => return Lookup::File(path),
                _ => changed = true,
            }
        }
        let path = &module.path;
        self.warn(if changed {
            format!("{path} was changed since the program loaded it (another build-id): no names from it")
        } else {
            format!("{path} is not on this machine: no names from it")
        });
        Lookup::Nothing
    }

    /// The debug information of a module that has none on this machine, if it may be fetched and there is some.
    fn fetch_for(&mut self, module: &Module) -> Option<PathBuf> {
        if self.fetcher.is_none() || module.build_id.is_empty() {
            return None;
        }
        let is_it = |path: &PathBuf| matches!(read_elf_build_id(path), Ok(Some(id)) if *id == *module.build_id);
        let mut here = self.candidates(module).into_iter().filter(is_it);
        if here.any(|path| has_lines(&path)) {
            return None;
        }
        let why = match self.fetcher.as_mut()?.fetch(&module.build_id_hex()) {
            Ok(path) if is_it(&path) => return Some(path),
            Ok(path) => Some(format!(
                "{}: the debug information that was fetched is of another build ({})",
                module.path,
                path.display()
            )),
            Err(Missing::Unknown(why)) => Some(format!(
                "{}: no debug information was fetched: {why}",
                module.path
            )),
            Err(Missing::Impossible(why)) => why,
        };
        if let Some(why) = why {
            self.warn(why);
        }
        None
    }

    /// Where the file may be: as the process sees it, then here, then among separate debug files.
    fn candidates(&self, module: &Module) -> Vec<PathBuf> {
        let plain = module
            .path
            .strip_suffix(" (deleted)")
            .unwrap_or(&module.path);
        let mut places = Vec::new();
        if let Some(pid) = self.pid {
            places.push(
                process::directory(pid)
                    .join("root")
                    .join(plain.trim_start_matches('/')),
            );
            // A replaced program is still to be had here, and only its build-id is believed.
            if !module.build_id.is_empty() {
                places.push(process::directory(pid).join("exe"));
            }
        }
        places.push(PathBuf::from(plain));
        let id = module.build_id_hex();
        if id.len() > 2 {
            let (first, rest) = id.split_at(2);
            places.push(
                Path::new("/usr/lib/debug/.build-id")
                    .join(first)
                    .join(format!("{rest}.debug")),
            );
        }
        places
    }
}

fn functions_of<'a>(known: &'a mut HashMap<PathBuf, Functions>, path: &Path) -> &'a Functions {
    known
        .entry(path.to_owned())
        .or_insert_with(|| Functions::of(path))
}

/// A symbol that has no size is taken for all that follows it. That is a function's name only if the file exports it as
/// one, which the name of a version is not.
fn is_doubtful(known: &mut HashMap<PathBuf, Functions>, path: &Path, found: &Symbolized) -> bool {
    match found {
        Symbolized::Sym(symbol) if symbol.code_info.is_none() => {
            symbol.size.is_none_or(|size| size == 0)
                && symbol
                    .name
                    .bytes()
                    .all(|letter| !letter.is_ascii_lowercase())
                && !functions_of(known, path).exports(&symbol.name)
        }
        _ => false,
    }
}

/// The file has debug information of its own.
fn has_lines(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    object::File::parse(&*bytes).is_ok_and(|file| file.section_by_name(".debug_info").is_some())
}

/// A name as it was written, if it is one of C++ or Rust. All of these begin with `_Z` or `_R`; a C function `w` is no
/// `wchar_t`, which this letter stands for inside of such names.
fn demangled(name: &str) -> String {
    let whole = if name.starts_with("_Z") || name.starts_with("_R") {
        let rust = rustc_demangle::try_demangle(name).ok();
        rust.map(|name| format!("{name:#}")).or_else(|| {
            let symbol = cpp_demangle::Symbol::new(name).ok()?;
            symbol.demangle().ok()
        })
    } else {
        None
    };
    whole.unwrap_or_else(|| name.to_owned())
}

/// Frames out of what was found; none: there is no symbol.
fn named(found: &Symbolized, module: &Module, offset: u64) -> Option<Vec<Frame>> {
    let Symbolized::Sym(symbol) = found else {
        return None;
    };
    let frame = |function: &str, code: Option<&blazesym::symbolize::CodeInfo>, inlined| Frame {
        function: demangled(function),
        module: module.path.clone(),
        offset,
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
        line: code.and_then(|code| code.line),
        inlined,
        named: true,
    };
    // The list goes from the outermost inlined call to the innermost.
    let mut frames: Vec<Frame> = symbol
        .inlined
        .iter()
        .rev()
        .map(|call| frame(&call.name, call.code_info.as_ref(), true))
        .collect();
    frames.push(frame(&symbol.name, symbol.code_info.as_deref(), false));
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_stay_as_they_are() {
        for name in ["w", "i", "main", "St", "_Zap", "_Retry"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_Z9copy_linePKc"), "copy_line(char const*)");
        assert_eq!(
            demangled("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(
            demangled("_RNvCskwGfYPst2Cb_3foo16example_function"),
            "foo::example_function"
        );
    }
}
