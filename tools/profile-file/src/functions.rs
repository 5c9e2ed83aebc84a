//! The functions that a file without debug information still names: those that it exports, and those of a
//! `.gnu_debugdata` section, an xz-compressed file that has the names and nothing else.

use std::fs;
use std::io::Read;
use std::path::Path;

use lzma_rust2::XzReader;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

/// No such section becomes larger than this; what a damaged file claims is not believed beyond it.
const MOST_BYTES: u64 = 256 << 20;
/// A function is close to an address if no more bytes are between them.
const CLOSE: u64 = 4096;

struct Function {
    begin: u64,
    end: u64,
    name: String,
}

/// The functions of a file, by address.
#[derive(Default)]
pub struct Functions {
    exported: Vec<Function>,
    compressed: Vec<Function>,
}

impl Functions {
    /// Reads them. A file that cannot be read has none.
    pub fn of(path: &Path) -> Functions {
        Self::in_bytes(&fs::read(path).unwrap_or_default())
    }

    fn in_bytes(bytes: &[u8]) -> Functions {
        let Ok(file) = object::File::parse(bytes) else {
            return Functions::default();
        };
        let compressed = debugdata(&file).unwrap_or_default();
        let inner = object::File::parse(&*compressed).ok();
        Functions {
            exported: sorted(&file, file.dynamic_symbols()),
            compressed: inner
                .map(|inner| sorted(&inner, inner.symbols()))
                .unwrap_or_default(),
        }
    }

    /// It has compressed names, and they could be read.
    pub fn has_compressed(&self) -> bool {
        !self.compressed.is_empty()
    }

    /// The function that an address is in, by the compressed names.
    pub fn at(&self, address: u64) -> Option<&str> {
        let found = before(&self.compressed, address)?;
        (address < found.end).then_some(found.name.as_str())
    }

    /// The exported function that is closest to an address outside of all.
    pub fn near(&self, address: u64) -> Option<&str> {
        let behind = self.exported.partition_point(|f| f.begin <= address);
        let below = before(&self.exported, address).map(|f| (address.saturating_sub(f.end), f));
        let above = self.exported.get(behind).map(|f| (f.begin - address, f));
        let (distance, closest) = [below, above]
            .into_iter()
            .flatten()
            .min_by_key(|(d, _)| *d)?;
        (distance <= CLOSE).then_some(closest.name.as_str())
    }

    /// The file exports a function of this name.
    pub fn exports(&self, name: &str) -> bool {
        self.exported.iter().any(|function| function.name == name)
    }
}

/// The last function that begins at an address or before it.
fn before(functions: &[Function], address: u64) -> Option<&Function> {
    let behind = functions.partition_point(|function| function.begin <= address);
    functions[..behind].last()
}

/// Functions, of those symbols that are in code: the names of versions and of variables are not.
fn sorted<'d>(
    file: &object::File<'d>,
    symbols: impl Iterator<Item = impl ObjectSymbol<'d>>,
) -> Vec<Function> {
    let code: Vec<(u64, u64)> = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
        .map(|section| {
            (
                section.address(),
                section.address().saturating_add(section.size()),
            )
        })
        .collect();
    // Compressed names come with sections that have an address and no contents.
    let in_code =
        |at: u64| code.is_empty() || code.iter().any(|(from, to)| (*from..*to).contains(&at));
    let mut functions: Vec<Function> = symbols
        .filter(|symbol| symbol.is_definition() || symbol.kind() == SymbolKind::Text)
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter_map(|symbol| {
            Some(Function {
                begin: symbol.address(),
                end: symbol.address().checked_add(symbol.size())?,
                name: symbol
                    .name()
                    .ok()
                    .filter(|name| !name.is_empty())?
                    .to_owned(),
            })
        })
        .filter(|function| in_code(function.begin))
        .collect();
    functions.sort_by_key(|function| (function.begin, function.end));
    functions
}

fn debugdata(file: &object::File) -> Option<Vec<u8>> {
    let section = file.section_by_name(".gnu_debugdata")?;
    let mut bytes = Vec::new();
    XzReader::new(section.data().ok()?, true)
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}
