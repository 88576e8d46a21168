//! What became of the operations of a description: why one becomes no tool, and why a description is not imported.

use metier_core::error::{ErrorKind, Hint, SkillError};

/// Operations that became no tool, or became one with less than they have, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationGroup {
    /// The reason, as a sentence about one of them.
    pub reason: String,
    /// How many there are.
    pub count: usize,
    /// The first of them, each with method and path.
    pub examples: Vec<String>,
}

/// The most groups that are told apart, and operations of a group that are listed.
const MAX_GROUPS: usize = 50;
const MAX_EXAMPLES: usize = 5;

/// Adds an operation to the group of a reason.
pub(super) fn count(groups: &mut Vec<OperationGroup>, reason: &str, operation: &str) {
    let reason = if groups.len() < MAX_GROUPS || groups.iter().any(|group| group.reason == reason) {
        reason
    } else {
        "for another reason"
    };
    let at = groups.iter().position(|group| group.reason == reason).unwrap_or(groups.len());
    if at == groups.len() {
        groups.push(OperationGroup { reason: reason.to_owned(), count: 0, examples: Vec::new() });
    }
    let group = &mut groups[at];
    group.count += 1;
    if group.examples.len() < MAX_EXAMPLES {
        group.examples.push(operation.to_owned());
    }
}

/// Why nothing is made of a description.
#[derive(Debug)]
pub(super) struct Refusal {
    kind: ErrorKind,
    reason: String,
    help: Option<String>,
    hint: Option<Hint>,
}

impl Refusal {
    /// The description is not one that can be read.
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidSkill, reason: reason.into(), help: None, hint: None }
    }

    /// Whoever imports it must say more, or something else.
    pub(super) fn usage(reason: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, ..Self::invalid(reason) }
    }

    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub(super) fn with_hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The error for the file of that name.
    pub(super) fn into_error(self, file: &str) -> SkillError {
        let error = SkillError::new(self.kind, format!("failed to import {file}: {}", self.reason));
        let error = match self.help {
            Some(help) => error.with_help(help),
            None => error,
        };
        error.with_hint(self.hint)
    }
}

/// What of an operation cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A reference to another file or another place on the web.
    External,
    /// A reference to what is not there, or to itself.
    Nowhere,
    /// More than is read.
    TooLarge,
}

impl Fault {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::External => {
                "it refers to another file, and only references inside the description are followed"
            }
            Self::Nowhere => "a reference of it leads nowhere",
            Self::TooLarge => "its schemas are too large",
        }
    }
}
