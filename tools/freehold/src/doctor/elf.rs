//! What an ELF file says about itself, as far as preloading is concerned.

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind};

/// How a program finds its libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Through glibc's loader, at this path.
    Glibc(String),
    /// Through musl's loader.
    Musl(String),
    /// Through a loader that is neither.
    Other(String),
    Static,
    /// A shared object without an interpreter: nothing to execute.
    Library,
    /// An object file or a core dump.
    NotExecutable(&'static str),
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub bits: u8,
    pub machine: u16,
    pub linkage: Linkage,
    /// The libraries it names itself, not those they name in turn.
    pub needed: Vec<String>,
    /// Names that it defines for everybody in the process.
    pub exports: Vec<String>,
    /// Names that it wants from its libraries.
    pub imports: Vec<String>,
    /// Names that it defines for itself, if they were not stripped.
    pub symbols: Vec<String>,
    /// Written by the Go tool chain.
    pub go: bool,
}

impl Facts {
    /// Word size and CPU: what a library must have in common with the program.
    pub fn architecture(&self) -> String {
        let machine = match self.machine {
            elf::EM_X86_64 => "x86-64".to_owned(),
            elf::EM_386 => "x86".to_owned(),
            elf::EM_AARCH64 => "arm64".to_owned(),
            elf::EM_ARM => "arm".to_owned(),
            elf::EM_RISCV => "risc-v".to_owned(),
            elf::EM_PPC64 => "ppc64".to_owned(),
            elf::EM_S390 => "s390".to_owned(),
            other => format!("machine {other}"),
        };
        format!("{}-bit {machine}", self.bits)
    }

    pub fn describe(&self) -> String {
        let linkage = match &self.linkage {
            Linkage::Glibc(_) => "glibc",
            Linkage::Musl(_) => "musl",
            Linkage::Other(_) => "unknown loader",
            Linkage::Static => "static",
            Linkage::Library => "shared library",
            Linkage::NotExecutable(kind) => kind,
        };
        format!("{}, {linkage}", self.architecture())
    }
}

#[derive(Debug)]
pub enum Unreadable {
    /// Not ELF at all.
    Foreign,
    /// ELF, but broken.
    Broken(object::Error),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(out, "neither an ELF file nor a script that begins with #!"),
            Self::Broken(error) => write!(out, "a broken ELF file: {error}"),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<object::Error> for Unreadable {
    fn from(error: object::Error) -> Self {
        Self::Broken(error)
    }
}

/// Reads the headers and symbol tables of a file.
pub fn read(data: &[u8]) -> Result<Facts, Unreadable> {
    match FileKind::parse(data) {
        Ok(FileKind::Elf32) => facts::<FileHeader32<Endianness>>(data, 32),
        Ok(FileKind::Elf64) => facts::<FileHeader64<Endianness>>(data, 64),
        _ => Err(Unreadable::Foreign),
    }
}

/// What the program headers tell.
#[derive(Default)]
struct Segments {
    interpreter: Option<String>,
    /// Whether there is a dynamic section at all.
    dynamic: bool,
    /// The dynamic section's own word that this is a program.
    pie: bool,
}

fn facts<E: FileHeader<Endian = Endianness>>(data: &[u8], bits: u8) -> Result<Facts, Unreadable> {
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let segments = segments(header, endian, data)?;
    let mut found = Facts {
        bits,
        machine: header.e_machine(endian),
        linkage: linkage(header.e_type(endian), segments),
        needed: Vec::new(),
        exports: Vec::new(),
        imports: Vec::new(),
        symbols: Vec::new(),
        go: false,
    };
    // A file may carry no sections at all and still run; then the tables stay empty.
    let Ok(sections) = header.sections(endian, data) else {
        return Ok(found);
    };
    if let Some((dynamic, strings)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for entry in dynamic
            .iter()
            .filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED))
        {
            let name = entry.string(endian, strings)?;
            found
                .needed
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
    let dynamic = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    found.exports = defined(&dynamic, endian);
    found.imports = undefined(&dynamic, endian);
    found.symbols = defined(&sections.symbols(endian, data, elf::SHT_SYMTAB)?, endian);
    found.go = sections.iter().any(|section| {
        sections
            .section_name(endian, section)
            .is_ok_and(|name| name == b".go.buildinfo")
            && section.sh_size(endian).into() > 0
    });
    Ok(found)
}

fn segments<E: FileHeader<Endian = Endianness>>(
    header: &E,
    endian: Endianness,
    data: &[u8],
) -> Result<Segments, Unreadable> {
    let mut found = Segments::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            found.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
        if let Some(entries) = segment.dynamic(endian, data)? {
            found.dynamic = true;
            found.pie = entries.iter().any(|entry| {
                entry.tag32(endian) == Some(elf::DT_FLAGS_1)
                    && entry
                        .val32(endian)
                        .is_some_and(|flags| flags & elf::DF_1_PIE != 0)
            });
        }
    }
    Ok(found)
}

fn linkage(kind: u16, segments: Segments) -> Linkage {
    match (kind, segments.interpreter) {
        (elf::ET_REL, _) => Linkage::NotExecutable("an object file"),
        (elf::ET_CORE, _) => Linkage::NotExecutable("a core dump"),
        (_, Some(path)) if path.contains("/ld-musl-") => Linkage::Musl(path),
        (_, Some(path)) if path.contains("/ld-linux") || path.contains("/ld64.so") => {
            Linkage::Glibc(path)
        }
        (_, Some(path)) => Linkage::Other(path),
        // A static program that may lie anywhere in memory looks like a library except for one flag.
        (elf::ET_DYN, None) if segments.dynamic && !segments.pie => Linkage::Library,
        (_, None) => Linkage::Static,
    }
}

/// The names of functions and objects that a symbol table defines.
fn defined<E: FileHeader>(
    table: &object::read::elf::SymbolTable<'_, E>,
    endian: E::Endian,
) -> Vec<String> {
    table
        .iter()
        .filter(|symbol| !symbol.is_undefined(endian))
        .filter(|symbol| {
            matches!(
                symbol.st_type(),
                elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT
            )
        })
        .filter_map(|symbol| table.symbol_name(endian, symbol).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// The names that a symbol table asks for.
fn undefined<E: FileHeader>(
    table: &object::read::elf::SymbolTable<'_, E>,
    endian: E::Endian,
) -> Vec<String> {
    table
        .iter()
        .filter(|symbol| symbol.is_undefined(endian))
        .filter_map(|symbol| table.symbol_name(endian, symbol).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest header that still says what it is.
    fn header(class: u8, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0u8; 64];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
        bytes[16] = 2; // ET_EXEC
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[20] = 1;
        bytes
    }

    #[test]
    fn word_size_and_processor_are_read() {
        assert_eq!(
            read(&header(1, elf::EM_386)).unwrap().architecture(),
            "32-bit x86"
        );
        assert_eq!(
            read(&header(2, elf::EM_AARCH64)).unwrap().architecture(),
            "64-bit arm64"
        );
        assert_eq!(
            read(&header(2, 4711)).unwrap().architecture(),
            "64-bit machine 4711"
        );
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        assert_eq!(
            read(&header(2, elf::EM_X86_64)).unwrap().linkage,
            Linkage::Static
        );
    }

    #[test]
    fn this_test_knows_itself() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let facts = read(&data).unwrap();
        assert!(
            matches!(facts.linkage, Linkage::Glibc(_) | Linkage::Musl(_)),
            "{:?}",
            facts.linkage
        );
        assert!(
            facts.needed.iter().any(|name| name.starts_with("libc.")),
            "{:?}",
            facts.needed
        );
        assert!(!facts.go);
    }

    #[test]
    fn loaders_are_told_apart() {
        let with = |path: &str| {
            let segments = Segments {
                interpreter: Some(path.to_owned()),
                ..Segments::default()
            };
            linkage(elf::ET_DYN, segments)
        };
        assert!(matches!(
            with("/lib64/ld-linux-x86-64.so.2"),
            Linkage::Glibc(_)
        ));
        assert!(matches!(
            with("/lib/ld-linux-aarch64.so.1"),
            Linkage::Glibc(_)
        ));
        assert!(matches!(with("/lib/ld-musl-x86_64.so.1"), Linkage::Musl(_)));
        assert!(matches!(with("/system/bin/linker64"), Linkage::Other(_)));
        let library = Segments {
            dynamic: true,
            ..Segments::default()
        };
        assert_eq!(linkage(elf::ET_DYN, library), Linkage::Library);
        let static_pie = Segments {
            dynamic: true,
            pie: true,
            ..Segments::default()
        };
        assert_eq!(linkage(elf::ET_DYN, static_pie), Linkage::Static);
    }

    #[test]
    fn what_is_not_elf_says_so() {
        assert_eq!(
            read(b"hello").unwrap_err().to_string(),
            "neither an ELF file nor a script that begins with #!"
        );
        assert!(read(&header(2, 62)[..40]).is_err());
    }
}
