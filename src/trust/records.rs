//! The records of the trust store, as they are in its file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::trust::{CalleeFiles, ProjectIdentity, SkillFiles};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::{ArgumentPattern, GrantOrigin, Permission, SkillDigest, Timestamp};

/// The version of the file that this version of metier reads and writes.
pub(super) const VERSION: u64 = 1;
/// Maximum number of records of each kind.
const MAX_RECORDS: usize = 10_000;

/// Everything that the trust store holds. Keys that this version does not know are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustRecords {
    #[serde(rename = "metier_trust")]
    pub(super) version: u64,
    /// Folders in which every skill is trusted, now and later.
    #[serde(default)]
    pub folders: Vec<TrustedFolder>,
    /// Skills of projects that are trusted as they were.
    #[serde(default)]
    pub skills: Vec<TrustedSkill>,
    /// Permissions that were granted for later runs.
    #[serde(default)]
    pub grants: Vec<RememberedGrant>,
    /// What was wrong with the file, in sentences.
    #[serde(skip)]
    pub warnings: Vec<String>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A folder in which every skill is trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustedFolder {
    /// The folder.
    pub folder: ProjectIdentity,
    /// When it was trusted.
    pub since: Timestamp,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A skill of a project that is trusted as long as it has this digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustedSkill {
    /// The project.
    pub project: ProjectIdentity,
    /// The qualified name without the version.
    pub skill: String,
    /// The folder of the skill, relative to the project.
    pub folder: String,
    /// The digest of the skill with its callees.
    pub digest: SkillDigest,
    /// The digest of its own files.
    pub files: SkillDigest,
    /// The skills that it calls, and those that these call.
    #[serde(default)]
    pub callees: Vec<TrustedCallee>,
    /// When it was trusted.
    pub since: Timestamp,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A skill that a trusted one calls, as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustedCallee {
    /// The qualified name without the version.
    pub skill: String,
    /// The digest of its own files.
    pub files: SkillDigest,
}

/// A permission that was granted for later runs of a skill with this digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RememberedGrant {
    /// The plain name of the skill.
    pub skill: String,
    /// The digest of the skill with its callees.
    pub digest: SkillDigest,
    /// The project in which it applies; `null` for all.
    pub project: Option<ProjectIdentity>,
    /// The permission, as text.
    pub permission: String,
    /// The [`ArgumentPattern`] of the runs to which it applies; `null` for all. One that cannot be read fits none.
    #[serde(default)]
    pub arguments: Value,
    /// When it was granted.
    pub since: Timestamp,
    /// What recorded it, such as a command.
    pub by: String,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl TrustRecords {
    pub(super) fn empty() -> Self {
        Self { version: VERSION, ..Self::default() }
    }

    /// The grants that apply to a run of this skill in this project whose arguments fit the patterns of grants that have one.
    pub(crate) fn grants_of_run<'a>(
        &'a self,
        skill: &'a str,
        digest: SkillDigest,
        project: &'a ProjectIdentity,
        fits: impl Fn(&ArgumentPattern) -> bool + 'a,
    ) -> impl Iterator<Item = (Permission, GrantOrigin)> + 'a {
        let applies = move |grant: &&RememberedGrant| {
            grant.digest == digest
                && grant.skill == skill
                && grant.project.as_ref().is_none_or(|granted| granted == project)
                && (grant.arguments.is_null()
                    || ArgumentPattern::from_json(grant.arguments.clone())
                        .is_ok_and(|pattern| fits(&pattern)))
        };
        self.grants.iter().filter(applies).filter_map(|grant| Some((grant.permission()?, grant.origin())))
    }

    /// The record of the skill in this folder of the project.
    pub(crate) fn skill(&self, project: &ProjectIdentity, folder: &str) -> Option<&TrustedSkill> {
        self.skills.iter().find(|skill| skill.folder == folder && skill.project == *project)
    }

    pub(super) fn add_folder(&mut self, folder: ProjectIdentity) {
        // What was at that path before is gone.
        if self.folders.iter().any(|known| known.folder == folder) {
            return;
        }
        self.folders.retain(|known| known.folder.path != folder.path);
        self.folders.push(TrustedFolder { folder, since: Timestamp::now(), unknown: Map::new() });
    }

    pub(super) fn add_skill(&mut self, skill: TrustedSkill) {
        let is_same = |known: &TrustedSkill| {
            (&known.project, &known.skill, &known.folder, known.digest)
                == (&skill.project, &skill.skill, &skill.folder, skill.digest)
        };
        if self.skills.iter().any(is_same) {
            return;
        }
        self.skills
            .retain(|known| (&known.project.path, &known.folder) != (&skill.project.path, &skill.folder));
        self.skills.push(skill);
    }

    pub(super) fn add_grant(&mut self, grant: RememberedGrant) {
        let key = |grant: &RememberedGrant| {
            let RememberedGrant { skill, digest, project, permission, arguments, .. } = grant.clone();
            (skill, digest, project, permission, arguments)
        };
        let new = key(&grant);
        if !self.grants.iter().any(|known| known.digest == grant.digest && key(known) == new) {
            self.grants.push(grant);
        }
    }

    /// Fails where there are too many records of a kind.
    pub(super) fn check_counts(&self) -> Result<()> {
        let counts =
            [("folders", self.folders.len()), ("skills", self.skills.len()), ("grants", self.grants.len())];
        match counts.into_iter().find(|(_, count)| *count > MAX_RECORDS) {
            None => Ok(()),
            Some((what, _)) => {
                let sentence = format!("the trust store is full: it holds at most {MAX_RECORDS} {what}");
                Err(SkillError::new(ErrorKind::Unavailable, sentence)
                    .with_help("revoke what is not needed any more"))
            }
        }
    }

    /// The digests of the lists of files that records refer to.
    pub(super) fn listed_digests(&self) -> impl Iterator<Item = SkillDigest> {
        self.skills.iter().flat_map(|skill| {
            std::iter::once(skill.files).chain(skill.callees.iter().map(|callee| callee.files))
        })
    }
}

impl TrustedCallee {
    fn new(callee: &CalleeFiles) -> Self {
        Self { skill: callee.qualified_name.clone(), files: callee.files.digest() }
    }
}

impl TrustedSkill {
    pub(super) fn new(project: ProjectIdentity, skill: &SkillFiles, folder: String) -> Self {
        Self {
            project,
            skill: skill.qualified_name.clone(),
            folder,
            digest: skill.digest,
            files: skill.files.digest(),
            callees: skill.callees.iter().map(TrustedCallee::new).collect(),
            since: Timestamp::now(),
            unknown: Map::new(),
        }
    }
}

impl RememberedGrant {
    pub(super) fn new(
        skill: &str,
        digest: SkillDigest,
        project: Option<ProjectIdentity>,
        permission: &Permission,
        by: &str,
    ) -> Self {
        Self {
            skill: skill.to_owned(),
            digest,
            project,
            permission: permission.to_string(),
            arguments: Value::Null,
            since: Timestamp::now(),
            by: by.to_owned(),
            unknown: Map::new(),
        }
    }

    /// The same for these arguments only, as an opaque value.
    pub(super) fn with_arguments(self, arguments: Value) -> Self {
        Self { arguments, ..self }
    }

    /// The permission; `None` if this version of metier has none of that name.
    pub fn permission(&self) -> Option<Permission> {
        self.permission.parse().ok()
    }

    /// Where a run that has it says it comes from.
    pub fn origin(&self) -> GrantOrigin {
        GrantOrigin::Remembered { since: self.since, everywhere: self.project.is_none(), by: self.by.clone() }
    }
}
