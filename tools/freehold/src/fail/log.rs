//! What the library writes into its `fail_log`: `src/misuse/fail.h` says how.

use std::collections::HashMap;

/// An allocation site, by its call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub hash: u32,
    /// What it asked for when it was seen first.
    pub bytes: u64,
    /// File and offset, the innermost first.
    pub stack: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub blocks: u64,
    pub bytes: u64,
}

/// One run's.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// In the order in which they were met.
    pub sites: Vec<Site>,
    /// What was live when processes ended by themselves.
    pub live: HashMap<u32, Live>,
    /// Allocations that failed on purpose.
    pub failed: u64,
}

impl Log {
    /// A line that was cut by the end of a process is left out.
    pub fn parse(text: &str) -> Log {
        let mut log = Log::default();
        for line in text.split_inclusive('\n') {
            let _ = line.strip_suffix('\n').and_then(|line| log.add(line));
        }
        log
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.split('\t');
        let what = words.next()?;
        let _pid: u64 = words.next()?.parse().ok()?;
        let hash = hex(words.next()?)?;
        let hash = u32::try_from(hash).ok()?;
        let first: u64 = words.next()?.parse().ok()?;
        match what {
            "site" => {
                let mut stack = Vec::new();
                while let (Some(offset), Some(path)) = (words.next(), words.next()) {
                    stack.push((path.to_owned(), hex(offset)?));
                }
                if self.sites.iter().all(|site| site.hash != hash) {
                    self.sites.push(Site {
                        hash,
                        bytes: first,
                        stack,
                    });
                }
            }
            "live" => {
                let live = self.live.entry(hash).or_default();
                live.blocks += first;
                live.bytes += words.next()?.parse::<u64>().ok()?;
            }
            "fail" => self.failed += 1,
            _ => {}
        }
        Some(())
    }
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_processes() {
        let log = Log::parse(
            "site\t7\t0xa\t10\t0x12\t/bin/a b\t0x5\t?\nfail\t8\t0xa\t10\nsite\t8\t0xa\t11\nlive\t7\t0xa\t2\t20\n\
             live\t8\t0xa\t1\t10\nnoise\nsite\t9\t0xb",
        );
        assert_eq!(
            log.sites,
            [Site {
                hash: 10,
                bytes: 10,
                stack: vec![("/bin/a b".to_owned(), 0x12), ("?".to_owned(), 5)],
            }]
        );
        assert_eq!(log.failed, 1);
        assert_eq!(
            log.live[&10],
            Live {
                blocks: 3,
                bytes: 30
            }
        );
    }
}
