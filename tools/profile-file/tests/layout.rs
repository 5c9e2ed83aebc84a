//! The Rust mirror of the page against the C header itself: a program that prints every size and offset.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use profile_file::layout::*;

/// The fields of each type, once: for the C program and for the comparison.
macro_rules! fields {
    ($($rust:ident = $c:literal { $($field:ident),* $(,)? })*) => {
        fn expected() -> BTreeMap<String, u64> {
            let mut all = BTreeMap::new();
            $(
                all.insert(format!("sizeof {}", $c), size_of::<$rust>() as u64);
                $(all.insert(
                    format!("{}.{}", $c, stringify!($field)),
                    offset_of!($rust, $field) as u64,
                );)*
            )*
            all
        }

        fn questions() -> String {
            let mut text = String::new();
            $(
                text += &format!("printf(\"sizeof %s=%zu\\n\", \"{0}\", sizeof({0}));\n", $c);
                $(text += &format!(
                    "printf(\"%s=%zu\\n\", \"{0}.{1}\", offsetof({0}, {1}));\n",
                    $c,
                    stringify!($field),
                );)*
            )*
            text
        }
    };
}

fields! {
    Section = "fh_profile_section" { entry_bytes, first, used, dropped, extent }
    Header = "fh_profile_header" {
        magic, layout, header_bytes, state, pid, parent_pid, begun_unix_ns, begun_ns, process_start, window_begin,
        window_bytes, metadata_bytes, inherited, reserved, file_bytes, page_size, processors, version, program, options,
        section,
    }
    Control = "fh_profile_control" {
        wanted_interval, mark, refresh, record, scan, reserved, interval, refreshed, taken, lost_samples, lost_stacks,
        short_stacks, unknown_frees, live_bytes, peak_bytes, peak_number, peak_ns,
    }
    Scan = "fh_profile_scan" {
        number, state, begun_ns, fork_ns, scan_ns, pid, error, root_bytes, block_bytes, skipped_bytes, reachable_blocks,
        reachable_bytes, unreachable_blocks, unreachable_bytes, huge_reachable, huge_unreachable, samples_reachable,
        samples_unreachable, reserved, row,
    }
    Row = "fh_profile_row" {
        size, slabs, slots, room, made, free, cached, live, sampled, occupancy, reserved,
    }
    Figures = "fh_profile_figures" {
        sequence, taken_ns, cost_ns, rows, live_bytes, live_blocks, cached_bytes, thread_cached_bytes, free_bytes,
        fresh_bytes, purged_in_slabs_bytes, dirty_bytes, purged_bytes, huge_bytes, huge_blocks, huge_cached_bytes,
        metadata_bytes, observer_bytes, mapped_bytes, chunks, free_chunks, huge_page_chunks, threads, limit_soft,
        limit_hard, limit_in_use, limit_refusals, group_limit, group_used, resident_bytes, refills, flushes, from_depot,
        to_depot, purge_calls, purged_total_bytes, system_maps, system_unmaps, purge_mode, thp_mode, reserved, row,
    }
    Moment = "fh_profile_moment" {
        ns, resident_bytes, live_bytes, cached_bytes, free_bytes, dirty_bytes, huge_bytes, taken,
    }
    Module = "fh_profile_module" { begin, end, bias, unloaded_ns, build_id_bytes, build_id, path }
    Node = "fh_profile_node" { address, parent, flags }
    Site = "fh_profile_site" {
        node, flags, allocated_samples, allocated_bytes, allocated_blocks, allocated_variance, freed_samples,
        freed_bytes, freed_blocks, freed_variance, first_ns, last_ns, peak_of, peak_bytes, peak_blocks, freed_at_age,
        reserved,
    }
    Sample = "fh_profile_sample" { address, size, interval, born_ns, site, thread, mark, drawn, reached }
}

/// Constants and the numbers of sections and states.
fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("FH_PROFILE_MAGIC", MAGIC),
        ("FH_PROFILE_LAYOUT", u64::from(LAYOUT)),
        ("FH_PROFILE_EXTENTS", EXTENTS as u64),
        ("FH_PROFILE_CLASSES", CLASSES as u64),
        ("FH_PROFILE_CONTROL_OFFSET", CONTROL_OFFSET),
        ("FH_PROFILE_BLOCK_UNIT", BLOCK_UNIT as u64),
        ("FH_PROFILE_VARIANCE_SHIFT", u64::from(VARIANCE_SHIFT)),
        ("FH_PROFILE_AGES", AGES as u64),
        ("FH_PROFILE_FIGURES", SectionKind::Figures as u64),
        ("FH_PROFILE_TIMELINE", SectionKind::Timeline as u64),
        ("FH_PROFILE_MODULES", SectionKind::Modules as u64),
        ("FH_PROFILE_NODES", SectionKind::Nodes as u64),
        ("FH_PROFILE_SITES", SectionKind::Sites as u64),
        ("FH_PROFILE_SAMPLES", SectionKind::Samples as u64),
        ("FH_PROFILE_SECTIONS", SECTIONS as u64),
        ("FH_PROFILE_SCAN_OFFSET", SCAN_OFFSET),
        ("FH_PROFILE_SCAN_NONE", SCAN_NONE),
        ("FH_PROFILE_SCAN_RUNNING", SCAN_RUNNING),
        ("FH_PROFILE_SCAN_DONE", SCAN_DONE),
        ("FH_PROFILE_SCAN_FAILED", SCAN_FAILED),
        ("FH_PROFILE_BEGUN", STATE_BEGUN),
        ("FH_PROFILE_LIVE", STATE_LIVE),
        ("FH_PROFILE_ENDED", STATE_ENDED),
    ]
}

#[test]
fn the_layout_is_the_headers() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    let program = folder.path().join("layout");
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"observe/profile.h\"\nint main(void) {\n",
    );
    text += &questions();
    let mut wanted = expected();
    for (name, value) in constants() {
        text += &format!("printf(\"%s=%llu\\n\", \"{name}\", (unsigned long long){name});\n");
        wanted.insert(name.to_owned(), value);
    }
    text += "return 0;\n}\n";
    std::fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-I"])
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("a C compiler, which building Freehold needs too");
    assert!(compiled.success());
    let output = Command::new(&program).output().unwrap();
    let said: BTreeMap<String, u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect();
    assert!(said.len() > 150, "{}", said.len());
    assert_eq!(said, wanted);
}
