//! Drains the recorder's shared files. Each process of the program has one; `recorder/raw.h` says what is in it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use anyhow::{Context, Result, ensure};
use memmap2::{Mmap, MmapMut};
use rustix::fs::FallocateFlags;
use tempfile::TempDir;

use super::resident::Watch;
use super::ticks;

pub const BLOCK: usize = 65536;
pub const HEADER: usize = 4096;
pub const BLOCK_HEADER: usize = 64;
/// What the recorder writes and this command reads.
pub const VERSION: u32 = 3;
pub const OWNED: u32 = 1;
pub const FULL: u32 = 2;
const FREE: u32 = 3;

/// Where these are in the header.
const WHEN_FULL: usize = 12;
const PROCESS: usize = 24;
const BEGIN_NS: usize = 48;
const CLOSED: usize = 84;
const READER: usize = 88;
const ASKED: usize = 96;
const LATER: usize = 100;
const BASE_RESIDENT: usize = 104;

/// One process that is being recorded.
struct Source {
    name: String,
    map: MmapMut,
    file: File,
    blocks: usize,
    first_block: usize,
    spool: File,
    spool_path: PathBuf,
    spooled: u64,
    /// Of a process that ran before: the ticks when it was asked to record.
    asked: Option<u64>,
    resident: Option<Watch>,
}

/// One process whose recording is complete.
pub struct Process {
    /// PID-N, N counting the programs that the process became.
    pub name: String,
    pub blocks: u64,
    pub lost: u64,
    pub waits: u64,
    pub begin_ticks: u64,
    pub ticks_per_ns: f64,
    pub resident: Option<Watch>,
    spool: PathBuf,
    _directory: std::sync::Arc<TempDir>,
}

impl Process {
    /// Its blocks, one after the other.
    pub fn spooled(&self) -> Result<Mmap> {
        let file = File::open(&self.spool)?;
        // SAFETY: the file is in a private directory, and nobody writes to it any more.
        unsafe { Mmap::map(&file) }.with_context(|| "cannot map the recording".to_string())
    }
}

pub struct Collector {
    /// None for a process that has its own.
    shared: Option<TempDir>,
    spools: std::sync::Arc<TempDir>,
    sources: Vec<Source>,
    blocks: u64,
    when_full: String,
}

/// In memory where there is room: the pages of a file on a disk would be written back again and again.
pub fn shared_directory(room: u64) -> Result<TempDir> {
    let name = || {
        tempfile::Builder::new()
            .prefix("freehold-record-")
            .to_owned()
    };
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory)
        .is_ok_and(|about| about.f_bavail * about.f_frsize > room.saturating_mul(2));
    if has_room {
        if let Ok(made) = name().tempdir_in(memory) {
            return Ok(made);
        }
    }
    name()
        .tempdir()
        .context("cannot make a temporary directory")
}

impl Collector {
    pub fn new(blocks: u64, when_full: &str) -> Result<Self> {
        Ok(Self {
            shared: Some(shared_directory(blocks * BLOCK as u64)?),
            spools: std::sync::Arc::new(tempfile::tempdir()?),
            sources: Vec::new(),
            blocks,
            when_full: when_full.to_string(),
        })
    }

    /// Asks a process that is ready for it to record from now on.
    pub fn attach(path: &Path, when_full: &str) -> Result<Self> {
        let spools = std::sync::Arc::new(tempfile::tempdir()?);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let source = Source::open(path, &name, spools.path().join(&*name))?;
        let mut source = source.context("it has only just begun: ask again")?;
        source.ask(when_full)?;
        Ok(Self {
            shared: None,
            spools,
            sources: vec![source],
            blocks: 0,
            when_full: when_full.to_string(),
        })
    }

    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let directory = self.shared.as_ref().map(|made| made.path().into());
        vec![
            ("FREEHOLD_RECORD", directory.unwrap_or_default()),
            ("FREEHOLD_RECORD_WHEN_FULL", self.when_full.clone().into()),
            // This command may run in a program with option flight, whose records go with it.
            ("FREEHOLD_RECORD_KEEP", "1".into()),
            ("FREEHOLD_RECORD_BLOCKS", self.blocks.to_string().into()),
            (
                "FREEHOLD_RECORD_READER",
                std::process::id().to_string().into(),
            ),
        ]
    }

    /// Fetches what is full; true if there was anything.
    pub fn drain(&mut self) -> Result<bool> {
        self.find_new()?;
        let mut any = false;
        for watch in self
            .sources
            .iter_mut()
            .filter_map(|it| it.resident.as_mut())
        {
            watch.sample();
        }
        if self.when_full != "ring" {
            for source in &mut self.sources {
                any |= source.fetch(&[FULL])?;
            }
        }
        Ok(any)
    }

    fn find_new(&mut self) -> Result<()> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        for entry in std::fs::read_dir(shared.path())? {
            let path = entry?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            if self.sources.iter().any(|source| source.name == name) {
                continue;
            }
            let spool = self.spools.path().join(name);
            if let Some(source) = Source::open(&path, name, spool)? {
                let pid = source.word(PROCESS).load(Ordering::Relaxed);
                let watches = self
                    .sources
                    .iter_mut()
                    .filter_map(|it| it.resident.as_mut());
                for earlier in watches.filter(|watch| watch.is_of(pid)) {
                    earlier.end();
                }
                self.sources.push(source);
            }
        }
        Ok(())
    }

    /// The last records too, also those of blocks that are not full; processes that still run are let go.
    pub fn finish(mut self) -> Result<Vec<Process>> {
        self.find_new()?;
        let mut done = Vec::new();
        for mut source in self.sources {
            source.close();
            source.fetch(&[FULL, OWNED])?;
            if source.asked.is_some() {
                // A file system that cannot do that keeps some MiB until the program ends.
                let _ = source.release();
            }
            source.spool.set_len(source.spooled * BLOCK as u64)?;
            if let Some(process) = source.process(&self.spools) {
                done.push(process);
            }
        }
        Ok(done)
    }
}

/// Up to the first word of zero, which is a block's end.
fn used_bytes(block: &[u8]) -> usize {
    let words = block[BLOCK_HEADER..].chunks_exact(8);
    let used = words.take_while(|word| **word != [0; 8]).count();
    BLOCK_HEADER + 8 * used
}

impl Source {
    /// None while its process has not written the header yet.
    fn open(path: &Path, name: &str, spool_path: PathBuf) -> Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < HEADER as u64 {
            return Ok(None);
        }
        // SAFETY: the mapping is shared with the recorded program; what both change is read through atomics.
        let map = unsafe { MmapMut::map_mut(&file) }?;
        if &map[..8] != b"FHRAWREC" {
            return Ok(None);
        }
        fence(Ordering::Acquire);
        let version = u32::from_le_bytes([map[8], map[9], map[10], map[11]]);
        ensure!(
            version == VERSION,
            "the recorder writes version {version}; this command reads version {VERSION}"
        );
        let mut source = Self {
            name: name.to_string(),
            blocks: 0,
            first_block: 0,
            map,
            file,
            spool: File::create(&spool_path)?,
            spool_path,
            spooled: 0,
            asked: None,
            resident: None,
        };
        source.blocks = source.word(16).load(Ordering::Relaxed) as usize;
        source.first_block = HEADER + (source.blocks * 4).next_multiple_of(4096);
        // The program may write anything over its own file.
        let whole = source
            .blocks
            .checked_mul(BLOCK)
            .and_then(|bytes| bytes.checked_add(source.first_block));
        let word = |at| source.word(at).load(Ordering::Relaxed);
        let (pid, base) = (word(PROCESS), word(BASE_RESIDENT));
        source.resident = Watch::begin(pid, path, base, word(BEGIN_NS));
        Ok((whole == Some(source.map.len())).then_some(source))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= HEADER && offset % 8 == 0);
        // SAFETY: inside the mapping, which is page aligned, and only ever used as an atomic.
        unsafe { &*self.map.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    fn state(&self, index: usize) -> &AtomicU32 {
        debug_assert!(index < self.blocks);
        // SAFETY: as above; the states follow the header.
        unsafe {
            &*self
                .map
                .as_ptr()
                .add(HEADER + index * 4)
                .cast::<AtomicU32>()
        }
    }

    fn fetch(&mut self, states: &[u32]) -> Result<bool> {
        let mut any = false;
        for index in 0..self.blocks {
            let state = self.state(index).load(Ordering::Acquire);
            if !states.contains(&state) {
                continue;
            }
            let at = self.first_block + index * BLOCK;
            // A thread that ends leaves a block that is nearly empty. The rest of it is a hole in the file.
            let used = used_bytes(&self.map[at..at + BLOCK]);
            let place = self.spooled * BLOCK as u64;
            self.spool.write_all_at(&self.map[at..at + used], place)?;
            self.spooled += 1;
            any = true;
            if state == FULL {
                // Its next owner may die before it has cleared it.
                let first = at + BLOCK_HEADER;
                self.map[first..first + 8].fill(0);
                self.state(index).store(FREE, Ordering::Release);
            }
        }
        Ok(any)
    }

    fn half_word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= HEADER && offset % 4 == 0);
        // SAFETY: inside the mapping, which is page aligned, and only ever used as an atomic.
        unsafe { &*self.map.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// Begins the recording of a program that is ready for it; there is one for each process.
    fn ask(&mut self, when_full: &str) -> Result<()> {
        let how = match when_full {
            "drop" => 0,
            "ring" => 2,
            _ => 1,
        };
        ensure!(
            self.half_word(LATER).load(Ordering::Relaxed) == 1,
            "it is being recorded since it began"
        );
        self.half_word(WHEN_FULL).store(how, Ordering::Relaxed);
        self.word(READER)
            .store(u64::from(std::process::id()), Ordering::Relaxed);
        if let Some(watch) = &mut self.resident {
            watch.restart();
        }
        self.asked = Some(ticks::now());
        let asked = self.half_word(ASKED);
        let first = asked.compare_exchange(0, 1, Ordering::Release, Ordering::Relaxed);
        ensure!(
            first.is_ok(),
            "it was recorded already, which is possible once for each process"
        );
        Ok(())
    }

    /// The memory of what was fetched, of a program that goes on.
    fn release(&self) -> Result<()> {
        for index in (0..self.blocks).filter(|at| self.state(*at).load(Ordering::Acquire) == FREE) {
            let at = (self.first_block + index * BLOCK) as u64;
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.file, how, at, BLOCK as u64)?;
        }
        Ok(())
    }

    /// From now on none of its threads waits for room.
    fn close(&self) {
        if self.asked.is_some() {
            self.half_word(ASKED).store(2, Ordering::Release);
        }
        self.half_word(CLOSED).store(1, Ordering::Release);
    }

    /// None if the process never recorded anything.
    fn process(self, directory: &std::sync::Arc<TempDir>) -> Option<Process> {
        let begin_ticks = self.word(40).load(Ordering::Relaxed);
        let begin_ns = self.word(BEGIN_NS).load(Ordering::Relaxed);
        let (ticks, ns) = (ticks::now(), ticks::monotonic_ns());
        let passed = ns.saturating_sub(begin_ns).max(1) as f64;
        (self.spooled > 0).then(|| Process {
            blocks: self.spooled,
            lost: self.word(56).load(Ordering::Relaxed),
            waits: self.word(64).load(Ordering::Relaxed),
            begin_ticks: self.asked.unwrap_or(begin_ticks),
            ticks_per_ns: (ticks.saturating_sub(begin_ticks).max(1)) as f64 / passed,
            name: self.name,
            resident: self.resident,
            spool: self.spool_path,
            _directory: std::sync::Arc::clone(directory),
        })
    }
}
