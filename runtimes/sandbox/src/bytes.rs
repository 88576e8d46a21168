//! Serializes names and paths as byte strings: serde alone would handle each byte by itself, in each of the five processes of a
//! start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(text: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(text.as_bytes())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OsString, D::Error> {
    Ok(OsStringBytes::deserialize(deserializer)?.0)
}

/// A list of names or paths.
pub(super) mod list {
    use super::{Deserialize, Deserializer, OsStrBytes, OsString, OsStringBytes, Serializer};

    pub(crate) fn serialize<S: Serializer>(texts: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(texts.iter().map(|text| OsStrBytes(text)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
        let texts = Vec::<OsStringBytes>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|OsStringBytes(text)| text).collect())
    }
}

/// Pairs of names and values.
pub(super) mod pairs {
    use super::{Deserialize, Deserializer, OsStrBytes, OsString, OsStringBytes, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(OsString, OsString)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(name, value)| (OsStrBytes(name), OsStrBytes(value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let pairs = Vec::<(OsStringBytes, OsStringBytes)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(OsStringBytes(name), OsStringBytes(value))| (name, value)).collect())
    }
}

struct OsStrBytes<'a>(&'a OsStr);

impl Serialize for OsStrBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

struct OsStringBytes(OsString);

impl<'de> Deserialize<'de> for OsStringBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = OsStringBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or a path")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<OsStringBytes, E> {
        Ok(OsStringBytes(OsStr::from_bytes(bytes).to_owned()))
    }
}
