//! Does the heap as a whole grow? A line through the points of the timeline says how fast, and how sure that is.

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
    pub points: usize,
}

const LEAST_POINTS: usize = 8;
const LEAST_SECONDS: f64 = 2.0;

impl Trend {
    /// Seen often and long enough to say that it does not grow.
    pub fn can_tell(&self) -> bool {
        self.points >= LEAST_POINTS && self.seconds >= LEAST_SECONDS
    }

    /// Growth beyond doubt: more than four standard deviations, and more than a tenth of what is there.
    pub fn grows(&self) -> bool {
        self.can_tell() && self.rate > 4.0 * self.error && self.share > 0.1
    }
}

/// The trend of what a program holds, by its timeline.
pub fn of_snapshot(snapshot: &Snapshot) -> Option<Trend> {
    let point = |point: &profile_file::layout::Point| Point {
        ns: point.ns,
        live: point.live_bytes + point.huge_bytes,
    };
    let points: Vec<Point> = snapshot.profile.timeline.iter().map(point).collect();
    of(&points)
}

/// The trend of the later half of the time: that a program filled its memory at the beginning says nothing of now.
pub fn of(points: &[Point]) -> Option<Trend> {
    let (first, last) = (points.first()?, points.last()?);
    let middle = first.ns + last.ns.saturating_sub(first.ns) / 2;
    let late: Vec<&Point> = points.iter().filter(|point| point.ns >= middle).collect();
    if late.len() < 3 {
        return None;
    }
    let count = late.len() as f64;
    let begin = late[0].ns;
    let points: Vec<(f64, f64)> = late
        .iter()
        .map(|m| (m.ns.saturating_sub(begin) as f64 / 1e9, m.live as f64))
        .collect();
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if xx <= 0.0 {
        return None;
    }
    let xy: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let rate = xy / xx;
    let rest: f64 = points
        .iter()
        .map(|(x, y)| (y - y_mean - rate * (x - x_mean)).powi(2))
        .sum();
    // Neighbouring points are alike, so there are fewer independent ones than points: half of them is a modest guess.
    let error = (rest / (count / 2.0 - 1.0).max(1.0) / xx).sqrt();
    let seconds = points.last().map_or(0.0, |p| p.0);
    let end = (y_mean + rate * (seconds - x_mean)).max(1.0);
    Some(Trend {
        rate,
        error,
        seconds,
        share: rate * seconds / end,
        points: late.len(),
    })
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
