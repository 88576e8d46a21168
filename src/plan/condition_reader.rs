//! The words of a condition, read from left to right.

use std::str::FromStr;

use serde_json::Value;

use super::condition::{Condition, Operand};
use super::reference::{Fault, fault, name, quoted_len};
use super::template::reference;

/// Parentheses and `not`s in one another.
const DEEPEST: usize = 32;

impl FromStr for Condition {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let condition = reader.any()?;
        reader.skip_blanks();
        if reader.at < text.len() {
            return Err(fault(reader.at, "the condition should end here", HELP));
        }
        Ok(condition)
    }
}

const HELP: &str = "write $inputs.x == \"a\", or join such with and, or, not and parentheses";

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn any(&mut self) -> Result<Condition, Fault> {
        self.joined("or", Self::all, Condition::Any)
    }

    fn all(&mut self) -> Result<Condition, Fault> {
        self.joined("and", Self::one, Condition::All)
    }

    fn joined(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<Condition, Fault>,
        join: impl Fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, Fault> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.takes_word(word) {
            parts.push(part(self)?);
        }
        Ok(match <[Condition; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => join(parts),
        })
    }

    fn one(&mut self) -> Result<Condition, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(fault(self.at, format!("a condition nests at most {DEEPEST} deep"), HELP));
        }
        let condition = if self.takes_word("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            if !self.takes(")") {
                return Err(fault(self.at, "a parenthesis is not closed", HELP));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, Fault> {
        let left = self.operand()?;
        if self.takes("==") {
            return Ok(Condition::Same(left, self.operand()?));
        }
        if self.takes("!=") {
            return Ok(Condition::Differ(left, self.operand()?));
        }
        Ok(Condition::Is(left))
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        if rest.starts_with('$') {
            let (reference, end) = reference(self.text, self.at)?;
            self.at = end;
            return Ok(Operand::Reference(reference));
        }
        let unfit = || fault(self.at, "a reference or a plain value should stand here", HELP);
        let (value, length) = match rest.chars().next() {
            Some('"') => {
                let length = quoted_len(rest).ok_or_else(unfit)?;
                (serde_json::from_str(&rest[..length]).map_err(|_| unfit())?, length)
            }
            Some('\'') => {
                let length = rest[1..].find('\'').ok_or_else(unfit)?;
                (Value::from(&rest[1..=length]), length + 2)
            }
            _ => {
                let length =
                    rest.find(|c: char| !(c.is_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
                (serde_json::from_str(&rest[..length]).map_err(|_| unfit())?, length)
            }
        };
        self.at += length;
        Ok(Operand::Constant(value))
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let is_there = self.text[self.at..].starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let is_there = name(self.text, self.at) == word;
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}
