//! The store of what skills keep: the states in it, and the one of a skill in a project.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::record::{SkillState, StateRecord, StoredFile, StoredState, StoredValue};
use super::{folder, values};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{RunContext, SkillContext, StoreProvider, metier_dirs};
use serde_json::Value;

/// The folder in which skills that were granted `state` keep their home folders and values, for each skill and project, and in which the
/// skills of a project keep the values that they share. Only the user can read it, and no script reaches it but for its own home
/// while it runs.
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

    /// The keys and sizes of the values of a state, by their keys.
    pub fn values(&self, state: &StoredState) -> Result<Vec<StoredValue>> {
        folder::values(&self.folder, state)
    }

    /// Removes the states for which this is true; returns how many they were. `unavailable` if a run works on one of them, which
    /// stays.
    pub fn clear(&self, is_meant: impl FnMut(&StoredState) -> bool) -> Result<usize> {
        folder::clear(&self.folder, is_meant)
    }
}

/// The state of the skill of this qualified name, in whatever version, that lies in this folder, in a project. The name is a text
/// of the skill, so the folder tells it from others that call themselves the same. `identity` distinguishes the project from
/// others that had or will have its path.
pub fn skill_state(
    store: &StateStore,
    (skill, folder): (&str, &str),
    (project, identity): (&str, &str),
) -> SkillState {
    let skill = skill.rsplit_once('@').map_or(skill, |(unversioned, _)| unversioned);
    let name = skill.rsplit(['/', ':']).next().unwrap_or(skill);
    let name: String = name.chars().map(folder_char).take(MAX_NAME_CHARS).collect();
    SkillState {
        store: store.folder.clone(),
        project_name: short_digest(identity),
        // No name holds a NUL.
        skill_name: format!("{name}-{}", short_digest(&format!("{skill}\0{folder}"))),
        record: StateRecord {
            skill: skill.to_owned(),
            folder: folder.to_owned(),
            project: project.to_owned(),
            store: None,
        },
    }
}

impl SkillState {
    /// The store of this name that the skills of the same project share.
    fn shared(&self, name: &str) -> Self {
        let shown: String = name.chars().map(folder_char).take(MAX_NAME_CHARS).collect();
        Self {
            store: self.store.clone(),
            project_name: self.project_name.clone(),
            // No name of a skill's folder holds a dot.
            skill_name: format!("shared.{shown}-{}", short_digest(name)),
            record: StateRecord {
                skill: String::new(),
                folder: String::new(),
                project: self.record.project.clone(),
                store: Some(name.to_owned()),
            },
        }
    }
}

/// The values of the skill that runs, which its engine has told where they lie.
impl StoreProvider for StateStore {
    fn get(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<Option<Value>> {
        values::get(&place(ctx, shared)?, key)
    }

    fn set(&self, ctx: &SkillContext, shared: Option<&str>, key: &str, value: &Value) -> Result<()> {
        values::set(&place(ctx, shared)?, key, value, &|| ctx.cancel().check())
    }

    fn keys(&self, ctx: &SkillContext, shared: Option<&str>, prefix: &str) -> Result<Vec<String>> {
        values::keys(&place(ctx, shared)?, prefix)
    }

    fn delete(&self, ctx: &SkillContext, shared: Option<&str>, key: &str) -> Result<bool> {
        values::delete(&place(ctx, shared)?, key, &|| ctx.cancel().check())
    }
}

/// Where the values lie that the run asks for.
fn place(ctx: &SkillContext, shared: Option<&str>) -> Result<SkillState> {
    let own = ctx.extensions().get::<Option<SkillState>>().and_then(Option::as_ref).ok_or_else(|| {
        let sentence = format!("this program has no place for the values of the skill {}", ctx.skill());
        SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("set `EngineBuilder::state`, and a project whose path is UTF-8")
    })?;
    Ok(shared.map_or_else(|| own.clone(), |name| own.shared(name)))
}

/// Maximum characters of a name in the name of a folder.
const MAX_NAME_CHARS: usize = 40;

fn folder_char(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
}

fn short_digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    format!("{:032x}", digest.first_chunk().map_or(0, |first| u128::from_be_bytes(*first)))
}
