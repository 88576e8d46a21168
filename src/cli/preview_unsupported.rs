//! Runs in a copy of the project, on systems that cannot put one in its place.

use std::convert::Infallible;

use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};

use super::session::Session;

/// The options of runs in a copy of the project.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct PreviewArgs {
    /// Run in a copy of the project, and show what it would change
    #[arg(long, conflicts_with = "undoable")]
    preview: bool,
    /// Store what it would change for `metier changes`, and do not ask
    #[arg(long, requires = "preview")]
    keep_changes: bool,
    /// Apply what it changed when it has ended, in a way that `metier undo` can take back
    #[arg(long)]
    undoable: bool,
    /// Watch what it opens, creates and executes, and list all that it was refused with the grants that would allow it
    #[arg(long)]
    watch: bool,
}

/// Never created.
pub struct Preview(Infallible);

impl PreviewArgs {
    /// Fails where the options say that the run takes a copy.
    pub fn begin(&self, _session: &Session, _skill: &str) -> Result<Option<Preview>> {
        if !self.preview && !self.undoable && !self.keep_changes && !self.watch {
            return Ok(None);
        }
        let sentence = "failed to run in a copy of the project, or watched: this system can do neither";
        Err(SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help("run it on Linux"))
    }

    /// The same for a process.
    pub fn begin_for_process(&self, session: &Session, name: &str) -> Result<Option<Preview>> {
        self.begin(session, name)
    }

    /// The invocation as it is.
    pub fn add_to(&self, invocation: Invocation) -> Result<Invocation> {
        Ok(invocation)
    }
}

impl PreviewArgs {
    /// Nothing was observed.
    #[allow(clippy::unused_self, reason = "as where runs are watched")]
    pub fn print_grants(
        &self,
        _outcome: &Outcome,
        _changes: Option<&ChangeSet>,
        _skill: Option<&str>,
        _session: &Session,
    ) {
    }
}

impl Preview {
    /// There is none.
    pub fn has_refused(&self, _outcome: &Outcome) -> bool {
        match self.0 {}
    }

    /// There is none.
    pub fn finish(self, _outcome: &Outcome, _session: &Session) -> Result<(u8, Option<ChangeSet>)> {
        match self.0 {}
    }
}

/// Never created.
pub struct ChangeSet(Infallible);
