//! JSON at the border of a language: why a value does not pass, where in it, and how much may pass.

use crate::error::{ErrorKind, SkillError};

/// Nesting `serde_json` itself reads back.
pub(super) const MAX_DEPTH: usize = 127;

/// Why a value does not pass, and where in it.
pub(super) struct ConversionError {
    kind: ErrorKind,
    reason: String,
    help: Option<&'static str>,
    path: Vec<String>,
}

impl ConversionError {
    /// A script's value that has no JSON form: `invalid-output`. The reason follows the value's name.
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self::with_kind(ErrorKind::InvalidOutput, reason)
    }

    pub(super) fn with_kind(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), help: None, path: Vec::new() }
    }

    pub(super) fn too_deep() -> Self {
        Self::new(format!("is nested deeper than {MAX_DEPTH} levels, or holds itself"))
    }

    pub(super) fn with_help(self, help: &'static str) -> Self {
        Self { help: Some(help), ..self }
    }

    /// The fault as the container sees it, in which the value stands at this place.
    pub(super) fn with_path_segment(mut self, part: impl FnOnce() -> String) -> Self {
        // A path as deep as the value itself helps nobody.
        if self.path.len() < 16 {
            self.path.push(part());
        }
        self
    }

    /// The error for a value that goes by this name.
    pub(super) fn into_error(self, name: &str) -> SkillError {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        let error = SkillError::new(self.kind, format!("{name}{path} {}", self.reason));
        match self.help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}

/// The bytes a value may still have. Spent before they are copied, so that a value that names itself a billion times
/// stops early.
#[derive(Clone, Copy)]
pub(super) struct OutputBudget {
    remaining: u64,
    limit: u64,
}

impl OutputBudget {
    pub(super) fn new(cap: u64) -> Self {
        Self { remaining: cap, limit: cap }
    }

    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), ConversionError> {
        self.remaining = self.remaining.checked_sub(bytes).ok_or_else(|| {
            let reason = format!("is larger than the {} bytes a run may put out", self.limit);
            ConversionError::with_kind(ErrorKind::Output, reason)
        })?;
        Ok(())
    }
}

/// The error for a script that outgrew its memory.
pub(super) fn out_of_memory(limit: u64) -> SkillError {
    SkillError::new(ErrorKind::Memory, format!("the script needed more than its {limit} bytes of memory"))
        .with_help("give it more with --memory, or make it keep less")
}
