//! Bounds of numbers, compared exactly where both are whole.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value as Json};

/// A bound that a number must keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<'s> {
    /// The keyword that sets it.
    pub(super) keyword: &'static str,
    pub(super) value: &'s Number,
    is_exclusive: bool,
    is_lower: bool,
}

impl<'s> Bound<'s> {
    /// The lower bound of a schema: the tighter one of `minimum` and `exclusiveMinimum`.
    pub(super) fn lower(keywords: &'s Map<String, Json>) -> Option<Self> {
        Self::tighter(keywords, ["minimum", "exclusiveMinimum"], true)
    }

    /// The upper bound of a schema.
    pub(super) fn upper(keywords: &'s Map<String, Json>) -> Option<Self> {
        Self::tighter(keywords, ["maximum", "exclusiveMaximum"], false)
    }

    fn tighter(keywords: &'s Map<String, Json>, names: [&'static str; 2], is_lower: bool) -> Option<Self> {
        let bound = |keyword: &'static str, is_exclusive| match keywords.get(keyword) {
            Some(Json::Number(value)) => Some(Self { keyword, value, is_exclusive, is_lower }),
            _ => None,
        };
        match (bound(names[0], false), bound(names[1], true)) {
            (Some(one), Some(other)) if one.compare(&other, false).is_gt() => Some(one),
            (one, other) => other.or(one),
        }
    }

    /// Whether this bound accepts less than the other (`Greater`), the same, or more; `is_whole` if all numbers are whole.
    pub(super) fn compare(&self, other: &Self, is_whole: bool) -> Ordering {
        let by_value = if is_whole {
            match (self.first_whole(), other.first_whole()) {
                (Some(one), Some(two)) => return self.tightness(one.cmp(&two)),
                _ => compare_numbers(self.value, other.value),
            }
        } else {
            compare_numbers(self.value, other.value)
        };
        self.tightness(by_value).then(self.is_exclusive.cmp(&other.is_exclusive))
    }

    /// Whether a number keeps the bound.
    pub(super) fn accepts(&self, number: &Number) -> bool {
        match self.tightness(compare_numbers(number, self.value)) {
            Ordering::Greater => true,
            Ordering::Equal => !self.is_exclusive,
            Ordering::Less => false,
        }
    }

    fn tightness(&self, by_value: Ordering) -> Ordering {
        if self.is_lower { by_value } else { by_value.reverse() }
    }

    /// The outermost whole number that keeps the bound.
    fn first_whole(&self) -> Option<i128> {
        let step = if self.is_lower { 1 } else { -1 };
        if let Some(value) = whole(self.value) {
            return Some(if self.is_exclusive { value + step } else { value });
        }
        let value = self.value.as_f64()?;
        let rounded = if self.is_lower { value.ceil() } else { value.floor() };
        whole_from_float(rounded)
    }
}

/// Compares two numbers.
pub(super) fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    if let (Some(one), Some(other)) = (whole(one), whole(other)) {
        return one.cmp(&other);
    }
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal)
}

/// The number, if it is whole.
pub(super) fn whole(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| number.as_f64().and_then(whole_from_float))
}

/// Floats of this size and larger are far from all that counts; they stay floats.
#[allow(clippy::cast_possible_truncation, reason = "the value is whole and within the bound")]
fn whole_from_float(value: f64) -> Option<i128> {
    const MAX: f64 = 1e30;
    (value.fract() == 0.0 && value.abs() < MAX).then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lower(schema: &Json, other: &Json, is_whole: bool) -> Ordering {
        let keywords = |schema: &Json| schema.as_object().unwrap().clone();
        let (one, two) = (keywords(schema), keywords(other));
        Bound::lower(&one).unwrap().compare(&Bound::lower(&two).unwrap(), is_whole)
    }

    #[test]
    fn bounds_are_compared_by_what_they_accept() {
        let cases = [
            (json!({"minimum": 2}), json!({"minimum": 1}), Ordering::Greater),
            (json!({"minimum": 1}), json!({"minimum": 1.0}), Ordering::Equal),
            (json!({"exclusiveMinimum": 1}), json!({"minimum": 1}), Ordering::Greater),
            (json!({"minimum": 0, "exclusiveMinimum": 1}), json!({"exclusiveMinimum": 1}), Ordering::Equal),
            (json!({"minimum": u64::MAX}), json!({"minimum": u64::MAX - 1}), Ordering::Greater),
            (json!({"minimum": 1e300}), json!({"minimum": u64::MAX}), Ordering::Greater),
        ];
        for (one, other, expected) in cases {
            assert_eq!(lower(&one, &other, false), expected, "{one} {other}");
            assert_eq!(lower(&other, &one, false), expected.reverse(), "{one} {other}");
        }
        assert_eq!(lower(&json!({"exclusiveMinimum": 1}), &json!({"minimum": 2}), true), Ordering::Equal);
        assert_eq!(lower(&json!({"minimum": 1.5}), &json!({"minimum": 2}), true), Ordering::Equal);
        assert_eq!(lower(&json!({"exclusiveMinimum": 1}), &json!({"minimum": 2}), false), Ordering::Less);
    }
}
