//! Names and paths on their way between processes, as the bytes that they are: by itself serde takes them one by one, in each of
//! the five processes of a start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(text: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(text.as_bytes())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OsString, D::Error> {
    Ok(Read::deserialize(deserializer)?.0)
}

/// Several.
pub(super) mod list {
    use super::{Deserialize, Deserializer, OsString, Read, Serializer, Written};

    pub(in super::super) fn serialize<S: Serializer>(
        texts: &[OsString],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(texts.iter().map(|text| Written(text)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let texts = Vec::<Read>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|Read(text)| text).collect())
    }
}

/// Names with values.
pub(super) mod pairs {
    use super::{Deserialize, Deserializer, OsString, Read, Serializer, Written};

    pub(in super::super) fn serialize<S: Serializer>(
        pairs: &[(OsString, OsString)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(name, value)| (Written(name), Written(value))))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let pairs = Vec::<(Read, Read)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(Read(name), Read(value))| (name, value)).collect())
    }
}

struct Written<'a>(&'a OsStr);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

struct Read(OsString);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or a path")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Read, E> {
        Ok(Read(OsStr::from_bytes(bytes).to_owned()))
    }
}
