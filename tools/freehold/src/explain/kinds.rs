//! Whose memory a mapping is. What Freehold has is known by its address; the rest by name, rights, and neighbours.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use profile_file::layout::{CHUNK_BYTES, MEMFD, SLOT_BYTES};

use super::mappings::{Mapping, Name};
use crate::amounts::bytes;

/// What a mapping is for. The order is that in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Freehold: the window, where all blocks are.
    Window,
    /// Freehold: the map of classes below the window.
    Records,
    /// Freehold: the profile file, through which the program is observed.
    Profile,
    /// Instructions and constants of the program and of libraries.
    Code,
    /// Variables of the program and of libraries.
    Data,
    Stacks,
    /// The `brk` segment: glibc's malloc, or a caller of `sbrk`.
    Brk,
    /// 64 MiB heaps of glibc's malloc for threads.
    Arena,
    /// Memory that an interpreter or another allocator has mapped under a name.
    Named,
    /// Private memory without a name: mapped by the program itself, or by another allocator.
    Anonymous,
    /// Shared with other processes on purpose: /dev/shm, memfd, System V, shared anonymous memory.
    Shared,
    /// Files of data.
    Files,
    /// Memory of a graphics card or another device.
    Device,
    Kernel,
}

impl Kind {
    pub const OTHERS: [Kind; 11] = [
        Kind::Code,
        Kind::Data,
        Kind::Stacks,
        Kind::Brk,
        Kind::Arena,
        Kind::Named,
        Kind::Anonymous,
        Kind::Shared,
        Kind::Files,
        Kind::Device,
        Kind::Kernel,
    ];

    /// The word for it in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Window => "window",
            Kind::Records => "records",
            Kind::Profile => "page",
            Kind::Code => "code",
            Kind::Data => "data",
            Kind::Stacks => "stacks",
            Kind::Brk => "brk_heap",
            Kind::Arena => "glibc_arenas",
            Kind::Named => "named_anonymous",
            Kind::Anonymous => "anonymous",
            Kind::Shared => "shared_memory",
            Kind::Files => "files",
            Kind::Device => "devices",
            Kind::Kernel => "kernel",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Kind::Window => "blocks",
            Kind::Records => "records about blocks",
            Kind::Profile => "the profile file",
            Kind::Code => "code of the program and its libraries",
            Kind::Data => "variables of the program and its libraries",
            Kind::Stacks => "stacks of threads",
            Kind::Brk => "heap segment (brk)",
            Kind::Arena => "arenas of glibc's malloc",
            Kind::Named => "anonymous memory with a name",
            Kind::Anonymous => "anonymous memory that somebody mapped",
            Kind::Shared => "shared memory",
            Kind::Files => "files that are mapped",
            Kind::Device => "memory of devices",
            Kind::Kernel => "pages of the kernel",
        }
    }

    /// What one can do about memory of this kind.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Kind::Code => Some(
                "code is shared with other processes and can be read again from its file: it is rarely a trouble",
            ),
            Kind::Data => Some(
                "size BINARY                  the variables of a program or library, by section",
            ),
            Kind::Stacks => {
                Some("fewer threads, or shallower calls: a stack keeps what it once touched")
            }
            Kind::Brk | Kind::Arena => Some(
                "glibc's malloc is at work too: something was allocated before Freehold, or is linked statically",
            ),
            Kind::Files => Some(
                "mapped files can be dropped by the kernel at any time, unless they were written to",
            ),
            Kind::Shared => Some("ls -l /dev/shm; ipcs -m      what is shared, and with whom"),
            Kind::Device => Some("memory of a graphics card's driver: ask its own tools"),
            Kind::Named | Kind::Anonymous => Some(
                "callers of mmap: an interpreter's own heap (Python, V8, Go, the Java heap), a thread pool, a database's buffers",
            ),
            Kind::Window | Kind::Records | Kind::Profile | Kind::Kernel => None,
        }
    }
}

/// What is known of Freehold's own addresses.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    pub window: Range<u64>,
    /// The file through which the process is observed.
    pub profile: Option<PathBuf>,
}

impl Ours {
    pub fn new(begin: u64, bytes: u64, profile: Option<PathBuf>) -> Self {
        Self {
            window: begin..begin.saturating_add(bytes),
            profile,
        }
    }

    fn records(&self) -> Range<u64> {
        // The class map lies just below the window, and has a byte for each slot.
        let bytes = (self.window.end - self.window.start) / SLOT_BYTES;
        self.window.start.saturating_sub(bytes)..self.window.start
    }
}

/// A window is found without a profile file by its guards, pages without access at the ends of its quarters, and by the
/// class map, which begins so far below it that there is a byte for each slot.
pub fn find_window(mappings: &[Mapping]) -> Option<Range<u64>> {
    const BYTES: u64 = 1 << 40;
    let plain = |mapping: &Mapping| {
        mapping.name == Name::Anonymous && !mapping.shared && !mapping.executable
    };
    let is_guard = |end: u64| {
        mappings
            .binary_search_by_key(&end, |mapping| mapping.range.end)
            .is_ok_and(|at| plain(&mappings[at]) && !mappings[at].readable)
    };
    mappings
        .iter()
        .filter(|map| plain(map) && map.writable && map.range.start % CHUNK_BYTES == 0)
        .map(|map| map.range.start + BYTES / SLOT_BYTES)
        .find(|begin| is_guard(begin + BYTES))
        .map(|begin| begin..begin + BYTES)
}

/// The kind of each mapping, in the same order.
pub fn attribute(mappings: &[Mapping], ours: &Ours) -> Vec<Kind> {
    let programs = executable_files(mappings);
    let mut kinds = Vec::with_capacity(mappings.len());
    for (index, mapping) in mappings.iter().enumerate() {
        let before = index.checked_sub(1).map(|i| (&mappings[i], kinds[i]));
        let kind = one(mapping, before, mappings.get(index + 1), ours, &programs);
        kinds.push(kind);
    }
    kinds
}

fn one(
    mapping: &Mapping,
    before: Option<(&Mapping, Kind)>,
    after: Option<&Mapping>,
    ours: &Ours,
    programs: &BTreeSet<&Path>,
) -> Kind {
    match &mapping.name {
        Name::Stack => Kind::Stacks,
        Name::Heap => Kind::Brk,
        Name::Kernel(_) => Kind::Kernel,
        Name::Segment => Kind::Shared,
        Name::Named(name) if name.contains("stack") => Kind::Stacks,
        Name::Named(_) => Kind::Named,
        Name::File(path) => file(mapping, path, ours, programs),
        Name::Anonymous if mapping.shared => Kind::Shared,
        Name::Anonymous if inside(&mapping.range, &ours.window) => Kind::Window,
        Name::Anonymous if inside(&mapping.range, &ours.records()) => Kind::Records,
        Name::Anonymous if is_variables(mapping, before) => Kind::Data,
        Name::Anonymous if is_arena(mapping, after) => Kind::Arena,
        Name::Anonymous if is_stack(mapping, before.map(|(m, _)| m)) => Kind::Stacks,
        Name::Anonymous => Kind::Anonymous,
    }
}

fn inside(part: &Range<u64>, whole: &Range<u64>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

fn file(mapping: &Mapping, path: &Path, ours: &Ours, programs: &BTreeSet<&Path>) -> Kind {
    let text = path.to_string_lossy();
    let bare = text.trim_end_matches(" (deleted)");
    if mapping.shared && is_profile(bare, ours) {
        return Kind::Profile;
    }
    if bare.starts_with("/memfd:") || bare.starts_with("/dev/shm/") || bare == "/dev/zero" {
        // An executable memfd is how some programs make code at run time.
        return if mapping.executable {
            Kind::Code
        } else {
            Kind::Shared
        };
    }
    if bare.starts_with("/dev/") || bare.starts_with("anon_inode:") {
        return Kind::Device;
    }
    if !programs.contains(path) {
        return Kind::Files;
    }
    if mapping.writable {
        Kind::Data
    } else {
        Kind::Code
    }
}

fn is_profile(path: &str, ours: &Ours) -> bool {
    path.strip_prefix("/memfd:")
        .is_some_and(|name| name.starts_with(MEMFD))
        || ours.profile.as_deref().is_some_and(|profile| {
            profile == Path::new(path)
                || profile
                    .canonicalize()
                    .is_ok_and(|profile| profile == Path::new(path))
        })
}

/// Files of which some part is executable: the program and its libraries, with their read-only and writable parts.
fn executable_files(mappings: &[Mapping]) -> BTreeSet<&Path> {
    mappings
        .iter()
        .filter(|mapping| mapping.executable)
        .filter_map(|mapping| match &mapping.name {
            Name::File(path) => Some(path.as_path()),
            _ => None,
        })
        .collect()
}

/// Variables that begin as zero (.bss): private and writable, directly behind the writable part of a file.
fn is_variables(mapping: &Mapping, before: Option<(&Mapping, Kind)>) -> bool {
    before.is_some_and(|(left, kind)| {
        kind == Kind::Data
            && matches!(left.name, Name::File(_))
            && left.range.end == mapping.range.start
            && mapping.writable
    })
}

/// A guard that no thread's stack is likely to have more of; whole reservations in front of memory are something else.
const GUARD_MOST: u64 = 1 << 20;

/// A stack made by pthread_create: writable memory with a guard right below it.
fn is_stack(mapping: &Mapping, before: Option<&Mapping>) -> bool {
    mapping.writable
        && !mapping.executable
        && before.is_some_and(|left| {
            left.inaccessible()
                && left.name == Name::Anonymous
                && left.range.end == mapping.range.start
                && left.length() <= GUARD_MOST
        })
}

/// glibc keeps the heaps of its threads at multiples of 64 MiB: writable at first, the rest reserved.
fn is_arena(mapping: &Mapping, after: Option<&Mapping>) -> bool {
    const ARENA: u64 = 64 << 20;
    let start = mapping.range.start;
    if !mapping.writable || start % ARENA != 0 {
        return false;
    }
    mapping.length() == ARENA
        || after.is_some_and(|right| {
            right.inaccessible()
                && right.range.start == mapping.range.end
                && right.range.end == start + ARENA
        })
}

/// The three largest mappings of a kind, by name, and how many there are.
pub fn detail(mappings: &[Mapping], kinds: &[Kind], wanted: Kind) -> Vec<String> {
    let mut by_name: Vec<(String, u64, usize)> = Vec::new();
    for (mapping, _) in mappings
        .iter()
        .zip(kinds)
        .filter(|(m, kind)| **kind == wanted && m.resident > 0)
    {
        let name = match &mapping.name {
            Name::File(path) => path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            Name::Named(name) | Name::Kernel(name) => name.clone(),
            Name::Anonymous | Name::Heap | Name::Stack | Name::Segment => String::new(),
        };
        match by_name.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, sum, count)) => {
                *sum += mapping.resident;
                *count += 1;
            }
            None => by_name.push((name, mapping.resident, 1)),
        }
    }
    by_name.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    by_name
        .iter()
        .take(3)
        .filter(|(name, ..)| !name.is_empty())
        .map(|(name, sum, _)| format!("{name} {}", bytes(*sum)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::mappings::parse;
    use super::*;

    /// A process in the making: lines as in `maps`, each with the resident KiB behind it.
    fn kinds(lines: &[(&str, u64)], ours: &Ours) -> Vec<Kind> {
        let text: String = lines
            .iter()
            .map(|(line, kib)| format!("{line}\nRss: {kib} kB\n"))
            .collect();
        attribute(&parse(text.as_bytes()).unwrap(), ours)
    }

    #[test]
    fn a_library_and_its_variables() {
        let found = kinds(
            &[
                (
                    "7f0000000000-7f0000001000 r--p 00000000 fe:00 1 /lib/libx.so",
                    4,
                ),
                (
                    "7f0000001000-7f0000002000 r-xp 00001000 fe:00 1 /lib/libx.so",
                    4,
                ),
                (
                    "7f0000002000-7f0000003000 rw-p 00002000 fe:00 1 /lib/libx.so",
                    4,
                ),
                ("7f0000003000-7f0000005000 rw-p 00000000 00:00 0 ", 8),
                ("7f0000005000-7f0000007000 rw-p 00000000 00:00 0 ", 8),
                (
                    "7f0000010000-7f0000011000 r--p 00000000 fe:00 2 /usr/share/data.bin",
                    4,
                ),
            ],
            &Ours::default(),
        );
        assert_eq!(
            found,
            [
                Kind::Code,
                Kind::Code,
                Kind::Data,
                Kind::Data,
                Kind::Anonymous,
                Kind::Files
            ]
        );
    }

    #[test]
    fn stacks_arenas_and_plain_memory() {
        let found = kinds(
            &[
                ("55aa00000000-55aa00021000 rw-p 00000000 00:00 0 [heap]", 4),
                // glibc's arena: at a multiple of 64 MiB, with the rest of it reserved.
                ("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ", 4),
                ("7f0000021000-7f0004000000 ---p 00000000 00:00 0 ", 0),
                // A thread's stack, with a guard.
                ("7f0010000000-7f0010001000 ---p 00000000 00:00 0 ", 0),
                ("7f0010001000-7f0010801000 rw-p 00000000 00:00 0 ", 4),
                // Memory in a reservation of some runtime's own is no stack.
                ("7f1000000000-7f1040000000 ---p 00000000 00:00 0 ", 0),
                ("7f1040000000-7f1040100000 rw-p 00000000 00:00 0 ", 4),
                ("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]", 4),
                ("7ffd00100000-7ffd00102000 r-xp 00000000 00:00 0 [vdso]", 4),
            ],
            &Ours::default(),
        );
        assert_eq!(
            found,
            [
                Kind::Brk,
                Kind::Arena,
                Kind::Anonymous,
                Kind::Anonymous,
                Kind::Stacks,
                Kind::Anonymous,
                Kind::Anonymous,
                Kind::Stacks,
                Kind::Kernel
            ]
        );
    }

    #[test]
    fn shared_memory_devices_and_names() {
        let found = kinds(
            &[
                (
                    "7f0000000000-7f0000001000 rw-s 00000000 00:01 5 /dev/zero (deleted)",
                    4,
                ),
                (
                    "7f0000002000-7f0000003000 rw-s 00000000 00:01 6 /SYSV0000beef (deleted)",
                    4,
                ),
                (
                    "7f0000004000-7f0000005000 rw-s 00000000 00:01 7 /memfd:wayland (deleted)",
                    4,
                ),
                (
                    "7f0000006000-7f0000007000 rw-s 00000000 00:05 8 /dev/nvidiactl",
                    4,
                ),
                (
                    "7f0000008000-7f0000009000 rw-s 00000000 00:0e 8 anon_inode:i915.gem",
                    4,
                ),
                (
                    "7f000000a000-7f000000b000 rw-p 00000000 00:00 0 [anon:v8]",
                    4,
                ),
                (
                    "7f000000c000-7f000000d000 rw-s 00000000 00:01 7 /memfd:freehold-profile (deleted)",
                    4,
                ),
            ],
            &Ours::default(),
        );
        assert_eq!(
            found,
            [
                Kind::Shared,
                Kind::Shared,
                Kind::Shared,
                Kind::Device,
                Kind::Device,
                Kind::Named,
                Kind::Profile
            ]
        );
    }

    const WINDOW: &[(&str, u64)] = &[
        ("1e0000000000-1e0000010000 rw-p 00000000 00:00 0 ", 8),
        ("1e0001000000-1e0001400000 rw-p 00000000 00:00 0 ", 4000),
        ("1e4000fff000-1e4001000000 ---p 00000000 00:00 0 ", 0),
        ("1f0000fff000-1f0001000000 ---p 00000000 00:00 0 ", 0),
        (
            "7f0001000000-7f0001001000 r-xp 00000000 fe:00 1 /lib/libc.so",
            4,
        ),
    ];

    #[test]
    fn the_window_is_known_by_address() {
        let ours = Ours::new(
            0x1e00_0100_0000,
            1 << 40,
            Some("/dev/shm/freehold-7".into()),
        );
        let mut lines = WINDOW.to_vec();
        lines.push((
            "7f0002000000-7f0002100000 rw-s 00000000 00:01 3 /dev/shm/freehold-7",
            40,
        ));
        assert_eq!(
            kinds(&lines, &ours),
            [
                Kind::Records,
                Kind::Window,
                Kind::Window,
                Kind::Window,
                Kind::Code,
                Kind::Profile
            ]
        );
    }

    #[test]
    fn the_window_is_found_without_a_page() {
        let text: String = WINDOW
            .iter()
            .map(|(line, kib)| format!("{line}\nRss: {kib} kB\n"))
            .collect();
        let mappings = parse(text.as_bytes()).unwrap();
        assert_eq!(
            find_window(&mappings),
            Some(0x1e00_0100_0000..0x1f00_0100_0000)
        );
        assert_eq!(find_window(&mappings[1..]), None);
        assert_eq!(find_window(&mappings[..3]), None);
        // A large heap: the class map is whole.
        let text = text.replace("1e0000010000", "1e0001000000");
        let mappings = parse(text.as_bytes()).unwrap();
        assert_eq!(
            find_window(&mappings),
            Some(0x1e00_0100_0000..0x1f00_0100_0000)
        );
    }
}
