//! Does the heap as a whole grow? A line through the looks at it says how fast, and how sure that is.
//!
//! The library looks when a thread is in a slow path. So between two looks nothing much has happened, and a program that
//! stands still is not looked at: what was found stays until the next look, and the last one until now.

use profile_file::Snapshot;
use serde::Serialize;

/// One look at the heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub ns: u64,
    pub live: u64,
}

/// How the live bytes develop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// Bytes a second.
    pub rate: f64,
    /// One standard deviation of it.
    pub error: f64,
    /// Seconds that were looked at.
    pub seconds: f64,
    /// Bytes that the line rose by in this time, as a share of what is live at its end.
    pub share: f64,
    /// Looks in this time.
    pub points: usize,
    /// The last third of the time has its part in the rise, and the last sixth too.
    pub goes_on: bool,
    /// For the larger part of the time, until its end, the program stood still.
    pub stands_still: bool,
}

const LEAST_POINTS: usize = 8;
/// The end is long after the last look if the time between is more than one in so many of the time before.
const LONG_AFTER: u64 = 8;
const LEAST_SECONDS: f64 = 2.0;
/// Moments that the line goes through.
const MOMENTS: usize = 96;
/// Of what a third rose by over the one before it, the next must rise by so much to go on. A program that grew for half of
/// the time and then stopped has a seventh.
const GOES_ON: f64 = 0.25;
/// And the last sixth must rise by so much of what a sixth does in the mean. A pause of a fifth of the time leaves less, and a site
/// that paused for that long is said to have stopped.
const GOES_ON_AT_LAST: f64 = 0.5;
/// A change below this share of what is live is none.
const LEAST_SHARE: f64 = 0.1;

impl Trend {
    /// Seen often and long enough to say that it does not grow.
    pub fn can_tell(&self) -> bool {
        (self.points >= LEAST_POINTS || self.stands_still) && self.seconds >= LEAST_SECONDS
    }

    /// Growth beyond doubt: more than four standard deviations, more than a tenth of what is there, and until now.
    pub fn grows(&self) -> bool {
        self.points >= LEAST_POINTS
            && self.seconds >= LEAST_SECONDS
            && self.rate > 4.0 * self.error
            && self.share > LEAST_SHARE
            && self.goes_on
    }
}

/// The trend of what a program holds, by its timeline and by what was counted since.
pub fn of_snapshot(snapshot: &Snapshot) -> Option<Trend> {
    let profile = &snapshot.profile;
    let mut points: Vec<Point> = profile
        .timeline
        .iter()
        .map(|point| Point {
            ns: point.ns,
            live: point.live_bytes.saturating_add(point.huge_bytes),
        })
        .collect();
    let last = points.last().map_or(0, |point| point.ns);
    if let Some(now) = profile.statistics.as_ref().filter(|it| it.taken_ns > last) {
        points.push(Point {
            ns: now.taken_ns,
            live: now.live_bytes.saturating_add(now.huge_bytes),
        });
    }
    // When it ended is known. If that is long after its last word, and not only after the last look, it stood still since.
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let seen = last.ns.saturating_sub(first.ns);
        let since = snapshot.now_ns().saturating_sub(snapshot.last_word_ns());
        if snapshot.reading.ran_until_ns.is_some() && since > seen / LONG_AFTER {
            points.push(Point {
                ns: snapshot.now_ns().max(last.ns),
                live: last.live,
            });
        }
    }
    of(&points)
}

/// The trend of the later half of the time: that a program filled its memory at the beginning says nothing of now.
pub fn of(points: &[Point]) -> Option<Trend> {
    let (first, last) = (points.first()?, points.last()?);
    let middle = first.ns + last.ns.saturating_sub(first.ns) / 2;
    let looks = points.iter().filter(|point| point.ns >= middle).count();
    let seconds = last.ns.saturating_sub(middle) as f64 / 1e9;
    let before_last = points.len().checked_sub(2).map(|place| points[place])?;
    let stands_still = before_last.ns.max(middle) - middle < last.ns.saturating_sub(before_last.ns)
        && last.live as f64 <= before_last.live as f64 * (1.0 + LEAST_SHARE);
    let stands_still = stands_still && seconds >= LEAST_SECONDS;
    if seconds <= 0.0 || (looks < 3 && !stands_still) {
        return None;
    }
    let live = at_moments(points, middle, last.ns);
    let step = seconds / (MOMENTS - 1) as f64;
    let count = MOMENTS as f64;
    let x_mean = seconds / 2.0;
    let y_mean = live.iter().sum::<f64>() / count;
    let along = || {
        live.iter()
            .enumerate()
            .map(|(number, y)| (number as f64 * step - x_mean, y - y_mean))
    };
    let xx: f64 = along().map(|(x, _)| x * x).sum();
    let rate = along().map(|(x, y)| x * y).sum::<f64>() / xx;
    let rest: f64 = along().map(|(x, y)| (y - rate * x).powi(2)).sum();
    // There are no more independent moments than looks, and neighbouring looks are alike: half of them is a modest guess.
    let independent = (looks as f64 / 2.0 - 1.0).max(1.0);
    let end = (y_mean + rate * x_mean).max(1.0);
    let mean_of = |number: usize, parts: usize| {
        let part = MOMENTS / parts;
        live[number * part..(number + 1) * part].iter().sum::<f64>() / part as f64
    };
    let third = |number| mean_of(number, 3);
    let rise = live[MOMENTS - 1] - live[0];
    let at_last = mean_of(5, 6) - mean_of(4, 6);
    Some(Trend {
        rate,
        error: (rest / xx / independent).sqrt(),
        seconds,
        share: rate * seconds / end,
        points: looks,
        goes_on: third(2) - third(1) >= GOES_ON * (third(1) - third(0)).max(0.0)
            && at_last >= GOES_ON_AT_LAST * rise.max(0.0) / 6.0,
        stands_still,
    })
}

/// What was live at evenly spread moments: what was found stays until the next look.
fn at_moments(points: &[Point], from: u64, to: u64) -> Vec<f64> {
    let mut next = 0;
    (0..MOMENTS)
        .map(|number| {
            // Wide: the times of a damaged file may be far apart. The last moment is `to` itself.
            let along = u128::from(to - from) * number as u128 / (MOMENTS - 1) as u128;
            let moment = from + along as u64;
            while next + 1 < points.len() && points[next + 1].ns <= moment {
                next += 1;
            }
            points[next].live as f64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(live: impl Fn(f64) -> f64) -> Vec<Point> {
        (0..100)
            .map(|i| Point {
                ns: (1 << 40) + i * 250_000_000,
                live: live(i as f64 / 4.0) as u64,
            })
            .collect()
    }

    /// Noise without a generator: a sine that is sampled far too rarely.
    fn noise(seconds: f64) -> f64 {
        (seconds * 12_345.678).sin()
    }

    #[test]
    fn a_steady_leak_is_seen_with_its_rate() {
        let trend = of(&series(|t| 1e6 + 5e5 * t + 1e5 * noise(t))).unwrap();
        assert!(trend.grows(), "{trend:?}");
        assert!((trend.rate - 5e5).abs() < 4.0 * trend.error, "{trend:?}");
    }

    #[test]
    fn noise_is_no_growth() {
        let trend = of(&series(|t| 1e7 + 2e6 * noise(t))).unwrap();
        assert!(!trend.grows(), "{trend:?}");
    }

    #[test]
    fn a_cache_that_fills_and_stops_is_no_growth() {
        let trend = of(&series(|t| 1e7 * (t / 5.0).min(1.0))).unwrap();
        assert!(!trend.grows(), "{trend:?}");
    }

    #[test]
    fn a_little_on_top_of_much_is_no_growth() {
        let trend = of(&series(|t| 1e9 + 1e5 * t)).unwrap();
        assert!(trend.rate > 0.0 && !trend.grows(), "{trend:?}");
    }

    #[test]
    fn a_sawtooth_is_no_growth() {
        let trend = of(&series(|t| 1e7 * (t % 3.0))).unwrap();
        assert!(!trend.grows(), "{trend:?}");
    }

    /// Grows for five seconds, a look every quarter of one; what it holds then; and a look after an idle time.
    fn grown_then_idle(then: f64, idle: f64) -> Option<Trend> {
        let mut points = series(|t| 1e6 + 1e7 * t);
        points.truncate(21);
        let (last, held) = (points[20].ns, points[20].live as f64);
        points.push(Point {
            ns: last + (idle * 1e9) as u64,
            live: (held * then) as u64,
        });
        of(&points)
    }

    #[test]
    fn what_was_let_go_before_an_idle_time_does_not_grow() {
        for idle in [0.5, 2.0, 5.0, 17.0, 1000.0] {
            let trend = grown_then_idle(0.0, idle).unwrap();
            assert!(!trend.grows(), "after {idle} s: {trend:?}");
        }
    }

    #[test]
    fn what_stood_still_since_it_grew_does_not_grow_and_that_can_be_told() {
        for idle in [5.0, 17.0, 1000.0] {
            let trend = grown_then_idle(1.0, idle).unwrap();
            assert!(
                !trend.grows() && trend.can_tell(),
                "after {idle} s: {trend:?}"
            );
        }
        // Eight seconds of growth and one of rest, in which the program was looked at.
        let mut points = series(|t| 1e6 + 1e7 * t.min(8.0));
        points.truncate(37);
        let rested = of(&points).unwrap();
        assert!(!rested.grows() && rested.can_tell(), "{rested:?}");
        // It has grown until a moment ago.
        assert!(grown_then_idle(1.0, 0.3).unwrap().grows());
        // What it took between its last look and its rest is no growth.
        let rest = grown_then_idle(1.05, 10.0).unwrap();
        assert!(rest.can_tell() && !rest.grows(), "{rest:?}");
        // Two looks, and more at the second: what lies between them nobody knows.
        assert_eq!(grown_then_idle(1.5, 20.0), None);
    }

    #[test]
    fn looks_that_are_close_together_do_not_count_for_more() {
        // A minute of rest, and then a hundred looks at one burst.
        let mut points = vec![Point {
            ns: 0,
            live: 1 << 20,
        }];
        points.extend((0..100).map(|i| Point {
            ns: 60_000_000_000 + i * 1_000_000,
            live: (1 << 20) + i * 300_000,
        }));
        let trend = of(&points).unwrap();
        assert!(!trend.grows(), "{trend:?}");
    }

    #[test]
    fn wild_times_and_amounts_are_no_panic() {
        let wild = [0, 1, u64::MAX - 1, u64::MAX].map(|ns| Point { ns, live: ns });
        assert!(of(&wild).is_none_or(|trend| !trend.grows()));
    }

    #[test]
    fn too_little_to_say() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&series(|t| t)[..2]), None);
        let short = of(&series(|t| 1e6 * t)[..8]).unwrap();
        assert!(
            !short.grows(),
            "two seconds and some points say nothing: {short:?}"
        );
    }
}
