//! What a trace has to show: `rss/live > 2 on freehold`.

use std::fmt;

use crate::amounts::parse_bytes;
use crate::leaks::parse_time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Private resident bytes at the highest.
    Rss,
    /// Bytes that were asked for, at the highest.
    Live,
    Time,
    Cpu,
}

const QUANTITIES: [(&str, Quantity); 4] = [
    ("rss", Quantity::Rss),
    ("live", Quantity::Live),
    ("time", Quantity::Time),
    ("cpu", Quantity::Cpu),
];

impl Quantity {
    pub fn is_bytes(self) -> bool {
        matches!(self, Quantity::Rss | Quantity::Live)
    }

    fn name(self) -> &'static str {
        let found = QUANTITIES.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }
}

/// A quantity, on the allocator with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub quantity: Quantity,
    pub on: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Comparison {
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Comparison::Above => value > limit,
            Comparison::AtLeast => value >= limit,
            Comparison::Below => value < limit,
            Comparison::AtMost => value <= limit,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// It dies, or a block is not as it should be.
    Crash,
    /// One quantity, or one over another.
    Compare {
        left: Term,
        over: Option<Term>,
        comparison: Comparison,
        /// A ratio, bytes or nanoseconds.
        limit: f64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub what: What,
    /// As `replay --on` names them, each once.
    pub allocators: Vec<String>,
}

impl Condition {
    pub fn terms(&self) -> Vec<Term> {
        match &self.what {
            What::Crash => Vec::new(),
            What::Compare { left, over, .. } => {
                [Some(*left), *over].into_iter().flatten().collect()
            }
        }
    }

    pub fn asks_for_time(&self) -> bool {
        self.terms().iter().any(|term| !term.quantity.is_bytes())
    }

    /// Without the limit: `rss/live`.
    pub fn name(&self) -> String {
        match &self.what {
            What::Crash => "crash".to_string(),
            What::Compare { left, over, .. } => self.ratio(*left, *over),
        }
    }

    fn ratio(&self, left: Term, over: Option<Term>) -> String {
        let Some(over) = over else {
            return left.quantity.name().to_string();
        };
        let (one, other) = (left.quantity.name(), over.quantity.name());
        if left.on == over.on {
            return format!("{one}/{other}");
        }
        let [left, over] = [left.on, over.on].map(|on| &self.allocators[on]);
        format!("{one} on {left} / {other} on {over}")
    }
}

/// What was wrong with the text of a condition, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

fn wrong<T>(what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong(what.into()))
}

const EXAMPLES: &str = "`rss/live > 2 on freehold`, `time on freehold / time on system > 2` and `crash on freehold` are \
     conditions";

/// A quantity as it was read; the allocator may be named only at the end.
struct Read {
    quantity: Quantity,
    on: Option<usize>,
}

struct Parser {
    words: Vec<String>,
    at: usize,
    allocators: Vec<String>,
}

pub fn parse(text: &str) -> Result<Condition, Wrong> {
    let mut parser = Parser {
        words: words(text),
        at: 0,
        allocators: Vec::new(),
    };
    let what = parser.what()?;
    Ok(Condition {
        what,
        allocators: parser.allocators,
    })
}

/// Words and signs. The word after `on` is an allocator: a path has slashes in it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split_whitespace() {
        if words.last().is_some_and(|word| word == "on") {
            words.push(part.to_string());
            continue;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let sign = |c: char| "/<>=".contains(c);
            let end = match rest.find(sign) {
                Some(0) if rest.starts_with('/') => 1,
                Some(0) => rest.find(|c| !"<>=".contains(c)).unwrap_or(rest.len()),
                Some(end) => end,
                None => rest.len(),
            };
            words.push(rest[..end].to_string());
            rest = &rest[end..];
        }
    }
    words
}

impl Parser {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn what(&mut self) -> Result<What, Wrong> {
        if self.take("crash") {
            let Some(_) = self.on()? else {
                return wrong("`crash` needs an allocator: write `crash on freehold`");
            };
            self.end()?;
            return Ok(What::Crash);
        }
        let left = self.term()?;
        let over = if self.take("/") {
            Some(self.term()?)
        } else {
            None
        };
        let comparison = self.comparison(&left, over.as_ref())?;
        let limit = self.limit(&left, over.as_ref())?;
        let last = self.on()?;
        self.end()?;
        self.compare(left, over, comparison, limit, last)
    }

    fn compare(
        &self,
        left: Read,
        over: Option<Read>,
        comparison: Comparison,
        limit: f64,
        last: Option<usize>,
    ) -> Result<What, Wrong> {
        let named = |read: &Read| read.on.or(last);
        let all: Vec<&Read> = [Some(&left), over.as_ref()].into_iter().flatten().collect();
        let replayed: Vec<&&Read> = all
            .iter()
            .filter(|read| read.quantity != Quantity::Live)
            .collect();
        if replayed.is_empty() {
            return wrong(
                "`live` is what the program asked for, and no allocator changes it: compare it with `rss`, as in \
                 `rss/live > 2 on freehold`",
            );
        }
        let Some(somewhere) = all.iter().find_map(|read| named(read)) else {
            return wrong("no allocator is named: end with `on freehold`");
        };
        if let Some(read) = replayed.iter().find(|read| named(read).is_none()) {
            let name = read.quantity.name();
            return wrong(format!(
                "`{name}` has no allocator: write `{name} on system`, or end with `on freehold` for all"
            ));
        }
        if last.is_some() && all.iter().all(|read| read.on.is_some()) {
            return wrong("each part names its allocator already: leave out the last `on`");
        }
        let term = |read: &Read| Term {
            quantity: read.quantity,
            on: named(read).unwrap_or(somewhere),
        };
        let (left, over) = (term(&left), over.as_ref().map(term));
        if over == Some(left) {
            return wrong("it is compared with itself: name two allocators, or two quantities");
        }
        Ok(What::Compare {
            left,
            over,
            comparison,
            limit,
        })
    }

    fn term(&mut self) -> Result<Read, Wrong> {
        let Some(word) = self.peek() else {
            return wrong(format!("something is missing at the end; {EXAMPLES}"));
        };
        let Some((_, quantity)) = QUANTITIES.iter().find(|(name, _)| *name == word) else {
            let names = "`rss`, `live`, `time` and `cpu` are known, and `crash`";
            return wrong(format!("`{word}` is nothing that can be measured: {names}"));
        };
        self.at += 1;
        let on = self.on()?;
        Ok(Read {
            quantity: *quantity,
            on,
        })
    }

    fn on(&mut self) -> Result<Option<usize>, Wrong> {
        if !self.take("on") {
            return Ok(None);
        }
        let Some(name) = self.peek().map(str::to_string) else {
            return wrong("an allocator should follow `on`, as in `on freehold`");
        };
        self.at += 1;
        let known = self.allocators.iter().position(|one| *one == name);
        Ok(Some(known.unwrap_or_else(|| {
            self.allocators.push(name);
            self.allocators.len() - 1
        })))
    }

    fn comparison(&mut self, left: &Read, over: Option<&Read>) -> Result<Comparison, Wrong> {
        let mixed = over.filter(|over| left.quantity.is_bytes() != over.quantity.is_bytes());
        if let Some(over) = mixed {
            let (one, other) = (left.quantity.name(), over.quantity.name());
            return wrong(format!(
                "`{one} / {other}` would divide bytes and time: `rss` goes with `live`, and `time` with `cpu`"
            ));
        }
        let comparison = match self.peek() {
            Some(">") => Comparison::Above,
            Some(">=") => Comparison::AtLeast,
            Some("<") => Comparison::Below,
            Some("<=") => Comparison::AtMost,
            Some("on") => {
                return wrong(
                    "two allocators for one quantity: put spaces around `/`, as in `time on freehold / time on system`",
                );
            }
            Some(other) => {
                return wrong(format!(
                    "`{other}` stands where `>`, `>=`, `<` or `<=` should be"
                ));
            }
            None => {
                return wrong(format!(
                    "nothing is compared: `>` and a number should follow; {EXAMPLES}"
                ));
            }
        };
        self.at += 1;
        Ok(comparison)
    }

    fn limit(&mut self, left: &Read, over: Option<&Read>) -> Result<f64, Wrong> {
        let Some(word) = self.peek().map(str::to_string) else {
            return wrong("a number is missing after the comparison, as in `> 2`");
        };
        self.at += 1;
        if over.is_some() {
            return match word.parse::<f64>() {
                Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
                _ => wrong(format!(
                    "`{word}` is no ratio: write a number such as 2 or 1.5"
                )),
            };
        }
        if left.quantity.is_bytes() {
            return match parse_bytes(&word) {
                Ok(bytes) => Ok(bytes as f64),
                Err(why) => wrong(format!("`{word}` is no size: {why}")),
            };
        }
        match parse_time(&word) {
            Ok(time) => Ok(time.as_nanos() as f64),
            Err(why) => wrong(why),
        }
    }

    fn end(&self) -> Result<(), Wrong> {
        match self.peek() {
            None => Ok(()),
            Some(word) => wrong(format!(
                "`{word}` is too much: a condition ends with its number or with `on ALLOCATOR`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(left: (Quantity, usize), over: Option<(Quantity, usize)>, limit: f64) -> What {
        let term = |(quantity, on)| Term { quantity, on };
        What::Compare {
            left: term(left),
            over: over.map(term),
            comparison: Comparison::Above,
            limit,
        }
    }

    #[test]
    fn conditions_are_read() {
        use Quantity::{Cpu, Live, Rss, Time};
        let expected = [
            (
                "rss/live > 2 on freehold",
                compare((Rss, 0), Some((Live, 0)), 2.0),
                vec!["freehold"],
            ),
            (
                "time on freehold / time on system > 2",
                compare((Time, 0), Some((Time, 1)), 2.0),
                vec!["freehold", "system"],
            ),
            (
                "time on ./a/b.so / cpu > 2 on system",
                compare((Time, 0), Some((Cpu, 1)), 2.0),
                vec!["./a/b.so", "system"],
            ),
            (
                "rss>100m on system",
                compare((Rss, 0), None, (100 << 20) as f64),
                vec!["system"],
            ),
            (
                "time on system > 20ms",
                compare((Time, 0), None, 2e7),
                vec!["system"],
            ),
            ("crash on freehold", What::Crash, vec!["freehold"]),
        ];
        for (text, what, allocators) in expected {
            let read = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.what, what, "{text}");
            assert_eq!(read.allocators, allocators, "{text}");
        }
    }

    #[test]
    fn each_comparison_is_known() {
        use Comparison::{Above, AtLeast, AtMost, Below};
        for (sign, expected, holds) in [
            (">", Above, [false, true]),
            (">=", AtLeast, [true, true]),
            ("<", Below, [false, false]),
            ("<=", AtMost, [true, false]),
        ] {
            let read = parse(&format!("rss/live {sign} 2 on freehold")).unwrap();
            let What::Compare { comparison, .. } = read.what else {
                panic!("{sign}");
            };
            assert_eq!(comparison, expected);
            assert_eq!([2.0, 3.0].map(|value| comparison.holds(value, 2.0)), holds);
        }
    }

    #[test]
    fn an_error_names_what_is_wrong() {
        for (text, part) in [
            ("", "missing at the end"),
            ("crash", "write `crash on freehold`"),
            ("crash on", "an allocator should follow `on`"),
            ("crash on freehold twice", "`twice` is too much"),
            (
                "size > 2 on freehold",
                "`size` is nothing that can be measured",
            ),
            ("rss/live on freehold", "nothing is compared"),
            ("rss/live == 2 on freehold", "`==` stands where"),
            ("rss/live > on freehold", "`on` is no ratio"),
            ("rss/live >", "a number is missing"),
            ("rss/live > 2", "end with `on freehold`"),
            ("rss/live > 0 on freehold", "`0` is no ratio"),
            ("rss/live > nan on freehold", "`nan` is no ratio"),
            ("live > 1m on freehold", "no allocator changes it"),
            ("rss/time > 2 on freehold", "divide bytes and time"),
            ("rss > 2x on freehold", "`2x` is no size"),
            ("time > 2x on freehold", "\"2x\" is no time"),
            ("rss on ./b.so/live>2", "nothing is compared"),
            (
                "time on freehold/time on system > 2",
                "put spaces around `/`",
            ),
            ("time on a / time > 2", "`time` has no allocator"),
            ("time on a / time on b > 2 on c", "leave out the last `on`"),
            ("time on a / time on a > 2", "compared with itself"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    /// Any order of its words is read or refused.
    #[test]
    fn no_text_is_a_panic() {
        let words = [
            "rss", "live", "/", ">", "2", "on", "a", "crash", "<=", "é", "1s",
        ];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 9 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text += words[(state >> 33) as usize % words.len()];
                if state & 1 << 60 != 0 {
                    text.push(' ');
                }
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if let Ok(read) = parse(&text) {
                assert!(!read.allocators.is_empty(), "{text}");
            }
        }
    }
}
