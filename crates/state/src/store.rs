//! The store of what skills keep: the states in it, and the one of a skill in a project.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::folder;
use super::record::{SkillState, StateRecord, StoredFile, StoredState};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::metier_dirs;

/// The folder in which skills that were granted `state` keep their home folders, one for each skill and project. Only the user can
/// read it, and no script reaches it but for its own home while it runs.
#[derive(Clone, Debug)]
pub struct StateStore {
    folder: PathBuf,
}

impl StateStore {
    /// The store of this user: in the folder that the environment variable `METIER_DATA_DIR` names, or in that of metier in the
    /// user's data folder. `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        let missing = || {
            let sentence =
                "there is no folder for the state of skills: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        };
        metier_dirs::skill_state_dir().map(Self::new).ok_or_else(missing)
    }

    /// The store in this folder, which need not exist. It must not lie in a project, where scripts could write to it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        // A slash at the end would follow a link.
        Self { folder: folder.into().components().collect() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every state in it. `denied` if somebody else could have written to it.
    pub fn states(&self) -> Result<Vec<StoredState>> {
        folder::list(&self.folder)
    }

    /// The files of a state, by their paths.
    pub fn files(&self, state: &StoredState) -> Result<Vec<StoredFile>> {
        folder::files(&self.folder, state)
    }

    /// Removes the states for which this is true; returns how many they were. `unavailable` if a run works on one of them, which
    /// stays.
    pub fn clear(&self, is_meant: impl FnMut(&StoredState) -> bool) -> Result<usize> {
        folder::clear(&self.folder, is_meant)
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl StateStore {
    /// The state of the skill of this qualified name, in whatever version, that lies in this folder, in a project. The name is a text
    /// of the skill, so the folder tells it from others that call themselves the same. `identity` distinguishes the project from
    /// others that had or will have its path.
    pub fn of_skill(&self, (skill, folder): (&str, &str), (project, identity): (&str, &str)) -> SkillState {
        let skill = skill.rsplit_once('@').map_or(skill, |(unversioned, _)| unversioned);
        let name = skill.rsplit(['/', ':']).next().unwrap_or(skill);
        let name: String = name
            .chars()
            .take(40)
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        SkillState {
            store: self.folder.clone(),
            project_name: short_digest(identity),
            // No name holds a NUL.
            skill_name: format!("{name}-{}", short_digest(&format!("{skill}\0{folder}"))),
            record: StateRecord {
                skill: skill.to_owned(),
                folder: folder.to_owned(),
                project: project.to_owned(),
            },
        }
    }
}

fn short_digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    format!("{:032x}", digest.first_chunk().map_or(0, |first| u128::from_be_bytes(*first)))
}
