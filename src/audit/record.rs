//! One record of the audit log: what happened, who caused it, and what it was about.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use serde_json::Value;

use metier_core::host::RunId;
use metier_core::policy::{GrantReport, Timestamp};

/// One record of the audit log. It contains no value of a secret that the run has read, and no value that a script returned.
///
/// In JSON: an object with the keys below; those without a value are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// When it happened. In JSON in UTC with milliseconds: `2026-11-24T08:30:00.125Z`.
    #[serde(serialize_with = "as_milliseconds")]
    pub time: SystemTime,
    /// What happened.
    pub kind: AuditKind,
    /// Who caused it.
    pub who: AuditWho,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The run that called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The qualified name of the skill; what the caller wrote if no skill was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The digest of its files and of those of the skills that it calls; of a skill that another one calls that of its own files. `None`
    /// for a run that was refused before they were read, and for a command without a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The tool of the skill that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The script, as a path in the skill's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The project, or the folder that is trusted.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_displayed")]
    pub project: Option<PathBuf>,
    /// The input, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The arguments of the script, without secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Why input and arguments are not here: `secrets` if the run may read secrets, so that the record of its end has them; `size`
    /// beyond 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// What was granted to the run, and by whom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<GrantReport>,
    /// The permissions that the record is about: those of the run, those asked for, the one that was missing, or those granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// What let the run start, or refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The function that a script called, the host that its process connected to, what an approver was asked about, or the
    /// id of a pending call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The digest of the change set that somebody is asked or decides about; its id is the target of a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_set: Option<String>,
    /// The secret that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<AuditSecret>,
    /// What was changed in the trust store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<AuditChange>,
    /// What recorded the change, such as a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// `ok` or the kind of the error; of an answer `no`, `once`, `session` or `always`; of a decision about a call
    /// `approved` or `denied`, about a change set `applied`, `undone` or `denied`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What the run took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<AuditResources>,
}

impl AuditRecord {
    /// A record of now that says nothing more.
    pub fn new(kind: AuditKind, who: AuditWho) -> Self {
        Self {
            time: SystemTime::now(),
            kind,
            who,
            run: None,
            parent: None,
            skill: None,
            digest: None,
            tool: None,
            script: None,
            project: None,
            input: None,
            args: Vec::new(),
            withheld: None,
            grants: Vec::new(),
            permissions: Vec::new(),
            gate: None,
            target: None,
            change_set: None,
            secret: None,
            change: None,
            by: None,
            outcome: None,
            resources: None,
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditKind {
    /// A run is about to start.
    RunStarted,
    /// A run has ended.
    RunEnded,
    /// A run was refused, and nothing of it has run.
    RunRefused,
    /// An approver is asked.
    Question,
    /// The approver has answered.
    Answer,
    /// A run was refused a call or a connection.
    AccessRefused,
    /// A run reads a secret.
    SecretRead,
    /// What is trusted changes.
    TrustChanged,
    /// What is granted for later runs changes.
    GrantsChanged,
    /// A person decides about a pending call.
    CallDecided,
    /// A person decides about a change set.
    ChangesDecided,
    /// The log was closed, and goes on in a new file.
    Rotated,
    /// The line before was torn by a crash.
    Torn,
}

impl AuditKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::RunStarted,
        Self::RunEnded,
        Self::RunRefused,
        Self::Question,
        Self::Answer,
        Self::AccessRefused,
        Self::SecretRead,
        Self::TrustChanged,
        Self::GrantsChanged,
        Self::CallDecided,
        Self::ChangesDecided,
        Self::Rotated,
        Self::Torn,
    ];

    /// The name that it has in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunStarted => "run_started",
            Self::RunEnded => "run_ended",
            Self::RunRefused => "run_refused",
            Self::Question => "question",
            Self::Answer => "answer",
            Self::AccessRefused => "access_refused",
            Self::SecretRead => "secret_read",
            Self::TrustChanged => "trust_changed",
            Self::GrantsChanged => "grants_changed",
            Self::CallDecided => "call_decided",
            Self::ChangesDecided => "changes_decided",
            Self::Rotated => "rotated",
            Self::Torn => "torn",
        }
    }
}

/// Who caused what is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditWho {
    /// Who chose it.
    pub actor: AuditActor,
    /// The client through which it came.
    #[serde(flatten)]
    pub client: AuditClient,
}

impl AuditWho {
    /// This actor, through this client.
    pub fn new(actor: AuditActor, client: AuditClient) -> Self {
        Self { actor, client }
    }
}

/// Who chose a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditActor {
    /// Whoever typed the command: a person, as far as the command can tell.
    Person,
    /// A model.
    Model,
    /// A program that embeds metier.
    Program,
    /// The log itself.
    Log,
}

/// Through which face a run was requested, and by which client. Attach it to an invocation with
/// [`Invocation::extension`](crate::engine::Invocation::extension); skills that the skill calls have it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditClient {
    /// The face.
    pub face: AuditFace,
    /// The name by which the client calls itself; nobody has checked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

impl AuditClient {
    /// A client of that face without a name.
    pub fn new(face: AuditFace) -> Self {
        Self { face, client: None }
    }

    /// The same with this name, of which 200 characters count.
    pub fn with_name(self, name: &str) -> Self {
        const MAX_CHARS: usize = 200;
        let client = (!name.is_empty()).then(|| name.chars().take(MAX_CHARS).collect());
        Self { client, ..self }
    }
}

/// A way into metier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditFace {
    /// The command line.
    Cli,
    /// The server of the Model Context Protocol.
    Mcp,
    /// A program that embeds metier.
    Library,
}

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditSecret {
    /// Its name.
    pub name: String,
    /// Where it comes from: `provider` for one of the program, `declared variable`, or the variable, file or program that the
    /// configuration names.
    pub source: String,
}

impl AuditSecret {
    /// The secret of this name, from there.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), source: source.into() }
    }
}

/// A change of the trust store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditChange {
    /// Something is trusted, or granted, from now on.
    Added,
    /// Something is no more.
    Revoked,
}

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditResources {
    /// How long it took.
    #[serde(rename = "duration_ms", serialize_with = "in_milliseconds")]
    pub duration: Duration,
    /// The processor time of its process.
    #[serde(
        rename = "cpu_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "in_some_milliseconds"
    )]
    pub cpu: Option<Duration>,
    /// The largest memory of its process, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl AuditResources {
    /// So much time.
    pub fn new(duration: Duration, cpu: Option<Duration>, memory_bytes: Option<u64>) -> Self {
        Self { duration, cpu, memory_bytes }
    }
}

/// A time as in the log.
pub(super) fn time_text(time: SystemTime) -> String {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = Timestamp::from_seconds(elapsed.as_secs()).to_string();
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), elapsed.subsec_millis())
}

fn as_milliseconds<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time_text(*time))
}

fn in_milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[allow(clippy::ref_option, reason = "serde passes the field so")]
fn in_some_milliseconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    in_milliseconds(&duration.unwrap_or_default(), serializer)
}

/// A path as people see it: JSON has no bytes that are not Unicode.
#[allow(clippy::ref_option, reason = "serde passes the field so")]
fn as_displayed<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_short_json_with_milliseconds() {
        let who = AuditWho::new(AuditActor::Model, AuditClient::new(AuditFace::Mcp).with_name("editor"));
        let mut record = AuditRecord::new(AuditKind::RunEnded, who);
        record.time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_508_999_007);
        record.outcome = Some("ok".into());
        record.resources = Some(AuditResources::new(Duration::from_millis(12), None, Some(4096)));
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"time":"2026-11-24T08:29:59.007Z","kind":"run_ended","who":{"actor":"model","face":"mcp","client":"editor"},"outcome":"ok","resources":{"duration_ms":12,"memory_bytes":4096}}"#
        );
    }

    #[test]
    fn a_kind_has_the_name_that_it_has_in_json() {
        for kind in AuditKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
