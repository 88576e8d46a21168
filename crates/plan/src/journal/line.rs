//! One line of a journal (a checksum, the event and, after a tab, the value), and the digests that identify the run it belongs to.

use std::fmt::Write;

use metier_core::strict_json::{self, canonical_text};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::parse::json_tree;

/// The length of a checksum in hexadecimal digits.
const CHECKSUM_DIGITS: usize = 16;

/// Encodes this text and value as a line, with its line end.
pub(super) fn encode(text: &str, value: Option<&str>) -> String {
    let content = match value {
        Some(value) => format!("{text}\t{value}"),
        None => text.to_owned(),
    };
    format!("{} {content}\n", checksum(&content))
}

/// The text and value of a line without its line end; `None` if its checksum does not match.
pub(super) fn decode(line: &[u8]) -> Option<(String, Option<String>)> {
    let (sum, content) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if sum != checksum(content) {
        return None;
    }
    Some(match content.split_once('\t') {
        Some((text, value)) => (text.to_owned(), Some(value.to_owned())),
        None => (content.to_owned(), None),
    })
}

/// Parses the value of a line, with every digit of its numbers.
pub(super) fn parse_value(text: &str) -> Option<Value> {
    strict_json::parse(text).ok()?;
    json_tree::parse_tree(text).to_json().ok()
}

fn checksum(content: &str) -> String {
    let mut digest = bytes_digest(content.as_bytes());
    digest.truncate(CHECKSUM_DIGITS);
    digest
}

/// The digest of bytes, in hexadecimal.
pub(crate) fn bytes_digest(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal, two digits each.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digest of a value; the order of keys does not change it.
pub(crate) fn value_digest(value: &Value) -> String {
    bytes_digest(canonical_text(value).as_bytes())
}
