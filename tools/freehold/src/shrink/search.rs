//! The search for a smaller trace: delta debugging, from whole threads down to single blocks.

use anyhow::Result;
use trace_file::Op;

use super::lives::Lives;

pub enum Answer {
    Shows,
    DoesNot,
    /// No more questions: the time is up.
    Stop,
}

pub struct Search<'a> {
    best: Vec<Op>,
    ask: &'a mut dyn FnMut(&[Op]) -> Result<Answer>,
    stopped: bool,
}

pub struct Found {
    pub ops: Vec<Op>,
    /// No thread, no size and no single block can be left out any more.
    pub is_minimal: bool,
}

/// `ops` is a valid trace that shows it. Each candidate is valid, and shorter than the one before.
pub fn search(ops: Vec<Op>, ask: &mut dyn FnMut(&[Op]) -> Result<Answer>) -> Result<Found> {
    let mut search = Search {
        best: ops,
        ask,
        stopped: false,
    };
    loop {
        let before = search.best.len();
        search.cut_end()?;
        search.leave_out(Lives::threads)?;
        search.cut_beginning()?;
        search.leave_out(Lives::sizes)?;
        search.leave_out(Lives::singles)?;
        if search.stopped || search.best.len() == before {
            return Ok(Found {
                ops: search.best,
                is_minimal: !search.stopped,
            });
        }
    }
}

impl Search<'_> {
    fn shows(&mut self, ops: Vec<Op>) -> Result<bool> {
        if self.stopped || ops.is_empty() || ops.len() >= self.best.len() {
            return Ok(false);
        }
        match (self.ask)(&ops)? {
            Answer::Shows => {
                self.best = ops;
                return Ok(true);
            }
            Answer::DoesNot => {}
            Answer::Stop => self.stopped = true,
        }
        Ok(false)
    }

    fn lives(&self) -> Lives {
        Lives::new(self.best.clone())
    }

    /// What comes after it was shown says nothing.
    fn cut_end(&mut self) -> Result<()> {
        let lives = self.lives();
        let (mut least, mut most) = (0, lives.ops().len());
        while least < most && !self.stopped {
            let middle = least + (most - least) / 2;
            if self.shows(lives.head(middle))? {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Ok(())
    }

    /// What came before may matter only by what it left behind.
    fn cut_beginning(&mut self) -> Result<()> {
        let lives = self.lives();
        let (mut least, mut most) = (0, lives.ops().len());
        while least < most && !self.stopped {
            let middle = most - (most - least) / 2;
            if self.shows(lives.tail(middle))? {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        Ok(())
    }

    /// Leaves out groups of lives: half of them, then quarters, down to single ones. A chunk of lives in the order in which
    /// they began is a range of time.
    fn leave_out(&mut self, groups: fn(&Lives) -> Vec<usize>) -> Result<()> {
        let lives = self.lives();
        let group = groups(&lives);
        let count = group.iter().max().map_or(0, |most| most + 1);
        let mut left: Vec<usize> = (0..count).collect();
        let without = |search: &mut Self, left: &mut Vec<usize>, out: &dyn Fn(usize) -> bool| {
            let mut kept = vec![false; count];
            let places = left.iter().enumerate();
            for (_, one) in places.filter(|(place, _)| !out(*place)) {
                kept[*one] = true;
            }
            let shows = search.shows(lives.keep(|life| kept[group[life]]))?;
            if shows {
                left.retain(|one| kept[*one]);
            }
            anyhow::Ok(shows)
        };
        let mut chunk = count.div_ceil(2);
        while chunk > 0 && left.len() > 1 && !self.stopped {
            // Every second chunk at once: a pattern that repeats becomes thinner and stays what it is.
            while left.len() > chunk && without(self, &mut left, &|place| place / chunk % 2 == 1)? {
            }
            let mut at = 0;
            while at < left.len() && !self.stopped {
                let end = (at + chunk).min(left.len());
                if !without(self, &mut left, &|place| (at..end).contains(&place))? {
                    at = end;
                }
            }
            chunk = if chunk == 1 {
                0
            } else {
                chunk.div_ceil(2).min(left.len())
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trace_file::{Checker, Kind};

    use super::*;

    fn op(kind: Kind, thread: u32, slot: u32, size: u64) -> Op {
        Op {
            kind,
            thread,
            time: 0,
            slot,
            size,
            align: 0,
        }
    }

    /// Two blocks of one thread, 1,001 and 1,003 bytes, must be live at once; all else is noise.
    fn noise_around_two() -> Vec<Op> {
        let mut ops = Vec::new();
        for number in 0..400u32 {
            let thread = number.min(number % 3);
            ops.push(op(Kind::Malloc, thread, number, u64::from(number % 7)));
        }
        ops[130].size = 1001;
        ops[310].size = 1003;
        for number in (0..400).filter(|number| number % 2 == 1) {
            ops.push(op(Kind::Free, 0, number, 0));
        }
        ops
    }

    fn has_both(ops: &[Op]) -> bool {
        let mut check = Checker::default();
        let mut live = std::collections::HashMap::new();
        ops.iter().any(|op| {
            check.check(op).unwrap();
            if op.kind.allocates() {
                live.insert(op.slot, op.size);
            } else {
                live.remove(&op.slot);
            }
            [1001, 1003]
                .iter()
                .all(|size| live.values().any(|one| one == size))
        })
    }

    #[test]
    fn only_what_matters_is_left() {
        let mut asked = 0;
        let found = search(noise_around_two(), &mut |ops| {
            asked += 1;
            Ok(if has_both(ops) {
                Answer::Shows
            } else {
                Answer::DoesNot
            })
        })
        .unwrap();
        let left: Vec<(Kind, u64)> = found.ops.iter().map(|op| (op.kind, op.size)).collect();
        assert_eq!(left, [(Kind::Malloc, 1001), (Kind::Malloc, 1003)]);
        assert!(found.is_minimal);
        assert!(asked < 150, "{asked} candidates");
    }

    #[test]
    fn the_best_so_far_is_kept_when_the_time_is_up() {
        let mut asked = 0;
        let found = search(noise_around_two(), &mut |ops| {
            asked += 1;
            Ok(if asked > 8 {
                Answer::Stop
            } else if has_both(ops) {
                Answer::Shows
            } else {
                Answer::DoesNot
            })
        })
        .unwrap();
        assert_eq!(asked, 9, "it is asked again after Stop");
        assert!(!found.is_minimal);
        assert!(has_both(&found.ops) && found.ops.len() < 600);
    }
}
