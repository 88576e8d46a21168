//! Digests that identify the run a journal belongs to.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use metier_core::strict_json::canonical_text;

/// The digest of bytes, in hexadecimal.
pub(crate) fn bytes_digest(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal, two digits each.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digest of a value; the order of keys does not change it.
pub(crate) fn value_digest(value: &Value) -> String {
    bytes_digest(canonical_text(value).as_bytes())
}
