//! How a program ended. What `wait` says is not enough: SIGKILL may come from a person, from the control group's
//! memory limit, or from a machine without memory, and only the counters of the last two tell which.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Ending {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
        core: bool,
    },
    /// SIGKILL by the kernel, as the control group was at its limit.
    OutOfMemoryInGroup {
        group: PathBuf,
        limit: Option<u64>,
    },
    /// SIGKILL by the kernel, as the machine had no memory left.
    OutOfMemory,
}

const SIGKILL: i32 = 9;

impl Ending {
    /// What a shell would give as exit code.
    pub fn code(&self) -> u8 {
        let code = match self {
            Ending::Exited { code } => *code,
            Ending::Signalled { signal, .. } => 128 + signal,
            Ending::OutOfMemoryInGroup { .. } | Ending::OutOfMemory => 128 + SIGKILL,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited { code } => write!(out, "ended by itself with exit code {code}"),
            Ending::Signalled { signal, core } => {
                let verb = match *signal {
                    4 | 6 | 7 | 8 | 11 | 31 => "crashed with",
                    _ => "was ended by",
                };
                let dump = if *core { ", core dumped" } else { "" };
                write!(out, "{verb} {}{dump}", signal_name(*signal))
            }
            Ending::OutOfMemoryInGroup { group, limit } => {
                write!(
                    out,
                    "was killed by the kernel: out of memory in its control group {}",
                    group.display()
                )?;
                match limit {
                    Some(limit) => write!(out, " (limit {})", crate::amounts::bytes(*limit)),
                    None => Ok(()),
                }
            }
            Ending::OutOfMemory => {
                out.write_str("was killed by the kernel: the machine was out of memory")
            }
        }
    }
}

/// SIGTERM rather than 15.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

/// Counters of kills for want of memory, by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    pub group: Option<Group>,
    in_group: u64,
    in_machine: u64,
}

/// The control group that accounts for a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// As the kernel calls it.
    pub name: PathBuf,
    directory: PathBuf,
    version: u8,
}

impl Kills {
    /// As it stands for process `pid`, which may have ended, until it is waited for.
    pub fn of(pid: u32) -> Self {
        Self::read(Path::new("/proc"), &pid.to_string())
    }

    fn read(proc: &Path, pid: &str) -> Self {
        let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let group = find_group(
            &text(proc.join(pid).join("cgroup")),
            &text(proc.join("self/mounts")),
        );
        Self {
            in_group: group.as_ref().and_then(Group::kills).unwrap_or(0),
            in_machine: counter(&text(proc.join("vmstat")), "oom_kill").unwrap_or(0),
            group,
        }
    }

    /// These counters as they stood when the process came into its group, which was after `start`: a program may be
    /// killed in the few milliseconds between two looks, so what the machine has counted since is taken off.
    pub fn joined_since(self, start: &Self) -> Self {
        let meanwhile = self.in_machine.saturating_sub(start.in_machine);
        Self {
            in_group: self.in_group.saturating_sub(meanwhile),
            in_machine: start.in_machine,
            group: self.group,
        }
    }

    /// The same counters, now.
    pub fn again(&self) -> Self {
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        Self {
            group: self.group.clone(),
            in_group: self.group.as_ref().and_then(Group::kills).unwrap_or(0),
            in_machine: counter(&vmstat, "oom_kill").unwrap_or(0),
        }
    }

    /// Of a process that has ended the kernel names no group of version 1 any more, but the root.
    pub fn knows_group(&self) -> bool {
        self.group
            .as_ref()
            .is_some_and(|group| group.name != Path::new("/"))
    }

    /// Whether a SIGKILL between `before` and now was the kernel's. A group that the process only joined later has no
    /// earlier count, and any kill in it counts.
    pub fn explain(&self, before: &Kills) -> Option<Ending> {
        let earlier = if self.group == before.group {
            before.in_group
        } else {
            0
        };
        match &self.group {
            Some(group) if self.in_group > earlier => Some(Ending::OutOfMemoryInGroup {
                group: group.name.clone(),
                limit: group.limit(),
            }),
            _ if self.in_machine > before.in_machine => Some(Ending::OutOfMemory),
            _ => None,
        }
    }
}

impl Group {
    fn kills(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        counter(
            &fs::read_to_string(self.directory.join(file)).ok()?,
            "oom_kill",
        )
    }

    /// The limit in force; none: there is none, here and above.
    fn limit(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        let mut directory = self.directory.as_path();
        let mut least = None;
        while let Ok(text) = fs::read_to_string(directory.join(file)) {
            // Version 1 says "no limit" by a number near the largest; version 2 by the word max.
            let limit = text.trim().parse().ok().filter(|&limit| limit < 1 << 62);
            least = match (least, limit) {
                (Some(a), Some(b)) => Some(u64::min(a, b)),
                (a, b) => a.or(b),
            };
            let Some(parent) = directory.parent() else {
                break;
            };
            directory = parent;
        }
        least
    }
}

/// `name VALUE` on a line of its own, as in vmstat and the files of control groups.
fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// The group that counts memory: version 1's own hierarchy for it if there is one, else version 2's.
fn find_group(cgroup: &str, mounts: &str) -> Option<Group> {
    let line = |wanted: &dyn Fn(&str, &str) -> bool| {
        cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(number, controllers).then(|| path.trim_end_matches(" (deleted)").to_owned())
        })
    };
    let mount = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields.len() > 3 && wanted(fields[2], fields[3])).then(|| PathBuf::from(fields[1]))
        })
    };
    let has = |list: &str, name: &str| list.split(',').any(|word| word == name);
    let first = line(&|_, controllers| has(controllers, "memory"))
        .zip(mount(&|kind, options| {
            kind == "cgroup" && has(options, "memory")
        }))
        .map(|(path, root)| (1, path, root));
    let (version, path, root) = first.or_else(|| {
        let path = line(&|number, controllers| number == "0" && controllers.is_empty())?;
        Some((2, path, mount(&|kind, _| kind == "cgroup2")?))
    })?;
    Some(Group {
        directory: root.join(path.trim_start_matches('/')),
        name: path.into(),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_told_in_words() {
        let say = |ending: Ending| format!("{ending} [{}]", ending.code());
        insta::assert_snapshot!([
            say(Ending::Exited { code: 3 }),
            say(Ending::Signalled { signal: 11, core: true }),
            say(Ending::Signalled { signal: 15, core: false }),
            say(Ending::Signalled { signal: 40, core: false }),
            say(Ending::OutOfMemoryInGroup { group: "/app".into(), limit: Some(64 << 20) }),
            say(Ending::OutOfMemory),
        ].join("\n"), @r"
        ended by itself with exit code 3 [3]
        crashed with SIGSEGV, core dumped [139]
        was ended by SIGTERM [143]
        was ended by signal 40 [168]
        was killed by the kernel: out of memory in its control group /app (limit 64.0 MiB) [137]
        was killed by the kernel: the machine was out of memory [137]
        ");
    }

    /// A `/proc` of our own, in which process 7 is in group /app of the given version.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(version: u8) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            let root = machine.0.path().join("groups");
            let (line, mount) = if version == 2 {
                (
                    "0::/app\n",
                    format!("cgroup2 {} cgroup2 rw 0 0\n", root.display()),
                )
            } else {
                (
                    "3:cpu:/other\n8:memory:/app\n0::/\n",
                    format!(
                        "none /x cgroup2 rw 0 0\ncgroup {} cgroup rw,memory 0 0\n",
                        root.display()
                    ),
                )
            };
            machine.write("7/cgroup", line);
            machine.write("self/mounts", &mount);
            machine.write("vmstat", "nr_free_pages 5\noom_kill 4\n");
            machine
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn kills(&self) -> Kills {
            Kills::read(self.0.path(), "7")
        }
    }

    #[test]
    fn a_kill_in_a_group_of_version_2() {
        let machine = Machine::new(2);
        machine.write("groups/app/memory.events", "low 0\noom 1\noom_kill 0\n");
        machine.write("groups/app/memory.max", "max\n");
        machine.write("groups/memory.max", "1048576\n");
        let before = machine.kills();
        assert_eq!(machine.kills().explain(&before), None);
        machine.write("groups/app/memory.events", "low 0\noom 2\noom_kill 1\n");
        assert_eq!(
            machine.kills().explain(&before),
            Some(Ending::OutOfMemoryInGroup {
                group: "/app".into(),
                limit: Some(1 << 20)
            })
        );
    }

    #[test]
    fn a_kill_in_a_group_of_version_1() {
        let machine = Machine::new(1);
        machine.write(
            "groups/app/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        );
        machine.write("groups/app/memory.limit_in_bytes", "4096\n");
        machine.write("groups/memory.limit_in_bytes", "9223372036854771712\n");
        let before = machine.kills();
        machine.write(
            "groups/app/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        );
        assert_eq!(
            machine.kills().explain(&before),
            Some(Ending::OutOfMemoryInGroup {
                group: "/app".into(),
                limit: Some(4096)
            })
        );
    }

    #[test]
    fn a_group_that_was_joined_later_has_no_earlier_figure() {
        let machine = Machine::new(2);
        machine.write("groups/app/memory.events", "oom_kill 1\n");
        assert!(machine.kills().explain(&Kills::default()).is_some());
    }

    #[test]
    fn a_kill_before_the_group_was_first_seen_counts() {
        let machine = Machine::new(2);
        let start = Kills {
            group: None,
            ..machine.kills()
        };
        machine.write("groups/app/memory.events", "oom_kill 7\n");
        machine.write("vmstat", "oom_kill 5\n");
        let seen = machine.kills().joined_since(&start);
        assert!(matches!(
            machine.kills().explain(&seen),
            Some(Ending::OutOfMemoryInGroup { .. })
        ));
    }

    #[test]
    fn the_machine_itself_may_be_out_of_memory() {
        let machine = Machine::new(2);
        let before = machine.kills();
        machine.write("vmstat", "oom_kill 5\n");
        assert_eq!(machine.kills().explain(&before), Some(Ending::OutOfMemory));
    }

    #[test]
    fn without_any_of_these_files_nothing_is_claimed() {
        let empty = tempfile::tempdir().unwrap();
        let kills = Kills::read(empty.path(), "7");
        assert_eq!(kills, Kills::default());
        assert_eq!(kills.explain(&kills), None);
    }
}
