//! `when`: whether a step runs. References, plain values, `==`, `!=`, `not`, `and`, `or` and parentheses: enough to skip a
//! step for what an earlier one found, and too little to hide a program in. What needs more is a script.

use std::fmt;

use serde_json::Value;

use super::reference::Reference;
use crate::error::Result;

/// A condition. Alone, a value counts as false when it is `false`, `null`, absent, `0`, `""`, `[]` or `{}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Whether the value counts as true.
    Is(Operand),
    /// Whether both are the same value.
    Same(Operand, Operand),
    /// Whether they differ.
    Differ(Operand, Operand),
    /// Whether it does not hold.
    Not(Box<Condition>),
    /// Whether all hold.
    All(Vec<Condition>),
    /// Whether one of them holds.
    Any(Vec<Condition>),
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// What a reference names.
    Reference(Reference),
    /// A text, a number, `true`, `false` or `null`.
    Constant(Value),
}

impl Condition {
    /// Every reference in it.
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.gather(&mut found);
        found
    }

    fn gather<'a>(&'a self, found: &mut Vec<&'a Reference>) {
        let mut note = |operand: &'a Operand| {
            if let Operand::Reference(reference) = operand {
                found.push(reference);
            }
        };
        match self {
            Self::Is(operand) => note(operand),
            Self::Same(left, right) | Self::Differ(left, right) => {
                note(left);
                note(right);
            }
            Self::Not(inner) => inner.gather(found),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.gather(found)),
        }
    }

    /// Whether it holds, where `value` says what a reference names; absent counts as `null`. Fails where `value` does, which is
    /// asked for each reference, so that whoever stops the run is heard between two of them.
    pub(super) fn holds<'v>(&'v self, value: &impl Fn(&Reference) -> Result<&'v Value>) -> Result<bool> {
        let of = |operand: &'v Operand| match operand {
            Operand::Reference(reference) => value(reference),
            Operand::Constant(constant) => Ok(constant),
        };
        Ok(match self {
            Self::Is(operand) => is_true(of(operand)?),
            Self::Same(left, right) => is_same(of(left)?, of(right)?),
            Self::Differ(left, right) => !is_same(of(left)?, of(right)?),
            Self::Not(inner) => !inner.holds(value)?,
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(value)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(value)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// `1` and `1.0` are one number, in lists and objects too.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) if left.is_f64() != right.is_f64() => {
            left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_in_right =
                |(key, left): (&String, &Value)| right.get(key).is_some_and(|right| is_same(left, right));
            left.len() == right.len() && left.iter().all(is_in_right)
        }
        _ => left == right,
    }
}

/// As it may be written; it reads back as the same condition.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(operand) => write!(f, "{operand}"),
            Self::Same(left, right) => write!(f, "{left} == {right}"),
            Self::Differ(left, right) => write!(f, "{left} != {right}"),
            Self::Not(inner) => write!(f, "not {}", Part(inner, Binds::Tightest)),
            Self::All(parts) => joined(f, parts, " and ", Binds::Tightest),
            Self::Any(parts) => joined(f, parts, " or ", Binds::Tighter),
        }
    }
}

/// What stands in a condition without parentheses. There are no more than were written, so that what was not too deep to be
/// read is not too deep to be read again.
#[derive(Clone, Copy, PartialEq)]
enum Binds {
    /// What `and` joins as well.
    Tighter,
    /// Only what nothing joins.
    Tightest,
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Condition], word: &str, bare: Binds) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        write!(f, "{}{}", if at > 0 { word } else { "" }, Part(part, bare))?;
    }
    Ok(())
}

/// A condition inside another one, and what stands bare there.
struct Part<'a>(&'a Condition, Binds);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::All(_) if self.1 == Binds::Tighter => write!(f, "{}", self.0),
            Condition::All(_) | Condition::Any(_) => write!(f, "({})", self.0),
            plain => write!(f, "{plain}"),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(reference) => write!(f, "{reference}"),
            Self::Constant(value) => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::plan::any::any_condition;

    fn holds(text: &str) -> bool {
        let inputs = json!({
            "yes": true, "no": false, "none": [], "n": 1, "mode": "fast", "text": "",
            "list": [1, {"a": [2.0]}], "alike": [1.0, {"a": [2]}], "longer": [1, {"a": [2]}, 3], "other": [1, {"b": [2]}],
        });
        let condition = text.parse::<Condition>().unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        condition
            .holds(&|reference: &Reference| Ok(reference.within(&inputs).unwrap_or(&Value::Null)))
            .unwrap()
    }

    #[test]
    fn values_count_as_true_unless_they_are_empty() {
        for (text, expected) in [
            ("$inputs.yes", true),
            ("$inputs.no", false),
            ("$inputs.none", false),
            ("$inputs.absent", false),
            ("$inputs.text", false),
            ("not $inputs.no", true),
            ("not not $inputs.no", false),
            ("$inputs.mode == \"fast\"", true),
            ("$inputs.mode == 'slow'", false),
            ("$inputs.mode!='slow'", true),
            ("$inputs.n == 1.0 and $inputs.n == 1", true),
            ("$inputs.absent == null", true),
            ("$inputs.no or $inputs.yes and $inputs.no", false),
            ("($inputs.no or $inputs.yes) and not $inputs.no", true),
            ("true", true),
            ("${inputs.n} != -2.5e3", true),
            ("$inputs.list == $inputs.alike", true),
            ("$inputs.list[1] != $inputs.alike[1]", false),
            ("$inputs.list == $inputs.longer or $inputs.longer == $inputs.list", false),
            ("$inputs.list == $inputs.other", false),
        ] {
            assert_eq!(holds(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let deep = "(".repeat(100_000);
        for text in
            ["", "and", "$inputs.x ==", "$inputs.x = 1", "(true", "true)", "maybe", "'x", "$", "1 2", &deep]
        {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
        assert!("not ".repeat(100_000).parse::<Condition>().is_err());
    }

    #[test]
    fn no_parentheses_are_printed_that_were_not_there() {
        for (text, printed) in [
            ("1 and 2 or not (3 or 4) and 5", "1 and 2 or not (3 or 4) and 5"),
            ("((1 and 2) or 3) and (4 and 5)", "(1 and 2 or 3) and (4 and 5)"),
            ("1 or (2 or (3 and not (not 4)))", "1 or (2 or 3 and not not 4)"),
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), printed, "{text}");
        }
        let deepest = format!("{}1 and 2 or 3{}", "not (4 and 5 or ".repeat(15), ")".repeat(15));
        let condition = deepest.parse::<Condition>().unwrap();
        assert_eq!(condition.to_string().parse(), Ok(condition));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_the_same(condition in any_condition()) {
            let printed = condition.to_string();
            prop_assert_eq!(printed.parse::<Condition>(), Ok(condition), "{}", printed);
        }

        #[test]
        fn what_is_read_can_be_printed_and_read_again(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "$inputs.a", "${steps.b.outputs}", "and ", "or ", "not ", "(", ")", " == ", " != ", "'x'", "\"\\n\"",
                    "1", "null", " ", "é",
                ]),
                0..14,
            )
        ) {
            if let Ok(condition) = words.concat().parse::<Condition>() {
                prop_assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition));
            }
        }

        #[test]
        fn no_text_makes_it_panic_and_what_is_read_can_be_printed(
            text in prop_oneof![any::<String>(), "[^a]{0,12}[$'\"(]{0,3}[^a]{0,12}", "[ ()$'\"=!a-z0-9é.-]{0,24}"]
        ) {
            match text.parse::<Condition>() {
                Ok(condition) => {
                    prop_assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition), "{}", text);
                }
                Err(fault) => prop_assert!(fault.at <= text.len() && text.is_char_boundary(fault.at), "{}", text),
            }
        }
    }
}
