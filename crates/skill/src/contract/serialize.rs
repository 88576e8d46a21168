//! Serializes parts of a contract as JSON.
#![allow(clippy::ref_option, reason = "serde hands fields over so")]

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use serde::ser::Serializer;

/// A word, a version or a range as its text.
pub(super) fn text<T: Display, S: Serializer>(part: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    part.as_ref().map(ToString::to_string).serialize(serializer)
}

/// The shortest and the longest time, in milliseconds.
pub(super) fn milliseconds_range<S: Serializer>(
    range: &Option<(Duration, Duration)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let whole = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    range.as_ref().map(|(low, high)| [whole(low), whole(high)]).serialize(serializer)
}

/// Pairs as an object.
pub(super) fn by_key<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// A length of time in milliseconds.
pub(super) fn milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    time.as_ref().map(whole).serialize(serializer)
}
