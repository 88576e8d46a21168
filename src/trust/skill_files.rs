//! The files behind the digest of a skill, as the engine found them: what is shown, trusted and locked.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::registry::FileList;
use metier_core::policy::SkillDigest;

/// The files of a skill and of every skill that it calls, as they were read at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillFiles {
    /// Its plain name.
    pub name: String,
    /// Its qualified name without the version, such as `project/.metier:notes`.
    pub qualified_name: String,
    /// Its version.
    pub version: String,
    /// Its folder, relative to the project, `/`-separated; `None` for a skill that lies elsewhere.
    pub folder: Option<String>,
    /// The paths below its folder that its contract names as `state`: no part of its files.
    pub state: Vec<String>,
    /// The digests of the packages that were prepared for its scripts and for those of the skills that it calls, in hexadecimal
    /// digits, sorted.
    pub packages: Vec<String>,
    /// The digest of all these files, and of the packages.
    pub digest: SkillDigest,
    /// Its own files.
    pub files: Arc<FileList>,
    /// The files of the skills that it calls, and of those that these call.
    pub callees: Vec<CalleeFiles>,
}

/// The files of a skill that another one calls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalleeFiles {
    /// Its qualified name without the version.
    pub qualified_name: String,
    /// Its files.
    pub files: Arc<FileList>,
}

impl CalleeFiles {
    pub(crate) fn new(qualified_name: String, files: Arc<FileList>) -> Self {
        Self { qualified_name, files }
    }
}

impl SkillFiles {
    /// The digest of a skill with those of its callees: of each the name and the digest of its own files, its own first; and of
    /// prepared packages.
    pub(crate) fn combined_digest(
        name: &str,
        files: &FileList,
        callees: &[CalleeFiles],
        packages: &[String],
    ) -> SkillDigest {
        let mut sorted: Vec<(&str, SkillDigest)> =
            callees.iter().map(|callee| (callee.qualified_name.as_str(), callee.files.digest())).collect();
        sorted.sort_unstable();
        let mut digest = Sha256::new();
        digest.update(b"metier skill 1\n");
        for (name, own) in std::iter::once((name, files.digest())).chain(sorted) {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update(own.as_bytes());
        }
        // A skill without packages has the digest that it always had.
        if !packages.is_empty() {
            digest.update(b"packages\n");
            for package in packages {
                digest.update((package.len() as u64).to_le_bytes());
                digest.update(package);
            }
        }
        SkillDigest::new(digest.finalize().into())
    }

    /// The digest of all these files without the packages: the same on every machine.
    pub(crate) fn files_digest(&self) -> SkillDigest {
        Self::combined_digest(&self.qualified_name, &self.files, &self.callees, &[])
    }

    /// The digests of the own files of its callees, by their qualified names without the version.
    pub(crate) fn callee_digests(&self) -> Vec<(String, SkillDigest)> {
        self.callees.iter().map(|callee| (callee.qualified_name.clone(), callee.files.digest())).collect()
    }

    /// All lists of files, its own first.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &FileList> {
        std::iter::once(&*self.files).chain(self.callees.iter().map(|callee| &*callee.files))
    }
}
