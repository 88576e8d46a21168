//! What a script expects of the program that hosts it.

use serde::Serialize;
use serde_json::Value;

use super::serialize::by_key;
use metier_core::error::Violation;
use metier_core::excerpt::shorten;

/// The most characters of a text that an error repeats.
const MAX_SHOWN_CHARS: usize = 60;
/// What a point in time is, in words.
const TIME_FORM: &str = "a date and time in ISO 8601, best with an offset, such as 2026-03-01T09:00:00+01:00";

/// What a script expects of its host, beside permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostNeeds {
    /// Services of the host that the script calls, by their names.
    pub capabilities: Vec<String>,
    /// The secrets that it reads; it can read no others.
    pub secrets: Vec<String>,
    /// The inputs that are points in time: they reach the script in UTC.
    pub timestamps: Vec<String>,
    /// What the host may add to the input.
    pub enrichment: Option<Enrichment>,
    /// The fields of its output, each with what it is. The output is not validated against them.
    #[serde(serialize_with = "by_key")]
    pub output_descriptions: Vec<(String, String)>,
}

/// People or agents whose records the host may add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Enrichment {
    /// The input that names them.
    pub param: String,
    /// Whom it means where the input is absent: `caller` or `agent`.
    pub default: String,
}

/// What is wrong with the points in time in an input. A text of blanks is none, as where the input is absent.
pub fn time_violations(needs: &HostNeeds, input: &Value) -> Vec<Violation> {
    let violation = |name: &String| {
        let text = input.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())?;
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let found = || format!("{:?}", shorten(text, MAX_SHOWN_CHARS));
        (!is_point_in_time(text)).then(|| Violation::new(pointer, "format", TIME_FORM, found()))
    };
    needs.timestamps.iter().filter_map(violation).collect()
}

/// `2026-03-01`, or with a time after `T` or a blank: `09:00`, `09:00:30`, `09:00:30.25`, and after that `Z`, `+01:00` or `+0100`.
fn is_point_in_time(text: &str) -> bool {
    parse_point_in_time(text).is_some()
}

fn parse_point_in_time(text: &str) -> Option<()> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let (year, month, day) = (number(date, 0..4)?, number(date, 5..7)?, number(date, 8..10)?);
    let is_written = |text: &str, at: usize, sign: u8| text.as_bytes().get(at) == Some(&sign);
    if !is_written(date, 4, b'-')
        || !is_written(date, 7, b'-')
        || !(1..=days_in_month(year, month)?).contains(&day)
    {
        return None;
    }
    if rest.is_empty() {
        return Some(());
    }
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let (hour, minute) = (number(time, 0..2)?, number(time, 3..5)?);
    let mut rest = time.get(5..).filter(|_| is_written(time, 2, b':'))?;
    let mut is_whole_minute = true;
    if let Some(seconds) = rest.strip_prefix(':') {
        let second = number(seconds, 0..2).filter(|second| *second < 60)?;
        is_whole_minute = second == 0;
        rest = seconds.get(2..)?;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            is_whole_minute &= fraction.bytes().take(digits).all(|digit| digit == b'0');
            rest = fraction.get(digits..).filter(|_| (1..=9).contains(&digits))?;
        }
    }
    let is_time = hour < 24 && minute < 60 || hour == 24 && minute == 0 && is_whole_minute;
    (is_time && is_offset(rest)).then_some(())
}

fn is_offset(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else { return matches!(text, "" | "Z" | "z") };
    let digits = match offset.split_once(':') {
        Some((hours, minutes)) if hours.len() == 2 => format!("{hours}{minutes}"),
        Some(_) => return false,
        None => offset.to_owned(),
    };
    digits.len() == 4
        && number(&digits, 0..2).is_some_and(|hours| hours < 24)
        && number(&digits, 2..4).is_some_and(|minutes| minutes < 60)
}

/// The digits at these places as a number.
fn number(text: &str, at: std::ops::Range<usize>) -> Option<u32> {
    text.get(at).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok()
}

fn days_in_month(year: u32, month: u32) -> Option<u32> {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    Some(match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

impl Enrichment {
    pub(crate) fn new(param: String, default: String) -> Self {
        Self { param, default }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_a_date_that_exists_with_or_without_a_time() {
        for text in [
            "2026-03-01",
            "1955-02-28",
            "2024-02-29",
            "2026-03-01T09:00",
            "2026-03-01 09:00:30",
            "2026-03-01t09:00:30.123456789z",
            "2026-03-01T09:00Z",
            "2026-03-01T09:00:00+01:00",
            "2026-03-01T09:00:00-0530",
            "2026-03-01T24:00:00Z",
        ] {
            assert!(is_point_in_time(text), "{text}");
        }
        for text in [
            "",
            "1",
            "next week",
            "2026-3-1",
            "2026/03/01",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-04-31T09:00Z",
            "2026-03-01T",
            "2026-03-01T9:00",
            "2026-03-01T09",
            "2026-03-01T09:60",
            "2026-03-01T25:00",
            "2026-03-01T24:00:01",
            "2026-03-01T09:00:60",
            "2026-03-01T09:00:00.",
            "2026-03-01T09:00:00.1234567890",
            "2026-03-01T09:00+1",
            "2026-03-01T09:00+24:00",
            "2026-03-01T09:00+1:000",
            "2026-03-01T09:00Z later",
            "2026-03-01é09:00",
            "+026-03-01",
        ] {
            assert!(!is_point_in_time(text), "{text}");
        }
    }
}
