//! Writes the files of a case's project before its run.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Value, json};

use metier_core::error::Result;
use metier_core::host::Files;
use metier_core::host::files::{FilesView, path_below};

/// The content of a file: its text, or its bytes as `{"base64": ".."}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileContent(Vec<u8>);

impl FileContent {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The content in the form of a case file.
    pub(super) fn as_json(&self) -> Value {
        match std::str::from_utf8(&self.0) {
            Ok(text) => json!(text),
            Err(_) => json!({"base64": STANDARD.encode(&self.0)}),
        }
    }
}

impl<'de> Deserialize<'de> for FileContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a file is its text, or {\"base64\": \"..\"}")]
        enum Content {
            Text(String),
            Bytes { base64: String },
        }
        match Content::deserialize(deserializer)? {
            Content::Text(text) => Ok(Self(text.into_bytes())),
            Content::Bytes { base64 } => STANDARD.decode(base64).map(Self).map_err(D::Error::custom),
        }
    }
}

/// Writes the files and creates their parent folders.
pub(super) fn write_files(project: &Files, files: &BTreeMap<String, FileContent>) -> Result<()> {
    let view = FilesView::unrestricted(project);
    for (path, content) in files {
        let path = &path_below(path, None, "the project of the case")?;
        if let Some((folder, _)) = path.rsplit_once('/') {
            view.create_dir(folder)?;
        }
        view.write(path, content.bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::ErrorKind;

    #[test]
    fn files_are_text_or_bytes() {
        let files: BTreeMap<String, FileContent> =
            serde_json::from_str(r#"{"a/b/c.txt": "é", "d": {"base64": "/w=="}}"#).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_files(&Files::open(folder.path()).unwrap(), &files).unwrap();
        assert_eq!(std::fs::read(folder.path().join("a/b/c.txt")).unwrap(), "é".as_bytes());
        assert_eq!(std::fs::read(folder.path().join("d")).unwrap(), [0xff]);
        assert!(serde_json::from_str::<FileContent>(r#"{"base64": "?"}"#).is_err());
    }

    #[test]
    fn no_file_is_laid_out_outside_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("project");
        std::fs::create_dir(&inner).unwrap();
        for path in ["../x", "/tmp/metier-x", "a/../../x"] {
            let files = BTreeMap::from([(path.to_owned(), FileContent::from_bytes(b"x"))]);
            let error = write_files(&Files::open(&inner).unwrap(), &files).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutsideProject, "{path}");
        }
        assert!(!folder.path().join("x").exists());
    }
}
