//! Makes a skill folder of a definition: the files that it then has.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::contract::CONTRACT_FILES;
use crate::contract::fields::find;
use crate::formats::export::{ExportFormat, ExportSource, export};
use crate::name::is_allowed_name;
use crate::yaml::{self, Entry, Node, Value};
use crate::{Diagnostic, SkillLocation};
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Result, SkillError};

/// The keys of a skill in a workflow.
const INLINE_KEYS: [&str; 4] = ["name", "description", "instruction", "mcp"];
/// The folders of a skill that its text refers to.
const SKILL_FOLDERS: [&str; 3] = ["scripts", "references", "assets"];
/// The most paths of a text that are listed.
const MAX_MISSING: usize = 50;
/// The most skills of one file.
const MAX_SKILLS: usize = 100;

/// A skill, as the files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedSkill {
    /// The name of the folder.
    pub name: String,
    /// Its files, by their paths in the folder.
    pub files: Vec<(String, Vec<u8>)>,
    /// What is worth knowing about it.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that it names and that are not among its files, each as a path or as several of which one is enough. Without them it may
    /// not run.
    pub missing: Vec<String>,
}

/// The skills of a file with that name: a `SKILL.md`, a definition in any format, a manifest of AgentsKit with several skills, or a
/// workflow of SWEny with `skills`. `invalid-skill`, with the line, for a file that is none of them.
///
/// The definition is kept byte for byte, so a folder made here loses nothing.
pub fn import(file_name: &str, source: &[u8]) -> Result<Vec<ImportedSkill>> {
    if file_name.to_ascii_lowercase().ends_with(".md") {
        return import_skill_file(source).map(|skill| vec![skill]);
    }
    if let Some(skills) = import_parts(file_name, source)? {
        return Ok(skills);
    }
    let own_name =
        if file_name.to_ascii_lowercase().ends_with(".json") { "skill.json" } else { "skill.yaml" };
    import_definition(&Origin { file: file_name, part: None }, own_name, source).map(|skill| vec![skill])
}

/// A skill of a file with several.
struct Part {
    /// How the file calls it.
    name: String,
    /// Its own definition.
    definition: Json,
}

/// Where a definition comes from, for errors.
struct Origin<'a> {
    file: &'a str,
    /// The skill of a file with several. A place in its own definition is one in a text that nobody can look at.
    part: Option<&'a str>,
}

impl Origin<'_> {
    fn refusal(&self, reason: &str) -> SkillError {
        let part = self.part.map(|part| format!(": the skill `{}`", metier_core::excerpt::shorten(part, 60)));
        let sentence = format!("failed to import {}{}{reason}", self.file, part.unwrap_or_default());
        SkillError::new(ErrorKind::InvalidSkill, sentence)
    }

    /// The error for a definition with these diagnostics.
    fn refusal_of(&self, diagnostics: &[Diagnostic]) -> SkillError {
        let cause = diagnostics.iter().find(|found| found.blocks);
        let reason = cause.map(|cause| match self.part {
            None => format!(":{}:{}: {}", cause.line, cause.column, cause.message),
            Some(_) => format!(": {}", cause.message),
        });
        let error = self.refusal(&reason.unwrap_or_default());
        match cause.and_then(|cause| cause.help.clone()) {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}

fn import_part(file: &str, Part { name, definition }: &Part) -> Result<ImportedSkill> {
    let origin = Origin { file, part: Some(name) };
    import_definition(&origin, "skill.json", definition.to_string().as_bytes())
}

fn import_skill_file(source: &[u8]) -> Result<ImportedSkill> {
    let parsed = crate::parse(source, SkillLocation { directory: "", file_name: "SKILL.md" });
    let Some(manifest) = parsed.manifest else {
        return Err(Origin { file: "SKILL.md", part: None }.refusal_of(&parsed.diagnostics));
    };
    let name = folder_name(&manifest.name)?;
    let text = String::from_utf8_lossy(source);
    let mut missing: Vec<String> = manifest.entrypoint().map(str::to_owned).into_iter().collect();
    missing
        .extend(paths_in_text(&text).filter(|path| Some(*path) != manifest.entrypoint()).map(str::to_owned));
    let files = vec![("SKILL.md".to_owned(), source.to_vec())];
    Ok(ImportedSkill { name, files, diagnostics: Vec::new(), missing })
}

fn import_definition(origin: &Origin<'_>, own_name: &str, source: &[u8]) -> Result<ImportedSkill> {
    let is_definition_by_name = CONTRACT_FILES.contains(&origin.file) || origin.part.is_some();
    let (loaded, parsed) = if is_definition_by_name {
        super::parse_alone(own_name, source, "")
    } else {
        super::parse_passed(own_name, source)
    };
    let Some((manifest, contract)) = loaded.manifest.zip(parsed.contract) else {
        return Err(origin.refusal_of(&parsed.diagnostics));
    };
    if contract.name.is_none() {
        return Err(origin.refusal(": it has no name").with_help("write its name into it"));
    }
    let name = folder_name(&manifest.name)?;
    let mut files = vec![(own_name.to_owned(), source.to_vec())];
    // Other clients read a name in few letters only; a SKILL.md with another name would disagree with the definition.
    if is_allowed_name(&name) {
        let text = super::instructions(&contract);
        let skill = ExportSource { manifest: &manifest, contract: Some(&contract), text };
        files.insert(0, ("SKILL.md".to_owned(), export(ExportFormat::SkillMd, skill).text.into_bytes()));
    }
    let handlers = contract.format.handlers();
    let handler = (!handlers.is_empty()).then(|| handlers.join(" or "));
    let missing = contract.named_scripts().into_iter().map(str::to_owned).chain(handler).collect();
    Ok(ImportedSkill { name, files, diagnostics: parsed.diagnostics, missing })
}

/// The paths in a text below the folders that skills have, each once.
fn paths_in_text(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let words =
        text.split(move |c| !is_part(c)).map(|word| word.trim_end_matches('.').trim_start_matches("./"));
    let is_path = |word: &&str| {
        let rest = SKILL_FOLDERS.iter().find_map(|folder| word.strip_prefix(folder)?.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.ends_with('/')) && !word.contains("..")
    };
    let mut seen = HashSet::new();
    words.filter(is_path).filter(move |word| seen.insert(*word)).take(MAX_MISSING)
}

/// The skills of a file with several definitions, one after the other; `None` for a file with one.
fn import_parts(file_name: &str, source: &[u8]) -> Result<Option<Vec<ImportedSkill>>> {
    let Ok(text) = std::str::from_utf8(source) else { return Ok(None) };
    let text = without_mark(text);
    let tree = if file_name.to_ascii_lowercase().ends_with(".json") {
        super::json_text::parse_within(text, &(0..text.len()))
    } else {
        yaml::parse(text)
    };
    let Ok(Some(Node { value: Value::Map(entries), .. })) = tree.map(|tree| tree.root) else {
        return Ok(None);
    };
    let Some(skills) = find(&entries, "skills") else { return Ok(None) };
    let origin = Origin { file: file_name, part: None };
    let refused = |reason: String| origin.refusal(&format!(": {reason}"));
    let import = |part: std::result::Result<Part, String>| import_part(file_name, &part.map_err(refused)?);
    let is_manifest = find(&entries, "manifestVersion").is_some();
    let count = match &skills.value {
        Value::List(items) if is_manifest && items.len() > 1 => items.len(),
        Value::Map(inline) if find(&entries, "nodes").is_some() => inline.len(),
        _ => return Ok(None),
    };
    if count > MAX_SKILLS {
        return Err(refused(format!("it has more than {MAX_SKILLS} skills"))
            .with_help("import them from several files"));
    }
    match &skills.value {
        Value::List(items) => {
            let parts = items.iter().enumerate().map(|(at, item)| manifest_part(&entries, at, item));
            parts.map(import).collect::<Result<_>>().map(Some)
        }
        Value::Map(inline) => inline.iter().map(inline_skill).map(import).collect::<Result<_>>().map(Some),
        Value::Scalar(_) => Ok(None),
    }
}

/// A skill of a manifest as the same manifest with this skill alone, so that nothing of the manifest is lost.
fn manifest_part(manifest: &[Entry], at: usize, skill: &Node) -> std::result::Result<Part, String> {
    let mut definition = Map::new();
    for Entry { key, node, .. } in manifest.iter().filter(|entry| entry.key != "skills") {
        definition.insert(key.clone(), node.to_json().map_err(|error| error.message)?);
    }
    let skill = skill.to_json().map_err(|error| error.message)?;
    let name = skill["name"].as_str().map_or_else(|| format!("skills[{at}]"), str::to_owned);
    definition.insert("skills".to_owned(), Json::Array(vec![skill]));
    Ok(Part { name, definition: Json::Object(definition) })
}

/// A skill of a workflow as a skill object: its key is the id. It has a text or a server, and nothing else but a name.
fn inline_skill(Entry { key, node, .. }: &Entry) -> std::result::Result<Part, String> {
    let shown = metier_core::excerpt::shorten(key, 60);
    let Ok(Json::Object(fields)) = node.to_json() else {
        return Err(format!("the skill `{shown}` is not a map"));
    };
    if let Some(unknown) = fields.keys().find(|key| !INLINE_KEYS.contains(&key.as_str())) {
        let unknown = metier_core::excerpt::shorten(unknown, 60);
        let known = INLINE_KEYS.join(", ");
        return Err(format!("`{unknown}` is not a key of the skill `{shown}`, whose keys are {known}"));
    }
    let mut object = Map::new();
    object.insert("id".to_owned(), key.as_str().into());
    object.insert("name".to_owned(), key.as_str().into());
    object.insert("description".to_owned(), format!("Custom skill: {key}").into());
    object.insert("category".to_owned(), "general".into());
    object.insert("config".to_owned(), Json::Object(Map::new()));
    object.extend(fields);
    Ok(Part { name: key.clone(), definition: Json::Object(object) })
}

/// A name that is one folder.
fn folder_name(name: &str) -> Result<String> {
    let is_plain = |c: char| !c.is_control() && !"/\\:".contains(c);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    let sentence = format!("failed to import a skill: {name:?} cannot be the name of a folder");
    Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
        .with_help("write another name into its definition"))
}
