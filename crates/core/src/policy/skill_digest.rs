//! The digest of a skill: what a person trusted, granted something to, or locked.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorKind, SkillError};

/// The SHA-256 of all files of a skill and of every skill that it calls. As text and in JSON: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillDigest([u8; 32]);

const ALGORITHM: &str = "sha256:";

impl SkillDigest {
    /// The digest with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hexadecimal digits alone.
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Display for SkillDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.to_hex())
    }
}

impl fmt::Debug for SkillDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SkillDigest {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        let invalid = || {
            SkillError::new(ErrorKind::Usage, "invalid digest; expected sha256: and 64 digits 0-9 and a-f")
        };
        let digits = text.strip_prefix(ALGORITHM).map(str::as_bytes).unwrap_or_default();
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(invalid());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte =
                digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(invalid)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for SkillDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SkillDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_nothing_else_is() {
        let digest = SkillDigest::new(std::array::from_fn(|index| u8::try_from(index * 8).unwrap()));
        let text = digest.to_string();
        assert_eq!(text.len(), 71);
        assert_eq!(text.parse::<SkillDigest>().unwrap(), digest);
        for other in [&text[1..], &text[..70], &text.to_uppercase(), &format!("{text}0"), "sha256:", ""] {
            assert!(other.parse::<SkillDigest>().is_err(), "{other}");
        }
    }
}
