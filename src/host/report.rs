//! What a run reports beside its value: the process it started and the isolation that held.

use serde::Serialize;

/// How a process ended and what it said; part of the outcome of external scripts, failed ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// What it used.
    pub usage: ProcessUsage,
}

/// What a process and whatever it started used; `null` where nobody counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessUsage {
    /// Milliseconds of processor time of the whole tree; counted in a sandbox.
    pub cpu_ms: Option<u64>,
    /// Bytes resident in its largest process; counted in a sandbox.
    pub memory_bytes: Option<u64>,
    /// Bytes that all of its processes held together, the most that was seen: those who share some may count it several times.
    /// `null` outside of a sandbox.
    pub tree_memory_bytes: Option<u64>,
    /// Bytes it wrote to standard output, those beyond the cap included, until it ended or was stopped.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error, counted in the same way.
    pub stderr_bytes: u64,
    /// Processes that were left when the script ended, and were ended for it; counted in a sandbox.
    pub left_behind: Option<u32>,
}

/// Which isolation held during a run: what was enforced, not what was wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each wall stands or does not, whatever the others do")]
pub struct SandboxReport {
    /// `in-process` for the embedded languages; for a process in a sandbox `namespaces`, or `landlock` where the machine gives none;
    /// `none` for one that runs with the user's own rights.
    pub level: &'static str,
    /// Files outside the project were out of reach.
    pub files: bool,
    /// The network was out of reach.
    pub network: bool,
    /// Local services, which listen on sockets that are files, were out of reach.
    pub unix_sockets: bool,
    /// Other processes could not be signalled.
    pub signals: bool,
    /// No descendant outlived the run.
    pub tree_kill: bool,
    /// What the project had of secrets, version control and skills when the run began was out of reach as well: none of it could
    /// be changed, and no secret read, but by a grant that names it. `false` where a project has too much to look at, or a
    /// second name or place for some of it. What is downloaded (`node_modules`, Python's environments) is looked into no deeper
    /// than its top, the skills of other products are files like any other, and a script that may write can make what was not
    /// there; a history or a folder of skills it makes at the top is moved aside.
    pub protected_paths: bool,
    /// Modes, times and attributes of the user's files outside were out of reach as well. That a file is there never is.
    pub metadata_outside: bool,
    /// The number of processes was limited.
    pub process_count: bool,
}

impl SandboxReport {
    /// The embedded languages: they reach nothing but the host API.
    pub const IN_PROCESS: Self = Self::all("in-process", true);
    /// A plain process: nothing is enforced.
    pub const NONE: Self = Self::all("none", false);

    const fn all(tier: &'static str, holds: bool) -> Self {
        Self {
            level: tier,
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

    /// What still holds where both do.
    pub(crate) fn weaker(self, other: Self) -> Self {
        let strength = |report: &Self| report.restrictions().iter().filter(|holds| **holds).count();
        let [
            files,
            network,
            unix_sockets,
            signals,
            tree_kill,
            protected_paths,
            metadata_outside,
            process_count,
        ] = std::array::from_fn(|wall| self.restrictions()[wall] && other.restrictions()[wall]);
        // Of a language inside and a process that is held as well, the process is what there is to tell.
        let is_other = self == Self::IN_PROCESS || strength(&other) < strength(&self);
        let tier = if is_other { other.level } else { self.level };
        Self {
            level: tier,
            files,
            network,
            unix_sockets,
            signals,
            tree_kill,
            protected_paths,
            metadata_outside,
            process_count,
        }
    }

    fn restrictions(&self) -> [bool; 8] {
        [
            self.files,
            self.network,
            self.unix_sockets,
            self.signals,
            self.tree_kill,
            self.protected_paths,
            self.metadata_outside,
            self.process_count,
        ]
    }
}
