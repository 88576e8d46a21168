//! A point in time as people read it, in whole seconds.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorKind, SkillError};

/// A point in time, in whole seconds since 1970. As text and in JSON: `2026-11-24T08:30:00Z` (RFC 3339, in UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// The first second of the year 10000, which four digits cannot write.
const END: u64 = 253_402_300_800;
const SECONDS_OF_DAY: u64 = 86_400;
const DAYS_OF_400_YEARS: u64 = 146_097;
/// The days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

impl Timestamp {
    /// The time by the clock of the system.
    pub fn now() -> Self {
        let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::from_seconds(elapsed.as_secs())
    }

    /// So many seconds after the beginning of 1970.
    pub fn from_seconds(seconds: u64) -> Self {
        Self(seconds.min(END - 1))
    }

    /// The seconds since the beginning of 1970.
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / SECONDS_OF_DAY + DAYS_BEFORE_1970, self.0 % SECONDS_OF_DAY);
        // Years begin in March here, so that a leap day is the last of its year.
        let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = (era * 400 + year + month / 10, (month + 2) % 12 + 1);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromStr for Timestamp {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        let invalid = || {
            let sentence = "invalid time; expected one such as 2026-11-24T08:30:00Z";
            SkillError::new(ErrorKind::Usage, sentence)
        };
        let number = |range| text.get(range).and_then(|digits: &str| digits.parse::<u64>().ok());
        let numbers =
            [number(0..4), number(5..7), number(8..10), number(11..13), number(14..16), number(17..19)];
        let [Some(year), Some(month @ 1..=12), Some(day @ 1..=31), Some(hour), Some(minute), Some(second)] =
            numbers
        else {
            return Err(invalid());
        };
        let (year, month) =
            if month > 2 { (year, month - 3) } else { (year.checked_sub(1).ok_or_else(invalid)?, month + 9) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
        let days = days.checked_sub(DAYS_BEFORE_1970).ok_or_else(invalid)?;
        let time = Self(days * SECONDS_OF_DAY + hour * 3600 + minute * 60 + second);
        // A day or an hour that does not exist is written differently.
        if time.0 < END && time.to_string() == text { Ok(time) } else { Err(invalid()) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_others_write_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_795_508_999, "2026-11-24T08:29:59Z"),
            (END - 1, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap(), Timestamp(seconds));
        }
    }

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for day in 0..DAYS_OF_400_YEARS * 2 {
            let time = Timestamp(day * SECONDS_OF_DAY + day % SECONDS_OF_DAY);
            assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026-11-24",
            "2026-11-24T08:30:00",
            "2026-11-24T08:30:00+01:00",
            "2026-02-30T08:30:00Z",
            "2026-11-24T24:30:00Z",
            "2026-13-01T08:30:00Z",
            "1969-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
            "+026-11-24T08:30:00Z",
            "2026-11-24T08:30:00Zé",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
