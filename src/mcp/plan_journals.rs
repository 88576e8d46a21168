//! The journals of plans that may become tasks: when the server was ended or killed, the same call goes on where the plan stopped.

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::inventory::ServedTool;
#[cfg(unix)]
use metier_core::host::metier_dirs;
use metier_core::strict_json::canonical_text;
use metier_plan::Journal;

/// How long the journal of an interrupted plan is kept.
const LIFETIME: Duration = Duration::from_hours(7 * 24);
/// The journals that are kept; while there are as many, a plan runs without one.
const MAX_JOURNALS: usize = 1_000;

/// A folder with a folder for each call that is in progress or was interrupted.
#[derive(Clone)]
pub(super) struct PlanJournals {
    folder: PathBuf,
    open: Arc<Mutex<HashSet<String>>>,
}

/// The journal of one call in progress. No other call of this server has it.
pub(super) struct PlanJournal {
    folder: PathBuf,
    name: String,
    open: Arc<Mutex<HashSet<String>>>,
    /// Why nothing is left of an interrupted call.
    damage: Option<&'static str>,
}

impl PlanJournals {
    /// In this folder, which is made when it is needed.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, open: Arc::default() }
    }

    /// The journal of this caller's call of this tool in this project, with what an interrupted one left; `None` if the same call is
    /// in progress, here or in another server, or if no journal can be kept. Reads files.
    pub(super) fn open(
        &self,
        owner: &str,
        project: &Path,
        tool: &ServedTool,
        arguments: &Map<String, Value>,
    ) -> Option<PlanJournal> {
        let name = call_digest(owner, project, tool, arguments);
        if !lock(&self.open).insert(name.clone()) {
            return None;
        }
        let folder = self.folder.join(&name);
        let mut journal = PlanJournal { folder, name, open: self.open.clone(), damage: None };
        if let Some(reason) = unsafe_reason(&self.folder) {
            tracing::warn!("no journal of the plan is kept in {}: {reason}", self.folder.display());
            return None;
        }
        if !journal.folder.is_dir() {
            make_private(&self.folder).ok()?;
            if self.remove_old() >= MAX_JOURNALS {
                return None;
            }
            make_private(&journal.folder).ok()?;
        }
        for found in Journal::list(&journal.folder).ok()? {
            if found.is_locked {
                return None;
            }
            journal.damage = found.damage.as_ref().map(|_| "its journal is damaged").or(journal.damage);
            // One that ended has nothing to go on with: the server was killed before it was removed.
            if found.is_finished || found.damage.is_some() {
                Journal::discard(&found.path).or_else(|_| std::fs::remove_file(&found.path)).ok()?;
            }
        }
        Some(journal)
    }

    /// Removes what nobody resumed for long, and returns how many journals are left.
    fn remove_old(&self) -> usize {
        let mut left = 0;
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let folder = entry.path();
            let is_old = |path: &Path| {
                let changed = path.metadata().and_then(|found| found.modified());
                changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > LIFETIME))
            };
            let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            if is_old(&folder) && files.map(|file| file.path()).all(|file| is_old(&file)) {
                discard(&folder);
            }
            left += usize::from(folder.exists());
        }
        left
    }
}

impl PlanJournal {
    /// The folder for [`Invocation::journal`](crate::engine::Invocation::journal).
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Why nothing is left of an interrupted call, if that is so.
    pub(super) fn damage(&self) -> Option<&'static str> {
        self.damage
    }

    /// A sentence about the journal without its path, which is of no use to a client.
    pub(super) fn without_folder(&self, sentence: &str) -> String {
        let folder = self.folder.display().to_string();
        let path = sentence.split_once(&folder).and_then(|(before, path)| {
            let (_, after) = path.split_once(".journal ")?;
            Some(format!("{before}{after}"))
        });
        path.unwrap_or_else(|| sentence.to_owned())
    }

    /// Removes the folder if nothing is in it: the call ended before its plan began.
    pub(super) fn discard_empty(&self) {
        std::fs::remove_dir(&self.folder).ok();
    }

    /// Removes what it holds, so that the plan starts over. Writes files.
    pub(super) fn discard(&self) {
        discard(&self.folder);
    }
}

impl Drop for PlanJournal {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.name);
    }
}

/// Removes the journals of a folder, and then the folder. What is not a journal stays.
fn discard(folder: &Path) {
    for found in Journal::list(folder).unwrap_or_default() {
        Journal::discard(&found.path).ok();
    }
    std::fs::remove_dir(folder).ok();
}

/// What tells one call from another: the caller, the project, the tool, the skill, and the arguments.
fn call_digest(owner: &str, project: &Path, tool: &ServedTool, arguments: &Map<String, Value>) -> String {
    let call = json!([owner, project.as_os_str().as_encoded_bytes(), tool.name, tool.address, arguments]);
    let digest: [u8; 32] = Sha256::digest(canonical_text(&call)).into();
    let (number, _) = digest.split_at(16);
    format!("{:032x}", number.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte)))
}

/// Why others could forge the results of steps there.
#[cfg(unix)]
fn unsafe_reason(folder: &Path) -> Option<String> {
    metier_dirs::unsafe_reason(&metier_dirs::resolve_existing(folder))
}

/// The data folder of a user is the user's alone.
#[cfg(not(unix))]
fn unsafe_reason(_: &Path) -> Option<String> {
    None
}

/// Makes a folder that is the user's alone.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn lock(open: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_journal_is_written_where_scripts_work() {
        let folder = tempfile::tempdir().unwrap();
        let journals = folder.path().join("data/plan-journals");
        assert_eq!(unsafe_reason(&journals), None);
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        assert!(unsafe_reason(&journals).is_some());
    }
}
