//! Is a call site a leak? Statistics over what was sampled of it, without any access to a process.
//!
//! What is known of a site at one moment: each live sample (weight and birth), and how many bytes were freed at
//! which age. That is enough to ask three questions of a single profile file, also of a program that is dead:
//!
//! 1. **Age.** Is there an age A from which on nearly nothing is freed any more? The blocks that ever reached A are
//!    those alive and older than A, and those freed at an age of A or more. The share that is alive is the
//!    *survival*. A queue, a request, a cache that replaces its entries: all of them free what is old.
//! 2. **Growth.** Do survivors exceed the old blocks that were freed by more than four sigma? Births and deaths are
//!    counted as a compound Poisson process, variance Σ w² over both, which holds the error of sampling and the
//!    program's own ups and downs. One big block can never exceed one sigma.
//! 3. **Going on.** Do the survivors' births go on until now, as fast as before? A cache that fills has its births
//!    early; what a program sets up once has them at the beginning.
//!
//! Only three times yes is a likely leak. The window is the whole life of the site, and if that does not say yes its
//! second half, so that a leak is found behind a big start. Not three windows: the tail of any filling cache looks
//! straight if one looks closely enough.
//!
//! What no statistics can tell: a program whose blocks live five times longer than it has been observed.

use serde::Serialize;

/// Bounds of the ages at which blocks were freed: entry k counts below 4^k µs, the last one all that is older.
pub const AGES: usize = 16;

/// The shortest silence at the end that can mean that a site stopped growing, as a part of the window, and as a multiple of the
/// longest pause before it: what comes in batches has pauses as long as its period, and so has a busy machine.
const LEAST_SILENCE: f64 = 0.1;
const LONGER_THAN_PAUSES: f64 = 1.5;

/// What looks like a leak only since the middle of its time has to do so for so long.
const LEAST_HALF_SECONDS: f64 = 30.0;

/// One live block that was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveSample {
    pub born_ns: u64,
    /// Bytes that it stands for.
    pub weight: f64,
}

/// What is known of a call site.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub live: Vec<LiveSample>,
    /// Bytes that were freed, by age at that time.
    pub freed_at_age: [f64; AGES],
    /// Bytes that a sample of this site stands for, in the mean: the grain of `freed_at_age`.
    pub mean_weight: f64,
    /// When its first sample was born.
    pub first_ns: u64,
    /// When the program began.
    pub begun_ns: u64,
}

/// The bounds of the verdict. The defaults are what `docs/seeing.md` states and the simulation tests.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Growth beyond so many standard deviations.
    pub sigma: f64,
    /// Of what reached the age A, at least so much is alive.
    pub survival: f64,
    /// Mean birth of the survivors as a part of the window: ½ is steady growth.
    pub middle: f64,
    /// What is younger is never old, whatever the site frees.
    pub least_age_ns: u64,
    /// A shorter window is no observation.
    pub least_window_ns: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            sigma: 4.0,
            survival: 0.9,
            middle: 0.42,
            least_age_ns: 100_000_000,
            least_window_ns: 1_000_000_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Grows beyond the doubt, goes on, and what is old stays.
    LikelyLeak,
    /// Grows, but something speaks against a leak or it is too early to tell.
    Growing,
    /// Grew, and does so no more: a cache that is full, or what was set up once.
    Stopped,
    /// What becomes old is freed, or there is no growth beyond chance.
    Steady,
    /// Too few samples to say anything.
    Unknown,
}

/// Why a site that grows is not called a leak; the order is the order of the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// No age was found from which on nearly all survives.
    OldIsFreed,
    /// The births of survivors stopped.
    Stopped,
    /// They go on, but slower than before.
    Slowing,
    /// They come in a few bursts.
    Uneven,
    /// The growth is within the error.
    WithinError,
    /// Too few survivors, or too short a time.
    TooFew,
    /// Only the later half of its time looks like a leak, and that was short: a cache that fills up may do so.
    TooShort,
    /// Too many samples of live blocks were lost: what is missing may be of this site.
    Lost,
}

/// If a larger part of the live blocks' samples was lost, no growth that is not seen means nothing.
pub const TOO_MANY_LOST: f64 = 0.01;

/// Growth of a site within a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Survivors born in the window less old blocks that were freed, bytes.
    pub bytes: f64,
    pub error: f64,
    pub survivors: usize,
    /// Blocks older than this count as old.
    pub age_ns: u64,
    /// Share of the bytes that reached that age and are alive.
    pub survival: f64,
    /// Mean birth of the survivors, as a part of the window.
    pub middle: f64,
    /// The longest time between two of their births.
    pub pause_ns: u64,
}

impl Growth {
    /// In standard deviations.
    pub fn sigma(&self) -> f64 {
        if self.error > 0.0 {
            self.bytes / self.error
        } else {
            0.0
        }
    }

    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    /// Bytes a second, and its error. What comes in batches has one more or less of them in the window, so that its length may
    /// be off by a pause at either end: evenly distributed, which has a deviation of a third of its square.
    pub fn rate(&self) -> (f64, f64) {
        let seconds = self.seconds().max(1e-9);
        let rate = self.bytes / seconds;
        let of_batches = rate * self.pause_ns as f64 / 1e9 / 3f64.sqrt();
        (rate, self.error.hypot(of_batches) / seconds)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub verdict: Verdict,
    pub doubt: Option<Doubt>,
    pub growth: Option<Growth>,
}

impl Judgement {
    /// The same where this part of the live blocks' samples was lost. What was found stands; that nothing was found
    /// does not.
    pub fn with_lost(self, share: f64) -> Judgement {
        if share <= TOO_MANY_LOST || self.verdict == Verdict::LikelyLeak {
            return self;
        }
        Judgement {
            verdict: Verdict::Unknown,
            doubt: Some(Doubt::Lost),
            growth: self.growth,
        }
    }
}

/// The verdict over one site at the time `now_ns`.
pub fn judge(site: &History, now_ns: u64, rules: &Rules) -> Judgement {
    let life = now_ns.saturating_sub(site.first_ns);
    let middle = site.begun_ns + now_ns.saturating_sub(site.begun_ns) / 2;
    let mut best: Option<(Growth, Doubt)> = None;
    for begin in [site.first_ns, site.first_ns + life / 2] {
        let Some(growth) = growth_since(site, begin, now_ns, rules) else {
            continue;
        };
        match doubt(site, &growth, now_ns, rules) {
            // The last half of what a bounded cache fills up in looks like this too, and so does a site that came late.
            None if begin >= middle && growth.seconds() < LEAST_HALF_SECONDS => {
                best = Some((growth, Doubt::TooShort));
            }
            None => {
                return Judgement {
                    verdict: Verdict::LikelyLeak,
                    doubt: None,
                    growth: Some(growth),
                };
            }
            // The whole life says best what is doubtful; the half only adds a yes.
            Some(reason) => {
                best.get_or_insert((growth, reason));
            }
        }
    }
    let Some((growth, reason)) = best else {
        return Judgement {
            verdict: Verdict::Unknown,
            doubt: Some(Doubt::TooFew),
            growth: None,
        };
    };
    Judgement {
        verdict: match reason {
            Doubt::OldIsFreed | Doubt::WithinError => Verdict::Steady,
            Doubt::Stopped => Verdict::Stopped,
            Doubt::Slowing | Doubt::Uneven | Doubt::TooShort => Verdict::Growing,
            Doubt::TooFew | Doubt::Lost => Verdict::Unknown,
        },
        doubt: Some(reason),
        growth: Some(growth),
    }
}

/// Growth from `begin` on. None: too early, or nothing is known.
fn growth_since(site: &History, begin: u64, now: u64, rules: &Rules) -> Option<Growth> {
    let life = now.saturating_sub(begin);
    if life < rules.least_window_ns || (site.live.is_empty() && freed_from(site, 0) == 0.0) {
        return None;
    }
    let (age_ns, survival) = turning_age(site, begin, now, rules);
    let end = now - age_ns;
    let survivors: Vec<&LiveSample> = born_within(site, begin, end).collect();
    let born: f64 = survivors.iter().map(|sample| sample.weight).sum();
    let squares: f64 = survivors.iter().map(|s| s.weight * s.weight).sum();
    // When the old blocks died is not known: all of them are held against the window.
    let died = freed_from(site, age_ns);
    let window = (end - begin).max(1) as f64;
    let middle = survivors
        .iter()
        .map(|sample| (sample.born_ns - begin) as f64 / window)
        .sum::<f64>()
        / survivors.len().max(1) as f64;
    let mut births: Vec<u64> = survivors.iter().map(|sample| sample.born_ns).collect();
    births.sort_unstable();
    let pauses = births.windows(2).map(|pair| pair[1] - pair[0]);
    Some(Growth {
        pause_ns: pauses.max().unwrap_or(0),
        from_ns: begin,
        to_ns: end,
        bytes: born - died,
        error: (squares + died * site.mean_weight).sqrt(),
        survivors: survivors.len(),
        age_ns,
        survival,
        middle,
    })
}

fn born_within(site: &History, begin: u64, end: u64) -> impl Iterator<Item = &LiveSample> {
    site.live
        .iter()
        .filter(move |sample| (begin..=end).contains(&sample.born_ns))
}

/// The youngest age from which on the survival is high enough, or the best there is. An age is only known to have
/// been outlived if the window is twice as long.
fn turning_age(site: &History, begin: u64, now: u64, rules: &Rules) -> (u64, f64) {
    let life = now - begin;
    let least = (life / 8)
        .min(60_000_000_000)
        .max(rules.least_age_ns.min(life / 4));
    let candidates = (0..AGES as u32)
        .map(|power| 1000 * 4u64.pow(power))
        .filter(|age| *age > least && *age <= life / 2);
    let mut best = (least, survival(site, least, now));
    for age in candidates {
        if best.1 >= rules.survival {
            break;
        }
        let here = survival(site, age, now);
        if here > best.1 {
            best = (age, here);
        }
    }
    best
}

/// Of the bytes that ever became `age` old, the share that is alive.
fn survival(site: &History, age: u64, now: u64) -> f64 {
    let alive: f64 = born_within(site, 0, now.saturating_sub(age))
        .map(|sample| sample.weight)
        .sum();
    let died = freed_from(site, age);
    if alive + died > 0.0 {
        alive / (alive + died)
    } else {
        0.0
    }
}

/// Bytes that were freed at `age` or later. The bucket that the age lies in counts wholly.
fn freed_from(site: &History, age: u64) -> f64 {
    let first = (0..AGES - 1)
        .position(|power| age < 1000 * 4u64.pow(power as u32))
        .unwrap_or(AGES - 1);
    site.freed_at_age[first..].iter().sum()
}

/// What speaks against calling the growth a leak.
fn doubt(site: &History, growth: &Growth, now: u64, rules: &Rules) -> Option<Doubt> {
    if growth.survival < rules.survival && growth.survivors > 0 {
        return Some(Doubt::OldIsFreed);
    }
    if growth.sigma() < rules.sigma {
        let few = (growth.survivors as f64) < rules.sigma * rules.sigma;
        return Some(if few && growth.survivors > 0 {
            Doubt::TooFew
        } else {
            Doubt::WithinError
        });
    }
    if stopped(site, growth, now) {
        return Some(Doubt::Stopped);
    }
    if growth.middle < rules.middle || slower_than_before(site, growth) {
        return Some(Doubt::Slowing);
    }
    uneven(site, growth).then_some(Doubt::Uneven)
}

/// No birth for so long that it would be chance in one of fifty cases only, and clearly longer than ever before: among the
/// survivors, or among all that live, which looks past the age A but may be hidden by blocks that do not live long.
/// With thousands of samples any pause would be no chance: the program may just not have run, so it counts only if it
/// is a good part of the window.
fn stopped(site: &History, growth: &Growth, now: u64) -> bool {
    let silent_until = |end: u64| {
        let mut births: Vec<u64> = born_within(site, growth.from_ns, end)
            .map(|sample| sample.born_ns)
            .collect();
        births.sort_unstable();
        let last = births.last().copied().unwrap_or(growth.from_ns);
        let pause = births.windows(2).map(|pair| pair[1] - pair[0]).max();
        let silent = (end - last) as f64 / (end - growth.from_ns).max(1) as f64;
        silent > LEAST_SILENCE
            && (1.0 - silent).powi(births.len() as i32) < 0.02
            && (end - last) as f64 > LONGER_THAN_PAUSES * pause.unwrap_or(0) as f64
    };
    silent_until(growth.to_ns) || silent_until(now)
}

/// A window that leaves out the first half of the site's life is for what begins big and goes on evenly. If the
/// quarter in front of it grew faster still, the site is slowing down as caches do that fill.
fn slower_than_before(site: &History, growth: &Growth) -> bool {
    let half = growth.from_ns - site.first_ns;
    if half == 0 {
        return false;
    }
    let quarter = born_within(site, site.first_ns + half / 2, growth.from_ns - 1).count() as f64;
    let window = (growth.to_ns - growth.from_ns).max(1) as f64;
    let expected = growth.survivors as f64 / window * (half / 2) as f64;
    quarter > 1.5 * expected + 2.0 * expected.sqrt()
}

/// Some third of the window has hardly any of the births.
fn uneven(site: &History, growth: &Growth) -> bool {
    let window = (growth.to_ns - growth.from_ns).max(1) as f64;
    let mut thirds = [0usize; 3];
    for sample in born_within(site, growth.from_ns, growth.to_ns) {
        let part = (sample.born_ns - growth.from_ns) as f64 / window;
        thirds[((part * 3.0) as usize).min(2)] += 1;
    }
    let least = (0.15 * growth.survivors as f64).max(2.0);
    thirds.iter().any(|count| (*count as f64) < least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn site(births: impl Iterator<Item = u64>) -> History {
        History {
            live: births
                .map(|born_ns| LiveSample {
                    born_ns,
                    weight: 1e6,
                })
                .collect(),
            mean_weight: 1e6,
            ..History::default()
        }
    }

    #[test]
    fn steady_births_that_all_survive_are_a_leak_with_its_rate() {
        let judgement = judge(
            &site((1..=100).map(|s| s * SECOND)),
            100 * SECOND,
            &Rules::default(),
        );
        assert_eq!(judgement.verdict, Verdict::LikelyLeak);
        let growth = judgement.growth.unwrap();
        let (rate, error) = growth.rate();
        assert!((rate - 1e6).abs() < 2e4, "{rate}");
        assert!((error - 1e5).abs() < 2e4, "{error}");
        assert_eq!(growth.survival, 1.0);
    }

    #[test]
    fn births_that_ended_are_a_cache_that_is_full() {
        let judgement = judge(
            &site((1..=100).map(|s| s * SECOND / 2)),
            100 * SECOND,
            &Rules::default(),
        );
        assert_eq!(judgement.verdict, Verdict::Stopped);
    }

    #[test]
    fn a_pause_in_which_the_program_did_not_run_is_no_end() {
        let births = (0..30_000).map(|i| i * SECOND * 98 / 30_000);
        let judgement = judge(&site(births), 100 * SECOND, &Rules::default());
        assert_eq!(judgement.verdict, Verdict::LikelyLeak);
    }

    #[test]
    fn a_leak_behind_a_big_start_is_found_in_the_second_half() {
        let start = (0..1000).map(|i| i * SECOND / 1000);
        let leak = (1..=100).map(|s| s * SECOND);
        let judgement = judge(&site(start.chain(leak)), 100 * SECOND, &Rules::default());
        assert_eq!(judgement.verdict, Verdict::LikelyLeak);
        assert!(judgement.growth.unwrap().from_ns >= 50 * SECOND);
    }

    #[test]
    fn the_last_half_of_a_cache_that_fills_up_is_growth_for_half_a_minute() {
        // Fast at first and steadily then, as caches are filled by requests for ever rarer things.
        let births = |seconds: u64| {
            let start = (0..1000).map(move |i| i * SECOND * seconds / 10_000);
            start.chain((1..=100).map(move |s| s * SECOND * seconds / 100))
        };
        let judged = |seconds| judge(&site(births(seconds)), seconds * SECOND, &Rules::default());
        let young = judged(20);
        assert_eq!(
            (young.verdict, young.doubt),
            (Verdict::Growing, Some(Doubt::TooShort))
        );
        assert_eq!(judged(100).verdict, Verdict::LikelyLeak);
    }

    #[test]
    fn a_site_that_came_late_is_growth_for_half_a_minute() {
        let judged = |begin: u64, end: u64| {
            let births = (0..1000).map(|i| begin * SECOND + i * (end - begin) * SECOND / 1000);
            let births: Vec<u64> = births.collect();
            let late = History {
                first_ns: births[0],
                ..site(births.iter().copied())
            };
            judge(&late, end * SECOND, &Rules::default())
        };
        assert_eq!(judged(12, 16).doubt, Some(Doubt::TooShort));
        assert_eq!(judged(8, 16).doubt, Some(Doubt::TooShort));
        assert_eq!(judged(4, 16).verdict, Verdict::LikelyLeak);
        assert_eq!(judged(300, 340).verdict, Verdict::LikelyLeak);
    }

    #[test]
    fn old_blocks_that_are_freed_speak_against_it() {
        let mut site = site((1..=100).map(|s| s * SECOND));
        site.freed_at_age[13] = 50e6; // 17 to 67 s
        assert_eq!(
            judge(&site, 100 * SECOND, &Rules::default()).doubt,
            Some(Doubt::OldIsFreed)
        );
        // The same bytes freed when young are the ordinary use of the site.
        site.freed_at_age[13] = 0.0;
        site.freed_at_age[3] = 50e9;
        assert_eq!(
            judge(&site, 100 * SECOND, &Rules::default()).verdict,
            Verdict::LikelyLeak
        );
    }

    #[test]
    fn one_big_block_is_no_growth() {
        let mut site = site(std::iter::once(50 * SECOND));
        site.live[0].weight = 1e12;
        assert_eq!(
            judge(&site, 100 * SECOND, &Rules::default()).verdict,
            Verdict::Unknown
        );
    }

    #[test]
    fn what_was_never_sampled_or_just_now_is_unknown() {
        let rules = Rules::default();
        assert_eq!(
            judge(&History::default(), SECOND * 60, &rules).verdict,
            Verdict::Unknown
        );
        let young = site((0..100).map(|i| i * 1_000_000));
        assert_eq!(judge(&young, SECOND / 4, &rules).verdict, Verdict::Unknown);
    }

    /// A thousand births in a tenth of a second, each `period` seconds for `length`; the time is just before the next ones.
    fn batches(period: u64, length: u64) -> Judgement {
        let births = (0..length / period)
            .flat_map(|batch| (0..1000).map(move |i| batch * period * SECOND + i * 100_000));
        judge(&site(births), length * SECOND, &Rules::default())
    }

    #[test]
    fn a_leak_in_batches_has_not_stopped_between_two_of_them() {
        for (period, length) in [(1, 14), (2, 14), (2, 30), (5, 60), (10, 200)] {
            let judgement = batches(period, length);
            // A thousand samples of 10^6 bytes each.
            let (rate, error) = judgement.growth.unwrap().rate();
            let right = 1e9 / period as f64;
            assert!(
                (rate - right).abs() < 3.0 * error && error < right / 4.0,
                "{rate} ± {error}, not {right}"
            );
            assert_eq!(
                judgement.verdict,
                Verdict::LikelyLeak,
                "{period} {length} {judgement:?}"
            );
        }
        // Three batches are growth.
        assert_eq!(batches(5, 15).verdict, Verdict::Growing);
    }

    #[test]
    fn a_cache_that_is_filled_in_batches_has_stopped_when_they_end() {
        let births = (0..10).flat_map(|batch| (0..1000).map(move |i| batch * SECOND + i * 100_000));
        let judged = judge(&site(births), 20 * SECOND, &Rules::default());
        assert_eq!(judged.verdict, Verdict::Stopped, "{judged:?}");
    }

    #[test]
    fn bursts_are_growth_but_not_yet_a_leak() {
        let births = [5u64, 15, 70, 86]
            .into_iter()
            .flat_map(|s| (0..30).map(move |i| s * SECOND + i));
        let judgement = judge(&site(births), 100 * SECOND, &Rules::default());
        assert_eq!(judgement.verdict, Verdict::Growing);
        assert_eq!(judgement.doubt, Some(Doubt::Uneven));
    }
}
