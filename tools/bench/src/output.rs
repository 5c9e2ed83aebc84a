//! Reads what a workload printed: lines of "key value", "ok" being the last.
//!
//! The reader is strict where a mistake would make a slow or wrong run look good (a missing "ok", a figure that is no
//! number), and lenient where it does no harm (keys it does not know are kept as they are).

use std::collections::BTreeMap;

use anyhow::{Context, bail};

#[derive(Debug, Default, PartialEq)]
pub struct Output {
    pub figures: BTreeMap<String, f64>,
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    pub check: String,
    pub finished: bool,
}

impl Output {
    /// Takes the figure out, for those that have a field of their own in the record.
    pub fn take(&mut self, key: &str) -> Option<f64> {
        self.figures.remove(key)
    }
}

pub fn parse(text: &str) -> anyhow::Result<Output> {
    let mut output = Output::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Only the last line counts as the seal: something after it means that the program was not done.
        output.finished = line == "ok";
        if output.finished {
            continue;
        }
        let Some((key, value)) = line.split_once(char::is_whitespace) else {
            bail!("line without a value: {line:?}");
        };
        let value = value.trim();
        if key == "check" {
            output.check = value.to_owned();
        } else if let Some(name) = key.strip_prefix("series@") {
            output.series.insert(name.to_owned(), parse_series(value)?);
        } else {
            let number: f64 = value
                .parse()
                .with_context(|| format!("no number: {line:?}"))?;
            if !number.is_finite() {
                bail!("not finite: {line:?}");
            }
            output.figures.insert(key.to_owned(), number);
        }
    }
    Ok(output)
}

fn parse_series(text: &str) -> anyhow::Result<Vec<(f64, f64)>> {
    let point = |pair: &str| -> anyhow::Result<(f64, f64)> {
        let (time, bytes) = pair
            .split_once(':')
            .with_context(|| format!("no pair of time and bytes: {pair:?}"))?;
        Ok((time.trim().parse()?, bytes.trim().parse()?))
    };
    text.split(',')
        .filter(|pair| !pair.trim().is_empty())
        .map(point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_figures_series_and_the_seal() {
        let output = parse("ops 5\nrss@end 4096\ncheck 0a1b\nseries@rss 0:1,0.5:2\nok\n").unwrap();
        assert_eq!(output.figures["ops"], 5.0);
        assert_eq!(output.figures["rss@end"], 4096.0);
        assert_eq!(output.check, "0a1b");
        assert_eq!(output.series["rss"], vec![(0.0, 1.0), (0.5, 2.0)]);
        assert!(output.finished);
    }

    #[test]
    fn a_line_after_ok_breaks_the_seal() {
        assert!(!parse("ops 1\nok\nops 2\n").unwrap().finished);
        assert!(!parse("ops 1\n").unwrap().finished);
        assert!(!parse("").unwrap().finished);
    }

    #[test]
    fn refuses_what_is_no_number() {
        assert!(parse("ops many\nok\n").is_err());
        assert!(parse("ops nan\nok\n").is_err());
        assert!(parse("ops\nok\n").is_err());
        assert!(parse("series@rss 0-1\nok\n").is_err());
    }
}
