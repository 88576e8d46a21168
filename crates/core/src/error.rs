//! The error type of the crate: a kind and a hint for programs, and a sentence with help for people.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

pub use crate::hint::{Hint, LimitKind};

/// The result of every fallible function of this crate.
pub type Result<T, E = SkillError> = std::result::Result<T, E>;

/// The kind of an error, a closed list; [`ErrorKind::name`] is the stable name used in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The script raised an error, or its process ended with an exit code other than zero.
    Script,
    /// The operating system refused a file operation.
    Io,
    /// A host function was called with invalid arguments.
    InvalidArgument,
    /// The script's value cannot be written as JSON, or violates the contract's outputs.
    InvalidOutput,
    /// A tool the script called failed.
    Tool,
    /// The command line or the invocation itself is wrong.
    Usage,
    /// The input violates the contract, or the language cannot represent it exactly.
    InvalidInput,
    /// No skill, script, tool or entry point has that name.
    UnknownSkill,
    /// The skill cannot be loaded; includes syntax errors of scripts.
    InvalidSkill,
    /// Something that the skill needs is not available: a runtime, an interpreter, a provider.
    Unavailable,
    /// The sandbox that the policy requires cannot be enforced on this machine.
    SandboxUnavailable,
    /// A permission is missing, or nothing of the kind is allowed.
    Denied,
    /// A path leads out of the project or of the skill's folder. No grant opens it, so [`SkillError::missing`] is `None`.
    OutsideProject,
    /// A model asked for a skill that nobody trusts, or that changed since it was trusted or locked.
    Untrusted,
    /// A model chose a skill whose risk takes more autonomy than it is given. Nothing of the skill has run.
    Autonomy,
    /// A person decides about the call later. Nothing of it has run; the same call is made again when it is approved.
    Pending,
    /// The run took longer than its deadline.
    Timeout,
    /// The run needed more memory than its limit.
    Memory,
    /// A process of the run used more processor time than its limit.
    Cpu,
    /// The run executed more operations than its limit.
    Operations,
    /// The run produced more output than its limit.
    Output,
    /// The skill would keep more than its limit.
    State,
    /// The caller stopped the run.
    Cancelled,
}

/// Kind, name in JSON, exit code of the command line.
const KINDS: [(ErrorKind, &str, u8); 23] = [
    (ErrorKind::Script, "script", 1),
    (ErrorKind::Io, "io", 1),
    (ErrorKind::InvalidArgument, "invalid-argument", 1),
    (ErrorKind::InvalidOutput, "invalid-output", 1),
    (ErrorKind::Tool, "tool", 1),
    (ErrorKind::Usage, "usage", 2),
    (ErrorKind::InvalidInput, "invalid-input", 2),
    (ErrorKind::UnknownSkill, "unknown-skill", 3),
    (ErrorKind::InvalidSkill, "invalid-skill", 3),
    (ErrorKind::Unavailable, "unavailable", 3),
    (ErrorKind::SandboxUnavailable, "sandbox-unavailable", 3),
    (ErrorKind::Denied, "denied", 4),
    (ErrorKind::OutsideProject, "outside-project", 4),
    (ErrorKind::Untrusted, "untrusted", 4),
    (ErrorKind::Autonomy, "autonomy", 4),
    (ErrorKind::Pending, "pending", 4),
    (ErrorKind::Timeout, "timeout", 5),
    (ErrorKind::Memory, "memory", 5),
    (ErrorKind::Cpu, "cpu", 5),
    (ErrorKind::Operations, "operations", 5),
    (ErrorKind::Output, "output", 5),
    (ErrorKind::State, "state", 5),
    (ErrorKind::Cancelled, "cancelled", 130),
];

impl ErrorKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(|(kind, ..)| kind)
    }

    /// The stable name, as in `"denied"`.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// The exit code of the command line for a run that failed this way.
    pub fn exit_code(self) -> u8 {
        KINDS[self as usize].2
    }

    /// Whether the run was stopped by one of its limits.
    pub fn is_limit(self) -> bool {
        self.exit_code() == 5
    }

    /// The kind of that name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A position in a file of a skill. Lines and columns count from 1; the column is absent if a language reports none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Location {
    /// The file, relative to the skill's folder if it is inside.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
    #[serde(skip)]
    path: Option<PathBuf>,
}

impl Location {
    /// A position in that file.
    pub fn new(file: impl Into<String>, line: Option<u32>, column: Option<u32>) -> Self {
        Self { file: file.into(), line, column, path: None }
    }

    /// The absolute path of the file, for an editor to open: of a `SKILL.md`, of a contract, or of the script that ran. `None` for
    /// skills inside the program, and for a file that the engine did not read itself. It is not in JSON.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The position under another name of the file, which hides the path as well.
    pub(crate) fn with_file(&self, file: String) -> Self {
        let path = self.path.clone().filter(|_| file == self.file);
        Self { path, ..Self::new(file, self.line, self.column) }
    }

    /// The same in the file at this path.
    pub fn with_path(mut self, path: Option<PathBuf>) -> Self {
        self.path = path;
        self
    }
}

/// One violation of a contract by a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The position in the value, as a JSON Pointer; empty for the value itself.
    pub path: String,
    /// The violated keyword of JSON Schema, such as `type` or `required`.
    pub keyword: String,
    /// The expected value, in words.
    pub expected: String,
    /// The value found, in words; long values by their size.
    pub found: String,
}

impl Violation {
    /// A violation of this keyword at this position, with the expected value and the one found, in words.
    pub fn new(
        path: impl Into<String>,
        keyword: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), keyword: keyword.into(), expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Violation {
    /// `/dry_run: expected true or false, found "yes" (type)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, keyword, expected, found } = self;
        let place = if path.is_empty() { "the whole value" } else { path };
        write!(f, "{place}: expected {expected}, found {found} ({keyword})")
    }
}

/// What the process of a failed script wrote, and how it ended: bounded, without secrets, and without the sequences that change a
/// terminal. `Outcome::process` has the streams of the run itself whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorOutput {
    /// The exit code, `null` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output; of more than 3,000 bytes its beginning and its end.
    pub stdout: String,
    /// Standard error; of more than 3,000 bytes its end.
    pub stderr: String,
}

impl ErrorOutput {
    /// Maximum bytes of a stream.
    pub(crate) const MAX_BYTES: usize = 3_000;

    /// What a process left whose streams have this text.
    pub(crate) fn new(
        (exit_code, signal): (Option<i32>, Option<i32>),
        stdout: String,
        stderr: String,
    ) -> Self {
        Self { exit_code, signal, stdout, stderr }
    }
}

/// An error: its kind, a sentence for the person who can fix it, and help if there is some.
///
/// In JSON: `{kind, message, help, location: {file, line, column}, traceback, violations: [{path, keyword, expected, found}],
/// missing, output: {exit_code, signal, stdout, stderr}}`, absent parts `null`; `missing` is the name of the permission that was
/// missing, `output` is what the process of a failed script wrote.
///
/// ```
/// # use metier_core as metier;
/// use metier::error::{ErrorKind, SkillError};
///
/// let error = SkillError::new(ErrorKind::Tool, "the issue tracker did not answer").with_help("try again later");
/// assert_eq!(error.kind().name(), "tool");
/// assert_eq!(error.help(), Some("try again later"));
/// ```
#[derive(Clone)]
pub struct SkillError(Box<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    hint: Option<Hint>,
    location: Option<Location>,
    traceback: Vec<String>,
    violations: Vec<Violation>,
    callees: Vec<String>,
    missing: Option<String>,
    output: Option<Box<ErrorOutput>>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl SkillError {
    /// An error with this kind and this sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorInner {
            kind,
            message: message.into(),
            help: None,
            hint: None,
            location: None,
            traceback: Vec::new(),
            violations: Vec::new(),
            callees: Vec::new(),
            missing: None,
            output: None,
            source: None,
        }))
    }

    /// An operating system error, with the operation that failed: `failed to read notes.txt: No such file or directory`.
    pub fn io(attempt: impl fmt::Display, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("{attempt}: {}", without_os_code(&source))).with_source(source)
    }

    /// Adds help, as an imperative sentence without a full stop.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds what the host program can do about the error, if there is something.
    pub fn with_hint(mut self, hint: impl Into<Option<Hint>>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// Adds the position in the skill.
    pub fn with_location(mut self, location: Location) -> Self {
        self.0.location = Some(location);
        self
    }

    /// Adds the script's own call stack, innermost frame first.
    pub fn with_traceback(mut self, traceback: Vec<String>) -> Self {
        self.0.traceback = traceback;
        self
    }

    /// Adds the violations of a contract.
    pub fn with_violations(mut self, violations: Vec<Violation>) -> Self {
        self.0.violations = violations;
        self
    }

    /// Adds the underlying error.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence that describes the error.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The help, if there is some: an imperative sentence without a full stop, which names no option of any program.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// What the host program can do about the error, so that it can say where to do it. The help says it in a sentence.
    ///
    /// ```
    /// # use metier_core as metier;
    /// use metier::error::{LimitKind, Hint};
    /// use metier::policy::StopCause;
    ///
    /// let error = StopCause::Timeout.error();
    /// assert_eq!(error.hint(), Some(&Hint::Limit(LimitKind::Timeout)));
    /// assert_eq!(error.help(), Some("give it more time, or make it do less"));
    /// ```
    pub fn hint(&self) -> Option<&Hint> {
        self.0.hint.as_ref()
    }

    /// The position in the skill.
    pub fn location(&self) -> Option<&Location> {
        self.0.location.as_ref()
    }

    /// The script's call stack, innermost frame first; empty if there was none.
    pub fn traceback(&self) -> &[String] {
        &self.0.traceback
    }

    /// What the process of the script that failed wrote, which may be that of a skill that the run called; `None` if no process ran.
    pub fn output(&self) -> Option<&ErrorOutput> {
        self.0.output.as_deref()
    }

    /// The first violations of a contract; empty if there were none.
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }
}

/// What the packages of metier add to an error on its way to the caller, and read of it.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait ErrorContext: Sized {
    /// The same without help, for a reader who has no use for it.
    fn without_help(self) -> Self;

    /// Adds what the process of the script wrote.
    fn with_output(self, output: ErrorOutput) -> Self;

    /// Adds the path of the file of its position, by the name of that file.
    fn with_location_path(self, path_of: impl FnOnce(&str) -> Option<PathBuf>) -> Self;

    /// Adds the skills that were called on the way to the failure, outermost first. The message names them too.
    fn with_callees(self, callees: Vec<String>) -> Self;

    /// Adds the name of the permission that was missing, if one was.
    fn with_missing_permission(self, name: Option<String>) -> Self;

    /// This error under another sentence, as whoever passes it on has it. The kind, the help, the hint, the violations, the
    /// missing permission and the output stay; the position, the call stack and the callees are those of whoever failed first, and go.
    fn with_message(&self, message: impl Into<String>) -> Self;

    /// The same error with each of its texts replaced, without the error that caused it.
    fn map_texts(&self, text: impl Fn(&str) -> String) -> Self;

    /// The error in JSON, with its hint, for another process of metier that reads it.
    fn to_full_json(&self) -> serde_json::Value;

    /// The skills that were called on the way to the failure, outermost first.
    fn callees(&self) -> &[String];

    /// The name of the permission that was missing; [`SkillError::missing`] parses it.
    fn missing_permission(&self) -> Option<&str>;
}

#[doc(hidden)]
impl ErrorContext for SkillError {
    fn without_help(mut self) -> Self {
        (self.0.help, self.0.hint) = (None, None);
        self
    }

    fn with_output(mut self, output: ErrorOutput) -> Self {
        self.0.output = Some(Box::new(output));
        self
    }

    fn with_location_path(mut self, path_of: impl FnOnce(&str) -> Option<PathBuf>) -> Self {
        if let Some(location) = self.0.location.as_mut().filter(|location| location.path.is_none()) {
            location.path = path_of(&location.file);
        }
        self
    }

    fn with_callees(mut self, callees: Vec<String>) -> Self {
        self.0.callees = callees;
        self
    }

    fn with_missing_permission(mut self, name: Option<String>) -> Self {
        self.0.missing = name;
        self
    }

    fn with_message(&self, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorInner {
            help: self.0.help.clone(),
            hint: self.0.hint.clone(),
            violations: self.0.violations.clone(),
            missing: self.0.missing.clone(),
            output: self.0.output.clone(),
            ..*Self::new(self.0.kind, message).0
        }))
    }

    fn map_texts(&self, text: impl Fn(&str) -> String) -> Self {
        let violation = |violation: &Violation| Violation {
            path: text(&violation.path),
            keyword: violation.keyword.clone(),
            expected: text(&violation.expected),
            found: text(&violation.found),
        };
        let inner = &self.0;
        Self(Box::new(ErrorInner {
            kind: inner.kind,
            message: text(&inner.message),
            help: inner.help.as_deref().map(&text),
            hint: inner.hint.as_ref().map(|hint| hint.map_names(&text)),
            location: inner.location.as_ref().map(|at| at.with_file(text(&at.file))),
            traceback: inner.traceback.iter().map(|frame| text(frame)).collect(),
            violations: inner.violations.iter().map(violation).collect(),
            callees: inner.callees.iter().map(|skill| text(skill)).collect(),
            missing: inner.missing.as_deref().map(&text),
            output: inner.output.as_ref().map(|output| {
                let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
                Box::new(ErrorOutput { stdout, stderr, ..**output })
            }),
            source: None,
        }))
    }

    fn to_full_json(&self) -> serde_json::Value {
        let mut parts = serde_json::json!(self);
        parts["hint"] = serde_json::json!(self.hint());
        parts
    }

    fn callees(&self) -> &[String] {
        &self.0.callees
    }

    fn missing_permission(&self) -> Option<&str> {
        self.0.missing.as_deref()
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for SkillError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl Serialize for SkillError {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("SkillError", 8)?;
        record.serialize_field("kind", &self.0.kind)?;
        record.serialize_field("message", &self.0.message)?;
        record.serialize_field("help", &self.0.help)?;
        record.serialize_field("location", &self.0.location)?;
        record.serialize_field("traceback", &self.0.traceback)?;
        record.serialize_field("violations", &self.0.violations)?;
        record.serialize_field("missing", &self.0.missing)?;
        record.serialize_field("output", &self.0.output)?;
        record.end()
    }
}

/// The system's message without Rust's `(os error 2)`, which does not help a reader.
fn without_os_code(source: &std::io::Error) -> String {
    let text = source.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_kinds_is_in_the_order_of_the_enum() {
        for (position, (kind, name, _)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, position, "{name}");
            assert_eq!(ErrorKind::from_name(name), Some(kind));
        }
    }

    #[test]
    fn an_operating_system_error_reads_as_a_sentence() {
        let error = SkillError::io("failed to read a.txt", std::io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "failed to read a.txt: No such file or directory");
        assert!(std::error::Error::source(&error).is_some());
    }
}
