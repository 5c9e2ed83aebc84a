//! What is said when an observed program has ended: three lines, or one of JSON.

use std::path::{Path, PathBuf};

use profile_file::{Clearing, End, Snapshot, Symbols, Target, View};
use serde::Serialize;

use super::child::Outcome;
use super::ending::Ending;
use super::fault::Fault;
use super::share::{Share, Unknown};
use crate::amounts::{bytes, duration};
use crate::explain::counts::without_samples;
use crate::explain::sites;
use crate::leaks::finding::Leaking;
use crate::naming::NamingArgs;
use crate::wording;

/// What is said when nothing is known to be in the way. A program that ends by itself may never have called malloc.
const NO_PROFILE: &str = "it left no profile file: it allocated nothing, or there was no room for one (then it said so; give --keep \
                       another directory), or Freehold was not active, which `freehold doctor` tells";

#[derive(Debug, Serialize)]
pub struct Summary {
    pub command: Vec<String>,
    /// What a person calls it: the script rather than its interpreter.
    pub program: String,
    pub pid: u32,
    #[serde(flatten)]
    pub ending: Ending,
    pub exit_code: u8,
    pub seconds: f64,
    /// Of the CPU time outside of the kernel, what was spent in the allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_share: Option<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_share_unknown: Option<Unknown>,
    /// Freehold was at work in the program.
    pub active: bool,
    /// Why it was not, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Resident memory at the highest, as the kernel says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_resident_bytes: Option<u64>,
    /// Of the observed process that had most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<Heap>,
    /// The guards that processes of it touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    pub processes: usize,
    pub still_running: Vec<u64>,
    /// Other processes of the run that have gone without a last word: by a signal, or by `_exit`.
    pub died: Vec<Died>,
    #[serde(rename = "folder")]
    pub directory: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
    pub next: String,
}

/// The heap of one process, from its profile file.
#[derive(Debug, Serialize)]
pub struct Heap {
    pub pid: u64,
    pub program: String,
    pub peak_bytes: u64,
    pub peak_error_bytes: u64,
    pub live_bytes: u64,
    pub live_error_bytes: u64,
    /// They are by samples. Without any, they are the allocator's own counts, of the moments at which it counted.
    pub sampled: bool,
    /// Why these must not be believed as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// What made names missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lookup: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biggest_site: Option<BiggestSite>,
    /// What `freehold leaks` calls likely leaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaking: Option<Leaking>,
    /// What was freed only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Clearing>,
    #[serde(rename = "page")]
    pub profile: PathBuf,
}

#[derive(Debug, Serialize)]
pub struct BiggestSite {
    pub name: String,
    pub peak_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Died {
    pub pid: u64,
    pub program: String,
}

/// What is known when it has ended, beside its profile files.
pub struct Run<'a> {
    pub command: &'a [String],
    /// What a person calls it.
    pub name: &'a str,
    pub pid: u32,
    pub outcome: &'a Outcome,
    pub seconds: f64,
    /// When it ended, on the clock of profile files.
    pub ended_ns: u64,
    pub share: Result<Share, Unknown>,
    pub directory: &'a Path,
    pub profiles: &'a [PathBuf],
    /// Profile files that were removed, as there were too many.
    pub thinned: usize,
    /// What `doctor` said was in the way.
    pub obstacle: Option<String>,
    /// How call sites are to be named.
    pub naming: NamingArgs,
}

impl Run<'_> {
    /// Reads the profile file of one of its processes. Of the one that was started it is known how and when it ended, also
    /// where no record can be written.
    pub fn read(&self, profile: &Path) -> Option<Snapshot> {
        let target = Target::find(profile.to_str()?).ok()?;
        if target.pid() != Some(u64::from(self.pid)) {
            return target.read().ok();
        }
        let end = End {
            exited: Some(matches!(self.outcome.ending, Ending::Exited { .. })),
            ran_until_ns: Some(self.ended_ns),
        };
        target.read_ended(end).ok()
    }
}

impl Summary {
    pub fn of(run: &Run) -> Self {
        let mut profiles: Vec<(PathBuf, Snapshot)> = run
            .profiles
            .iter()
            .filter_map(|profile| Some((profile.clone(), run.naming.of(run.read(profile)?))))
            .collect();
        let still_running = profiles
            .iter()
            .filter(|(_, s)| s.is_alive())
            .map(|(_, s)| s.pid())
            .collect();
        let main = u64::from(run.pid);
        let died = profiles
            .iter()
            .filter(|(_, s)| s.pid() != main && !s.is_alive() && !s.ended_by_itself())
            .map(|(_, s)| Died {
                pid: s.pid(),
                program: short(&s.program()),
            })
            .collect();
        // A wrapper (a shell, env) is not what one wants to know about: the process with the most memory is.
        profiles.sort_by_key(|(_, s)| std::cmp::Reverse(s.profile.control.peak_bytes));
        let heap = profiles
            .first()
            .map(|(profile, snapshot)| Heap::of(profile, snapshot));
        let active = !profiles.is_empty() || run.thinned > 0;
        let faults = profiles
            .iter()
            .filter(|(_, snapshot)| snapshot.profile.fault.is_some())
            .filter_map(|(_, snapshot)| Fault::of(snapshot, &mut Symbols::new(snapshot)))
            .collect();
        let next = next_command(run, heap.as_ref());
        Self {
            command: run.command.to_vec(),
            program: run.name.to_owned(),
            pid: run.pid,
            ending: run.outcome.ending.clone(),
            exit_code: run.outcome.ending.code(),
            seconds: run.seconds,
            allocator_share: run.share.ok(),
            allocator_share_unknown: run.share.err(),
            active,
            reason: (!active).then(|| {
                run.obstacle
                    .clone()
                    .unwrap_or_else(|| NO_PROFILE.to_owned())
            }),
            peak_resident_bytes: run.outcome.peak_resident.or_else(|| peak_seen(&profiles)),
            heap,
            faults,
            processes: profiles.len() + run.thinned,
            still_running,
            died,
            directory: run.directory.to_owned(),
            saved: None,
            next,
        }
    }

    /// Three lines, and one more for each fault.
    pub fn to_text(&self) -> String {
        let faults: String = self
            .faults
            .iter()
            .map(|fault| {
                let child = match fault.pid == u64::from(self.pid) {
                    true => String::new(),
                    false => format!("{} ({}): ", short(&fault.program), fault.pid),
                };
                format!("freehold: {child}{}\n", fault.sentence())
            })
            .collect();
        format!(
            "freehold: {}\n{faults}freehold: {}\nfreehold: next: {}\n",
            self.ending_line(),
            self.memory_line(),
            self.next
        )
    }

    fn ending_line(&self) -> String {
        let mut line = format!(
            "{} ({}) {} after {}",
            self.program,
            self.pid,
            self.ending,
            duration(self.seconds)
        );
        if let Some(share) = self.allocator_share {
            line += &format!(
                "; {:.1} ± {:.1} % of its CPU time in the allocator",
                share.share * 100.0,
                share.error * 100.0
            );
        }
        if self.processes > 1 {
            line += &format!("; {} processes observed", self.processes);
        }
        match self.still_running.as_slice() {
            [] => {}
            [one] => line += &format!("; process {one} of it still runs"),
            [first, ..] => {
                line += &format!(
                    "; {} of them still run, {first} the first",
                    self.still_running.len()
                )
            }
        }
        if let Some(one) = self.died.first() {
            // Who waited for it knows which; that was its parent.
            let (who, count) = (format!("{} ({})", one.program, one.pid), self.died.len());
            line += &match count {
                1 => format!("; {who} was killed, or ended by _exit"),
                _ => format!(
                    "; {who} and {} more were killed, or ended by _exit",
                    count - 1
                ),
            };
        }
        line
    }

    fn memory_line(&self) -> String {
        let mut line = match self.peak_resident_bytes {
            Some(peak) => format!("at most {} resident", bytes(peak)),
            // The kernel's count cannot be told from that of this command, which is small.
            None => "a few MiB resident at most".to_owned(),
        };
        if let Some(reason) = &self.reason {
            return format!("{line}; nothing was observed: {reason}");
        }
        let Some(heap) = &self.heap else { return line };
        if u64::from(self.pid) != heap.pid {
            line += &format!("; in {} ({})", short(&heap.program), heap.pid);
        }
        let estimate = |amount: u64, error: u64| wording::estimate(amount as f64, error as f64);
        line += &format!(
            "; heap at most {}, live at the end {}",
            estimate(heap.peak_bytes, heap.peak_error_bytes),
            estimate(heap.live_bytes, heap.live_error_bytes)
        );
        match &heap.biggest_site {
            Some(site) => {
                line += &format!(
                    "; most at the peak by {}: {}",
                    site.name,
                    bytes(site.peak_bytes)
                )
            }
            None if !heap.sampled => line += "; sampling was off, so by whom is not known",
            None => line += "; it allocated too little for a sample",
        }
        if let Some(leaking) = &heap.leaking {
            line += &format!(
                "; likely leak: {}, {}",
                leaking.who(),
                wording::rate(leaking.bytes_per_second, leaking.bytes_per_second_error)
            );
        }
        if let Some(cleared) = &heap.cleared {
            line += &format!("; {}", cleared.sentence());
        }
        if let Some(alarm) = &heap.alarm {
            line += &format!("; {alarm}");
        }
        for lookup in &heap.lookup {
            line += &format!("; {lookup}");
        }
        line
    }
}

/// The highest resident size that any of the processes saw of itself.
fn peak_seen(profiles: &[(PathBuf, Snapshot)]) -> Option<u64> {
    profiles
        .iter()
        .flat_map(|(_, s)| {
            let statistics = s
                .profile
                .statistics
                .iter()
                .map(|statistics| statistics.resident_bytes);
            s.profile
                .timeline
                .iter()
                .map(|point| point.resident_bytes)
                .chain(statistics)
        })
        .max()
        .filter(|&peak| peak > 0)
}

fn short(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

impl Heap {
    fn of(profile: &Path, snapshot: &Snapshot) -> Self {
        let live = snapshot.total(View::Live);
        let counted = without_samples(snapshot);
        let past = snapshot.before_clearing();
        let before = past.as_ref().map_or(snapshot, |(before, _)| before);
        let mut symbols = Symbols::new(snapshot);
        let at_peak = snapshot
            .sites
            .iter()
            .filter(|site| site.peak.bytes > 0.0)
            .map(|site| (site.number, site.peak.bytes));
        let biggest_site = sites::by_line(snapshot, &mut symbols, at_peak)
            .into_iter()
            .next()
            .map(|(name, bytes)| BiggestSite {
                name,
                peak_bytes: bytes.round() as u64,
            });
        let leaking = Leaking::of(before, &mut symbols);
        Self {
            pid: snapshot.pid(),
            program: short(&snapshot.program()),
            peak_bytes: counted.map_or(snapshot.profile.control.peak_bytes, |(peak, _)| peak),
            peak_error_bytes: snapshot.total(View::Peak).error().round() as u64,
            live_bytes: counted.map_or(live.bytes.round() as u64, |(_, live)| live),
            sampled: counted.is_none(),
            live_error_bytes: live.error().round() as u64,
            alarm: snapshot.alarm(),
            biggest_site,
            leaking,
            lookup: symbols.warnings().to_vec(),
            cleared: past.as_ref().map(|(_, cleared)| *cleared),
            profile: profile.to_owned(),
        }
    }
}

/// What one is most likely to want to know next.
fn next_command(run: &Run, heap: Option<&Heap>) -> String {
    let Some(heap) = heap else {
        return format!(
            "freehold doctor -- {}",
            run.command.first().map_or("CMD", String::as_str)
        );
    };
    // Somebody who sees memory run out asks what grew; else what it was used for.
    let verb = match run.outcome.ending {
        _ if heap.leaking.is_some() => "leaks",
        Ending::OutOfMemory | Ending::OutOfMemoryInGroup { .. } => "leaks",
        _ => "profile",
    };
    format!("freehold {verb} {}", heap.profile.display())
}

#[cfg(test)]
mod tests {
    use super::super::kept;
    use super::*;
    use profile_file::testing::{BEGUN_NS, ProfileBuilder};

    const MIB: u64 = 1 << 20;

    /// A directory with the profile files of processes that are long gone: a number and the blocks of a MiB that it
    /// held each.
    fn directory(processes: &[(u64, u64, bool)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for &(pid, blocks, ended) in processes {
            let mut profile = ProfileBuilder::new(1);
            // One line that is called in three ways.
            let ways = [0x2000, 0x3000, 0x4000].map(|caller| profile.site(&[0x1000, caller]));
            for number in 0..blocks {
                profile.allocate(ways[number as usize % ways.len()], MIB, number);
            }
            profile.change(|profile| {
                profile.header.pid = pid;
                profile.header.program = [0; 512];
                profile.header.program[..11].copy_from_slice(b"/bin/server");
                profile.control.peak_bytes = blocks * MIB;
                profile.header.state = if ended { 2 } else { 1 };
            });
            std::fs::write(dir.path().join(format!("freehold-{pid}")), profile.bytes()).unwrap();
        }
        dir
    }

    fn say(dir: &tempfile::TempDir, ending: Ending, change: impl FnOnce(&mut Run)) -> String {
        let command = ["/bin/server".to_owned(), "--fast".to_owned()];
        let outcome = Outcome {
            ending,
            peak_resident: Some(100 * MIB),
        };
        let profiles = kept::profiles(dir.path());
        let mut run = Run {
            command: &command,
            name: "server",
            pid: 4_194_801,
            outcome: &outcome,
            share: Err(Unknown::TooShort),
            seconds: 12.34,
            ended_ns: BEGUN_NS + 12_340_000_000,
            directory: dir.path(),
            profiles: &profiles,
            thinned: 0,
            obstacle: None,
            naming: NamingArgs::default(),
        };
        change(&mut run);
        Summary::of(&run)
            .to_text()
            .replace(&dir.path().display().to_string(), "DIR")
    }

    #[test]
    fn one_process_that_ended_by_itself() {
        let dir = directory(&[(4_194_801, 30, true)]);
        insta::assert_snapshot!(say(&dir, Ending::Exited { code: 0 }, |_| {}), @r"
        freehold: server (4194801) ended by itself with exit code 0 after 12 s
        freehold: at most 100.0 MiB resident; heap at most 30.0 MiB, live at the end 30.0 MiB; most at the peak by 0xfff: 30.0 MiB
        freehold: next: freehold profile DIR/freehold-4194801
        ");
    }

    #[test]
    fn several_of_which_a_child_had_most_and_one_was_killed() {
        let dir = directory(&[
            (4_194_801, 1, true),
            (4_194_802, 50, true),
            (4_194_803, 2, false),
        ]);
        insta::assert_snapshot!(say(&dir, Ending::Exited { code: 1 }, |_| {}), @r"
        freehold: server (4194801) ended by itself with exit code 1 after 12 s; 3 processes observed; server (4194803) was killed, or ended by _exit
        freehold: at most 100.0 MiB resident; in server (4194802); heap at most 50.0 MiB, live at the end 50.0 MiB; most at the peak by 0xfff: 50.0 MiB
        freehold: next: freehold profile DIR/freehold-4194802
        ");
    }

    #[test]
    fn the_end_of_memory_asks_for_leaks() {
        let dir = directory(&[(4_194_801, 90, false)]);
        let ending = Ending::OutOfMemoryInGroup {
            group: "/app".into(),
            limit: Some(96 * MIB),
        };
        insta::assert_snapshot!(say(&dir, ending, |_| {}), @r"
        freehold: server (4194801) was killed by the kernel: out of memory in its control group /app (limit 96.0 MiB) after 12 s
        freehold: at most 100.0 MiB resident; heap at most 90.0 MiB, live at the end 90.0 MiB; most at the peak by 0xfff: 90.0 MiB
        freehold: next: freehold leaks DIR/freehold-4194801
        ");
    }

    #[test]
    fn without_freehold_the_reason_is_told() {
        let dir = directory(&[]);
        let text = say(&dir, Ending::Exited { code: 0 }, |run| {
            run.obstacle = Some("the program is statically linked".to_owned());
        });
        insta::assert_snapshot!(text, @r"
        freehold: server (4194801) ended by itself with exit code 0 after 12 s
        freehold: at most 100.0 MiB resident; nothing was observed: the program is statically linked
        freehold: next: freehold doctor -- /bin/server
        ");
    }

    #[test]
    fn of_very_many_processes_the_largest_pages_stay() {
        let dir = directory(&[
            (4_194_801, 1, true),
            (4_194_802, 5, true),
            (4_194_803, 9, true),
            (4_194_804, 2, false),
            (4_194_805, 3, true),
        ]);
        let run = kept::Thinned {
            main: Some(4_194_801),
            since_unix_ns: 0,
        };
        let later = kept::Thinned {
            since_unix_ns: u64::MAX,
            ..run
        };
        assert_eq!(
            kept::thin_to(dir.path(), &later, 3),
            0,
            "another run's stay"
        );
        assert_eq!(kept::thin_to(dir.path(), &run, 3), 2);
        let left: Vec<String> = kept::profiles(dir.path())
            .iter()
            .map(|profile| profile.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        // The program itself, the one that was killed, and the largest.
        assert_eq!(
            left,
            ["freehold-4194801", "freehold-4194803", "freehold-4194804"]
        );
        let text = say(&dir, Ending::Exited { code: 0 }, |run| run.thinned = 2);
        assert!(text.contains("; 5 processes observed"), "{text}");
    }
}
