//! The machine: what of its settings matters to any program under Freehold, and what one would change.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::report::{Finding, Report};
use super::{allocators, observing};
use crate::amounts;

/// The kernel's own setting, which the library counts on.
const USUAL_MAPPINGS: u64 = 65_530;

/// Which programs the library for a whole system is for.
const GLOBAL_LIST: &str = "etc/freehold/global.conf";

/// Adds what the settings below `root`, which is `/` except in a test, mean.
pub fn examine(report: &mut Report, root: &Path) {
    let read = |path: &str| {
        fs::read_to_string(root.join(path))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if let Some(text) = read("etc/ld.so.preload") {
        for word in text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .flat_map(str::split_whitespace)
        {
            report.add(preloaded(word, read(GLOBAL_LIST).as_deref()));
        }
    }
    if let Some(text) = read("sys/kernel/mm/transparent_hugepage/enabled") {
        report.add(huge_pages(&text));
    }
    if let Some(text) = read("proc/sys/vm/overcommit_memory") {
        report.add(overcommit(&text));
    }
    if let Some(number) = read("proc/sys/vm/max_map_count").and_then(|text| text.parse().ok()) {
        report.add(mappings(number));
    }
    let group = read("proc/self/cgroup").and_then(|groups| group_limit(&groups, read));
    report.add(control_group(group));
    if let Some(text) = read("proc/sys/kernel/yama/ptrace_scope") {
        report.add(ptrace_scope(&text));
    }
}

/// What is asked of the kernel and not read from a file.
pub fn examine_process(report: &mut Report) {
    report.add(observing::of_place().unwrap_or_else(|| {
        Finding::ok(
            "observe",
            "there is room for the profile files of observed programs",
        )
    }));
    for finding in limits(
        getrlimit(Resource::As).current,
        getrlimit(Resource::Data).current,
    ) {
        report.add(finding);
    }
}

/// The limits of a shell that count what the heap maps.
fn limits(space: Option<u64>, data: Option<u64>) -> Vec<Finding> {
    [("address space is", 'v', space), ("data are", 'd', data)]
        .into_iter()
        .filter_map(|(what, letter, bytes)| {
            let text = format!(
                "{what} limited to {} (ulimit -{letter})",
                amounts::bytes(bytes?)
            );
            Some(
                Finding::note("limits", text)
                    .advise("a limit on memory itself is the option limit, or a control group"),
            )
        })
        .collect()
}

fn preloaded(word: &str, list: Option<&str>) -> Finding {
    let name = Path::new(word)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name.starts_with("libfreehold.so") {
        return Finding::ok(
            "preload",
            format!("/etc/ld.so.preload names {word}: every program here runs under Freehold"),
        );
    }
    if name.starts_with("libfreehold-global.so") {
        return Finding::ok(
            "preload",
            format!("freehold-global is on ({word}): {}", who(list)),
        )
        .advise(
            "freehold-global disable switches it off, freehold-global deny PROGRAM for one program",
        );
    }
    let what = allocators::by_file_name(&name).unwrap_or("another library");
    Finding::note(
        "preload",
        format!("/etc/ld.so.preload names {what} ({word}), which every program gets"),
    )
}

/// Whom the lines of the list let in: a program that is denied never, and with an allowed one no other.
fn who(list: Option<&str>) -> String {
    let named = |word: &str| -> Vec<&str> {
        list.unwrap_or_default()
            .lines()
            .filter_map(|line| line.trim().strip_prefix(word)?.strip_prefix([' ', '\t']))
            .map(str::trim)
            .collect()
    };
    let allowed = named("allow");
    let denied = named("deny");
    let mut text = match allowed.as_slice() {
        [] => "every program here runs under Freehold".to_owned(),
        some => format!("these programs run under Freehold: {}", some.join(", ")),
    };
    if !denied.is_empty() {
        text += &format!("; not {}", denied.join(", "));
    }
    text
}

fn huge_pages(text: &str) -> Finding {
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("unknown", |(word, _)| word);
    match chosen {
        "always" => Finding::note(
            "thp",
            "the kernel gives huge pages unasked: a little-used heap may take more memory",
        )
        .advise("FREEHOLD=thp=never for one program, or madvise in /sys/kernel/mm/transparent_hugepage/enabled"),
        "never" => Finding::note("thp", "huge pages are off: the option thp has no effect"),
        other => Finding::ok("thp", format!("huge pages where they are asked for ({other})")),
    }
}

fn overcommit(text: &str) -> Finding {
    match text {
        "2" => Finding::note(
            "overcommit",
            "strict overcommit: memory counts when it is reserved, and malloc may return NULL early",
        )
        .advise("sysctl vm.overcommit_memory=0, if programs end for want of memory that is free"),
        mode => Finding::ok("overcommit", format!("overcommit is usual (mode {mode})")),
    }
}

fn mappings(number: u64) -> Finding {
    if number < USUAL_MAPPINGS {
        return Finding::note(
            "mappings",
            format!("a process may have only {number} mappings"),
        )
        .advise(format!("sysctl vm.max_map_count={USUAL_MAPPINGS}"));
    }
    Finding::ok("mappings", format!("a process may have {number} mappings"))
}

/// The least limit of the shell's control group and those above it, of either version, as the library reads them. `groups` is
/// the kernel's list.
fn group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let fields = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1).map(str::to_owned);
        Some((parts.next()?, parts.next()?))
    };
    let lines: Vec<(String, String)> = groups.lines().filter_map(fields).collect();
    let first = lines
        .iter()
        .find(|(names, _)| names.split(',').any(|name| name == "memory"));
    let (root, files, path): (_, &[&str], _) = match first {
        Some((_, path)) => ("sys/fs/cgroup/memory", &["memory.limit_in_bytes"], path),
        None => (
            "sys/fs/cgroup",
            &["memory.max", "memory.high"],
            &lines.iter().find(|(names, _)| names.is_empty())?.1,
        ),
    };
    Path::new(path.trim_start_matches('/'))
        .ancestors()
        .flat_map(|group| files.iter().map(move |file| group.join(file)))
        .filter_map(|file| read(&format!("{root}/{}", file.display()))?.parse().ok())
        // Version 1 writes the largest multiple of a page where there is none.
        .filter(|&bytes: &u64| bytes < 1 << 60)
        .min()
}

fn control_group(limit: Option<u64>) -> Finding {
    let text = match limit {
        Some(bytes) => format!(
            "the control group limits memory to {}, which Freehold takes into account",
            amounts::bytes(bytes)
        ),
        None => "no control group limits the memory of this shell".to_owned(),
    };
    Finding::ok("group", text)
}

fn ptrace_scope(text: &str) -> Finding {
    match text {
        "0" => Finding::ok("ptrace", "your own processes may be looked at"),
        scope => Finding::note(
            "ptrace",
            format!("ptrace scope {scope}: debuggers may not attach to a process that they have not started"),
        )
        .advise("observed programs show themselves in their profile file, which needs no ptrace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;

    /// A machine that has these files and no others.
    fn machine(files: &[(&str, &str)]) -> Report {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let mut report = Report::for_machine();
        examine(&mut report, root.path());
        report
    }

    #[test]
    fn a_usual_machine_has_nothing_to_change() {
        let report = machine(&[
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("proc/sys/vm/overcommit_memory", "0\n"),
            ("proc/sys/vm/max_map_count", "65530\n"),
            ("proc/sys/kernel/yama/ptrace_scope", "0\n"),
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ]);
        assert_eq!(report.findings.len(), 5);
        let odd = report.findings.iter().find(|it| it.level != Level::Ok);
        assert_eq!(odd, None);
    }

    #[test]
    fn each_odd_setting_is_named() {
        let text = machine(&[
            ("etc/ld.so.preload", "# all\n/usr/lib/libjemalloc.so.2\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise never",
            ),
            ("proc/sys/vm/overcommit_memory", "2"),
            ("proc/sys/vm/max_map_count", "1000"),
            ("proc/sys/kernel/yama/ptrace_scope", "1"),
            ("proc/self/cgroup", "0::/pod\n"),
            ("sys/fs/cgroup/pod/memory.max", "1073741824"),
        ])
        .to_text();
        for part in [
            "names jemalloc (/usr/lib/libjemalloc.so.2)",
            "huge pages unasked",
            "strict overcommit",
            "only 1000 mappings",
            "ptrace scope 1",
            "limits memory to 1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_limit_of_any_group_above_counts() {
        let limits = |files: &[(&str, &str)]| {
            let text = machine(files).to_text();
            text.lines()
                .find(|line| line.contains("control group"))
                .unwrap()
                .to_owned()
        };
        let slice = limits(&[
            ("proc/self/cgroup", "0::/user.slice/session\n"),
            ("sys/fs/cgroup/user.slice/session/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/user.slice/memory.high", "3221225472\n"),
        ]);
        assert!(slice.contains("limits memory to 3.0 GiB"), "{slice}");
        let first = limits(&[
            (
                "proc/self/cgroup",
                "5:cpu:/x\n3:memory,hugetlb:/a/b\n0::/x\n",
            ),
            (
                "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "2147483648\n",
            ),
        ]);
        assert!(first.contains("limits memory to 2.0 GiB"), "{first}");
    }

    #[test]
    fn each_limit_of_the_shell_is_named() {
        let names = |space, data| -> Vec<String> {
            limits(space, data).into_iter().map(|it| it.text).collect()
        };
        assert_eq!(names(None, None), [""; 0]);
        assert_eq!(
            names(Some(1 << 32), Some(1 << 29)),
            [
                "address space is limited to 4.0 GiB (ulimit -v)",
                "data are limited to 512.0 MiB (ulimit -d)"
            ]
        );
    }

    #[test]
    fn freehold_for_every_program_is_said() {
        let found = preloaded("/usr/local/lib/libfreehold.so.0", None);
        assert_eq!(found.level, Level::Ok);
        assert!(
            found
                .text
                .contains("every program here runs under Freehold"),
            "{found:?}"
        );
    }

    #[test]
    fn freehold_global_is_said_with_its_list() {
        let said = |list: &str| {
            let text = machine(&[
                ("etc/ld.so.preload", "/usr/lib/libfreehold-global.so\n"),
                (GLOBAL_LIST, list),
            ])
            .to_text();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let all = said("# none\n");
        assert!(all.contains("freehold-global is on"), "{all}");
        assert!(
            all.contains("every program here runs under Freehold"),
            "{all}"
        );
        let some = said("deny gdb\nallow /usr/bin/*\n allow\tredis-server\n");
        let who = "these programs run under Freehold: /usr/bin/*, redis-server; not gdb";
        assert!(some.contains(who), "{some}");
    }
}
