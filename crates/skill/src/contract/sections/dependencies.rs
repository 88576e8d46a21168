//! `dependencies`: the programs, skills and infrastructure that a skill needs.

use semver::VersionReq;
use serde::Serialize;

use crate::contract::{fields, serialize};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::version::parse_version_range;
use crate::yaml::{Node, Value};
use metier_core::policy::Permission;

/// The maximum number of entries of one list.
const MAX_ENTRIES: usize = 100;
const KEYS: [&str; 3] = ["tools", "skills", "infrastructure"];
const TOOL_KEYS: [&str; 5] = ["name", "version", "required", "reason", "version_command"];
const SKILL_KEYS: [&str; 4] = ["name", "version", "required", "reason"];
const INFRASTRUCTURE_KEYS: [&str; 5] = ["name", "kind", "target", "required", "reason"];
/// The maximum number of words after the program in a `version_command`.
const MAX_ARGUMENTS: usize = 3;

/// The dependencies of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dependencies {
    /// Programs on `PATH`.
    pub tools: Vec<Dependency>,
    /// Other skills.
    pub skills: Vec<Dependency>,
    /// Services, variables and files that are not part of any skill.
    pub infrastructure: Vec<Infrastructure>,
}

/// A program or a skill that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// The accepted versions; `None` for any.
    #[serde(serialize_with = "serialize::text")]
    pub version: Option<VersionReq>,
    /// Whether the skill cannot run without it. Default: true.
    pub required: bool,
    /// What it is needed for.
    pub reason: Option<String>,
    /// The arguments with which a program says its version; empty for the usual ones.
    pub version_arguments: Vec<String>,
}

/// A dependency that is needed under this name, in any version.
pub fn required_dependency(name: impl Into<String>) -> Dependency {
    Dependency {
        name: name.into(),
        version: None,
        required: true,
        reason: None,
        version_arguments: Vec::new(),
    }
}

/// A service, a variable or a file that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Infrastructure {
    /// Its name.
    pub name: String,
    /// What it is; `None` for what nothing can look for.
    pub kind: Option<InfrastructureKind>,
    /// Where it is: `HOST:PORT`, an address of the web, the name of a variable or a path.
    pub target: Option<String>,
    /// Whether the skill cannot run without it. Default: true.
    pub required: bool,
    /// What it is needed for.
    pub reason: Option<String>,
}

/// What a part of the infrastructure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InfrastructureKind {
    /// Something that accepts connections.
    Tcp,
    /// A server of the web.
    Http,
    /// An environment variable.
    Env,
    /// A file or folder.
    File,
}

const KINDS: [(&str, InfrastructureKind); 4] = [
    ("tcp", InfrastructureKind::Tcp),
    ("http", InfrastructureKind::Http),
    ("env", InfrastructureKind::Env),
    ("file", InfrastructureKind::File),
];

pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Dependencies {
    let Some(entries) = node.and_then(|node| fields::entries(node, "dependencies", report)) else {
        return Dependencies::default();
    };
    fields::unknown_keys(entries, &KEYS, "dependencies", report);
    let mut listed = |key: &str| {
        let nodes = fields::find(entries, key).and_then(|node| fields::items(node, key, report));
        let nodes = nodes.unwrap_or_default();
        if let Some(first) = nodes.get(MAX_ENTRIES) {
            let message = format!("there are more than {MAX_ENTRIES} entries under {key}");
            report.add(&lint::DEPENDENCY_INVALID, &first.span, message);
        }
        nodes.get(..MAX_ENTRIES).unwrap_or(nodes)
    };
    let (tools, skills, infrastructure) = (listed("tools"), listed("skills"), listed("infrastructure"));
    Dependencies {
        tools: tools.iter().filter_map(|node| dependency(node, "tools", &TOOL_KEYS, report)).collect(),
        skills: skills.iter().filter_map(|node| dependency(node, "skills", &SKILL_KEYS, report)).collect(),
        infrastructure: infrastructure.iter().filter_map(|node| infrastructure_part(node, report)).collect(),
    }
}

/// A dependency: a map with a name, or only the name. That of a skill may have a range of versions after an `@`.
fn dependency(node: &Node, key: &str, keys: &[&str], report: &mut DiagnosticSink<'_>) -> Option<Dependency> {
    let name = |node: &Node, report: &mut DiagnosticSink<'_>| {
        let name = dependency_name(node, key, report)?;
        match name.split_once('@').filter(|_| key == "skills") {
            Some((name, range)) => Some((name.to_owned(), Some(version_range(range, node, report)?))),
            None => Some((name, None)),
        }
    };
    if let Value::Scalar(_) = node.value {
        let (name, version) = name(node, report)?;
        return Some(Dependency {
            name,
            version,
            required: true,
            reason: None,
            version_arguments: Vec::new(),
        });
    }
    let entries = fields::entries(node, key, report)?;
    fields::unknown_keys(entries, keys, key, report);
    let value = |key: &str| fields::find(entries, key);
    let Some(name_node) = value("name") else {
        report.add(&lint::DEPENDENCY_INVALID, &node.span, format!("one of {key} has no `name`"));
        return None;
    };
    let (name, named_version) = name(name_node, report)?;
    let version = value("version").and_then(|node| {
        let text = fields::text(Some(node), "version", report)?;
        version_range(&text, node, report)
    });
    if let (Some(_), Some(_)) = (&named_version, &version) {
        let message = format!("the versions of {name} are given twice, after the name and under `version`");
        report.add(&lint::DEPENDENCY_INVALID, &name_node.span, message).help("keep one of them");
    }
    let words = value("version_command").filter(|_| keys.contains(&"version_command"));
    Some(Dependency {
        version_arguments: words.and_then(|node| version_arguments(node, &name, report)).unwrap_or_default(),
        name,
        version: named_version.or(version),
        required: is_required(value("required"), report),
        reason: fields::text(value("reason"), "reason", report),
    })
}

/// The arguments of a `version_command`. It names the program itself, and nothing but words that ask for a version: a program that is
/// asked runs before anybody has decided about the skill.
fn version_arguments(node: &Node, name: &str, report: &mut DiagnosticSink<'_>) -> Option<Vec<String>> {
    let text = fields::text(Some(node), "version_command", report)?;
    let mut words = text.split_whitespace().map(str::to_owned);
    let is_own = words.next().is_some_and(|program| program == name);
    let arguments: Vec<String> = words.collect();
    let asks = |word: &str| ["version", "--version", "-version", "-V", "-v"].contains(&word);
    let is_flag = |word: &str| {
        let name = word.strip_prefix("--").unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let is_harmless = arguments.iter().all(|word| asks(word) || is_flag(word));
    if is_own && is_harmless && arguments.len() <= MAX_ARGUMENTS && arguments.iter().any(|word| asks(word)) {
        return Some(arguments);
    }
    let message = format!("`{text}` does not ask {name} for its version");
    report.add(&lint::DEPENDENCY_INVALID, &node.span, message).help(format!(
        "write `{name} version`, `{name} --version` or `{name} -V`, with up to two more flags such as `--short`"
    ));
    None
}

fn infrastructure_part(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<Infrastructure> {
    let place = "infrastructure";
    if let Value::Scalar(_) = node.value {
        let name = fields::text(Some(node), place, report)?;
        return Some(Infrastructure { name, kind: None, target: None, required: true, reason: None });
    }
    let entries = fields::entries(node, place, report)?;
    fields::unknown_keys(entries, &INFRASTRUCTURE_KEYS, place, report);
    let value = |key: &str| fields::find(entries, key);
    let kind = value("kind").and_then(|node| infrastructure_kind(node, report));
    let target = fields::text(value("target"), "target", report);
    let at = value("target").unwrap_or(node);
    if let Some(kind) = kind
        && let Err(expected) = check_target(kind, target.as_deref().unwrap_or_default())
    {
        let message = format!("{expected} under `target`");
        report.add(&lint::DEPENDENCY_INVALID, &at.span, message);
        return None;
    }
    let name = fields::text(value("name"), "name", report).or_else(|| target.clone());
    let Some(name) = name else {
        report.add(&lint::DEPENDENCY_INVALID, &node.span, "one of infrastructure has no `name`");
        return None;
    };
    Some(Infrastructure {
        name,
        kind,
        target,
        required: is_required(value("required"), report),
        reason: fields::text(value("reason"), "reason", report),
    })
}

/// A kind that nobody knows is kept as none: what cannot be looked for is shown to people.
fn infrastructure_kind(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<InfrastructureKind> {
    let word = fields::text(Some(node), "kind", report)?;
    let known = KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    if known.is_none() {
        let message = format!("`{word}` is not a kind of infrastructure that metier can look for");
        report.add(&lint::KEY_UNKNOWN, &node.span, message).help("write tcp, http, env or file");
    }
    known
}

/// What is expected where the target does not fit its kind.
fn check_target(kind: InfrastructureKind, target: &str) -> Result<(), String> {
    let is_right = match kind {
        InfrastructureKind::Tcp => host_and_port(target).is_some(),
        InfrastructureKind::Http => ["http://", "https://"].iter().any(|scheme| {
            target.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        }),
        InfrastructureKind::Env => {
            return Permission::env(target).map(drop).map_err(|error| error.to_string());
        }
        InfrastructureKind::File => !target.is_empty() && !target.contains('\0'),
    };
    let expected = match kind {
        InfrastructureKind::Tcp => "write HOST:PORT",
        InfrastructureKind::Http => "write an address that begins with http:// or https://",
        _ => "write a path",
    };
    if is_right { Ok(()) } else { Err(expected.to_owned()) }
}

/// The parts of `HOST:PORT`; an address with colons stands in brackets.
pub fn host_and_port(target: &str) -> Option<(&str, u16)> {
    let (host, port) = target.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let is_host = !host.is_empty()
        && !host.contains(['/', '@', '[', ']'])
        && !host.contains(char::is_whitespace)
        && (bare.is_some() || !host.contains(':'));
    Some((host, port.parse().ok().filter(|port| *port > 0)?)).filter(|_| is_host)
}

fn is_required(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> bool {
    fields::flag(node, "required", report).unwrap_or(true)
}

/// The name of a dependency. It is looked up, so it must not be a path.
fn dependency_name(node: &Node, key: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let name = fields::text(Some(node), "name", report)?;
    if name.contains(['/', '\\', '\0']) {
        let message = format!("`{name}` under {key} is a path; dependencies are named");
        report.add(&lint::DEPENDENCY_INVALID, &node.span, message).help("write the name alone");
        return None;
    }
    Some(name)
}

fn version_range(text: &str, node: &Node, report: &mut DiagnosticSink<'_>) -> Option<VersionReq> {
    let parsed = parse_version_range(text);
    if parsed.is_none() {
        let message = format!("`{text}` is not a range of versions");
        report.add(&lint::DEPENDENCY_INVALID, &node.span, message).help("write it as `>=3.12.0` or `^1.2`");
    }
    parsed
}
