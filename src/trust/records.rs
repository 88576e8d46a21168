//! The records of the trust store, as they are in its file.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

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
    /// The positions of the skills by their folders, as they are when the first one is looked up.
    #[serde(skip)]
    skills_by_folder: OnceLock<HashMap<String, Vec<usize>>>,
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
        let by_folder = self.skills_by_folder.get_or_init(|| positions_by_folder(&self.skills));
        let mut there = by_folder.get(folder)?.iter().filter_map(|position| self.skills.get(*position));
        there.find(|skill| skill.project == *project)
    }

    pub(super) fn add_folder(&mut self, folder: ProjectIdentity) {
        // What was at that path before is gone.
        if self.folders.iter().any(|known| known.folder == folder) {
            return;
        }
        self.folders.retain(|known| known.folder.path != folder.path);
        self.folders.push(TrustedFolder { folder, since: Timestamp::now(), unknown: Map::new() });
    }

    /// Records skills, each in place of what was recorded in its folder before.
    pub(super) fn add_skills(&mut self, skills: Vec<TrustedSkill>) {
        // Of several in one folder the last counts.
        let place = |skill: &TrustedSkill| (skill.project.path.clone(), skill.folder.clone());
        let new: HashMap<(String, String), TrustedSkill> =
            skills.into_iter().map(|skill| (place(&skill), skill)).collect();
        let mut same = HashSet::new();
        self.skills.retain(|known| {
            let place = place(known);
            let is_kept = new.get(&place).is_none_or(|skill| known.is_for_same_files(skill));
            if is_kept {
                same.insert(place);
            }
            is_kept
        });
        let mut added: Vec<TrustedSkill> =
            new.into_iter().filter(|(place, _)| !same.contains(place)).map(|(_, skill)| skill).collect();
        added.sort_unstable_by(|a, b| (&a.skill, &a.folder).cmp(&(&b.skill, &b.folder)));
        self.skills.append(&mut added);
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

fn positions_by_folder(skills: &[TrustedSkill]) -> HashMap<String, Vec<usize>> {
    let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
    for (position, skill) in skills.iter().enumerate() {
        positions.entry(skill.folder.clone()).or_default().push(position);
    }
    positions
}

impl TrustedCallee {
    fn new(callee: &CalleeFiles) -> Self {
        Self { skill: callee.qualified_name.clone(), files: callee.files.digest() }
    }
}

impl TrustedSkill {
    fn is_for_same_files(&self, other: &Self) -> bool {
        (&self.project, &self.skill, &self.folder, self.digest)
            == (&other.project, &other.skill, &other.folder, other.digest)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn project(path: &str, inode: u64) -> ProjectIdentity {
        let json = serde_json::json!({"path": path, "inode": inode, "born": null});
        serde_json::from_value(json).unwrap()
    }

    fn skill(project: &ProjectIdentity, folder: &str, digit: &str) -> TrustedSkill {
        let digest = format!("sha256:{}", digit.repeat(64));
        let json = serde_json::json!({
            "project": project, "skill": folder, "folder": folder, "digest": digest, "files": digest,
            "since": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_record_takes_the_place_of_the_one_of_its_folder_and_no_other() {
        let (one, moved, other) = (project("/p", 1), project("/p", 2), project("/q", 3));
        let mut records = TrustRecords::empty();
        records.add_skills(vec![skill(&one, "a", "1"), skill(&one, "b", "1"), skill(&other, "a", "1")]);
        records.add_skills(vec![skill(&one, "a", "1"), skill(&moved, "b", "2"), skill(&one, "c", "1")]);
        let found = |project: &ProjectIdentity, folder: &str| {
            records.skill(project, folder).map(|skill| skill.digest.to_hex().remove(0))
        };
        assert_eq!(records.skills.len(), 4);
        assert_eq!(found(&one, "a"), Some('1'));
        assert_eq!((found(&one, "b"), found(&moved, "b")), (None, Some('2')));
        assert_eq!((found(&other, "a"), found(&one, "c"), found(&one, "d")), (Some('1'), Some('1'), None));
    }
}
