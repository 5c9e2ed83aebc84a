//! The page as it lies in the file: `src/observe/profile.h`, field by field. `tests/layout.rs` has a C compiler print the
//! offsets of that header and compares them with these, so the two cannot drift apart.
//!
//! Nothing here judges what it reads: that is the business of [`crate::snapshot`].

use bytemuck::{Pod, Zeroable};

/// The words are little-endian, and are read as they lie.
#[cfg(target_endian = "big")]
compile_error!(
    "the page is little-endian: on a big-endian machine each field would have to be turned round"
);

/// "FREEHOLD", as a number.
pub const MAGIC: u64 = 0x444C_4F48_4545_5246;
/// The one layout that this crate reads.
pub const LAYOUT: u32 = 1;
/// Extents that a section may have.
pub const EXTENTS: usize = 24;
/// Rows of the figures.
pub const CLASSES: usize = 160;
/// Where the control words begin.
pub const CONTROL_OFFSET: u64 = 4096;
/// A block counts as so many in the sites' sums.
pub const BLOCK_UNIT: f64 = 256.0;
/// Variances are in units of two to the power of this, bytes squared.
pub const VARIANCE_SHIFT: u32 = 16;
/// Buckets of the ages at which blocks were freed.
pub const AGES: usize = 16;

/// What a section holds; the numbers are places in [`Header::section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum SectionKind {
    /// One [`Figures`].
    Figures = 0,
    /// A ring of [`Moment`]s.
    Timeline = 1,
    /// [`Module`]s.
    Modules = 2,
    /// [`Node`]s; entry 0 is the root of all stacks.
    Nodes = 3,
    /// [`Site`]s; entry 0 is not used.
    Sites = 4,
    /// [`Sample`]s; a slot may be empty.
    Samples = 5,
}

impl SectionKind {
    /// All of them, in their order in the header.
    pub const ALL: [SectionKind; SECTIONS] = [
        SectionKind::Figures,
        SectionKind::Timeline,
        SectionKind::Modules,
        SectionKind::Nodes,
        SectionKind::Sites,
        SectionKind::Samples,
    ];

    /// How messages call it.
    pub fn name(self) -> &'static str {
        [
            "figures", "timeline", "modules", "nodes", "sites", "samples",
        ][self as usize]
    }

    /// The size that an entry of it has in [`LAYOUT`].
    pub fn entry_bytes(self) -> usize {
        match self {
            SectionKind::Figures => size_of::<Figures>(),
            SectionKind::Timeline => size_of::<Moment>(),
            SectionKind::Modules => size_of::<Module>(),
            SectionKind::Nodes => size_of::<Node>(),
            SectionKind::Sites => size_of::<Site>(),
            SectionKind::Samples => size_of::<Sample>(),
        }
    }
}

/// How many sections there are.
pub const SECTIONS: usize = 6;

/// `fh_profile_section`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Section {
    pub entry_bytes: u32,
    pub first: u32,
    pub used: u64,
    pub dropped: u64,
    pub extent: [u64; EXTENTS],
}

/// `fh_profile_state`: the page is being made.
pub const STATE_BEGUN: u64 = 0;
/// `fh_profile_state`: the program runs, or was killed.
pub const STATE_LIVE: u64 = 1;
/// `fh_profile_state`: the program ended by itself.
pub const STATE_ENDED: u64 = 2;

/// `fh_profile_header`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Header {
    pub magic: u64,
    pub layout: u32,
    pub header_bytes: u32,
    pub state: u64,
    pub pid: u64,
    pub parent_pid: u64,
    pub begun_unix_ns: u64,
    pub begun_ns: u64,
    pub process_start: u64,
    pub window_begin: u64,
    pub window_bytes: u64,
    pub metadata_bytes: u64,
    pub inherited: u64,
    pub reserved: [u64; 7],
    pub file_bytes: u64,
    pub page_size: u32,
    pub processors: u32,
    pub version: [u8; 32],
    pub program: [u8; 512],
    pub options: [u8; 512],
    pub section: [Section; SECTIONS],
}

/// `fh_profile_control`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Control {
    pub wanted_interval: u64,
    pub mark: u64,
    pub refresh: u64,
    pub record: u64,
    pub scan: u64,
    pub reserved: [u64; 11],
    pub interval: u64,
    pub refreshed: u64,
    pub taken: u64,
    pub lost_samples: u64,
    pub lost_stacks: u64,
    pub short_stacks: u64,
    pub unknown_frees: u64,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub peak_number: u64,
    pub peak_ns: u64,
}

/// Where the answer to a scan lies.
pub const SCAN_OFFSET: u64 = CONTROL_OFFSET + 1024;

/// `fh_profile_scan_state`: none was asked for.
pub const SCAN_NONE: u64 = 0;
/// `fh_profile_scan_state`: one is being made.
pub const SCAN_RUNNING: u64 = 1;
/// `fh_profile_scan_state`: the answer is there.
pub const SCAN_DONE: u64 = 2;
/// `fh_profile_scan_state`: there is none, and [`Scan::error`] says why.
pub const SCAN_FAILED: u64 = 3;

/// `fh_profile_scan`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Scan {
    pub number: u64,
    pub state: u64,
    pub begun_ns: u64,
    pub fork_ns: u64,
    pub scan_ns: u64,
    pub pid: u64,
    pub error: u64,
    pub root_bytes: u64,
    pub block_bytes: u64,
    pub skipped_bytes: u64,
    pub reachable_blocks: u64,
    pub reachable_bytes: u64,
    pub unreachable_blocks: u64,
    pub unreachable_bytes: u64,
    pub huge_reachable: u64,
    pub huge_unreachable: u64,
    pub samples_reachable: u64,
    pub samples_unreachable: u64,
    pub reserved: [u64; 14],
    pub row: [ScanRow; CLASSES],
}

/// A size class in a [`Scan`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct ScanRow {
    pub reachable: u64,
    pub unreachable: u64,
}

/// `fh_profile_row`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Row {
    pub size: u64,
    pub slabs: u64,
    pub slots: u64,
    pub room: u64,
    pub made: u64,
    pub free: u64,
    pub cached: u64,
    pub live: u64,
    pub sampled: u64,
    pub occupancy: [u64; 4],
    pub reserved: [u64; 3],
}

/// `fh_profile_figures`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Figures {
    pub sequence: u64,
    pub taken_ns: u64,
    pub cost_ns: u64,
    pub rows: u64,
    pub live_bytes: u64,
    pub live_blocks: u64,
    pub cached_bytes: u64,
    pub thread_cached_bytes: u64,
    pub free_bytes: u64,
    pub fresh_bytes: u64,
    pub purged_in_slabs_bytes: u64,
    pub dirty_bytes: u64,
    pub purged_bytes: u64,
    pub huge_bytes: u64,
    pub huge_blocks: u64,
    pub huge_cached_bytes: u64,
    pub metadata_bytes: u64,
    pub observer_bytes: u64,
    pub mapped_bytes: u64,
    pub chunks: u64,
    pub free_chunks: u64,
    pub huge_page_chunks: u64,
    pub threads: u64,
    pub limit_soft: u64,
    pub limit_hard: u64,
    pub limit_in_use: u64,
    pub limit_refusals: u64,
    pub group_limit: u64,
    pub group_used: u64,
    pub resident_bytes: u64,
    pub refills: u64,
    pub flushes: u64,
    pub from_depot: u64,
    pub to_depot: u64,
    pub purge_calls: u64,
    pub purged_total_bytes: u64,
    pub system_maps: u64,
    pub system_unmaps: u64,
    pub purge_mode: u64,
    pub thp_mode: u64,
    pub reserved: [u64; 16],
    pub row: [Row; CLASSES],
}

/// `fh_profile_moment`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Moment {
    pub ns: u64,
    pub resident_bytes: u64,
    pub live_bytes: u64,
    pub cached_bytes: u64,
    pub free_bytes: u64,
    pub dirty_bytes: u64,
    pub huge_bytes: u64,
    pub taken: u64,
}

/// `fh_profile_module`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Module {
    pub begin: u64,
    pub end: u64,
    pub bias: u64,
    pub unloaded_ns: u64,
    pub build_id_bytes: u32,
    pub build_id: [u8; 36],
    pub path: [u8; 952],
}

/// `fh_profile_node`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Node {
    pub address: u64,
    pub parent: u32,
    pub flags: u32,
}

/// [`Node::flags`]: the walk ended here, and not at the thread's beginning.
pub const NODE_SHORT: u32 = 1;

/// `fh_profile_site`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Site {
    pub node: u32,
    pub flags: u32,
    pub allocated_samples: u64,
    pub allocated_bytes: u64,
    pub allocated_blocks: u64,
    pub allocated_variance: u64,
    pub freed_samples: u64,
    pub freed_bytes: u64,
    pub freed_blocks: u64,
    pub freed_variance: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub peak_of: u64,
    pub peak_bytes: u64,
    pub peak_blocks: u64,
    pub freed_at_age: [u64; AGES],
    pub reserved: [u64; 6],
}

/// `fh_profile_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub struct Sample {
    pub address: u64,
    pub size: u64,
    pub interval: u64,
    pub born_ns: u64,
    pub site: u32,
    pub thread: u32,
    pub mark: u64,
    pub drawn: u64,
    pub reached: u64,
}

/// [`Sample::address`]: the slot is empty.
pub const SAMPLE_EMPTY: u64 = 0;
/// [`Sample::address`]: the slot is being written.
pub const SAMPLE_BEGUN: u64 = 1;

/// The text in a field that is filled up with zeros.
pub fn text(field: &[u8]) -> String {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
