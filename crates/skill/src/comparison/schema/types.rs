//! The types of values that a schema accepts, as a set.

use serde_json::{Map, Value as Json};

/// The types, whole numbers apart from others: `integer` accepts `1.0`, too.
const TYPES: [(&str, u8); 7] = [
    ("null", 1),
    ("boolean", 2),
    ("integer", 4),
    ("number", 4 | 8),
    ("string", 16),
    ("array", 32),
    ("object", 64),
];

/// A set of types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NUMBERS: Self = Self(4 | 8);
    pub(super) const STRINGS: Self = Self(16);
    pub(super) const ARRAYS: Self = Self(32);
    pub(super) const OBJECTS: Self = Self(64);
    /// Those whose values have no parts.
    pub(super) const SIMPLE: Self = Self(1 | 2 | 4 | 8 | 16);
    const ALL: Self = Self(127);
    const FRACTIONS: Self = Self(8);
    /// Those of which there are only a few values.
    const FINITE: Self = Self(1 | 2);

    /// The types that the keyword `type` of a schema names; without it, or if it is no valid one, all of them.
    pub(super) fn from_schema(keywords: &Map<String, Json>) -> Self {
        let from_name = |name: &str| TYPES.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits);
        match keywords.get("type") {
            Some(Json::String(name)) => from_name(name).map_or(Self::ALL, Self),
            Some(Json::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().and_then(from_name));
                names.sum::<Option<TypeBits>>().map_or(Self::ALL, |bits| Self(bits.0))
            }
            _ => Self::ALL,
        }
    }

    /// The type of a value.
    pub(super) fn of_value(value: &Json) -> Self {
        Self(match value {
            Json::Null => 1,
            Json::Bool(_) => 2,
            Json::Number(number) => {
                let is_whole = number.as_f64().is_none_or(|number| number.fract() == 0.0);
                if is_whole { 4 } else { 8 }
            }
            Json::String(_) => 16,
            Json::Array(_) => 32,
            Json::Object(_) => 64,
        })
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The types of this set that are not in the other one.
    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    pub(super) fn has_fractions(self) -> bool {
        self.overlaps(Self::FRACTIONS)
    }

    /// Whether there are only a few values of these types: `null`, `true` and `false`.
    pub(super) fn is_finite(self) -> bool {
        self.without(Self::FINITE).is_empty()
    }

    /// All values, if there are only a few.
    pub(super) fn values(self) -> Option<Vec<Json>> {
        let all = [Json::Null, Json::Bool(true), Json::Bool(false)];
        let is_in = |value: &Json| self.overlaps(Self::of_value(value));
        self.is_finite().then(|| all.into_iter().filter(is_in).collect())
    }

    /// The names, each type once.
    pub(super) fn names(self) -> Vec<&'static str> {
        let is_named = |(name, bits): &(&str, u8)| match *name {
            "integer" => self.0 & Self::NUMBERS.0 == 4,
            "number" => self.has_fractions(),
            _ => self.0 & bits != 0,
        };
        TYPES.iter().filter(|row| is_named(row)).map(|(name, _)| *name).collect()
    }

    /// The names in a sentence.
    pub(super) fn describe(self) -> String {
        match self {
            Self::ALL => "any".to_owned(),
            _ => self.names().join(" or "),
        }
    }
}

/// Bits that are united where they are summed up.
struct TypeBits(u8);

impl std::iter::Sum<u8> for TypeBits {
    fn sum<I: Iterator<Item = u8>>(bits: I) -> Self {
        Self(bits.fold(0, |all, bits| all | bits))
    }
}
