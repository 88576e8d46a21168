//! The lock file of a project: the digests of its skills, one line a skill, made for review.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::registry::{FileDifference, FileListChange, ListedFile};
use crate::trust::SkillFiles;
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Location, Result, SkillError};
use metier_core::host::Files;
use metier_core::host::files::FilesView;
use metier_core::policy::SkillDigest;

/// Where it lies in the project.
pub(super) const PATH: &str = ".metier/skills.lock";
/// The version of the format, in the first line.
const VERSION: u64 = 1;
const MAX_BYTES: u64 = 16 << 20;
const MAX_SKILLS: usize = 10_000;
/// Digits of the digest of a file. They only say which files changed; the digest of the skill decides.
const FILE_DIGITS: usize = 16;

/// The skills of a project as they were locked.
///
/// Its file is JSON Lines: `{"metier_lock": 1}`, then a line for each skill, in the order of their qualified names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFile {
    skills: Vec<LockedSkill>,
}

/// A skill as it was locked: one line of a [`LockFile`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LockedSkill {
    /// The qualified name without the version.
    pub skill: String,
    /// The version.
    pub version: String,
    /// The folder, relative to the project.
    pub folder: String,
    /// Where it was taken from, if it was taken from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SkillSource>,
    /// The paths below the folder that the contract names as `state`, which the digest does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<String>,
    /// The digest of the skill with its callees, which decides whether it changed.
    pub digest: SkillDigest,
    /// The first digits of the digest of each file, followed by `+x` for an executable file, `+s` for one that runs as somebody
    /// else, and `+l` for a link.
    pub files: BTreeMap<String, String>,
    /// The same for the skills that it calls, by their qualified names without the version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callees: BTreeMap<String, String>,
}

/// Where a skill was taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SkillSource {
    /// The address, such as that of a repository.
    pub url: String,
    /// The revision there.
    pub revision: String,
}

impl SkillSource {
    /// This revision of what is at this address.
    pub fn new(url: impl Into<String>, revision: impl Into<String>) -> Self {
        Self { url: url.into(), revision: revision.into() }
    }
}

/// A skill that is not as the lock file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "difference", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LockDifference {
    /// It has other files, or calls others.
    Changed {
        /// The qualified name without the version.
        skill: String,
        /// Its own files that differ.
        files: Vec<FileDifference>,
        /// The skills that it calls and that differ.
        callees: Vec<String>,
    },
    /// It is locked and not there.
    Missing {
        /// The qualified name without the version.
        skill: String,
    },
    /// It is there and not locked.
    NotLocked {
        /// The qualified name without the version.
        skill: String,
    },
}

impl LockedSkill {
    fn new(skill: &SkillFiles, source: Option<SkillSource>) -> Self {
        let callee = |callee: &crate::trust::CalleeFiles| {
            (callee.qualified_name.clone(), first_digits(callee.files.digest()))
        };
        Self {
            skill: skill.qualified_name.clone(),
            version: skill.version.clone(),
            folder: skill.folder.clone().unwrap_or_default(),
            source,
            state: skill.state.clone(),
            // Which packages are prepared differs between machines.
            digest: skill.files_digest(),
            files: skill.files.files().iter().map(|file| (file.path.clone(), mark(file))).collect(),
            callees: skill.callees.iter().map(callee).collect(),
        }
    }

    /// This in place of what was locked in its folder. Without a source it keeps that of a skill that has not changed.
    fn with_source_of(self, earlier: Self) -> Self {
        let Some(source) = earlier.source.filter(|_| self.source.is_none()) else { return self };
        if earlier.digest == self.digest && earlier.skill == self.skill {
            return Self { source: Some(source), ..self };
        }
        let (skill, url) = (&self.skill, source.url.escape_debug());
        tracing::warn!(
            "the skill {skill} is locked without a source: it is not what was taken from {url} any more"
        );
        self
    }

    fn difference(&self, now: &SkillFiles) -> Option<LockDifference> {
        // What a reviewer reads beside the digest must be true, too.
        let now = Self::new(now, self.source.clone());
        if *self == now {
            return None;
        }
        let paths: BTreeSet<&String> = self.files.keys().chain(now.files.keys()).collect();
        let files = paths.into_iter().filter_map(|path| {
            let change = match (self.files.get(path), now.files.get(path)) {
                (old, new) if old == new => return None,
                (None, _) => FileListChange::Added,
                (_, None) => FileListChange::Removed,
                (Some(old), Some(new)) if old.split('+').next() == new.split('+').next() => {
                    FileListChange::ModeChanged
                }
                _ => FileListChange::Changed,
            };
            Some(FileDifference { path: path.clone(), change })
        });
        let names: BTreeSet<&String> = self.callees.keys().chain(now.callees.keys()).collect();
        let changed = |name: &&String| self.callees.get(*name) != now.callees.get(*name);
        let callees = names.into_iter().filter(changed).cloned().collect();
        Some(LockDifference::Changed { skill: self.skill.clone(), files: files.collect(), callees })
    }
}

impl LockFile {
    /// The lock file of this project; `None` where there is none. `invalid-argument` with the line if it is not valid.
    pub fn read(project: &Path) -> Result<Option<Self>> {
        let files = Files::open(project)?;
        let view = FilesView::unrestricted(&files);
        let size = match view.stat(PATH) {
            Ok(stat) => stat.size,
            Err(_) if std::fs::symlink_metadata(project.join(PATH)).is_err() => return Ok(None),
            Err(error) => return Err(error),
        };
        if size > MAX_BYTES {
            let sentence = format!("{PATH} is not read: it is larger than 16 MiB");
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
        }
        Self::parse(&view.read(PATH)?).map(Some)
    }

    /// The lock file of a project that must have one: `untrusted` where there is none.
    pub(crate) fn require_in(project: &Path) -> Result<Self> {
        let missing = || {
            let sentence = format!("the project has no lock file {PATH}, so nothing can be compared with it");
            SkillError::new(ErrorKind::Untrusted, sentence).with_help("write one, after a look at the skills")
        };
        Self::read(project)?.ok_or_else(missing)
    }

    /// Parses the content of a lock file.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let invalid = |line: usize, reason: &str| {
            let sentence = format!("{PATH}:{line}: {reason}");
            let line = u32::try_from(line).ok();
            SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("write the file again, after a look at what changed")
                .with_location(Location::new(PATH, line, None))
        };
        let text = std::str::from_utf8(text).map_err(|_| invalid(1, "the file is not UTF-8"))?;
        let mut lines = (1..).zip(without_mark(text).lines());
        let head = lines.next().and_then(|(_, line)| serde_json::from_str(line).ok());
        match head {
            Some(Head { metier_lock: VERSION }) => {}
            Some(Head { metier_lock }) => {
                let reason =
                    format!("the format is {metier_lock}, and this version of metier reads {VERSION}");
                return Err(invalid(1, &reason));
            }
            None => return Err(invalid(1, "the first line must be {\"metier_lock\": 1}")),
        }
        let mut skills: Vec<LockedSkill> = Vec::new();
        for (number, line) in lines {
            let skill: LockedSkill = serde_json::from_str(line)
                .map_err(|error| invalid(number, &format!("no locked skill: {error}")))?;
            // The order also shows that no skill is listed twice.
            if skills.last().is_some_and(|last| (&last.skill, &last.folder) >= (&skill.skill, &skill.folder))
            {
                return Err(invalid(number, "the skills must be in the order of their names, each once"));
            }
            if skills.len() == MAX_SKILLS {
                return Err(invalid(number, &format!("there are more than {MAX_SKILLS} skills")));
            }
            skills.push(skill);
        }
        Ok(Self { skills })
    }

    /// The locked skills, in the order of their qualified names.
    pub fn skills(&self) -> &[LockedSkill] {
        &self.skills
    }

    /// Locks a skill of the project as it is, in place of what was locked in its folder. Without a source it keeps the one that it
    /// had if it has not changed since; otherwise a warning says that it has none.
    pub fn lock(&mut self, skill: &SkillFiles, source: Option<SkillSource>) {
        self.put(vec![LockedSkill::new(skill, source)]);
    }

    /// Locks these skills of the project as [`LockFile::lock`] does, each with this source.
    pub fn lock_all(&mut self, skills: &[SkillFiles], source: Option<&SkillSource>) {
        self.put(skills.iter().map(|skill| LockedSkill::new(skill, source.cloned())).collect());
    }

    fn put(&mut self, new: Vec<LockedSkill>) {
        let by_folder = |locked: LockedSkill| (locked.folder.clone(), locked);
        let mut locked: HashMap<String, LockedSkill> =
            std::mem::take(&mut self.skills).into_iter().map(by_folder).collect();
        for new in new {
            let new = match locked.remove(&new.folder) {
                Some(earlier) => new.with_source_of(earlier),
                None => new,
            };
            locked.insert(new.folder.clone(), new);
        }
        self.skills = locked.into_values().collect();
        self.skills.sort_unstable_by(|a, b| (&a.skill, &a.folder).cmp(&(&b.skill, &b.folder)));
    }

    /// Removes the skills for which this is false.
    pub fn retain(&mut self, is_kept: impl Fn(&LockedSkill) -> bool) {
        self.skills.retain(is_kept);
    }

    /// The locked digest of this skill; `untrusted` where it is not locked or differs.
    pub fn require(&self, skill: &SkillFiles) -> Result<SkillDigest> {
        match self.difference(skill) {
            None => Ok(skill.digest),
            Some(difference) => Err(Self::error(&[difference])),
        }
    }

    fn difference(&self, skill: &SkillFiles) -> Option<LockDifference> {
        match self.locked_skill(skill) {
            Some(locked) => locked.difference(skill),
            None => Some(LockDifference::NotLocked { skill: skill.qualified_name.clone() }),
        }
    }

    /// The line of the skill with that name in that folder; the lines are in the order of both.
    fn locked_skill(&self, skill: &SkillFiles) -> Option<&LockedSkill> {
        let key = (&skill.qualified_name, skill.folder.as_ref()?);
        let place = self.skills.binary_search_by(|known| (&known.skill, &known.folder).cmp(&key)).ok()?;
        self.skills.get(place)
    }

    /// How these skills, all of the project, differ from what is locked.
    pub fn differences(&self, skills: &[SkillFiles]) -> Vec<LockDifference> {
        let folders: HashSet<&String> = skills.iter().filter_map(|skill| skill.folder.as_ref()).collect();
        let missing = self.skills.iter().filter(|locked| !folders.contains(&locked.folder));
        let missing = missing.map(|locked| LockDifference::Missing { skill: locked.skill.clone() });
        skills.iter().filter_map(|skill| self.difference(skill)).chain(missing).collect()
    }

    /// The error for a project whose skills differ: `untrusted`.
    pub fn error(differences: &[LockDifference]) -> SkillError {
        let shown: Vec<String> = differences.iter().take(5).map(ToString::to_string).collect();
        let more = differences.len().saturating_sub(shown.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let sentence = format!("the skills are not as {PATH} has them: {}{more}", shown.join("; "));
        SkillError::new(ErrorKind::Untrusted, sentence)
            .with_help("look at what changed, and lock the skills again if it is right")
    }

    /// Writes the lock file of this project: the old content or the new is there, never a part.
    pub fn write(&self, project: &Path) -> Result<()> {
        FilesView::unrestricted(&Files::open(project)?).write(PATH, self.to_text()?.as_bytes())
    }

    fn to_text(&self) -> Result<String> {
        let mut text = format!("{{\"metier_lock\": {VERSION}}}\n");
        for skill in &self.skills {
            let line = serde_json::to_string(skill)
                .map_err(|error| SkillError::io(format_args!("failed to write {PATH}"), error.into()))?;
            text.push_str(&line);
            text.push('\n');
        }
        Ok(text)
    }
}

impl std::fmt::Display for LockDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { skill } => write!(f, "{skill} is missing"),
            Self::NotLocked { skill } => write!(f, "{skill} is not locked"),
            Self::Changed { skill, files, callees } => {
                let files = files.iter().map(|file| format!("{} {}", file.path, file.change));
                let callees = callees.iter().map(|callee| format!("it calls {callee}, which changed"));
                let mut what: Vec<String> = files.chain(callees).collect();
                if what.is_empty() {
                    what.push("its line says something else".to_owned());
                }
                let more = what.len().saturating_sub(10);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{skill} changed ({}{more})", what[..what.len().min(10)].join(", "))
            }
        }
    }
}

/// The first line.
#[derive(Deserialize)]
struct Head {
    metier_lock: u64,
}

fn first_digits(digest: SkillDigest) -> String {
    let mut digits = digest.to_hex();
    digits.truncate(FILE_DIGITS);
    digits
}

fn mark(file: &ListedFile) -> String {
    let marks = [(file.executable, "+x"), (file.set_id, "+s"), (file.link, "+l")];
    marks
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .fold(first_digits(file.digest), |text, (_, mark)| text + mark)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::registry::FileList;

    fn skill(name: &str, content: &str) -> SkillFiles {
        let files = Arc::new(FileList::of_contents([("SKILL.md", content.as_bytes())].into_iter()));
        SkillFiles {
            name: name.to_owned(),
            qualified_name: format!("project/.metier:{name}"),
            version: "1.0.0".to_owned(),
            folder: Some(format!(".metier/skills/{name}")),
            state: Vec::new(),
            packages: Vec::new(),
            digest: SkillFiles::combined_digest(name, &files, &[], &[]),
            files,
            callees: Vec::new(),
        }
    }

    #[test]
    fn many_skills_are_locked_at_once_as_one_after_the_other() {
        let source = SkillSource::new("https://example.com", "1");
        let earlier = [skill("c", "1"), skill("kept", "1"), skill("changed", "1")];
        let now = [skill("d", "1"), skill("changed", "2"), skill("c", "1"), skill("a", "1")];
        let (mut together, mut apart) = (LockFile::default(), LockFile::default());
        together.lock_all(&earlier, Some(&source));
        together.lock_all(&now, None);
        for skill in &earlier {
            apart.lock(skill, Some(source.clone()));
        }
        for skill in &now {
            apart.lock(skill, None);
        }
        assert_eq!(together, apart);
        let locked = |locked: &LockedSkill| (locked.folder.clone(), locked.source.is_some());
        let locked: Vec<(String, bool)> = together.skills().iter().map(locked).collect();
        let expected = [("a", false), ("c", true), ("changed", false), ("d", false), ("kept", true)];
        assert_eq!(locked, expected.map(|(name, has)| (format!(".metier/skills/{name}"), has)));
    }

    #[test]
    fn a_skill_is_found_in_the_file_by_its_name_and_its_folder() {
        let skills = ["b", "a", "c"].map(|name| skill(name, "1"));
        let mut lock = LockFile::default();
        lock.lock_all(&skills, None);
        assert!(lock.differences(&skills).is_empty());
        let other = SkillFiles { qualified_name: "project/.metier:d".to_owned(), ..skill("a", "1") };
        assert!(lock.require(&skills[1]).is_ok() && lock.require(&other).is_err());
        assert!(lock.require(&SkillFiles { folder: None, ..skill("a", "1") }).is_err());
        let missing = lock.differences(&skills[..2]);
        assert_eq!(missing, [LockDifference::Missing { skill: "project/.metier:c".to_owned() }]);
    }
}
