//! Digests by which a journal knows whether it belongs to a run.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The digest of some bytes, in hexadecimal.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as text, two digits each.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digest of a value; the order of keys is no part of it.
pub(super) fn of_value(value: &Value) -> String {
    // Objects are kept sorted, so equal values are equal texts.
    of_bytes(value.to_string().as_bytes())
}
