//! The skills and tools that the steps of a plan may call, as far as they are known before anything runs.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use metier_core::error::SkillError;
use metier_core::policy::RequestedPermissions;

/// Looks up skills and tools. Used when a plan is loaded, and again to decide which steps may run in parallel.
pub trait Callees: Send + Sync {
    /// The skill with this name, plain or qualified.
    fn skill(&self, name: &str) -> CalleeLookup<Callee>;

    /// The input of the embedder's tool with this name, as a JSON Schema.
    fn tool(&self, name: &str) -> CalleeLookup<Value>;

    /// The skill that owns the plan: the skill with this name, in that folder if it is on disk.
    fn caller_of_skill(&self, skill: &str, _folder: Option<&Path>) -> Caller {
        Caller { identity: skill.to_owned(), input_schema: None }
    }

    /// The callees as that skill sees them, if its location decides how its names are resolved.
    fn for_caller(&self, _skill: &str, _folder: Option<&Path>) -> Option<Arc<dyn Callees>> {
        None
    }

    /// The skills that the skill with this identity may call through a permission, as far as both that skill and the caller
    /// request such a permission; by names that the caller resolves to them.
    fn permitted_callees(&self, _identity: &str) -> Vec<String> {
        Vec::new()
    }

    /// A text that changes whenever the files of the skill with this identity change, if that can be determined.
    fn digest(&self, _identity: &str) -> Option<String> {
        None
    }
}

/// Knows no callees: for a plan that is parsed without an engine.
pub struct NoCallees;

impl Callees for NoCallees {
    fn skill(&self, _name: &str) -> CalleeLookup<Callee> {
        CalleeLookup::Unknown
    }

    fn tool(&self, _name: &str) -> CalleeLookup<Value> {
        CalleeLookup::Unknown
    }
}

/// The result of looking up a skill or tool.
#[derive(Clone, Debug)]
pub enum CalleeLookup<T> {
    /// It exists.
    Found(T),
    /// It does not exist or cannot be called; the plan does not load.
    Missing(SkillError),
    /// It cannot be determined here.
    Unknown,
}

/// The skill that owns the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The unique identity of the skill; the same as in a [`Callee`].
    pub identity: String,
    /// Its input as a JSON Schema (2020-12), if declared.
    pub input_schema: Option<Value>,
}

/// A skill that a step calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Callee {
    /// The unique identity of the skill.
    pub identity: String,
    /// Its input as a JSON Schema (2020-12), if declared.
    pub input_schema: Option<Value>,
    /// Its output as a JSON Schema (2020-12), if declared.
    pub output_schema: Option<Value>,
    /// The skills that its own plan calls by fixed text, by names that the caller resolves to them.
    pub calls: Vec<String>,
    /// Its requested permissions.
    pub requested: RequestedPermissions,
    /// Whether it runs as a process of its own.
    pub is_process: bool,
    /// Whether its plan has a review.
    pub has_review: bool,
}
