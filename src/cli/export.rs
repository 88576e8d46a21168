//! `metier export`: packages skills as a plug-in of Agent Plugins 1.0, whose server runs them in their sandbox, or writes their
//! definitions in the form of another system.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use metier::engine::Engine;
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::{ListedFile, Skill};
use metier::skill::{Profile, Severity, SkillLocation, parse};
use serde_json::json;

use super::export_definition;
use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The form of a plug-in.
const PLUGIN: &str = "plugin";
/// The identifiers of the two formats.
const PLUGIN_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
const SERVER_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
/// The most characters of a plug-in's name.
const MAX_NAME: usize = 64;
/// Maximum bytes of all files together.
const MAX_BYTES: u64 = 256 << 20;

/// The options of `metier export`.
#[derive(clap::Args)]
pub struct Args {
    /// The skills; those that they call come with them
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// A plug-in, or the form of another system, which holds the definition of a skill and not its scripts
    #[arg(long = "as", value_name = "FORM", value_parser = form_parser())]
    form: String,
    /// The folder that is made; of a definition, the folder for all skills [default: standard output]
    #[arg(long, value_name = "DIR", required_if_eq("form", PLUGIN))]
    out: Option<PathBuf>,
    /// The name of the plug-in [default: that of the first skill]
    #[arg(long, value_name = "NAME")]
    plugin_name: Option<String>,
}

/// Files by their paths in the plug-in.
type PluginFiles = BTreeMap<String, PluginFile>;

struct PluginFile {
    content: Vec<u8>,
    executable: bool,
}

fn form_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(PLUGIN).chain(export_definition::forms()))
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let Some(out) = args.out.as_deref().filter(|_| args.form == PLUGIN) else {
        return export_definition::run(&args.names, &args.form, args.out.as_deref(), session);
    };
    let engine = session.engine()?;
    let registry = engine.registry();
    let named = args.names.iter().map(|name| registry.find(name)).collect::<Result<Vec<_>>>()?;
    let name = plugin_name(args.plugin_name.as_deref().or(named.first().map(|skill| skill.name())))?;
    let mut skills: Vec<&Skill> = Vec::new();
    let mut by_name: HashMap<&str, &Skill> = HashMap::new();
    for &skill in &named {
        let callees = engine.skill_files(skill)?.callees;
        let callees = callees.iter().map(|callee| registry.find(&callee.qualified_name));
        for skill in std::iter::once(Ok(skill)).chain(callees) {
            let skill = skill?;
            match by_name.insert(skill.name(), skill) {
                None => skills.push(skill),
                Some(other) if other.qualified_name() == skill.qualified_name() => {}
                Some(other) => return Err(same_name_error(other, skill)),
            }
        }
    }
    let mut files = PluginFiles::new();
    let mut left = MAX_BYTES;
    for skill in &skills {
        add_skill(&engine, skill, &mut files, &mut left)?;
    }
    files.insert("plugin.json".to_owned(), json_file(&manifest(name, &named)));
    files.insert("mcp.json".to_owned(), json_file(&server(name)));
    write_plugin(out, &files)?;
    session.exit_watchdog().finish();
    let exported: Vec<&str> = skills.iter().map(|skill| skill.name()).collect();
    if session.json() {
        let path = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        let paths: Vec<&String> = files.keys().collect();
        output::print_json(&json!({"name": name, "path": path, "skills": exported, "files": paths}))?;
        return Ok(0);
    }
    let folder = escape_line(&out.display().to_string());
    output::print(&format!("made the plug-in {name} in {folder}, with {}", exported.join(", ")))?;
    output::eprint("its server is the command metier, which must be installed where the plug-in is used");
    Ok(0)
}

/// A name that every client accepts.
fn plugin_name(name: Option<&str>) -> Result<&str> {
    let name = name.unwrap_or_default();
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_valid = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| is_letter(&byte) || byte == b'-' || byte == b'.')
        && name.as_bytes().first().is_some_and(is_letter)
        && name.as_bytes().last().is_some_and(is_letter)
        && !name.contains("--")
        && !name.contains("..");
    if is_valid {
        return Ok(name);
    }
    let sentence = format!("{} cannot be the name of a plug-in", escape_line(name));
    Err(SkillError::new(ErrorKind::Usage, sentence).with_help(
        "choose another with --plugin-name: at most 64 lowercase letters, digits, and single `-` and `.` between them",
    ))
}

fn same_name_error(one: &Skill, other: &Skill) -> SkillError {
    let sentence =
        format!("{} and {} would have the same folder", one.qualified_name(), other.qualified_name());
    SkillError::new(ErrorKind::Usage, sentence).with_help("export them as two plug-ins")
}

/// Adds the files of a skill, as they were listed, of at most that many bytes.
fn add_skill(engine: &Engine, skill: &Skill, files: &mut PluginFiles, left: &mut u64) -> Result<()> {
    let listed = engine.skill_files(skill)?.files;
    for file in listed.files() {
        let content = read_file(skill, file, *left)?;
        *left -= file.size.min(*left);
        if file.path == "SKILL.md" {
            require_valid(skill, &content)?;
        }
        let path = format!("skills/{}/{}", skill.name(), file.path);
        files.insert(path, PluginFile { content, executable: file.executable });
    }
    if files.contains_key(&format!("skills/{}/SKILL.md", skill.name())) {
        return Ok(());
    }
    let sentence = format!("clients of Agent Plugins would not find the skill {}", skill.name());
    Err(SkillError::new(ErrorKind::InvalidSkill, sentence).with_help("call its file SKILL.md, in capitals"))
}

fn read_file(skill: &Skill, file: &ListedFile, left: u64) -> Result<Vec<u8>> {
    let refused = |what: &str, help: &str| {
        let sentence = format!("{} of the skill {} {what}", file.path, skill.name());
        Err(SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help))
    };
    if file.link {
        return refused("is a link, which a plug-in cannot have", "put the file there instead");
    }
    if file.size > left {
        return refused("makes the plug-in larger than 256 MiB", "remove what the skill does not need");
    }
    let content = skill.folder().read(&file.path, file.size)?;
    if !file.has_content(&content) {
        return refused("has changed while it was read", "export it again");
    }
    Ok(content)
}

/// Clients skip a skill that is not valid.
fn require_valid(skill: &Skill, content: &[u8]) -> Result<()> {
    let place = SkillLocation { directory: skill.name(), file_name: "SKILL.md" };
    let parsed = parse(content, place);
    let error = parsed.diagnostics(Profile::AgentPlugins).find(|found| found.severity == Severity::Error);
    let Some(error) = error else { return Ok(()) };
    let sentence =
        format!("clients of Agent Plugins would skip the skill {}: {}", skill.name(), error.message);
    let help = format!("see all with `metier validate {} --profile agent-plugins`", skill.path());
    Err(SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help))
}

fn manifest(name: &str, skills: &[&Skill]) -> serde_json::Value {
    let mut manifest = json!({"$schema": PLUGIN_SCHEMA, "name": name});
    if let [skill] = skills {
        manifest["version"] = json!(skill.version().to_string());
        manifest["description"] = json!(skill.description());
        if let Some(license) = &skill.manifest().license {
            manifest["license"] = json!(license);
        }
    } else {
        let names: Vec<&str> = skills.iter().map(|skill| skill.name()).collect();
        manifest["description"] = json!(format!("The skills {}", names.join(", ")));
    }
    manifest
}

/// The server: it serves the skills of the plug-in alone, which work in the folder that the client keeps for the plug-in.
fn server(name: &str) -> serde_json::Value {
    let arguments = ["mcp", "--skills", "${PLUGIN_ROOT}/skills", "--project", "${PLUGIN_DATA}"];
    let server = json!({"type": "stdio", "command": "metier", "args": arguments});
    json!({"$schema": SERVER_SCHEMA, "mcpServers": {name: server}})
}

fn json_file(value: &serde_json::Value) -> PluginFile {
    PluginFile { content: format!("{value:#}\n").into_bytes(), executable: false }
}

/// Makes the folder as a whole or not at all.
fn write_plugin(folder: &Path, files: &PluginFiles) -> Result<()> {
    let failed = |source| SkillError::io(format_args!("failed to make {}", folder.display()), source);
    if folder.symlink_metadata().is_ok() {
        let sentence = format!("{} exists already", folder.display());
        return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name a new folder with --out"));
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let draft = tempfile::Builder::new().prefix(".metier-export-").tempdir_in(parent).map_err(failed)?;
    let content = draft.path().join("plugin");
    let written = files.iter().try_for_each(|(path, file)| write_file(&content.join(path), file));
    written.and_then(|()| fs::rename(&content, folder)).map_err(failed)
}

fn write_file(path: &Path, file: &PluginFile) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, &file.content)?;
    #[cfg(unix)]
    if file.executable {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_plugin_is_one_that_clients_accept() {
        for name in ["my-plugin", "acme.tools", "lint3r", "a"] {
            assert!(plugin_name(Some(name)).is_ok(), "{name}");
        }
        let long = "a".repeat(65);
        for name in ["My-Plugin", "-start", "end.", "has--double", "too..many", "", "é", "a/b", &long] {
            assert!(plugin_name(Some(name)).is_err(), "{name}");
        }
    }
}
