//! The result of an invocation, success or failure.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::Value;

use super::duration::{as_milliseconds, as_optional_milliseconds};
use super::log::LogLine;
use super::redaction::{Redacted, Redaction};
use super::refused_access::RefusedAccess;
use super::report::{ProcessReport, SandboxReport};
use super::steps::StepReport;
use crate::error::{ErrorKind, SkillError};
use crate::excerpt::shorten;
use crate::policy::{GrantReport, Limits, OutputPolicy, RuntimeLimit, SkillDigest};

/// Maximum characters of the reason why a value does not fit a type.
const MAX_REASON_CHARS: usize = 500;

/// The result of an invocation.
///
/// In JSON every key is always present, `null` when empty: `{ok, skill, version, value, error, log, duration_ms, limits,
/// process, sandbox, steps, warnings, grants, refused, digest, cached, sanitized, changes}`.
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
    /// What was granted to the run, and by whom; what the skill does not request had no effect. Empty for a callee, which has
    /// the grants of its caller, and where no script started.
    pub grants: Vec<GrantReport>,
    /// What the sandbox refused an external script as far as it was observed, also where the script went on without it and ended well, each
    /// with the smallest permission that would allow it: hosts, variables that are set here and were not passed and, if the run was
    /// [watched](crate::executor::WatchedAccess), paths and programs. In JSON `null` when empty.
    pub refused: Vec<RefusedAccess>,
    /// The digest of the skill, from engines with a trust store and for invocations with a digest. A skill that is trusted by its
    /// place has one only if the invocation names one or a grant is remembered. That of a callee counts only its own files.
    pub digest: Option<SkillDigest>,
    /// Where the value comes from, if it is that of an earlier equal run.
    pub cached: Option<CachedResult>,
    /// How many places in the value, the log, the error and the output of the process were changed because a model reads them: secrets
    /// that are known by their form, encoded secrets of the run, and characters that nobody sees. 0 for other runs.
    pub sanitized: u64,
    /// What a run in a copy of its project changed; only previews have it.
    pub changes: Option<Box<ChangesReport>>,
    /// Why a plan did not go on where an interrupted run of it ended, but from its beginning.
    pub started_over: Option<String>,
}

/// An earlier value that a run was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CachedResult {
    /// The time since the run began that made it. In JSON `age_ms`, in milliseconds.
    #[serde(rename = "age_ms", serialize_with = "as_milliseconds")]
    pub age: Duration,
}

/// The value of a run that began so long ago.
pub fn cached_result(age: Duration) -> CachedResult {
    CachedResult { age }
}

/// What a run changed in a copy of its project, which itself is as it was.
///
/// In JSON the keys of the change set stand beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChangesReport {
    /// The change set, as `metier::changes::ChangeSet` has it in JSON, without secrets of the run.
    #[serde(flatten)]
    pub set: Value,
    /// That of the change set: whoever agrees to it agrees to exactly these changes.
    pub digest: String,
    /// The lines that differ in texts, of the first files that have any: `{path, diff}`.
    pub diffs: Vec<Value>,
    /// Whether the change set is stored, and can be applied by its id.
    pub is_stored: bool,
    /// What was applied of it, if anything was to be.
    pub applied: Option<Value>,
}

/// A set of changes, as JSON, and its digest. It has no differences, is not stored, and nobody has applied it.
pub fn changes_report(set: Value, digest: String) -> ChangesReport {
    ChangesReport { set, digest, diffs: Vec::new(), is_stored: false, applied: None }
}

impl ChangesReport {
    /// The id of the change set.
    pub fn id(&self) -> &str {
        self.set.get("id").and_then(Value::as_str).unwrap_or_default()
    }

    /// How many paths are changed.
    pub fn len(&self) -> usize {
        self.set.get("changes").and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Whether no path is changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Something that the author of the program around the engine should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RunWarning {
    /// The program is not its own helper program: its `main` does not begin with `helper_main`, and
    /// `EngineBuilder::helper` names no other. So a process was started by a copy of the
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
pub struct RedactedOutcome {
    /// The value, or why there is none.
    pub result: Result<Redacted<Value>, Redacted<SkillError>>,
    /// Its log.
    pub log: Redacted<Vec<LogLine>>,
    /// What its process did.
    pub process: Option<Redacted<ProcessReport>>,
    /// The reports of its steps.
    pub steps: Redacted<Vec<StepReport>>,
    /// What restricted it.
    pub sandbox: Option<SandboxReport>,
    /// What that refused.
    pub refused: Redacted<Vec<RefusedAccess>>,
}

/// The limits of a run as its outcome reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitsReport {
    /// The limit that ended the run, as the kind of its error.
    pub hit: Option<ErrorKind>,
    /// The time the run could take. In JSON `timeout_ms`, in milliseconds.
    #[serde(rename = "timeout_ms", serialize_with = "as_milliseconds")]
    pub timeout: Duration,
    /// Bytes of memory it could use; `null` when none were named and no script was found whose runtime has a default.
    pub memory_bytes: Option<u64>,
    /// Operations it could execute; `null` where none are counted, and where the limit is not applied.
    pub operations: Option<u64>,
    /// Processor time each of its processes could use; `None` where there are no processes. In JSON `cpu_ms`, in milliseconds.
    #[serde(rename = "cpu_ms", serialize_with = "as_optional_milliseconds")]
    pub cpu: Option<Duration>,
    /// Maximum bytes of a file written by one of its processes, or by the host on its behalf; `null` where no script was found.
    pub file_bytes: Option<u64>,
    /// Descriptors a process could have open; `null` where there are no processes.
    pub open_files: Option<u64>,
    /// The limits that the caller or the contract set and the runtime does not support. Each is `None` above.
    pub not_applied: Vec<RuntimeLimit>,
    /// Maximum bytes of output.
    pub output_bytes: u64,
    /// What happens at the output cap.
    pub on_output: OutputPolicy,
    /// Whether something was truncated at the output cap: a stream of the process, whose report says so as well, or the value.
    pub truncated: bool,
}

/// The limits as set, before anything ran.
pub fn limits_report(limits: &Limits, error: Option<&SkillError>) -> LimitsReport {
    let hit = error.map(SkillError::kind).filter(|kind| kind.is_limit());
    LimitsReport {
        hit,
        timeout: limits.timeout,
        memory_bytes: limits.memory,
        operations: limits.operations,
        cpu: limits.cpu,
        file_bytes: limits.file_size,
        open_files: limits.open_files,
        not_applied: Vec::new(),
        output_bytes: limits.output,
        on_output: limits.on_output,
        truncated: false,
    }
}

impl Outcome {
    /// The outcome of an invocation that never started.
    pub fn failed(skill: impl Into<String>, error: SkillError) -> Self {
        not_run(skill.into(), None, &Limits::default(), error)
    }

    /// The outcome of a run that its host stopped waiting for, with the limits it had.
    pub fn abandoned(skill: impl Into<String>, limits: &Limits, error: SkillError) -> Self {
        not_run(skill.into(), None, limits, error)
    }

    /// The outcome without secrets, of which some may be the caller's.
    pub(super) fn redact(&self, redaction: &Redaction) -> Self {
        let result = match &self.result {
            Ok(value) => Ok(redaction.value(value.clone()).into_inner()),
            Err(error) => Err(redaction.error(error.clone()).into_inner()),
        };
        let process = self.process.clone().map(|report| redaction.process(report).into_inner());
        let steps = redaction.steps(self.steps.clone()).into_inner();
        let refused = redaction.refused_accesses(self.refused.clone()).into_inner();
        Self { result, process, steps, refused, ..self.clone() }
    }

    /// The value as a Rust type, or the error of the run; `invalid-output` if the value does not fit the type.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, SkillError> {
        serde_json::from_value(self.result?).map_err(|error| {
            let (skill, expected) = (self.skill, std::any::type_name::<T>());
            // The reason may quote a text of any length from the value.
            let reason = shorten(&error.to_string(), MAX_REASON_CHARS);
            let sentence =
                format!("the value of the skill {skill} does not fit the type {expected}: {reason}");
            SkillError::new(ErrorKind::InvalidOutput, sentence)
                .with_help("return a value that fits from the skill, or read it into another type")
        })
    }

    /// The exit code of the command line for this outcome: 0, or that of the error kind.
    pub fn exit_code(&self) -> u8 {
        self.result.as_ref().err().map_or(0, |error| error.kind().exit_code())
    }
}

/// The outcome of an invocation that ended before its script did anything.
pub fn not_run(skill: String, version: Option<String>, limits: &Limits, error: SkillError) -> Outcome {
    Outcome {
        skill,
        version,
        limits: limits_report(limits, Some(&error)),
        result: Err(error),
        log: Vec::new(),
        duration: Duration::ZERO,
        process: None,
        sandbox: None,
        steps: Vec::new(),
        warnings: Vec::new(),
        grants: Vec::new(),
        refused: Vec::new(),
        digest: None,
        cached: None,
        sanitized: 0,
        changes: None,
        started_over: None,
    }
}

/// The outcome of an invocation whose script has run, and left this.
pub fn from_run(skill: String, version: Option<String>, limits: &Limits, left: RedactedOutcome) -> Outcome {
    let result = left.result.map(Redacted::into_inner).map_err(Redacted::into_inner);
    Outcome {
        skill,
        version,
        limits: limits_report(limits, result.as_ref().err()),
        result,
        log: left.log.into_inner(),
        duration: Duration::ZERO,
        process: left.process.map(Redacted::into_inner),
        sandbox: left.sandbox,
        steps: left.steps.into_inner(),
        warnings: Vec::new(),
        grants: Vec::new(),
        refused: left.refused.into_inner(),
        digest: None,
        cached: None,
        sanitized: 0,
        changes: None,
        started_over: None,
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        let mut record = serializer.serialize_struct("Outcome", 18)?;
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
        record.serialize_field("refused", &Some(&self.refused).filter(|refused| !refused.is_empty()))?;
        record.serialize_field("grants", &self.grants)?;
        record.serialize_field("digest", &self.digest)?;
        record.serialize_field("cached", &self.cached)?;
        record.serialize_field("sanitized", &self.sanitized)?;
        record.serialize_field("changes", &self.changes)?;
        record.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limits_in_json_are_names_and_milliseconds() {
        let limits = Limits::default()
            .timeout(Duration::from_micros(2_000_999))
            .cpu(Duration::from_secs(1))
            .memory(5)
            .output(6)
            .on_output(OutputPolicy::Truncate);
        let error = SkillError::new(ErrorKind::Timeout, "late");
        let mut report = limits_report(&limits, Some(&error));
        report.not_applied = RuntimeLimit::ALL.to_vec();
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"hit":"timeout","timeout_ms":2000,"memory_bytes":5,"operations":null,"cpu_ms":1000,"file_bytes":null,"#
                .to_owned()
                + r#""open_files":null,"not_applied":["memory","operations","cpu","file_size","open_files"],"#
                + r#""output_bytes":6,"on_output":"truncate","truncated":false}"#
        );
        let report = limits_report(&Limits::default(), None);
        let report = json!(report);
        assert_eq!((&report["hit"], &report["cpu_ms"]), (&Value::Null, &Value::Null));
        assert_eq!((&report["on_output"], &report["not_applied"]), (&json!("kill"), &json!([])));
        let endless = limits_report(&Limits::default().timeout(Duration::MAX), None);
        assert_eq!(json!(endless)["timeout_ms"], u64::MAX);
    }

    fn with_value(value: Value) -> Outcome {
        let unused = SkillError::new(ErrorKind::Script, "");
        Outcome { result: Ok(value), ..Outcome::failed("count", unused) }
    }

    #[test]
    fn a_value_is_read_into_a_type() {
        let read: Vec<u64> = with_value(json!([1, u64::MAX])).json().unwrap();
        assert_eq!(read, [1, u64::MAX]);
        assert_eq!(with_value(json!({"a": null})).json::<Value>().unwrap(), json!({"a": null}));
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error_with_the_type_and_the_reason() {
        let error = with_value(json!([-1])).json::<Vec<u64>>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOutput);
        assert_eq!(
            error.message(),
            "the value of the skill count does not fit the type alloc::vec::Vec<u64>: invalid value: integer `-1`, expected u64"
        );
        let error = with_value(json!("x".repeat(1 << 20))).json::<bool>().unwrap_err();
        assert!(error.message().len() < 700, "{}", error.message().len());
    }

    #[test]
    fn a_failed_run_keeps_its_error_where_a_type_is_expected() {
        let failed = Outcome::failed("count", SkillError::new(ErrorKind::Denied, "no"));
        assert_eq!(failed.json::<bool>().unwrap_err().kind(), ErrorKind::Denied);
    }
}
