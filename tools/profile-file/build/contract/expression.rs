//! The value of a constant: numbers, names of constants, casts to whole numbers, and ~ * / + - <<.

use super::token::{Kind, Word};

/// What a name stands for; `Err` says why it has no value.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Result<u64, String>;

const CASTS: [&str; 4] = ["size_t", "uint64_t", "uint32_t", "unsigned"];

struct Reader<'a> {
    words: &'a [Word],
    lookup: Lookup<'a>,
}

/// The value of all of `words`.
pub fn value(words: &[Word], lookup: Lookup) -> Result<u64, String> {
    let mut reader = Reader { words, lookup };
    let value = reader.shift()?;
    match reader.words.first() {
        None => Ok(value),
        Some(word) => Err(format!(
            "\"{}\" is not understood in a constant",
            word.shown()
        )),
    }
}

fn too_large() -> String {
    "the constant does not fit into 64 bits".to_owned()
}

impl Reader<'_> {
    fn next_is(&mut self, sign: &str) -> bool {
        let is = self.words.first().is_some_and(|word| word.is(sign));
        if is {
            self.words = &self.words[1..];
        }
        is
    }

    fn shift(&mut self) -> Result<u64, String> {
        let mut value = self.sum()?;
        while self.next_is("<<") {
            let by = self.sum()?;
            let shifted = value.checked_mul(1u64.checked_shl(by as u32).ok_or_else(too_large)?);
            value = shifted.ok_or_else(too_large)?;
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<u64, String> {
        let mut value = self.product()?;
        loop {
            let result = if self.next_is("+") {
                value.checked_add(self.product()?)
            } else if self.next_is("-") {
                value.checked_sub(self.product()?)
            } else {
                return Ok(value);
            };
            value = result.ok_or_else(too_large)?;
        }
    }

    fn product(&mut self) -> Result<u64, String> {
        let mut value = self.single()?;
        loop {
            let result = if self.next_is("*") {
                value.checked_mul(self.single()?)
            } else if self.next_is("/") {
                value.checked_div(self.single()?)
            } else {
                return Ok(value);
            };
            value = result.ok_or_else(too_large)?;
        }
    }

    fn single(&mut self) -> Result<u64, String> {
        if self.next_is("~") {
            return Ok(!self.single()?);
        }
        let Some((word, rest)) = self.words.split_first() else {
            return Err("a constant ends too early".to_owned());
        };
        let closed = |words: &[Word]| words.get(1).is_some_and(|word| word.is(")"));
        self.words = rest;
        match &word.kind {
            Kind::Number(number) => Ok(*number),
            // It only says of which type the number is.
            Kind::Name(name) if name == "UINT64_C" => self.single(),
            Kind::Name(name) => (self.lookup)(name),
            Kind::Sign("(") => {
                let cast = rest.first().and_then(Word::name);
                if closed(rest) && cast.is_some_and(|name| CASTS.contains(&name)) {
                    self.words = &rest[2..];
                    return self.single();
                }
                let value = self.shift()?;
                if self.next_is(")") {
                    Ok(value)
                } else {
                    Err("a parenthesis is not closed".to_owned())
                }
            }
            _ => Err(format!(
                "\"{}\" is not understood in a constant",
                word.shown()
            )),
        }
    }
}
