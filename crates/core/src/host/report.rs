//! What a run reports besides its value: the process it started and the sandbox that was in force.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::duration::as_optional_milliseconds;
use super::leftovers::Leftover;
use super::refused_access::RefusedAccess;
use crate::error::ErrorOutput;
use crate::excerpt::{head_and_tail, tail};
use crate::unicode::strip_escape_sequences;

/// How a process ended and what it printed; part of the outcome of external scripts, failed ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessReport {
    /// The exit code, `null` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output as text, up to the cap; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error as text, up to the cap.
    pub stderr: String,
    /// Whether standard output was cut at the cap.
    pub stdout_truncated: bool,
    /// Whether standard error was cut at the cap.
    pub stderr_truncated: bool,
    /// Its resource usage.
    pub usage: ProcessUsage,
    /// What it did in its network; `null` if that was the machine's, if no host was granted and none tried, and without namespaces.
    pub network: Option<NetworkReport>,
    /// The files that it left in its home, unless the skill keeps that, and in `/tmp`: at most 64, without caches of tools. They were thrown
    /// away. Left out in JSON if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Leftover>,
}

/// What the error of a failed run has of the report of its process.
pub fn error_output(report: &ProcessReport) -> ErrorOutput {
    let max = ErrorOutput::MAX_BYTES;
    let stdout = head_and_tail(&strip_escape_sequences(&report.stdout), max).0;
    let stderr = tail(&strip_escape_sequences(&report.stderr), max).0;
    ErrorOutput::new((report.exit_code, report.signal), stdout, stderr)
}

/// What was reported of a run. Most runs have nothing of it, and a context has to be small.
#[derive(Default)]
#[allow(clippy::box_collection, reason = "a list that is absent takes the place of one pointer")]
pub(super) struct RunReports {
    pub(super) process: Option<Box<ProcessReport>>,
    pub(super) sandbox: Option<SandboxReport>,
    pub(super) refused: Option<Box<Vec<RefusedAccess>>>,
}

/// The network of a process that does not have that of the machine: what went through the host program, and what it refused. Without
/// granted hosts all that is tried is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NetworkReport {
    /// The hosts, as they were granted.
    pub hosts: Vec<String>,
    /// Connections that were accepted for them.
    pub connections: u64,
    /// Bytes that the process sent to them.
    pub sent_bytes: u64,
    /// Bytes that it received from them.
    pub received_bytes: u64,
    /// What was refused or failed, each once, at most 64.
    pub refused: Vec<RefusedConnection>,
    /// How often something was refused or failed.
    pub refused_count: u64,
    /// Placeholders of secrets that were sent to hosts which the secrets are not for, as far as that was not encrypted: each once, at
    /// most 64. They stayed placeholders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misplaced: Vec<MisplacedSecret>,
    /// Hosts of secrets to which the process made TLS connections that the host program opened, to put the secrets in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<String>,
    /// Hosts of secrets to which the process made TLS connections by itself. They were passed on unopened, with placeholders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unopened: Vec<String>,
}

/// A placeholder that was sent to a host which its secret is not for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MisplacedSecret {
    /// The name of the secret.
    pub secret: String,
    /// The host.
    pub host: String,
}

/// A secret that a script sent to a host that must not have it.
pub fn misplaced_secret(secret: &str, host: &str) -> MisplacedSecret {
    MisplacedSecret { secret: secret.to_owned(), host: host.to_owned() }
}

/// A name that was not resolved, or a connection that was not made or was ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedConnection {
    /// The name, or the address if none is known.
    pub host: String,
    /// The port; `null` if the name was only looked up.
    pub port: Option<u16>,
    /// Why, as a part of a sentence.
    pub reason: String,
    /// The permission that would allow it; `null` if none would.
    pub permission: Option<String>,
    /// How often it was tried.
    pub count: u64,
}

/// A connection that was refused once, for this reason; with this permission it would not have been.
pub fn refused_connection(
    host: &str,
    port: Option<u16>,
    reason: String,
    permission: Option<String>,
) -> RefusedConnection {
    RefusedConnection { host: host.to_owned(), port, reason, permission, count: 1 }
}

/// As `api.example.com:443`.
impl fmt::Display for RefusedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Resource usage of a process and all processes it started; `null` where it is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// Processor time of the whole tree; measured in a sandbox. In JSON `cpu_ms`, in milliseconds.
    #[serde(rename = "cpu_ms", serialize_with = "as_optional_milliseconds")]
    pub cpu: Option<Duration>,
    /// Resident bytes of its largest process; measured in a sandbox.
    pub memory_bytes: Option<u64>,
    /// Highest observed sum of the memory of all of its processes, in bytes; shared memory may be counted several times. `null`
    /// outside of a sandbox.
    pub tree_memory_bytes: Option<u64>,
    /// Bytes it wrote to standard output until it ended or was stopped, including those beyond the cap.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error, counted in the same way.
    pub stderr_bytes: u64,
    /// Processes that were still running when the script ended and were killed; counted in a sandbox.
    pub left_behind: Option<u32>,
}

/// Which kind of sandbox was in force during a run. In JSON its name: `none`, `landlock`, `namespaces`, `in-process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EnforcedLevel {
    /// A process with the user's own rights.
    None,
    /// A process under Landlock and seccomp, on a machine without namespaces.
    Landlock,
    /// A process in namespaces of its own, under Landlock and seccomp.
    Namespaces,
    /// An embedded language, which reaches only the host API.
    InProcess,
}

impl EnforcedLevel {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
            Self::InProcess => "in-process",
        }
    }
}

impl fmt::Display for EnforcedLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The sandbox in force during a run: the restrictions that were enforced, not those that were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each restriction is enforced or not, whatever the others are"
)]
#[non_exhaustive]
pub struct SandboxReport {
    /// The kind of sandbox.
    pub level: EnforcedLevel,
    /// Files outside the project were not accessible.
    pub files: bool,
    /// The network was not accessible.
    pub network: bool,
    /// Local services on Unix sockets in the file system were not accessible.
    pub unix_sockets: bool,
    /// Other processes could not be signalled.
    pub signals: bool,
    /// No descendant outlived the run.
    pub tree_kill: bool,
    /// The project's secrets, version control and skills, as they were when the run began, were protected as well: none could be
    /// changed, and no secret read, except by a grant that names it. `false` if the project has too much to scan, or a second name or
    /// location for some of it, or if somebody replaced some of it during the run. Downloaded packages (`node_modules`, Python's
    /// environments) are scanned only at their top, skills of other products are treated like any other file, and a script that may write
    /// can create what did not exist; a repository or a folder of skills that it creates at the top is moved to quarantine.
    pub protected_paths: bool,
    /// Modes, times and attributes of the user's files outside were not accessible as well. That a file exists is never hidden.
    pub metadata_outside: bool,
    /// The number of processes was limited.
    pub process_count: bool,
}

/// That of a plain process.
impl Default for SandboxReport {
    fn default() -> Self {
        Self::NONE
    }
}

impl SandboxReport {
    /// The embedded languages: they reach only the host API.
    pub const IN_PROCESS: Self = Self::all(EnforcedLevel::InProcess, true);
    /// A plain process: no restriction is enforced.
    pub const NONE: Self = Self::all(EnforcedLevel::None, false);

    const fn all(level: EnforcedLevel, holds: bool) -> Self {
        Self {
            level,
            files: holds,
            network: holds,
            unix_sockets: holds,
            signals: holds,
            tree_kill: holds,
            protected_paths: holds,
            metadata_outside: holds,
            process_count: holds,
        }
    }

    fn restriction_count(&self) -> usize {
        let restrictions = [
            self.files,
            self.network,
            self.unix_sockets,
            self.signals,
            self.tree_kill,
            self.protected_paths,
            self.metadata_outside,
            self.process_count,
        ];
        restrictions.into_iter().filter(|is_enforced| *is_enforced).count()
    }
}

/// The restrictions that both reports have, with the level of the one that has fewer.
pub fn weaker_report(one: SandboxReport, other: SandboxReport) -> SandboxReport {
    let both = SandboxReport {
        level: one.level,
        files: one.files && other.files,
        network: one.network && other.network,
        unix_sockets: one.unix_sockets && other.unix_sockets,
        signals: one.signals && other.signals,
        tree_kill: one.tree_kill && other.tree_kill,
        protected_paths: one.protected_paths && other.protected_paths,
        metadata_outside: one.metadata_outside && other.metadata_outside,
        process_count: one.process_count && other.process_count,
    };
    // If an embedded language and a sandboxed process are combined, the process is reported.
    let is_other = one == SandboxReport::IN_PROCESS || other.restriction_count() < one.restriction_count();
    SandboxReport { level: if is_other { other.level } else { one.level }, ..both }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_in_json_is_in_milliseconds() {
        let usage = ProcessUsage {
            cpu: Some(Duration::from_micros(1_999)),
            left_behind: Some(2),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&usage).unwrap(),
            r#"{"cpu_ms":1,"memory_bytes":null,"tree_memory_bytes":null,"stdout_bytes":0,"stderr_bytes":0,"left_behind":2}"#
        );
        assert_eq!(serde_json::json!(ProcessUsage::default())["cpu_ms"], serde_json::Value::Null);
    }
}
