//! Runs that may change the folder of their skill, and runs of the skill with the files that somebody looked at, take turns: an
//! interpreter opens files of the folder long after they were compared.

use std::fs::{DirBuilder, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{RunContext, SkillContext, metier_dirs};
use metier_core::policy::Access;

/// How long a run waits between two tries. It waits until its deadline.
const INTERVAL: Duration = Duration::from_millis(2);

/// The folder of the lock files in metier's state directory, which no script can reach.
const LOCKS_DIR: &str = "skill-locks";

/// The lock of a skill's folder, held until this is dropped, also by another process of the user.
pub(super) struct FolderLock(#[allow(dead_code, reason = "held")] Option<File>);

impl FolderLock {
    /// Takes the lock for a run: for itself alone if the run may change the folder. Waits for others until the run is stopped;
    /// `denied` where it would wait for a skill that called it.
    pub(super) fn acquire(folder: &Path, context: &SkillContext, may_change: bool) -> Result<Self> {
        if let Some(caller) = caller_in_folder(folder, context)
            && (may_change || may_change_folder(caller))
        {
            let sentence = format!(
                "the skill {} is not run: one of the skills that called it runs in the same folder, which one of both may change",
                context.skill()
            );
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("call it without the permission own-folder"));
        }
        let Some(path) = lock_file(folder) else { return Ok(Self(None)) };
        let failed = |source| SkillError::io("failed to lock the folder of the skill", source);
        let lock = open(&path).map_err(failed)?;
        loop {
            let tried = if may_change { lock.try_lock() } else { lock.try_lock_shared() };
            match tried {
                Ok(()) => return Ok(Self(Some(lock))),
                Err(TryLockError::WouldBlock) => {
                    context.cancel().check()?;
                    std::thread::sleep(INTERVAL);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }
}

/// Whether a run may change the folder of its skill.
pub(super) fn may_change_folder(context: &SkillContext) -> bool {
    context.permissions().allows(&Access::own_folder())
}

/// The nearest caller whose skill lies in this folder.
fn caller_in_folder<'a>(folder: &Path, context: &'a SkillContext) -> Option<&'a SkillContext> {
    let callers = std::iter::successors(context.caller(), |caller| caller.caller());
    callers.into_iter().find(|caller| caller.skill_files().is_ok_and(|files| files.root() == folder))
}

/// The lock file for a folder; `None` for a user without a state directory.
fn lock_file(folder: &Path) -> Option<PathBuf> {
    let real = folder.canonicalize().ok()?;
    let digest = Sha256::digest(real.as_os_str().as_encoded_bytes());
    let name = digest.first_chunk().map_or(0, |first| u128::from_be_bytes(*first));
    Some(metier_dirs::state_dir()?.join(LOCKS_DIR).join(format!("{name:032x}")))
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), |folder| builder.create(folder))?;
            options.open(path)
        }
        opened => opened,
    }
}
