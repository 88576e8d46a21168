//! Durations in JSON: whole milliseconds.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A duration as its milliseconds.
pub(super) fn as_milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(milliseconds(*duration))
}

/// The same for one that may be absent.
#[allow(clippy::ref_option, reason = "serde passes fields by reference")]
pub(super) fn as_optional_milliseconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(milliseconds).serialize(serializer)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
