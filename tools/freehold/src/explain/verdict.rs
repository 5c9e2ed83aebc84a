//! From parts to one sentence: which of growth, fragmentation, retention, or somebody else's memory it is, or none, and
//! what would change it. Pure arithmetic over what was found, so that it can be tested without a process.

use serde::Serialize;

use super::kinds::Kind;
use crate::amounts::{bytes, duration};
use crate::leaks::finding::Leaking;
use crate::leaks::spread::Spread;
use crate::leaks::trend::Trend;
use crate::leaks::verdict::TOO_MANY_LOST;
use crate::wording;

/// What the verdict is made of.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// How one names the process or file to another command.
    pub word: String,
    pub resident: u64,
    /// Of it, Freehold's.
    pub ours: u64,
    pub live: u64,
    /// Free blocks in slabs that are in use.
    pub fragmented: u64,
    /// Caches, and what waits to be returned to the OS.
    pub retained: u64,
    /// Room without blocks in heaps of the program's own.
    pub free_in_heaps: u64,
    pub others: Vec<(Kind, u64)>,
    pub presence: Presence,
    pub trend: Option<Trend>,
    /// What `freehold leaks` calls likely leaks.
    pub leaking: Option<Leaking>,
    /// Otherwise, if the trend is growth: the line whose sites grow together.
    pub spread: Option<Spread>,
    /// The most that was live, by the samples, and its error.
    pub peak: (u64, u64),
    /// What was live at last, known in the same way.
    pub last: (u64, u64),
    /// It took no samples, so nothing is known of call sites.
    pub unsampled: bool,
    /// Of the live blocks' samples, the part that there was no room for.
    pub lost_share: f64,
    /// The program has ended, however.
    pub ended: bool,
    /// Of the container, or the allocator's own: limit and what is used of it.
    pub limit: Option<(u64, u64)>,
    /// The call site that holds most in the class with most free space.
    pub pinning: Option<String>,
    /// Who else allocates in this process, in words.
    pub allocator: Option<String>,
    /// `purge=eager` is set already.
    pub eager: bool,
}

/// Whether Freehold is in the process and says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    #[default]
    Observed,
    /// There, but not asked to show itself.
    Unobserved,
    Absent,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Growth,
    Fragmentation,
    Retention,
    /// The free memory is that of heaps which the program has made.
    Heaps,
    NotOurs,
    NotObserved,
    NotActive,
    /// No trouble was found in a program that has ended.
    Ended,
    /// Too much is missing to say that there is none.
    Unknown,
    Fine,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub finding: Finding,
    pub sentence: String,
    /// Options, calls and commands that would change it, each with what it does.
    pub change: Vec<String>,
}

/// Less than this is no trouble, whatever its share.
const LEAST: u64 = 8 << 20;

fn percent(part: u64, whole: u64) -> u64 {
    (part as f64 * 100.0 / whole.max(1) as f64).round() as u64
}

/// A rate without its sign: the sentence says which way it goes.
fn speed(rate: f64, error: f64) -> String {
    wording::rate(rate, error)
        .trim_start_matches('+')
        .to_owned()
}

/// An amount, and its error.
fn estimate((bytes, error): (u64, u64)) -> String {
    wording::estimate(bytes as f64, error as f64)
}

impl Facts {
    pub fn verdict(&self) -> Verdict {
        match self.presence {
            Presence::Absent => return self.not_active(),
            Presence::Unobserved => return self.not_observed(),
            Presence::Observed => {}
        }
        if let Some(leaking) = &self.leaking {
            return self.leak(leaking);
        }
        let trend = self.trend.filter(Trend::grows);
        if let Some(trend) = trend.filter(|_| self.live >= 1 << 20) {
            return self.growth(&trend);
        }
        let others: u64 = self.others.iter().map(|(_, bytes)| bytes).sum();
        let mut found: Vec<(u64, Verdict)> = Vec::new();
        if self.is_much(self.fragmented) {
            found.push((self.fragmented, self.fragmentation()));
        }
        // A program that has ended allocates no more: `over` says what it kept.
        if self.is_much(self.retained) && !self.ended {
            found.push((self.retained, self.retention()));
        }
        if self.is_much(self.free_in_heaps) {
            found.push((self.free_in_heaps, self.in_heaps()));
        }
        if others >= (2 * LEAST).max(self.resident / 2) {
            found.push((others, self.not_ours(others)));
        }
        found
            .into_iter()
            .max_by_key(|(bytes, _)| *bytes)
            .map_or_else(|| self.fine(), |(_, verdict)| verdict)
    }

    /// Of Freehold's memory enough to be a trouble.
    fn is_much(&self, part: u64) -> bool {
        part >= LEAST.max(self.ours / 5)
    }

    fn leak(&self, leaking: &Leaking) -> Verdict {
        let verb = if self.ended { "grew" } else { "grows" };
        let sentence = format!(
            "A likely leak: what {} allocated {verb} by {}, for {}",
            leaking.who(),
            speed(leaking.bytes_per_second, leaking.bytes_per_second_error),
            duration(leaking.seconds),
        );
        self.grows(sentence, leaking.bytes_per_second)
    }

    fn growth(&self, trend: &Trend) -> Verdict {
        let verb = if self.ended { "grew" } else { "grows" };
        let mut sentence = format!(
            "Live memory {verb} by {}, for {}: in no call site alone beyond doubt; a leak, or a cache without a bound",
            speed(trend.rate, trend.error),
            duration(trend.seconds),
        );
        if let Some(spread) = &self.spread {
            sentence += &format!("; most by {}", spread.sentence());
        }
        self.grows(sentence, trend.rate)
    }

    fn grows(&self, mut sentence: String, rate: f64) -> Verdict {
        let limit = self
            .limit
            .filter(|(limit, used)| limit > used && !self.ended);
        if let Some((limit, used)) = limit {
            let left = (limit - used) as f64 / rate;
            sentence += &format!(
                "; the limit of {} is reached in {}",
                bytes(limit),
                duration(left)
            );
        }
        Verdict {
            finding: Finding::Growth,
            sentence: sentence + ".",
            change: vec![
                format!(
                    "freehold leaks {}      which call sites grow, and how sure that is",
                    self.word
                ),
                format!(
                    "freehold profile {}    what they are called from",
                    self.word
                ),
            ],
        }
    }

    fn fragmentation(&self) -> Verdict {
        let (is, keep, keeps) = match self.ended {
            true => ("was", "kept", "kept"),
            false => ("is", "keep", "keeps"),
        };
        let mut sentence = format!(
            "Fragmentation: {} ({} % of Freehold's memory) {is} free space between live blocks, in slabs that some of \
             them {keep}",
            bytes(self.fragmented),
            percent(self.fragmented, self.ours),
        );
        if let Some(site) = &self.pinning {
            sentence += &format!("; most of what {keeps} them {is} allocated by {site}");
        }
        let mut change = vec![format!(
            "freehold profile {}    the call sites of the blocks that stayed",
            self.word
        )];
        if !self.ended {
            let trim = "malloc_trim(0)               returns whole free pages inside these slabs to the OS";
            change.push(trim.to_owned());
        }
        change.push(
            "allocate what lives long before, or apart from, what lives for a moment: they share slabs by size"
                .to_owned(),
        );
        Verdict {
            finding: Finding::Fragmentation,
            sentence: sentence + ".",
            change,
        }
    }

    /// The option by which nothing is kept, unless it is set already.
    fn purge_at_once(&self) -> Option<String> {
        let advice = "FREEHOLD=purge=eager         gives it back always at once, for some CPU time";
        (!self.eager).then(|| advice.to_owned())
    }

    fn retention(&self) -> Verdict {
        let mut change = vec!["malloc_trim(0)               gives it back at once".to_owned()];
        change.extend(self.purge_at_once());
        change.push(
            "wait: it is used again first, and goes back within a budget as more is freed"
                .to_owned(),
        );
        Verdict {
            finding: Finding::Retention,
            sentence: format!(
                "Retention: {} ({} % of Freehold's memory) is free and kept for the next allocations.",
                bytes(self.retained),
                percent(self.retained, self.ours),
            ),
            change,
        }
    }

    fn in_heaps(&self) -> Verdict {
        Verdict {
            finding: Finding::Heaps,
            sentence: format!(
                "Heaps: {} ({} % of Freehold's memory) is room without blocks in heaps that the program has made; only the \
                 same heap uses it again.",
                bytes(self.free_in_heaps),
                percent(self.free_in_heaps, self.ours),
            ),
            change: vec![
                format!(
                    "freehold explain --heaps {}    which heaps they are",
                    self.word
                ),
                "fh_heap_reset, fh_heap_destroy    give back what a heap has".to_owned(),
            ],
        }
    }

    fn largest_other(&self) -> Option<(Kind, u64)> {
        self.others.iter().copied().max_by_key(|(_, bytes)| *bytes)
    }

    fn not_ours(&self, others: u64) -> Verdict {
        let mut sentence = format!(
            "Not ours: {} of {} ({} %) did not come from Freehold",
            bytes(others),
            bytes(self.resident),
            percent(others, self.resident),
        );
        let mut change = Vec::new();
        if let Some((kind, amount)) = self.largest_other() {
            sentence += &format!("; the largest part is {}, {}", kind.label(), bytes(amount));
            change.extend(kind.advice().map(str::to_owned));
        }
        if let Some(allocator) = &self.allocator {
            sentence += &format!("; {allocator}");
        }
        if change.is_empty() {
            change.push(format!("pmap -x {}    every mapping by itself", self.word));
        }
        Verdict {
            finding: Finding::NotOurs,
            sentence: sentence + ".",
            change,
        }
    }

    fn not_observed(&self) -> Verdict {
        Verdict {
            finding: Finding::NotObserved,
            sentence: format!(
                "Freehold has {} of {} ({} %), but is not observed: what its part is made of cannot be seen from outside.",
                bytes(self.ours),
                bytes(self.resident),
                percent(self.ours, self.resident),
            ),
            change: vec![
                "freehold run -- CMD          starts it observed".to_owned(),
                "FREEHOLD=observe=1           in its environment does the same".to_owned(),
            ],
        }
    }

    fn not_active(&self) -> Verdict {
        let who = match &self.allocator {
            Some(allocator) => format!("; {allocator}"),
            None => {
                "; its memory comes from the C library's malloc, or what it maps itself".to_owned()
            }
        };
        let most = self
            .largest_other()
            .map(|(kind, amount)| format!(", most of it {} ({})", kind.label(), bytes(amount)))
            .unwrap_or_default();
        Verdict {
            finding: Finding::NotActive,
            sentence: format!(
                "Freehold is not in this process: {} are resident{most}{who}.",
                bytes(self.resident)
            ),
            change: vec![
                format!("freehold doctor {}        why it is not there", self.word),
                "freehold run -- CMD          starts a program under Freehold, observed".to_owned(),
            ],
        }
    }

    fn fine(&self) -> Verdict {
        if self.ended {
            return self.over();
        }
        if self.lost_share > TOO_MANY_LOST && !self.trend.is_some_and(|trend| trend.can_tell()) {
            return self.unknown();
        }
        let grown = match self.trend {
            Some(trend) if trend.can_tell() => format!(
                ", and it has not grown beyond doubt in the last {}",
                duration(trend.seconds)
            ),
            Some(trend) => format!(
                "; whether it grows cannot be told yet, from {} in {}",
                wording::plural(trend.points, "look", "looks"),
                duration(trend.seconds)
            ),
            None => "; whether it grows cannot be told yet".to_owned(),
        };
        Verdict {
            finding: Finding::Fine,
            sentence: format!(
                "Fine: {} % of Freehold's {} is what the program holds{grown}.",
                percent(self.live, self.ours),
                bytes(self.ours),
            ),
            change: vec![format!(
                "freehold profile {}    to use less, the program must ask for less: here is who asks",
                self.word
            )],
        }
    }
}

impl Facts {
    fn lost(&self) -> String {
        let percent = (100.0 * self.lost_share).ceil();
        format!("because {percent} % of the samples of live blocks are lost")
    }

    /// What grew may be what is missing.
    fn unknown(&self) -> Verdict {
        Verdict {
            finding: Finding::Unknown,
            sentence: format!(
                "No verdict: whether it grows, and who holds the memory, cannot be told, {}.",
                self.lost()
            ),
            change: vec![
                "freehold run --keep DIR      with a directory that has room for the profile file"
                    .to_owned(),
            ],
        }
    }

    /// Of a program that has ended: nothing is fine about one that was killed for want of memory.
    fn over(&self) -> Verdict {
        let leaks = if self.lost_share > TOO_MANY_LOST {
            format!("whether a call site leaks cannot be told, {}", self.lost())
        } else if self.unsampled {
            "whether a call site leaks cannot be told, because sampling was off".to_owned()
        } else {
            "no call site is a likely leak".to_owned()
        };
        let mut sentence = format!(
            "It has ended: at most {} were live, {} when it was last seen, and {leaks}",
            estimate(self.peak),
            estimate(self.last),
        );
        let mut change = vec![format!(
            "freehold profile {} --peak    who held most when it held most",
            self.word
        )];
        if self.is_much(self.retained) {
            sentence += &format!(
                "; {} ({} % of Freehold's memory) was free and kept when it was last counted",
                bytes(self.retained),
                percent(self.retained, self.ours),
            );
            change.extend(self.purge_at_once());
        }
        Verdict {
            finding: Finding::Ended,
            sentence: sentence + ".",
            change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn facts() -> Facts {
        Facts {
            word: "4711".to_owned(),
            resident: 110 * MIB,
            ours: 100 * MIB,
            live: 90 * MIB,
            fragmented: 4 * MIB,
            retained: 4 * MIB,
            others: vec![(Kind::Code, 7 * MIB), (Kind::Stacks, 3 * MIB)],
            ..Facts::default()
        }
    }

    fn growing() -> Trend {
        Trend {
            rate: 1e6,
            error: 1e4,
            seconds: 60.0,
            share: 0.6,
            points: 100,
            goes_on: true,
            stands_still: false,
        }
    }

    fn show(facts: &Facts) -> String {
        let verdict = facts.verdict();
        format!(
            "{:?}\n{}\n{}",
            verdict.finding,
            verdict.sentence,
            verdict.change.join("\n")
        )
    }

    #[test]
    fn a_program_that_uses_what_it_has() {
        insta::assert_snapshot!(show(&facts()), @r"
        Fine
        Fine: 90 % of Freehold's 100.0 MiB is what the program holds; whether it grows cannot be told yet.
        freehold profile 4711    to use less, the program must ask for less: here is who asks
        ");
    }

    #[test]
    fn growth_comes_before_everything_else() {
        let facts = Facts {
            trend: Some(growing()),
            fragmented: 80 * MIB,
            limit: Some((1 << 30, 900 * MIB)),
            ..facts()
        };
        insta::assert_snapshot!(show(&facts), @r"
        Growth
        Live memory grows by 976.6 ± 9.8 KiB/s, for 1 min 0 s: in no call site alone beyond doubt; a leak, or a cache without a bound; the limit of 1.0 GiB is reached in 2 min 10 s.
        freehold leaks 4711      which call sites grow, and how sure that is
        freehold profile 4711    what they are called from
        ");
    }

    #[test]
    fn what_leaks_says_is_said_here() {
        let leaking = Leaking {
            site: "session_new (server.c:120)".to_owned(),
            sites: 3,
            bytes_per_second: 2e6,
            bytes_per_second_error: 1e5,
            seconds: 90.0,
        };
        let facts = Facts {
            leaking: Some(leaking),
            ..facts()
        };
        insta::assert_snapshot!(facts.verdict().sentence, @"A likely leak: what session_new (server.c:120) and 2 more sites allocated grows by 1.9 ± 0.1 MiB/s, for 1 min 30 s.");
    }

    #[test]
    fn too_few_looks_are_said_and_an_ended_program_is_not_fine() {
        let seven = Trend {
            points: 7,
            ..growing()
        };
        let few = Facts {
            trend: Some(seven),
            ..facts()
        };
        insta::assert_snapshot!(few.verdict().sentence, @"Fine: 90 % of Freehold's 100.0 MiB is what the program holds; whether it grows cannot be told yet, from 7 looks in 1 min 0 s.");
        let ended = Facts {
            ended: true,
            peak: (96 * MIB, 0),
            last: (90 * MIB, 9 * MIB),
            ..few
        };
        assert_eq!(ended.verdict().finding, Finding::Ended);
        insta::assert_snapshot!(ended.verdict().sentence, @"It has ended: at most 96.0 MiB were live, 90.0 ± 9.0 MiB when it was last seen, and no call site is a likely leak.");
    }

    #[test]
    fn fragmentation_names_who_pins() {
        let facts = Facts {
            live: 20 * MIB,
            fragmented: 75 * MIB,
            pinning: Some("cache_insert".to_owned()),
            ..facts()
        };
        insta::assert_snapshot!(show(&facts), @r"
        Fragmentation
        Fragmentation: 75.0 MiB (75 % of Freehold's memory) is free space between live blocks, in slabs that some of them keep; most of what keeps them is allocated by cache_insert.
        freehold profile 4711    the call sites of the blocks that stayed
        malloc_trim(0)               returns whole free pages inside these slabs to the OS
        allocate what lives long before, or apart from, what lives for a moment: they share slabs by size
        ");
    }

    #[test]
    fn room_in_heaps_is_not_what_the_program_holds() {
        let facts = Facts {
            live: 20 * MIB,
            free_in_heaps: 75 * MIB,
            ..facts()
        };
        insta::assert_snapshot!(show(&facts), @r"
        Heaps
        Heaps: 75.0 MiB (75 % of Freehold's memory) is room without blocks in heaps that the program has made; only the same heap uses it again.
        freehold explain --heaps 4711    which heaps they are
        fh_heap_reset, fh_heap_destroy    give back what a heap has
        ");
    }

    #[test]
    fn retention_offers_options_that_are_not_set_yet() {
        let facts = Facts {
            live: 20 * MIB,
            retained: 76 * MIB,
            ..facts()
        };
        insta::assert_snapshot!(show(&facts), @r"
        Retention
        Retention: 76.0 MiB (76 % of Freehold's memory) is free and kept for the next allocations.
        malloc_trim(0)               gives it back at once
        FREEHOLD=purge=eager         gives it back always at once, for some CPU time
        wait: it is used again first, and goes back within a budget as more is freed
        ");
        let eager = Facts {
            eager: true,
            ..facts
        };
        assert!(!show(&eager).contains("purge=eager"));
    }

    #[test]
    fn of_a_program_that_has_ended_nothing_is_kept_or_trimmed_any_more() {
        let kept = Facts {
            ended: true,
            live: 20 * MIB,
            retained: 76 * MIB,
            peak: (96 * MIB, 0),
            last: (20 * MIB, 0),
            ..facts()
        };
        insta::assert_snapshot!(show(&kept), @r"
        Ended
        It has ended: at most 96.0 MiB were live, 20.0 MiB when it was last seen, and no call site is a likely leak; 76.0 MiB (76 % of Freehold's memory) was free and kept when it was last counted.
        freehold profile 4711 --peak    who held most when it held most
        FREEHOLD=purge=eager         gives it back always at once, for some CPU time
        ");
        let scattered = Facts {
            fragmented: 75 * MIB,
            retained: 0,
            pinning: Some("cache_insert".to_owned()),
            ..kept
        };
        insta::assert_snapshot!(show(&scattered), @r"
        Fragmentation
        Fragmentation: 75.0 MiB (75 % of Freehold's memory) was free space between live blocks, in slabs that some of them kept; most of what kept them was allocated by cache_insert.
        freehold profile 4711    the call sites of the blocks that stayed
        allocate what lives long before, or apart from, what lives for a moment: they share slabs by size
        ");
    }

    #[test]
    fn memory_of_others_is_named_by_its_largest_kind() {
        let facts = Facts {
            resident: 400 * MIB,
            others: vec![(Kind::Code, 20 * MIB), (Kind::Anonymous, 280 * MIB)],
            allocator: Some("mimalloc is loaded too (/lib/libmimalloc.so.2)".to_owned()),
            ..facts()
        };
        insta::assert_snapshot!(show(&facts), @r"
        NotOurs
        Not ours: 300.0 MiB of 400.0 MiB (75 %) did not come from Freehold; the largest part is anonymous memory that somebody mapped, 280.0 MiB; mimalloc is loaded too (/lib/libmimalloc.so.2).
        callers of mmap: an interpreter's own heap (Python, V8, Go, the Java heap), a thread pool, a database's buffers
        ");
    }

    #[test]
    fn the_larger_trouble_is_the_verdict() {
        let facts = Facts {
            live: 10 * MIB,
            fragmented: 30 * MIB,
            retained: 60 * MIB,
            ..facts()
        };
        assert_eq!(facts.verdict().finding, Finding::Retention);
    }

    #[test]
    fn small_amounts_are_nobodys_trouble() {
        let facts = Facts {
            resident: 6 * MIB,
            ours: MIB,
            live: MIB / 4,
            fragmented: MIB / 2,
            retained: MIB / 4,
            others: vec![(Kind::Code, 5 * MIB)],
            ..facts()
        };
        assert_eq!(facts.verdict().finding, Finding::Fine);
    }

    #[test]
    fn without_freehold_or_without_a_page() {
        let absent = Facts {
            presence: Presence::Absent,
            ours: 0,
            ..facts()
        };
        insta::assert_snapshot!(show(&absent), @r"
        NotActive
        Freehold is not in this process: 110.0 MiB are resident, most of it code of the program and its libraries (7.0 MiB); its memory comes from the C library's malloc, or what it maps itself.
        freehold doctor 4711        why it is not there
        freehold run -- CMD          starts a program under Freehold, observed
        ");
        let unobserved = Facts {
            presence: Presence::Unobserved,
            ..facts()
        };
        insta::assert_snapshot!(show(&unobserved), @r"
        NotObserved
        Freehold has 100.0 MiB of 110.0 MiB (91 %), but is not observed: what its part is made of cannot be seen from outside.
        freehold run -- CMD          starts it observed
        FREEHOLD=observe=1           in its environment does the same
        ");
    }

    #[test]
    fn little_that_doubles_is_not_yet_a_leak() {
        let facts = Facts {
            live: MIB / 2,
            trend: Some(growing()),
            ..facts()
        };
        assert_ne!(facts.verdict().finding, Finding::Growth);
    }
}
