//! `metier undo`: restores what the changes of a set replaced, where nobody has changed it since.

use std::os::fd::AsFd;

use metier::audit::ChangeSetDecision;
use metier::changes::{ChangeStore, StoredChangeSet};
use metier::error::{ErrorKind, Result, SkillError};

use super::changes::print_report;
use super::session::Session;

/// The options of `metier undo`.
#[derive(clap::Args)]
pub struct Args {
    /// The id of a change set; without it the one that was applied last in the project
    id: Option<String>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = ChangeStore::user()?;
    let stored = match &args.id {
        Some(id) => store.find(id)?,
        None => last_applied(&store, session)?,
    };
    session.exit_watchdog().finish();
    let project = store.open_project(&stored.set)?;
    session.record_change_set(&stored.set, ChangeSetDecision::Undone)?;
    print_report(&store.undo(&stored.set.id, project.as_fd())?, "undone", session)
}

fn last_applied(store: &ChangeStore, session: &Session) -> Result<StoredChangeSet> {
    let project = session.project()?.canonicalize().ok();
    let is_here = |stored: &StoredChangeSet| Some(stored.set.project_path()) == project;
    let undoable = store.list()?.into_iter().filter(|stored| is_here(stored) && !stored.undoable.is_empty());
    undoable.max_by_key(|stored| stored.applied_nanos).ok_or_else(|| {
        SkillError::new(ErrorKind::Usage, "nothing that was applied in this project can be undone")
            .with_help("apply a change set with `metier changes apply ID --undoable`, and it can be")
    })
}
