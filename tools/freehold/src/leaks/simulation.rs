//! Simulated programs, to know how often the verdict is wrong. Only for tests.
//!
//! Blocks are drawn as the library draws them: each with the probability 1 − exp(−s/T), so only those that are
//! sampled need to be made: a site that allocates r bytes a second in blocks of s has samples at a rate of r/s · P.

use super::verdict::{AGES, History, Judgement, LiveSample, Rules, Verdict, judge};

const SECOND: f64 = 1e9;
const INTERVAL: f64 = 512.0 * 1024.0;

/// A small generator: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Within (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Log-uniform: 1 to 10 is as likely as 10 to 100.
    fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// How a site allocates and frees; times in seconds.
enum Manner {
    /// Never frees a part of its blocks; the others live shortly.
    Leak { part: f64, life: f64 },
    /// A cache that takes in blocks until it is full, and keeps them.
    Fills { until: f64 },
    /// A cache of random keys: the fuller it is the less it takes in.
    Saturates { scale: f64 },
    /// Blocks live for a time with an exponential distribution.
    Random { life: f64 },
    /// Each block lives equally long: a queue, or a cache that replaces the oldest.
    Queue { life: f64 },
    /// All blocks of a period are freed together at its end.
    Generations { period: f64 },
    /// Set up in the first seconds, kept.
    Start { length: f64 },
    /// Usually short lives, some a hundred times longer.
    Mixed { life: f64 },
}

struct Site {
    manner: Manner,
    /// Samples a second, while it allocates.
    rate: f64,
    size: f64,
    begin: f64,
}

impl Site {
    fn run(&self, end: f64, dice: &mut Dice) -> History {
        let weight = self.size / -(-self.size / INTERVAL).exp_m1();
        let mut history = History {
            mean_weight: weight,
            first_ns: u64::MAX,
            ..History::default()
        };
        let mut now = self.begin;
        loop {
            now += dice.exponential(1.0 / self.rate);
            if now >= end {
                break;
            }
            let Some(death) = self.death(now - self.begin, dice) else {
                continue;
            };
            history.first_ns = history.first_ns.min((now * SECOND) as u64);
            let death = death + self.begin;
            if death > end {
                history.live.push(LiveSample {
                    born_ns: (now * SECOND) as u64,
                    weight,
                });
            } else {
                let micros = (death - now) * 1e6;
                let age = (0..AGES - 1)
                    .position(|k| micros < 4f64.powi(k as i32))
                    .unwrap_or(AGES - 1);
                history.freed_at_age[age] += weight;
            }
        }
        history.first_ns = history.first_ns.min((end * SECOND) as u64);
        history
    }

    /// When a block that is born at `now` dies; both are counted from the site's beginning. None: it is not allocated.
    fn death(&self, now: f64, dice: &mut Dice) -> Option<f64> {
        let never = f64::INFINITY;
        match self.manner {
            Manner::Leak { part, life } => Some(if dice.unit() <= part {
                never
            } else {
                now + dice.exponential(life)
            }),
            Manner::Fills { until } => (now < until).then_some(never),
            Manner::Start { length } => (now < length).then_some(never),
            Manner::Saturates { scale } => (dice.unit() < (-now / scale).exp()).then_some(never),
            Manner::Random { life } => Some(now + dice.exponential(life)),
            Manner::Queue { life } => Some(now + life),
            Manner::Generations { period } => Some((now / period).floor() * period + period),
            Manner::Mixed { life } => {
                let factor = if dice.unit() < 0.05 { 100.0 } else { 1.0 };
                Some(now + dice.exponential(life * factor))
            }
        }
    }
}

/// A site that is no leak, with lifetimes up to a quarter of the run.
fn innocent(length: f64, dice: &mut Dice) -> Site {
    let life = dice.magnitude(1e-6, length / 4.0);
    let manner = match dice.next() % 7 {
        0 => Manner::Fills {
            until: length * dice.between(0.05, 0.8),
        },
        1 => Manner::Saturates {
            scale: length * dice.between(0.02, 0.3),
        },
        2 => Manner::Random { life },
        3 => Manner::Queue { life },
        4 => Manner::Generations { period: life },
        5 => Manner::Start {
            length: length * dice.between(0.001, 0.1),
        },
        _ => Manner::Mixed { life: life / 100.0 },
    };
    Site {
        manner,
        rate: dice.magnitude(0.05, 20.0) * 60.0 / length,
        size: dice.magnitude(16.0, 4e6),
        begin: 0.0,
    }
}

fn verdict(site: &Site, length: f64, dice: &mut Dice) -> Judgement {
    let history = site.run(length, dice);
    judge(&history, (length * SECOND) as u64, &Rules::default())
}

/// The stated bound: of programs with fifty sites that do not leak, one in a hundred has one that is called.
#[test]
fn of_a_thousand_programs_without_a_leak_fewer_than_ten_are_accused() {
    let mut accused = 0;
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let length = dice.magnitude(5.0, 86_400.0);
        let called = (0..50)
            .filter(|_| {
                let site = innocent(length, &mut dice);
                verdict(&site, length, &mut dice).verdict == Verdict::LikelyLeak
            })
            .count();
        accused += usize::from(called > 0);
    }
    println!("programs with a false verdict: {accused} of 1000");
    assert!(accused < 10, "{accused} of 1000 programs were accused");
}

/// Forty samples of what leaked are enough in nearly all cases, a hundred in all that count.
#[test]
fn leaks_are_found_once_there_are_samples_of_them() {
    for (survivors, least) in [(40.0, 0.85), (100.0, 0.95)] {
        let mut found = 0;
        for seed in 0..500 {
            let mut dice = Dice(seed << 20);
            let length = dice.magnitude(5.0, 86_400.0);
            let part = dice.magnitude(0.002, 1.0);
            let site = Site {
                manner: Manner::Leak {
                    part,
                    life: dice.magnitude(1e-6, length / 100.0),
                },
                rate: survivors / part / length,
                size: dice.magnitude(16.0, 1e5),
                begin: 0.0,
            };
            found += usize::from(verdict(&site, length, &mut dice).verdict == Verdict::LikelyLeak);
        }
        let share = f64::from(found as u32) / 500.0;
        println!("{survivors} survivors: found {share}");
        assert!(
            share >= least,
            "{share} of the leaks with {survivors} samples were found"
        );
    }
}

/// The rate is right: the mean over many runs lies within its own error, and the error bar holds the truth.
#[test]
fn the_rate_of_a_leak_is_unbiased_and_its_error_honest() {
    let (length, size, samples) = (600.0, 1024.0, 0.5);
    let truth = size / -(-size / INTERVAL).exp_m1() * samples;
    let (mut sum, mut within, mut runs) = (0.0, 0, 0);
    for seed in 0..400 {
        let mut dice = Dice(seed * 7919 + 1);
        let site = Site {
            manner: Manner::Leak {
                part: 1.0,
                life: 1.0,
            },
            rate: samples,
            size,
            begin: 0.0,
        };
        let judgement = verdict(&site, length, &mut dice);
        if let Some(growth) = judgement.growth {
            let (rate, error) = growth.rate();
            sum += rate;
            within += usize::from((rate - truth).abs() < 2.0 * error);
            runs += 1;
        }
    }
    let mean = sum / f64::from(runs);
    assert!(
        (mean / truth - 1.0).abs() < 0.02,
        "mean {mean}, truth {truth}"
    );
    assert!(
        within * 100 >= runs as usize * 92,
        "{within} of {runs} within two sigma"
    );
}

/// A cache that grows and stops, looked at when it is full, and with few or many samples.
#[test]
fn a_cache_that_grows_and_stops_is_not_called() {
    let mut called = 0;
    for seed in 0..2000 {
        let mut dice = Dice(seed ^ 0xCAC4E);
        let length = dice.magnitude(5.0, 3600.0);
        let site = Site {
            manner: Manner::Fills {
                until: length * dice.between(0.05, 0.7),
            },
            rate: dice.magnitude(20.0, 2000.0) / length,
            size: dice.magnitude(16.0, 1e5),
            begin: 0.0,
        };
        called += usize::from(verdict(&site, length, &mut dice).verdict == Verdict::LikelyLeak);
    }
    assert!(
        called <= 2,
        "{called} of 2000 full caches were called leaks"
    );
}
