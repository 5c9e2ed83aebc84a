//! Constants, enumerations and structures of a C header that is kept simple for this.

use std::collections::BTreeMap;

use super::Error;
use super::expression;
use super::token::{Kind, Word};

/// A constant: a number, or words such as "a", "b".
#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    /// A number that C has in 64 bits.
    Wide(u64),
    Words(Vec<String>),
}

/// The constants of a header that is not read otherwise, by name: each is understood only when it is asked for.
pub struct Constants {
    file: &'static str,
    defined: BTreeMap<String, (usize, Vec<Word>)>,
}

#[derive(Debug)]
pub struct Enumeration {
    pub name: String,
    pub members: Vec<(String, u64)>,
}

#[derive(Debug)]
pub struct Member {
    pub name: String,
    /// u8, u32, u64, or another structure's name in C.
    pub kind: String,
    pub length: Option<Length>,
}

/// How many entries an array has: by the name of a constant, or as it is.
#[derive(Debug)]
pub enum Length {
    Constant(String),
    Number(u64),
}

#[derive(Debug)]
pub struct Structure {
    pub name: String,
    pub members: Vec<Member>,
}

#[derive(Default)]
pub struct Header {
    file: &'static str,
    pub constants: Vec<(String, Value)>,
    pub enumerations: Vec<Enumeration>,
    pub structures: Vec<Structure>,
}

struct Reader<'a> {
    file: &'static str,
    words: &'a [Word],
    line: usize,
}

impl<'a> Reader<'a> {
    fn error<T>(&self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error {
            file: self.file,
            line: self.line,
            what: what.into(),
        })
    }

    fn next(&mut self) -> Result<&'a Word, Error> {
        match self.words.split_first() {
            Some((word, rest)) => {
                self.words = rest;
                self.line = word.line;
                Ok(word)
            }
            None => self.error("the file ends too early"),
        }
    }

    fn expect(&mut self, sign: &str) -> Result<(), Error> {
        let word = self.next()?;
        if word.is(sign) {
            return Ok(());
        }
        self.error(format!("\"{}\" where {sign} should be", word.shown()))
    }

    fn name(&mut self) -> Result<String, Error> {
        let word = self.next()?;
        match word.name() {
            Some(name) => Ok(name.to_owned()),
            None => self.error(format!("\"{}\" where a name should be", word.shown())),
        }
    }

    fn next_is(&mut self, sign: &str) -> bool {
        let is = self.words.first().is_some_and(|word| word.is(sign));
        if is {
            self.words = &self.words[1..];
        }
        is
    }

    /// The words up to a sign, which is taken too.
    fn until(&mut self, signs: &[&str]) -> Result<(&'a [Word], &'a Word), Error> {
        let all = self.words;
        loop {
            let word = self.next()?;
            if signs.iter().any(|sign| word.is(sign)) {
                return Ok((&all[..all.len() - self.words.len() - 1], word));
            }
        }
    }
}

impl Header {
    /// Understands every word of a file, or says which line it does not.
    pub fn parse(file: &'static str, words: &[Word]) -> Result<Header, Error> {
        let mut header = Header {
            file,
            ..Header::default()
        };
        let mut reader = Reader {
            file,
            words,
            line: 1,
        };
        while let Some(word) = reader.words.first() {
            reader.line = word.line;
            reader.words = &reader.words[1..];
            match &word.kind {
                Kind::Directive(words) => header.directive(&mut reader, words)?,
                Kind::Name(name) if name == "_Static_assert" => {
                    reader.until(&[";"])?;
                }
                Kind::Name(name) if name == "typedef" => {
                    let what = reader.name()?;
                    match what.as_str() {
                        "enum" => header.enumeration(&mut reader)?,
                        "struct" => header.structure(&mut reader)?,
                        _ => return reader.error(format!("a typedef of {what}")),
                    }
                }
                _ => return reader.error(format!("\"{}\" is not understood", word.shown())),
            }
        }
        Ok(header)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        let constant = self.constants.iter().find(|(known, _)| known == name);
        if let Some((_, Value::Number(number) | Value::Wide(number))) = constant {
            return Some(*number);
        }
        let mut members = self.enumerations.iter().flat_map(|e| &e.members);
        members.find(|(known, _)| known == name).map(|m| m.1)
    }

    pub fn structure_of(&self, name: &str) -> Option<&Structure> {
        self.structures.iter().find(|known| known.name == name)
    }

    fn evaluate(&self, reader: &Reader, words: &[Word]) -> Result<u64, Error> {
        let lookup = |name: &str| {
            self.number(name)
                .ok_or_else(|| format!("{name} is no constant that is known here"))
        };
        expression::value(words, &lookup).or_else(|what| reader.error(what))
    }

    fn is_wide(&self, words: &[Word]) -> bool {
        let wide = |name: &str| {
            let mut constants = self.constants.iter();
            constants.any(|(known, value)| known == name && matches!(value, Value::Wide(_)))
        };
        let mut names = words.iter().filter_map(Word::name);
        names.any(|name| name == "UINT64_C" || wide(name))
    }

    fn directive(&mut self, reader: &mut Reader, words: &[Word]) -> Result<(), Error> {
        let what = words.first().and_then(Word::name).unwrap_or_default();
        match (what, &words[1.min(words.len())..]) {
            ("ifndef" | "endif" | "include", _) => Ok(()),
            // The guard.
            ("define", [_]) => Ok(()),
            ("define", [name, value @ ..]) if name.name().is_some() => {
                let name = name.name().unwrap_or_default().to_owned();
                let value = match texts(value) {
                    Some(words) => Value::Words(words),
                    None if self.is_wide(value) => Value::Wide(self.evaluate(reader, value)?),
                    None => Value::Number(self.evaluate(reader, value)?),
                };
                self.constants.push((name, value));
                Ok(())
            }
            _ => reader.error(format!("#{what} is not understood")),
        }
    }

    fn enumeration(&mut self, reader: &mut Reader) -> Result<(), Error> {
        reader.expect("{")?;
        let mut members: Vec<(String, u64)> = Vec::new();
        while !reader.next_is("}") {
            let name = reader.name()?;
            let (value, end) = if reader.next_is("=") {
                let (value, end) = reader.until(&[",", "}"])?;
                (self.evaluate(reader, value)?, end)
            } else {
                let (between, end) = reader.until(&[",", "}"])?;
                if let Some(word) = between.first() {
                    return reader.error(format!("\"{}\" in an enumeration", word.shown()));
                }
                (members.last().map_or(0, |last| last.1 + 1), end)
            };
            members.push((name, value));
            if end.is("}") {
                break;
            }
        }
        let name = reader.name()?;
        reader.expect(";")?;
        self.enumerations.push(Enumeration { name, members });
        Ok(())
    }

    fn structure(&mut self, reader: &mut Reader) -> Result<(), Error> {
        reader.expect("{")?;
        let mut members = Vec::new();
        while !reader.next_is("}") {
            let kind = reader.name()?;
            let kind = match kind.as_str() {
                "uint8_t" | "char" => "u8".to_owned(),
                "uint32_t" => "u32".to_owned(),
                "uint64_t" => "u64".to_owned(),
                other if self.structure_of(other).is_some() => kind,
                other => return reader.error(format!("{other} is no type that is known here")),
            };
            loop {
                let name = reader.name()?;
                let length = match reader.next_is("[") {
                    true => Some(self.length(reader)?),
                    false => None,
                };
                members.push(Member {
                    name,
                    kind: kind.clone(),
                    length,
                });
                if !reader.next_is(",") {
                    break;
                }
            }
            reader.expect(";")?;
        }
        let name = reader.name()?;
        reader.expect(";")?;
        self.structures.push(Structure { name, members });
        Ok(())
    }

    fn length(&self, reader: &mut Reader) -> Result<Length, Error> {
        let (words, _) = reader.until(&["]"])?;
        let number = self.evaluate(reader, words)?;
        Ok(match words {
            [word] if word.name().is_some() => {
                Length::Constant(word.name().unwrap_or_default().to_owned())
            }
            _ => Length::Number(number),
        })
    }

    /// The members of an enumeration, for rows that have to cover it.
    pub fn enumeration_of(&self, name: &str) -> Result<&Enumeration, Error> {
        let found = self.enumerations.iter().find(|known| known.name == name);
        found.ok_or_else(|| Error {
            file: self.file,
            line: 0,
            what: format!("there is no enumeration {name}"),
        })
    }
}

/// "a", "b", …
fn texts(words: &[Word]) -> Option<Vec<String>> {
    let each = words.split(|word| word.is(","));
    each.map(|part| match part {
        [word] => word.text().map(str::to_owned),
        _ => None,
    })
    .collect()
}

/// The constants of a header of which everything else is left alone.
pub fn constants_only(file: &'static str, words: &[Word]) -> Result<Constants, Error> {
    let mut defined = BTreeMap::new();
    for word in words {
        let Kind::Directive(words) = &word.kind else {
            continue;
        };
        let [define, name, value @ ..] = words.as_slice() else {
            continue;
        };
        if let (Some("define"), Some(name)) = (define.name(), name.name()) {
            defined.insert(name.to_owned(), (word.line, value.to_vec()));
        }
    }
    Ok(Constants { file, defined })
}

impl Constants {
    fn find(&self, name: &str) -> Result<&(usize, Vec<Word>), Error> {
        self.defined.get(name).ok_or_else(|| Error {
            file: self.file,
            line: 0,
            what: format!("there is no constant {name}, which the command needs"),
        })
    }

    fn evaluate(&self, name: &str, depth: usize) -> Result<u64, String> {
        let Some((_, words)) = self.defined.get(name).filter(|_| depth < 32) else {
            return Err(format!("{name} is no constant that is known here"));
        };
        expression::value(words, &|other| self.evaluate(other, depth + 1))
    }

    pub fn number(&self, name: &str) -> Result<u64, Error> {
        let line = self.find(name)?.0;
        self.evaluate(name, 0).map_err(|what| Error {
            file: self.file,
            line,
            what,
        })
    }

    pub fn words(&self, name: &str) -> Result<Vec<String>, Error> {
        let (line, words) = self.find(name)?;
        texts(words).ok_or_else(|| Error {
            file: self.file,
            line: *line,
            what: format!("{name} is not a list of texts"),
        })
    }
}
