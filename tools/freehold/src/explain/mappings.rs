//! What the kernel says about a process's memory: its mappings (`smaps`), and their sum (`smaps_rollup`). No ptrace: these files are open to the owner of the process.

use std::fs;
use std::io::BufReader;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use procfs::FromBufRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};
use profile_file::process::monotonic_ns;

/// One mapping, reduced to what is counted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub range: Range<u64>,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub shared: bool,
    pub name: Name,
    pub resident: u64,
    /// Of the resident bytes: pages that other processes have mapped too.
    pub with_others: u64,
    pub swapped: u64,
    /// Of the resident bytes: in huge pages.
    pub huge: u64,
}

impl Mapping {
    pub fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Reserved address space: nothing can be in it.
    pub fn inaccessible(&self) -> bool {
        !self.readable && !self.writable && !self.executable
    }
}

/// What is mapped, as far as the kernel has a name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Anonymous,
    File(PathBuf),
    /// The segment that `brk` moves.
    Heap,
    Stack,
    /// `[vdso]` and its kin.
    Kernel(String),
    /// Anonymous memory that the program has given a name to.
    Named(String),
    /// System V shared memory.
    Segment,
}

/// The memory of a process at (about) one moment.
#[derive(Debug)]
pub struct Memory {
    pub mappings: Vec<Mapping>,
    /// The sum of what is resident of the mappings.
    pub resident: u64,
    pub swapped: u64,
    /// Resident bytes as the kernel sums them up itself, a moment later.
    pub summed: u64,
    /// When the mappings had been read, on the clock of profile files.
    pub read_ns: u64,
}

impl Memory {
    pub fn new(mappings: Vec<Mapping>, rollup: Option<Mapping>, read_ns: u64) -> Self {
        let sum = |of: fn(&Mapping) -> u64| mappings.iter().map(of).sum();
        let (resident, swapped) = (sum(|map| map.resident), sum(|map| map.swapped));
        Self {
            resident,
            swapped,
            // Older kernels and some sandboxes have no rollup.
            summed: rollup.map_or(resident, |all| all.resident),
            read_ns,
            mappings,
        }
    }
}

/// Reads the mappings of a process.
pub fn read(pid: u32) -> Result<Memory> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    if !directory.exists() {
        bail!("there is no process {pid}");
    }
    let bytes = fs::read(directory.join("smaps")).with_context(|| refusal(pid))?;
    let mappings =
        parse(&bytes).with_context(|| format!("cannot make sense of /proc/{pid}/smaps"))?;
    if mappings.is_empty() {
        bail!(
            "process {pid} has no memory of its own: it is a kernel thread, or has ended and waits for its parent"
        );
    }
    let read_ns = monotonic_ns();
    let rollup = fs::read(directory.join("smaps_rollup")).ok();
    let rollup = rollup.and_then(|bytes| parse(&bytes).ok()?.into_iter().next());
    Ok(Memory::new(mappings, rollup, read_ns))
}

/// Why a look at a process may be refused, and what helps.
fn refusal(pid: u32) -> String {
    format!(
        "may not look into process {pid}: it belongs to somebody else, or has rights that you do not have; \
         try it as that user or as root"
    )
}

/// Parses `smaps`. A path need not be UTF-8; what is not is replaced, since it is only shown.
///
/// The kernel gives it in pieces. A mapping that has grown between two of them begins the second one again, as a whole. Then
/// only the later answer counts.
pub fn parse(smaps: &[u8]) -> Result<Vec<Mapping>> {
    let text = String::from_utf8_lossy(smaps);
    let maps = MemoryMaps::from_buf_read(BufReader::new(text.as_bytes()))?;
    let mut found: Vec<Mapping> = Vec::new();
    for mapping in maps.0.iter().map(reduce) {
        found.truncate(found.partition_point(|before| before.range.end <= mapping.range.start));
        found.push(mapping);
    }
    Ok(found)
}

fn reduce(map: &MemoryMap) -> Mapping {
    let bytes = |key: &str| map.extension.map.get(key).copied().unwrap_or(0);
    let may = |permission| map.perms.contains(permission);
    Mapping {
        range: map.address.0..map.address.1,
        readable: may(MMPermissions::READ),
        writable: may(MMPermissions::WRITE),
        executable: may(MMPermissions::EXECUTE),
        shared: may(MMPermissions::SHARED),
        name: name_of(&map.pathname),
        resident: bytes("Rss"),
        with_others: bytes("Shared_Clean") + bytes("Shared_Dirty"),
        swapped: bytes("Swap"),
        huge: bytes("AnonHugePages") + bytes("ShmemPmdMapped"),
    }
}

fn name_of(path: &MMapPath) -> Name {
    match path {
        MMapPath::Path(path) => Name::File(path.clone()),
        MMapPath::Heap => Name::Heap,
        MMapPath::Stack | MMapPath::TStack(_) => Name::Stack,
        MMapPath::Anonymous => Name::Anonymous,
        MMapPath::Vsys(_) => Name::Segment,
        MMapPath::Vdso => Name::Kernel("vdso".to_owned()),
        MMapPath::Vvar => Name::Kernel("vvar".to_owned()),
        MMapPath::Vsyscall => Name::Kernel("vsyscall".to_owned()),
        MMapPath::Rollup => Name::Kernel("rollup".to_owned()),
        MMapPath::Other(name) => match name.split_once(':') {
            Some(("anon" | "anon_shmem", given)) => Name::Named(given.to_owned()),
            _ => Name::Kernel(name.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"\
55a0c0000000-55a0c0010000 r-xp 00001000 fe:00 42                         /usr/bin/my server
Size:                 64 kB
KernelPageSize:        4 kB
Rss:                  60 kB
Pss:                  30 kB
Shared_Clean:         40 kB
Shared_Dirty:          0 kB
Private_Clean:        20 kB
Private_Dirty:         0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me sd
7f0000000000-7f0000200000 rw-p 00000000 00:00 0                          [anon:pool]
Rss:                2048 kB
AnonHugePages:      2048 kB
Swap:                 16 kB
7f0000400000-7f0000500000 rw-s 00000000 00:01 9                          /dev/shm/caf\xff (deleted)
Rss:                   8 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  12 kB
";

    #[test]
    fn mappings_are_read_with_their_names() {
        let maps = parse(SMAPS).unwrap();
        assert_eq!(maps.len(), 4);
        assert_eq!(maps[0].name, Name::File("/usr/bin/my server".into()));
        assert!(maps[0].executable && !maps[0].writable && !maps[0].shared);
        assert_eq!(
            (maps[0].resident, maps[0].with_others),
            (60 << 10, 40 << 10)
        );
        assert_eq!(maps[1].name, Name::Named("pool".to_owned()));
        assert_eq!((maps[1].swapped, maps[1].huge), (16 << 10, 2 << 20));
        assert!(maps[2].shared);
        assert_eq!(
            maps[2].name,
            Name::File("/dev/shm/caf\u{fffd} (deleted)".into())
        );
        assert_eq!(maps[3].name, Name::Stack);
    }

    #[test]
    fn a_mapping_that_grew_while_it_was_read_counts_once() {
        let smaps = b"\
1b1b48000000-1b1b48400000 rw-p 00000000 00:00 0 
Rss:                4096 kB
1b1b48400000-1b1b48800000 rw-p 00000000 00:00 0 
Rss:                4096 kB
1b1b48400000-1b1b48c00000 rw-p 00000000 00:00 0 
Rss:                6000 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  12 kB
";
        let maps = parse(smaps).unwrap();
        let resident: Vec<u64> = maps.iter().map(|map| map.resident >> 10).collect();
        assert_eq!(resident, [4096, 6000, 12]);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse(b"Rss: 4 kB\n").is_err());
        assert!(parse(b"hello\n").is_err());
    }

    /// Of a process that stands still: in this one other tests allocate between the two files.
    #[test]
    fn a_process_can_be_read_and_adds_up() {
        let mut command = std::process::Command::new("cat");
        command.stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let read_twice = || {
            let memory = read(child.id()).unwrap();
            (memory.resident > 0 && memory.summed == memory.resident).then_some(())
        };
        // It has to start first.
        let same = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            read_twice().is_some()
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(
            same,
            "the mappings of a process never sum up to what the kernel says of it"
        );
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        assert_eq!(
            read(4_194_999).unwrap_err().to_string(),
            "there is no process 4194999"
        );
    }
}
