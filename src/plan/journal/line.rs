//! A line of a journal: a checksum, what happened, and, after a tab, the value.

use serde_json::Value;

use crate::plan::journal::digest;
use crate::plan::parse::json_tree;
use crate::strict_json;

/// Hexadecimal digits of a checksum.
const CHECKSUM_DIGITS: usize = 16;

/// The line for that text and value, with its end.
pub(super) fn encode(text: &str, value: Option<&str>) -> String {
    let content = match value {
        Some(value) => format!("{text}\t{value}"),
        None => text.to_owned(),
    };
    format!("{} {content}\n", checksum(&content))
}

/// Text and value of a line without its end, or nothing where its checksum is not that of the rest.
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

/// The value of such a text, to the last digit.
pub(super) fn parse_value(text: &str) -> Option<Value> {
    strict_json::parse(text).ok()?;
    json_tree::parse_tree(text).to_json().ok()
}

fn checksum(content: &str) -> String {
    let mut digest = digest::bytes_digest(content.as_bytes());
    digest.truncate(CHECKSUM_DIGITS);
    digest
}
