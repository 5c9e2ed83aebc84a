//! The arithmetic of comparing: medians, ratios taken pair by pair, and when a difference may be called one.
//!
//! Everything here is pure and works on slices, so that it can be tested without running anything.
//!
//! Why ratios pair by pair: allocators run interleaved (A B C A B C), so what disturbed the machine during a round
//! disturbed all of them. The ratio within a round cancels it; the ratio of two medians does not.

/// Middle of the sorted values; the mean of the two middle ones for an even number. None when there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    })
}

pub fn minimum(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// How far the values lie apart: (maximum - minimum) / median. 0 for a single value.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let low = minimum(values)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some(if middle > 0.0 {
        (high - low) / middle
    } else {
        0.0
    })
}

/// The n-th root of the product, by logarithms so that nothing overflows. None without values or with one that is
/// not positive, because a zero would hide all the others.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| *v <= 0.0) {
        return None;
    }
    let sum: f64 = values.iter().map(|v| v.ln()).sum();
    Some((sum / values.len() as f64).exp())
}

/// What is known of a ratio: the estimate and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Number of pairs. With one there is no interval, and the verdict is always `Same`.
    pub pairs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Less,
    Same,
    More,
}

/// Differences below this are not called differences, however sure they are: half a percent comes from where the
/// loader happens to put a library, and the next build puts it elsewhere.
pub const NEGLIGIBLE: f64 = 0.01;

impl Ratio {
    /// Ranks only what the noise separates: the whole interval has to lie on one side of 1, and the estimate has to
    /// be off by more than is negligible.
    pub fn verdict(&self) -> Verdict {
        if self.pairs < 2 || (self.value - 1.0).abs() < NEGLIGIBLE {
            Verdict::Same
        } else if self.high < 1.0 {
            Verdict::Less
        } else if self.low > 1.0 {
            Verdict::More
        } else {
            Verdict::Same
        }
    }
}

/// Student's t for 95 % on both sides, by degrees of freedom from 1 on; beyond the table it
/// falls from 2.16 to 1.96, and one value on the careful side will do.
const STUDENT: [f64; 12] = [
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
];

/// Resamplings of the bootstrap. The ends of the interval move by less than their own width / 20 beyond this.
const RESAMPLINGS: usize = 2000;

/// What is known of the noise from all allocators of a group together: the variance of the logarithm of one value, and
/// on how many degrees of freedom that rests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    pub variance: f64,
    pub degrees: usize,
}

/// The noise that is left in a table of values (a row an allocator, a column a round) when each allocator's own level
/// and each round's common disturbance are taken out: the residual of a two-way layout. None below two of either.
pub fn residual_noise(rows: &[Vec<f64>]) -> Option<Noise> {
    let columns = rows.iter().map(Vec::len).min()?;
    if rows.len() < 2 || columns < 2 || rows.iter().flatten().any(|value| *value <= 0.0) {
        return None;
    }
    let logs: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row[..columns].iter().map(|v| v.ln()).collect())
        .collect();
    let row_means: Vec<f64> = logs.iter().map(|row| mean(row)).collect();
    let column_means: Vec<f64> = (0..columns)
        .map(|c| logs.iter().map(|row| row[c]).sum::<f64>() / logs.len() as f64)
        .collect();
    let overall = mean(&row_means);
    let squares = logs.iter().zip(&row_means).flat_map(|(row, row_mean)| {
        row.iter()
            .zip(&column_means)
            .map(move |(x, column_mean)| (x - row_mean - column_mean + overall).powi(2))
    });
    let degrees = (rows.len() - 1) * (columns - 1);
    Some(Noise {
        variance: squares.sum::<f64>() / degrees as f64,
        degrees,
    })
}

/// The ratio of two measurements that were taken in pairs, in the order of the rounds.
///
/// The estimate is the median of the ratios. The interval is the wider of two: the bootstrap of the mean logarithm,
/// which makes no assumption on the distribution, and Student's t on the logarithms. With three or five pairs the
/// bootstrap alone is far too sure of itself (all three on one side happens by chance in one of four cases), and t
/// alone trusts in a normal distribution that a disturbed machine does not keep.
///
/// Two or three pairs say little of their own variance. The noise of the whole group, which all allocators shared,
/// is therefore averaged in, each weighted by its degrees of freedom ("moderated" t).
pub fn paired_ratio(ours: &[f64], theirs: &[f64], group: Option<Noise>) -> Option<Ratio> {
    let logs: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .filter(|(a, b)| **a > 0.0 && **b > 0.0)
        .map(|(a, b)| (a / b).ln())
        .collect();
    let value = median(&logs)?.exp();
    if logs.len() < 2 {
        return Some(Ratio {
            value,
            low: 0.0,
            high: f64::INFINITY,
            pairs: logs.len(),
        });
    }
    let (boot_low, boot_high) = bootstrap(&logs);
    let (t_low, t_high) = moderated(&logs, group.unwrap_or_default());
    Some(Ratio {
        value,
        low: boot_low.min(t_low).exp().min(value),
        high: boot_high.max(t_high).exp().max(value),
        pairs: logs.len(),
    })
}

/// The ratio of two measurements from different runs, where nothing pairs them: Welch's interval on the logarithms,
/// with the smaller sample's degrees of freedom, which errs on the careful side.
pub fn unpaired_ratio(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let logs = |values: &[f64]| -> Vec<f64> {
        values
            .iter()
            .filter(|v| **v > 0.0)
            .map(|v| v.ln())
            .collect()
    };
    let (ours, theirs) = (logs(ours), logs(theirs));
    let value = (median(&ours)? - median(&theirs)?).exp();
    let fewer = ours.len().min(theirs.len());
    if fewer < 2 {
        return Some(Ratio {
            value,
            low: 0.0,
            high: f64::INFINITY,
            pairs: fewer,
        });
    }
    let middle = mean(&ours) - mean(&theirs);
    let error =
        (variance(&ours) / ours.len() as f64 + variance(&theirs) / theirs.len() as f64).sqrt();
    let half = student_factor(fewer) * error;
    Some(Ratio {
        value,
        low: (middle - half).exp().min(value),
        high: (middle + half).exp().max(value),
        pairs: fewer,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn moderated(logs: &[f64], group: Noise) -> (f64, f64) {
    let own = (logs.len() - 1) as f64;
    // A ratio is the difference of two logarithms, hence twice the variance of one.
    let pooled = 2.0 * group.variance * group.degrees as f64;
    let variance = (variance(logs) * own + pooled) / (own + group.degrees as f64);
    let half = student_factor(logs.len() + group.degrees) * (variance / logs.len() as f64).sqrt();
    (mean(logs) - half, mean(logs) + half)
}

/// For a sample of so many values; at least two.
fn student_factor(values: usize) -> f64 {
    STUDENT.get(values - 2).copied().unwrap_or(2.1)
}

fn variance(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

fn bootstrap(logs: &[f64]) -> (f64, f64) {
    // A fixed seed: the same record must always give the same table.
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut means: Vec<f64> = (0..RESAMPLINGS)
        .map(|_| {
            (0..logs.len())
                .map(|_| logs[random.below(logs.len())])
                .sum::<f64>()
                / logs.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (
        means[RESAMPLINGS / 40],
        means[RESAMPLINGS - 1 - RESAMPLINGS / 40],
    )
}

/// Marsaglia's generator; a statistics crate for two thousand draws would be out of proportion.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half times the limit: no division, and no bias that matters below a million.
        (((self.0 >> 32) * limit as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[1.0, 2.0, 3.0]), Some(1.0));
    }

    #[test]
    fn geometric_mean_of_inverse_ratios_is_one() {
        assert!((geometric_mean(&[2.0, 0.5, 4.0, 0.25]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }

    #[test]
    fn a_common_disturbance_cancels() {
        // Round three was disturbed by half for both; the ratio stays 1.10 and certain.
        let ours = [1.10, 1.12, 1.66, 1.10, 1.09];
        let theirs = [1.00, 1.02, 1.50, 1.00, 1.00];
        let ratio = paired_ratio(&ours, &theirs, None).unwrap();
        assert!((ratio.value - 1.10).abs() < 0.01, "{ratio:?}");
        assert_eq!(ratio.verdict(), Verdict::More);
    }

    #[test]
    fn three_pairs_on_one_side_by_chance_prove_nothing() {
        let ratio = paired_ratio(&[1.02, 1.06, 1.01], &[1.0, 1.0, 1.0], None).unwrap();
        assert_eq!(ratio.verdict(), Verdict::Same, "{ratio:?}");
        assert_eq!(
            paired_ratio(&[5.0], &[1.0], None).unwrap().verdict(),
            Verdict::Same
        );
    }

    #[test]
    fn noise_of_equal_programs_is_seldom_called_a_difference() {
        // Four hundred comparisons of two out of seven equal programs with 5 % of noise and a disturbance of each round:
        // about one in twenty may be called different, whether there are two rounds or five.
        let mut random = Xorshift(42);
        let mut uniform = move || random.below(1000) as f64 / 1000.0 - 0.5;
        for rounds in [2, 3, 5] {
            let mut wrong = 0;
            for _ in 0..400 {
                let common: Vec<f64> = (0..rounds).map(|_| uniform() * 0.5).collect();
                let mut noise = || (0..6).map(|_| uniform()).sum::<f64>() * 0.07;
                let table: Vec<Vec<f64>> = (0..7)
                    .map(|_| common.iter().map(|c| (c + noise()).exp()).collect())
                    .collect();
                let ratio = paired_ratio(&table[0], &table[1], residual_noise(&table)).unwrap();
                wrong += usize::from(ratio.verdict() != Verdict::Same);
            }
            assert!(wrong <= 28, "{wrong} of 400 with {rounds} rounds");
        }
    }

    #[test]
    fn what_rounds_and_allocators_have_in_common_is_no_noise() {
        let noise = residual_noise(&[vec![1.0, 2.0, 4.0], vec![3.0, 6.0, 12.0]]).unwrap();
        assert!(noise.variance < 1e-20 && noise.degrees == 2, "{noise:?}");
        assert_eq!(residual_noise(&[vec![1.0, 2.0]]), None);
        assert_eq!(residual_noise(&[vec![1.0], vec![2.0]]), None);
    }

    #[test]
    fn two_rounds_suffice_when_the_group_is_quiet() {
        let table = [
            vec![1.2, 1.21],
            vec![1.0, 1.0],
            vec![0.9, 0.91],
            vec![2.0, 2.01],
            vec![1.5, 1.49],
        ];
        assert_eq!(
            paired_ratio(&table[0], &table[1], None).unwrap().verdict(),
            Verdict::More
        );
        let restless = [vec![1.2, 1.4], vec![1.0, 1.0]];
        assert_eq!(
            paired_ratio(&restless[0], &restless[1], None)
                .unwrap()
                .verdict(),
            Verdict::Same
        );
        let ratio = paired_ratio(&[1.2, 1.3], &[1.0, 1.0], residual_noise(&table)).unwrap();
        assert_eq!(ratio.verdict(), Verdict::More, "{ratio:?}");
    }

    #[test]
    fn runs_of_different_days_need_a_wider_gap() {
        let before = [1.0, 1.01, 0.99, 1.0, 1.02];
        assert_eq!(
            unpaired_ratio(&[1.2, 1.21, 1.19, 1.22, 1.2], &before)
                .unwrap()
                .verdict(),
            Verdict::More
        );
        assert_eq!(
            unpaired_ratio(&[1.2, 0.9, 1.1, 1.0, 1.05], &before)
                .unwrap()
                .verdict(),
            Verdict::Same
        );
        assert_eq!(
            unpaired_ratio(&[9.0], &before).unwrap().verdict(),
            Verdict::Same
        );
    }

    #[test]
    fn ten_percent_is_seen_through_three_percent_of_noise() {
        let ratio = paired_ratio(
            &[1.09, 1.12, 1.10, 1.08, 1.13],
            &[1.0, 0.99, 1.01, 1.0, 1.02],
            None,
        )
        .unwrap();
        assert_eq!(ratio.verdict(), Verdict::More, "{ratio:?}");
        let back = paired_ratio(
            &[1.0, 0.99, 1.01, 1.0, 1.02],
            &[1.09, 1.12, 1.10, 1.08, 1.13],
            None,
        )
        .unwrap();
        assert_eq!(back.verdict(), Verdict::Less);
    }
}
