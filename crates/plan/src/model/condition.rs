//! The condition of a step, in `when`: it decides whether the step runs. It has references, constants, `==`, `!=`, `not`,
//! `and`, `or` and parentheses: enough to skip a step because of an earlier result, and too little to hide a program in. What
//! needs more is a script.

use std::fmt;

use serde_json::Value;

use metier_core::error::Result;
use metier_core::template::Reference;

/// A condition. Alone, a value counts as false when it is `false`, `null`, absent, `0`, `""`, `[]` or `{}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Whether the value counts as true.
    Truthy(Operand),
    /// Whether both values are equal.
    Equal(Operand, Operand),
    /// Whether they differ.
    NotEqual(Operand, Operand),
    /// Whether the condition does not hold.
    Not(Box<Condition>),
    /// Whether all conditions hold.
    All(Vec<Condition>),
    /// Whether at least one condition holds.
    Any(Vec<Condition>),
}

/// A value in a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// The value that a reference names.
    Reference(Reference),
    /// A text, a number, `true`, `false` or `null`.
    Constant(Value),
}

impl Condition {
    /// Every reference in the condition.
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.collect_references(&mut found);
        found
    }

    fn collect_references<'a>(&'a self, found: &mut Vec<&'a Reference>) {
        let mut note = |operand: &'a Operand| {
            if let Operand::Reference(reference) = operand {
                found.push(reference);
            }
        };
        match self {
            Self::Truthy(operand) => note(operand),
            Self::Equal(left, right) | Self::NotEqual(left, right) => {
                note(left);
                note(right);
            }
            Self::Not(inner) => inner.collect_references(found),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.collect_references(found);
                }
            }
        }
    }

    /// Whether the condition holds. `value` resolves a reference; an absent value counts as `null`. Fails if `value` fails.
    /// `value` is called for each reference, so that a cancellation is noticed between two of them.
    pub(crate) fn evaluate<'v>(&'v self, value: &impl Fn(&Reference) -> Result<&'v Value>) -> Result<bool> {
        let of = |operand: &'v Operand| match operand {
            Operand::Reference(reference) => value(reference),
            Operand::Constant(constant) => Ok(constant),
        };
        Ok(match self {
            Self::Truthy(operand) => is_truthy(of(operand)?),
            Self::Equal(left, right) => values_equal(of(left)?, of(right)?),
            Self::NotEqual(left, right) => !values_equal(of(left)?, of(right)?),
            Self::Not(inner) => !inner.evaluate(value)?,
            Self::All(parts) => {
                for part in parts {
                    if !part.evaluate(value)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.evaluate(value)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// `1` and `1.0` are the same number, in lists and objects too.
fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) if left.is_f64() != right.is_f64() => {
            left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| values_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_in_right = |(key, left): (&String, &Value)| {
                right.get(key).is_some_and(|right| values_equal(left, right))
            };
            left.len() == right.len() && left.iter().all(is_in_right)
        }
        _ => left == right,
    }
}

/// Written as source text; it parses back to the same condition.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truthy(operand) => write!(f, "{operand}"),
            Self::Equal(left, right) => write!(f, "{left} == {right}"),
            Self::NotEqual(left, right) => write!(f, "{left} != {right}"),
            Self::Not(inner) => write!(f, "not {}", NestedCondition(inner, WithoutParentheses::SingleTerms)),
            Self::All(parts) => write_joined(f, parts, " and ", WithoutParentheses::SingleTerms),
            Self::Any(parts) => write_joined(f, parts, " or ", WithoutParentheses::Conjunctions),
        }
    }
}

/// The terms of a condition that need no parentheses. No more parentheses are written than the source had, so that a
/// condition that was not too deep to parse is not too deep to parse again.
#[derive(Clone, Copy, PartialEq)]
enum WithoutParentheses {
    /// Terms joined by `and` as well.
    Conjunctions,
    /// Only terms that are not joined.
    SingleTerms,
}

fn write_joined(
    f: &mut fmt::Formatter<'_>,
    parts: &[Condition],
    word: &str,
    bare: WithoutParentheses,
) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        write!(f, "{}{}", if at > 0 { word } else { "" }, NestedCondition(part, bare))?;
    }
    Ok(())
}

/// A condition inside another one, and the terms that need no parentheses there.
struct NestedCondition<'a>(&'a Condition, WithoutParentheses);

impl fmt::Display for NestedCondition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::All(_) if self.1 == WithoutParentheses::Conjunctions => write!(f, "{}", self.0),
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
    use crate::testing::any_condition;

    fn holds(text: &str) -> bool {
        let inputs = json!({
            "yes": true, "no": false, "none": [], "n": 1, "mode": "fast", "text": "",
            "list": [1, {"a": [2.0]}], "alike": [1.0, {"a": [2]}], "longer": [1, {"a": [2]}, 3], "other": [1, {"b": [2]}],
        });
        let condition = text.parse::<Condition>().unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        condition
            .evaluate(&|reference: &Reference| Ok(reference.resolve_in(&inputs).unwrap_or(&Value::Null)))
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
