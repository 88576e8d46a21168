//! Parses conditions from left to right.

use std::str::FromStr;

use serde_json::Value;

use crate::model::condition::{Condition, Operand};
use metier_core::template::parse_reference;
use metier_core::template::{ExpressionError, fault, json_string_len, name_at};

/// The maximum nesting of parentheses and `not`s.
const MAX_DEPTH: usize = 32;

impl FromStr for Condition {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let mut reader = ConditionParser { text, at: 0, depth: 0 };
        let condition = reader.parse_or()?;
        reader.skip_blanks();
        if reader.at < text.len() {
            return Err(fault(reader.at, "the condition should end here", CONDITION_HELP));
        }
        Ok(condition)
    }
}

const CONDITION_HELP: &str = "write $inputs.x == \"a\", or join such with and, or, not and parentheses";

struct ConditionParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl ConditionParser<'_> {
    fn parse_or(&mut self) -> Result<Condition, ExpressionError> {
        self.parse_joined("or", Self::parse_and, Condition::Any)
    }

    fn parse_and(&mut self) -> Result<Condition, ExpressionError> {
        self.parse_joined("and", Self::parse_unary, Condition::All)
    }

    fn parse_joined(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<Condition, ExpressionError>,
        join: impl Fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, ExpressionError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.consume_word(word) {
            parts.push(part(self)?);
        }
        Ok(match <[Condition; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => join(parts),
        })
    }

    fn parse_unary(&mut self) -> Result<Condition, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(fault(
                self.at,
                format!("a condition nests at most {MAX_DEPTH} deep"),
                CONDITION_HELP,
            ));
        }
        let condition = if self.consume_word("not") {
            Condition::Not(Box::new(self.parse_unary()?))
        } else if self.consume("(") {
            let inner = self.parse_or()?;
            if !self.consume(")") {
                return Err(fault(self.at, "a parenthesis is not closed", CONDITION_HELP));
            }
            inner
        } else {
            self.parse_comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn parse_comparison(&mut self) -> Result<Condition, ExpressionError> {
        let left = self.parse_operand()?;
        if self.consume("==") {
            return Ok(Condition::Equal(left, self.parse_operand()?));
        }
        if self.consume("!=") {
            return Ok(Condition::NotEqual(left, self.parse_operand()?));
        }
        Ok(Condition::Truthy(left))
    }

    fn parse_operand(&mut self) -> Result<Operand, ExpressionError> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        if rest.starts_with('$') {
            let (reference, end) = parse_reference(self.text, self.at)?;
            self.at = end;
            return Ok(Operand::Reference(reference));
        }
        let unfit = || fault(self.at, "a reference or a plain value should stand here", CONDITION_HELP);
        let (value, length) = match rest.chars().next() {
            Some('"') => {
                let length = json_string_len(rest).ok_or_else(unfit)?;
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

    fn consume(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let is_there = self.text[self.at..].starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    fn consume_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let is_there = name_at(self.text, self.at) == word;
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}
