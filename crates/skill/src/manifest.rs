//! The frontmatter of a skill as typed fields, and where the file lies.

use std::path::Path;

use metier_core::policy::Permission;
use serde_json::{Map, Value as Json};

use super::yaml::{Entry, Value};
use crate::diagnostic_sink::DiagnosticSink;
use crate::metadata::{self, MachineRequirements};
use crate::unknown_keys::{self, UnknownKey};
use crate::{frontmatter_fields, lint, name, version};

/// The frontmatter of a skill that loads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manifest {
    /// The name in Unicode NFKC; the directory's name if the frontmatter has none.
    pub name: String,
    /// What the skill does and when to use it; trimmed, never empty.
    pub description: String,
    /// The licence's name or file.
    pub license: Option<String>,
    /// What the skill requires of its environment, as free text.
    pub compatibility: Option<String>,
    /// Data of clients. Each scalar is a string with its source text, inside lists and maps as well.
    pub metadata: Map<String, Json>,
    /// The tools that the skill requests, one entry each, as written.
    pub allowed_tools: Vec<String>,
    /// `runtime`, at top level or under `metadata`, as written.
    pub runtime: Option<String>,
    /// Whether that is the one under `metadata`, which may mean something else to another client.
    pub(crate) is_runtime_in_metadata: bool,
    /// `metadata.version`; 0.0.0 when absent or not a semantic version.
    pub version: semver::Version,
    /// Top-level keys outside the specification, in the file's order.
    pub unknown: Vec<UnknownKey>,
    /// Where the body starts, in bytes of the file.
    pub body_offset: usize,
    /// `metadata.max_operations` and `metadata.max_memory_mb`.
    pub(crate) limits: ManifestLimits,
    /// The lines of the values that a contract may also name.
    pub(crate) lines: ManifestLines,
}

/// The limits that a frontmatter names. They can only lower those of the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestLimits {
    /// Operations, in languages that count them.
    pub operations: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

/// The lines of some values of a file, from 1; `None` for a value that is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManifestLines {
    pub(crate) name: Option<u32>,
    pub(crate) version: Option<u32>,
    /// That of `runtime`.
    pub runtime: Option<u32>,
    /// That of `metadata.entrypoint`.
    pub entrypoint: Option<u32>,
    /// That of `metadata.worker`.
    pub worker: Option<u32>,
    pub(crate) allowed_tools: Option<u32>,
}

impl Manifest {
    /// `metadata.entrypoint`: the script that runs when the caller names none.
    pub fn entrypoint(&self) -> Option<&str> {
        self.metadata.get("entrypoint").and_then(Json::as_str).map(str::trim).filter(|path| !path.is_empty())
    }
}

/// The manifest of a skill that says nothing.
pub fn empty_manifest(name: &str) -> Manifest {
    Manifest {
        name: name.to_owned(),
        description: String::new(),
        license: None,
        compatibility: None,
        metadata: Map::new(),
        allowed_tools: Vec::new(),
        runtime: None,
        is_runtime_in_metadata: false,
        version: semver::Version::new(0, 0, 0),
        limits: ManifestLimits::default(),
        unknown: Vec::new(),
        body_offset: 0,
        lines: ManifestLines::default(),
    }
}

/// What a `metadata.entrypoint` can be: it is also a key of other clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntrypointForm {
    /// The path of a script.
    Path,
    /// The path of a text, which nothing runs.
    Text,
    /// A word, a command or an address, unless a file of the skill has this name.
    Word,
}

/// What metier reads of a manifest besides what its author wrote for all clients.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait ManifestFacts {
    /// Whether its runtime is the one under `metadata`, which may mean something else to another client.
    fn is_runtime_in_metadata(&self) -> bool;

    /// The runtime of its script. One under `metadata` that is not known is a word of another client, and declares nothing.
    fn declared_runtime(&self, is_known: impl Fn(&str) -> bool) -> Option<&str>;

    /// `metadata.max_operations` and `metadata.max_memory_mb`.
    fn limits(&self) -> ManifestLimits;

    /// The lines of the values that a contract may also name.
    fn lines(&self) -> &ManifestLines;

    /// What `metadata.entrypoint` can be, by its form; `None` if there is none.
    fn entrypoint_form(&self) -> Option<EntrypointForm>;

    /// The environment variables that `metadata` asks for, each the permission `env:NAME`.
    fn requested_variables(&self) -> Vec<Permission>;

    /// What `metadata` requires of the machine.
    fn machine_requirements(&self) -> MachineRequirements;
}

#[doc(hidden)]
impl ManifestFacts for Manifest {
    fn is_runtime_in_metadata(&self) -> bool {
        self.is_runtime_in_metadata
    }

    fn declared_runtime(&self, is_known: impl Fn(&str) -> bool) -> Option<&str> {
        self.runtime.as_deref().filter(|name| !self.is_runtime_in_metadata || is_known(name))
    }

    fn limits(&self) -> ManifestLimits {
        self.limits
    }

    fn lines(&self) -> &ManifestLines {
        &self.lines
    }

    fn entrypoint_form(&self) -> Option<EntrypointForm> {
        let path = self.entrypoint()?;
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_text = ["md", "html", "txt"].iter().any(|text| ending.eq_ignore_ascii_case(text));
        let is_plain = ending.starts_with(|first: char| first.is_ascii_alphabetic())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_command = path.starts_with('/') || path.contains([' ', ':']);
        Some(match path.contains('/') || is_plain {
            _ if is_text => EntrypointForm::Text,
            true if !is_command => EntrypointForm::Path,
            _ => EntrypointForm::Word,
        })
    }

    fn requested_variables(&self) -> Vec<Permission> {
        metadata::variables(&self.metadata)
    }

    fn machine_requirements(&self) -> MachineRequirements {
        metadata::machine_requirements(&self.metadata)
    }
}

/// The manifest; `None` without a description, since no model could choose the skill then.
pub(super) fn read(
    entries: &[Entry],
    directory: &str,
    body_offset: usize,
    report: &mut DiagnosticSink<'_>,
) -> Option<Manifest> {
    let field = |key: &str| find(entries, key);
    let name = name::read(field("name"), directory, report);
    let is_map = |entry: &Entry| matches!(entry.node.value, Value::Map(_));
    let is_sweny = || unknown_keys::SWENY_KEYS.iter().any(|key| field(key).is_some_and(is_map));
    let description = match field("description") {
        None if is_sweny() => {
            let assumed = format!("Custom skill: {name}");
            let message = format!("there is no description, so it is `{assumed}`");
            report
                .add_missing(&lint::DESCRIPTION_ASSUMED, message)
                .help("say in a sentence what the skill does and when to use it");
            Some(assumed)
        }
        entry => frontmatter_fields::description(entry, report),
    };
    let license = frontmatter_fields::license(field("license"), report);
    let compatibility = frontmatter_fields::compatibility(field("compatibility"), report);
    let nested = metadata::entries(field("metadata"), report);
    let metadata = metadata::read(nested, report);
    let operations = metadata::limit(find(nested, "max_operations"), report);
    let mebibytes = metadata::limit(find(nested, "max_memory_mb"), report);
    let allowed_tools = frontmatter_fields::allowed_tools(field("allowed-tools"), report);
    let runtime = frontmatter_fields::runtime(field("runtime"), find(nested, "runtime"), report);
    let version = version::read(find(nested, "version"), report);
    let unknown = unknown_keys::read(entries, report);
    let line = |entry: Option<&Entry>| entry.map(|entry| report.line(entry.node.span.start));
    let lines = ManifestLines {
        name: line(field("name")),
        version: line(find(nested, "version")),
        runtime: line(field("runtime").or_else(|| find(nested, "runtime"))),
        entrypoint: line(find(nested, "entrypoint")),
        worker: line(find(nested, "worker")),
        allowed_tools: line(field("allowed-tools")),
    };
    Some(Manifest {
        name,
        description: description?,
        license,
        compatibility,
        metadata,
        allowed_tools,
        runtime,
        is_runtime_in_metadata: field("runtime").is_none(),
        version,
        unknown,
        body_offset,
        limits: ManifestLimits {
            operations: operations.ok()?,
            memory: mebibytes.ok()?.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        },
        lines,
    })
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key)
}

/// The folder and the file name of a `SKILL.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillLocation<'a> {
    /// The name of the skill's folder. A caller that has only `.` resolves it first.
    pub directory: &'a str,
    /// The name of the file, usually `SKILL.md`.
    pub file_name: &'a str,
}
