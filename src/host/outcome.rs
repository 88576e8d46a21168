//! The result of an invocation, success or failure.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::Value;

use super::log::LogLine;
use super::redaction::{Redacted, Redaction};
use super::report::{ProcessReport, SandboxReport};
use super::steps::StepReport;
use crate::error::{ErrorKind, SkillError};
use crate::policy::{Limits, StopCause};

/// The result of an invocation.
///
/// In JSON every key is always present, `null` when empty: `{ok, skill, version, value, error, log, duration_ms, limits,
/// process, sandbox, steps, warnings}`.
///
/// ```
/// use metier::engine::{Engine, Invocation};
/// use metier::error::ErrorKind;
///
/// # fn main() -> metier::error::Result<()> {
/// let outcome = Engine::builder(".").build()?.run(Invocation::new("no-such-skill"));
/// match &outcome.result {
///     Ok(value) => println!("{value}"),
///     Err(error) if error.kind() == ErrorKind::UnknownSkill => println!("{error}"),
///     Err(error) => println!("it failed: {error}"),
/// }
/// # assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::UnknownSkill);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The skill's name; the requested name when no skill was found.
    pub skill: String,
    /// The skill's version, where one was found.
    pub version: Option<String>,
    /// The value, or the error.
    pub result: Result<Value, SkillError>,
    /// What the script logged.
    pub log: Vec<LogLine>,
    /// Wall clock time, from the call to the result.
    pub duration: Duration,
    /// The limits that applied, and which of them ended the run.
    pub limits: LimitsReport,
    /// How the process ended, for external scripts that started.
    pub process: Option<ProcessReport>,
    /// The sandbox that was in effect, for scripts that started.
    pub sandbox: Option<SandboxReport>,
    /// The result of each step, for plans that started; their values take no more than the output cap. In JSON `null` when
    /// empty.
    pub steps: Vec<StepReport>,
    /// What is wrong with the program that ran the skill, and not with the skill.
    pub warnings: Vec<RunWarning>,
}

/// Something that the author of the program around the engine should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RunWarning {
    /// The program is not its own helper program: its `main` does not begin with [`helper_main`](crate::helper_main), and
    /// [`EngineBuilder::helper`](crate::engine::EngineBuilder::helper) names no other. So a process was started by a copy of the
    /// program, or a WebAssembly module was not compiled.
    NoHelperProgram,
}

impl fmt::Display for RunWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHelperProgram => f.write_str(
                "this program has no helper: scripts are started by a copy of it, the first of each engine late, `metier ctx` \
                 does not work in them, and WebAssembly modules are not compiled",
            ),
        }
    }
}

impl RunWarning {
    /// What the author of the program can do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::NoHelperProgram => {
                "make `metier::helper_main()` the first line of its `main`, or set `EngineBuilder::helper`"
            }
        }
    }
}

/// The redacted results of a run. Everything that a script can influence enters an outcome only through this type.
pub(crate) struct RedactedOutcome {
    pub(crate) result: Result<Redacted<Value>, Redacted<SkillError>>,
    pub(crate) log: Redacted<Vec<LogLine>>,
    pub(crate) process: Option<Redacted<ProcessReport>>,
    pub(crate) steps: Redacted<Vec<StepReport>>,
    pub(crate) sandbox: Option<SandboxReport>,
}

/// The limits of a run as its outcome reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitsReport {
    /// The limit that ended the run, by the name of its error kind.
    pub hit: Option<&'static str>,
    /// Milliseconds the run could take.
    pub timeout_ms: u64,
    /// Bytes of memory it could use; `null` when none were named and no script was found whose runtime has a default.
    pub memory_bytes: Option<u64>,
    /// Operations it could execute; `null` where none are counted, and where the limit is not applied.
    pub operations: Option<u64>,
    /// Milliseconds of processor time each of its processes could use; `null` where there are no processes.
    pub cpu_ms: Option<u64>,
    /// Maximum bytes of a file written by one of its processes, or by the host on its behalf; `null` where no script was found.
    pub file_bytes: Option<u64>,
    /// Descriptors a process could have open; `null` where there are no processes.
    pub open_files: Option<u64>,
    /// The limits that the caller or the contract set and the runtime does not support: `memory`, `operations`, `cpu`,
    /// `file_size`, `open_files`. Each is `null` above.
    pub not_applied: Vec<&'static str>,
    /// Maximum bytes of output.
    pub output_bytes: u64,
    /// `kill` or `truncate`: what happens at the output cap.
    pub on_output: &'static str,
    /// Whether something was truncated at the output cap: a stream of the process, whose report says so as well, or the value.
    pub truncated: bool,
}

impl LimitsReport {
    /// The limits as set, before anything ran.
    pub(crate) fn new(limits: &Limits, error: Option<&SkillError>) -> Self {
        let hit = error.map(SkillError::kind).filter(|kind| kind.is_limit());
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            hit: hit.map(ErrorKind::name),
            timeout_ms: milliseconds(limits.timeout),
            memory_bytes: limits.memory,
            operations: limits.operations,
            cpu_ms: limits.cpu.map(milliseconds),
            file_bytes: limits.file_size,
            open_files: limits.open_files,
            not_applied: Vec::new(),
            output_bytes: limits.output,
            on_output: limits.on_output.name(),
            truncated: false,
        }
    }
}

impl Outcome {
    /// The outcome of an invocation that never started.
    pub fn failed(skill: impl Into<String>, error: SkillError) -> Self {
        Self::not_run(skill.into(), None, &Limits::default(), error)
    }

    /// The outcome of a run that its host stopped waiting for, with the limits it had.
    pub fn abandoned(skill: impl Into<String>, limits: &Limits, error: SkillError) -> Self {
        Self::not_run(skill.into(), None, limits, error)
    }

    /// The outcome of an invocation that ended before its script did anything.
    pub(crate) fn not_run(
        skill: String,
        version: Option<String>,
        limits: &Limits,
        error: SkillError,
    ) -> Self {
        Self {
            skill,
            version,
            limits: LimitsReport::new(limits, Some(&error)),
            result: Err(error),
            log: Vec::new(),
            duration: Duration::ZERO,
            process: None,
            sandbox: None,
            steps: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn from_run(
        skill: String,
        version: Option<String>,
        limits: &Limits,
        left: RedactedOutcome,
    ) -> Self {
        let result = left.result.map(Redacted::into_inner).map_err(Redacted::into_inner);
        Self {
            skill,
            version,
            limits: LimitsReport::new(limits, result.as_ref().err()),
            result,
            log: left.log.into_inner(),
            duration: Duration::ZERO,
            process: left.process.map(Redacted::into_inner),
            sandbox: left.sandbox,
            steps: left.steps.into_inner(),
            warnings: Vec::new(),
        }
    }

    /// Sets the limits that were not applied to the run.
    pub(crate) fn with_unsupported_limits(mut self, names: Vec<&'static str>) -> Self {
        self.limits.not_applied = names;
        self
    }

    /// Sets whether output was truncated at the cap.
    pub(crate) fn with_truncation(mut self, was_cut: bool) -> Self {
        self.limits.truncated = was_cut;
        self
    }

    /// Clears the timeout from the limits report unless the run itself met its deadline: a timeout of only a part of it does
    /// not count.
    pub(crate) fn with_stop_cause(mut self, cause: Option<StopCause>) -> Self {
        if self.limits.hit == Some(ErrorKind::Timeout.name()) && cause != Some(StopCause::Deadline) {
            self.limits.hit = None;
        }
        self
    }

    /// The outcome without secrets, of which some may be the caller's.
    pub(super) fn redact(&self, redaction: &Redaction) -> Self {
        let result = match &self.result {
            Ok(value) => Ok(redaction.value(value.clone()).into_inner()),
            Err(error) => Err(redaction.error(error.clone()).into_inner()),
        };
        let process = self.process.clone().map(|report| redaction.process(report).into_inner());
        let steps = redaction.steps(self.steps.clone()).into_inner();
        Self { result, process, steps, ..self.clone() }
    }

    /// The exit code of the command line for this outcome: 0, or that of the error kind.
    pub fn exit_code(&self) -> u8 {
        self.result.as_ref().err().map_or(0, |error| error.kind().exit_code())
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        let mut record = serializer.serialize_struct("Outcome", 12)?;
        record.serialize_field("ok", &self.result.is_ok())?;
        record.serialize_field("skill", &self.skill)?;
        record.serialize_field("version", &self.version)?;
        record.serialize_field("value", &self.result.as_ref().ok())?;
        record.serialize_field("error", &self.result.as_ref().err())?;
        record.serialize_field("log", &self.log)?;
        record.serialize_field("duration_ms", &milliseconds)?;
        record.serialize_field("limits", &self.limits)?;
        record.serialize_field("process", &self.process)?;
        record.serialize_field("sandbox", &self.sandbox)?;
        record.serialize_field("steps", &Some(&self.steps).filter(|steps| !steps.is_empty()))?;
        record.serialize_field("warnings", &self.warnings)?;
        record.end()
    }
}
