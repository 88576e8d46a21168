//! The content of a file as a script takes and gives it: text, or base64 for bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Result;
use crate::host::files::FilesView;
use crate::host::function::{Param, ValueType};

/// The options of functions that take or give a file's content.
pub(super) const ENCODING: &[Param] = &[Param {
    name: "encoding",
    value_type: ValueType::Text,
    required: false,
    doc: "`utf-8`, the default, or `base64` for bytes (standard alphabet, padded)",
}];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ContentOptions {
    pub(super) encoding: Encoding,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub(super) enum Encoding {
    #[default]
    #[serde(rename = "utf-8", alias = "utf8")]
    Text,
    #[serde(rename = "base64")]
    Base64,
}

/// The content of a file as the options want it.
pub(super) fn content(files: FilesView<'_>, path: &str, options: &ContentOptions) -> Result<Value> {
    let text = match options.encoding {
        Encoding::Text => files.text(path)?,
        Encoding::Base64 => files.read_encoded(path, |bytes| STANDARD.encode(bytes))?,
    };
    Ok(text.into())
}
