//! Words of C. Comments are dropped; a directive is one word that holds its own words.

use super::Error;

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Name(String),
    Number(u64),
    Text(String),
    /// A sign, such as `{` or `<<`.
    Sign(&'static str),
    /// A preprocessor directive, without its `#`.
    Directive(Vec<Word>),
    /// Something that no constant, structure or row needs: it is an error only where it is read.
    Other(char),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub line: usize,
    pub kind: Kind,
}

impl Word {
    pub fn is(&self, sign: &str) -> bool {
        matches!(self.kind, Kind::Sign(is) if is == sign)
    }

    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Name(name) => Some(name),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// How an error calls it.
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::Name(name) => name.clone(),
            Kind::Number(number) => number.to_string(),
            Kind::Text(text) => format!("\"{text}\""),
            Kind::Sign(sign) => (*sign).to_owned(),
            Kind::Other(letter) => letter.to_string(),
            Kind::Directive(words) => {
                let words: Vec<String> = words.iter().map(Word::shown).collect();
                format!("#{}", words.join(" "))
            }
        }
    }
}

/// The longer ones first.
const SIGNS: [&str; 17] = [
    "<<", "...", "{", "}", "(", ")", "[", "]", ",", ";", "=", "~", "+", "-", "*", "/", "<",
];

struct Reader<'a> {
    file: &'static str,
    rest: &'a str,
    line: usize,
}

/// The words of a file.
pub fn words(file: &'static str, text: &str) -> Result<Vec<Word>, Error> {
    let mut reader = Reader {
        file,
        rest: text,
        line: 1,
    };
    let mut words = Vec::new();
    while let Some(word) = reader.next(false)? {
        words.push(word);
    }
    Ok(words)
}

impl<'a> Reader<'a> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error {
            file: self.file,
            line: self.line,
            what: what.into(),
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// The next word. `inside` a directive a line's end is the end, unless a backslash stands before it.
    fn next(&mut self, inside: bool) -> Result<Option<Word>, Error> {
        loop {
            let Some(first) = self.rest.chars().next() else {
                return Ok(None);
            };
            if first == '\n' && inside {
                return Ok(None);
            }
            if first.is_whitespace() {
                self.take(first.len_utf8());
            } else if self.rest.starts_with("\\\n") {
                self.take(2);
            } else if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/");
                let end = end.ok_or_else(|| self.error("a comment that does not end"))?;
                self.take(end + 2);
            } else {
                break;
            }
        }
        let line = self.line;
        let kind = self.kind()?;
        Ok(Some(Word { line, kind }))
    }

    fn kind(&mut self) -> Result<Kind, Error> {
        let first = self.rest.chars().next().unwrap_or(' ');
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = self.rest.find(|c| !word(c)).unwrap_or(self.rest.len());
        if first == '#' {
            self.take(1);
            let mut words = Vec::new();
            while let Some(word) = self.next(true)? {
                words.push(word);
            }
            return Ok(Kind::Directive(words));
        }
        if first.is_ascii_digit() {
            let digits = self.take(length);
            return number(digits)
                .map(Kind::Number)
                .ok_or_else(|| self.error(format!("{digits} is no number that is known here")));
        }
        if length > 0 {
            return Ok(Kind::Name(self.take(length).to_owned()));
        }
        if first == '"' {
            return self.literal();
        }
        if let Some(sign) = SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            self.take(sign.len());
            return Ok(Kind::Sign(sign));
        }
        self.take(first.len_utf8());
        Ok(Kind::Other(first))
    }

    /// A string literal. No text of ours needs an escape, but a source file may have one.
    fn literal(&mut self) -> Result<Kind, Error> {
        let mut escaped = false;
        let end = self.rest[1..].find(|letter| {
            let ends = letter == '\n' || (letter == '"' && !escaped);
            escaped = letter == '\\' && !escaped;
            ends
        });
        match end.filter(|&at| self.rest[1 + at..].starts_with('"')) {
            Some(at) => {
                let text = self.take(at + 2);
                Ok(Kind::Text(text[1..=at].to_owned()))
            }
            None => Err(self.error("a text that does not end")),
        }
    }
}

/// 12, 12u, 0x1F and their like.
fn number(digits: &str) -> Option<u64> {
    let plain = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    match plain.strip_prefix("0x").or(plain.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None if plain.len() > 1 && plain.starts_with('0') => None,
        None => plain.parse().ok(),
    }
}
