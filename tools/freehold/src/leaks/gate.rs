//! The check for continuous integration: what has to be found for the command to fail.

use std::str::FromStr;

use profile_file::Snapshot;
use serde::Serialize;

use super::finding::Finding;
use super::text;
use super::verdict::{TOO_MANY_LOST, Verdict};

/// `--fail-on`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// A likely leak; with reachability or marks, what they found.
    Likely,
    /// Anything that grows or is left.
    Any,
    /// More bytes than this.
    Bytes(u64),
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "likely" => Ok(Self::Likely),
            "any" => Ok(Self::Any),
            _ => parse_bytes(word).map(Self::Bytes).ok_or_else(|| {
                format!("{word:?} is neither `likely`, `any` nor a size such as 65536, 64k or 1m")
            }),
        }
    }
}

pub fn parse_bytes(word: &str) -> Option<u64> {
    let (digits, shift) = match word.char_indices().last()? {
        (end, 'k' | 'K') => (&word[..end], 10),
        (end, 'm' | 'M') => (&word[..end], 20),
        (end, 'g' | 'G') => (&word[..end], 30),
        _ => (word, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What was held against the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub failed: bool,
    /// Sites and bytes that count under the rule, without suppressed ones.
    pub sites: usize,
    pub bytes: f64,
    pub suppressed_sites: usize,
    pub suppressed_bytes: f64,
    /// Why nothing that was found means nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
}

impl Outcome {
    /// The exit code. What was found stands, however short one looked.
    pub fn code(&self) -> u8 {
        match (self.failed, &self.unanswered) {
            (true, _) => 1,
            (false, Some(_)) => 2,
            (false, None) => 0,
        }
    }
}

/// Growth is not told in less.
pub const SHORTEST_SECONDS: f64 = 1.0;

/// Why a check that finds nothing must not pass: a pipeline would be green for ever without anybody having looked.
pub fn unanswered(snapshot: &Snapshot, at_exit: bool, reachability: bool) -> Option<String> {
    // With every byte counted, no samples are an answer: nothing was allocated.
    let counted_all = snapshot.interval() == 1 && snapshot.profile.control.lost_samples == 0;
    if let Some(reason) = snapshot.why_empty().filter(|_| !counted_all) {
        return Some(format!(
            "{reason}; run it with --sample 1 to count every block"
        ));
    }
    let share = snapshot.missing().share;
    if share > TOO_MANY_LOST {
        return Some(text::lost(share));
    }
    let seconds = snapshot.running_ns() as f64 / 1e9;
    (!at_exit && !reachability && seconds < SHORTEST_SECONDS).then(|| {
        "it was observed for less than a second, in which no growth can be told; with --exit the question is what was \
         live at the end"
            .to_owned()
    })
}

/// Applies the rule. `at_exit`: the question is what is live at the end, whatever it looks like.
pub fn check(findings: &[Finding], fail_on: Option<FailOn>, at_exit: bool) -> Outcome {
    let counts = |finding: &Finding| {
        let left = at_exit && finding.live_samples > 0;
        match fail_on {
            Some(FailOn::Likely) => finding.is_suspect(),
            Some(FailOn::Any) => {
                left || finding.is_suspect() || finding.verdict == Verdict::Growing
            }
            _ => left || finding.is_suspect(),
        }
    };
    let mut outcome = Outcome {
        failed: false,
        sites: 0,
        bytes: 0.0,
        suppressed_sites: 0,
        suppressed_bytes: 0.0,
        unanswered: None,
    };
    for finding in findings.iter().filter(|finding| counts(finding)) {
        if finding.suppressed_by.is_some() {
            outcome.suppressed_sites += 1;
            outcome.suppressed_bytes += finding.live_bytes;
        } else {
            outcome.sites += 1;
            outcome.bytes += finding.live_bytes;
        }
    }
    outcome.failed = match fail_on {
        None => false,
        Some(FailOn::Bytes(most)) => outcome.bytes > most as f64,
        Some(_) => outcome.sites > 0,
    };
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile_file::testing::ProfileBuilder;

    #[test]
    fn nothing_found_where_nothing_was_seen_is_no_answer() {
        let code = |snapshot: &Snapshot, at_exit| {
            let mut outcome = check(&[], Some(FailOn::Any), at_exit);
            outcome.unanswered = unanswered(snapshot, at_exit, false);
            outcome.code()
        };
        let empty = ProfileBuilder::new(4096).snapshot();
        assert_eq!(code(&empty, true), 2);
        assert_eq!(code(&ProfileBuilder::new(1).snapshot(), true), 0);
        let mut profile = ProfileBuilder::new(4096);
        let site = profile.site(&[0x100]);
        let block = profile.allocate(site, 4096, 0);
        profile.free(block, 10);
        assert_eq!(code(&profile.snapshot(), true), 0);
        // What was not seen for want of room may leak: with --exit as well, where it may be live.
        profile.change(|profile| {
            profile.control.taken = 50;
            profile.control.lost_samples = 49;
        });
        let short = profile.snapshot();
        assert_eq!((code(&short, true), code(&short, false)), (2, 2));
        let mut failed = check(&[], Some(FailOn::Any), true);
        failed.unanswered = unanswered(&empty, true, false);
        failed.failed = true;
        assert_eq!(failed.code(), 1, "what was found stands");
    }

    #[test]
    fn words_and_sizes_are_understood() {
        assert_eq!("likely".parse(), Ok(FailOn::Likely));
        assert_eq!("any".parse(), Ok(FailOn::Any));
        assert_eq!("64k".parse(), Ok(FailOn::Bytes(65536)));
        assert_eq!("0".parse(), Ok(FailOn::Bytes(0)));
        assert!("some".parse::<FailOn>().is_err());
        assert!("99999999999g".parse::<FailOn>().is_err());
    }
}
