//! The table of keys: everything else about them is read from it.

use super::value::KeyType;
use metier_core::policy::{ExecutionMode, OutputPolicy, SandboxLevel, SandboxMode};
use metier_core::sanitizer::SanitizeProfile;

/// A key of the configuration, such as `limits.timeout`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Key {
    /// Its name. In those that begin with `skills.`, `NAME` is the name of a skill, and `ENTRY` a word of the user.
    pub name: &'static str,
    /// What its values are.
    pub value_type: KeyType,
    /// What it does, as one sentence without a full stop.
    pub doc: &'static str,
    /// What counts if nobody sets it, as a value or in words.
    pub default: &'static str,
    /// How the file of a project may set it.
    pub project: ProjectRule,
}

/// How the file of a project may set a key: never so that a run may do more than without the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProjectRule {
    /// To at most the value that counts without it.
    Lower,
    /// To a value that is at least as strict as the one that counts without it. The words of the type are in this order, strictest
    /// first.
    Strengthen,
    /// Only to this value.
    Only(bool),
    /// Its entries are added to those of the user.
    Add,
    /// Not at all.
    Never,
}

impl ProjectRule {
    /// The rule in words, as in the documentation.
    pub fn description(self) -> &'static str {
        match self {
            Self::Lower => "lower it",
            Self::Strengthen => "make it stricter",
            Self::Only(true) => "set it to `true`",
            Self::Only(false) => "set it to `false`",
            Self::Add => "add to it",
            Self::Never => "no",
        }
    }
}

const fn key(name: &'static str, value_type: KeyType, project: ProjectRule, doc: &'static str) -> Key {
    Key { name, value_type, doc, default: "", project }
}

impl Key {
    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// The environment variable that sets it: `METIER_LIMITS_TIMEOUT`. Keys of single skills have none.
    pub fn variable(&self) -> Option<String> {
        let is_plain = !self.name.starts_with("skills.");
        is_plain.then(|| format!("METIER_{}", self.name.replace('.', "_").to_uppercase()))
    }

    /// The key for all skills of which this is the one for a single skill.
    pub(super) fn general(&self) -> Option<&'static Key> {
        let name = self.name.strip_prefix("skills.NAME.")?;
        KEYS.iter().find(|key| key.name == name)
    }
}

/// The words of these types, strictest first.
const SANDBOX_MODES: &[&str] =
    &[SandboxMode::Required.name(), SandboxMode::BestEffort.name(), SandboxMode::Off.name()];
const SANDBOX_LEVELS: &[&str] =
    &[SandboxLevel::Namespaces.name(), SandboxLevel::Landlock.name(), SandboxLevel::LandlockUnscoped.name()];
const EXECUTION_MODES: &[&str] = &[ExecutionMode::Worker.name(), ExecutionMode::InProcess.name()];
const OUTPUT_POLICIES: &[&str] = &[OutputPolicy::Kill.name(), OutputPolicy::Truncate.name()];

const SANITIZE_PROFILES: &[&str] = &[SanitizeProfile::Curia.name()];

/// All keys.
pub const KEYS: &[Key] = {
    use KeyType::{
        Count, Denials, Duration, Flag, Folders, Json, Names, Permissions, Product, Score, Secret, Size,
        Text, Word,
    };
    use ProjectRule::{Add, Lower, Never, Only, Strengthen};
    &[
        key("product", Product, Never, "The product whose skills are read: `.NAME/skills` in the project")
            .default("metier"),
        key(
            "roots",
            Folders,
            Never,
            "Further folders of skills, which are searched first: absolute, or beginning with `~/`",
        )
        .default("[]"),
        key(
            "compat",
            Flag,
            Never,
            "Whether `.sweny/skills`, `.claude/skills` and `.gemini/skills` are read too",
        )
        .default("false"),
        key("no_input", Flag, Only(true), "Whether nothing is asked, also on a terminal").default("false"),
        key("json", Flag, Never, "Whether answers are printed as JSON").default("false"),
        key(
            "autonomy",
            Score,
            Lower,
            "How far models act on their own: a run that a model chose takes the score of its risk",
        )
        .default("no limit"),
        key("limits.timeout", Duration, Lower, "Time after which a run is stopped").default("30s"),
        key("limits.memory", Size, Lower, "Memory that a run may use")
            .default("64MB in process, 2GB per process"),
        key("limits.cpu", Duration, Lower, "Processor time that each process may use, in whole seconds")
            .default("no limit"),
        key("limits.output", Size, Lower, "Maximum size of the value, of the log and of each output stream")
            .default("8MB"),
        key(
            "limits.on_output",
            Word(OUTPUT_POLICIES),
            Strengthen,
            "What happens to a process that writes more than `limits.output`",
        )
        .default("kill"),
        key("limits.file_size", Size, Lower, "Maximum size of each file that a script writes")
            .default("256MB"),
        key("limits.state_size", Size, Lower, "Maximum size of what a skill keeps in a project")
            .default("256MB"),
        key("limits.open_files", Count, Lower, "Number of files that a process may have open").default("512"),
        key(
            "limits.operations",
            Count,
            Lower,
            "Number of operations that a run may execute, in languages that count them",
        )
        .default("10m in Rhai"),
        key(
            "sandbox.mode",
            Word(SANDBOX_MODES),
            Strengthen,
            "How strictly the sandbox of processes is required",
        )
        .default("required"),
        key(
            "sandbox.level",
            Word(SANDBOX_LEVELS),
            Strengthen,
            "The strongest sandbox level to set up for processes",
        )
        .default("namespaces"),
        key("execution", Word(EXECUTION_MODES), Strengthen, "Where Lua, Rhai and WebAssembly run")
            .default("in-process"),
        key("runtimes.disabled", Names, Add, "Runtimes that are switched off, such as `external`")
            .default("[]"),
        key("permissions.deny", Denials, Add, "Permissions that no run has, whoever grants them")
            .default("[]"),
        key("trust.remembered", Flag, Only(false), "Whether remembered grants apply").default("true"),
        key(
            "trust.locked",
            Flag,
            Only(true),
            "Whether skills of the project run only as the lock file has them",
        )
        .default("false"),
        key(
            "audit.enabled",
            Flag,
            Only(true),
            "Whether runs, questions and grants are recorded in the audit log",
        )
        .default("false"),
        key(
            "audit.required",
            Flag,
            Only(true),
            "Whether nothing runs that cannot be recorded; this also switches the audit log on",
        )
        .default("false"),
        key("undo", Flag, Only(true), "Whether the changes of skills that write can be undone")
            .default("false"),
        key(
            "sanitize",
            Word(SANITIZE_PROFILES),
            Never,
            "What is changed in all that a model reads, besides secrets and invisible characters",
        )
        .default("nothing"),
        key(
            "max_runs",
            Count,
            Lower,
            "Maximum number of runs in progress at a time in a program that embeds metier",
        )
        .default("no limit"),
        key("skills.NAME.enabled", Flag, Only(false), "Whether the skill may run").default("true"),
        key("skills.NAME.limits.timeout", Duration, Lower, "Lowers `limits.timeout` for the skill"),
        key("skills.NAME.limits.memory", Size, Lower, "Lowers `limits.memory` for the skill"),
        key("skills.NAME.limits.cpu", Duration, Lower, "Lowers `limits.cpu` for the skill"),
        key("skills.NAME.limits.output", Size, Lower, "Lowers `limits.output` for the skill"),
        key("skills.NAME.limits.file_size", Size, Lower, "Lowers `limits.file_size` for the skill"),
        key("skills.NAME.limits.state_size", Size, Lower, "Lowers `limits.state_size` for the skill"),
        key("skills.NAME.limits.open_files", Count, Lower, "Lowers `limits.open_files` for the skill"),
        key("skills.NAME.limits.operations", Count, Lower, "Lowers `limits.operations` for the skill"),
        key(
            "skills.NAME.sandbox.mode",
            Word(SANDBOX_MODES),
            Strengthen,
            "How strictly the sandbox of the skill's process is required",
        ),
        key(
            "skills.NAME.deny",
            Denials,
            Add,
            "Permissions that no run of the skill has, whoever grants them",
        )
        .default("[]"),
        key(
            "skills.NAME.grants",
            Permissions,
            Never,
            "Permissions that are granted to the skill if it is trusted",
        )
        .default("[]"),
        key("skills.NAME.script", Text, Never, "The script to run if the skill has several"),
        key(
            "skills.NAME.config.ENTRY",
            Json,
            Never,
            "A value that the skill reads with `ctx.config` if it is trusted",
        ),
        key(
            "skills.NAME.secrets.ENTRY",
            Secret,
            Never,
            "Where a secret of the skill comes from if it is trusted: `{env = \"NAME\"}`, `{file = \"PATH\"}` or `{command = [\"PROGRAM\", \"ARGUMENT\"]}`; with `host = \"HOST\"` it is put into requests to that host and never read",
        ),
    ]
};
