//! Times as a plan writes them: a number and its unit, as in `500ms`, `30s`, `5m`, `2h`.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// The time, or nothing where the text is none. No longer than a year.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    let milliseconds = number.parse::<u64>().ok()?.checked_mul(factor)?;
    const YEAR: u64 = 365 * 24 * 3_600_000;
    (milliseconds <= YEAR).then(|| Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, milliseconds) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("5 m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("0s", Some(0)),
        ] {
            assert_eq!(duration(text).map(|time| time.as_millis()), milliseconds, "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "1d",
            "1s ",
            "99999999999999999999s",
            "18446744073709551615h",
            "９s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
