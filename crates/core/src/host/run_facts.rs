//! The parts of what the engine and the runtimes know of a run, and its script does not see.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::files::Delta;
use crate::error::SkillError;
use crate::policy::SkillDigest;

/// Which caller of a program that serves several a run is for. No process is kept for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOwner(pub usize);

/// What the callees of a run inherit of the trust in its skill.
#[derive(Debug)]
pub struct InheritedTrust {
    /// Whether only trusted skills may be called.
    pub must_be_trusted: bool,
    /// The digests of the own files of the skills that the invoked one calls.
    pub callees: Vec<(String, SkillDigest)>,
    /// Whether only these may be called.
    pub is_closed: bool,
    /// Whether these are trusted as they are.
    pub covers_callees: bool,
}

/// What the user's configuration sets for the skill, and whether it is withheld because the skill is not trusted.
#[derive(Debug)]
pub struct WithheldValues {
    /// Whether they are withheld.
    pub is_withheld: bool,
    /// The names of the settings and secrets.
    pub names: Vec<String>,
}

/// Files of the project that do not exist, relative to it, which the processes of a run may create in its overlay where it has the permission.
/// What else they change in the folders around is not applied to the project.
#[derive(Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub struct NewFiles {
    /// The files.
    pub paths: Vec<String>,
    /// How many skills have called one another to get to the run. Those that it calls have the same overlay and other permissions, and the
    /// folders are not open to them.
    pub depth: usize,
}

/// A copy of the project that only the host functions know.
#[derive(Clone)]
#[cfg_attr(not(unix), allow(dead_code, reason = "there are no copies"))]
pub struct ProjectDelta {
    /// Where its changes go.
    pub delta: Arc<Delta>,
    /// Why no process has the copy: it would see the project itself.
    pub refusal: SkillError,
}

/// For a caller that shows more of a run than the outcome has, such as what it changed: takes out of a value what is taken out of the outcome.
#[derive(Clone, Default)]
pub struct OutcomeFilter(Arc<OnceLock<ValueFilter>>);

type ValueFilter = Box<dyn Fn(Value) -> Value + Send + Sync>;

impl OutcomeFilter {
    /// Set once, when the script has ended.
    pub fn set(&self, filter: impl Fn(Value) -> Value + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(filter));
    }

    /// The value without secrets of the run; as it is if nothing has run.
    pub fn apply(&self, value: Value) -> Value {
        match self.0.get() {
            Some(filter) => filter(value),
            None => value,
        }
    }
}
