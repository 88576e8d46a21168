//! Parses amounts with units, from a command line or a contract: `5s`, `500ms`, `64MB`.

use std::time::Duration;

use crate::error::{ErrorKind, Result, SkillError};

const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("", 1000)];

/// Binary units: a KB is 1024 bytes, in either spelling.
const SIZE_UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
];

const COUNT_UNITS: [(&str, u64); 3] = [("", 1), ("k", 1000), ("m", 1_000_000)];

/// A duration: `5s`, `500ms`, `1.5m`, `2h`; a number without a unit is seconds.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let milliseconds = parse_amount(text, &DURATION_UNITS)
        .ok_or_else(|| invalid_amount(text, "a time such as 5s, 500ms or 2m"))?;
    Ok(Duration::from_millis(milliseconds))
}

/// A number of bytes: `64MB`, `512k`, `1GiB`; a number without a unit is bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    parse_amount(text, &SIZE_UNITS).ok_or_else(|| invalid_amount(text, "a size such as 64MB, 512KB or 1GB"))
}

/// A count: `5000`, `10k`, `2.5m`.
pub fn parse_count(text: &str) -> Result<u64> {
    parse_amount(text, &COUNT_UNITS).ok_or_else(|| invalid_amount(text, "a number such as 5000, 10k or 2m"))
}

/// A positive number with a unit from the table, in whole units of the smallest kind.
fn parse_amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[split..].trim().to_ascii_lowercase();
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let number: f64 = text[..split].parse().ok()?;
    #[allow(clippy::cast_precision_loss)] // scales are far below 2^53
    let whole = (number * *scale as f64).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
    (1.0..9e15).contains(&whole).then_some(whole as u64)
}

fn invalid_amount(text: &str, wanted: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("{text:?} is not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_written() {
        assert_eq!(parse_duration("5s").unwrap(), Duration::from_secs(5));
        assert_eq!(parse_duration("1.5m").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(parse_bytes("64MB").unwrap(), 64 << 20);
        assert_eq!(parse_bytes("1 GiB").unwrap(), 1 << 30);
        assert_eq!((parse_count("5000").unwrap(), parse_count("2.5M").unwrap()), (5000, 2_500_000));
    }

    #[test]
    fn nothing_zero_negative_or_endless_passes() {
        for text in ["", "0", "-5s", "5 parsecs", "1e9s", "nan", "inf", "99999999999999999h", "s", "."] {
            assert_eq!(parse_duration(text).unwrap_err().kind(), ErrorKind::Usage, "{text:?}");
        }
    }
}
