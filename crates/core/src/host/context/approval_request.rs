//! What an approver is asked.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::host::outcome::ChangesReport;
use crate::host::run_id::RunId;
use crate::policy::{CalledTool, Permission, SandboxMode};

/// A question to an approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The run that waits.
    pub run: RunId,
    /// Its skill.
    pub skill: String,
    /// The skill's qualified name, which distinguishes it from others of the same name.
    pub qualified_name: Option<String>,
    /// The digest of all files of the skill and of the skills that it calls, as text; `None` if it has none.
    pub digest: Option<String>,
    /// The skills that called one another to get here, the invoked one first.
    pub callers: Vec<String>,
    /// The project that the run works on.
    pub project: Option<PathBuf>,
    /// The input that the skill was called with, without the secrets that were read by now: with
    /// `Invocation::ask_first` none was.
    pub input: Option<Value>,
    /// The arguments of its script, without the same secrets.
    pub args: Vec<String>,
    /// The tool of the skill that is called, with its risk; `None` for a run of the skill itself.
    pub tool: Option<CalledTool>,
    /// The script that would run, by its path in the skill's folder, with `#` and the function where one is named.
    pub script: String,
    /// The text that its standard input would be, without the same secrets; `None` for one without standard input, and for a stream.
    pub stdin: Option<String>,
    /// Whether its standard input is a stream, which nobody has read yet.
    pub has_stream: bool,
    /// The names of the variables that the caller sets.
    pub variables: Vec<String>,
    /// How strictly the sandbox of its process is required.
    pub sandbox_mode: SandboxMode,
    /// The permissions that it has already.
    pub grants: Vec<Permission>,
    /// The files of the skill in which it requests what it asks for, such as `SKILL.md`, `skill.yaml` or `sequence.json`; empty if
    /// its external script may use any grant.
    pub requested_in: Vec<String>,
    /// What it asks for.
    pub need: ApprovalNeed,
}

/// What a run asks an approver for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalNeed {
    /// To start, with everything that the skill requests and nobody granted. After a no, nothing has run.
    Start {
        /// The permissions.
        permissions: Vec<Permission>,
    },
    /// To call a tool of the skill, or to run the skill, where a person must agree to each call, and that with the permissions that it
    /// requests and nobody granted. A yes is for this call only, and nothing of it is remembered. After a no, the call has not begun.
    Call {
        /// The permissions; empty where the caller asks for them when they are needed, or where none is missing.
        permissions: Vec<Permission>,
        /// Why a person must agree.
        reason: ConsentReason,
    },
    /// A permission that the skill requests and nobody granted.
    Permission {
        /// The permission.
        #[serde(serialize_with = "as_text")]
        permission: Permission,
        /// What the call would reach: a path relative to the project, a host or a name. `None` before a process starts, and for
        /// a call that reaches nothing of its own.
        target: Option<String>,
    },
    /// To do a step of a plan again that an earlier run started and did not finish.
    RepeatedStep {
        /// The step's id.
        step: String,
        /// The item of its loop, counted from 0.
        item: Option<usize>,
        /// What it calls, such as `tool search`.
        call: String,
    },
    /// To apply what the steps of a plan up to a review have changed in a copy of the project. A yes is for exactly these changes. After a no, the
    /// project is as it was, and no later step runs.
    Review {
        /// The step's id.
        step: String,
        /// What the plan wants the person to know; empty if it says nothing. Whoever wrote the plan has written it.
        text: String,
        /// The changes.
        changes: Box<ChangesReport>,
    },
}

/// Why a person must agree to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConsentReason {
    /// The contract says so of the tool, or the tool has the risk critical.
    Tool,
    /// A model chose the run, and the skill has the sensitivity elevated.
    ElevatedSkill,
    /// A model chose the run, and the skill has the risk critical.
    CriticalSkill,
}

impl ApprovalNeed {
    /// The permissions that it asks for; `None` for a step that is done again and for a review, which are not about permissions.
    pub fn permissions(&self) -> Option<&[Permission]> {
        match self {
            Self::Start { permissions } | Self::Call { permissions, .. } => Some(permissions),
            Self::Permission { permission, .. } => Some(std::slice::from_ref(permission)),
            Self::RepeatedStep { .. } | Self::Review { .. } => None,
        }
    }
}

fn as_text<S: serde::Serializer>(value: &impl ToString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}
