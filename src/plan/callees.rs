//! What a plan's steps may call, as far as it can be known before anything runs.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::error::SkillError;
use crate::policy::RequestedPermissions;

/// Answers what there is to call. Asked when a plan is loaded, and again by whoever decides what may run side by side.
pub trait Callees: Send + Sync {
    /// The skill of that name, plain or qualified.
    fn skill(&self, name: &str) -> CalleeLookup<Callee>;

    /// What the embedder's tool of that name takes, as a JSON Schema.
    fn tool(&self, name: &str) -> CalleeLookup<Value>;

    /// Whose plan it is: the skill of that name, in that folder where it has one on disk.
    fn caller_of_skill(&self, skill: &str, _folder: Option<&Path>) -> Caller {
        Caller { identity: skill.to_owned(), input_schema: None }
    }

    /// The same as that skill sees it, where the place of a skill decides what it means by a name.
    fn for_caller(&self, _skill: &str, _folder: Option<&Path>) -> Option<Arc<dyn Callees>> {
        None
    }

    /// The skills that the one of that identity may call by a permission, as far as it and whoever asks ask for one; by names
    /// that mean them to whoever asks.
    fn permitted_callees(&self, _identity: &str) -> Vec<String> {
        Vec::new()
    }

    /// A text that changes when the files of the skill of that identity do, where that can be told.
    fn digest(&self, _identity: &str) -> Option<String> {
        None
    }
}

/// Knows nothing of what there is: for a plan that is read where no engine is.
pub struct NoCallees;

impl Callees for NoCallees {
    fn skill(&self, _name: &str) -> CalleeLookup<Callee> {
        CalleeLookup::Unknown
    }

    fn tool(&self, _name: &str) -> CalleeLookup<Value> {
        CalleeLookup::Unknown
    }
}

/// Whether there is such a thing.
#[derive(Clone, Debug)]
pub enum CalleeLookup<T> {
    /// There is.
    Found(T),
    /// There is none that could be called; the plan does not load.
    Missing(SkillError),
    /// It cannot be told here.
    Unknown,
}

/// The skill whose plan it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// What tells it from every other skill; the same as where it is a [`Callee`].
    pub identity: String,
    /// What its input may hold, as a JSON Schema (2020-12), where it says.
    pub input_schema: Option<Value>,
}

/// A skill that a step calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Callee {
    /// What tells it from every other skill.
    pub identity: String,
    /// What it takes, as a JSON Schema (2020-12), where it says.
    pub input_schema: Option<Value>,
    /// What it answers with, as a JSON Schema (2020-12), where it says.
    pub output_schema: Option<Value>,
    /// The skills that its own plan calls by fixed text, by names that mean them to whoever asks.
    pub calls: Vec<String>,
    /// What it asks for.
    pub asked: RequestedPermissions,
    /// Whether it runs as a process.
    pub is_process: bool,
}
