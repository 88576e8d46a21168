//! What a run reports beside its value: the process it started and the isolation that held.

use serde::Serialize;

/// How a process ended and what it said; part of the outcome of external scripts, failed ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// The exit code, `null` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error as text.
    pub stderr: String,
    /// Whether standard output was cut at the cap.
    pub stdout_truncated: bool,
    /// Whether standard error was cut at the cap.
    pub stderr_truncated: bool,
}

/// Which isolation held during a run: what was enforced, not what was wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// `in-process` for the embedded languages, `none` for a process that runs with the user's own rights.
    pub tier: &'static str,
    /// Files outside the project were out of reach.
    pub files: bool,
    /// The network was out of reach.
    pub network: bool,
    /// No descendant outlived the run.
    pub tree_kill: bool,
}

impl SandboxReport {
    /// The embedded languages: they reach nothing but the host API.
    pub const IN_PROCESS: Self = Self { tier: "in-process", files: true, network: true, tree_kill: true };
    /// A plain process: nothing is enforced.
    pub const NONE: Self = Self { tier: "none", files: false, network: false, tree_kill: false };

    /// What still holds where both do.
    pub(super) fn weaker(self, other: Self) -> Self {
        let strength = |report: &Self| {
            [report.files, report.network, report.tree_kill].iter().filter(|holds| **holds).count()
        };
        Self {
            tier: if strength(&other) < strength(&self) { other.tier } else { self.tier },
            files: self.files && other.files,
            network: self.network && other.network,
            tree_kill: self.tree_kill && other.tree_kill,
        }
    }
}
