//! The chain of lines: each has its own hash and that of the line before it.
//!
//! A line is `{…,"previous":"HASH","hash":"HASH"}` and a line end. `hash` is the SHA-256 of the line up to `,"hash"`, `previous` the
//! `hash` of the line before, and 64 zeros in the first line of a log.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use metier_core::error::{ErrorKind, SkillError};

/// The hash of a line of the audit log, and so of all lines before it. As text and in JSON: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuditHash([u8; 32]);

const HEX_DIGITS: usize = 64;
const PREVIOUS_KEY: &str = ",\"previous\":\"";
const HASH_KEY: &str = "\",\"hash\":\"";
const END: &str = "\"}";

impl AuditHash {
    /// What the first line of a log has as the hash of the line before.
    pub(super) const NONE: Self = Self([0; 32]);

    /// The hash of a line that is none of the log's.
    pub(super) fn of_foreign_line(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    fn from_hex(digits: &[u8]) -> Option<Self> {
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if digits.len() != HEX_DIGITS {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    fn push_to(self, line: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        line.extend(
            self.0.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        );
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AuditHash {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        Self::from_hex(text.as_bytes())
            .ok_or_else(|| SkillError::new(ErrorKind::Usage, "invalid hash; expected 64 digits 0-9 and a-f"))
    }
}

impl Serialize for AuditHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Makes a JSON object the next line of the chain, with its line end, and returns the line's hash.
pub(super) fn close_line(object: &mut Vec<u8>, previous: AuditHash) -> AuditHash {
    object.pop();
    object.extend_from_slice(PREVIOUS_KEY.as_bytes());
    previous.push_to(object);
    // The quote of `previous` belongs to what is hashed.
    object.push(b'"');
    let hash = AuditHash(Sha256::digest(&*object).into());
    object.extend_from_slice(&HASH_KEY.as_bytes()[1..]);
    hash.push_to(object);
    object.extend_from_slice(END.as_bytes());
    object.push(b'\n');
    hash
}

/// A line whose hash is right.
pub(super) struct SealedLine {
    pub(super) previous: AuditHash,
    pub(super) hash: AuditHash,
}

impl SealedLine {
    /// Parses a line without its line end, and checks its hash; why it is no line of a chain otherwise.
    pub(super) fn parse(line: &[u8]) -> Result<Self, &'static str> {
        const INCOMPLETE: &str = "it does not end with its hash";
        let rest = line.strip_suffix(END.as_bytes()).ok_or(INCOMPLETE)?;
        let (rest, hash) = split_hash(rest).ok_or(INCOMPLETE)?;
        let content = rest.strip_suffix(&HASH_KEY.as_bytes()[1..]).ok_or(INCOMPLETE)?;
        if AuditHash(Sha256::digest(content).into()) != hash {
            return Err("its hash is another one: it was changed");
        }
        let rest = content.strip_suffix(b"\"").ok_or(INCOMPLETE)?;
        let (rest, previous) = split_hash(rest).ok_or(INCOMPLETE)?;
        rest.strip_suffix(PREVIOUS_KEY.as_bytes()).ok_or(INCOMPLETE)?;
        Ok(Self { previous, hash })
    }
}

fn split_hash(text: &[u8]) -> Option<(&[u8], AuditHash)> {
    let (rest, digits) = text.split_at_checked(text.len().checked_sub(HEX_DIGITS)?)?;
    Some((rest, AuditHash::from_hex(digits)?))
}

/// Whether a text without a line end has a whole line in it: more than a crash leaves.
pub(super) fn holds_whole_line(tail: &[u8]) -> bool {
    let length = HASH_KEY.len() + HEX_DIGITS + END.len();
    tail.windows(length).any(|part| {
        let is_end = part.starts_with(HASH_KEY.as_bytes()) && part.ends_with(END.as_bytes());
        is_end && AuditHash::from_hex(&part[HASH_KEY.len()..][..HEX_DIGITS]).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_hash_and_that_of_the_line_before() {
        let mut line = br#"{"kind":"torn"}"#.to_vec();
        let hash = close_line(&mut line, AuditHash::NONE);
        let text = String::from_utf8(line).unwrap();
        let zeros = "0".repeat(64);
        assert_eq!(text, format!("{{\"kind\":\"torn\",\"previous\":\"{zeros}\",\"hash\":\"{hash}\"}}\n"));
        let sealed = SealedLine::parse(text.trim_end().as_bytes()).unwrap();
        assert!(sealed.hash == hash && sealed.previous == AuditHash::NONE);
        assert_eq!(hash.to_string().parse::<AuditHash>().unwrap(), hash);
        let hashed = text.split(",\"hash\"").next().unwrap();
        assert_eq!(AuditHash::of_foreign_line(hashed.as_bytes()), hash, "as sha256sum computes it");
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for text in ["", "0", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert!(text.parse::<AuditHash>().is_err(), "{text}");
        }
    }
}
