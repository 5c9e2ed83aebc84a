//! What a profile file that is sound says when it is read, saved and read again.

use profile_file::testing::{ProfileBuilder, reading};
use profile_file::{Amount, Concern, ReadError, Snapshot, Target, View, saved};

const MS: u64 = 1_000_000;

/// Two sites that share a caller: one holds ten blocks, one frees all but one at once.
fn two_sites(interval: u64) -> ProfileBuilder {
    let mut profile = ProfileBuilder::new(interval);
    profile.module("/usr/bin/made-up", 0x40_0000, 0x50_0000);
    let keeper = profile.site(&[0x40_1000, 0x40_9000]);
    let churner = profile.site(&[0x40_2000, 0x40_9000]);
    for number in 0..10 {
        profile.allocate(keeper, 4096, number * MS);
        let block = profile.allocate(churner, 64, number * MS);
        if number != 9 {
            profile.free(block, 50_000);
        }
    }
    profile
}

#[test]
fn exact_sums_when_everything_is_sampled() {
    let snapshot = two_sites(1).snapshot();
    assert_eq!(snapshot.warnings, []);
    assert!(snapshot.is_exact());
    let [keeper, churner] = &snapshot.sites[..] else {
        panic!("{}", snapshot.sites.len())
    };
    assert_eq!(
        (keeper.live.bytes, keeper.live.blocks, keeper.live.error()),
        (40960.0, 10.0, 0.0)
    );
    assert_eq!((churner.live.bytes, churner.allocated.bytes), (64.0, 640.0));
    assert_eq!(
        (churner.short_lived.bytes, churner.short_lived.blocks),
        (576.0, 9.0)
    );
    assert_eq!(keeper.short_lived.bytes, 0.0);
    assert_eq!(snapshot.total(View::Live).bytes, 41024.0);
    assert_eq!(snapshot.total(View::Peak).bytes, 41024.0);
    assert_eq!(
        snapshot.stack(keeper.node).addresses,
        [0x40_1000, 0x40_9000]
    );
    assert!(!snapshot.stack(keeper.node).cut);
}

#[test]
fn sampled_sums_have_error_bars() {
    let snapshot = two_sites(512 << 10).snapshot();
    assert_eq!(snapshot.warnings, []);
    let keeper = &snapshot.sites[0];
    let one = Amount::of_sample(4096, 512 << 10);
    assert!((keeper.live.bytes / (10.0 * one.bytes) - 1.0).abs() < 1e-4);
    assert!((keeper.live.error() / (10f64.sqrt() * one.error()) - 1.0).abs() < 1e-3);
}

#[test]
fn the_peak_is_what_each_site_held_then() {
    let mut profile = ProfileBuilder::new(1);
    let first = profile.site(&[0x1000]);
    let second = profile.site(&[0x2000]);
    let a = profile.allocate(first, 1000, MS);
    let b = profile.allocate(second, 500, 2 * MS);
    profile.free(a, 3 * MS);
    profile.allocate(second, 300, 5 * MS);
    profile.free(b, 6 * MS);
    let snapshot = profile.snapshot();
    assert_eq!(snapshot.warnings, []);
    assert_eq!(snapshot.total(View::Peak).bytes, 1500.0);
    assert_eq!(snapshot.sites[0].peak.bytes, 1000.0);
    assert_eq!(snapshot.sites[1].peak.bytes, 500.0);
    assert_eq!(snapshot.total(View::Live).bytes, 300.0);
}

#[test]
fn a_saved_snapshot_says_the_same_and_needs_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("then.fhs");
    let mut before = two_sites(4096).snapshot();
    before.save(&file).unwrap();
    let target = Target::find(file.to_str().unwrap()).unwrap();
    assert_eq!(target, Target::Saved { file: file.clone() });
    let after = target.read().unwrap();
    assert_eq!(after.profile.to_bytes(), before.profile.to_bytes());
    assert_eq!(after.symbols, before.symbols);
    assert_eq!(after.warnings, before.warnings);
    assert_eq!(after.reading, before.reading);
    assert!(after.symbols.unwrap().frames.contains_key(&0x40_1000));
}

#[test]
fn a_saved_snapshot_that_was_hurt_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("then.fhs");
    two_sites(4096).snapshot().save(&file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let text = saved::load(&file).err().unwrap().to_string();
    assert!(text.contains("is damaged"), "{text}");
    let mut newer = whole.clone();
    newer[8] = 9;
    std::fs::write(&file, &newer).unwrap();
    let text = saved::load(&file).err().unwrap().to_string();
    assert!(text.contains("newer freehold"), "{text}");
    let mut changed = whole;
    let place = changed.len() / 2;
    changed[place] ^= 0x10;
    std::fs::write(&file, &changed).unwrap();
    assert!(saved::load(&file).is_err());
}

#[test]
fn a_page_of_the_first_layout_is_read_without_the_checks_that_it_lacks() {
    let mut profile = ProfileBuilder::new(4096);
    let site = profile.site(&[0x40_1000]);
    profile.module("/usr/lib/libgone.so", 0x7e00_0000_0000, 0x7e00_0008_0000);
    profile.allocate(site, 100, 1_000_000);
    let freed = profile.allocate(site, 200, 2_000_000);
    profile.free(freed, 5_000);
    profile.point(3_000_000, 1 << 20, 1 << 19);
    let gone = profile_file::testing::BEGUN_NS + 4_000_000;
    profile.change(|profile| {
        profile.header.layout = 1;
        profile.header.metadata_bytes = 204_800;
        profile.control.mark = 3;
        profile.modules[0].unloaded_ns = gone;
    });
    let snapshot = profile.snapshot();
    assert_eq!(snapshot.warnings, []);
    assert_eq!(snapshot.modules[0].unloaded_ns, Some(gone));
    assert_eq!((snapshot.samples.len(), snapshot.samples[0].size), (1, 100));
    assert_eq!(snapshot.profile.traces.len(), 1);
}

#[test]
fn what_is_no_page_is_refused_by_name() {
    let read = |bytes: &Vec<u8>| Snapshot::read(bytes, reading()).err();
    assert!(matches!(
        read(&vec![0; 100]),
        Some(ReadError::TooShort(100))
    ));
    assert!(matches!(
        read(&vec![7; 10_000]),
        Some(ReadError::NotAProfile(_))
    ));
    assert!(matches!(read(&vec![0; 10_000]), Some(ReadError::NotReady)));
    let mut other = two_sites(1);
    other.change(|profile| profile.header.layout = 3);
    assert!(matches!(
        read(&other.bytes()),
        Some(ReadError::OtherLayout(3))
    ));
}

#[test]
fn what_the_library_had_to_leave_out_is_said() {
    let mut profile = two_sites(1);
    profile.change(|profile| {
        profile.control.taken += 3;
        profile.control.lost_samples = 3;
        profile.header.inherited = 1;
    });
    let snapshot = profile.snapshot();
    assert!(
        snapshot
            .warnings
            .iter()
            .all(|warning| warning.concern == Concern::Incomplete)
    );
    let text: Vec<String> = snapshot.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    3 of 23 samples were not entered for want of room: all sums are short by them, and their error bars wide
    the program was forked from an observed one: blocks of before the fork are not in the profile
    ");
}

#[test]
fn nothing_sampled_has_a_reason() {
    let mut profile = ProfileBuilder::new(0);
    assert!(
        profile
            .snapshot()
            .why_empty()
            .unwrap()
            .contains("switched off")
    );
    profile.change(|profile| profile.control.interval = 512 << 10);
    assert!(
        profile
            .snapshot()
            .why_empty()
            .unwrap()
            .contains("allocated little")
    );
}

#[test]
fn a_resized_sample_keeps_the_chance_it_was_drawn_with() {
    let mut profile = ProfileBuilder::new(4096);
    let site = profile.site(&[0x1000]);
    profile.allocate(site, 1000, MS);
    profile.change(|profile| profile.samples[0].size = 3000);
    let weight = profile.snapshot().samples[0].weight;
    let drawn = Amount::of_sample(1000, 4096);
    assert!((weight.bytes / (3.0 * drawn.bytes) - 1.0).abs() < 1e-9);
    assert_eq!(weight.blocks, drawn.blocks);
}

#[test]
fn a_verdict_counts_only_if_it_is_the_last_scans_and_of_this_block() {
    let mut profile = ProfileBuilder::new(1);
    let site = profile.site(&[0x1000]);
    for number in 0..4 {
        profile.allocate(site, 1000, number * 100 * MS);
    }
    profile.change(|profile| {
        profile.scan.number = 3;
        profile.scan.state = profile_file::layout::SCAN_DONE;
        profile.scan.begun_ns = profile_file::testing::BEGUN_NS + 250 * MS;
        profile.samples[0].reached = 7;
        profile.samples[1].reached = 6;
        profile.samples[2].reached = 5;
        profile.samples[3].reached = 7;
    });
    let verdicts: Vec<_> = profile
        .snapshot()
        .samples
        .iter()
        .map(|sample| sample.reachable)
        .collect();
    assert_eq!(verdicts, [Some(true), Some(false), None, None]);
}

#[test]
fn of_a_program_that_runs_only_what_matters_is_said() {
    let read = |profile: &ProfileBuilder, alive: bool| {
        Snapshot::read(
            &profile.bytes(),
            profile_file::Reading { alive, ..reading() },
        )
        .unwrap()
        .warnings
    };
    // One sample in three hundred that its site has not counted yet.
    let mut profile = ProfileBuilder::new(4096);
    let site = profile.site(&[0x1000]);
    for number in 0..300 {
        profile.allocate(site, 4096, number * MS);
    }
    let lacking = profile.snapshot().sites[0].allocated;
    profile.change(|profile| {
        let one = &mut profile.sites[1];
        one.allocated_samples -= 1;
        one.allocated_bytes -= one.allocated_bytes / 300;
        one.allocated_blocks -= one.allocated_blocks / 300;
        one.allocated_variance -= one.allocated_variance / 300;
    });
    assert!(lacking.samples == 300);
    assert_eq!(read(&profile, true), []);
    let dead = read(&profile, false);
    assert!(
        !dead.is_empty()
            && dead
                .iter()
                .all(|warning| warning.concern == Concern::Disagrees)
    );
    // A tenth of them.
    profile.change(|profile| profile.samples.truncate(270));
    let moving = read(&profile, true);
    assert!(
        !moving.is_empty()
            && moving
                .iter()
                .all(|warning| warning.concern == Concern::Moving)
    );
}

#[test]
fn a_module_that_cannot_be_read_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let module = directory.path().join("broken.so");
    std::fs::write(&module, b"\x7fELF and then nothing that could be one").unwrap();
    let mut profile = ProfileBuilder::new(1);
    profile.module(module.to_str().unwrap(), 0x40_0000, 0x50_0000);
    let site = profile.site(&[0x40_1000]);
    profile.allocate(site, 1000, MS);
    let mut symbols = profile_file::Symbols::new(&profile.snapshot());
    assert!(!symbols.frames(0x40_1000)[0].named);
    let said = symbols.warnings().join("\n");
    assert!(
        said.contains("broken.so could not be read, so some names are missing: "),
        "{said}"
    );
}
