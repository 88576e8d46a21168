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

/// A length of time in milliseconds.
pub(super) fn milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    time.as_ref().map(whole).serialize(serializer)
}
