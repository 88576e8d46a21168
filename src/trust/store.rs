//! The trust store of a user: what is trusted, and what was granted for later runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::audit::{AuditChange, AuditKind, AuditWriter};
use crate::registry::FileList;
use crate::store_folder::{StoreFolder, StoreName};
use crate::trust::audited_changes::TrustChanges;
use crate::trust::records::{RememberedGrant, TrustRecords, TrustedSkill, VERSION};
use crate::trust::{ProjectIdentity, SkillFiles};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::file_stat::{FileStat, now};
use metier_core::host::metier_dirs;
use metier_core::policy::{Permission, SkillDigest};

const FILE: &str = "trust.json";
const PREVIOUS_FILE: &str = "trust.previous.json";
/// Lists of files, by their digests.
const LISTS_FOLDER: &str = "files";
/// How many damaged files are kept.
const MAX_BROKEN: usize = 5;

const NAME: StoreName =
    StoreName { title: "the trust store", consequence: "nothing is trusted", lock_file: "trust.lock" };

/// The store in which a user's trust and remembered grants lie: a folder that only the user can read. Cheap to clone.
///
/// Several processes may use it at a time. A change is complete or has not happened, also after a crash. Without its file nothing
/// is trusted.
///
/// ```no_run
/// use metier::engine::{Engine, Invocation};
/// use metier::trust::TrustStore;
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".").trust(TrustStore::user()?).build()?;
/// let outcome = engine.run(Invocation::new("notes").for_model());
/// # let _ = outcome;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TrustStore(Arc<Inner>, Option<AuditWriter>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Opened and checked once, as long as it is at its path.
    opened: Mutex<Option<Arc<StoreFolder>>>,
    cache: Mutex<Option<CachedRecords>>,
}

/// The records as they were read when the file had this stat.
#[derive(Clone, Debug)]
struct CachedRecords {
    stat: FileStat,
    /// That of its previous version, which was read because the file is damaged.
    previous: Option<FileStat>,
    began: Duration,
    is_damaged: bool,
    records: Arc<TrustRecords>,
}

impl TrustStore {
    /// The store of this user: in the folder that the environment variable `METIER_DATA_DIR` names, or in that of metier in the
    /// user's data folder. `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        let missing = || {
            let sentence = "there is no folder for the trust store: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        };
        metier_dirs::trust_dir().map(Self::new).ok_or_else(missing)
    }

    /// The store in this folder, which need not exist. It must not lie in a project, where scripts could write to it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        // A slash at the end would follow a link.
        let folder = folder.into().components().collect();
        Self(Arc::new(Inner { folder, opened: Mutex::default(), cache: Mutex::default() }), None)
    }

    /// The same store, whose changes are recorded there, each before it is made. Where records are required, a change that cannot be
    /// recorded fails.
    pub fn with_audit(self, writer: AuditWriter) -> Self {
        Self(self.0, Some(writer))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Fails if the store lies in one of these folders, where scripts could write to it: `usage`. That of the user is closed to
    /// them wherever it is.
    pub(crate) fn require_outside(&self, projects: &[PathBuf]) -> Result<()> {
        let real = metier_dirs::resolve_existing(&self.0.folder);
        let is_users =
            metier_dirs::trust_dir().is_some_and(|own| metier_dirs::resolve_existing(&own) == real);
        let Some(project) = projects.iter().find(|project| !is_users && real.starts_with(project)) else {
            return Ok(());
        };
        let (store, project) = (self.0.folder.display(), project.display());
        let sentence =
            format!("the trust store {store} lies in the project {project}, where scripts could write to it");
        Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("put it in a folder outside of all projects"))
    }

    /// Everything that it holds now. A file that is damaged is replaced by its previous version, which a warning says.
    ///
    /// `denied` if somebody else could have written to it; `unavailable` if a newer version of metier wrote it. Nothing is trusted
    /// then.
    pub fn records(&self) -> Result<Arc<TrustRecords>> {
        let Some(folder) = self.open()? else { return Ok(Arc::new(TrustRecords::empty())) };
        self.records_in(&folder)
    }

    fn open(&self) -> Result<Option<Arc<StoreFolder>>> {
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = opened.as_ref().filter(|folder| folder.is_at(&self.0.folder)) {
            return Ok(Some(folder.clone()));
        }
        *opened = StoreFolder::open(&self.0.folder, NAME)?.map(Arc::new);
        Ok(opened.clone())
    }

    fn records_in(&self, folder: &StoreFolder) -> Result<Arc<TrustRecords>> {
        let mut cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_settled = |cached: &CachedRecords| {
            let stats = std::iter::once(&cached.stat).chain(&cached.previous);
            stats.into_iter().all(|stat| stat.is_settled(cached.began))
        };
        let is_current = |cached: &&CachedRecords| {
            folder.stat(FILE).as_ref() == Some(&cached.stat)
                && (!cached.is_damaged || folder.stat(PREVIOUS_FILE) == cached.previous)
                && is_settled(cached)
        };
        if let Some(cached) = cache.as_ref().filter(is_current) {
            return Ok(cached.records.clone());
        }
        let (began, before, previous) = (now(), folder.stat(FILE), folder.stat(PREVIOUS_FILE));
        let (records, stat) = read(folder)?;
        let (records, is_damaged) = (Arc::new(records), stat.is_none());
        let previous = previous.filter(|_| is_damaged);
        *cache = stat.or(before).map(|stat| {
            let records = records.clone();
            CachedRecords { stat, previous, began, is_damaged, records }
        });
        Ok(records)
    }

    /// Trusts every skill in this folder, now and later; for one's own work. `untrusted` if another folder is at its path by now.
    pub fn trust_folder(&self, folder: ProjectIdentity) -> Result<()> {
        if !folder.is_current() {
            let sentence = format!(
                "the folder {} is not trusted: another one was put in its place while it was looked at",
                folder.path
            );
            return Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at it again"));
        }
        self.update(true, |records, _| {
            let mut changed = self.changes(AuditKind::TrustChanged, AuditChange::Added);
            changed.add(|record| record.project = Some(PathBuf::from(&folder.path)));
            changed.write()?;
            records.add_folder(folder);
            Ok(())
        })
    }

    /// Trusts these skills of a project as long as their files, and those of their callees, are these. `usage` for a skill that
    /// does not lie in the project.
    pub fn trust_skills(&self, project: &ProjectIdentity, skills: &[SkillFiles]) -> Result<()> {
        self.update(true, |records, folder| {
            let trusted = |skill: &SkillFiles| {
                let outside = || {
                    let sentence =
                        format!("the skill {} does not lie in the project {}", skill.name, project.path);
                    SkillError::new(ErrorKind::Usage, sentence)
                };
                let place = skill.folder.clone().ok_or_else(outside)?;
                Ok(TrustedSkill::new(project.clone(), skill, place))
            };
            records.add_skills(skills.iter().map(trusted).collect::<Result<_>>()?);
            records.check_counts()?;
            let mut changed = self.changes(AuditKind::TrustChanged, AuditChange::Added);
            for skill in skills {
                changed.add(|record| {
                    record.skill = Some(skill.qualified_name.clone());
                    record.digest = Some(skill.digest.to_string());
                    record.project = Some(PathBuf::from(&project.path));
                });
            }
            changed.write()?;
            save_lists(folder, skills.iter().flat_map(SkillFiles::lists))
        })
    }

    /// Grants permissions for later runs of the skill with that digest: in this project, or in all without one. `by` is what
    /// records it, such as a command.
    pub fn grant(
        &self,
        (skill, digest): (&str, SkillDigest),
        project: Option<&ProjectIdentity>,
        permissions: &[Permission],
        by: &str,
    ) -> Result<()> {
        self.grant_with_arguments((skill, digest), project, permissions, &Value::Null, by)
    }

    /// The same for runs with these arguments only: a pattern that the caller compares itself.
    pub fn grant_with_arguments(
        &self,
        (skill, digest): (&str, SkillDigest),
        project: Option<&ProjectIdentity>,
        permissions: &[Permission],
        arguments: &Value,
        by: &str,
    ) -> Result<()> {
        self.update(true, |records, _| {
            let mut changed = self.changes(AuditKind::GrantsChanged, AuditChange::Added);
            changed.add(|record| {
                record.skill = Some(skill.to_owned());
                record.digest = Some(digest.to_string());
                record.project = project.map(|project| PathBuf::from(&project.path));
                record.permissions = permissions.iter().map(ToString::to_string).collect();
                record.by = Some(by.to_owned());
            });
            changed.write()?;
            for permission in permissions {
                let grant = RememberedGrant::new(skill, digest, project.cloned(), permission, by);
                records.add_grant(grant.with_arguments(arguments.clone()));
            }
            Ok(())
        })
    }

    /// Trusts the folder at this path, and folders in it, no more; returns whether any was trusted. The folder need not exist.
    /// Whatever lies in a trusted folder above it stays trusted.
    pub fn revoke_folder(&self, folder: &Path) -> Result<bool> {
        let path = metier_dirs::resolve_existing(folder);
        self.revoke(|records| {
            records.folders.retain(|known| !Path::new(&known.folder.path).starts_with(&path));
        })
        .map(|count| count > 0)
    }

    /// Trusts the skills no more for which this is true; returns how many they were.
    pub fn revoke_skills(&self, is_revoked: impl Fn(&TrustedSkill) -> bool) -> Result<usize> {
        self.revoke(|records| records.skills.retain(|skill| !is_revoked(skill)))
    }

    /// Takes back the grants for which this is true; returns how many they were.
    pub fn revoke_grants(&self, is_revoked: impl Fn(&RememberedGrant) -> bool) -> Result<usize> {
        self.revoke(|records| records.grants.retain(|grant| !is_revoked(grant)))
    }

    /// Removes records, also from the previous version of the file, which must not bring them back.
    fn revoke(&self, remove: impl FnOnce(&mut TrustRecords)) -> Result<usize> {
        if self.open()?.is_none() {
            return Ok(0);
        }
        self.update(false, |records, _| {
            let count =
                |records: &TrustRecords| records.folders.len() + records.skills.len() + records.grants.len();
            let before = records.clone();
            remove(records);
            self.record_revoked(&before, records)?;
            Ok(count(&before) - count(records))
        })
    }

    fn changes(&self, kind: AuditKind, change: AuditChange) -> TrustChanges<'_> {
        TrustChanges::new(self.1.as_ref(), kind, change)
    }

    /// Records what is in the first records and not in the others any more.
    fn record_revoked(&self, before: &TrustRecords, after: &TrustRecords) -> Result<()> {
        let mut trust = self.changes(AuditKind::TrustChanged, AuditChange::Revoked);
        for gone in before.folders.iter().filter(|known| !after.folders.contains(known)) {
            trust.add(|record| record.project = Some(PathBuf::from(&gone.folder.path)));
        }
        for gone in before.skills.iter().filter(|known| !after.skills.contains(known)) {
            trust.add(|record| {
                record.skill = Some(gone.skill.clone());
                record.digest = Some(gone.digest.to_string());
                record.project = Some(PathBuf::from(&gone.project.path));
            });
        }
        trust.write()?;
        let mut grants = self.changes(AuditKind::GrantsChanged, AuditChange::Revoked);
        for gone in before.grants.iter().filter(|known| !after.grants.contains(known)) {
            grants.add(|record| {
                record.skill = Some(gone.skill.clone());
                record.digest = Some(gone.digest.to_string());
                record.project = gone.project.as_ref().map(|project| PathBuf::from(&project.path));
                record.permissions = vec![gone.permission.clone()];
                record.by = Some(gone.by.clone());
            });
        }
        grants.write()
    }

    /// The list of files with that digest that was saved when a skill was trusted; `None` if it is gone.
    pub(crate) fn saved_list(&self, digest: SkillDigest) -> Option<FileList> {
        let folder = self.open().ok()??;
        if !folder.has(LISTS_FOLDER) {
            return None;
        }
        let (text, _) = folder.subfolder(LISTS_FOLDER).ok()?.read(&list_file(digest)).ok()??;
        FileList::from_json(&text).ok().filter(|list| list.digest() == digest)
    }

    /// Changes the records under the lock of the store and writes them.
    fn update<T>(
        &self,
        keeps_previous: bool,
        change: impl FnOnce(&mut TrustRecords, &StoreFolder) -> Result<T>,
    ) -> Result<T> {
        let folder = StoreFolder::create(&self.0.folder, NAME)?;
        let _locked = folder.lock()?;
        let failed = |source| SkillError::io("failed to write the trust store", source);
        let (mut records, stat) = read(&folder)?;
        let is_broken = stat.is_none() && folder.has(FILE);
        let result = change(&mut records, &folder)?;
        records.check_counts()?;
        let text = serde_json::to_vec(&records).map_err(|error| failed(error.into()))?;
        if is_broken {
            keep_broken(&folder).map_err(failed)?;
        }
        let previous = (keeps_previous && !is_broken && folder.has(FILE)).then_some(PREVIOUS_FILE);
        folder.replace(FILE, &text, previous).map_err(failed)?;
        if !keeps_previous {
            folder.remove(PREVIOUS_FILE).map_err(failed)?;
            // The records are what counts, and they are written.
            if let Err(error) = remove_unused_lists(&folder, &records) {
                tracing::warn!(
                    "failed to remove lists of files that the trust store does not need any more: {error}"
                );
            }
        }
        Ok(result)
    }
}

/// The records and the stat of their file. Where the file is damaged, the stat is missing and the records are the previous ones.
fn read(folder: &StoreFolder) -> Result<(TrustRecords, Option<FileStat>)> {
    let Some((text, stat)) = folder.read(FILE)? else { return Ok((TrustRecords::empty(), None)) };
    let damage = match parse(&text) {
        Ok(records) => return Ok((records, Some(stat))),
        Err(Unreadable::Newer(error)) => return Err(error),
        Err(Unreadable::Damaged(reason)) => reason,
    };
    let previous = folder.read(PREVIOUS_FILE).ok().flatten().and_then(|(text, _)| parse(&text).ok());
    let instead = if previous.is_some() { "its previous version is used" } else { "nothing is trusted" };
    let mut records = previous.unwrap_or_else(TrustRecords::empty);
    records.warnings.push(format!("the trust store is damaged, so {instead}: {damage}"));
    Ok((records, None))
}

/// Why the file of the store cannot be used.
enum Unreadable {
    Newer(SkillError),
    Damaged(String),
}

fn parse(text: &[u8]) -> std::result::Result<TrustRecords, Unreadable> {
    #[derive(serde::Deserialize)]
    struct Head {
        #[serde(rename = "metier_trust")]
        version: u64,
    }
    let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
    let Head { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version > VERSION {
        let sentence = format!(
            "the trust store was written by a newer version of metier: its format is {version}, and this version reads {VERSION}"
        );
        let error = SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("update metier, or set METIER_DATA_DIR to another folder");
        return Err(Unreadable::Newer(error));
    }
    let mut records: TrustRecords = serde_json::from_slice(text).map_err(damaged)?;
    records.version = VERSION;
    Ok(records)
}

/// Keeps a damaged file under another name too; of too many the last one is replaced.
fn keep_broken(folder: &StoreFolder) -> std::io::Result<()> {
    let name = |number: usize| format!("trust.broken-{number}.json");
    let free = (1..MAX_BROKEN).find(|number| !folder.has(&name(*number))).unwrap_or(MAX_BROKEN);
    folder.keep_as(FILE, &name(free))
}

fn list_file(digest: SkillDigest) -> String {
    format!("{}.json", digest.to_hex())
}

fn save_lists<'a>(folder: &StoreFolder, lists: impl Iterator<Item = &'a FileList>) -> Result<()> {
    let failed = |source| SkillError::io("failed to write the trust store", source);
    let folder = folder.subfolder(LISTS_FOLDER).map_err(failed)?;
    lists.into_iter().try_for_each(|list| save_list(&folder, list))
}

fn save_list(lists: &StoreFolder, list: &FileList) -> Result<()> {
    let failed = |source| SkillError::io("failed to write the trust store", source);
    let name = list_file(list.digest());
    if lists
        .read(&name)
        .ok()
        .flatten()
        .is_some_and(|(text, _)| FileList::from_json(&text).is_ok_and(|saved| saved == *list))
    {
        return Ok(());
    }
    let text = serde_json::to_vec(list).map_err(|error| failed(error.into()))?;
    // One that a crash damages counts as gone, for it has not its digest any more.
    lists.replace_unsynced(&name, &text).map_err(failed)
}

fn remove_unused_lists(folder: &StoreFolder, records: &TrustRecords) -> std::io::Result<()> {
    if !folder.has(LISTS_FOLDER) {
        return Ok(());
    }
    let lists = folder.subfolder(LISTS_FOLDER)?;
    let used: std::collections::BTreeSet<String> = records.listed_digests().map(list_file).collect();
    lists.names()?.iter().filter(|name| !used.contains(*name)).try_for_each(|name| lists.remove(name))
}
