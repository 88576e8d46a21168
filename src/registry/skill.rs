//! A skill as discovery found it: what its frontmatter says at once, the rest on demand.

use super::folder::Folder;
use super::root::Scope;
use crate::error::Result;
use crate::policy::Limits;
use crate::skill::{Diagnostic, Manifest};

/// One skill that loads.
#[derive(Clone, Debug)]
pub struct Skill {
    pub(super) manifest: Manifest,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) scope: Scope,
    pub(super) root: usize,
    pub(super) label: String,
    pub(super) folder: Folder,
    pub(super) file: String,
    pub(super) shadowed_by: Option<String>,
}

impl Skill {
    /// The name, normalised; the folder's when the file gives none.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// What it does and when to use it.
    pub fn description(&self) -> &str {
        &self.manifest.description
    }

    /// `metadata.version`, or 0.0.0.
    pub fn version(&self) -> &semver::Version {
        &self.manifest.version
    }

    /// Everything the frontmatter says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What was repaired, or is off, in its frontmatter.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whose folder it was found in.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// What the root is called: `.metier`, `.agents`.
    pub fn root_label(&self) -> &str {
        &self.label
    }

    /// Where it is, for a person: the path of its SKILL.md, or `shipped:NAME`.
    pub fn path(&self) -> String {
        match &self.folder {
            Folder::Disk(folder) => folder.join(&self.file).display().to_string(),
            Folder::Shipped(shipped) => format!("shipped:{}", shipped.name),
        }
    }

    /// The name nobody else has: `scope/root:name@version`.
    pub fn qualified(&self) -> String {
        format!("{}/{}:{}@{}", self.scope, self.label, self.name(), self.version())
    }

    /// The qualified name of the skill its plain name reaches instead.
    pub fn shadowed_by(&self) -> Option<&str> {
        self.shadowed_by.as_deref()
    }

    /// The folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The instructions: what follows the frontmatter. Read now.
    pub fn body(&self) -> Result<String> {
        let bytes = self.folder.read(&self.file, Limits::FILE)?;
        let body = bytes.get(self.manifest.body_offset..).unwrap_or_default();
        Ok(String::from_utf8_lossy(body).trim_start_matches(['\r', '\n']).to_owned())
    }

    /// The paths of the files in `scripts/`, sorted. Listed now.
    pub fn scripts(&self) -> Result<Vec<String>> {
        let mut paths = self.folder.files()?;
        paths.retain(|path| path.starts_with("scripts/"));
        Ok(paths)
    }
}
