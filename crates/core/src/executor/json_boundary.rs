//! The conversion of values between JSON and a script language: why a value cannot be converted, where in it, and the output
//! limit.

use crate::error::{ErrorKind, Hint, LimitKind, SkillError};
use crate::excerpt::byte_size;

/// The nesting that `serde_json` itself can parse.
pub const MAX_DEPTH: usize = 127;

/// Why a value cannot be converted, and where in it. Boxed, because each level of a conversion passes it on.
pub struct ConversionError(Box<ConversionFailure>);

struct ConversionFailure {
    kind: ErrorKind,
    reason: String,
    help: Option<&'static str>,
    path: Vec<String>,
}

impl ConversionError {
    /// A script value that has no JSON form: `invalid-output`. The reason follows the value's name.
    pub fn new(reason: impl Into<String>) -> Self {
        Self::with_kind(ErrorKind::InvalidOutput, reason)
    }

    /// The same, with another kind.
    pub fn with_kind(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self(Box::new(ConversionFailure { kind, reason: reason.into(), help: None, path: Vec::new() }))
    }

    /// A value that nests too deep, or holds itself.
    pub fn too_deep() -> Self {
        Self::new(format!("is nested deeper than {MAX_DEPTH} levels, or holds itself"))
    }

    /// Adds help.
    pub fn with_help(mut self, help: &'static str) -> Self {
        self.0.help = Some(help);
        self
    }

    /// The error with the path extended by the place of the value in its container.
    pub fn with_path_segment(mut self, part: impl FnOnce() -> String) -> Self {
        // A path as long as the value is deep would help nobody.
        if self.0.path.len() < 16 {
            self.0.path.push(part());
        }
        self
    }

    /// The error for a value of this name.
    pub fn into_error(self, name: &str) -> SkillError {
        let ConversionFailure { kind, reason, help, path } = *self.0;
        let path: String = path.iter().rev().map(String::as_str).collect();
        let error = SkillError::new(kind, format!("{name}{path} {reason}"));
        let error = match help {
            Some(help) => error.with_help(help),
            None => error,
        };
        if kind == ErrorKind::Output { error.with_hint(Hint::Limit(LimitKind::Output)) } else { error }
    }
}

/// The error for an output that is larger than a run may have; the sentence ends before the size.
pub fn output_too_large(sentence: &str, limit: u64) -> SkillError {
    SkillError::new(ErrorKind::Output, format!("{sentence} {}", excess_text(limit)))
        .with_help(SMALLER_OUTPUT)
        .with_hint(Hint::Limit(LimitKind::Output))
}

const SMALLER_OUTPUT: &str = "return less, or raise the output limit";

fn excess_text(limit: u64) -> String {
    format!("is larger than the {} a run may put out", byte_size(limit))
}

/// The number of bytes a value may still have. They are spent before they are copied, so that a value that references itself
/// a billion times stops early.
#[derive(Clone, Copy)]
pub struct OutputBudget {
    remaining: u64,
    limit: u64,
}

impl OutputBudget {
    /// A value of at most so many bytes.
    pub fn new(cap: u64) -> Self {
        Self { remaining: cap, limit: cap }
    }

    /// Counts bytes before they are copied; an error if there are too many.
    #[inline]
    pub fn spend(&mut self, bytes: u64) -> Result<(), ConversionError> {
        self.remaining = self.remaining.checked_sub(bytes).ok_or_else(|| {
            ConversionError::with_kind(ErrorKind::Output, excess_text(self.limit)).with_help(SMALLER_OUTPUT)
        })?;
        Ok(())
    }
}

/// Counts memory before it is taken.
#[inline]
pub fn spend_memory(remaining: &mut u64, bytes: u64) -> Result<(), ConversionError> {
    *remaining = remaining.checked_sub(bytes).ok_or_else(|| {
        ConversionError::with_kind(ErrorKind::Memory, "takes more memory than the script has left")
    })?;
    Ok(())
}

/// The error for a script that exceeded its memory limit.
pub fn out_of_memory(limit: u64) -> SkillError {
    SkillError::new(
        ErrorKind::Memory,
        format!("the script needed more than its {} of memory", byte_size(limit)),
    )
    .with_help("give it more memory, or make it keep less")
    .with_hint(Hint::Limit(LimitKind::Memory))
}
